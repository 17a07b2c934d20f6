//! A snapshot of etcd is restored when most control-plane hosts are off, and the others are healed then; nothing of a cluster is
//! lost because a file of it is missing.

use crate::engine_side::Kill;
use crate::lab::Lab;
use crate::shared_lab::{THREE, last_byte};
use serde_json::{Value, json};
use vnfm_core::ports::{Effects, ErrorKind, PortError};
use vnfm_sim::faults::{Fault, Rule};

const PASSPHRASE: &str = "planted passphrase";
const NOTE: &str = "/api/v1/namespaces/default/configmaps/note";
const ADMIN: &str = "/etc/kubernetes/admin.conf";
const KUBELET: &str = "/etc/kubernetes/kubelet.conf";
const UNFINISHED: &str = "/var/lib/vnfm/unfinished";

impl Lab {
    /// Runs an action on the cluster with three control-plane nodes.
    async fn action_on_three(
        &self,
        action: &Value,
        kill: Option<Kill>,
    ) -> Option<Result<Effects, PortError>> {
        let mut all = self.shared_params();
        let params = all.as_object_mut().unwrap();
        params.extend(action.as_object().unwrap().clone());
        let request = self.shared_request("operate_end", &all, &self.vnfcs(THREE, &[]));
        self.run(request, kill).await
    }

