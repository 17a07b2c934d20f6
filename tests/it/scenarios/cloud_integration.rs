//! A cluster that uses its cloud: the stack's outputs reach the hook, and the cloud controller manager has a login of its own.

use std::path::Path;

use serde_json::{Value, json};
use vnfm_tests::cloud::Cloud;
use vnfm_tests::testbed::VNF_A;

use super::testbed;

const SAMPLE: &str = "vnf-a-cloud-integration";

#[test]
fn a_cluster_has_a_login_to_the_cloud_as_long_as_it_exists() {
    let (sim, testbed) = testbed(&[], "info");
    let inventory = || Cloud::login(&sim.clouds()).inventory(Path::new("/nowhere"));
    let before = inventory();
    let (_, request) = testbed.create_a(SAMPLE);
    let request = request.to_string().replace("@LB_PROVIDER@", "amphora");
    let mut request: Value = serde_json::from_str(&request).unwrap();
    // The simulated load balancer has no address.
    request["instantiationLevelId"] = json!("single");
    let installation = &mut request["additionalParams"]["k8s_cluster_installation_param"];
    let installation = installation.as_object_mut().unwrap();
    installation.remove("control_plane_endpoint");
    testbed.wait_for_state(&testbed.instantiate(VNF_A, &request), "COMPLETED");
    let shown = testbed.server.ctl(&["vnf", "show", VNF_A]);
    assert_eq!(
        shown["metadata"]["addons"]["cloud-provider-openstack"],
        "1.32.0"
    );
    assert_eq!(sim.calls("keystone.credential_create", "").len(), 1);
    assert_eq!(sim.calls("keystone.credential_delete", "").len(), 0);
    // The check of the real scenarios for leaks sees the login.
    let mut new = inventory().into_iter().filter(|one| !before.contains(one));
    assert!(new.any(|one| one.starts_with("application credential vnf-")));
    assert!(
        sim.files().iter().all(|(_, path, text)| {
            !String::from_utf8_lossy(text).contains("application-credential-secret")
                || path.contains("etcd")
        }),
        "no host keeps the login in a file"
    );
    // A termination does not pass over a login that it cannot see.
    sim.arm(&json!({"call": "keystone.credential_list", "fault": {"status": 403}}));
    let op = testbed.terminate(VNF_A);
    let stopped = testbed.wait_for_state(&op, "FAILED_TEMP");
    testbed.assert_explains(&op, &stopped["error"], &["application credentials"]);
    assert_eq!(sim.calls("heat.stack_delete", "").len(), 0);
    let retried = testbed.server.run(&["op", "retry", &op]);
    assert_eq!(retried.code, 0, "{retried:?}");
    testbed.wait_for_state(&op, "COMPLETED");
    testbed.server.ctl(&["vnf", "delete", VNF_A]);
    assert_eq!(sim.calls("keystone.credential_delete", "").len(), 1);
    testbed.finish();
    assert_eq!(inventory(), before);
    sim.assert_clean();
}
