//! Invalid requests are refused before anything is changed.

use crate::lab::{Lab, PASSWORD};
use serde_json::{Value, json};
use vnfm_core::ports::{Declaration, HookInstantiation, MgmtDrivers};

async fn refused(change: impl FnOnce(&mut Value)) -> String {
    let lab = Lab::empty().await;
    let mut params = lab.params();
    change(&mut params["k8s_cluster_installation_param"]);
    let result = lab
        .run(lab.request("instantiate_end", &params), None)
        .await
        .unwrap();
    let error = result.unwrap_err();
    assert!(lab.books.calls().is_empty(), "a host was touched");
    let text = format!("{error} {error:?}");
    assert!(!text.contains(PASSWORD), "{text}");
    text
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_parameters_are_named() {
    let vdu = refused(|p| p["worker_node"]["vdu_id"] = json!("nobody")).await;
    assert!(
        vdu.contains("`worker_node.vdu_id`") && vdu.contains("masterNode"),
        "{vdu}"
    );
    let cp = refused(|p| p["master_node"]["cluster_cp_name"] = json!("noCP")).await;
    assert!(cp.contains("noCP") && cp.contains("masterCP"), "{cp}");
    let login = refused(|p| {
        p["worker_node"].as_object_mut().unwrap().remove("password");
    })
    .await;
    assert!(
        login.contains("neither `password` nor `private_key`"),
        "{login}"
    );
    let two = refused(|p| {
        p["master_node"]["vdu_id"] = json!("workerNode");
        for cp in ["ssh_cp_name", "nic_cp_name", "cluster_cp_name"] {
            p["master_node"][cp] = json!("workerCP");
        }
    })
    .await;
    assert!(
        two.contains("2 nodes") && two.contains("1, 3 or 5"),
        "{two}"
    );
    let cni = refused(|p| p["cni_manifest"] = json!("Files/no.yaml")).await;
    assert!(cni.contains("Files/no.yaml"), "{cni}");
}

/// What `instantiate_start` refuses, for this many VNFCs of the control plane.
async fn refused_before(masters: u32, change: impl FnOnce(&mut Value)) -> Option<String> {
    let lab = Lab::empty().await;
    let mut params = lab.params();
    change(&mut params["k8s_cluster_installation_param"]);
    let mut request = lab.request("instantiate_start", &params);
    request.inventory.vnfc_resource_info.clear();
    let mut instantiation = HookInstantiation::default();
    let vdus = [("masterNode", masters), ("workerNode", 2)];
    instantiation.vnfcs_to_create = vdus.map(|(vdu, n)| (vdu.to_owned(), n)).into();
    request.instantiation = Some(instantiation);
    let result = lab.run(request, None).await.unwrap();
    assert!(lab.books.calls().is_empty(), "a host was touched");
    let error = result.err()?;
    assert_eq!(error.name(), "bad-parameters", "{error}");
    Some(error.to_string())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_that_is_not_possible_is_refused_before_there_is_a_server() {
    let shared = |p: &mut Value| p["control_plane_endpoint"] = json!({ "address": "10.0.0.9" });
    for size in [1, 3, 5] {
        assert_eq!(refused_before(size, shared).await, None, "{size}");
    }
    for size in [0, 2, 4, 7] {
        let error = refused_before(size, shared).await.unwrap();
        assert!(error.contains(&format!("{size} nodes")), "{error}");
    }
    let alone = refused_before(3, |_| ()).await.unwrap();
    assert!(alone.contains("`control_plane_endpoint`"), "{alone}");
    let named = refused_before(2, |p| p["master_node"]["vdu_id"] = json!("masterNode")).await;
    assert!(named.unwrap().contains("2 nodes"));
    let ranges = refused_before(1, |p| {
        p["master_node"]["cluster_cidr"] = json!("10.244.9.0/24");
    });
    let ranges = ranges.await.unwrap();
    assert!(
        ranges.contains("pod_cidr") && ranges.contains("cluster_cidr"),
        "{ranges}"
    );
    let address = refused_before(3, |p| {
        p["control_plane_endpoint"] = json!({ "address": "10.244.7.7" });
    });
    let address = address.await.unwrap();
    assert!(address.contains("10.244.7.7"), "{address}");
    let addon = |p: &mut Value| p["addons"] = json!([{ "name": "x", "manifest": "no.yaml" }]);
    let addon = refused_before(1, addon).await.unwrap();
    assert!(addon.contains("no.yaml"), "{addon}");
}

/// What the driver declares.
fn declaration() -> Declaration {
    let plugins = vnfm_plugin_host::PluginHost::new(
        vnfm_plugin_host::Config::default(),
        std::sync::Arc::new(crate::lab::RealClock),
    );
    plugins
        .register(vnfm_plugin_sdk::static_driver::<
            kubernetes_cluster::KubernetesCluster,
        >())
        .unwrap();
    let driver = plugins.resolve(&"kubernetes-cluster".into()).unwrap();
    driver.declaration().clone()
}

#[test]
fn the_schema_marks_secret_and_required_members() {
    let declaration = declaration();
    let names: Vec<_> = declaration.hooks.keys().collect();
    assert_eq!(
        names,
        [
            "change_current_package_end",
            "change_current_package_start",
            "heal_end",
            "heal_start",
            "instantiate_end",
            "instantiate_start",
            "operate_end",
            "operate_start",
            "scale_end",
            "scale_start",
            "scale_to_level_end",
            "scale_to_level_start",
            "terminate_end"
        ]
    );
    let schema = declaration.hooks["instantiate_end"]
        .parameters
        .clone()
        .unwrap();
    assert_eq!(
        schema["required"],
        json!(["k8s_cluster_installation_param"])
    );
    let actions = declaration.hooks["operate_end"].parameters.clone().unwrap();
    let passphrase = &actions["properties"]["etcd_passphrase"];
    assert!(
        passphrase.to_string().contains("\"writeOnly\":true") || passphrase["$ref"].is_string(),
        "{actions}"
    );
    let master = &schema["$defs"]["MasterNode"];
    for secret in ["password", "private_key"] {
        assert_eq!(master["properties"][secret]["writeOnly"], true, "{master}");
    }
    assert!(master["anyOf"].is_array());
    assert_eq!(
        schema["$defs"]["Proxy"]["properties"]["http_proxy"]["writeOnly"],
        true
    );
}

#[test]
fn hooks_that_drain_nodes_have_the_same_parameters() {
    let declaration = declaration();
    let both = ["start", "end"];
    let hooks = |operation: &str| both.map(|end| format!("{operation}_{end}"));
    for hook in ["heal", "scale", "scale_to_level"].map(hooks).concat() {
        let schema = declaration.hooks[&hook].parameters.clone().unwrap();
        let property = |name: &str| schema["properties"][name].clone();
        assert_eq!(
            property("drain_timeout_seconds")["default"],
            300,
            "{schema}"
        );
        assert_eq!(property("on_drain_timeout")["default"], "fail", "{schema}");
        let loss = property("accept_cluster_loss")["default"].clone();
        let heals = hook.starts_with("heal");
        assert_eq!(
            loss,
            if heals { json!(false) } else { Value::Null },
            "{schema}"
        );
        assert_eq!(property("delete_bare_pods")["default"], false, "{schema}");
        assert_eq!(
            schema["$defs"]["MasterNode"]["properties"]["password"]["writeOnly"],
            true
        );
    }
}
