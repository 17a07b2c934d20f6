//! Actions on a cluster: what `check` shows, the renewal of certificates and of the VIM's login.

use crate::engine_side::Kill;
use crate::lab::Lab;
use crate::shared_lab::THREE;
use serde_json::{Value, json};
use vnfm_core::ports::{Effects, ErrorKind};
use vnfm_plugin_sdk::join_all_limited;

/// More calls than a renewal makes.
const CALLS: usize = 60;
const SECRETS: &str = "/api/v1/namespaces/kube-system/secrets";

impl Lab {
    async fn act(&self, action: &str) -> Effects {
        self.hook("operate_end", json!({ "cluster_action": action }))
            .await
            .unwrap()
    }

    /// The label with which each component of the control plane was restarted.
    fn restarts(&self) -> Vec<Value> {
        let pod = |component: &str| format!("/api/v1/namespaces/kube-system/pods/{component}-m1");
        let components = [
            "etcd",
            "kube-apiserver",
            "kube-controller-manager",
            "kube-scheduler",
        ];
        let pods =
            components.map(|component| self.cluster().object(&pod(component)).unwrap_or_default());
        pods.iter()
            .map(|pod| pod["metadata"]["labels"]["vnfm.dev/restarted"].clone())
            .collect()
    }

    /// Whether a request with this token succeeds.
    async fn accepts(&self, token: &str) -> bool {
        self.is_trusted(&self.cluster().ca_pem(), token).await
    }

