//! kube-vip's static pod, compared whole with a file that the live tests apply to an API server.

use crate::lab::{Lab, VIP};
use crate::shared_lab::THREE;
use serde_json::{Value, json};

#[tokio::test(flavor = "multi_thread")]
async fn the_static_pod_is_the_one_that_the_live_tests_apply() {
    let lab = Lab::with_control_planes(THREE).await;
    let mut params = lab.shared_params();
    let endpoint = &mut params["k8s_cluster_installation_param"]["control_plane_endpoint"];
    endpoint["provider"] = json!("kube_vip");
    endpoint["port"] = json!(16443);
    endpoint["interface"] = json!("eth0");
    endpoint["image"] = json!("registry.example.com/kube-vip:v1");
    let request = lab.shared_request("instantiate_end", &params, &lab.vnfcs(THREE, &[]));
    lab.run(request, None).await.unwrap().unwrap();
    let text = include_str!("kube-vip.json").replace("192.0.2.100", &lab.address(VIP).to_string());
    let expected: Value = serde_json::from_str(&text).unwrap();
    for host in THREE {
        let found = lab.text(host, "/etc/kubernetes/manifests/kube-vip.yaml");
        let found: Value = serde_json::from_str(&found).unwrap();
        assert_eq!(found, expected, "{host}");
    }
}
