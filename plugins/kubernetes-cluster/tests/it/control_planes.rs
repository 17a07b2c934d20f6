//! Control planes of several nodes: installed and healed without the loss of etcd's quorum, which the simulated hosts
//! report as a violation.

use crate::engine_side::Kill;
use crate::lab::{Lab, PASSWORD, VIP};
use crate::shared_lab::{FIVE, THREE, last_byte};
use serde_json::{Value, json};
use vnfm_core::ports::ErrorKind;
use vnfm_plugin_sdk::join_all_limited;
use vnfm_sim::faults::{Fault, Rule};

/// More calls than any of the hooks makes.
const CALLS: usize = 320;

#[tokio::test(flavor = "multi_thread")]
async fn three_control_planes_and_two_workers_become_a_cluster() {
    let lab = Lab::with_control_planes(THREE).await;
    let slow = Rule::new("host.exec", Fault::Delay { delay_ms: 400 });
    lab.faults.add(slow.on(": kubeadm join").nth(1, 4));
    let effects = lab.install_three().await.unwrap();
    lab.assert_control_planes(THREE);
    assert_eq!(lab.members("m2"), THREE);
    let vim = &effects.register_vims[0];
    let endpoint = format!("https://{}:16443", lab.address(VIP));
    assert_eq!(vim.interface_info["endpoint"], endpoint);
    assert_eq!(
        each(|host| lab.count(host, "kubeadm init --config")),
        [1, 0, 0]
    );
    assert_eq!(lab.count("m1", "kubeadm init phase upload-certs"), 1);

    let haproxy = each(|host| lab.text(host, "/etc/haproxy/haproxy.cfg"));
    assert_eq!(haproxy[0], haproxy[2], "the same on each");
    for name in THREE {
        let server = format!("server {name} {}:6443", lab.address(last_byte(name)));
        assert!(haproxy[0].contains(&server), "{}", haproxy[0]);
    }
    let vrrp = each(|host| lab.text(host, "/etc/keepalived/keepalived.conf"));
    let peers = [12, 13]
        .map(|last| format!("        {}\n", lab.address(last)))
        .concat();
    assert!(
        vrrp[0].contains(&format!("unicast_peer {{\n{peers}")),
        "{}",
        vrrp[0]
    );
    for (n, text) in vrrp.iter().enumerate() {
        assert!(text.contains(&format!("priority {}\n", 150 - n)), "{text}");
        assert!(
            text.contains(&format!("        {}\n", lab.address(VIP))),
            "{text}"
        );
        assert!(text.contains("interface eth0\n"), "{text}");
    }
    assert_eq!(
        lab.text("w1", "/etc/haproxy/haproxy.cfg"),
        "",
        "not on workers"
    );
    let texts = lab.texts();
    assert!(
        !texts.contains(PASSWORD) && !texts.contains("certificateKey"),
        "{texts}"
    );
}

