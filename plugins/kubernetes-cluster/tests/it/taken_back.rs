//! What an upgrade that failed, was killed or is rolled back leaves on the first control-plane node: what it had before.

use crate::engine_side::Kill;
use crate::lab::Lab;
use crate::upgrade::{NEW, OLD};
use serde_json::json;
use vnfm_core::ports::{Effects, PortError};
use vnfm_plugin_sdk::join_all_limited;
use vnfm_sim::faults::{Fault, Rule};

/// The paths of what kubeadm has recorded: of the cluster, and of the kubelets.
const RECORD: &str = "/api/v1/namespaces/kube-system/configmaps/kubeadm-config";
const KUBELETS: &str = "/api/v1/namespaces/kube-system/configmaps/kubelet-config";
const MEANWHILE: &str = "/api/v1/namespaces/meanwhile";

impl Lab {
    /// What kubeadm has recorded.
    pub(crate) fn record(&self) -> String {
        self.cluster().object(RECORD).unwrap().to_string()
    }

    pub(crate) fn manifest(&self) -> String {
        self.text("m1", "/etc/kubernetes/manifests/kube-apiserver.yaml")
    }

    pub(crate) fn etcd_manifest(&self, host: &str) -> String {
        self.text(host, "/etc/kubernetes/manifests/etcd.yaml")
    }

    /// Checks that the first control-plane node and the records have the old version, and that no copy of etcd is left.
    pub(crate) fn assert_taken_back(&self) {
        let (manifest, etcd) = (self.manifest(), self.etcd_manifest("m1"));
        assert!(manifest.contains(OLD), "{manifest}");
        assert!(etcd.contains("etcd:3.6."), "{etcd}");
        let kubelets = self.cluster().object(KUBELETS).unwrap().to_string();
        for record in [self.record(), kubelets] {
            assert!(record.contains(OLD) && !record.contains(NEW), "{record}");
        }
        assert_ne!(self.text("m1", "/usr/bin/kubeadm"), NEW);
        assert_eq!(self.text("m1", "/var/lib/vnfm/kubernetes/etcd.db"), "");
    }

