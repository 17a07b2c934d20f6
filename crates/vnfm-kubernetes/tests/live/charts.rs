//! Charts by Helm 3 and Helm 4: `VNFM_LIVE_ASSETS` names the folder with `helm` and `helm4`.

use crate::support::{World, deployment, package_of, sample_of};
use flate2::{Compression, write::GzEncoder};
use k8s_openapi::api::rbac::v1::ClusterRoleBinding;
use kube::api::{Api, DeleteParams, DynamicObject, ListParams, PostParams};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use vnfm_core::ports::{Allocation, Convergence, InfraDriver as _, PortError, Recorded};
use vnfm_kubernetes::Helm;
use vnfm_types::VimPolicy;

/// The programs of both generations.
pub(crate) fn programs() -> Vec<PathBuf> {
    let folder = std::env::var_os("VNFM_LIVE_ASSETS").map(PathBuf::from);
    let folder = folder.expect("VNFM_LIVE_ASSETS names the folder with helm and helm4");
    ["helm", "helm4"].map(|name| folder.join(name)).to_vec()
}

/// For each program an instance whose driver has it; empty, with a message, without a cluster.
pub(crate) async fn worlds() -> Vec<(PathBuf, World)> {
    let mut worlds = Vec::new();
    if World::start().await.is_none() {
        return worlds;
    }
    for program in programs() {
        let mut world = World::start().await.expect("it was there before");
        world.driver = world.driver.with_helm(Helm::new(&program, None));
        worlds.push((program, world));
    }
    worlds
}

const VNFD: &str = "tosca_definitions_version: tosca_simple_yaml_1_3
imports: [etsi_nfv_sol001_vnfd_types.yaml]
data_types:
  Values: {derived_from: tosca.datatypes.nfv.VnfOperationAdditionalParameters, properties: {greeting: {type: string, required: false}, hold: {type: boolean, required: false}}}
topology_template:
  substitution_mappings: {node_type: tosca.nodes.nfv.VNF, properties: {flavour_id: simple}}
  node_templates:
    VNF:
      type: tosca.nodes.nfv.VNF
      properties: {descriptor_id: b1bb0ce7, descriptor_version: '1.0', provider: Us, product_name: Web, software_version: '1.0',
        vnfm_info: [vnfm], flavour_id: simple, flavour_description: one}
      interfaces: {Vnflcm: {instantiate: {inputs: {additional_parameters: {type: Values}}}}}
    WebServer:
      type: tosca.nodes.nfv.Vdu.OsContainerDeployableUnit
      properties: {name: web, vdu_profile: {min_number_of_instances: 1, max_number_of_instances: 3}}
    Chart:
      type: tosca.nodes.nfv.Mciop
      requirements: [associatedVdu: WebServer]
      artifacts: {chart: {type: tosca.artifacts.nfv.HelmChart, file: Files/web.tgz}}
";

const PAGE: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: page}\ndata: {greeting: {{ .Values.greeting | quote }}}\n";
/// A hook that completes at once, or never.
const PREPARE: &str = "apiVersion: batch/v1
kind: Job
metadata: {name: prepare, annotations: {helm.sh/hook: 'pre-install,pre-upgrade'}}
spec:
  template:
    spec:
      restartPolicy: Never
      {{- if .Values.hold }}
      nodeSelector: {no: such}
      {{- end }}
      containers: [{name: prepare, image: 'localhost/busybox:1'}]
";

/// A package with one chart of these templates, with the request's parameters.
pub(crate) fn package(templates: &[(&str, &str)], params: &Value) -> Allocation {
    let mut files = vec![
        ("templates/web.yaml", deployment(1, "")),
        ("values.yaml", "{greeting: hi, hold: false}".to_owned()),
    ];
    files.extend(
        templates
            .iter()
            .map(|(path, text)| (*path, (*text).to_owned())),
    );
    let chart = packed("web", &files);
    package_of((VNFD, vec![("Files/web.tgz", &*chart)]), params)
}

