//! What serves the address of a control plane of several nodes: HAProxy and keepalived, kube-vip, or something outside.

use crate::engine_side::Kill;
use crate::lab::{Lab, VIP};
use crate::shared_lab::{FIVE, THREE, last_byte};
use serde_json::{Value, json};
use vnfm_core::ports::HookRequest;
use vnfm_sim::faults::{Fault, Rule, When};

#[tokio::test(flavor = "multi_thread")]
async fn a_load_balancer_that_has_not_loaded_its_configuration_is_reloaded_by_the_retry() {
    let (lab, _) = Lab::with_three().await;
    for name in ["m4", "m5"] {
        lab.boot((last_byte(name), name), name).await;
    }
    lab.run_scale("scale_start", (THREE, FIVE)).await.unwrap();
    let reloads = || {
        ["haproxy", "keepalived"]
            .map(|service| lab.count("m2", &format!("systemctl reload {service}")))
    };
    let before = reloads();
    let killed = Rule::new("host.exec", Fault::Drop { drop: When::Before });
    for service in ["haproxy", "keepalived"] {
        let reload = format!("m2: systemctl reload {service}");
        lab.faults.add(killed.clone().on(reload).nth(1, 1));
        lab.run_scale("scale_end", (THREE, FIVE)).await.unwrap_err();
    }
    lab.run_scale("scale_end", (THREE, FIVE)).await.unwrap();
    assert_eq!(reloads(), before.map(|count| count + 2));
    lab.run_scale("scale_end", (THREE, FIVE)).await.unwrap();
    assert_eq!(reloads(), before.map(|count| count + 2), "it has loaded it");
    lab.assert_control_planes(FIVE);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_external_address_needs_nothing_on_the_nodes() {
    let lab = Lab::with_control_planes(THREE).await;
    let mut params = lab.shared_params();
    let endpoint = &mut params["k8s_cluster_installation_param"]["control_plane_endpoint"];
    endpoint["provider"] = json!("external");
    endpoint["port"] = json!(16443);
    endpoint["external_address"] = json!("203.0.113.7");
    let request = lab.shared_request("instantiate_end", &params, &lab.vnfcs(THREE, &[]));
    let effects = lab.run(request, None).await.unwrap().unwrap();
    lab.assert_control_planes(THREE);
    let vim = &effects.register_vims[0];
    assert_eq!(vim.interface_info["endpoint"], "https://203.0.113.7:16443");
    assert_eq!(lab.text("m1", "/etc/haproxy/haproxy.cfg"), "");
    assert_eq!(lab.count("m1", "dpkg"), 0);
}

/// The request with a load balancer whose address is this output of the stack.
fn behind(output: &str, mut request: HookRequest) -> HookRequest {
    let installation = &mut request.additional_params["k8s_cluster_installation_param"];
    let address = format!("${{output.{output}}}");
    installation["control_plane_endpoint"] =
        json!({ "provider": "external", "address": address, "port": 16443 });
    request
}

#[tokio::test(flavor = "multi_thread")]
async fn a_load_balancer_of_the_stack_gives_its_address_to_every_hook() {
    let lab = Lab::with_control_planes(THREE).await;
    let request = |hook: &str| {
        let vnfcs = lab.vnfcs(THREE, &[]);
        behind(
            "api_address",
            lab.shared_request(hook, &lab.shared_params(), &vnfcs),
        )
    };
    let mut start = request("instantiate_start");
    start.inventory.vnfc_resource_info.clear();
    lab.run(start, None).await.unwrap().unwrap();
    let end = lab.run(request("instantiate_end"), None).await;
    let effects = end.unwrap().unwrap();
    lab.assert_control_planes(THREE);
    let endpoint = format!("https://{}:16443", lab.address(VIP));
    assert_eq!(
        effects.register_vims[0].interface_info["endpoint"],
        endpoint
    );
    lab.deploy_b().await;

    lab.run(
        behind("api_address", lab.heal_three("heal_start", &["m1"])),
        None,
    )
    .await
    .unwrap()
    .unwrap();
    lab.replace_server("m1").await;
    lab.run(
        behind("api_address", lab.heal_three("heal_end", &["m1"])),
        None,
    )
    .await
    .unwrap()
    .unwrap();
    lab.assert_control_planes(THREE);

    for name in ["m4", "m5"] {
        lab.boot((last_byte(name), name), name).await;
    }
    for hook in ["scale_start", "scale_end"] {
        let request = lab.scale_control_planes(hook, (THREE, FIVE));
        lab.run(behind("api_address", request), None)
            .await
            .unwrap()
            .unwrap();
    }
    lab.assert_control_planes(FIVE);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_output_that_is_no_address_is_refused_before_a_host_is_touched() {
    let lab = Lab::with_control_planes(THREE).await;
    for (output, expected) in [
        (
            "api_vip",
            "`control_plane_endpoint.address`: the stack has no output `api_vip` with one value; its outputs are \
             service_subnet, pods, api_address",
        ),
        (
            "pods",
            "`control_plane_endpoint.address`: the output `pods` is `10.244.0.0/16`, which is not an address",
        ),
    ] {
        let vnfcs = lab.vnfcs(THREE, &[]);
        let request = lab.shared_request("instantiate_end", &lab.shared_params(), &vnfcs);
        let refused = lab.run(behind(output, request), None).await.unwrap();
        let error = refused.unwrap_err();
        assert_eq!(error.name(), "bad-parameters", "{error}");
        assert!(error.to_string().contains(expected), "{error}");
    }
    assert_eq!(lab.books.calls_named("host.exec").len(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn kube_vip_is_a_static_pod_on_each_control_plane() {
    let lab = Lab::with_control_planes(THREE).await;
    let mut params = lab.shared_params();
    let endpoint = &mut params["k8s_cluster_installation_param"]["control_plane_endpoint"];
    endpoint["provider"] = json!("kube_vip");
    endpoint["port"] = json!(16443);
    endpoint["image"] = json!("registry.example.com/kube-vip:v1");
    let request = lab.shared_request("instantiate_end", &params, &lab.vnfcs(THREE, &[]));
    let pod = |host: &str| -> Value {
        let manifest = lab.text(host, "/etc/kubernetes/manifests/kube-vip.yaml");
        serde_json::from_str(&manifest).unwrap()
    };
    let login = |pod: &Value| pod["spec"]["volumes"][0]["hostPath"]["path"].clone();
    let init = Some(Kill::Asking("start inst-1 init"));
    assert!(lab.run(request.clone(), init).await.is_none());
    assert_eq!(
        login(&pod("m1")),
        "/etc/kubernetes/super-admin.conf",
        "until `kubeadm init` has given rights to the other one"
    );
    lab.run(request, None).await.unwrap().unwrap();
    lab.assert_control_planes(THREE);
    for host in THREE {
        let pod = pod(host);
        assert_eq!(login(&pod), "/etc/kubernetes/admin.conf");
        let container = &pod["spec"]["containers"][0];
        assert_eq!(container["image"], "registry.example.com/kube-vip:v1");
        let address = json!({ "name": "address", "value": lab.address(VIP).to_string() });
        assert!(
            container["env"].as_array().unwrap().contains(&address),
            "{container:#}"
        );
    }
}
