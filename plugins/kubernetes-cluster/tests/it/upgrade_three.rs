//! The upgrade of three control-plane nodes: one after the other, with a way back as long as only the first was touched.

use crate::engine_side::Kill;
use crate::lab::Lab;
use crate::shared_lab::THREE;
use crate::upgrade::{NEW, OLD};
use serde_json::{Value, json};
use vnfm_core::ports::{Effects, ErrorKind, HookRequest, PortError};
use vnfm_plugin_sdk::join_all_limited;
use vnfm_sim::faults::{Fault, Rule};

/// More calls than the upgrade makes.
const CALLS: usize = 330;
const ALL: [&str; 5] = ["m1", "m2", "m3", "w1", "w2"];

impl Lab {
    async fn three_with_archives() -> Self {
        let (mut lab, _) = Self::with_three().await;
        lab.add_archives();
        lab
    }

    fn upgrade_of_three(&self) -> HookRequest {
        let vnfcs = self.vnfcs(THREE, &[]);
        self.shared_request("change_current_package_end", &self.shared_params(), &vnfcs)
    }

    async fn upgrade_three(&self) -> Result<Effects, PortError> {
        let ended = self.run(self.upgrade_of_three(), None).await;
        ended.unwrap()
    }

    async fn undo_three(&self) -> Result<Effects, PortError> {
        let mut request = self.upgrade_of_three();
        request.undo = true;
        let ended = self.run(request, None).await;
        ended.unwrap()
    }

    /// The version of each node's kubelet.
    fn versions(&self) -> [String; 5] {
        ALL.map(|name| {
            let node = self.node(name).unwrap_or_default();
            let version = &node["status"]["nodeInfo"]["kubeletVersion"];
            version.as_str().unwrap_or_default().to_owned()
        })
    }

    fn assert_three_upgraded(&self) {
        self.assert_control_planes(THREE);
        assert_eq!(self.versions(), [NEW; 5]);
        for host in THREE {
            let etcd = self.etcd_manifest(host);
            assert!(etcd.contains("etcd:3.7."), "{host}: {etcd}");
            assert_eq!(self.text(host, "/var/lib/vnfm/kubernetes/etcd.db"), "");
        }
        assert_eq!(self.members("m1"), *THREE);
        assert_eq!(self.usable_nodes(), ALL);
        assert_eq!(self.books.violations(), [""; 0]);
    }

