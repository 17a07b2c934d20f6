//! Instantiation: idempotent, and without changes to foreign objects.

use crate::support::{CONFIG, SERVICE, World, deployment, package, sample};
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};
use vnfm_core::ports::{Convergence, ErrorKind, InfraDriver as _, Inventory};

/// Two VNFCs of `WebServer`, each with the name, address and namespace of its pod.
async fn assert_vnfcs_are_pods(world: &World, inventory: &Inventory) {
    let name = world.namespace();
    let vnfcs = &inventory.vnfc_resource_info;
    assert_eq!(vnfcs.len(), 2);
    for vnfc in vnfcs {
        assert_eq!(
            (vnfc.vdu_id.as_str(), vnfc.vnfc_cp_info[0].cpd_id.as_str()),
            ("WebServer", "WebCP")
        );
        let resource = &vnfc.compute_resource;
        assert_eq!(
            (
                resource.vim_connection_id.as_deref(),
                resource.vim_level_resource_type.as_deref()
            ),
            (Some("vim1"), Some("Pod"))
        );
        let pod = world
            .api("v1", "Pod", "pods", Some(&name))
            .get(&resource.resource_id)
            .await
            .unwrap();
        let address = &vnfc.vnfc_cp_info[0].cp_protocol_info[0]
            .ip_over_ethernet
            .as_ref()
            .unwrap()
            .ip_addresses[0];
        assert_eq!(json!(address.addresses[0]), pod.data["status"]["podIP"]);
        assert_eq!(vnfc.metadata["namespace"], json!(name));
    }
}

#[tokio::test]
async fn instantiation_is_idempotent_and_termination_deletes_everything() {
    let Some(world) = World::start().await else {
        return;
    };
    let namespace = "apiVersion: v1\nkind: Namespace\nmetadata: {name: $namespace}\n";
    let page =
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: page}\ndata: {x: '${greeting} $HOME'}\n";
    let what = package(
        &[
            (1, namespace),
            (2, page),
            (3, &deployment(2, "")),
            (3, SERVICE),
        ],
        "variables: {greeting: }",
        json!({"greeting": "hello"}),
    );
    world.driver.validate_request(&what).unwrap();
    let created = world.instantiate(&what, 60).await.unwrap();
    let name = world.namespace();
    assert_eq!(
        world.config_maps(&name).get("page").await.unwrap().data["data"]["x"],
        "hello $HOME"
    );
    assert_vnfcs_are_pods(&world, &created.inventory).await;
    let again = world.instantiate(&what, 60).await.unwrap();
    assert_eq!(
        (again.handle, &again.inventory),
        (created.handle.clone(), &created.inventory)
    );
    let owned = world
        .driver
        .owned(&world.vim, &world.owner.installation_id)
        .await
        .unwrap();
    let found: Vec<(&str, &str)> = owned
        .iter()
        .map(|one| (one.kind.as_str(), one.name.as_str()))
        .collect();
    assert_eq!(found, [("Namespace", name.as_str())]);
    assert_eq!(
        owned[0].instance_id.as_deref(),
        Some(world.owner.instance_id.as_str())
    );
    assert!(world.has_any().await);
    world
        .terminate(&what, created.handle.clone())
        .await
        .unwrap();
    world.assert_nothing_left().await;
    assert!(world.namespaces().get_opt(&name).await.unwrap().is_none());
    world.terminate(&what, created.handle).await.unwrap();
}

