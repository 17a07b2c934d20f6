//! What an upgrade that failed, was killed or is rolled back leaves on the first control-plane node: what it had before.

use crate::lab::Lab;
use crate::upgrade::{NEW, OLD};
use serde_json::json;

/// The path of what kubeadm has recorded.
const RECORD: &str = "/api/v1/namespaces/kube-system/configmaps/kubeadm-config";

impl Lab {
    /// What kubeadm has recorded.
    pub(crate) fn record(&self) -> String {
        self.cluster().object(RECORD).unwrap().to_string()
    }

    pub(crate) fn manifest(&self) -> String {
        self.text("m1", "/etc/kubernetes/manifests/kube-apiserver.yaml")
    }

    fn assert_taken_back(&self) {
        let (manifest, record) = (self.manifest(), self.record());
        assert!(manifest.contains(OLD), "{manifest}");
        assert!(record.contains(OLD) && !record.contains(NEW), "{record}");
        assert_ne!(self.text("m1", "/usr/bin/kubeadm"), NEW);
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
            lab.fail("m1: sh /run/vnfm/vnfm-kubernetes manifests");
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
    lab.fail("m1: sh /run/vnfm/vnfm-kubernetes manifests");
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
