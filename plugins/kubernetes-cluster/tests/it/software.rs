//! Software of nodes: installed before they join, patched only where the version differs, taken back where that fails.

use crate::engine_side::Kill;
use crate::lab::{Lab, PASSWORD};
use crate::workload::b;
use serde_json::{Value, json};
use vnfm_core::ports::{Effects, ErrorKind, HookRequest, PortError};
use vnfm_plugin_sdk::join_all_limited;
use vnfm_sim::faults::{Fault, Rule};

/// More calls than a patch of three nodes makes.
const CALLS: usize = 160;
const NODES: [&str; 3] = ["m1", "w1", "w2"];
/// Notes what it was called for.
const SCRIPT: &str = "echo $NAME $VERSION after $PREVIOUS_VERSION as $ROLE on $NODE_NAME >>/var/log/agent\ncat $ARTIFACT >/opt/agent\n";

/// The agent on all nodes, in this version, and a collector on workers.
pub(crate) fn wanted(agent: &str) -> Value {
    json!([
        { "name": "agent", "version": agent, "artifact": format!("software/agent-{agent}"), "install": "software/install" },
        { "name": "collector", "version": "3.2-1", "roles": ["worker"], "artifact": "software/collector_3.2-1_amd64.deb",
          "drain": false },
    ])
}

impl Lab {
    pub(crate) fn with_software_in_package(mut self) -> Self {
        for version in ["1.0", "1.1"] {
            let (path, content) = (
                format!("software/agent-{version}"),
                format!("agent {version}"),
            );
            self.package.insert(path, content.into());
        }
        for (path, content) in [
            ("install", SCRIPT),
            ("collector_3.2-1_amd64.deb", "!<arch>"),
        ] {
            self.package
                .insert(format!("software/{path}"), content.into());
        }
        self
    }

    pub(crate) fn with_list(&self, software: &Value) -> Value {
        let mut params = self.params();
        params["k8s_cluster_installation_param"]["node_software"] = software.clone();
        params
    }

    /// A lab with a cluster of agent 1.0, and VNF-B.
    pub(crate) async fn with_agent() -> Self {
        let lab = Self::empty().await.with_software_in_package();
        lab.boot_all().await;
        let request = lab.request("instantiate_end", &lab.with_list(&wanted("1.0")));
        lab.check(&lab.run(request, None).await.unwrap().unwrap());
        lab.deploy_b().await;
        lab
    }

    pub(crate) fn patch_request(&self, software: &Value, own: &Value) -> HookRequest {
        let mut params = self.with_list(software);
        let all = params.as_object_mut().unwrap();
        all.extend(own.as_object().unwrap().clone());
        let mut request = self.request("change_current_package_end", &params);
        request.dependents = vec![b()];
        request
    }

    async fn patch(&self, software: &Value) -> Result<Effects, PortError> {
        let request = self.patch_request(software, &json!({}));
        self.run(request, None).await.unwrap()
    }

    async fn undo_patch(&self, software: &Value) -> Result<Effects, PortError> {
        let mut request = self.patch_request(software, &json!({}));
        request.undo = true;
        self.run(request, None).await.unwrap()
    }

    /// The version of the agent that each node has and has recorded.
    pub(crate) fn agents(&self) -> [String; 3] {
        NODES.map(|node| {
            let record = self.text(node, "/var/lib/vnfm/software/agent/.installed");
            let version = record.split(' ').next().unwrap().to_owned();
            let program = self.text(node, "/opt/agent");
            assert_eq!(
                program,
                format!("agent {version}"),
                "{node} has what it recorded"
            );
            let begun = "/var/lib/vnfm/software/agent/.begun";
            assert!(
                self.hosts.file(&format!("server-{node}"), begun).is_none(),
                "{node}"
            );
            version
        })
    }

    /// How often the agent was installed in this version on a node.
    pub(crate) fn installations(&self, node: &str, version: &str) -> usize {
        self.count(
            node,
            &format!("/var/lib/vnfm/software/agent/{version}/installer"),
        )
    }

    fn fail_on(&self, node: &str, fault: Fault) {
        let program = format!("{node}: /var/lib/vnfm/software/agent/1.1/installer");
        self.faults.add(Rule::new("host.exec", fault).on(program));
    }

