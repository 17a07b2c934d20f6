//! A cluster of fifty nodes: installed with a bounded number of hosts at a time. A site of ten hosts: installed and patched in
//! the time that is allowed for a site.

use crate::lab::Lab;
use crate::software::wanted;
use serde_json::{Value, json};
use std::time::{Duration, Instant};
use vnfm_core::ports::HookRequest;

const WORKERS: u8 = 49;
/// How many hosts the driver works on at a time, and the control-plane node.
const HOSTS_AT_A_TIME: usize = 21;
/// How long installing and patching a site of ten hosts may take.
const SITE_LIMIT: Duration = Duration::from_mins(10);

#[tokio::test(flavor = "multi_thread")]
async fn fifty_nodes_are_installed_some_at_a_time() {
    let lab = Lab::empty().await;
    lab.boot((1, "m1"), "m1").await;
    let names: Vec<_> = (1..=WORKERS).map(|n| format!("w{n}")).collect();
    for (last, name) in (2..).zip(&names) {
        lab.boot((last, name), name).await;
    }
    let workers = (2..).zip(&names);
    let workers = workers.map(|(last, name)| lab.vnfc((last, name, "workerNode", "workerCP"), &[]));
    let master = lab.vnfc((1, "m1", "masterNode", "masterCP"), &[]);
    let all: Vec<Value> = [master].into_iter().chain(workers).collect();
    let mut request = lab.request("instantiate_end", &lab.params());
    request.inventory.vnfc_resource_info = serde_json::from_value(json!(all)).unwrap();
    let effects = lab.run(request, None).await.unwrap().unwrap();
    lab.check(&effects);
    assert!(names.iter().all(|name| lab.cluster().node_ready(name)));
    let joins = names.iter().map(|name| lab.count(name, "kubeadm join"));
    assert_eq!(joins.sum::<usize>(), usize::from(WORKERS), "each once");
    let most = lab.pending.most();
    assert!(
        (10..=HOSTS_AT_A_TIME + 1).contains(&most),
        "{most} calls at a time"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn ten_hosts_are_installed_and_patched_within_ten_minutes() {
    let lab = Lab::empty().await.with_software_in_package();
    lab.boot((1, "m1"), "m1").await;
    let names: Vec<_> = (1..=9).map(|n| format!("w{n}")).collect();
    for (last, name) in (2..).zip(&names) {
        lab.boot((last, name), name).await;
    }
    let workers = (2..).zip(&names);
    let workers = workers.map(|(last, name)| lab.vnfc((last, name, "workerNode", "workerCP"), &[]));
    let master = lab.vnfc((1, "m1", "masterNode", "masterCP"), &[]);
    let all: Vec<Value> = [master].into_iter().chain(workers).collect();
    let on_ten = |mut request: HookRequest| {
        request.inventory.vnfc_resource_info = serde_json::from_value(json!(all)).unwrap();
        lab.run(request, None)
    };
    let began = Instant::now();
    let params = lab.with_list(&wanted("1.0"));
    on_ten(lab.request("instantiate_end", &params))
        .await
        .unwrap()
        .unwrap();
    let installed = began.elapsed();
    lab.deploy_b().await;
    let began = Instant::now();
    let own = json!({ "parallel_upgrades": 3 });
    on_ten(lab.patch_request(&wanted("1.1"), &own))
        .await
        .unwrap()
        .unwrap();
    println!(
        "ten simulated hosts: installed in {installed:?}, patched in {:?}",
        began.elapsed()
    );
    assert!(installed + began.elapsed() < SITE_LIMIT);
    for name in names.iter().map(String::as_str).chain(["m1"]) {
        assert_eq!(lab.installations(name, "1.1"), 1, "{name}");
    }
    assert_eq!(lab.usable_nodes().len(), 10);
    lab.wait_for_pods_of_b(2).await;
    assert_eq!(lab.books.violations(), [""; 0]);
}
