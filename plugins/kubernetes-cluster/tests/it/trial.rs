//! The installation keeps the promises of every hook: a trial of the test-kit, on the lab's hosts.

use crate::lab::{Lab, PASSWORD};
use kubernetes_cluster::KubernetesCluster;
use serde_json::{Value, json};
use std::sync::{Arc, Mutex};
use tokio::runtime::Handle;
use tokio::task::block_in_place;
use vnfm_plugin_sdk::Effects;
use vnfm_plugin_sdk::testkit::{TestHost, TestRequest, trial_each};

/// Labs that were made, to be looked at in the end.
type Labs = Arc<Mutex<Vec<Arc<Lab>>>>;

/// A lab of its own for each thing that goes wrong.
fn stage(labs: &Labs) -> (TestHost, TestRequest) {
    let lab = Arc::new(block_in_place(|| Handle::current().block_on(Lab::new())));
    let request = lab.request("instantiate_end", &lab.params());
    let host = lab.package.iter().fold(TestHost::over(lab.neighbours()), |host, (path, bytes)| {
        host.file(path, bytes.clone())
    });
    labs.lock().unwrap().push(lab);
    (host, TestRequest::recorded(json!(request)))
}

/// What has to be there in the end, in the lab whose cluster the effects name.
fn state(labs: &Labs, effects: &Effects) -> Value {
    let vim = &effects.register_vims[0];
    let is_it = |lab: &&Arc<Lab>| {
        vim.interface_info["endpoint"].as_str().unwrap().contains(&lab.address(1).to_string())
    };
    let lab = labs.lock().unwrap().iter().find(is_it).cloned().unwrap();
    lab.check(&serde_json::from_value(json!(effects)).unwrap());
    let joins = ["w1", "w2"].map(|worker| lab.count(worker, "kubeadm join"));
    json!({"vim": vim.name, "inits": lab.count("m1", "kubeadm init"), "joins": joins})
}

#[tokio::test(flavor = "multi_thread")]
async fn the_installation_keeps_its_promises_whatever_goes_wrong() {
    let labs = Labs::default();
    let (made, looked_at) = (labs.clone(), labs);
    let trial = trial_each::<KubernetesCluster>(move || stage(&made))
        .alike(move |_, effects| state(&looked_at, effects))
        .secret(PASSWORD)
        .every(4)
        .at_once(4);
    let tried = trial.run_async().await.unwrap();
    assert!(tried.calls > 30 && tried.worlds > 20, "{tried:?}");
}
