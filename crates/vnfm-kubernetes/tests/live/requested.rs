//! Manifests that the request names, and the workloads of VDUs.

use crate::support::{CONFIG, SERVICE, World, deployment, package, unordered_package};
use serde_json::{Value, json};
use std::sync::Arc;
use vnfm_core::ports::{Allocation, Convergence, InfraDriver as _, PortError};
use vnfm_kubernetes::KubernetesDriver;
use vnfm_outbound::Destinations;

/// A package with more manifests than the request names.
fn named(params: &Value) -> Allocation {
    let front = deployment(1, "").replace("metadata: {name: web}", "metadata: {name: front}");
    let other = CONFIG.replace("page", "other");
    let files = [
        ("Files/kubernetes/front.yaml", front.as_str()),
        ("Files/kubernetes/page.yaml", CONFIG),
        ("Files/kubernetes/service.yaml", SERVICE),
        ("Files/kubernetes/other.yaml", &other),
    ];
    unordered_package(&files, params)
}

/// The kinds and names of the objects in a handle, in the order in which they were applied.
fn applied(handle: &Value) -> Vec<String> {
    let objects = handle["objects"].as_array().unwrap().iter();
    let text = |object: &Value, member: &str| object[member].as_str().unwrap().to_owned();
    objects
        .map(|object| format!("{} {}", text(object, "kind"), text(object, "name")))
        .collect()
}

#[tokio::test]
async fn manifests_of_the_request_are_applied_scaled_replaced_and_deleted() {
    let Some(world) = World::start().await else {
        return;
    };
    let mapping = json!({"WebServer": {"kind": "Deployment", "name": "front"}});
    let what = named(
        &json!({"vdu_mapping": mapping, "lcm-kubernetes-def-files": [
        "Files/kubernetes/front.yaml", "Files/kubernetes/service.yaml", "./Files/kubernetes/page.yaml"]}),
    );
    world.driver.validate_request(&what).unwrap();
    let created = world.instantiate(&what, 60).await.unwrap();
    let expected = ["ConfigMap page", "Service web", "Deployment front"];
    assert_eq!(applied(&created.handle), expected, "only those, sorted");
    let vnfcs = &created.inventory.vnfc_resource_info;
    assert_eq!((vnfcs.len(), vnfcs[0].vdu_id.as_str()), (1, "WebServer"));

    let mut larger = what.clone();
    let deployment = Arc::make_mut(&mut larger.deployment);
    deployment.vdu_instances.insert("WebServer".into(), 3);
    let change = Convergence::update(&created, &larger);
    let cx = world.cx(60);
    let scaled = world.driver.converge(&cx, &change, &Value::Null).await;
    let scaled = scaled.unwrap();
    assert_eq!(scaled.inventory.vnfc_resource_info.len(), 3);

    // Another package, whose files the request of the change names.
    let next = named(
        &json!({"vdu_mapping": mapping, "lcm-kubernetes-def-files": [
        "Files/kubernetes/front.yaml", "Files/kubernetes/other.yaml"]}),
    );
    let change = Convergence::update(&scaled, &next);
    let changed = world.driver.converge(&cx, &change, &Value::Null).await;
    let changed = changed.unwrap();
    let expected = ["ConfigMap other", "Deployment front"];
    assert_eq!(applied(&changed.handle), expected);
    let page = world.config_maps(&world.namespace()).get_opt("page").await;
    assert!(page.unwrap().is_none(), "no file describes it any more");
    world.terminate(&next, changed.handle).await.unwrap();
    world.assert_nothing_left().await;
}

#[tokio::test]
async fn named_manifests_replace_those_of_the_order_file_and_keep_its_variables() {
    let Some(world) = World::start().await else {
        return;
    };
    let page = CONFIG.replace("'1'", "$greeting");
    let named =
        json!({"greeting": "hello", "lcm-kubernetes-def-files": ["Files/kubernetes/1.yaml"]});
    let what = package(
        &[(1, SERVICE), (2, &page)],
        "variables: {greeting: }",
        named,
    );
    let created = world.instantiate(&what, 60).await.unwrap();
    assert_eq!(applied(&created.handle), ["ConfigMap page"]);
    let page = world.config_maps(&world.namespace()).get("page").await;
    assert_eq!(page.unwrap().data["data"]["x"], "hello");
    world.terminate(&what, created.handle).await.unwrap();
    world.assert_nothing_left().await;
}

