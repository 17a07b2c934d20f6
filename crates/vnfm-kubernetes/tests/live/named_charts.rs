//! Charts that the request names, by Helm 3 and Helm 4.

use crate::charts::{list, packed, row, worlds};
use crate::support::{World, deployment, package_of, sample_of};
use serde_json::{Value, json};
use std::sync::Arc;
use vnfm_core::ports::{Allocation, Convergence, InfraDriver as _, PortError, Recorded};
use vnfm_kubernetes::{Helm, KubernetesDriver};
use vnfm_outbound::Destinations;

const VNFD: &str = "tosca_definitions_version: tosca_simple_yaml_1_3
imports: [etsi_nfv_sol001_vnfd_types.yaml]
topology_template:
  substitution_mappings: {node_type: tosca.nodes.nfv.VNF, properties: {flavour_id: simple}}
  node_templates:
    VNF:
      type: tosca.nodes.nfv.VNF
      properties: {descriptor_id: b1bb0ce7, descriptor_version: '1.0', provider: Us, product_name: Web, software_version: '1.0',
        vnfm_info: [vnfm], flavour_id: simple, flavour_description: one}
    VDU1:
      type: tosca.nodes.nfv.Vdu.OsContainerDeployableUnit
      properties: {name: web, vdu_profile: {min_number_of_instances: 1, max_number_of_instances: 3}}
  policies:
    - aspects:
        type: tosca.policies.nfv.ScalingAspects
        properties: {aspects: {load: {name: load, description: more, max_scale_level: 2, step_deltas: [one]}}}
    - steps:
        type: tosca.policies.nfv.VduScalingAspectDeltas
        properties: {aspect: load, deltas: {one: {number_of_instances: 1}}}
        targets: [VDU1]
    - initial:
        type: tosca.policies.nfv.VduInitialDelta
        properties: {initial_delta: {number_of_instances: 1}}
        targets: [VDU1]
";
/// Shows the values that it gets, the number of replicas among them.
const PAGE: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: page-{{ .Chart.Name }}}\ndata: {all: {{ .Values | toJson | quote }}}\n";

fn web() -> String {
    deployment(7, "").replace("replicas: 7", "replicas: {{ .Values.web.count }}")
}

/// A package with a chart in a folder, another one that is packed, and a file of values.
fn package(params: &Value) -> Allocation {
    let (web, packed) = (
        web(),
        packed("tool", &[("templates/page.yaml", PAGE.to_owned())]),
    );
    let files: Vec<(&str, &[u8])> = vec![
        (
            "Charts/web/Chart.yaml",
            b"{apiVersion: v2, name: web, version: 1.0.0}",
        ),
        (
            "Charts/web/values.yaml",
            b"{web: {count: 5}, color: red, size: small}",
        ),
        ("Charts/web/templates/web.yaml", web.as_bytes()),
        ("Charts/web/templates/page.yaml", PAGE.as_bytes()),
        ("Charts/tool.tgz", &packed),
        (
            "Files/values.yaml",
            b"color: green\nsize: medium\nlabels: {a: 1}\n",
        ),
    ];
    package_of((VNFD, files), params)
}

fn sized(what: &Allocation, count: u32) -> Allocation {
    let mut sized = what.clone();
    let deployment = Arc::make_mut(&mut sized.deployment);
    deployment.vdu_instances.insert("VDU1".into(), count);
    sized
}

async fn update(world: &World, current: &Recorded, target: &Allocation) -> Recorded {
    let (cx, change) = (world.cx(60), Convergence::update(current, target));
    let updated = world.driver.converge(&cx, &change, &Value::Null).await;
    updated.unwrap()
}

/// The values that a chart got.
async fn values(world: &World, page: &str) -> Value {
    let page = world.config_maps(&world.namespace()).get(page).await;
    serde_json::from_str(page.unwrap().data["data"]["all"].as_str().unwrap()).unwrap()
}