/// A packed chart of these files.
pub(crate) fn packed(name: &str, files: &[(&str, String)]) -> Vec<u8> {
    let mut tar = tar::Builder::new(GzEncoder::new(Vec::new(), Compression::fast()));
    let about = format!("{{apiVersion: v2, name: {name}, version: 1.0.0}}");
    let own = [("Chart.yaml", about)];
    for (path, text) in own.iter().chain(files) {
        let mut header = tar::Header::new_gnu();
        header.set_size(text.len() as u64);
        header.set_mode(0o644);
        let path = format!("{name}/{path}");
        tar.append_data(&mut header, path, text.as_bytes()).unwrap();
    }
    tar.into_inner().unwrap().finish().unwrap()
}

pub(crate) const ALL: &[(&str, &str)] = &[
    ("templates/page.yaml", PAGE),
    ("templates/prepare.yaml", PREPARE),
];

pub(crate) async fn update(
    world: &World,
    current: &Recorded,
    target: &Allocation,
) -> Result<Recorded, PortError> {
    let change = Convergence::update(current, target);
    world
        .driver
        .converge(&world.cx(60), &change, &Value::Null)
        .await
}

/// What helm itself says about the releases in a namespace.
pub(crate) fn list(program: &PathBuf, namespace: &str) -> Vec<(String, String, String)> {
    let mut arguments = vec!["list", "--output", "json", "--namespace", namespace];
    if program.ends_with("helm") {
        arguments.push("--all"); // Helm 4 lists all by default
    }
    let listed = helm(program, &arguments);
    let listed: Value = serde_json::from_str(&listed).unwrap();
    let text = |one: &Value, member: &str| one[member].as_str().unwrap_or_default().to_owned();
    let all = listed.as_array().unwrap().iter();
    all.map(|one| {
        (
            text(one, "name"),
            text(one, "revision"),
            text(one, "status"),
        )
    })
    .collect()
}

pub(crate) fn helm(program: &PathBuf, arguments: &[&str]) -> String {
    let kubeconfig = std::env::var_os(crate::KUBECONFIG).unwrap();
    let output = Command::new(program)
        .args(arguments)
        .env("KUBECONFIG", kubeconfig)
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).unwrap()
}

pub(crate) fn row(name: &str, revision: &str, status: &str) -> (String, String, String) {
    (name.to_owned(), revision.to_owned(), status.to_owned())
}

/// The Secrets in which helm keeps the revisions.
async fn revisions(world: &World, namespace: &str) -> Vec<DynamicObject> {
    let secrets = world.api("v1", "Secret", "secrets", Some(namespace));
    secrets
        .list(&ListParams::default().labels("owner=helm"))
        .await
        .unwrap()
        .items
}

#[tokio::test]
async fn a_chart_is_installed_repeated_and_uninstalled() {
    for (program, world) in worlds().await {
        let what = package(ALL, &json!({"greeting": "hunter2-hello"}));
        world.driver.validate_request(&what).unwrap();
        let created = world.instantiate(&what, 60).await.unwrap();
        let name = world.namespace();
        let page = world.config_maps(&name).get("page").await.unwrap();
        assert_eq!(page.data["data"]["greeting"], "hunter2-hello");
        let labels = page.metadata.labels.clone().unwrap();
        assert_eq!(labels["vnfm.dev/instance"], world.owner.instance_id);
        assert_eq!(labels["app.kubernetes.io/managed-by"], "Helm");
        let vnfcs = &created.inventory.vnfc_resource_info;
        assert_eq!((vnfcs.len(), vnfcs[0].vdu_id.as_str()), (1, "WebServer"));
        assert_eq!(list(&program, &name), [row("web", "1", "deployed")]);
        let history = helm(
            &program,
            &["history", "web", "--namespace", &name, "--output", "json"],
        );
        assert!(
            history.contains(&format!("vnfm operation {}", world.owner.op_id)),
            "{history}"
        );
        let job = world
            .api("batch/v1", "Job", "jobs", Some(&name))
            .get("prepare")
            .await
            .unwrap();
        assert_eq!(
            job.metadata.labels.unwrap()["vnfm.dev/instance"],
            world.owner.instance_id
        );
        let again = world.instantiate(&what, 60).await.unwrap();
        assert_eq!(again.handle, created.handle);
        assert_eq!(
            list(&program, &name),
            [row("web", "1", "deployed")],
            "nothing differs"
        );
        let foreign = json!({"data": {"greeting": "foreign"}});
        world
            .change(&world.config_maps(&name), "page", foreign)
            .await;
        update(&world, &created, &what).await.unwrap();
        let page = world.config_maps(&name).get("page").await.unwrap();
        assert_eq!(page.data["data"]["greeting"], "hunter2-hello");
        world
            .terminate(&what, created.handle.clone())
            .await
            .unwrap();
        world.assert_nothing_left().await;
        assert!(world.namespaces().get_opt(&name).await.unwrap().is_none());
        world.terminate(&what, created.handle).await.unwrap();
    }
}

