//! The samples load, and say what their READMEs say.

#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::time::Duration;
use vnfm_descriptor::{
    CpKind, Flavour, HotExpression, LevelError, Limits, Package, VduKind, lint, pack, substitute,
};

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

fn cluster(package: &Package) -> &Flavour {
    package.vnfd().flavour("cluster_install").unwrap()
}

#[test]
fn every_sample_is_without_errors_and_most_without_warnings() {
    let mut names: Vec<String> = std::fs::read_dir(sample(""))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names.retain(|name| name != "broken" && name != "README.md");
    assert_eq!(
        names,
        [
            "asd-web",
            "cnf-chart",
            "vnf-a-k8s-cluster",
            "vnf-a-k8s-cluster-base-hot",
            "vnf-a-seed",
            "vnf-a-vendor-script",
            "vnf-b-cnf",
            "vnf-flavours",
            "vnf-ha-pair",
            "vnf-levels",
            "vnf-nested-groups",
            "vnf-ports",
            "vnf-script-hooks"
        ]
    );
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
                "warning[W-MANIFEST-NONE]: the package has no manifest (hint: SOL004 wants one beside the descriptor, `*.mf`)",
                "Definitions/vnf-a-seed.yaml:46:17: warning[W-ARTIFACT-ABSENT]: `/.../mgmt_drivers/kubernetes_mgmt.py` of artifact `mgmt-drivers-kubernetes` is not in the package (hint: an installed plugin must serve the implementation `mgmt-drivers-kubernetes`)",
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
fn lint_has_nothing_to_say_about_samples() {
    for entry in std::fs::read_dir(sample("")).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        if !path.is_dir() || name == "broken" {
            continue;
        }
        let report = lint(&path, &Limits::default());
        let said: Vec<String> = report.findings.iter().map(ToString::to_string).collect();
        assert_eq!(said, [""; 0], "{name}");
        // The seed is kept as it was spelt, and the chart shows what is not deployed: both allow it.
        let doubtful = ["vnf-a-seed", "cnf-chart"].contains(&name.as_str());
        assert_eq!(report.allowed.is_empty(), !doubtful, "{name}");
    }
}

