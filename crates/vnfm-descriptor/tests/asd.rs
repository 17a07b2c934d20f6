//! ASDs in place of a VNFD: three dialects, one model.

#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use std::collections::BTreeMap;
use std::io::{Cursor, Write};
use std::path::{Path, PathBuf};
use vnfm_descriptor::{
    Asd, AsdDialect, DeploymentItem, Findings, Limits, OciImage, Package, codes,
};
use zip::ZipWriter;
use zip::write::SimpleFileOptions;

fn try_package(files: &[(&str, &str)]) -> Result<Package, Findings> {
    let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
    for (name, text) in files {
        zip.start_file(*name, SimpleFileOptions::default()).unwrap();
        zip.write_all(text.as_bytes()).unwrap();
    }
    Package::from_bytes(zip.finish().unwrap().into_inner(), &Limits::default())
}

const META: (&str, &str) = (
    "TOSCA-Metadata/TOSCA.meta",
    "Entry-Definitions: Definitions/asd.yaml\n",
);
const MANIFEST: (&str, &str) = ("asd.mf", "metadata:\n  entry_definition_type: asd\n");
const CHARTS: [(&str, &str); 2] = [("Charts/db.tgz", "db"), ("Charts/web.tgz", "web")];

/// Reads an ASD with two charts; returns it with its warnings.
#[track_caller]
fn read(asd: &str) -> (Asd, Vec<String>) {
    let package = try_package(&[
        META,
        MANIFEST,
        ("Definitions/asd.yaml", asd),
        CHARTS[0],
        CHARTS[1],
    ])
    .unwrap_or_else(|findings| panic!("{findings}"));
    let warnings = package.warnings().iter().map(ToString::to_string).collect();
    (package.asd().unwrap().clone(), warnings)
}

const DRAFT: &str = "tosca_definitions_version: tosca_simple_yaml_1_3
imports: [asd_types.yaml]
topology_template:
  node_templates:
    app:
      type: tosca.nodes.asd
      properties:
        asdId: a1
        asdSchemaVersion: '1.0'
        asdProvider: P
        asdApplicationName: N
        asdApplicationVersion: '2.3'
        asdInfoDescription: text
        asdExtCpd:
          - {description: page, virtualLinkRequirement: [oam], interfaceOrder: 1, networkInterfaceRequirements: {ipam: cniManaged}, inputParamMappings: {ipAddressParameter: 'web:ip'}, resourceMapping: 'web:svc'}
        enhancedClusterCapabilities:
          Id: c1
          minKernelVersion: 4.15.0
          requiredKernelModules: [sctp]
          requiredCRDs: ['Redis CRD, version 5.0']
          clusterLabels: ['Boston -m', 'ssd -p', gpu]
          secondaryInterfacePlugin: Multus-CNI, v3.8
        deploymentItems:
          - {deploymentItemId: '2', artifactType: Helm chart, artifactId: web, deploymentOrder: 2, lifecycleParameters: [replicas]}
          - {deploymentItemId: '1', artifactType: helm_chart, artifactId: Charts/db.tgz, deploymentOrder: 1}
      artifacts:
        web: {type: tosca.artifacts.File, file: Charts/web.tgz}
";

const ORAN: &str = "tosca_definitions_version: tosca_simple_yaml_1_3
imports: [oran_asd_types_v02.00.00.yaml]
topology_template:
  node_templates:
    app:
      type: tosca.nodes.asd.Asd
      properties:
        asdId: a1
        asdInvariantId: i1
        asdVersion: '7'
        asdProvider: P
        asdApplicationName: N
        asdApplicationSwVersion: '2.3'
        enhancedClusterCapabilities:
          minKernelVersion: 4.15.0
          requiredKernelModule: [sctp]
          requiredCustomResource: [{kind: 'Redis CRD, version 5.0'}]
          clusterLabel: ['Boston -m', 'ssd -p', gpu]
          requiredPlugin: [{requiredPluginName: Multus-CNI, requiredPluginVersion: v3.8}]
      artifacts:
        web: {type: tosca.artifacts.asd.DeploymentItem, file: ../Charts/web.tgz, properties: {deploymentItemId: '2', artifactType: helm_chart, deploymentOrder: 2, deploymentParameter: [replicas]}}
        db: {type: tosca.artifacts.asd.DeploymentItem, file: Charts/db.tgz, properties: {deploymentItemId: '1', artifactType: helm_chart, deploymentOrder: 1}}
        image: {type: tosca.artifacts.asd.ExecutableImageItem, file: 'registry/web:1'}