#[tokio::test]
async fn another_size_and_other_values_upgrade_the_release() {
    for (program, world) in worlds().await {
        let what = package(ALL, &json!({}));
        let created = world.instantiate(&what, 60).await.unwrap();
        let name = world.namespace();
        let mut larger = what.clone();
        let deployment = Arc::make_mut(&mut larger.deployment);
        deployment.vdu_instances.insert("WebServer".into(), 3);
        let scaled = update(&world, &created, &larger).await.unwrap();
        assert_eq!(scaled.inventory.vnfc_resource_info.len(), 3);
        let kept = &created.inventory.vnfc_resource_info[0].id;
        assert!(
            scaled
                .inventory
                .vnfc_resource_info
                .iter()
                .any(|vnfc| vnfc.id == *kept),
            "it stays"
        );
        assert_eq!(list(&program, &name), [row("web", "2", "deployed")]);
        let manifest = helm(&program, &["get", "manifest", "web", "--namespace", &name]);
        let manifest = manifest.replace(['"', ' '], "");
        assert!(manifest.contains("replicas:3"), "{manifest}");
        let other = package(&ALL[1..], &json!({"greeting": "other"}));
        let back = update(&world, &scaled, &other).await.unwrap();
        assert_eq!(back.inventory.vnfc_resource_info.len(), 1);
        assert!(
            world
                .config_maps(&name)
                .get_opt("page")
                .await
                .unwrap()
                .is_none(),
            "the new chart has no page"
        );
        world
            .change(
                &world.api("apps/v1", "Deployment", "deployments", Some(&name)),
                "web",
                json!({"spec": {"replicas": 2}}),
            )
            .await;
        let healed = update(&world, &back, &other).await.unwrap();
        assert_eq!(
            healed.inventory.vnfc_resource_info.len(),
            1,
            "a foreign change is reverted"
        );
        world.terminate(&other, healed.handle).await.unwrap();
        world.assert_nothing_left().await;
    }
}

/// Converges until helm waits for a hook, and is then dropped.
async fn interrupted(world: &World, change: &Convergence<'_>, status: &str) {
    let (cx, held) = (world.cx(60), async {
        while !revisions(world, &world.namespace())
            .await
            .iter()
            .any(|one| one.metadata.labels.as_ref().unwrap()["status"] == status)
        {
            tokio::task::yield_now().await;
        }
    });
    tokio::select! {
        ended = world.driver.converge(&cx, change, &Value::Null) => panic!("{ended:?}"),
        () = held => {}
    }
}

#[tokio::test]
async fn an_interrupted_installation_and_upgrade_are_completed() {
    for (program, world) in worlds().await {
        let (held, what) = (
            package(ALL, &json!({"hold": true})),
            package(ALL, &json!({})),
        );
        interrupted(&world, &Convergence::create(&held), "pending-install").await;
        let created = world.instantiate(&what, 60).await.unwrap();
        assert_eq!(
            list(&program, &world.namespace()),
            [row("web", "1", "deployed")]
        );
        interrupted(
            &world,
            &Convergence::update(&created, &held),
            "pending-upgrade",
        )
        .await;
        let completed = update(&world, &created, &package(ALL, &json!({"greeting": "new"})))
            .await
            .unwrap();
        assert_eq!(
            list(&program, &world.namespace()),
            [row("web", "2", "deployed")]
        );
        interrupted(
            &world,
            &Convergence::update(&completed, &held),
            "pending-upgrade",
        )
        .await;
        world.terminate(&what, completed.handle).await.unwrap();
        world.assert_nothing_left().await;
    }
}

