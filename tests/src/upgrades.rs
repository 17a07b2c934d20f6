//! Changes of the VNF package, for the simulated and the real tier: the sample `vnf-rolling-1` on OpenStack, two servers at a
//! time, and VNF-B on Kubernetes.

#![expect(clippy::unwrap_used, reason = "tests fail by panicking")]
#![expect(clippy::missing_panics_doc, reason = "tests fail by panicking")]

use std::collections::BTreeMap;

use serde_json::Value;

use crate::sources::root;
use crate::testbed::Testbed;

/// Name of the instance of `vnf-rolling-1`.
pub const ROLLING: &str = "rolling";

/// A sample's request that changes the package.
pub fn change(sample: &str) -> Value {
    let path = root().join(format!("vnfd-samples/{sample}/requests/change_vnfpkg.json"));
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

/// Requests the change of a sample; the operation.
pub fn begin(testbed: &Testbed, vnf: &str, sample: &str) -> String {
    testbed.begin(vnf, "change_vnfpkg", &change(sample))
}

/// The instance as `vnfmctl vnf show` prints it.
pub fn shown(testbed: &Testbed, vnf: &str) -> Value {
    testbed.server.ctl(&["vnf", "show", vnf])
}

/// The VNFCs of an instance by name, each with its id and image.
pub fn vnfcs(instance: &Value) -> BTreeMap<String, (String, Value)> {
    let all = instance["instantiatedVnfInfo"]["vnfcResourceInfo"].as_array();
    let one = |vnfc: &Value| {
        let name = vnfc["metadata"]["name"].as_str().unwrap().to_owned();
        let id = vnfc["id"].as_str().unwrap().to_owned();
        (name, (id, vnfc["metadata"]["image"].clone()))
    };
    all.unwrap().iter().map(one).collect()
}

/// Creates and instantiates `vnf-rolling-1` on the cloud; its next release is onboarded.
pub fn instantiate_rolling(testbed: &Testbed, vim: &str) {
    let package = testbed.onboard("vnf-rolling-1");
    testbed.onboard("vnf-rolling-2");
    let words = ["vnf", "create", "--package", &package, "--name", ROLLING];
    testbed.server.ctl(&words);
    let request = testbed.request("vnf-rolling-1", vim);
    testbed.wait_for_state(&testbed.instantiate(ROLLING, &request), "COMPLETED");
}
