//! Charts of an ASD, by Helm 3 and Helm 4.

use crate::charts::{list, packed, row, worlds};
use crate::support::{CONFIG, World, package_of, sample_of};
use kube::api::ListParams;
use serde_json::{Value, json};
use vnfm_core::ports::{Allocation, Convergence, InfraDriver as _, PortError};
use vnfm_kubernetes::{Helm, KubernetesDriver};
use vnfm_outbound::Destinations;

/// A hook that never completes.
const ENDLESS: &str = "apiVersion: batch/v1
kind: Job
metadata: {name: 'wait-{{ .Chart.Name }}', annotations: {helm.sh/hook: pre-install}}
spec: {template: {spec: {restartPolicy: Never, nodeSelector: {no: such}, containers: [{name: wait, image: 'localhost/busybox:1'}]}}}
";
const PAGE: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: page-{{ .Chart.Name }}}\ndata: {all: {{ .Values | toJson | quote }}}\n";

/// An ASD with these artifacts, two charts that have one template each, and a manifest.
fn package(artifacts: &str, template: &str, params: &Value) -> Allocation {
    let asd = format!(
        "tosca_definitions_version: tosca_simple_yaml_1_3
imports: [oran_asd_types_v02.00.00.yaml]
topology_template:
  node_templates:
    app:
      type: tosca.nodes.asd.Asd
      properties: {{asdId: a1, asdInvariantId: i1, asdVersion: '1', asdProvider: Us, asdApplicationName: Web, asdApplicationSwVersion: '1',
        asdExtCpd: [{{id: page, virtualLinkRequirement: [oam], inputParamMappings: {{nadName: ['web:net.name']}}}}]}}
      artifacts:
{artifacts}"
    );
    let chart = |name: &str| packed(name, &[("templates/it.yaml", template.to_owned())]);
    let (web, tool) = (chart("web"), chart("tool"));
    let files: Vec<(&str, &[u8])> = vec![
        ("Charts/web.tgz", &web),
        ("Charts/tool.tgz", &tool),
        ("page.yaml", CONFIG.as_bytes()),
        ("all.yaml", b"releases: []\n"),
    ];
    package_of((&asd, files), params)
}

fn item(name: &str, file: &str, (kind, order): (&str, u32), parameters: &str) -> String {
    format!(
        "        {name}: {{type: tosca.artifacts.asd.DeploymentItem, file: {file}, properties: {{deploymentItemId: '{name}', artifactType: {kind}, deploymentOrder: {order}, deploymentParameter: [{parameters}]}}}}\n"
    )
}

/// Two charts at the same time, one of them with a manifest before it.
fn together(parameters: &str) -> String {
    [
        item("web", "Charts/web.tgz", ("helm_chart", 1), parameters),
        item("tool", "Charts/tool.tgz", ("helm_chart", 1), "size"),
        item("page", "page.yaml", ("kubernetes_manifest", 1), ""),
    ]
    .concat()
}

#[tokio::test]
async fn the_charts_of_the_sample_are_installed_one_after_the_other() {
    for (program, world) in worlds().await {
        let what = sample_of("asd-charts", "instantiate.json");
        world.driver.validate_request(&what).unwrap();
        let created = world.instantiate(&what, 60).await.unwrap();
        let name = world.namespace();
        let releases = list(&program, &name);
        let expected = [
            row("settings", "1", "deployed"),
            row("web", "1", "deployed"),
        ];
        assert_eq!(releases, expected);
        assert_eq!(created.handle["releases"], json!(["settings", "web"]));
        let settings = world.config_maps(&name).get("settings").await.unwrap();
        assert_eq!(
            settings.data["data"],
            json!({"greeting": "hello from an ASD"})
        );
        let vnfcs = &created.inventory.vnfc_resource_info;
        assert_eq!((vnfcs.len(), vnfcs[0].vdu_id.as_str()), (2, "web"));
        let stages = created.handle["objects"].as_array().unwrap().iter();
        let stages: Vec<_> = stages.map(|one| (&one["name"], &one["stage"])).collect();
        assert_eq!(stages[0], (&json!("settings"), &json!(0)));
        assert!(
            stages[1..]
                .iter()
                .all(|stage| *stage == (&json!("web"), &json!(1)))
        );
        world.terminate(&what, created.handle).await.unwrap();
        world.assert_nothing_left().await;
    }
}

