//! Upgrades: node by node with drains, refused before anything changes if a rule forbids it, and continued after a crash.

use crate::engine_side::Kill;
use crate::lab::Lab;
use crate::workload::b;
use serde_json::{Value, json};
use vnfm_core::ports::{Effects, ErrorKind, PortError};
use vnfm_plugin_sdk::join_all_limited;
use vnfm_sim::faults::{Fault, Rule};

pub(crate) const OLD: &str = "v1.36.2";
pub(crate) const NEW: &str = "v1.37.0";
/// More calls than the upgrade makes.
const CALLS: usize = 220;

impl Lab {
    /// A lab with a cluster and VNF-B, whose package then contains the archives of [`NEW`].
    pub(crate) async fn with_archives() -> Self {
        let (mut lab, _) = Self::with_vnf_b().await;
        lab.add_archives();
        lab
    }

    /// The archives of [`NEW`], in the package.
    pub(crate) fn add_archives(&mut self) {
        for name in ["kubeadm", "kubelet", "kubectl"] {
            let path = format!("Files/kubernetes/packages/{name}_1.37.0-1.1_amd64.deb");
            self.package.insert(path, name.into());
        }
    }

    /// A lab with a cluster whose hosts have a repository of packages.
    pub(crate) async fn with_repository() -> Self {
        let lab = Self::empty().await;
        for host in ["m1", "w1", "w2"] {
            lab.faults
                .add(Rule::new("host.repository", Fault::Status { status: 200 }).on(host));
        }
        lab.boot_all().await;
        lab.install().await.unwrap();
        lab
    }

    /// Runs a hook with the parameters of the instantiation and these; VNF-B depends on the cluster.
    pub(crate) async fn hook(&self, hook: &str, params: Value) -> Result<Effects, PortError> {
        self.run(self.hook_request(hook, &params), None)
            .await
            .unwrap()
    }

    pub(crate) fn hook_request(&self, hook: &str, params: &Value) -> vnfm_core::ports::HookRequest {
        let mut all = self.params();
        let own = params.as_object().unwrap().clone();
        all.as_object_mut().unwrap().extend(own);
        let mut request = self.request(hook, &all);
        request.dependents = vec![b()];
        request
    }

    pub(crate) async fn upgrade(&self) -> Result<Effects, PortError> {
        self.hook("change_current_package_end", json!({})).await
    }

    pub(crate) async fn undo_upgrade(&self) -> Result<Effects, PortError> {
        let mut request = self.hook_request("change_current_package_end", &json!({}));
        request.undo = true;
        self.run(request, None).await.unwrap()
    }

    pub(crate) fn kubelets(&self) -> [String; 3] {
        ["m1", "w1", "w2"].map(|name| {
            let node = self.node(name).unwrap();
            node["status"]["nodeInfo"]["kubeletVersion"]
                .as_str()
                .unwrap()
                .to_owned()
        })
    }

    /// Checks that everything has the new version and takes pods, and that the simulation saw no violation.
    pub(crate) fn assert_upgraded(&self) {
        assert_eq!(self.kubelets(), [NEW; 3]);
        assert_eq!(self.usable_nodes(), ["m1", "w1", "w2"]);
        let manifest = self.manifest();
        assert!(manifest.contains(NEW), "{manifest}");
        assert!(self.record().contains(NEW), "{}", self.record());
        assert_eq!(self.books.violations(), [""; 0]);
    }

    pub(crate) fn fail(&self, program: &str) {
        let fault = Fault::Exit {
            exit: 1,
            stderr: "no space left on device\n".into(),
        };
        self.faults.add(Rule::new("host.exec", fault).on(program));
    }