";

#[test]
fn dialects_have_the_same_items() {
    let ((draft, warned), (oran, none)) = (read(DRAFT), read(ORAN));
    assert_eq!((warned, none), (vec![], vec![]));
    assert_eq!(
        (draft.dialect, oran.dialect),
        (AsdDialect::Draft, AsdDialect::ORan)
    );
    for asd in [&draft, &oran] {
        assert_eq!(
            (asd.asd_id.as_str(), asd.asd_application_version.as_str()),
            ("a1", "2.3")
        );
        let describe = |item: &DeploymentItem| {
            format!(
                "{} {} {}",
                item.deployment_item_id, item.artifact_type, item.file
            )
        };
        let stages: Vec<Vec<String>> = asd
            .stages()
            .iter()
            .map(|stage| stage.iter().map(|item| describe(item)).collect())
            .collect();
        assert_eq!(
            stages,
            [
                ["1 helm_chart Charts/db.tgz"],
                ["2 helm_chart Charts/web.tgz"]
            ]
        );
        let web = asd
            .deployment_items
            .iter()
            .find(|item| item.deployment_item_id == "2")
            .unwrap();
        assert_eq!(web.lifecycle_parameters, ["replicas"]);
    }
}

#[test]
fn dialects_require_the_same_of_the_cluster() {
    let ((draft, _), (oran, _)) = (read(DRAFT), read(ORAN));
    assert_eq!(
        draft.enhanced_cluster_capabilities,
        oran.enhanced_cluster_capabilities
    );
    let capabilities = serde_json::to_value(draft.enhanced_cluster_capabilities.unwrap()).unwrap();
    assert_eq!(
        capabilities,
        json!({
            "minKernelVersion": "4.15.0",
            "requiredKernelModules": ["sctp"],
            "conflictingKernelModules": [],
            "requiredCustomResources": [{"kind": "Redis CRD, version 5.0", "apiVersion": null}],
            "clusterLabels": [
                {"label": "Boston", "mandatory": true},
                {"label": "ssd", "mandatory": false},
                {"label": "gpu", "mandatory": true},
            ],
            "requiredPlugins": [{"name": "Multus-CNI", "version": "v3.8"}],
        })
    );
    let cpd = &draft.asd_ext_cpd[0];
    assert_eq!(
        (cpd.interface_order, cpd.virtual_link_requirement.as_slice()),
        (Some(1), &["oam".to_owned()][..])
    );
    assert_eq!(cpd.network_interface_requirements["ipam"], ["cniManaged"]);
}

#[test]
fn an_asd_becomes_a_vnfd_with_one_flavour() {
    let package = try_package(&[
        META,
        MANIFEST,
        ("Definitions/asd.yaml", ORAN),
        CHARTS[0],
        CHARTS[1],
    ])
    .unwrap();
    let vnfd = package.vnfd();
    assert_eq!(
        (
            vnfd.descriptor_id.as_str(),
            vnfd.descriptor_version.as_str(),
            vnfd.software_version.as_str()
        ),
        ("a1", "7", "2.3")
    );
    assert_eq!(vnfd.flavours.keys().collect::<Vec<_>>(), ["default"]);
}