#[test]
fn a_manifest_names_every_file_of_its_package() {
    for name in [
        "vnf-a-k8s-cluster",
        "vnf-a-k8s-cluster-base-hot",
        "vnf-a-vendor-script",
        "vnf-b-cnf",
        "asd-web",
        "cnf-chart",
        "vnf-flavours",
        "vnf-ha-pair",
        "vnf-levels",
        "vnf-nested-groups",
        "vnf-ports",
        "vnf-script-hooks",
    ] {
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
fn levels_count_what_their_readme_says() {
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
fn each_flavour_has_a_topology_of_its_own() {
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
fn a_pair_is_apart_and_each_has_its_volume() {
    let package = open("vnf-ha-pair");
    let flavour = package.vnfd().flavour("simple").unwrap();
    assert_eq!(flavour.vdus["active"].storages, ["activeData"]);
    assert_eq!(flavour.storages["standbyData"].size_gib, Some(1));
    assert_eq!(flavour.affinity_rules.len(), 1);
}

#[test]
fn ports_are_of_every_kind() {
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
fn groups_are_filled_by_the_level_and_the_request() {
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
fn an_asd_of_manifests_says_what_an_order_file_says() {
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
    let charts = open("cnf-chart");
    assert!(charts.order_file().is_none());
    assert_eq!(
        charts.vnfd().flavours["simple"].mciops["chart"].files["chart"],
        "Artifacts/Charts/web-1.0.0.tgz"
    );
}

#[test]
fn vnf_a_is_what_the_seed_describes() {
    for name in [
        "vnf-a-k8s-cluster",
        "vnf-a-k8s-cluster-base-hot",
        "vnf-a-vendor-script",
    ] {
        let package = open(name);
        let flavour = cluster(&package);
        assert_eq!(
            flavour.vdus.keys().collect::<Vec<_>>(),
            ["masterNode", "workerNode"]
        );
        let master = &flavour.vdus["masterNode"];
        let compute = master.compute.as_ref().unwrap();
        assert_eq!(
            (
                compute.num_virtual_cpu,
                compute.virtual_mem_size_mib,
                compute.virtual_local_storage_gib.as_slice()
            ),
            (1, 512, &[1][..])
        );
        let image = master.image.as_ref().unwrap();
        assert_eq!(
            (
                image.name.as_str(),
                image.artifact.as_deref(),
                image.min_disk_gib
            ),
            ("nfv-image", None, Some(1))
        );
        assert_eq!(master.kind, VduKind::Compute);
        assert_eq!(
            flavour
                .external_cps
                .iter()
                .map(|cp| cp.cpd_id.as_str())
                .collect::<Vec<_>>(),
            ["masterNodeExternalCP", "workerNodeExternalCP"]
        );
        assert_eq!(
            flavour.external_cps[0].requirements,
            ["virtual_link_master"]
        );
        let cps: Vec<(&str, bool, Option<&str>)> = flavour
            .cps_of("workerNode")
            .iter()
            .map(|cp| (cp.name.as_str(), cp.external, cp.virtual_link.as_deref()))
            .collect();
        assert_eq!(
            cps,
            [
                ("workerNodeInternalCP", false, Some("internalVL")),
                ("workerNodeExternalCP", true, None)
            ]
        );
        assert!(
            flavour
                .cps
                .values()
                .all(|cp| cp.kind == CpKind::VduCp && cp.layer_protocols == ["ipv4"])
        );
        let link = &flavour.virtual_links["internalVL"];
        assert_eq!(
            (
                link.cidr.as_deref(),
                link.ip_version.as_deref(),
                link.gateway.as_deref()
            ),
            (Some("10.10.0.0/24"), Some("ipv4"), None)
        );
        assert!(
            String::from_utf8(package.read("Files/kubernetes/cni.yaml").unwrap())
                .unwrap()
                .contains("kind: DaemonSet")
        );
    }
}

#[test]
fn instances_follow_levels() {
    let package = open("vnf-a-k8s-cluster");
    let flavour = cluster(&package);
    assert_eq!(
        (
            flavour.instances_of("masterNode", None),
            flavour.instances_of("workerNode", None)
        ),
        (Ok(1), Ok(2))
    );
    assert_eq!(flavour.instances_of("workerNode", Some("large")), Ok(4));
    assert_eq!(
        flavour.instances_at("workerNode", &[("workers".to_owned(), 4)].into()),
        Ok(6)
    );
    assert_eq!(
        flavour.instances_at("workerNode", &[("workers".to_owned(), 5)].into()),
        Err(LevelError::TooHigh {
            aspect: "workers".to_owned(),
            level: 5,
            max: 4
        })
    );
    let unknown = flavour
        .instances_of("workerNode", Some("huge"))
        .unwrap_err();
    assert_eq!(
        unknown.to_string(),
        "flavour `cluster_install` has no instantiation level `huge`, only `large`, `small`"
    );
    assert_eq!(
        flavour
            .instances_of("workrNode", None)
            .unwrap_err()
            .to_string(),
        "flavour `cluster_install` has no VDU `workrNode`"
    );
    assert_eq!(flavour.scale_levels(Some("large")).unwrap()["workers"], 2);
    assert_eq!(flavour.default_level.as_deref(), Some("small"));
}

#[test]
fn hooks_name_their_plugin() {
    let package = open("vnf-a-k8s-cluster");
    let flavour = cluster(&package);
    assert_eq!(
        flavour
            .hooks()
            .iter()
            .map(|hook| hook.operation.as_str())
            .collect::<Vec<_>>(),
        ["instantiate_end", "heal_start", "heal_end", "terminate_end"]
    );
    let hook = flavour.hook("instantiate_end").unwrap();
    let artifact = hook.artifact.as_ref().unwrap();
    assert_eq!(
        (
            hook.implementation.as_str(),
            artifact.plugin(),
            artifact.file.as_deref()
        ),
        ("kubernetes-cluster", Some("kubernetes-cluster"), None)
    );
    assert_eq!(
        artifact.kind,
        "tosca.artifacts.Implementation.SharedLibrary"
    );
    assert_eq!(hook.timeout, Some(Duration::from_mins(30)));
    assert!(flavour.hook("instantiate").is_none() && flavour.hook("instantiate_start").is_none());
    let seed = open("vnf-a-seed");
    let hook = cluster(&seed).hook("terminate_end").unwrap();
    let artifact = hook.artifact.as_ref().unwrap();
    assert_eq!(
        (hook.implementation.as_str(), artifact.kind.as_str()),
        (
            "mgmt-drivers-kubernetes",
            "tosca.artifacts.Implementation.Python"
        )
    );
    assert_eq!((artifact.file.as_deref(), artifact.plugin()), (None, None));
    assert_eq!(seed.vnfd().vnfm_info, ["Tacker"]);
}

#[test]
fn declared_parameters_become_a_schema_that_knows_secrets() {
    let package = open("vnf-a-k8s-cluster");
    let schema = cluster(&package)
        .additional_params_schema("instantiate")
        .unwrap();
    let node = &schema["properties"]["k8s_cluster_installation_param"]["properties"]["master_node"]
        ["properties"];
    assert_eq!(
        (
            &node["password"]["writeOnly"],
            &node["username"]["writeOnly"]
        ),
        (&json!(true), &Value::Null)
    );
    let validator = jsonschema::validator_for(schema).unwrap();
    let mut params = request("vnf-a-k8s-cluster")["additionalParams"].clone();
    params["k8s_cluster_installation_param"]["ssh_port"] = json!(22);
    params["lcm-operation-user-data"] = json!("UserData/base_user_data.py");
    assert!(
        validator.is_valid(&params),
        "{:?}",
        validator
            .iter_errors(&params)
            .map(|error| error.to_string())
            .collect::<Vec<_>>()
    );
    params["k8s_cluster_installation_param"]["ssh_port"] = json!(0);
    assert!(!validator.is_valid(&params));
    params["k8s_cluster_installation_param"]["ssh_port"] = json!(22);
    params["k8s_cluster_installation_param"]["worker_node"] = json!({"username": "u"});
    assert!(!validator.is_valid(&params));
    assert!(
        cluster(&package)
            .additional_params_schema("terminate")
            .is_none()
    );
    assert!(
        cluster(&open("vnf-a-seed"))
            .additional_params_schema("instantiate")
            .is_none()
    );
}

#[test]
fn the_base_hot_is_mapped() {
    let package = open("vnf-a-k8s-cluster-base-hot");
    let hot = package.base_hot("cluster_install").unwrap();
    assert_eq!(hot.template, "BaseHOT/cluster_install/top.yaml");
    assert_eq!(
        hot.files["worker.yaml"],
        "BaseHOT/cluster_install/nested/worker.yaml"
    );
    assert_eq!(
        hot.files["nested/worker.yaml"],
        "BaseHOT/cluster_install/nested/worker.yaml"
    );
    assert_eq!(
        hot.parameters.0["worker_count"].from,
        HotExpression::VduCount("workerNode".to_owned())
    );
    assert_eq!(
        hot.parameters.0["external_network"].from,
        HotExpression::ExtCpNetwork("masterNodeExternalCP".to_owned())
    );
    assert!(
        hot.declared
            .iter()
            .all(|parameter| hot.parameters.0.contains_key(&parameter.name))
    );
    assert!(
        package.base_hot("other").is_none()
            && open("vnf-a-k8s-cluster")
                .base_hot("cluster_install")
                .is_none()
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
    for (path, why) in [
        ("../x", "leaves the package"),
        ("nothing", "has no file `nothing`"),
        ("/etc/passwd", "absolute"),
    ] {
        let error = file.read(path).unwrap_err().to_string();
        assert!(error.contains(why), "{error}");
    }
    let mut copied = Vec::new();
    assert_eq!(
        file.copy("vnf-b.mf", &mut copied).unwrap(),
        copied.len() as u64
    );
}

#[test]
fn a_package_may_be_shared_between_threads() {
    fn shared<T: Send + Sync + 'static>(_: &T) {}
    shared(&open("vnf-b-cnf"));
}