#[tokio::test]
async fn an_interrupted_installation_is_removed_without_a_handle() {
    for (_, world) in worlds().await {
        let namespace = format!("shared-{}", world.owner.instance_id);
        world.make_namespace(&namespace).await;
        let held = package(ALL, &json!({"hold": true, "namespace": namespace}));
        let late = world
            .driver
            .converge(&world.cx(4), &Convergence::create(&held), &Value::Null)
            .await
            .unwrap_err();
        assert!(
            ["kubernetes.helm-late", "kubernetes.chart-invalid"].contains(&late.name()),
            "{late}"
        );
        assert!(!revisions(&world, &namespace).await.is_empty());
        world.terminate(&held, Value::Null).await.unwrap();
        assert_eq!(revisions(&world, &namespace).await.len(), 0);
        world.assert_nothing_left().await;
        let jobs = world.api("batch/v1", "Job", "jobs", Some(&namespace));
        assert!(
            jobs.get_opt("prepare").await.unwrap().is_none(),
            "the hook is gone"
        );
        world.clean(&world.namespaces(), &namespace).await;
    }
}

#[tokio::test]
async fn a_foreign_release_is_refused_and_not_changed() {
    for (program, world) in worlds().await {
        let namespace = format!("shared-{}", world.owner.instance_id);
        world.make_namespace(&namespace).await;
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("templates")).unwrap();
        std::fs::write(
            folder.path().join("Chart.yaml"),
            "{apiVersion: v2, name: web, version: 1.0.0}",
        )
        .unwrap();
        std::fs::write(
            folder.path().join("templates/a.yaml"),
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: theirs}\n",
        )
        .unwrap();
        helm(
            &program,
            &[
                "install",
                "web",
                folder.path().to_str().unwrap(),
                "--namespace",
                &namespace,
            ],
        );
        let what = package(ALL, &json!({"namespace": namespace}));
        let refused = world.instantiate(&what, 20).await.unwrap_err();
        assert_eq!(refused.name(), "kubernetes.foreign-object");
        assert!(refused.to_string().contains("release `web`"), "{refused}");
        let refused = world
            .driver
            .converge(&world.cx(20), &Convergence::create(&what), &Value::Null)
            .await
            .unwrap_err();
        assert_eq!(refused.name(), "kubernetes.foreign-object");
        world.terminate(&what, Value::Null).await.unwrap();
        assert_eq!(list(&program, &namespace), [row("web", "1", "deployed")]);
        assert!(
            world
                .config_maps(&namespace)
                .get_opt("theirs")
                .await
                .unwrap()
                .is_some()
        );
        world.clean(&world.namespaces(), &namespace).await;
    }
}

#[tokio::test]
async fn a_chart_that_renders_something_else_when_installed_is_refused() {
    for (_, world) in worlds().await {
        let sly = "{{ if lookup \"v1\" \"Namespace\" \"\" \"kube-system\" }}\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: sly}\n{{ end }}";
        let what = package(&[("templates/sly.yaml", sly)], &json!({}));
        let refused = world.instantiate(&what, 30).await.unwrap_err();
        assert_eq!(refused.name(), "kubernetes.chart-invalid", "{refused}");
        assert!(
            refused
                .to_string()
                .contains("ConfigMap `sly` is not in the plan"),
            "{refused}"
        );
        assert!(
            world
                .config_maps(&world.namespace())
                .get_opt("sly")
                .await
                .unwrap()
                .is_none()
        );
        world.terminate(&what, Value::Null).await.unwrap();
        world.assert_nothing_left().await;
    }
}

#[tokio::test]
async fn what_a_chart_must_not_do_is_refused_before_anything_is_created() {
    for (_, world) in worlds().await {
        let endless = "{{ range until 2000000000 }}{{ range until 2000000000 }}{{ end }}{{ end }}";
        let large = "{{ repeat 20000000 \"# a comment\\n\" }}";
        for hostile in [endless, large] {
            let what = package(&[("templates/hostile.yaml", hostile)], &json!({}));
            let refused = world.instantiate(&what, 100).await.unwrap_err();
            assert!(
                ["kubernetes.chart-invalid", "kubernetes.helm-late"].contains(&refused.name()),
                "{refused}"
            );
        }
        let undeclared = package(ALL, &json!({"greting": "hello"}));
        let refused = world.driver.validate_request(&undeclared).unwrap_err();
        assert_eq!(
            refused.resource(),
            Some("additionalParams.greting"),
            "{refused}"
        );
        let secret = package(
            &[("templates/a.yaml", "{{ fail .Values.greeting }}")],
            &json!({"greeting": "hunter2"}),
        );
        let refused = world.instantiate(&secret, 20).await.unwrap_err();
        assert!(
            !format!("{refused} {refused:?}").contains("hunter2"),
            "{refused}"
        );
        world.assert_nothing_left().await;
    }
}

