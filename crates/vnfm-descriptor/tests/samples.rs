//! The samples load without findings and match their READMEs.

#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

#[path = "samples/kubernetes_cluster.rs"]
mod kubernetes_cluster;

use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use vnfm_descriptor::{CpKind, HotExpression, Limits, Package, VduKind, pack, substitute};

fn sample(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../vnfd-samples")
        .join(name)
}

fn open(name: &str) -> Package {
    Package::open(&sample(name), &Limits::default())
        .unwrap_or_else(|findings| panic!("{name}:\n{findings}"))
}

fn request(name: &str) -> Value {
    serde_json::from_slice(&std::fs::read(sample(name).join("requests/instantiate.json")).unwrap())
        .unwrap()
}

const SAMPLES: &[&str] = &[
    "asd-charts",
    "asd-web",
    "cnf-autoscaled",
    "cnf-by-request",
    "cnf-chart",
    "cnf-chart-2",
    "cnf-edge-services",
    "cnf-flavours",
    "cnf-networks",
    "cnf-tosca-only",
    "cnf-volumes",
    "vnf-a-cloud-integration",
    "vnf-a-cluster-api",
    "vnf-a-ha-cluster",
    "vnf-a-k8s-cluster",
    "vnf-a-k8s-cluster-2",
    "vnf-a-k8s-cluster-base-hot",
    "vnf-a-node-groups",
    "vnf-a-seed",
    "vnf-a-single-node",
    "vnf-a-vendor-script",
    "vnf-b-cnf",
    "vnf-b-cnf-2",
    "vnf-bare-hosts",
    "vnf-flavours",
    "vnf-ha-pair",
    "vnf-levels",
    "vnf-nested-groups",
    "vnf-per-vnfc",
    "vnf-ports",
    "vnf-rolling-1",
    "vnf-rolling-2",
    "vnf-script-hooks",
    "vnf-shared-link",
    "vnf-tacker-script",
];

#[test]
fn samples_have_no_errors_and_only_the_expected_warnings() {
    let mut names: Vec<String> = std::fs::read_dir(sample(""))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names.retain(|name| name != "broken" && name != "README.md");
    assert_eq!(names, SAMPLES);
    let mut ids = std::collections::BTreeSet::new();
    for name in names {
        let package = open(&name);
        assert!(
            ids.insert(package.vnfd().descriptor_id.clone()),
            "{name} has another sample's descriptor_id"
        );
        let warnings: Vec<String> = package.warnings().iter().map(ToString::to_string).collect();
        let expected: &[&str] = if name == "vnf-a-seed" {
            &[
                "warning[W-MANIFEST-NONE]: the package has no manifest (hint: SOL004 requires one next to the descriptor, `*.mf`)",
                "Definitions/vnf-a-seed.yaml:46:17: warning[W-ARTIFACT-ABSENT]: `/.../mgmt_drivers/kubernetes_mgmt.py` of artifact `mgmt-drivers-kubernetes` is not in the package (hint: an installed plugin must provide the implementation `mgmt-drivers-kubernetes`)",
            ]
        } else {
            &[]
        };
        assert_eq!(warnings, expected, "{name}");
        assert!(
            sample(&name).join("README.md").is_file(),
            "{name} has no README"
        );
        let flavour = request(&name)["flavourId"].as_str().unwrap().to_owned();
        let typed: vnfm_types::InstantiateVnfRequest =
            serde_json::from_value(request(&name)).unwrap();
        assert_eq!(typed.flavour_id, flavour);
        assert!(
            package.vnfd().flavour(&flavour).is_some(),
            "{name}: its request names flavour {flavour}"
        );
    }
}