#[tokio::test]
async fn charts_and_manifests_of_one_stage_have_their_values() {
    for (program, world) in worlds().await {
        let params = json!({"web:a.b": 1, "web:net.name": "blue", "size": "small"});
        let what = package(&together("'web:a.b', 'web:c'"), PAGE, &params);
        let created = world.instantiate(&what, 60).await.unwrap();
        let name = world.namespace();
        let expected = [row("tool", "1", "deployed"), row("web", "1", "deployed")];
        assert_eq!(list(&program, &name), expected);
        for (page, values) in [
            ("page-web", json!({"a": {"b": 1}, "net": {"name": "blue"}})),
            ("page-tool", json!({"size": "small"})),
        ] {
            let page = world.config_maps(&name).get(page).await.unwrap();
            let all: Value =
                serde_json::from_str(page.data["data"]["all"].as_str().unwrap()).unwrap();
            assert_eq!(all, values);
        }
        world.config_maps(&name).get("page").await.unwrap();
        let again = world.instantiate(&what, 60).await.unwrap();
        assert_eq!(list(&program, &name), expected, "nothing differs");
        world.terminate(&what, again.handle).await.unwrap();
        assert_eq!(created.inventory.vnfc_resource_info, []);
        world.assert_nothing_left().await;
    }
}

/// The releases that helm is installing.
async fn pending(world: &World) -> usize {
    let secrets = world.api("v1", "Secret", "secrets", Some(&world.namespace()));
    let selector = ListParams::default().labels("owner=helm,status=pending-install");
    secrets.list(&selector).await.unwrap().items.len()
}

#[tokio::test]
async fn charts_of_one_stage_are_installed_at_the_same_time() {
    for (_, world) in worlds().await {
        let what = package(&together(""), ENDLESS, &json!({}));
        let (cx, change) = (world.cx(60), Convergence::create(&what));
        let both = async {
            while pending(&world).await < 2 {
                tokio::task::yield_now().await;
            }
        };
        tokio::select! {
            ended = world.driver.converge(&cx, &change, &Value::Null) => panic!("{ended:?}"),
            () = both => {}
        }
        world.terminate(&what, Value::Null).await.unwrap();
        world.assert_nothing_left().await;
    }
}

fn refusal(artifacts: &str, params: &Value) -> PortError {
    let driver = KubernetesDriver::new(Destinations::anywhere());
    let driver = driver.with_helm(Helm::new("/bin/true", None));
    let what = package(artifacts, PAGE, params);
    driver.validate_request(&what).unwrap_err()
}

#[test]
fn items_and_parameters_that_cannot_be_deployed_are_refused_by_name() {
    let undeclared = refusal(&together("'web:a'"), &json!({"web:b": 1}));
    assert_eq!(undeclared.resource(), Some("additionalParams.web:b"));
    let other = refusal(&together("'tool:a'"), &json!({}));
    assert_eq!(other.name(), "kubernetes.chart-invalid");
    assert!(
        other.to_string().contains("`tool:a` names another chart"),
        "{other}"
    );
    let index = refusal(&together("'web:a[0]'"), &json!({"web:a[0]": 1}));
    assert_eq!(index.resource(), Some("additionalParams.web:a[0]"));
    let twice = item("again", "Charts/web.tgz", ("helm_chart", 2), "");
    let twice = refusal(&(together("") + &twice), &json!({}));
    assert!(
        twice.to_string().contains("release of the same name"),
        "{twice}"
    );
    let plan = item("all", "all.yaml", ("helmfile", 1), "");
    let plan = refusal(&plan, &json!({}));
    assert!(plan.to_string().contains("`all` is a `helmfile`"), "{plan}");
}
