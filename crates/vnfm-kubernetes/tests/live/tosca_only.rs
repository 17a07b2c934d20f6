//! A package without manifests and charts through the life of an instance.

use crate::heal::repair;
use crate::support::{World, sample_of};
use serde_json::{Value, json};
use std::sync::Arc;
use vnfm_core::ports::{Allocation, Convergence, InfraDriver as _, Recorded};

/// The sample with this number of VNFCs and this greeting.
fn web(count: u32, greeting: &str) -> Allocation {
    let mut what = sample_of("cnf-tosca-only", "instantiate.json");
    let deployment = Arc::make_mut(&mut what.deployment);
    deployment.vdu_instances.insert("web".into(), count);
    deployment
        .additional_params
        .insert("greeting".into(), greeting.into());
    what
}

fn ids(recorded: &Recorded) -> Vec<&str> {
    let all = recorded.inventory.vnfc_resource_info.iter();
    all.map(|vnfc| vnfc.id.as_str()).collect()
}

async fn object(world: &World, (version, kind, plural): (&str, &str, &str), name: &str) -> Value {
    let api = world.api(version, kind, plural, Some(&world.namespace()));
    api.get(name).await.unwrap().data
}

const DEPLOYMENTS: (&str, &str, &str) = ("apps/v1", "Deployment", "deployments");
const INGRESSES: (&str, &str, &str) = ("networking.k8s.io/v1", "Ingress", "ingresses");

async fn update(world: &World, current: &Recorded, target: &Allocation) -> Recorded {
    let change = Convergence::update(current, target);
    let updated = world
        .driver
        .converge(&world.cx(60), &change, &Value::Null)
        .await;
    updated.unwrap()
}

#[tokio::test]
async fn a_package_of_tosca_alone_is_instantiated_scaled_healed_changed_and_terminated() {
    let Some(world) = World::start().await else {
        return;
    };
    let what = web(2, "hello");
    world.driver.validate_request(&what).unwrap();
    let created = world.instantiate(&what, 60).await.unwrap();
    assert_eq!(ids(&created).len(), 2);
    let vnfc = &created.inventory.vnfc_resource_info[0];
    assert_eq!(
        (vnfc.vdu_id.as_str(), vnfc.vnfc_cp_info[0].cpd_id.as_str()),
        ("web", "webCP")
    );
    let cp = &created.inventory.ext_cp_info[0];
    assert_eq!(
        (cp.cpd_id.as_str(), &cp.metadata["type"]),
        ("front", &json!("ClusterIP"))
    );
    let ingress = object(&world, INGRESSES, "front").await;
    assert_eq!(ingress["spec"]["rules"][0]["host"], "web.example.com");

    let larger = update(&world, &created, &web(4, "hello")).await;
    assert_eq!(ids(&larger).len(), 4);
    assert!(
        ids(&created).iter().all(|id| ids(&larger).contains(id)),
        "the pods stay"
    );
    let smaller = update(&world, &larger, &web(3, "hello")).await;
    assert_eq!(ids(&smaller).len(), 3);

    let (repair, what) = (repair(&smaller, &[0]), web(3, "hello"));
    let change = repair.change(&what);
    let healed = world
        .driver
        .converge(&world.cx(60), &change, &Value::Null)
        .await;
    let healed = healed.unwrap();
    assert_eq!(ids(&healed).len(), 3);
    assert!(!ids(&healed).contains(&ids(&smaller)[0]), "it was replaced");
    assert!(
        ids(&smaller)[1..]
            .iter()
            .all(|id| ids(&healed).contains(id))
    );

    // Another configuration replaces the pods, which read it when they start.
    let changed = update(&world, &healed, &web(3, "bye")).await;
    let page = world
        .config_maps(&world.namespace())
        .get("web")
        .await
        .unwrap();
    assert_eq!(page.data["data"]["greeting"], "bye");
    assert!(ids(&changed).iter().all(|id| !ids(&healed).contains(id)));
    let replicas = object(&world, DEPLOYMENTS, "web").await["spec"]["replicas"].clone();
    assert_eq!(replicas, 3);

    world
        .terminate(&web(3, "bye"), changed.handle)
        .await
        .unwrap();
    world.assert_nothing_left().await;
}

#[tokio::test]
async fn a_lost_handle_is_replaced_by_what_the_descriptor_says() {
    let Some(world) = World::start().await else {
        return;
    };
    let what = web(1, "hello");
    world.instantiate(&what, 60).await.unwrap();
    world.terminate(&what, Value::Null).await.unwrap();
    world.assert_nothing_left().await;
}