#[tokio::test]
async fn an_account_of_the_tenant_installs_no_hooks() {
    for (_, mut world) in worlds().await {
        world.vim.policy = VimPolicy {
            cluster_scoped: Some(false),
            ..VimPolicy::OPEN
        };
        let account = "system:serviceaccount:default:installer";
        let bound = bind_to_administrator(&world, account).await;
        world.vim.policy.impersonate = Some(account.to_owned());
        let refused = world
            .instantiate(&package(ALL, &json!({})), 20)
            .await
            .unwrap_err();
        assert_eq!(refused.name(), "kubernetes.policy");
        assert!(
            refused.to_string().contains("hook") && refused.to_string().contains("Job `prepare`"),
            "{refused}"
        );
        let role = "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: too-much}\n";
        let refused = world
            .instantiate(&package(&[("templates/role.yaml", role)], &json!({})), 20)
            .await
            .unwrap_err();
        assert!(
            refused.to_string().contains("ClusterRole `too-much`"),
            "{refused}"
        );
        world.assert_nothing_left().await;
        let what = package(&ALL[..1], &json!({}));
        let created = world.instantiate(&what, 60).await.unwrap();
        world.terminate(&what, created.handle).await.unwrap();
        world.assert_nothing_left().await;
        let all: Api<ClusterRoleBinding> = Api::all(world.client.clone());
        all.delete(&bound, &DeleteParams::default()).await.unwrap();
    }
}

/// Gives a service account the rights of an administrator; returns the name of the binding.
async fn bind_to_administrator(world: &World, account: &str) -> String {
    let name = format!("tests-{}", world.namespace());
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": name},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": account}],
    });
    let binding: ClusterRoleBinding = serde_json::from_value(binding).unwrap();
    let all: Api<ClusterRoleBinding> = Api::all(world.client.clone());
    all.create(&PostParams::default(), &binding).await.unwrap();
    name
}

#[tokio::test]
async fn crds_of_a_chart_are_ours_and_go_with_it() {
    for (_, world) in worlds().await {
        let unique = world.owner.instance_id.replace('-', "");
        let crd = format!(
            "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {{name: wonders.i{unique}.org}}\nspec: {{group: i{unique}.org, scope: Namespaced, names: {{kind: Wonder, plural: wonders}}, versions: [{{name: v1, served: true, storage: true, schema: {{openAPIV3Schema: {{type: object}}}}}}]}}\n"
        );
        let wonder =
            format!("apiVersion: i{unique}.org/v1\nkind: Wonder\nmetadata: {{name: first}}\n");
        let what = package(
            &[
                ("crds/wonder.yaml", &crd),
                ("templates/first.yaml", &wonder),
            ],
            &json!({}),
        );
        let created = world.instantiate(&what, 60).await.unwrap();
        let crds = world.api(
            "apiextensions.k8s.io/v1",
            "CustomResourceDefinition",
            "customresourcedefinitions",
            None,
        );
        let name = format!("wonders.i{unique}.org");
        assert_eq!(
            crds.get(&name).await.unwrap().metadata.labels.unwrap()["vnfm.dev/instance"],
            world.owner.instance_id
        );
        world.terminate(&what, created.handle).await.unwrap();
        assert!(crds.get_opt(&name).await.unwrap().is_none());
        world.assert_nothing_left().await;
    }
}

#[tokio::test]
async fn the_services_of_the_sample_are_four_releases_of_one_chart() {
    for (program, world) in worlds().await {
        let what = sample_of("cnf-edge-services", "instantiate.json");
        world.driver.validate_request(&what).unwrap();
        let created = world.instantiate(&what, 90).await.unwrap();
        let releases = ["core", "devices", "registry", "supporting"];
        let expected = releases.map(|name| row(name, "1", "deployed"));
        assert_eq!(list(&program, &world.namespace()), expected);
        let vnfcs = &created.inventory.vnfc_resource_info;
        let vdus: BTreeSet<_> = vnfcs.iter().map(|vnfc| &vnfc.vdu_id).collect();
        assert_eq!((vnfcs.len(), vdus.len()), (12, 12));
        world.terminate(&what, created.handle).await.unwrap();
        world.assert_nothing_left().await;
    }
}