#[tokio::test]
async fn a_chart_of_the_second_version_has_its_values_and_sizes() {
    for (program, world) in worlds().await {
        let what = package(&json!({
            "helm_chart_path": "Charts/web", "helm_value_file_path": "Files/values.yaml",
            "helm_parameters": {"color": "blue", r"labels.example\.com/b": "true"},
            "helm_value_names": {"VDU1": {"replica": "web.count"}}}));
        world.driver.validate_request(&what).unwrap();
        let created = world.instantiate(&what, 60).await.unwrap();
        assert_eq!(
            list(&program, &world.namespace()),
            [row("web", "1", "deployed")]
        );
        let expected = json!({"web": {"count": 1}, "color": "blue", "size": "medium",
            "labels": {"a": 1, "example.com/b": true}});
        assert_eq!(values(&world, "page-web").await, expected);
        let vnfcs = &created.inventory.vnfc_resource_info;
        assert_eq!((vnfcs.len(), vnfcs[0].vdu_id.as_str()), (1, "VDU1"));

        let scaled = update(&world, &created, &sized(&what, 3)).await;
        assert_eq!(scaled.inventory.vnfc_resource_info.len(), 3);
        assert_eq!(values(&world, "page-web").await["web"]["count"], 3);
        let healed = update(&world, &scaled, &sized(&what, 3)).await;
        assert_eq!(
            list(&program, &world.namespace()),
            [row("web", "2", "deployed")]
        );

        // A change to a package without the chart, whose request names another one.
        let other = package(&json!({"helm_chart_path": "Charts/tool.tgz"}));
        let changed = update(&world, &healed, &other).await;
        assert_eq!(
            list(&program, &world.namespace()),
            [row("tool", "1", "deployed")]
        );
        world.terminate(&other, changed.handle).await.unwrap();
        world.assert_nothing_left().await;
    }
}

#[tokio::test]
async fn charts_of_the_first_version_have_their_releases_and_sizes() {
    for (program, world) in worlds().await {
        let what = package(&json!({
            "use_helm": "true",
            "using_helm_install_param": [
                {"exthelmchart": "false", "helmreleasename": "front", "helmchartfile_path": "Charts/web", "helmparameter": ["color=blue,size=3"]},
                {"exthelmchart": "false", "helmreleasename": "back", "helmchartfile_path": "Charts/tool.tgz", "helmparameter": ["a.b=c"]}],
            "helm_replica_values": {"load": "web.count"},
            "vdu_mapping": {"VDU1": {"kind": "Deployment", "name": "web", "helmreleasename": "front"}}}));
        let created = world.instantiate(&sized(&what, 2), 60).await.unwrap();
        assert_eq!(created.inventory.vnfc_resource_info.len(), 2);
        let mut releases = list(&program, &world.namespace());
        releases.sort();
        let expected = [row("back", "1", "deployed"), row("front", "1", "deployed")];
        assert_eq!(releases, expected);
        let front = values(&world, "page-web").await;
        assert_eq!(
            front,
            json!({"web": {"count": 2}, "color": "blue", "size": 3})
        );
        assert_eq!(values(&world, "page-tool").await, json!({"a": {"b": "c"}}));
        world.terminate(&what, created.handle).await.unwrap();
        world.assert_nothing_left().await;
    }
}

#[tokio::test]
async fn the_sample_is_deployed_by_its_manifests_and_by_its_chart() {
    for (program, world) in worlds().await {
        let name = world.namespace();
        let by_manifests = sample_of("cnf-by-request", "instantiate.json");
        let created = world.instantiate(&by_manifests, 60).await.unwrap();
        assert_eq!(created.inventory.vnfc_resource_info[0].vdu_id, "VDU1");
        assert_eq!(list(&program, &name), []);
        world
            .terminate(&by_manifests, created.handle)
            .await
            .unwrap();

        let by_chart = sample_of("cnf-by-request", "instantiate-chart.json");
        let created = world.instantiate(&by_chart, 60).await.unwrap();
        let scaled = update(&world, &created, &sized(&by_chart, 2)).await;
        assert_eq!(scaled.inventory.vnfc_resource_info.len(), 2);
        assert_eq!(list(&program, &name), [row("web", "2", "deployed")]);
        let page = world.config_maps(&name).get("page").await.unwrap();
        let text = page.data["data"]["index.html"].as_str().unwrap();
        assert_eq!(text, "Web: hello from the request, from 2 pods");
        world.terminate(&by_chart, scaled.handle).await.unwrap();
        world.assert_nothing_left().await;
    }
}