    /// The names of VNF-B's pods, sorted.
    fn pods_of_b(&self) -> Vec<String> {
        let pods = self
            .cluster()
            .object("/api/v1/namespaces/default/pods")
            .unwrap();
        let pods = pods["items"].as_array().unwrap().iter();
        let mut names: Vec<_> = pods
            .map(|pod| pod["metadata"]["name"].to_string())
            .collect();
        names.sort();
        names
    }

    async fn assert_patched(&self, versions: [&str; 3]) {
        assert_eq!(self.agents(), versions);
        assert_eq!(self.usable_nodes(), NODES);
        self.wait_for_pods_of_b(2).await;
        assert_eq!(self.books.violations(), [""; 0]);
    }
}

fn broken() -> Fault {
    Fault::Exit {
        exit: 1,
        stderr: format!("unpacking\npassword={PASSWORD}\nno space left on device\n"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nodes_have_their_software_before_they_join() {
    let lab = Lab::empty().await.with_software_in_package();
    lab.boot_all().await;
    let request = lab.request("instantiate_end", &lab.with_list(&wanted("1.0")));
    let effects = lab.run(request, None).await.unwrap().unwrap();
    lab.check(&effects);
    assert_eq!(lab.agents(), ["1.0"; 3]);
    let calls = lab.books.calls_named("host.exec");
    let first = |begin: &str| {
        calls
            .iter()
            .position(|call| call.subject.starts_with(begin))
            .unwrap()
    };
    for (node, step) in [("m1", "init"), ("w1", "join"), ("w2", "join")] {
        let installed = first(&format!(
            "{node}: /var/lib/vnfm/software/agent/1.0/installer"
        ));
        assert!(
            installed < first(&format!("{node}: kubeadm {step}")),
            "{node}"
        );
    }
    assert_eq!(
        lab.text("w1", "/var/log/agent"),
        "agent 1.0 after as worker on w1\n"
    );
    assert_eq!(
        lab.text("m1", "/var/log/agent"),
        "agent 1.0 after as control-plane on m1\n"
    );
    let shown = json!({
        "m1": { "agent": "1.0" },
        "w1": { "agent": "1.0", "collector": "3.2-1" },
        "w2": { "agent": "1.0", "collector": "3.2-1" },
    });
    assert_eq!(effects.metadata["nodeSoftware"], shown);
    assert_eq!(effects.metadata["nodeSoftwareDiffers"], Value::Null);
}

#[tokio::test(flavor = "multi_thread")]
async fn only_nodes_with_another_version_are_patched() {
    let lab = Lab::with_agent().await;
    let mut list = wanted("1.1");
    list[0]["roles"] = json!(["worker"]);
    let mut master = wanted("1.0")[0].clone();
    master["roles"] = json!(["control-plane"]);
    list.as_array_mut().unwrap().push(master);
    let before = lab.pods_of_b();
    let effects = lab.patch(&list).await.unwrap();
    lab.assert_patched(["1.0", "1.1", "1.1"]).await;
    assert_eq!(lab.installations("m1", "1.0"), 1, "it has its version");
    let dpkg = "dpkg -i --force-confold /var/lib/vnfm/software/collector";
    assert_eq!(lab.count("w1", dpkg), 1, "it has its version");
    assert!(
        lab.pods_of_b().iter().all(|pod| !before.contains(pod)),
        "the pods left before the patch"
    );
    let message = effects.message.unwrap();
    assert!(
        message.ends_with("the software of `w1`, `w2` was patched"),
        "{message}"
    );
    assert_eq!(effects.metadata["nodeSoftware"]["w2"]["agent"], "1.1");
    let last = lab.text("w1", "/var/log/agent");
    assert!(
        last.ends_with("agent 1.1 after 1.0 as worker on w1\n"),
        "{last}"
    );
    lab.forget_checkpoints();
    lab.patch(&list).await.unwrap();
    assert_eq!(
        lab.installations("w1", "1.1"),
        1,
        "what has its version is left alone"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn without_drain_pods_stay_where_they_are() {
    let lab = Lab::with_agent().await;
    let mut list = wanted("1.1");
    list[0]["drain"] = json!(false);
    let before = lab.pods_of_b();
    lab.patch(&list).await.unwrap();
    lab.assert_patched(["1.1"; 3]).await;
    assert_eq!(lab.pods_of_b(), before);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_whose_patch_fails_returns_to_its_version_and_no_other_begins() {
    let lab = Lab::with_agent().await;
    lab.fail_on("w1", broken());
    let error = lab.patch(&wanted("1.1")).await.unwrap_err();
    assert_eq!(
        (error.name(), error.kind()),
        ("software-failed", ErrorKind::Unavailable)
    );
    let text = format!("{error} {error:?}");
    assert!(
        text.contains("`w1`") && text.contains("no space left on device"),
        "{text}"
    );
    assert!(!text.contains(PASSWORD), "{text}");
    lab.assert_patched(["1.1", "1.0", "1.0"]).await;
    assert_eq!(lab.installations("w2", "1.1"), 0);
    assert!(
        lab.texts()
            .contains("`w1` has the software again that it had before")
    );
    lab.patch(&wanted("1.1")).await.unwrap();
    lab.assert_patched(["1.1"; 3]).await;
    assert_eq!(
        lab.installations("m1", "1.1"),
        1,
        "a retry goes on with what is left"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_script_that_does_not_end_is_stopped() {
    let lab = Lab::with_agent().await;
    lab.fail_on("w1", Fault::Hang { hang: true });
    let mut list = wanted("1.1");
    list[0]["timeout_seconds"] = json!(1);
    let error = lab.patch(&list).await.unwrap_err();
    assert_eq!(error.name(), "software-timed-out");
    assert!(error.to_string().contains("more than 1 s"), "{error}");
    lab.assert_patched(["1.1", "1.0", "1.0"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rollback_returns_all_nodes() {
    let lab = Lab::with_agent().await;
    let nothing = lab.undo_patch(&wanted("1.1")).await.unwrap();
    assert!(nothing.message.is_none(), "nothing was done");
    lab.fail_on("w2", broken());
    lab.patch(&wanted("1.1")).await.unwrap_err();
    lab.assert_patched(["1.1", "1.1", "1.0"]).await;
    // The files of the version before are on the hosts: the package need not have them any more.
    let undone = lab.undo_patch(&wanted("1.1")).await.unwrap();
    let message = undone.message.unwrap();
    assert!(
        message.contains("`m1`, `w1`") && !message.contains("`w2`"),
        "{message}"
    );
    lab.assert_patched(["1.0"; 3]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_budget_holds_the_patch_and_a_retry_completes_it() {
    let lab = Lab::with_agent().await;
    lab.create_budget();
    let request = lab.patch_request(&wanted("1.1"), &json!({ "drain_timeout_seconds": 1 }));
    let error = lab.run(request, None).await.unwrap().unwrap_err();
    assert_eq!(error.name(), "drain-blocked");
    lab.assert_patched(["1.1", "1.0", "1.0"]).await;
    let budget = "/apis/policy/v1/namespaces/default/poddisruptionbudgets/web-stays";
    assert!(lab.cluster().delete(budget));
    lab.patch(&wanted("1.1")).await.unwrap();
    lab.assert_patched(["1.1"; 3]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_older_version_is_installed_and_reported() {
    let lab = Lab::with_agent().await;
    lab.patch(&wanted("1.1")).await.unwrap();
    lab.forget_checkpoints();
    assert!(!lab.texts().contains("which is older"));
    lab.patch(&wanted("1.0")).await.unwrap();
    lab.assert_patched(["1.0"; 3]).await;
    assert!(
        lab.texts()
            .contains("warn: `w1` gets `agent` 1.1 to 1.0, which is older")
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_check_shows_what_a_patch_would_install_and_the_action_installs_it() {
    let lab = Lab::with_agent().await;
    let act = async |action: &str| {
        let mut params = lab.with_list(&wanted("1.1"));
        params["cluster_action"] = json!(action);
        let start = lab.run(lab.request("operate_start", &params), None);
        start.await.unwrap().unwrap();
        let end = lab.run(lab.request("operate_end", &params), None);
        end.await.unwrap().unwrap()
    };
    let checked = act("check").await;
    let message = checked.message.unwrap();
    let planned =
        "a patch would install `agent` 1.1 on `m1`, `agent` 1.1 on `w1`, `agent` 1.1 on `w2`";
    assert!(message.ends_with(planned), "{message}");
    assert_eq!(
        checked.metadata["nodeSoftwareDiffers"]["w1"],
        json!({ "agent": "1.1" })
    );
    assert_eq!(lab.agents(), ["1.0"; 3], "a check changes nothing");
    let patched = act("patch_software").await;
    lab.assert_patched(["1.1"; 3]).await;
    assert_eq!(patched.metadata["nodeSoftwareDiffers"], Value::Null);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_successor_and_a_new_worker_get_the_software() {
    let lab = Lab::with_agent().await;
    lab.boot_added().await;
    let own = lab.with_list(&wanted("1.0"));
    let scaled = lab.scale("scale_end", own.clone(), (2, 4)).await.unwrap();
    assert_eq!(
        scaled.metadata["nodeSoftware"]["w4"],
        json!({ "agent": "1.0", "collector": "3.2-1" })
    );
    let lab = Lab::with_agent().await;
    let own = lab.with_list(&wanted("1.0"));
    lab.heal("heal_start", own.clone(), &["w1"]).await.unwrap();
    lab.replace(&["w1"]).await;
    let healed = lab.heal("heal_end", own, &["w1"]).await.unwrap();
    assert_eq!(healed.metadata["nodeSoftware"]["w1"]["agent"], "1.0");
    let record = lab.text("w1-new", "/var/lib/vnfm/software/agent/.installed");
    assert!(record.starts_with("1.0 "), "{record}");
    assert_eq!(lab.books.violations(), [""; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_installed_is_refused_before_anything_changes() {
    let lab = Lab::with_agent().await;
    let changed = |change: &dyn Fn(&mut Value)| {
        let mut list = wanted("1.1");
        change(&mut list);
        list
    };
    let table = [
        (
            changed(&|list| list[0]["artifact"] = json!("software/agent-1.2")),
            "no `software/agent-1.2`",
        ),
        (
            changed(&|list| list[0]["install"] = json!("software/none")),
            "no `software/none`",
        ),
        (
            changed(&|list| list[1]["roles"] = json!(["storage"])),
            "the role `storage`",
        ),
        (
            changed(&|list| list[1]["name"] = json!("agent")),
            "`agent` twice for `worker`",
        ),
        (
            changed(&|list| list[0]["name"] = json!("../agent")),
            "the name `../agent`",
        ),
        (
            changed(&|list| list[0]["version"] = json!("1; reboot")),
            "the version `1; reboot`",
        ),
    ];
    for (list, words) in table {
        for hook in [
            "change_current_package_end",
            "instantiate_start",
            "instantiate_end",
            "operate_start",
        ] {
            let mut params = lab.with_list(&list);
            params["cluster_action"] = json!("patch_software");
            let error = lab
                .run(lab.request(hook, &params), None)
                .await
                .unwrap()
                .unwrap_err();
            assert_eq!(
                (error.name(), error.kind()),
                ("bad-parameters", ErrorKind::Refused),
                "{hook}"
            );
            assert!(error.to_string().contains(words), "{hook}: {error}");
        }
    }
    lab.assert_patched(["1.0"; 3]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_that_is_off_is_named_before_anything_changes() {
    let lab = Lab::with_agent().await;
    lab.hosts.power_off("server-w2");
    let error = lab.patch(&wanted("1.1")).await.unwrap_err();
    assert_eq!(error.name(), "node-silent");
    for words in ["`w2`", "`vnfmctl op rollback` or `vnfmctl op fail`"] {
        assert!(error.to_string().contains(words), "{error}");
    }
    assert_eq!(lab.installations("m1", "1.1"), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_crash_at_any_call_leads_to_the_same_software() {
    let kills = (1..CALLS)
        .step_by(7)
        .map(Kill::Before)
        .chain((4..CALLS).step_by(7).map(Kill::After));
    let killed = join_all_limited(8, kills.map(crash)).await;
    let reached = killed.iter().filter(|killed| **killed).count();
    assert!(reached > 12, "the driver was killed {reached} times only");
    assert!(
        reached < killed.len(),
        "the driver makes more calls than {CALLS}"
    );
}

/// Kills the VNFM at one call of a patch and starts it again; returns whether that call was reached.
async fn crash(kill: Kill) -> bool {
    let lab = Lab::with_agent().await;
    let request = lab.patch_request(&wanted("1.1"), &json!({}));
    let ended = lab.run(request, Some(kill)).await;
    if let Some(result) = &ended {
        result.as_ref().unwrap_or_else(|error| panic!("{error}"));
    } else {
        let retried = lab.patch(&wanted("1.1")).await;
        retried.unwrap_or_else(|error| panic!("after {kill:?}: {error}"));
    }
    lab.assert_patched(["1.1"; 3]).await;
    ended.is_none()
}