#[test]
fn the_published_sample_loads_despite_its_wrong_indentation() {
    let default = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/sol");
    let root = std::env::var_os("VNFM_SOL_DATA").map_or_else(default, PathBuf::from);
    let folder = root.join("asd/onap-so-cnfm-sample");
    if !folder.is_dir() {
        let reason = format!("skipped: `{}` does not exist", folder.display());
        assert!(
            std::env::var("VNFM_REQUIRE_LIVE").as_deref() != Ok("1"),
            "{reason}"
        );
        eprintln!("{reason}");
        return;
    }
    let text = |name: &str| std::fs::read_to_string(folder.join(name)).unwrap();
    let asd = text("asd.yaml");
    for (types, unindented) in [
        ("asd_types.yaml", true),
        ("asd_types.reindented.yaml", false),
    ] {
        let types = text(types);
        let package = try_package(&[
            META,
            MANIFEST,
            ("Definitions/asd.yaml", &asd),
            ("Definitions/asd_types.yaml", &types),
            (
                "Artifacts/Deployment/HELM/sampleapp-db-operator-helm.tgz",
                "chart",
            ),
            (
                "Artifacts/Deployment/HELM/sampleapp-services-helm.tgz",
                "chart",
            ),
        ])
        .unwrap_or_else(|findings| panic!("{findings}"));
        let indents = package
            .warnings()
            .iter()
            .filter(|finding| finding.code == codes::TYPES_INDENT)
            .count();
        assert_eq!(indents > 0, unindented, "{:?}", package.warnings());
        let asd = package.asd().unwrap();
        assert_eq!(asd.dialect, AsdDialect::Field);
        assert_eq!(asd.asd_id, "123e4567-e89b-12d3-a456-426614174000");
        assert_eq!((asd.asd_ext_cpd.len(), asd.stages().len()), (2, 2));
        assert_eq!(
            asd.asd_ext_cpd[0].input_param_mappings["nadNames"],
            ["nad name 1", "nad name 2"]
        );
        let needs = asd.enhanced_cluster_capabilities.as_ref().unwrap();
        assert_eq!(
            needs.required_custom_resources[0].api_version.as_deref(),
            Some("myVersion")
        );
        assert_eq!(needs.required_plugins[1].version.as_deref(), Some("4.5.6"));
    }
}

/// The codes and messages of a package with this ASD and more files.
fn findings(asd: &str, more: &[(&str, &str)]) -> Vec<String> {
    let mut files = vec![
        META,
        MANIFEST,
        ("Definitions/asd.yaml", asd),
        CHARTS[0],
        CHARTS[1],
    ];
    files.extend(more);
    let all = match try_package(&files) {
        Ok(package) => package.warnings().to_vec(),
        Err(findings) => findings.as_slice().to_vec(),
    };
    all.iter()
        .map(|finding| format!("{} {}", finding.code, finding.message))
        .collect()
}

#[test]
fn errors_in_an_asd_are_reported() {
    for (from, to, expected) in [
        (
            "asdProvider: P",
            "asdProvidr: P",
            vec![
                "W-ASD-UNKNOWN the ASD has the attribute `asdProvidr`, which no ASD dialect defines",
                "E-ASD the ASD has no `asdProvider` or `provider`",
            ],
        ),
        (
            "deploymentOrder: 2",
            "deploymentOrder: first",
            vec!["E-ASD the order of deployment item `web` is not a non-negative integer"],
        ),
        (
            "deploymentItemId: '2'",
            "deploymentItemId: '1'",
            vec!["E-ASD two deployment items have the identifier `1`"],
        ),
        (
            "Charts/db.tgz",
            "Charts/dc.tgz",
            vec![
                "E-ARTIFACT-MISSING the file `Charts/dc.tgz` of deployment item `db` is not in the package",
            ],
        ),
        (
            "artifactType: helm_chart, deploymentOrder: 1",
            "artifactType: rpm, deploymentOrder: 1",
            vec!["E-ASD deployment item `db` has the unknown artifact type `rpm`"],
        ),
        (
            "asdId: a1",
            "extraServiceRequirement: x\n        asdId: a1",
            vec![
                "W-ASD-UNKNOWN the ASD has the attribute `extraServiceRequirement`, which no ASD dialect defines",
            ],
        ),
    ] {
        let mut found = findings(&ORAN.replace(from, to), &[]);
        let mut expected: Vec<String> = expected.into_iter().map(str::to_owned).collect();
        found.sort();
        expected.sort();
        assert_eq!(found, expected);
    }
}