#[test]
fn a_manifest_names_every_file_of_its_package() {
    // The seed's package has no manifest.
    for name in SAMPLES.iter().filter(|name| **name != "vnf-a-seed") {
        let package = open(name);
        let manifest = package.manifest().unwrap();
        let mut named: Vec<&str> = manifest
            .sources
            .iter()
            .map(|source| source.source.as_str())
            .collect();
        named.sort_unstable();
        let real = package.paths().filter(|path| {
            !path.starts_with("requests/") && *path != "README.md" && *path != manifest.path
        });
        assert_eq!(named, real.collect::<Vec<_>>(), "{name}");
    }
}

#[test]
fn instantiation_levels_match_the_readme() {
    let package = open("vnf-levels");
    let flavour = package.vnfd().flavour("simple").unwrap();
    for (level, web, worker) in [("trial", 1, 2), ("town", 3, 4), ("city", 7, 8)] {
        assert_eq!(flavour.instances_of("web", Some(level)), Ok(web), "{level}");
        assert_eq!(
            flavour.instances_of("worker", Some(level)),
            Ok(worker),
            "{level}"
        );
    }
    assert_eq!(flavour.default_level.as_deref(), Some("trial"));
}

#[test]
fn each_flavour_has_its_own_topology() {
    let package = open("vnf-flavours");
    let vdus = |flavour: &str| -> Vec<String> {
        package
            .vnfd()
            .flavour(flavour)
            .unwrap()
            .vdus
            .keys()
            .cloned()
            .collect()
    };
    assert_eq!(vdus("simple"), ["front"]);
    assert_eq!(vdus("redundant"), ["back", "front"]);
    let redundant = package.vnfd().flavour("redundant").unwrap();
    assert_eq!(redundant.instances_of("front", None), Ok(2));
    assert_eq!(redundant.affinity_rules.len(), 2);
}

#[test]
fn the_ha_pair_has_anti_affinity_and_separate_volumes() {
    let package = open("vnf-ha-pair");
    let flavour = package.vnfd().flavour("simple").unwrap();
    assert_eq!(flavour.vdus["active"].storages, ["activeData"]);
    assert_eq!(flavour.storages["standbyData"].size_gib, Some(1));
    assert_eq!(flavour.affinity_rules.len(), 1);
}

#[test]
fn ports_of_every_kind_are_read() {
    let package = open("vnf-ports");
    let flavour = package.vnfd().flavour("simple").unwrap();
    assert_eq!(flavour.cps["fast"].vnic_type.as_deref(), Some("direct"));
    assert!(flavour.cps["tagged"].trunk_mode);
    assert_eq!(flavour.cps["shared"].kind, CpKind::VipCp);
    assert_eq!(
        flavour.cps["customer"].virtual_link.as_deref(),
        Some("customers")
    );
}

#[test]
fn group_sizes_come_from_the_level_and_the_request() {
    let package = open("vnf-nested-groups");
    let flavour = package.vnfd().flavour("simple").unwrap();
    assert_eq!(flavour.instances_of("node", None), Ok(2));
    assert_eq!(flavour.instances_of("node", Some("large")), Ok(4));
    let hot = package.base_hot("simple").unwrap();
    assert_eq!(hot.files["disk.yaml"], "BaseHOT/simple/nested/disk.yaml");
    let disks = &hot.parameters.0["disks"];
    assert_eq!(
        disks.from,
        HotExpression::AdditionalParam(vec!["disks".to_owned()])
    );
    assert_eq!(disks.default, Some(json!(2)));
}

#[test]
fn an_asd_of_manifests_has_an_order_file() {
    let package = open("asd-web");
    let order = package.order_file().unwrap();
    let stages: Vec<Vec<&str>> = order
        .stages()
        .iter()
        .map(|stage| {
            stage
                .iter()
                .map(|one| one.path.rsplit('/').next().unwrap())
                .collect()
        })
        .collect();
    assert_eq!(
        stages,
        [vec!["page.yaml"], vec!["web.yaml", "service.yaml"]]
    );
    assert_eq!(
        order.variables.keys().collect::<Vec<_>>(),
        ["greeting", "replicas"]
    );
    assert!(
        order
            .variables
            .values()
            .all(|variable| variable.default.is_none())
    );
    assert_eq!(order.path, "Definitions/asd.yaml");
    assert!(open("asd-charts").order_file().is_none());
    let charts = open("cnf-chart");
    assert!(charts.order_file().is_none());
    assert_eq!(
        charts.vnfd().flavours["simple"].mciops["chart"].files["chart"],
        "Artifacts/Charts/web-1.0.0.tgz"
    );
}