#[tokio::test]
async fn without_an_order_file_a_dollar_sign_is_no_variable() {
    let Some(world) = World::start().await else {
        return;
    };
    let page = CONFIG.replace("'1'", "$namespace");
    let files = [("page.yaml", page.as_str())];
    let what = unordered_package(&files, &json!({"lcm-kubernetes-def-files": ["page.yaml"]}));
    let created = world.instantiate(&what, 60).await.unwrap();
    let page = world.config_maps(&world.namespace()).get("page").await;
    assert_eq!(page.unwrap().data["data"]["x"], "$namespace");
    world.terminate(&what, created.handle).await.unwrap();
    world.assert_nothing_left().await;
}

fn refusal(what: &Allocation) -> PortError {
    let driver = KubernetesDriver::new(Destinations::anywhere());
    driver.validate_request(what).unwrap_err()
}

#[test]
fn what_the_package_does_not_have_is_refused_by_name() {
    let listed = "additionalParams.lcm-kubernetes-def-files";
    let mapped = "additionalParams.vdu_mapping.";
    for (params, resource, parts) in [
        (
            json!({"lcm-kubernetes-def-files": ["Files/kubernetes/pag.yaml"]}),
            format!("{listed}[0]"),
            [
                "no file `Files/kubernetes/pag.yaml`",
                "did you mean `Files/kubernetes/page.yaml`",
            ],
        ),
        (
            json!({"lcm-kubernetes-def-files": ["Files/kubernetes/page.yaml", "https://example.com/a.yaml"]}),
            format!("{listed}[1]"),
            ["nothing is downloaded", "list the URL with its hash"],
        ),
        (
            json!({"lcm-kubernetes-def-files": ["../page.yaml"]}),
            format!("{listed}[0]"),
            ["leaves the package", "correct the named parameter"],
        ),
        (
            json!({"lcm-kubernetes-def-files": ["Files/kubernetes/page.yaml", "Files//kubernetes/page.yaml"]}),
            format!("{listed}[1]"),
            ["named already", ""],
        ),
        (
            json!({"lcm-kubernetes-def-files": "Files/kubernetes/page.yaml"}),
            listed.to_owned(),
            ["must be a list", "gives text"],
        ),
        (
            json!({"lcm-kubernetes-def-files": ["Files/kubernetes/page.yaml"], "vdu_mapping": {"web": {"kind": "Deployment", "name": "front"}}}),
            format!("{mapped}web"),
            ["has no VDU `web`", "WebServer"],
        ),
        (
            json!({"lcm-kubernetes-def-files": ["Files/kubernetes/page.yaml"], "vdu_mapping": {"WebServer": {"name": "front"}}}),
            format!("{mapped}WebServer"),
            ["has no `kind`", ""],
        ),
    ] {
        let error = refusal(&named(&params));
        assert_eq!(error.name(), "kubernetes.parameter-invalid", "{error}");
        assert_eq!(error.resource(), Some(resource.as_str()), "{error}");
        let message = format!("{error} {}", error.next());
        assert!(parts.iter().all(|part| message.contains(part)), "{message}");
    }
    let none = refusal(&named(&json!({})));
    assert!(none.next().contains("lcm-kubernetes-def-files"), "{none}");
}

#[test]
fn a_file_that_the_list_of_the_package_lacks_is_refused() {
    let params = json!({"lcm-kubernetes-def-files": ["page.yaml"]});
    let manifest =
        |source: &str| format!("metadata:\n  vnf_product_name: Web\n\nSource: {source}\n");
    let with = |source: &str| {
        let manifest = manifest(source);
        let files = [
            ("page.yaml", CONFIG),
            ("other.yaml", CONFIG),
            ("Definitions/vnfd.mf", &manifest),
        ];
        unordered_package(&files, &params)
    };
    let error = refusal(&with("other.yaml"));
    assert!(error.to_string().contains("lists `page.yaml`"), "{error}");
    let driver = KubernetesDriver::new(Destinations::anywhere());
    driver.validate_request(&with("page.yaml")).unwrap();
}