fn digest(text: &str) -> String {
    let hash = Sha256::digest(text.as_bytes());
    format!("sha256:{hash:x}")
}

/// Files of an image layout, by path.
type Layout = BTreeMap<String, String>;

/// A reference to a blob, which is added to the layout.
fn add_blob(layout: &mut Layout, (folder, kind, text): (&str, &str, &str)) -> Value {
    let digest = digest(text);
    let path = format!("{folder}/blobs/{}", digest.replace(':', "/"));
    layout.insert(path, text.to_owned());
    json!({"mediaType": format!("application/vnd.oci.image.{kind}"), "digest": digest, "size": text.len()})
}

/// A reference to the manifest of an image with two layers, which is added to the layout.
fn add_image(layout: &mut Layout, folder: &str, text: &str) -> Value {
    let config = add_blob(layout, (folder, "config.v1+json", "{}"));
    let own = add_blob(layout, (folder, "layer.v1.tar", text));
    let common = add_blob(layout, (folder, "layer.v1.tar", "base"));
    let manifest = json!({"schemaVersion": 2, "config": config, "layers": [common, own]});
    add_blob(layout, (folder, "manifest.v1+json", &manifest.to_string()))
}

fn add_index(layout: &mut Layout, folder: &str, index: &Value) {
    layout.insert(format!("{folder}/oci-layout"), "{}".to_owned());
    layout.insert(format!("{folder}/index.json"), index.to_string());
}

/// A layout in `images/web` with one image.
fn web(annotations: &Value) -> Layout {
    let mut layout = Layout::new();
    let mut image = add_image(&mut layout, "images/web", "web");
    image["annotations"] = annotations.clone();
    add_index(&mut layout, "images/web", &json!({"manifests": [image]}));
    layout
}

fn files(layout: &Layout) -> Vec<(&str, &str)> {
    let files = layout.iter();
    files.map(|(path, text)| (&**path, &**text)).collect()
}

fn images_in(layout: &Layout) -> Vec<OciImage> {
    let mut all = vec![META, MANIFEST, ("Definitions/asd.yaml", ORAN)];
    all.extend(CHARTS);
    all.extend(files(layout));
    let package = try_package(&all).unwrap_or_else(|findings| panic!("{findings}"));
    package.asd().unwrap().images.clone()
}

#[test]
fn an_image_lists_its_blobs_before_its_manifest() {
    let layout = web(&json!({"name": "acme/web:1"}));
    let images = images_in(&layout);
    assert_eq!(images.len(), 1);
    let image = &images[0];
    assert_eq!((&*image.layout, &*image.name), ("images/web", "acme/web:1"));
    let blobs: Vec<&str> = image.blobs.iter().map(|blob| &*blob.digest).collect();
    assert_eq!(blobs[..3], [digest("{}"), digest("base"), digest("web")]);
    assert_eq!(blobs[3..], [&*image.digest]);
    let manifests: Vec<bool> = image.blobs.iter().map(|blob| blob.manifest).collect();
    assert_eq!(manifests, [false, false, false, true]);
    for blob in &image.blobs {
        let text = &layout[&blob.path];
        assert_eq!(
            (digest(text), text.len() as u64),
            (blob.digest.clone(), blob.size)
        );
    }
    assert_eq!(
        image.blobs[3].media_type,
        "application/vnd.oci.image.manifest.v1+json"
    );
}