fn refusal(params: &Value) -> PortError {
    let driver = KubernetesDriver::new(Destinations::anywhere());
    let driver = driver.with_helm(Helm::new("/bin/true", None));
    driver.validate_request(&package(params)).unwrap_err()
}

#[test]
fn what_cannot_be_a_chart_of_the_package_or_a_value_is_refused_by_name() {
    let chart = "Charts/web";
    let install = |members: Value| json!({"use_helm": true, "using_helm_install_param": [members]});
    for (params, resource, part) in [
        (
            json!({"helm_chart_path": "Charts/wbe"}),
            "helm_chart_path",
            "no file",
        ),
        (
            json!({"helm_chart_path": "oci://example.com/web"}),
            "helm_chart_path",
            "nothing is downloaded",
        ),
        (
            json!({"helm_parameters": {"a": 1}}),
            "helm_parameters",
            "names no chart",
        ),
        (
            json!({"helm_chart_path": chart, "helm_parameters": {"a[0]": "hunter2"}}),
            "helm_parameters.a[0]",
            "has an index",
        ),
        (
            json!({"helm_chart_path": chart, "helm_parameters": ["a=hunter2"]}),
            "helm_parameters",
            "must be an object",
        ),
        (
            json!({"helm_chart_path": chart, "helm_value_file_path": "Charts/tool.tgz"}),
            "helm_value_file_path",
            "not UTF-8",
        ),
        (
            json!({"helm_chart_path": chart, "helm_value_names": {"VDU2": {"replica": "n"}}}),
            "helm_value_names.VDU2",
            "no VDU `VDU2`",
        ),
        (
            json!({"helm_chart_path": chart, "helm_replica_values": {"lod": "n"}}),
            "helm_replica_values.lod",
            "no aspect `lod`",
        ),
        (
            json!({"using_helm_install_param": []}),
            "using_helm_install_param",
            "`use_helm` is not true",
        ),
        (
            json!({"use_helm": true}),
            "use_helm",
            "has no `using_helm_install_param`",
        ),
        (
            install(
                json!({"exthelmchart": "true", "helmchartname": "web", "exthelmrepo_url": "https://example.com"}),
            ),
            "using_helm_install_param[0]",
            "nothing is downloaded",
        ),
        (
            install(json!({"helmchartfile_path": chart, "helmreleasename": "Web"})),
            "using_helm_install_param[0].helmreleasename",
            "cannot name a release",
        ),
        (
            install(json!({"helmchartfile_path": chart, "helmparameter": ["hunter2"]})),
            "using_helm_install_param[0].helmparameter[0]",
            "key=value",
        ),
        (
            json!({"helm_chart_path": chart, "upgrade_type": "BlueGreen"}),
            "upgrade_type",
            "must be `RollingUpdate`",
        ),
    ] {
        let error = refusal(&params);
        assert_eq!(error.name(), "kubernetes.parameter-invalid", "{error}");
        assert_eq!(
            error.resource(),
            Some(format!("additionalParams.{resource}").as_str())
        );
        assert!(error.to_string().contains(part), "{error}");
        assert!(!format!("{error:?}").contains("hunter2"), "{error:?}");
    }
    let twice = refusal(&json!({"use_helm": true, "using_helm_install_param":
        [{"helmchartfile_path": chart}, {"helmchartfile_path": chart}]}));
    assert!(
        twice.to_string().contains("release of the same name"),
        "{twice}"
    );
    let undeclared = refusal(&json!({"helm_chart_path": chart, "helm_parameter": {}}));
    assert_eq!(
        undeclared.resource(),
        Some("additionalParams.helm_parameter")
    );
}
