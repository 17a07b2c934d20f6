//! Charts that the request names, by Helm 3 and Helm 4.

use crate::charts::{list, packed, row, worlds};
use crate::support::{VNF, World, deployment, package_of, sample_of};
use serde_json::{Value, json};
use std::sync::Arc;
use vnfm_core::ports::{Allocation, Convergence, InfraDriver as _, PortError, Recorded};
use vnfm_kubernetes::{Helm, KubernetesDriver};
use vnfm_outbound::Destinations;

const SCALED_VDU: &str = "    VDU1:
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
    package_of((&format!("{VNF}{SCALED_VDU}"), files), params)
}

/// The order file of the next test: a manifest, then both charts.
const ORDER: &str = "variables: {greeting: , pods: 2}
manifests: [{path: Files/config.yaml, order: 1}]
charts:
- path: Charts/web
  order: 2
  release: front
  values: {web: {count: $pods}, color: 'a $greeting $HOME', size: small}
- {path: Charts/tool.tgz, order: 2}
";

fn ordered_package(order: &str, params: &Value) -> Allocation {
    let packed = packed("tool", &[("templates/page.yaml", PAGE.to_owned())]);
    let (web, config) = (web(), crate::support::CONFIG);
    let files: Vec<(&str, &[u8])> = vec![
        (
            "Charts/web/Chart.yaml",
            b"{apiVersion: v2, name: web, version: 1.0.0}",
        ),
        ("Charts/web/templates/web.yaml", web.as_bytes()),
        ("Charts/web/templates/page.yaml", PAGE.as_bytes()),
        ("Charts/tool.tgz", &packed),
        ("Files/config.yaml", config.as_bytes()),
        ("Files/kubernetes/order.yaml", order.as_bytes()),
    ];
    package_of((&format!("{VNF}{SCALED_VDU}"), files), params)
}

#[tokio::test]
async fn charts_of_the_order_file_have_their_stage_and_its_variables() {
    for (program, world) in worlds().await {
        let what = ordered_package(ORDER, &json!({"greeting": "hello", "pods": "1"}));
        world.driver.validate_request(&what).unwrap();
        let created = world.instantiate(&what, 60).await.unwrap();
        let name = world.namespace();
        let expected = [row("front", "1", "deployed"), row("tool", "1", "deployed")];
        assert_eq!(list(&program, &name), expected);
        let front = json!({"web": {"count": 1}, "color": "a hello $HOME", "size": "small"});
        assert_eq!(values(&world, "page-web").await, front);
        let objects = created.handle["objects"].as_array().unwrap();
        assert_eq!(
            (&objects[0]["name"], &objects[0]["stage"]),
            (&json!("page"), &json!(0))
        );
        assert!(objects[1..].iter().all(|object| object["stage"] == 1));
        let scaled = update(&world, &created, &sized(&what, 2)).await;
        assert_eq!(scaled.inventory.vnfc_resource_info.len(), 2);
        let manifests = ordered_package(ORDER.split_once("charts:").unwrap().0, &json!({}));
        let changed = update(&world, &scaled, &manifests).await;
        assert_eq!(list(&program, &name), []);
        world.terminate(&manifests, changed.handle).await.unwrap();
        world.assert_nothing_left().await;
    }
}

#[test]
fn a_chart_of_the_order_file_needs_its_variables_and_a_release() {
    let driver = KubernetesDriver::new(Destinations::anywhere());
    let driver = driver.with_helm(Helm::new("/bin/true", None));
    let missing = ordered_package(ORDER, &json!({}));
    let missing = driver.validate_request(&missing).unwrap_err();
    assert_eq!(missing.name(), "kubernetes.variable-missing");
    assert!(missing.to_string().contains("order.yaml:4"), "{missing}");
    let named = ordered_package(
        &ORDER.replace("front", "Front"),
        &json!({"greeting": "hello"}),
    );
    let named = driver.validate_request(&named).unwrap_err();
    assert_eq!(named.name(), "kubernetes.chart-invalid");
    assert!(
        named.to_string().contains("`Front` cannot name a release"),
        "{named}"
    );
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

/// Asserts that each request is refused at the named parameter, for the reason, without showing a value.
fn assert_refused(cases: &[(Value, &str, &str)]) {
    for (params, resource, part) in cases {
        let error = refusal(params);
        let resource = format!("additionalParams.{resource}");
        assert_eq!(error.name(), "kubernetes.parameter-invalid", "{error}");
        assert_eq!(error.resource(), Some(resource.as_str()), "{error}");
        assert!(error.to_string().contains(part), "{error}");
        assert!(!format!("{error:?}").contains("hunter2"), "{error:?}");
    }
}

/// A request with a chart, and this parameter.
fn with(name: &str, value: Value) -> Value {
    let mut params = json!({"helm_chart_path": "Charts/web"});
    params[name] = value;
    params
}

#[test]
fn what_cannot_be_a_chart_of_the_package_or_a_value_is_refused_by_name() {
    let index = json!({"a[0]": "hunter2"});
    let unknown = json!({"VDU2": {"replica": "n"}});
    assert_refused(&[
        (
            with("helm_chart_path", json!("Charts/wbe")),
            "helm_chart_path",
            "no file",
        ),
        (
            with("helm_chart_path", json!("oci://example.com/web")),
            "helm_chart_path",
            "nothing is downloaded",
        ),
        (
            with("helm_parameters", index),
            "helm_parameters.a[0]",
            "has an index",
        ),
        (
            with("helm_parameters", json!(["a=hunter2"])),
            "helm_parameters",
            "must be an object",
        ),
        (
            with("helm_value_file_path", json!("Charts/tool.tgz")),
            "helm_value_file_path",
            "not UTF-8",
        ),
        (
            with("helm_value_names", unknown),
            "helm_value_names.VDU2",
            "no VDU `VDU2`",
        ),
        (
            with("helm_replica_values", json!({"lod": "n"})),
            "helm_replica_values.lod",
            "no aspect `lod`",
        ),
        (
            with("upgrade_type", json!("BlueGreen")),
            "upgrade_type",
            "must be `RollingUpdate`",
        ),
        (
            json!({"helm_parameters": {"a": 1}}),
            "helm_parameters",
            "names no chart",
        ),
    ]);
    let undeclared = refusal(&with("helm_parameter", json!({})));
    assert_eq!(
        undeclared.resource(),
        Some("additionalParams.helm_parameter")
    );
}

#[test]
fn what_cannot_be_installed_as_in_the_first_version_is_refused_by_name() {
    let first = "using_helm_install_param[0]";
    let install = |members: Value| json!({"use_helm": true, "using_helm_install_param": [members]});
    let external = json!({"exthelmchart": "true", "helmchartname": "web", "exthelmrepo_url": "https://example.com"});
    let named = json!({"helmchartfile_path": "Charts/web", "helmreleasename": "Web"});
    let unassigned = json!({"helmchartfile_path": "Charts/web", "helmparameter": ["hunter2"]});
    assert_refused(&[
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
        (install(external), first, "nothing is downloaded"),
        (install(json!({})), first, "has no `helmchartfile_path`"),
        (
            install(named),
            &format!("{first}.helmreleasename"),
            "cannot name a release",
        ),
        (
            install(unassigned),
            &format!("{first}.helmparameter[0]"),
            "key=value",
        ),
    ]);
    let chart = json!({"helmchartfile_path": "Charts/web"});
    let twice = refusal(&json!({"use_helm": true, "using_helm_install_param": [chart, chart]}));
    assert!(
        twice.to_string().contains("release of the same name"),
        "{twice}"
    );
}