    /// The same, for a client that trusts this CA.
    pub(crate) async fn is_trusted(&self, ca: &str, token: &str) -> bool {
        let ca = reqwest::Certificate::from_pem(ca.as_bytes()).unwrap();
        let client = reqwest::Client::builder()
            .no_proxy()
            .tls_certs_only([ca])
            .build()
            .unwrap();
        let url = format!("{}/api/v1/nodes", self.cluster().server());
        client
            .get(url)
            .bearer_auth(token)
            .send()
            .await
            .is_ok_and(|response| response.status() == 200)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_check_shows_versions_and_certificates() {
    let (lab, _) = Lab::with_vnf_b().await;
    let effects = lab.act("check").await;
    assert_eq!(effects.metadata["kubernetesVersion"], "v1.36.2");
    assert_eq!(effects.metadata["kubeletVersions"]["w2"], "v1.36.2");
    let status = json!({ "m1": "Ready", "w1": "Ready", "w2": "Ready" });
    assert_eq!(effects.metadata["nodeStatus"], status);
    assert_eq!(
        effects.metadata["certificateExpiry"]["m1"]["apiserver"],
        "2027-01-01T00:00:00Z"
    );
    assert_eq!(
        effects.message.unwrap(),
        "Kubernetes v1.36.2 on 3 nodes, 0 of them not Ready; the first certificate to expire is `admin.conf` on `m1`, at \
         2027-01-01T00:00:00Z"
    );
    assert!(effects.register_vims.is_empty());
    lab.cluster().cut_node("w2", true);
    let effects = lab.act("check").await;
    assert_eq!(effects.metadata["nodeStatus"]["w2"], "NotReady");
}

#[tokio::test(flavor = "multi_thread")]
async fn certificates_are_renewed_and_every_component_restarts() {
    let (lab, _) = Lab::with_vnf_b().await;
    let effects = lab.act("renew_certificates").await;
    assert_eq!(
        effects.metadata["certificateExpiry"]["m1"]["apiserver"],
        "2028-01-01T00:00:00Z"
    );
    let restarts = lab.restarts();
    assert!(
        restarts[0].is_string() && restarts.iter().all(|id| *id == restarts[0]),
        "{restarts:?}"
    );
    assert_eq!(lab.count("m1", "kubeadm certs renew all"), 1);
    assert_eq!(lab.count("w1", "kubeadm certs"), 0);
    assert_eq!(lab.nodes_of_b(), ["w1", "w2"], "VNF-B runs where it ran");
    assert_eq!(lab.books.violations(), [""; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_renewal_goes_on_after_a_crash() {
    let kills = (1..CALLS)
        .step_by(5)
        .map(Kill::Before)
        .chain((3..CALLS).step_by(5).map(Kill::After));
    let killed = join_all_limited(8, kills.map(crash)).await;
    let reached = killed.iter().filter(|killed| **killed).count();
    assert!(
        reached > 4 && reached < killed.len(),
        "the driver was killed {reached} times"
    );
}

/// Nobody gets a response of the API server any more.
#[tokio::test(flavor = "multi_thread")]
async fn certificates_that_have_expired_are_renewed() {
    let kills = (1..CALLS).step_by(12).map(|call| Some(Kill::After(call)));
    let killed = join_all_limited(4, [None].into_iter().chain(kills).map(renewal_after_expiry));
    let reached = killed.await.into_iter().filter(|killed| *killed).count();
    assert!(reached > 2, "the driver was killed {reached} times");
}

/// Lets all certificates expire and renews them, killed at one call; returns whether that call was reached.
async fn renewal_after_expiry(kill: Option<Kill>) -> bool {
    let (lab, _) = Lab::with_three().await;
    for name in THREE {
        lab.hosts.expire_certificates(&format!("server-{name}"));
    }
    let mut params = lab.shared_params();
    params["cluster_action"] = json!("renew_certificates");
    let request = || lab.shared_request("operate_end", &params, &lab.vnfcs(THREE, &[]));
    let is_killed = kill.is_some() && lab.run(request(), kill).await.is_none();
    let renewed = lab.run(request(), None).await.unwrap().unwrap();
    for name in THREE {
        let expiry = &renewed.metadata["certificateExpiry"][name]["apiserver"];
        assert_eq!(*expiry, "2028-01-01T00:00:00Z", "{name}, {kill:?}");
        let path = format!("/api/v1/namespaces/kube-system/pods/kube-apiserver-{name}");
        let pod = lab.cluster().object(&path).unwrap();
        let restarted = &pod["metadata"]["labels"]["vnfm.dev/restarted"];
        assert!(restarted.is_string(), "{name}, {kill:?}: {pod}");
    }
    is_killed
}

/// Kills the VNFM at one call and starts it again; returns whether that call was reached.
async fn crash(kill: Kill) -> bool {
    let (lab, _) = Lab::with_vnf_b().await;
    let request = lab.hook_request(
        "operate_end",
        &json!({ "cluster_action": "renew_certificates" }),
    );
    let ended = lab.run(request, Some(kill)).await;
    if let Some(result) = &ended {
        result.as_ref().unwrap_or_else(|error| panic!("{error}"));
    } else {
        lab.act("renew_certificates").await;
    }
    let restarts = lab.restarts();
    assert!(
        restarts[0].is_string() && restarts.iter().all(|id| *id == restarts[0]),
        "{kill:?}: {restarts:?}"
    );
    for component in ["etcd", "kube-scheduler"] {
        let program = format!("sh /run/vnfm/vnfm-kubernetes restart {component}");
        assert!(lab.count("m1", &program) <= 2, "{kill:?}");
    }
    ended.is_none()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_login_is_registered_before_the_old_one_is_deleted() {
    let (lab, first) = Lab::with_vnf_b().await;
    let old = first.register_vims[0].access_info["bearer_token"]
        .as_str()
        .unwrap()
        .to_owned();
    let renewed = lab.act("renew_login").await;
    let vim = &renewed.register_vims[0];
    assert_eq!(
        (&vim.name, &vim.interface_info),
        (
            &first.register_vims[0].name,
            &first.register_vims[0].interface_info
        )
    );
    let new = vim.access_info["bearer_token"].as_str().unwrap();
    assert_ne!(old, new);
    assert!(
        lab.accepts(&old).await && lab.accepts(new).await,
        "both are valid until the new one is registered"
    );
    assert_eq!(renewed.metadata["kubernetesLogin"], "vnfm-token-2");

    // The metadata say that the first is registered, as if the operation had failed after the hook: nothing is deleted.
    lab.act("check").await;
    assert!(lab.accepts(&old).await);
    let mut request = lab.hook_request("operate_end", &json!({ "cluster_action": "check" }));
    request.instance.metadata = renewed.metadata.clone();
    lab.run(request, None).await.unwrap().unwrap();
    let secrets = lab.cluster().object(SECRETS).unwrap().to_string();
    assert!(
        !secrets.contains("\"vnfm-token\"") && secrets.contains("\"vnfm-token-2\""),
        "{secrets}"
    );
    assert!(lab.accepts(new).await);
    lab.act("check").await;
    let texts = lab.texts();
    assert!(
        !texts.contains(&old) && !texts.contains(new),
        "a secret can be read"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_check_and_a_new_login_leave_out_a_control_plane_that_is_off() {
    let (lab, _) = Lab::with_three().await;
    lab.hosts.power_off("server-m1");
    let request = |action: &str| {
        let mut params = lab.shared_params();
        params["cluster_action"] = json!(action);
        lab.shared_request("operate_end", &params, &lab.vnfcs(THREE, &[]))
    };
    let renewed = lab.run(request("renew_login"), None).await.unwrap();
    let mut check = request("check");
    check.instance.metadata = renewed.unwrap().metadata;
    let checked = lab.run(check, None).await.unwrap().unwrap();
    let dates = checked.metadata["certificateExpiry"].as_object().unwrap();
    assert_eq!(dates.keys().collect::<Vec<_>>(), ["m2", "m3"]);
    let members = json!({ "m1": "not responding", "m2": "healthy", "m3": "healthy" });
    assert_eq!(checked.metadata["etcdMembers"], members);
    let message = checked.message.unwrap();
    assert!(
        message.contains("`m1` did not respond, so that the certificates there are not known"),
        "{message}"
    );
    let secrets = lab.cluster().object(SECRETS).unwrap().to_string();
    assert!(
        !secrets.contains("\"vnfm-token\"") && secrets.contains("\"vnfm-token-2\""),
        "{secrets}"
    );
}

/// A power cut while the API server and etcd of `m1` are stopped, so that without `m3` the cluster has no quorum.
#[tokio::test(flavor = "multi_thread")]
async fn what_an_interrupted_restart_has_stopped_starts_again() {
    for (action, is_undone) in [("check", false), ("renew_certificates", true)] {
        let (lab, _) = Lab::with_three().await;
        let stopped = |file: &str| format!("/etc/kubernetes/vnfm-stopped/{file}");
        for file in ["etcd.yaml", "kube-apiserver.yaml", "restarting"] {
            lab.hosts.write_file("server-m1", &stopped(file), "");
        }
        lab.hosts.power_off("server-m3");
        let mut params = lab.shared_params();
        params["cluster_action"] = json!(action);
        let mut request = lab.shared_request("operate_end", &params, &lab.vnfcs(THREE, &[]));
        request.undo = is_undone;
        lab.run(request, None).await.unwrap().unwrap();
        let left = lab.hosts.file("server-m1", &stopped("etcd.yaml"));
        assert!(left.is_none(), "{action}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_action_needs_a_started_vnf_and_is_optional() {
    let (lab, _) = Lab::with_vnf_b().await;
    let mut request = lab.hook_request(
        "operate_start",
        &json!({ "cluster_action": "renew_certificates" }),
    );
    let mut operate = vnfm_core::ports::HookOperate::default();
    operate.change_state_to = "STOPPED".into();
    request.operate = Some(operate);
    let error = lab.run(request, None).await.unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Refused);
    assert!(
        error.to_string().contains("changeStateTo STARTED"),
        "{error}"
    );
    let commands = lab.books.calls_named("ssh.run").len();
    for hook in ["operate_start", "operate_end"] {
        let effects = lab.hook(hook, json!({})).await.unwrap();
        assert!(effects.message.is_none());
    }
    assert_eq!(
        lab.books.calls_named("ssh.run").len(),
        commands,
        "a start or stop alone does not concern the cluster"
    );
}

const PASSPHRASE: &str = "planted passphrase";
const NOTE: &str = "/api/v1/namespaces/default/configmaps/note";

impl Lab {
    async fn back_up(&self, keep: u32) -> String {
        let params = json!({ "cluster_action": "backup", "etcd_passphrase": PASSPHRASE, "etcd_snapshots_to_keep": keep });
        let effects = self.hook("operate_end", params).await.unwrap();
        // A checkpoint belongs to one operation.
        self.forget_checkpoints();
        let snapshots = effects.metadata["etcdSnapshots"]["m1"].as_object().unwrap();
        assert!(snapshots.len() <= keep as usize, "{snapshots:?}");
        snapshots.keys().next_back().unwrap().clone()
    }

    async fn restore(
        &self,
        snapshot: &str,
        passphrase: &str,
    ) -> Result<Effects, vnfm_core::ports::PortError> {
        let params = json!({ "cluster_action": "restore", "etcd_passphrase": passphrase, "etcd_snapshot": snapshot });
        self.hook("operate_end", params).await
    }

    fn note(&self, text: &str) {
        let metadata = json!({ "name": "note", "namespace": "default" });
        self.apply(&json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": { "text": text } }));
    }

    fn noted(&self) -> Value {
        self.cluster().object(NOTE).unwrap()["data"]["text"].clone()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_snapshot_brings_back_what_the_cluster_had() {
    let (lab, first) = Lab::with_vnf_b().await;
    lab.note("before");
    let name = lab.back_up(5).await;
    lab.note("after");
    let effects = lab.restore(&name, PASSPHRASE).await.unwrap();
    assert_eq!(lab.noted(), "before");
    assert_eq!(
        effects.register_vims[0].name, first.register_vims[0].name,
        "the login is that of the snapshot"
    );
    assert!(
        lab.hosts
            .file("server-m1", "/run/vnfm/etcd-passphrase")
            .is_none()
    );
    let mut undo = lab.hook_request("operate_end", &json!({ "cluster_action": "restore" }));
    undo.undo = true;
    let refused = lab.run(undo, None).await.unwrap().unwrap_err();
    assert_eq!(refused.name(), "restore-irreversible");
    assert!(
        !lab.texts().contains(PASSPHRASE),
        "the passphrase can be read"
    );
    assert_eq!(lab.books.violations(), [""; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn old_snapshots_go_and_unusable_ones_are_refused() {
    let (lab, _) = Lab::with_vnf_b().await;
    let oldest = lab.back_up(2).await;
    lab.back_up(2).await;
    let last = lab.back_up(2).await;
    lab.note("now");
    let files = lab.hosts.files("server-m1");
    assert_eq!(
        files
            .iter()
            .filter(|path| path.contains("/var/lib/vnfm/etcd/"))
            .count(),
        2,
        "{files:?}"
    );
    let other = format!("0123456789ab{}", &last[12..]);
    for (name, passphrase, code, words) in [
        (oldest.as_str(), PASSPHRASE, "no-snapshot", "put its file"),
        (other.as_str(), PASSPHRASE, "no-snapshot", "put its file"),
        (
            "../../etc/passwd",
            PASSPHRASE,
            "bad-parameters",
            "etcd_snapshot",
        ),
        (last.as_str(), "short", "bad-parameters", "12 characters"),
        (
            last.as_str(),
            "another passphrase",
            "etcd-failed",
            "the passphrase is not that of the snapshot",
        ),
    ] {
        let error = lab.restore(name, passphrase).await.unwrap_err();
        assert_eq!(error.name(), code, "{error}");
        assert!(error.to_string().contains(words), "{error}");
        assert_eq!(lab.noted(), "now");
    }
}
