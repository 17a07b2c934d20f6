//! What a cluster offers, and ASDs that require something of it.

use crate::support::{CONFIG, World, package_of};
use serde_json::json;
use vnfm_core::ports::{Allocation, ErrorKind, InfraDriver as _, Observed};

/// An ASD with one ConfigMap that requires this of its cluster.
fn asd(required: &str) -> Allocation {
    let asd = format!(
        "tosca_definitions_version: tosca_simple_yaml_1_3
imports: [oran_asd_types_v02.00.00.yaml]
topology_template:
  node_templates:
    app:
      type: tosca.nodes.asd.Asd
      properties:
        asdId: a1
        asdInvariantId: i1
        asdVersion: '1'
        asdProvider: Us
        asdApplicationName: Web
        asdApplicationSwVersion: '1'
        enhancedClusterCapabilities: {{{required}}}
      artifacts:
        page: {{type: tosca.artifacts.asd.DeploymentItem, file: page.yaml, properties: {{deploymentItemId: page, artifactType: kubernetes_manifest, deploymentOrder: 1}}}}
"
    );
    package_of((&asd, vec![("page.yaml", CONFIG.as_bytes())]), &json!({}))
}

#[tokio::test]
async fn a_cluster_shows_its_version_nodes_and_kinds() {
    let Some(world) = World::start().await else {
        return;
    };
    let offered = world
        .driver
        .capabilities(&world.vim, "default")
        .await
        .unwrap();
    assert!(offered.kubernetes_version.starts_with("v1."), "{offered:?}");
    let Observed::Known(apis) = &offered.apis else {
        panic!("{offered:?}")
    };
    assert!(
        apis.contains("apps/v1/Deployment") && apis.contains("v1/Node"),
        "{apis:?}"
    );
    let Observed::Known(nodes) = &offered.nodes else {
        panic!("{offered:?}")
    };
    let listed = world.api("v1", "Node", "nodes", None);
    let listed = listed
        .list(&kube::api::ListParams::default())
        .await
        .unwrap();
    let listed = listed
        .items
        .into_iter()
        .filter_map(|node| node.metadata.name);
    let mut listed: Vec<String> = listed.collect();
    listed.sort();
    let names: Vec<&str> = nodes.iter().map(|node| node.name.as_str()).collect();
    assert_eq!(names, listed);
}

#[tokio::test]
async fn an_asd_is_refused_with_all_that_the_cluster_lacks() {
    let Some(world) = World::start().await else {
        return;
    };
    let what = asd(
        "clusterLabel: ['example.com/no-such -m'], requiredCustomResource: [{kind: NoSuchKind, apiVersion: example.com/v1}]",
    );
    let refused = world.instantiate(&what, 30).await.unwrap_err();
    assert_eq!(
        (refused.name(), refused.kind()),
        ("kubernetes.capabilities", ErrorKind::Refused)
    );
    let text = refused.to_string();
    for lacking in [
        "label `example.com/no-such`",
        "`NoSuchKind` of `example.com/v1`",
    ] {
        assert!(text.contains(lacking), "{text}");
    }
    world.assert_nothing_left().await;
}

#[tokio::test]
async fn what_is_only_preferred_is_logged_and_the_asd_deployed() {
    let Some(world) = World::start().await else {
        return;
    };
    let what = asd(
        "clusterLabel: ['example.com/no-such -p'], requiredCustomResource: [{kind: Deployment, apiVersion: apps/v1}]",
    );
    let created = world.instantiate(&what, 30).await.unwrap();
    let logs = world.seen.logs.lock().unwrap().clone();
    let about = |text: &str| logs.iter().any(|line| line.contains(text));
    assert!(about("preferred label `example.com/no-such`"), "{logs:?}");
    assert!(!about("Deployment"), "{logs:?}");
    world.terminate(&what, created.handle).await.unwrap();
    world.assert_nothing_left().await;
}