    /// How often a program of an upgrade was started on any host.
    fn changes(&self) -> usize {
        let hosts = ["m1", "w1", "w2"].iter();
        hosts
            .map(|host| self.count(host, "dpkg") + self.count(host, "kubeadm upgrade"))
            .sum()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_archives_of_a_package_upgrade_the_cluster_node_by_node() {
    let lab = Lab::with_archives().await;
    let effects = lab.upgrade().await.unwrap();
    lab.assert_upgraded();
    lab.wait_for_pods_of_b(2).await;
    assert_eq!(lab.count("m1", "kubeadm upgrade apply --yes v1.37.0"), 1);
    for worker in ["w1", "w2"] {
        assert_eq!(lab.count(worker, "kubeadm upgrade node"), 1);
    }
    assert_eq!(effects.metadata["kubernetesVersion"], NEW);
    assert_eq!(
        effects.metadata["kubeletVersions"],
        json!({ "m1": NEW, "w1": NEW, "w2": NEW })
    );
    let message = effects.message.unwrap();
    assert_eq!(message, "Kubernetes v1.37.0 runs on `m1`, `w1`, `w2`");
    let changes = lab.changes();
    lab.upgrade().await.unwrap();
    assert_eq!(lab.changes(), changes, "what has the version is left alone");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_successor_has_the_version_of_the_package() {
    let lab = Lab::with_archives().await;
    lab.upgrade().await.unwrap();
    lab.heal("heal_start", json!({}), &["w1"]).await.unwrap();
    lab.finish(&["w1"]).await;
    lab.assert_upgraded();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_version_is_installed_from_the_repository_of_the_hosts() {
    let lab = Lab::with_repository().await;
    let params = json!({ "cluster_action": "upgrade", "kubernetes_version": "1.36.3", "parallel_upgrades": 2 });
    lab.hook("operate_start", params.clone()).await.unwrap();
    lab.hook("operate_end", params).await.unwrap();
    assert_eq!(lab.kubelets(), ["v1.36.3"; 3]);
    assert_eq!(lab.books.violations(), [""; 0]);
    assert!(
        lab.texts()
            .contains("'kubelet=1.36.3-*' 'kubectl=1.36.3-*'"),
        "{}",
        lab.texts()
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upgrade_that_a_rule_forbids_changes_nothing() {
    let (lab, _) = Lab::with_vnf_b().await;
    for (version, words) in [
        ("v1.38.0", "would skip a minor version"),
        ("v1.35.9", "no way back to v1.35.9"),
        ("newest", "not a released version"),
    ] {
        for hook in [
            "operate_start",
            "operate_end",
            "change_current_package_start",
            "change_current_package_end",
        ] {
            let params = json!({ "cluster_action": "upgrade", "kubernetes_version": version });
            let error = lab.hook(hook, params).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Refused, "{error}");
            assert!(error.to_string().contains(words), "{error}");
        }
    }
    lab.cluster().cut_node("w2", true);
    let params = json!({ "kubernetes_version": NEW });
    let error = lab
        .hook("change_current_package_end", params)
        .await
        .unwrap_err();
    assert_eq!(error.name(), "node-not-ready");
    assert!(error.to_string().contains("`w2`"), "{error}");
    assert_eq!(lab.changes(), 0);
    assert_eq!(lab.kubelets(), [OLD; 3]);
    assert_eq!(lab.usable_nodes(), ["m1", "w1"], "no node was cordoned");
}

#[tokio::test(flavor = "multi_thread")]
async fn archives_of_several_versions_are_refused() {
    let mut lab = Lab::with_archives().await;
    lab.package
        .remove("Files/kubernetes/packages/kubectl_1.37.0-1.1_amd64.deb");
    let error = lab.upgrade().await.unwrap_err();
    assert!(
        error
            .to_string()
            .contains("needs kubeadm, kubelet and kubectl of one version"),
        "{error}"
    );
    assert_eq!(lab.changes(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_package_without_archives_upgrades_nothing() {
    let (lab, _) = Lab::with_vnf_b().await;
    let effects = lab.upgrade().await.unwrap();
    assert!(effects.message.unwrap().contains("nothing is upgraded"));
    assert_eq!(lab.changes(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_whose_upgrade_fails_returns_to_its_version() {
    for program in [
        "w1: kubeadm upgrade node",
        "w1: systemctl restart kubelet",
        "w1: dpkg",
    ] {
        let lab = Lab::with_archives().await;
        lab.fail(program);
        let error = lab.upgrade().await.unwrap_err();
        assert!(
            error.to_string().contains("no space left on device"),
            "{error}"
        );
        assert_eq!(lab.kubelets(), [NEW, OLD, OLD], "{program}");
        assert_eq!(lab.usable_nodes(), ["m1", "w1", "w2"], "{program}");
        let returns = lab.count("w1", "sh /run/vnfm/vnfm-kubernetes programs");
        assert_eq!(returns, 1, "{program}");
        let texts = lab.texts();
        assert!(
            texts.contains("`w1` has the version again that it had before"),
            "{texts}"
        );
        lab.upgrade().await.unwrap();
        lab.assert_upgraded();
        assert_eq!(
            lab.count("m1", "kubeadm upgrade apply"),
            1,
            "a retry goes on with what is left"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_budget_holds_the_upgrade_and_a_retry_completes_it() {
    let lab = Lab::with_archives().await;
    lab.create_budget();
    let params = json!({ "drain_timeout_seconds": 1 });
    let error = lab
        .hook("change_current_package_end", params)
        .await
        .unwrap_err();
    assert_eq!(
        (error.name(), error.kind()),
        ("drain-blocked", ErrorKind::Unavailable),
        "{error}"
    );
    assert_eq!(lab.kubelets(), [NEW, OLD, OLD]);
    assert_eq!(lab.usable_nodes(), ["m1", "w1", "w2"]);
    assert_eq!(lab.nodes_of_b(), ["w1", "w2"]);
    let budget = "/apis/policy/v1/namespaces/default/poddisruptionbudgets/web-stays";
    assert!(lab.cluster().delete(budget));
    lab.upgrade().await.unwrap();
    lab.assert_upgraded();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upgrade_that_a_worker_has_begun_goes_only_forward() {
    let lab = Lab::with_archives().await;
    assert!(
        lab.undo_upgrade().await.unwrap().message.is_none(),
        "nothing was done"
    );
    lab.fail("w2: kubeadm upgrade node");
    lab.upgrade().await.unwrap_err();
    let refused = lab.undo_upgrade().await.unwrap_err();
    assert_eq!(
        (refused.name(), refused.kind()),
        ("upgrade-irreversible", ErrorKind::Refused),
        "{refused}"
    );
    for words in ["`w1` has begun", "retry"] {
        assert!(refused.to_string().contains(words), "{refused}");
    }
    lab.upgrade().await.unwrap();
    lab.assert_upgraded();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_crash_at_any_call_leads_to_the_same_versions() {
    let kills = (1..CALLS)
        .step_by(9)
        .map(Kill::Before)
        .chain((5..CALLS).step_by(9).map(Kill::After));
    let killed = join_all_limited(8, kills.map(crash)).await;
    let reached = killed.iter().filter(|killed| **killed).count();
    assert!(reached > 15, "the driver was killed {reached} times only");
    assert!(
        reached < killed.len(),
        "the driver makes more calls than {CALLS}"
    );
}

/// Kills the VNFM at one call and starts it again; returns whether that call was reached.
async fn crash(kill: Kill) -> bool {
    let lab = Lab::with_archives().await;
    let request = lab.hook_request("change_current_package_end", &json!({}));
    let ended = lab.run(request, Some(kill)).await;
    if let Some(result) = &ended {
        result.as_ref().unwrap_or_else(|error| panic!("{error}"));
    } else {
        lab.upgrade()
            .await
            .unwrap_or_else(|error| panic!("after {kill:?}: {error}"));
    }
    lab.assert_upgraded();
    assert_eq!(
        lab.count("m1", "kubeadm upgrade apply"),
        1,
        "killed at {kill:?}"
    );
    lab.wait_for_pods_of_b(2).await;
    ended.is_none()
}

/// What kubectl prints while an API server restarts.
const NO_RESPONSE: [&str; 7] = [
    "The connection to the server m1:6443 was refused - did you specify the right host or port?",
    "Unable to connect to the server: net/http: TLS handshake timeout",
    "Error from server (Timeout): the server was unable to return a response in the time allotted",
    "Error from server (ServiceUnavailable): apiserver is shutting down",
    "Error from server (Forbidden): secrets \"vnfm\" is forbidden: User \"kubernetes-admin\" cannot get resource \"secrets\"",
    "Error from server: etcdserver: leader changed",
    "error: error validating \"/run/vnfm/cni.yaml\": error validating data: failed to download openapi: unknown",
];

impl Lab {
    /// Lets some calls of kubectl fail with this text.
    fn kubectl_prints(&self, text: &str, nth: u32, times: u32) {
        let fault = Fault::Exit {
            exit: 1,
            stderr: format!("{text}\n"),
        };
        let rule = Rule::new("host.exec", fault).on("kubectl");
        self.faults.add(rule.nth(nth, times));
    }

    /// How often kubectl was called since it first should fail.
    fn kubectl_calls(&self) -> u32 {
        self.faults.rules()[0].1
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_api_server_that_restarts_is_awaited() {
    let lab = Lab::with_archives().await;
    for (text, call) in NO_RESPONSE.iter().zip(1..) {
        lab.kubectl_prints(text, call, 1);
    }
    lab.upgrade().await.unwrap();
    lab.assert_upgraded();
    assert!(lab.kubectl_calls() as usize > NO_RESPONSE.len());
}

#[tokio::test(flavor = "multi_thread")]
async fn another_response_of_the_api_server_ends_the_upgrade_at_once() {
    let lab = Lab::with_archives().await;
    lab.kubectl_prints("error: unknown flag: --for-ever", 1, u32::MAX);
    let error = lab.upgrade().await.unwrap_err().to_string();
    assert!(error.contains("unknown flag"), "{error}");
    assert_eq!(lab.kubectl_calls(), 1);
}

/// kubeadm restarts the API server to which the kubelet reports: the node counts as silent for a while.
#[tokio::test(flavor = "multi_thread")]
async fn a_kubelet_that_stops_reporting_for_a_while_is_awaited_before_the_drain() {
    let lab = Lab::with_archives().await;
    let keep = "w1: sh /run/vnfm/vnfm-kubernetes keep";
    let slow = Rule::new("host.exec", Fault::Delay { delay_ms: 500 });
    lab.faults.add(slow.on(keep));
    let address = lab.address(2).to_string();
    let watch = async {
        while lab.count("w1", "sh /run/vnfm/vnfm-kubernetes keep") == 0 {
            tokio::task::yield_now().await;
        }
        lab.cluster().set_served(&address, false);
        let waits = |text: &String| text.contains("`w1` to be Ready");
        while !lab.messages.lock().unwrap().iter().any(waits) {
            tokio::task::yield_now().await;
        }
        lab.cluster().set_served(&address, true);
    };
    let (upgraded, ()) = tokio::join!(lab.upgrade(), watch);
    upgraded.unwrap();
    lab.assert_upgraded();
}

/// Until a controller manager leads, Services lead to pods that a drain has removed.
#[tokio::test(flavor = "multi_thread")]
async fn workers_are_drained_once_the_controllers_work_again() {
    let lab = Lab::with_archives().await;
    let lease = "apiVersion: coordination.k8s.io/v1\nkind: Lease\n\
        metadata: {name: kube-controller-manager, namespace: kube-system}\nspec: {renewTime: before}\n";
    lab.cluster().apply(lease).unwrap();
    let lead = async {
        let waits = |text: &String| text.contains("a leading kube-controller-manager");
        while !lab.messages.lock().unwrap().iter().any(waits) {
            tokio::task::yield_now().await;
        }
        assert_eq!(lab.kubelets()[0], NEW);
        assert_eq!(lab.count("w1", "kubeadm upgrade"), 0);
        assert_eq!(
            lab.usable_nodes(),
            ["m1", "w1", "w2"],
            "no worker is drained"
        );
        let path =
            "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/kube-controller-manager";
        let renewed = json!({ "spec": { "renewTime": "after" } });
        assert!(lab.cluster().merge(path, &renewed));
    };
    let (upgraded, ()) = tokio::join!(lab.upgrade(), lead);
    upgraded.unwrap();
    lab.assert_upgraded();
}
