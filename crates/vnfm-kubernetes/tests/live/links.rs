//! Shared virtual links as `NetworkAttachmentDefinition`s: what is created, what is refused, what is left alone.

use crate::support::World;
use kube::Error;
use kube::api::{Api, DynamicObject, ListParams, PostParams};
use serde_json::{Value, json};
use std::time::{Duration, Instant};
use vnfm_core::ports::{InfraDriver as _, Links};
use vnfm_types::{LinkSpec, SharedLink};

const GROUP: &str = "k8s.cni.cncf.io/v1";
const PLURAL: &str = "network-attachment-definitions";

/// The kind that Multus brings; it stays on the cluster.
async fn install(world: &World) {
    let open = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let definition = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{PLURAL}.k8s.cni.cncf.io")},
        "spec": {"group": "k8s.cni.cncf.io", "scope": "Namespaced",
            "names": {"kind": "NetworkAttachmentDefinition", "plural": PLURAL},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": open}}]}});
    let definition: DynamicObject = serde_json::from_value(definition).expect("an object");
    let kinds = world.api(
        "apiextensions.k8s.io/v1",
        "CustomResourceDefinition",
        "customresourcedefinitions",
        None,
    );
    match kinds.create(&PostParams::default(), &definition).await {
        Err(Error::Api(status)) if status.code == 409 => {}
        created => drop(created.expect("the cluster takes it")),
    }
    let begun = Instant::now();
    while networks(world, None)
        .list(&ListParams::default())
        .await
        .is_err()
    {
        assert!(
            begun.elapsed() < Duration::from_secs(30),
            "the kind is not served"
        );
        tokio::task::yield_now().await;
    }
}

fn networks(world: &World, namespace: Option<&str>) -> Api<DynamicObject> {
    world.api(GROUP, "NetworkAttachmentDefinition", PLURAL, namespace)
}

fn config() -> Value {
    json!({"cniVersion": "1.0.0", "type": "bridge", "bridge": "br-left"})
}

fn link(namespace: &str, name: &str) -> SharedLink {
    SharedLink {
        id: format!("of-{namespace}"),
        spec: LinkSpec {
            name: name.into(),
            namespace: Some(namespace.into()),
            cni_config: config().as_object().cloned(),
            ..LinkSpec::default()
        },
        ..SharedLink::default()
    }
}

fn links(world: &World) -> &dyn Links {
    world.driver.links().expect("clusters have links")
}

#[tokio::test]
async fn a_link_is_a_network_attachment_definition_of_its_own() {
    let Some(world) = World::start().await else {
        return;
    };
    install(&world).await;
    let namespace = format!("links-{}", world.owner.instance_id);
    world.make_namespace(&namespace).await;
    let link = link(&namespace, "lan-left");
    for _ in 0..2 {
        let id = links(&world).create_link(&world.cx(20), &link).await;
        assert_eq!(id.unwrap(), format!("{namespace}/lan-left"));
    }
    let api = networks(&world, Some(&namespace));
    let object = api.get("lan-left").await.unwrap();
    let text = object.data["spec"]["config"].as_str().unwrap();
    assert_eq!(serde_json::from_str::<Value>(text).unwrap(), config());
    let installation = &world.owner.installation_id;
    let owned = world.driver.owned(&world.vim, installation).await.unwrap();
    let its: Vec<_> = owned.iter().filter(|one| one.link_id.is_some()).collect();
    assert_eq!(its.len(), 1, "{owned:?}");
    assert_eq!(
        (&its[0].link_id, &its[0].instance_id),
        (&Some(link.id.clone()), &None)
    );
    // Another link of that name gets no network, and its deletion takes none.
    let other = SharedLink {
        id: format!("other-{namespace}"),
        ..link.clone()
    };
    let refused = links(&world).create_link(&world.cx(20), &other).await;
    assert_eq!(refused.unwrap_err().name(), "kubernetes.foreign-object");
    links(&world)
        .delete_link(&world.cx(20), &other)
        .await
        .unwrap();
    assert!(api.get("lan-left").await.is_ok());
    for _ in 0..2 {
        links(&world)
            .delete_link(&world.cx(20), &link)
            .await
            .unwrap();
        assert!(api.get_opt("lan-left").await.unwrap().is_none());
    }
    world.clean(&world.namespaces(), &namespace).await;
}

#[tokio::test]
async fn a_namespace_that_goes_with_its_instance_has_no_link() {
    let Some(world) = World::start().await else {
        return;
    };
    install(&world).await;
    let namespace = format!("links-{}", world.owner.instance_id);
    let missing = links(&world)
        .create_link(&world.cx(20), &link(&namespace, "lan"))
        .await;
    let missing = missing.unwrap_err();
    assert!(
        missing.name() == "kubernetes.link" && missing.to_string().contains("does not exist"),
        "{missing}"
    );
    world.make_namespace(&namespace).await;
    let labels = json!({"metadata": {"labels": {"vnfm.dev/instance": world.owner.instance_id}}});
    world.change(&world.namespaces(), &namespace, labels).await;
    let refused = links(&world)
        .create_link(&world.cx(20), &link(&namespace, "lan"))
        .await;
    let refused = refused.unwrap_err();
    assert!(
        refused
            .to_string()
            .contains("together with its VNF instance"),
        "{refused}"
    );
    assert!(
        networks(&world, Some(&namespace))
            .get_opt("lan")
            .await
            .unwrap()
            .is_none()
    );
    world.clean(&world.namespaces(), &namespace).await;
}

#[tokio::test]
async fn a_request_that_no_cluster_can_have_is_refused_by_member() {
    let Some(world) = World::start().await else {
        return;
    };
    let change = |change: fn(&mut LinkSpec)| {
        let mut spec = link("networks", "lan").spec;
        change(&mut spec);
        spec
    };
    links(&world).validate_link(&change(|_| ())).unwrap();
    for (spec, member) in [
        (change(|spec| spec.name = "LAN".into()), "name"),
        (change(|spec| spec.name = "../lan".into()), "name"),
        (change(|spec| spec.namespace = None), "namespace"),
        (
            change(|spec| spec.namespace = Some("a/b".into())),
            "namespace",
        ),
        (change(|spec| spec.cni_config = None), "cniConfig"),
        (
            change(|spec| spec.cni_config = json!({"name": "x"}).as_object().cloned()),
            "cniConfig",
        ),
        (
            change(|spec| spec.subnets = vec![vnfm_types::LinkSubnet::default()]),
            "subnets",
        ),
    ] {
        let refused = links(&world).validate_link(&spec).unwrap_err();
        assert_eq!(
            (refused.name(), refused.resource()),
            ("kubernetes.link", Some(member)),
            "{refused}"
        );
    }
}
