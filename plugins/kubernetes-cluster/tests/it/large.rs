//! A cluster of fifty nodes: installed with a bounded number of hosts at a time.

use crate::lab::Lab;
use serde_json::{Value, json};

const WORKERS: u8 = 49;
/// How many hosts the driver works on at a time, and the control-plane node.
const HOSTS_AT_A_TIME: usize = 21;

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