    /// Checks that all nodes are what they were, and serve.
    fn assert_three_old(&self) {
        self.assert_taken_back();
        assert_eq!(self.versions(), [OLD; 5]);
        assert_eq!(self.members("m1"), *THREE);
        assert_eq!(self.usable_nodes(), ALL);
        for host in ["m2", "m3"] {
            assert_eq!(self.count(host, "kubeadm upgrade"), 0, "{host}");
        }
        assert_eq!(self.books.violations(), [""; 0]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn three_control_planes_are_upgraded_one_after_the_other() {
    let lab = Lab::three_with_archives().await;
    let slow = Rule::new("host.exec", Fault::Delay { delay_ms: 300 });
    lab.faults.add(slow.on(": kubeadm upgrade").nth(1, 3));
    lab.upgrade_three().await.unwrap();
    lab.assert_three_upgraded();
    assert_eq!(lab.count("m1", "kubeadm upgrade apply"), 1);
    for host in &ALL[1..] {
        assert_eq!(lab.count(host, "kubeadm upgrade node"), 1, "{host}");
    }
    let calls = lab.books.calls_named("host.exec");
    let at = |subject: String| {
        let mut found = calls.iter().filter(|c| c.subject.starts_with(&subject));
        found.next().unwrap_or_else(|| panic!("no {subject}")).n
    };
    let begun = THREE
        .iter()
        .map(|host| at(format!("{host}: kubeadm upgrade")));
    let ended = THREE
        .iter()
        .map(|host| at(format!("{host}: systemctl restart kubelet")));
    let times: Vec<_> = begun
        .zip(ended)
        .flat_map(|(begun, ended)| [begun, ended])
        .collect();
    assert!(times.is_sorted(), "{times:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_first_of_three_goes_back_if_its_upgrade_fails() {
    let lab = Lab::three_with_archives().await;
    lab.fail("m1: kubeadm upgrade apply");
    let error = lab.upgrade_three().await.unwrap_err();
    assert_eq!(error.name(), "upgrade-apply-failed", "{error}");
    lab.assert_three_old();
    lab.upgrade_three().await.unwrap();
    lab.assert_three_upgraded();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rollback_brings_the_first_of_three_back_and_loses_nothing() {
    let lab = Lab::three_with_archives().await;
    lab.fail("m1: systemctl restart kubelet");
    lab.upgrade_three().await.unwrap_err();
    assert!(
        lab.etcd_manifest("m1").contains("etcd:3.7."),
        "it is applied"
    );
    lab.write();
    let undone = lab.undo_three().await.unwrap();
    assert_eq!(
        undone.message.as_deref(),
        Some("`m1` has what it had before the upgrade")
    );
    lab.assert_three_old();
    assert!(
        lab.has_written(),
        "two members have never had the new version"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn once_the_second_of_three_has_begun_there_is_only_the_way_forward() {
    for program in ["m2: dpkg", "m2: kubeadm upgrade node"] {
        let lab = Lab::three_with_archives().await;
        lab.fail(program);
        lab.upgrade_three().await.unwrap_err();
        for _ in 0..2 {
            let refused = lab.undo_three().await.unwrap_err();
            assert_eq!(
                (refused.name(), refused.kind()),
                ("upgrade-irreversible", ErrorKind::Refused),
                "{refused}"
            );
            for words in [
                "`m2` has begun its upgrade after",
                "no way back from v1.37.0",
                "retry",
            ] {
                assert!(refused.to_string().contains(words), "{refused}");
            }
            assert!(lab.etcd_manifest("m1").contains("etcd:3.7."));
        }
        lab.upgrade_three().await.unwrap();
        lab.assert_three_upgraded();
        assert_eq!(lab.count("m1", "kubeadm upgrade apply"), 1, "{program}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_crash_of_the_upgrade_of_three_leads_forward_or_back() {
    let kills = (5..CALLS).step_by(25).map(Kill::Before);
    let kills = kills.chain((17..CALLS).step_by(25).map(Kill::After));
    let killed = join_all_limited(4, kills.map(crash)).await;
    let count = |end: End| killed.iter().filter(|one| **one == end).count();
    assert!(count(End::Back) > 2, "{killed:?}");
    assert!(count(End::Refused) > 2, "{killed:?}");
    assert!(count(End::Complete) > 0, "more calls than {CALLS}");
}

/// What a rollback after a crash has led to.
#[derive(Debug, PartialEq)]
enum End {
    Complete,
    Back,
    Refused,
}

async fn crash(kill: Kill) -> End {
    let lab = Lab::three_with_archives().await;
    if lab.run(lab.upgrade_of_three(), Some(kill)).await.is_some() {
        lab.assert_three_upgraded();
        return End::Complete;
    }
    match lab.undo_three().await {
        Ok(_) => {
            lab.assert_three_old();
            End::Back
        }
        Err(error) => {
            assert_eq!(error.name(), "upgrade-irreversible", "{kill:?}: {error}");
            lab.upgrade_three()
                .await
                .unwrap_or_else(|error| panic!("after {kill:?}: {error}"));
            lab.assert_three_upgraded();
            End::Refused
        }
    }
}

impl Lab {
    /// Lets the next server with this host name have a repository of packages.
    fn add_repository(&self, host: &str) {
        let rule = Rule::new("host.repository", Fault::Status { status: 200 });
        self.faults.add(rule.on(host).nth(1, 1));
    }

    /// A lab with a cluster of three control-plane nodes that was upgraded to 1.36.3 from the repositories of its hosts.
    async fn three_upgraded_by_parameter() -> Self {
        let lab = Self::with_control_planes_that(THREE, Self::add_repository).await;
        lab.install_three().await.unwrap();
        let mut params = lab.shared_params();
        params["cluster_action"] = json!("upgrade");
        params["kubernetes_version"] = json!("1.36.3");
        let request = lab.shared_request("operate_end", &params, &lab.vnfcs(THREE, &[]));
        lab.run(request, None).await.unwrap().unwrap();
        lab.forget_checkpoints();
        lab
    }

    fn kubelet_of(&self, name: &str) -> Value {
        self.node(name).unwrap()["status"]["nodeInfo"]["kubeletVersion"].clone()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn after_an_upgrade_by_parameter_a_successor_gets_the_version_of_the_cluster() {
    let lab = Lab::three_upgraded_by_parameter().await;
    lab.run_heal("heal_start", &["m3"]).await.unwrap();
    lab.replace_server("m3").await;
    let refused = lab.run_heal("heal_end", &["m3"]).await.unwrap_err();
    assert_eq!(refused.name(), "version-skew", "{refused}");
    for words in [
        "the cluster has Kubernetes v1.36.3 and the host v1.36.2",
        "m3",
    ] {
        assert!(refused.to_string().contains(words), "{refused}");
    }
    assert_eq!(lab.members("m1"), ["m1", "m2"], "nothing has joined");
    let list = "/etc/apt/sources.list.d/kubernetes.list";
    lab.hosts
        .write_file("server-m3-new", list, "deb kubernetes\n");
    lab.run_heal("heal_end", &["m3"]).await.unwrap();
    assert_eq!(lab.kubelet_of("m3"), "v1.36.3");
    assert_eq!(lab.members("m1"), *THREE);
    assert_eq!(lab.books.violations(), [""; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_may_be_older_than_the_cluster() {
    let lab = Lab::three_upgraded_by_parameter().await;
    lab.run_heal("heal_start", &["w1"]).await.unwrap();
    lab.replace_server("w1").await;
    lab.run_heal("heal_end", &["w1"]).await.unwrap();
    assert_eq!(lab.kubelet_of("w1"), "v1.36.2");
    assert!(
        lab.texts().contains("its repository does not have"),
        "a warning"
    );
}