#[test]
fn vnf_b_has_its_manifests_in_order() {
    let package = open("vnf-b-cnf");
    let flavour = package.vnfd().flavour("simple").unwrap();
    let web = &flavour.vdus["web"];
    assert_eq!(
        (
            web.display_name.as_str(),
            web.kind,
            flavour.instances_of("web", None)
        ),
        ("web", VduKind::OsContainer, Ok(2))
    );
    assert_eq!(
        web.mcio
            .as_ref()
            .map(|mcio| (mcio.name.as_str(), mcio.kind.as_str())),
        Some(("web", "Deployment"))
    );
    assert_eq!(
        web.image.as_ref().and_then(|image| image.file.as_deref()),
        Some("localhost/busybox:1")
    );
    let order = package.order_file().unwrap();
    let stages: Vec<&str> = order
        .stages()
        .into_iter()
        .flatten()
        .map(|manifest| manifest.path.as_str())
        .collect();
    assert_eq!(
        stages,
        [
            "Files/kubernetes/page.yaml",
            "Files/kubernetes/web.yaml",
            "Files/kubernetes/service.yaml"
        ]
    );
    let given = request("vnf-b-cnf")["additionalParams"].clone();
    let values = order.values(|name| given.get(name)).unwrap();
    let text = |path: &str| {
        substitute(
            &String::from_utf8(package.read(path).unwrap()).unwrap(),
            &values,
        )
        .unwrap()
    };
    assert!(text("Files/kubernetes/page.yaml").contains("    hello from VNF-B\n"));
    assert!(text("Files/kubernetes/web.yaml").contains("  replicas: 2\n"));
}

#[test]
fn a_folder_and_its_archive_are_the_same_package() {
    let folder = open("vnf-b-cnf");
    let packed = pack(&sample("vnf-b-cnf"), &Limits::default()).unwrap();
    assert_eq!(
        packed,
        pack(&sample("vnf-b-cnf"), &Limits::default()).unwrap(),
        "packing is not deterministic"
    );
    let bytes = Package::from_bytes(packed.clone(), &Limits::default()).unwrap();
    let file = tempfile::NamedTempFile::with_suffix(".csar").unwrap();
    std::fs::write(file.path(), &packed).unwrap();
    let file = Package::open(file.path(), &Limits::default()).unwrap();
    assert_eq!(
        (folder.sha256(), bytes.sha256()),
        (file.sha256(), file.sha256())
    );
    assert_eq!(folder.vnfd(), file.vnfd());
    assert!(folder.paths().eq(file.paths()));
    assert_eq!(
        file.read("./Definitions/../Definitions/vnf-b.yaml")
            .unwrap(),
        std::fs::read(sample("vnf-b-cnf/Definitions/vnf-b.yaml")).unwrap()
    );
    for (path, reason) in [
        ("../x", "leaves the package"),
        ("nothing", "has no file `nothing`"),
        ("/etc/passwd", "absolute"),
    ] {
        let error = file.read(path).unwrap_err().to_string();
        assert!(error.contains(reason), "{error}");
    }
    let mut copied = Vec::new();
    assert_eq!(
        file.copy("vnf-b.mf", &mut copied).unwrap(),
        copied.len() as u64
    );
}

#[test]
fn packages_can_be_shared_between_threads() {
    fn shared<T: Send + Sync + 'static>(_: &T) {}
    shared(&open("vnf-b-cnf"));
}