    /// Takes a snapshot of `text`, after which the cluster has another one; the snapshot's name.
    async fn with_snapshot(&self, text: &str) -> String {
        let note = |text: &str| {
            let metadata = json!({ "name": "note", "namespace": "default" });
            self.apply(&json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": { "text": text } }));
        };
        note(text);
        let backup = json!({ "cluster_action": "backup", "etcd_passphrase": PASSPHRASE });
        let effects = self.action_on_three(&backup, None).await.unwrap().unwrap();
        self.forget_checkpoints();
        note("another text");
        effects.metadata["etcdBackup"]["snapshot"]
            .as_str()
            .unwrap()
            .to_owned()
    }

    async fn restored(&self, name: &str) -> String {
        let restore = json!({ "cluster_action": "restore", "etcd_passphrase": PASSPHRASE, "etcd_snapshot": name });
        let effects = self.action_on_three(&restore, None).await.unwrap().unwrap();
        self.forget_checkpoints();
        effects.message.unwrap()
    }

    fn text_of_note(&self) -> Value {
        self.cluster().object(NOTE).unwrap()["data"]["text"].clone()
    }

    async fn replaced(&self, name: &str) {
        self.run_heal("heal_start", &[name]).await.unwrap();
        self.replace_server(name).await;
        self.run_heal("heal_end", &[name]).await.unwrap();
        self.forget_checkpoints();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn without_quorum_a_snapshot_is_restored_and_the_dead_are_healed_one_by_one() {
    let (lab, _) = Lab::with_three().await;
    let name = lab.with_snapshot("before").await;
    for dead in ["m1", "m3"] {
        lab.hosts.power_off(&format!("server-{dead}"));
    }
    let message = lab.restored(&name).await;
    let words =
        "on `m2`; heal `m1`, `m3` one after the other, and do not power on `m1`, `m3` before";
    assert!(message.contains(words), "{message}");
    assert_eq!(lab.members("m2"), ["m2"]);
    assert_eq!(lab.text_of_note(), "before");
    let uid = lab.cluster().uid();
    for dead in ["m1", "m3"] {
        lab.replaced(dead).await;
    }
    lab.assert_control_planes(THREE);
    assert_eq!(lab.members("m2"), *THREE);
    assert_eq!(lab.cluster().uid(), uid);
    assert_eq!(lab.text_of_note(), "before");
}

/// The others respond, but their etcd was stopped for the restore.
#[tokio::test(flavor = "multi_thread")]
async fn after_a_restore_the_node_with_the_data_is_healed_last() {
    let (lab, _) = Lab::with_three().await;
    let name = lab.with_snapshot("before").await;
    for lost in ["m1", "m2"] {
        let folder = "/var/lib/vnfm/etcd";
        lab.hosts.remove_file(&format!("server-{lost}"), folder);
    }
    let message = lab.restored(&name).await;
    assert!(
        message.contains("on `m3`; heal `m1`, `m2` one after"),
        "{message}"
    );
    assert!(!message.contains("power on"), "{message}");
    let refused = lab.run_heal("heal_start", &["m3"]).await.unwrap_err();
    assert_eq!(
        (refused.name(), refused.kind()),
        ("quorum-at-risk", ErrorKind::Refused),
        "{refused}"
    );
    assert!(
        refused
            .to_string()
            .contains("the control plane works on `m3` alone"),
        "{refused}"
    );
    for other in ["m1", "m2"] {
        lab.replaced(other).await;
    }
    lab.assert_control_planes(THREE);
    assert_eq!(lab.members("m3"), *THREE);
    assert_eq!(lab.text_of_note(), "before");
}

/// kubeadm writes the kubeconfigs of a control-plane node before its etcd and API server exist.
#[tokio::test(flavor = "multi_thread")]
async fn a_control_plane_that_lost_power_while_it_joined_joins_again() {
    let (lab, _) = Lab::with_three().await;
    lab.run_heal("heal_start", &["m3"]).await.unwrap();
    lab.replace_server("m3").await;
    let files = [
        (ADMIN, "kind: Config\n"),
        (KUBELET, "kind: Config\n"),
        (UNFINISHED, ""),
        ("/var/lib/vnfm/owner", "inst-1"),
    ];
    for (path, content) in files {
        lab.hosts.write_file("server-m3-new", path, content);
    }
    let metadata = json!({ "name": "m3" });
    let addresses =
        json!([{ "type": "InternalIP", "address": lab.address(last_byte("m3")).to_string() }]);
    lab.apply(&json!({ "apiVersion": "v1", "kind": "Node", "metadata": metadata, "status": { "addresses": addresses } }));
    lab.run_heal("heal_end", &["m3"]).await.unwrap();
    assert_eq!(
        lab.count("m3", "kubeadm reset"),
        2,
        "by `heal_start`, and what was left"
    );
    lab.assert_control_planes(THREE);
    assert_eq!(lab.members("m1"), *THREE);
    assert!(lab.hosts.file("server-m3-new", UNFINISHED).is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_whose_login_is_missing_is_not_installed_again_over_its_data() {
    let (lab, _) = Lab::with_vnf_b().await;
    lab.hosts.remove_file("server-m1", ADMIN);
    for hook in ["heal_start", "heal_end"] {
        let request = lab.heal_request(hook, &json!({}), &["w1"]);
        let refused = lab.run(request, None).await.unwrap().unwrap_err();
        assert_eq!(
            (refused.name(), refused.kind()),
            ("cluster-damaged", ErrorKind::Refused),
            "{refused}"
        );
        assert!(refused.to_string().contains(ADMIN), "{refused}");
    }
    assert_eq!(lab.count("m1", "kubeadm reset"), 0);
}

/// A backup was given up, and still runs on its host when a restore is requested.
#[tokio::test(flavor = "multi_thread")]
async fn a_step_waits_for_another_command_of_an_operation_that_was_given_up() {
    let (lab, _) = Lab::with_three().await;
    let name = lab.with_snapshot("before").await;
    let slow = Rule::new("host.exec", Fault::Delay { delay_ms: 1500 });
    lab.faults
        .add(slow.on("m1: sh /run/vnfm/vnfm-etcd save").nth(1, 1));
    let backup = json!({ "cluster_action": "backup", "etcd_passphrase": "another passphrase" });
    let saves = || lab.count("m1", "sh /run/vnfm/vnfm-etcd save");
    let before = saves();
    for call in 1.. {
        let killed = lab.action_on_three(&backup, Some(Kill::Before(call)));
        assert!(killed.await.is_none(), "killed while the command runs");
        if saves() > before {
            break;
        }
    }
    lab.forget_checkpoints();
    let message = lab.restored(&name).await;
    assert!(message.contains("on `m1`"), "{message}");
    assert_eq!(lab.text_of_note(), "before");
}

fn assert_other_cluster(result: Result<Effects, PortError>, host: &str) {
    let refused = result.unwrap_err();
    assert_eq!(
        (refused.name(), refused.kind()),
        ("other-cluster", ErrorKind::Refused),
        "{refused}"
    );
    let text = refused.to_string();
    assert!(
        text.contains(host) && text.contains("wipe the host"),
        "{text}"
    );
}

impl Lab {
    /// Makes a host a node of another instance's cluster.
    fn make_foreign(&self, server: &str) {
        for (path, content) in [
            (KUBELET, "kind: Config\n"),
            ("/var/lib/vnfm/owner", "another-instance"),
        ] {
            self.hosts.write_file(server, path, content);
        }
    }
}

/// A bare host that was not wiped, or is in use elsewhere.
#[tokio::test(flavor = "multi_thread")]
async fn a_host_of_another_cluster_is_refused_and_not_touched() {
    for host in ["m1", "w2"] {
        let lab = Lab::new().await;
        let server = format!("server-{host}");
        lab.hosts.write_file(&server, KUBELET, "kind: Config\n");
        lab.hosts.write_file(&server, ADMIN, "kind: Config\n");
        assert_other_cluster(lab.install().await, host);
        for name in ["m1", "w1", "w2"] {
            assert_eq!(lab.count(name, "kubeadm"), 0, "`{name}` was touched");
        }
        for path in [KUBELET, ADMIN] {
            lab.hosts.remove_file(&server, path);
        }
        let installed = lab.install().await.unwrap();
        lab.check(&installed);
    }
    let (lab, _) = Lab::with_vnf_b().await;
    lab.boot_added().await;
    lab.make_foreign("server-w3");
    let request = lab.scale_request("scale_end", &json!({}), (2, 4));
    assert_other_cluster(lab.run(request, None).await.unwrap(), "w3");
    assert_eq!(lab.count("w3", "kubeadm reset"), 0);
}

/// Each host that replaces one, when nothing of the old cluster is left.
#[tokio::test(flavor = "multi_thread")]
async fn a_heal_of_everything_takes_no_host_of_another_cluster() {
    for foreign in ["m1", "w2"] {
        let (lab, _) = Lab::with_vnf_b().await;
        let all = ["m1", "w1", "w2"];
        let accepted = json!({ "accept_cluster_loss": true });
        lab.heal("heal_start", accepted.clone(), &all)
            .await
            .unwrap();
        lab.replace(&all).await;
        let server = format!("server-{foreign}-new");
        lab.make_foreign(&server);
        let resets = || all.map(|name| lab.count(name, "kubeadm reset"));
        let before = resets();
        let refused = lab.heal("heal_end", accepted.clone(), &all).await;
        assert_other_cluster(refused, foreign);
        assert_eq!(resets(), before, "no host was reset");
        for path in [KUBELET, "/var/lib/vnfm/owner"] {
            lab.hosts.remove_file(&server, path);
        }
        let healed = lab.heal("heal_end", accepted, &all).await.unwrap();
        lab.check(&healed);
    }
}