#[tokio::test]
async fn a_foreign_object_is_refused_by_name_and_not_changed() {
    let Some(world) = World::start().await else {
        return;
    };
    let namespace = format!("shared-{}", world.owner.instance_id);
    world.make_namespace(&namespace).await;
    let maps = world.config_maps(&namespace);
    let theirs = world.make(&maps, json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "page"}, "data": {"x": "theirs"}})).await;
    let what = package(&[(1, CONFIG)], "", json!({"namespace": namespace}));
    let refused = world
        .driver
        .preview(&world.cx(20), &Convergence::create(&what))
        .await
        .unwrap_err();
    assert_eq!(
        (refused.name(), refused.kind()),
        ("kubernetes.foreign-object", ErrorKind::Refused)
    );
    assert!(
        refused.to_string().contains("ConfigMap `page`"),
        "{refused}"
    );
    let prepared = json!({"namespace": namespace});
    let refused = world
        .driver
        .converge(&world.cx(20), &Convergence::create(&what), &prepared)
        .await
        .unwrap_err();
    assert_eq!(refused.name(), "kubernetes.foreign-object");
    world.terminate(&what, Value::Null).await.unwrap();
    assert_eq!(
        maps.get("page").await.unwrap().metadata.resource_version,
        theirs.metadata.resource_version
    );
    let neighbour = world.neighbour();
    world.clean(&maps, "page").await;
    world.instantiate(&what, 20).await.unwrap();
    let refused = neighbour.instantiate(&what, 20).await.unwrap_err();
    let text = "it belongs to another instance";
    assert!(refused.to_string().contains(text), "{refused}");
    world.terminate(&what, Value::Null).await.unwrap();
    world.assert_nothing_left().await;
    assert!(
        world
            .namespaces()
            .get_opt(&namespace)
            .await
            .unwrap()
            .is_some(),
        "the namespace was there before"
    );
    world.clean(&world.namespaces(), &namespace).await;
}

#[tokio::test]
async fn a_conflict_names_the_other_field_manager() {
    let Some(world) = World::start().await else {
        return;
    };
    let what = package(&[(1, CONFIG)], "", json!({}));
    let created = world.instantiate(&what, 20).await.unwrap();
    let maps = world.config_maps(&world.namespace());
    let theirs = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "page"}, "data": {"x": "2"}});
    maps.patch(
        "page",
        &PatchParams::apply("somebody").force(),
        &Patch::Apply(&theirs),
    )
    .await
    .unwrap();
    let conflict = world.instantiate(&what, 20).await.unwrap_err();
    assert_eq!(
        (conflict.name(), conflict.kind()),
        ("kubernetes.conflict", ErrorKind::Refused)
    );
    assert!(
        conflict.detail().contains("\"somebody\"") && conflict.detail().contains(".data.x"),
        "{conflict}"
    );
    assert_eq!(maps.get("page").await.unwrap().data["data"]["x"], "2");
    world.terminate(&what, created.handle).await.unwrap();
    world.assert_nothing_left().await;
}

#[tokio::test]
async fn a_terminating_namespace_is_not_used() {
    let Some(world) = World::start().await else {
        return;
    };
    let namespace = format!("going-{}", world.owner.instance_id);
    world.make_namespace(&namespace).await;
    let maps = world.config_maps(&namespace);
    world.make(&maps, json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "held", "finalizers": ["example.com/hold"]}})).await;
    world.clean(&world.namespaces(), &namespace).await;
    let what = package(&[(1, CONFIG)], "", json!({"namespace": namespace}));
    let refused = world
        .driver
        .preview(&world.cx(20), &Convergence::create(&what))
        .await
        .unwrap_err();
    assert_eq!(
        (refused.name(), refused.kind()),
        ("kubernetes.namespace-terminating", ErrorKind::Unavailable)
    );
    world
        .change(&maps, "held", json!({"metadata": {"finalizers": null}}))
        .await;
}

#[tokio::test]
async fn the_sample_is_instantiated_and_terminated() {
    let Some(world) = World::start().await else {
        return;
    };
    let what = sample();
    world.driver.validate_request(&what).unwrap();
    let created = world.instantiate(&what, 60).await.unwrap();
    assert_eq!(created.inventory.vnfc_resource_info.len(), 2);
    assert_eq!(created.metadata["namespace"], json!(world.namespace()));
    world.terminate(&what, created.handle).await.unwrap();
    world.assert_nothing_left().await;
}