#[test]
fn images_are_named_by_either_annotation() {
    let mut layout = web(&json!({"name": "web:1"}));
    let mut db = add_image(&mut layout, "images/db", "db");
    db["annotations"] = json!({"org.opencontainers.image.ref.name": "reg.example:5000/acme/db:2"});
    add_index(&mut layout, "images/db", &json!({"manifests": [db]}));
    let images = images_in(&layout);
    let names: Vec<(&str, &str)> = images
        .iter()
        .map(|image| (&*image.layout, &*image.name))
        .collect();
    assert_eq!(
        names,
        [
            ("images/db", "reg.example:5000/acme/db:2"),
            ("images/web", "web:1")
        ]
    );
}

#[test]
fn a_named_index_is_an_image_for_several_architectures() {
    let mut layout = Layout::new();
    let one = add_image(&mut layout, "images/web", "amd64");
    let other = add_image(&mut layout, "images/web", "arm64");
    let index = json!({"manifests": [one, other], "annotations": {"name": "web:1"}});
    add_index(&mut layout, "images/web", &index);
    let images = images_in(&layout);
    assert_eq!(images.len(), 1);
    assert_eq!(images[0].digest, digest(&index.to_string()));
    // Two manifests with a layer of their own each; configuration and base are shared; the index is the last.
    let last = images[0].blobs.last().unwrap();
    assert_eq!(
        (images[0].blobs.len(), &*last.path),
        (7, "images/web/index.json")
    );
}

#[test]
fn a_damaged_image_is_refused() {
    let named = json!({"name": "web:1"});
    let layer = format!("images/web/blobs/{}", digest("web").replace(':', "/"));
    let index = "images/web/index.json".to_owned();
    let complete = web(&named);
    let escaping = complete[&index].replace("sha256:", "sha256:../../../");
    for (path, text, expected) in [
        (
            &layer,
            Some("wEb"),
            "does not have the hash that its name states",
        ),
        (
            &layer,
            None,
            "E-ASD the image in `images/web` lacks its blob",
        ),
        (
            &index,
            Some("{"),
            "E-ASD the image index or manifest cannot be read",
        ),
        (
            &index,
            Some(&*escaping),
            "E-ASD the image in `images/web` references the invalid digest",
        ),
        (
            &index,
            Some("{\"manifests\": []}"),
            "has no `name` annotation in its `index.json`",
        ),
    ] {
        let mut layout = complete.clone();
        match text {
            Some(text) => drop(layout.insert(path.clone(), text.to_owned())),
            None => drop(layout.remove(path)),
        }
        let found = findings(ORAN, &files(&layout));
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].contains(expected), "{found:?}");
    }
    for name in ["../web:1", "web:1/../../x", "Web:1", "web:1?x", "web\n", ""] {
        let found = findings(ORAN, &files(&web(&json!({"name": name}))));
        assert_eq!(found.len(), 1, "{name}: {found:?}");
        assert!(found[0].contains("is not a valid reference"), "{found:?}");
    }
}

#[test]
fn a_blob_of_another_size_than_stated_is_refused() {
    let layout = web(&json!({"name": "web:1"}));
    let index = &layout["images/web/index.json"];
    let mut stated: Value = serde_json::from_str(index).unwrap();
    stated["manifests"][0]["size"] = json!(1);
    let mut changed = layout.clone();
    changed.insert("images/web/index.json".to_owned(), stated.to_string());
    let found = findings(ORAN, &files(&changed));
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].contains("but its reference states 1"), "{found:?}");
}

#[test]
fn two_images_cannot_share_a_name() {
    let mut layout = web(&json!({"name": "web:1"}));
    let mut other = add_image(&mut layout, "images/other", "other");
    other["annotations"] = json!({"name": "web:1"});
    add_index(&mut layout, "images/other", &json!({"manifests": [other]}));
    assert_eq!(
        findings(ORAN, &files(&layout)),
        ["E-ASD two different images have the name `web:1`"]
    );
}