/// A value for each of the three.
fn each<T>(value: impl FnMut(&'static str) -> T) -> Vec<T> {
    THREE.iter().copied().map(value).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn control_planes_join_one_after_the_other() {
    let lab = Lab::with_control_planes(THREE).await;
    let slow = Rule::new("host.exec", Fault::Delay { delay_ms: 500 });
    lab.faults.add(slow.on(": kubeadm join").nth(1, 4));
    lab.install_three().await.unwrap();
    let calls = lab.books.calls();
    let at = |call: &str, words: &str| {
        let found = calls
            .iter()
            .find(|one| one.call == call && one.subject.contains(words));
        found.unwrap_or_else(|| panic!("no {words}")).n
    };
    let mut joins = ["m2", "m3"].map(|host| {
        let begun = format!("{host}: sudo -n -- sh -c 'sh /run/vnfm/vnfm-step start inst-1 join");
        (
            at("ssh.run", &begun),
            at("host.exec", &format!("{host}: kubeadm join")),
        )
    });
    joins.sort_unstable();
    assert!(joins[0].1 < joins[1].0, "{joins:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_crash_at_any_call_of_the_installation_leads_to_the_same_end_state() {
    let befores = (1..CALLS).step_by(13).map(Kill::Before);
    let kills = befores.chain((7..CALLS).step_by(13).map(Kill::After));
    let killed = join_all_limited(4, kills.map(crash_of_install)).await;
    let reached = killed.iter().filter(|killed| **killed).count();
    assert!(
        reached > 12 && reached < killed.len(),
        "{reached} of {}",
        killed.len()
    );
}

async fn crash_of_install(kill: Kill) -> bool {
    let lab = Lab::with_control_planes(THREE).await;
    let vnfcs = lab.vnfcs(THREE, &[]);
    let request = lab.shared_request("instantiate_end", &lab.shared_params(), &vnfcs);
    let first = lab.run(request, Some(kill)).await;
    let reached = first.is_none();
    match first {
        Some(result) => result.map(|_| ()),
        None => lab.install_three().await.map(|_| ()),
    }
    .unwrap_or_else(|error| panic!("after {kill:?}: {error}"));
    lab.assert_control_planes(THREE);
    assert_eq!(lab.members("m1"), THREE, "after {kill:?}");
    let joins = ["m2", "m3", "w1"].map(|host| lab.count(host, "kubeadm join"));
    assert_eq!(joins, [1, 1, 1], "after {kill:?}");
    reached
}

#[tokio::test(flavor = "multi_thread")]
async fn each_control_plane_can_be_healed_while_a_vnf_runs() {
    for &name in THREE {
        let (lab, _) = Lab::with_three().await;
        let uid = lab.cluster().uid();
        lab.run_heal("heal_start", &[name]).await.unwrap();
        let other = if name == "m1" { "m2" } else { "m1" };
        let left: Vec<_> = THREE.iter().copied().filter(|one| *one != name).collect();
        assert_eq!(lab.members(other), left);
        assert!(lab.node(name).is_none());
        lab.replace_server(name).await;
        let end = lab.run_heal("heal_end", &[name]).await.unwrap();
        assert!(end.register_vims.is_empty(), "the VIM stays as it is");
        lab.assert_control_planes(THREE);
        assert_eq!(lab.members(other), *THREE);
        assert_eq!(lab.cluster().uid(), uid);
        assert_eq!(lab.nodes_of_b(), ["w1", "w2"], "no pod has moved");
        let resets = left.iter().map(|host| lab.count(host, "kubeadm reset"));
        assert_eq!(resets.sum::<usize>(), 0, "the others are not touched");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_control_plane_without_power_is_healed() {
    for name in ["m1", "m3"] {
        let (lab, _) = Lab::with_three().await;
        lab.hosts.power_off(&format!("server-{name}"));
        lab.run_heal("heal_start", &[name]).await.unwrap();
        assert_eq!(
            lab.members("m2").len(),
            2,
            "etcd does not count it any more"
        );
        lab.replace_server(name).await;
        lab.run_heal("heal_end", &[name]).await.unwrap();
        lab.assert_control_planes(THREE);
        assert_eq!(lab.members("m2"), *THREE);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rolled_back_control_plane_joins_again() {
    let (lab, _) = Lab::with_three().await;
    lab.run_heal("heal_start", &["m2"]).await.unwrap();
    for _ in 0..2 {
        let mut undo = lab.heal_three("heal_start", &["m2"]);
        undo.undo = true;
        lab.run(undo, None).await.unwrap().unwrap();
        lab.assert_control_planes(THREE);
        assert_eq!(lab.members("m1"), *THREE);
    }
    assert_eq!(lab.count("m2", "kubeadm join"), 2, "at first, and back");
}

#[tokio::test(flavor = "multi_thread")]
async fn members_are_counted_again_if_the_api_server_did_not_respond() {
    let (lab, _) = Lab::with_three().await;
    let fault = Fault::Exit {
        exit: 1,
        stderr: "Unable to connect to the server: EOF\n".into(),
    };
    let health = Rule::new("host.exec", fault).on("endpoint health");
    lab.faults.add(health.nth(1, 2));
    lab.run_heal("heal_start", &["m3"]).await.unwrap();
    assert_eq!(lab.members("m1"), ["m1", "m2"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_quorum_of_etcd_is_never_given_away() {
    let (lab, _) = Lab::with_three().await;
    let before = lab.books.calls().len();
    let two = lab.run_heal("heal_start", &["m1", "m2"]).await.unwrap_err();
    assert_eq!(
        (two.name(), two.kind()),
        ("quorum-at-risk", ErrorKind::Refused),
        "{two}"
    );
    assert!(
        two.to_string().contains("one control-plane node at a time"),
        "{two}"
    );
    assert_eq!(lab.books.calls().len(), before, "nothing was touched");

    lab.hosts.power_off("server-m3");
    let second = lab.run_heal("heal_start", &["m1"]).await.unwrap_err();
    assert_eq!(
        (second.name(), second.kind()),
        ("quorum-at-risk", ErrorKind::Refused),
        "{second}"
    );
    assert!(
        second.to_string().contains("`m3` do not respond"),
        "{second}"
    );

    lab.hosts.power_off("server-m2");
    let lost = lab.run_heal("heal_start", &["m3"]).await.unwrap_err();
    assert_eq!(
        (lost.name(), lost.kind()),
        ("quorum-lost", ErrorKind::Refused),
        "{lost}"
    );
    for word in [
        "`m2`",
        "power them on",
        "restore a snapshot",
        "accept_cluster_loss: true",
    ] {
        assert!(lost.to_string().contains(word), "{lost}");
    }
    for name in ["m2", "m3"] {
        lab.hosts.power_on(&format!("server-{name}")).await.unwrap();
        lab.wait_until_ready(name).await;
    }
    lab.assert_control_planes(THREE);
    assert_eq!(lab.members("m1"), *THREE);
}

#[tokio::test(flavor = "multi_thread")]
async fn all_control_planes_are_lost_only_on_request() {
    let (lab, _) = Lab::with_three().await;
    let error = lab.run_heal("heal_start", THREE).await.unwrap_err();
    assert_eq!(error.name(), "cluster-loss", "{error}");
    assert!(
        error.to_string().contains("all control-plane nodes"),
        "{error}"
    );
    let uid = lab.cluster().uid();
    let accept = |hook: &str| {
        let mut request = lab.heal_three(hook, THREE);
        let accepted = ("accept_cluster_loss".to_owned(), json!(true));
        request.additional_params.extend([accepted]);
        request
    };
    lab.run(accept("heal_start"), None).await.unwrap().unwrap();
    for name in THREE {
        lab.replace_server(name).await;
    }
    let end = lab.run(accept("heal_end"), None).await.unwrap().unwrap();
    assert_eq!(end.register_vims.len(), 1);
    lab.assert_control_planes(THREE);
    assert_ne!(lab.cluster().uid(), uid);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_crash_at_any_call_of_a_heal_leads_to_the_same_end_state() {
    let befores = (1..CALLS).step_by(17).map(Kill::Before);
    let kills = befores.chain((9..CALLS).step_by(17).map(Kill::After));
    let killed = join_all_limited(4, kills.map(crash_of_heal)).await;
    let reached = |n: usize| killed.iter().filter(|killed| killed[n]).count();
    assert!(reached(0) > 3 && reached(1) > 3, "{killed:?}");
    assert!(
        reached(0) < killed.len() && reached(1) < killed.len(),
        "more calls than {CALLS}"
    );
}

async fn crash_of_heal(kill: Kill) -> [bool; 2] {
    let (lab, _) = Lab::with_three().await;
    let mut reached = [false; 2];
    for (n, hook) in ["heal_start", "heal_end"].into_iter().enumerate() {
        if n == 1 {
            lab.replace_server("m1").await;
        }
        let first = lab.run(lab.heal_three(hook, &["m1"]), Some(kill)).await;
        reached[n] = first.is_none();
        let result = match first {
            Some(result) => result,
            None => lab.run_heal(hook, &["m1"]).await,
        };
        result.unwrap_or_else(|error| panic!("`{hook}` after {kill:?}: {error}"));
    }
    lab.assert_control_planes(THREE);
    assert_eq!(lab.members("m2"), *THREE, "after {kill:?}");
    reached
}

/// What an installation on these servers is refused with.
async fn refusal(names: &[&str], change: impl FnOnce(&mut Value)) -> String {
    let lab = Lab::empty().await;
    let mut params = lab.shared_params();
    change(&mut params["k8s_cluster_installation_param"]);
    let request = lab.shared_request("instantiate_end", &params, &lab.vnfcs(names, &[]));
    let error = lab.run(request, None).await.unwrap().unwrap_err();
    assert_eq!(
        (error.name(), error.kind()),
        ("bad-parameters", ErrorKind::Refused),
        "{error}"
    );
    assert!(lab.books.calls().is_empty(), "a host was touched");
    error.to_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_become_a_cluster_is_refused_before_anything_changes() {
    let even = refusal(&FIVE[..4], |_| {}).await;
    assert!(
        even.contains("4 nodes") && even.contains("even number"),
        "{even}"
    );
    let none = refusal(THREE, |p| p["control_plane_endpoint"] = Value::Null).await;
    assert!(none.contains("`control_plane_endpoint`"), "{none}");
    let ranges = |pods: &'static str, services: &'static str| {
        refusal(THREE, move |p| {
            p["master_node"]["pod_cidr"] = json!(pods);
            p["master_node"]["cluster_cidr"] = json!(services);
        })
    };
    let table = [
        (
            "10.244.0.0/16",
            "10.244.128.0/24",
            "`master_node.cluster_cidr` (10.244.128.0/24)",
        ),
        ("127.0.0.0/8", "10.96.0.0/12", "the address 127."),
        ("10.244.0.0/16", "127.0.0.0/8", "the address 127."),
        ("10.244.0.0/16", "services", "not an address range"),
    ];
    for (pods, services, expected) in table {
        let why = ranges(pods, services).await;
        assert!(why.contains(expected), "{pods} {services}: {why}");
    }
    let endpoints = [
        (
            json!({ "address": "vip.example.com" }),
            "`control_plane_endpoint.address`",
        ),
        (
            json!({ "address": "192.0.2.1", "port": 6443 }),
            "`control_plane_endpoint.port`",
        ),
        (
            json!({ "address": "192.0.2.1", "interface": "eth0 }\n" }),
            "`control_plane_endpoint.interface`",
        ),
        (
            json!({ "address": "192.0.2.1", "provider": "kube_vip" }),
            "`control_plane_endpoint.image`",
        ),
        (
            json!({ "address": "192.0.2.1", "external_address": "a b" }),
            "`control_plane_endpoint.external_address`",
        ),
    ];
    for (endpoint, expected) in endpoints {
        let why = refusal(THREE, |p| p["control_plane_endpoint"] = endpoint).await;
        assert!(why.contains(expected), "{why}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_of_one_node_runs_pods_on_it() {
    let lab = Lab::empty().await;
    lab.boot((1, "m1"), "m1").await;
    let mut params = lab.params();
    let installation = &mut params["k8s_cluster_installation_param"];
    installation.as_object_mut().unwrap().remove("worker_node");
    let vnfc = lab.vnfc((1, "m1", "masterNode", "masterCP"), &[]);
    let mut request = lab.request("instantiate_end", &params);
    request.inventory.vnfc_resource_info = serde_json::from_value(json!([vnfc])).unwrap();
    lab.run(request, None).await.unwrap().unwrap();
    lab.assert_scaled(&["m1"]);
    let taints = lab.node("m1").unwrap()["spec"]["taints"].clone();
    assert!(taints.is_null() || taints == json!([]), "{taints}");
}

#[tokio::test(flavor = "multi_thread")]
async fn groups_of_workers_have_labels_and_taints() {
    let lab = Lab::with_control_planes(THREE).await;
    let mut params = lab.shared_params();
    let installation = &mut params["k8s_cluster_installation_param"];
    installation["worker_node"]["labels"] = json!({ "example.com/disk": "fast" });
    installation["worker_groups"] = json!([{ "vdu_id": "gpuNode", "ssh_cp_name": "gpuCP",
        "labels": { "example.com/gpu": "a100" },
        "taints": [{ "key": "example.com/gpu", "effect": "NoSchedule" }] }]);
    let mut vnfcs = lab.vnfcs(THREE, &[]);
    vnfcs.pop();
    vnfcs.push(lab.vnfc((last_byte("w2"), "w2", "gpuNode", "gpuCP"), &[]));
    let request = lab.shared_request("instantiate_end", &params, &vnfcs);
    lab.run(request, None).await.unwrap().unwrap();
    lab.assert_control_planes(THREE);
    let [plain, gpu] = ["w1", "w2"].map(|name| lab.node(name).unwrap());
    assert_eq!(plain["metadata"]["labels"]["example.com/disk"], "fast");
    assert_eq!(gpu["metadata"]["labels"]["example.com/gpu"], "a100");
    assert!(gpu["metadata"]["labels"]["example.com/disk"].is_null());
    assert_eq!(gpu["spec"]["taints"][0]["key"], "example.com/gpu");
    assert!(plain["spec"]["taints"].is_null(), "{plain:#}");
}