    /// Writes something to the cluster.
    pub(crate) fn write(&self) {
        self.apply(&json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": "meanwhile" } }));
    }

    /// Whether the cluster has what [`Lab::write`] has written.
    pub(crate) fn has_written(&self) -> bool {
        self.cluster().object(MEANWHILE).is_some()
    }

    /// The number of the last call of a program on a host that began with these words.
    fn last(&self, subject: &str) -> u64 {
        let calls = self.books.calls_named("host.exec");
        let mut own = calls.iter().filter(|c| c.subject.starts_with(subject));
        own.next_back().unwrap_or_else(|| panic!("no {subject}")).n
    }

    /// Lets a program on `m1` take its time, so that its step still runs when the next call comes.
    fn slow(&self, program: &str) {
        let slow = Fault::Delay { delay_ms: 700 };
        let rule = Rule::new("host.exec", slow).on(format!("m1: {program}"));
        self.faults.add(rule.nth(1, 1));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_control_plane_whose_upgrade_fails_gets_its_manifests_back() {
    let lab = Lab::with_archives().await;
    lab.fail("m1: kubeadm upgrade apply");
    let error = lab.upgrade().await.unwrap_err();
    assert_eq!(error.name(), "upgrade-apply-failed");
    assert_eq!(lab.kubelets(), [OLD; 3]);
    lab.assert_taken_back();
    let undone = lab.undo_upgrade().await.unwrap();
    assert!(undone.message.unwrap().contains("what it had before"));
    assert_eq!(lab.books.violations(), [""; 0]);
    lab.upgrade().await.unwrap();
    lab.assert_upgraded();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_apply_that_failed_after_it_recorded_the_version_runs_again() {
    // The retry finds what the failure has left: with or without what was there before.
    for is_taken_back in [true, false] {
        let lab = Lab::with_archives().await;
        lab.fail("m1: kubeadm upgrade apply");
        if !is_taken_back {
            lab.fail("m1: sh /run/vnfm/vnfm-etcd back");
        }
        lab.upgrade().await.unwrap_err();
        assert_eq!(lab.record().contains(OLD), is_taken_back);
        lab.upgrade().await.unwrap();
        assert_eq!(lab.count("m1", "kubeadm upgrade apply"), 2);
        lab.assert_upgraded();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_record_without_its_manifests_is_not_an_upgrade() {
    let lab = Lab::with_archives().await;
    let config = format!("kind: ClusterConfiguration\nkubernetesVersion: {NEW}\n");
    lab.cluster().merge(
        RECORD,
        &json!({ "data": { "ClusterConfiguration": config } }),
    );
    lab.upgrade().await.unwrap();
    assert_eq!(lab.count("m1", "kubeadm upgrade apply"), 1);
    lab.assert_upgraded();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rollback_puts_back_what_kubeadm_has_recorded() {
    let lab = Lab::with_archives().await;
    lab.fail("m1: kubeadm upgrade apply");
    lab.fail("m1: sh /run/vnfm/vnfm-etcd back");
    lab.upgrade().await.unwrap_err();
    assert!(lab.record().contains(NEW), "{}", lab.record());
    lab.undo_upgrade().await.unwrap();
    lab.assert_taken_back();
    assert_eq!(lab.books.violations(), [""; 0]);
    // Another operation counts from the version that the cluster has.
    lab.forget_checkpoints();
    lab.upgrade().await.unwrap();
    lab.assert_upgraded();
}

#[tokio::test(flavor = "multi_thread")]
async fn programs_go_back_only_after_their_package_manager_has_ended() {
    for program in ["dpkg", "ctr"] {
        let mut lab = Lab::with_archives().await;
        let image = "Files/images/pause.tar";
        lab.package.insert(image.into(), b"an image".to_vec());
        let mut request = lab.hook_request("change_current_package_end", &json!({}));
        request.additional_params["k8s_cluster_installation_param"]["images_path"] =
            json!("Files/images");
        lab.slow(program);
        let step = if program == "dpkg" {
            "packages"
        } else {
            "images"
        };
        // The attempt loses sight of the step, and the step goes on.
        let lost = Fault::Exit {
            exit: 1,
            stderr: String::new(),
        };
        let wait = format!("m1: sh /run/vnfm/vnfm-step wait {step}");
        lab.faults
            .add(Rule::new("host.exec", lost).on(wait).nth(1, 1));
        let error = lab.run(request, None).await.unwrap().unwrap_err();
        assert_eq!(error.name(), format!("{step}-lost"), "{error}");
        let (ended, back) = (
            lab.last(&format!("m1: {program}")),
            lab.last("m1: sh /run/vnfm/vnfm-kubernetes programs"),
        );
        assert!(ended < back, "{program}: {ended} {back}");
        lab.assert_taken_back();
        lab.upgrade().await.unwrap();
        lab.assert_upgraded();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rollback_waits_for_the_package_manager_of_a_killed_attempt() {
    let lab = Lab::with_archives().await;
    lab.slow("dpkg");
    let request = lab.hook_request("change_current_package_end", &json!({}));
    let ended = lab.run(request, Some(Kill::Asking("wait packages"))).await;
    assert!(ended.is_none(), "the driver was not killed");
    lab.undo_upgrade().await.unwrap();
    let (ended, back) = (
        lab.last("m1: dpkg"),
        lab.last("m1: sh /run/vnfm/vnfm-kubernetes programs"),
    );
    assert!(ended < back, "{ended} {back}");
    lab.assert_taken_back();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_control_plane_that_is_applied_can_go_back_until_a_worker_begins() {
    let lab = Lab::with_archives().await;
    lab.fail("m1: systemctl restart kubelet");
    lab.upgrade().await.unwrap_err();
    assert!(lab.manifest().contains(NEW) && lab.etcd_manifest("m1").contains("etcd:3.7."));
    lab.write();
    lab.undo_upgrade().await.unwrap();
    lab.assert_taken_back();
    assert_eq!(lab.kubelets(), [OLD; 3]);
    assert_eq!(lab.usable_nodes(), ["m1", "w1", "w2"]);
    assert!(!lab.has_written(), "the only member has its old data");
    assert_eq!(lab.books.violations(), [""; 0]);
    lab.forget_checkpoints();
    lab.upgrade().await.unwrap();
    lab.assert_upgraded();
    assert_eq!(lab.count("m1", "kubeadm upgrade apply"), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_later_patch_of_the_same_etcd_is_taken_back_with_its_data() {
    let lab = Lab::with_repository().await;
    let params = json!({ "cluster_action": "upgrade", "kubernetes_version": "1.36.3" });
    lab.fail("m1: systemctl restart kubelet");
    lab.hook("operate_end", params.clone()).await.unwrap_err();
    lab.write();
    let mut undo = lab.hook_request("operate_end", &params);
    undo.undo = true;
    lab.run(undo, None).await.unwrap().unwrap();
    lab.assert_taken_back();
    assert!(
        !lab.has_written(),
        "kube-proxy and CoreDNS are of the old version, too"
    );
}

impl Lab {
    /// Runs the change of the package on a cluster of one node.
    async fn upgrade_single(&self, undo: bool) -> Result<Effects, PortError> {
        let mut request = self.single_request("change_current_package_end");
        request.undo = undo;
        self.run(request, None).await.unwrap()
    }
}

/// No other node begins an upgrade that could end the way back.
#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_of_one_node_can_go_back_until_its_add_ons_are_applied() {
    let mut lab = Lab::empty().await;
    lab.boot((1, "m1"), "m1").await;
    let install = lab.single_request("instantiate_end");
    lab.run(install, None).await.unwrap().unwrap();
    lab.add_archives();
    lab.forget_checkpoints();
    let apply = "m1: kubectl --kubeconfig=/etc/kubernetes/admin.conf apply";
    lab.fail(apply);
    lab.upgrade_single(false).await.unwrap_err();
    assert!(lab.manifest().contains(NEW), "only the add-ons have failed");
    lab.write();
    lab.upgrade_single(true).await.unwrap();
    lab.assert_taken_back();
    assert!(!lab.has_written(), "the only member has its old data");
    assert_eq!(lab.books.violations(), [""; 0]);
    lab.forget_checkpoints();
    lab.upgrade_single(false).await.unwrap();
    let refused = lab.upgrade_single(true).await.unwrap_err();
    assert_eq!(refused.name(), "upgrade-irreversible", "{refused}");
    assert!(
        refused.to_string().contains("the upgrade is complete"),
        "{refused}"
    );
    assert!(lab.manifest().contains(NEW) && lab.record().contains(NEW));
    let copies = lab.text("m1", "/var/lib/vnfm/kubernetes/etcd.db");
    assert_eq!(copies, "", "nothing needs them any more");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_way_back_that_was_interrupted_is_completed() {
    let kills = (1..60).step_by(6).map(Kill::Before);
    let kills = kills.chain((4..60).step_by(6).map(Kill::After));
    let killed = join_all_limited(8, kills.map(crash_of_undo)).await;
    let reached = killed.iter().filter(|killed| **killed).count();
    assert!(
        reached > 5 && reached < killed.len(),
        "{reached} of {}",
        killed.len()
    );
}

async fn crash_of_undo(kill: Kill) -> bool {
    let lab = Lab::with_archives().await;
    lab.fail("m1: systemctl restart kubelet");
    lab.upgrade().await.unwrap_err();
    let mut undo = lab.hook_request("change_current_package_end", &json!({}));
    undo.undo = true;
    let ended = lab.run(undo, Some(kill)).await;
    lab.undo_upgrade()
        .await
        .unwrap_or_else(|error| panic!("after {kill:?}: {error}"));
    lab.assert_taken_back();
    assert_eq!(lab.usable_nodes(), ["m1", "w1", "w2"], "{kill:?}");
    assert_eq!(lab.books.violations(), [""; 0], "{kill:?}");
    ended.is_none()
}
