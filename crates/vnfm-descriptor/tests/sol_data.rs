//! Published packages and types, unchanged: Tacker's sample, ETSI's type files.
//!
//! `VNFM_SOL_DATA` is the folder of the data (default: `../shared/sol` next to the workspace). Without it these
//! tests print that they are skipped, and fail only with `VNFM_REQUIRE_LIVE=1`.

#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use std::fs;
use std::io::{Cursor, Write};
use std::path::{Path, PathBuf};
use vnfm_descriptor::{Limits, Package, codes};
use zip::ZipWriter;
use zip::write::SimpleFileOptions;

/// A path in the data; prints why and returns `None` if it does not exist.
fn data(name: &str) -> Option<PathBuf> {
    let default = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/sol");
    let root = std::env::var_os("VNFM_SOL_DATA").map_or_else(default, PathBuf::from);
    let path = root.join(name);
    if path.exists() {
        return Some(path);
    }
    let reason = format!(
        "skipped: `{}` does not exist; set VNFM_SOL_DATA to the folder of the published data",
        path.display()
    );
    assert!(
        std::env::var("VNFM_REQUIRE_LIVE").as_deref() != Ok("1"),
        "{reason}"
    );
    eprintln!("{reason}");
    None
}

fn add_folder(zip: &mut ZipWriter<Cursor<Vec<u8>>>, folder: &Path, prefix: &str) {
    let mut entries: Vec<PathBuf> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    entries.sort();
    for path in entries {
        let name = format!("{prefix}{}", path.file_name().unwrap().to_str().unwrap());
        if path.is_dir() {
            add_folder(zip, &path, &format!("{name}/"));
        } else {
            add(zip, &name, &fs::read(&path).unwrap());
        }
    }
}

fn add(zip: &mut ZipWriter<Cursor<Vec<u8>>>, name: &str, bytes: &[u8]) {
    zip.start_file(name, SimpleFileOptions::default()).unwrap();
    zip.write_all(bytes).unwrap();
}

/// Tacker's package of a Kubernetes cluster; `None` without the data.
fn tacker_sample() -> Option<Package> {
    let folder = data("vnfd-samples/kubernetes_vnf_package")?;
    let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
    add_folder(&mut zip, &folder, "");
    add(&mut zip, "TOSCA-Metadata/TOSCA.meta", b"TOSCA-Meta-File-Version: 1.0\nCSAR-Version: 1.1\nCreated-by: test\nEntry-Definitions: Definitions/sample_kubernetes_top.vnfd.yaml\n");
    let package = Package::from_bytes(zip.finish().unwrap().into_inner(), &Limits::default());
    Some(package.unwrap_or_else(|findings| panic!("{findings}")))
}

#[test]
fn tackers_kubernetes_sample_loads_with_its_flavours() {
    let Some(package) = tacker_sample() else {
        return;
    };
    let vnfd = package.vnfd();
    assert_eq!(
        (vnfd.descriptor_id.as_str(), vnfd.provider.as_str()),
        ("b1db0ce7-ebca-1fb7-95ed-4840d70a1163", "Company")
    );
    assert_eq!(
        vnfd.flavours.keys().collect::<Vec<_>>(),
        ["complex", "podaffinity", "simple"]
    );
    for (flavour, level, masters, workers) in [
        ("simple", None, 1, 2),
        ("simple", Some("instantiation_level_2"), 3, 4),
        ("complex", None, 3, 2),
    ] {
        let flavour = &vnfd.flavours[flavour];
        assert_eq!(flavour.instances_of("masterNode", level), Ok(masters));
        assert_eq!(flavour.instances_of("workerNode", level), Ok(workers));
    }
    let simple = &vnfd.flavours["simple"];
    let master = &simple.vdus["masterNode"];
    assert_eq!(master.requested_flavor.as_deref(), Some("m1.medium"));
    assert_eq!(
        master
            .compute
            .as_ref()
            .map(|compute| (compute.num_virtual_cpu, compute.virtual_mem_size_mib)),
        Some((2, 3815))
    );
    assert_eq!(
        master.image.as_ref().map(|image| image.name.as_str()),
        Some("Image for masterNode kubernetes")
    );
    assert_eq!(
        simple
            .external_cps
            .iter()
            .map(|cp| cp.cpd_id.as_str())
            .collect::<Vec<_>>(),
        ["masterNode_CP1", "workerNode_CP2"]
    );
}

#[test]
fn tackers_kubernetes_sample_loads_with_its_hooks_and_templates() {
    let Some(package) = tacker_sample() else {
        return;
    };
    let simple = &package.vnfd().flavours["simple"];
    let hooks: Vec<&str> = simple
        .hooks()
        .iter()
        .map(|hook| hook.operation.as_str())
        .collect();
    assert_eq!(
        hooks,
        [
            "instantiate_end",
            "terminate_end",
            "heal_start",
            "heal_end",
            "scale_start",
            "scale_end"
        ]
    );
    let hot = package.base_hot("simple").unwrap();
    assert_eq!(
        hot.files["simple_nested_master.yaml"],
        "BaseHOT/simple/nested/simple_nested_master.yaml"
    );
    assert!(hot.parameters.0.contains_key("nfv"));
    let warned: Vec<&str> = package
        .warnings()
        .iter()
        .map(|finding| finding.code)
        .collect();
    for code in [
        codes::REQUIREMENT_UNDECLARED,
        codes::ARTIFACT_ABSENT,
        codes::MANIFEST_NONE,
    ] {
        assert!(warned.contains(&code), "{warned:?} lacks {code}");
    }
}

/// The published files in a package determine its version.
#[test]
fn a_copy_of_the_published_types_determines_the_version() {
    let Some(folder) = data("sol001") else { return };
    let vnfd = "tosca_definitions_version: tosca_simple_yaml_1_2
imports: [etsi_nfv_sol001_vnfd_types.yaml]
node_types: {N: {derived_from: tosca.nodes.nfv.VNF}}
topology_template:
  substitution_mappings: {node_type: N, properties: {flavour_id: f}}
  node_templates:
    VNF: {type: N, properties: {descriptor_id: d, descriptor_version: '1', provider: P, product_name: N, software_version: '1', vnfm_info: [any], flavour_description: F}}
";
    let mut versions = 0;
    for version in fs::read_dir(folder).unwrap() {
        let version = version.unwrap();
        let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
        add(
            &mut zip,
            "TOSCA-Metadata/TOSCA.meta",
            b"Entry-Definitions: Definitions/vnfd.yaml\n",
        );
        add(&mut zip, "Definitions/vnfd.yaml", vnfd.as_bytes());
        add_folder(&mut zip, &version.path(), "Definitions/");
        let package = Package::from_bytes(zip.finish().unwrap().into_inner(), &Limits::default())
            .unwrap_or_else(|findings| panic!("{findings}"));
        assert_eq!(
            package.vnfd().sol001_version.as_deref(),
            version.file_name().to_str()
        );
        let warned: Vec<&str> = package
            .warnings()
            .iter()
            .map(|finding| finding.code)
            .collect();
        assert_eq!(warned, [codes::MANIFEST_NONE], "{version:?}");
        versions += 1;
    }
    assert_eq!(versions, 11);
}

/// The same with a file name that does not identify it.
#[test]
fn a_renamed_copy_determines_the_version_too() {
    let Some(folder) = data("sol001") else { return };
    let vnfd = "tosca_definitions_version: tosca_simple_yaml_1_2
imports: [nfv/vnfd.yaml]
node_types: {N: {derived_from: tosca.nodes.nfv.VNF}}
topology_template:
  substitution_mappings: {node_type: N, properties: {flavour_id: f}}
  node_templates:
    VNF: {type: N, properties: {descriptor_id: d, descriptor_version: '1', provider: P, product_name: N, software_version: '1', vnfm_info: [any], flavour_description: F}}
";
    for version in fs::read_dir(folder).unwrap() {
        let version = version.unwrap();
        let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
        add(
            &mut zip,
            "TOSCA-Metadata/TOSCA.meta",
            b"Entry-Definitions: Definitions/vnfd.yaml\n",
        );
        add(&mut zip, "Definitions/vnfd.yaml", vnfd.as_bytes());
        let copy = fs::read(version.path().join("etsi_nfv_sol001_vnfd_types.yaml")).unwrap();
        add(&mut zip, "Definitions/nfv/vnfd.yaml", &copy);
        let package = Package::from_bytes(zip.finish().unwrap().into_inner(), &Limits::default())
            .unwrap_or_else(|findings| panic!("{version:?}: {findings}"));
        assert_eq!(
            package.vnfd().sol001_version.as_deref(),
            version.file_name().to_str()
        );
        let warned: Vec<String> = package.warnings().iter().map(ToString::to_string).collect();
        assert_eq!(warned.len(), 1, "{version:?}: {warned:#?}");
        assert!(warned[0].contains(codes::MANIFEST_NONE), "{warned:#?}");
    }
}

/// A package that imports the types of NSDs or PNFDs and uses one of their node types.
#[test]
fn descriptors_of_services_and_pnfs_are_refused_with_the_reason() {
    let Some(folder) = data("sol001") else { return };
    let mut refused = 0;
    for (file, kind) in [
        ("nsd", "tosca.nodes.nfv.NS"),
        ("pnfd", "tosca.nodes.nfv.PNF"),
    ] {
        for version in fs::read_dir(&folder).unwrap() {
            let version = version.unwrap();
            let types = format!("etsi_nfv_sol001_{file}_types.yaml");
            if !version.path().join(&types).exists() {
                continue;
            }
            let entry = format!(
                "tosca_definitions_version: tosca_simple_yaml_1_3\nimports: [{types}]\ntopology_template: {{node_templates: {{N: {{type: {kind}}}}}}}\n"
            );
            let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
            add(
                &mut zip,
                "TOSCA-Metadata/TOSCA.meta",
                b"Entry-Definitions: Definitions/d.yaml\n",
            );
            add(&mut zip, "Definitions/d.yaml", entry.as_bytes());
            add_folder(&mut zip, &version.path(), "Definitions/");
            let bytes = zip.finish().unwrap().into_inner();
            let findings = Package::from_bytes(bytes, &Limits::default()).unwrap_err();
            let codes: Vec<&str> = findings
                .as_slice()
                .iter()
                .map(|finding| finding.code)
                .collect();
            assert_eq!(codes, [codes::PACKAGE_KIND], "{version:?}: {findings}");
            refused += 1;
        }
    }
    assert!(refused >= 20, "only {refused} files of other descriptors");
}

/// Every folder of the data is used by a test, or has nothing to do with packages.
#[test]
fn every_folder_of_the_data_is_accounted_for() {
    let Some(root) = data(".") else { return };
    let mut folders: Vec<String> = fs::read_dir(root)
        .unwrap()
        .map(|entry| entry.unwrap())
        .filter(|entry| entry.path().is_dir())
        .map(|entry| entry.file_name().into_string().unwrap())
        .collect();
    folders.sort();
    let here = [
        "asd",        // tests/asd.rs: the published sample, with wrong and with correct indentation
        "jsonschema", // schemas of messages: the server's tests
        "openapi",    // the same
        "openapi-bundled", // the same
        "sol001",     // src/tosca/tests.rs compares every type; the tests above
        "tosca",      // below: the profile
        "vnfd-samples", // above: the package of a Kubernetes cluster
    ];
    assert_eq!(folders, here);
}

/// A package may contain another implementation's TOSCA profile, under any name.
#[test]
fn another_tosca_profile_is_accepted_alongside_ours() {
    let Some(folder) = data("tosca") else { return };
    let vnfd = "tosca_definitions_version: tosca_simple_yaml_1_3
imports: [etsi_nfv_sol001_vnfd_types.yaml, profile.yaml]
node_types: {N: {derived_from: tosca.nodes.nfv.VNF}}
topology_template:
  substitution_mappings: {node_type: N, properties: {flavour_id: f}}
  node_templates:
    VNF: {type: N, properties: {descriptor_id: d, descriptor_version: '1', provider: P, product_name: N, software_version: '1', vnfm_info: [any], flavour_description: F}}
";
    let read = |profile: &[u8]| {
        let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
        add(
            &mut zip,
            "TOSCA-Metadata/TOSCA.meta",
            b"Entry-Definitions: Definitions/vnfd.yaml\n",
        );
        add(&mut zip, "Definitions/vnfd.yaml", vnfd.as_bytes());
        add(&mut zip, "Definitions/profile.yaml", profile);
        Package::from_bytes(zip.finish().unwrap().into_inner(), &Limits::default())
    };
    let files: Vec<PathBuf> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    let [file] = &files[..] else {
        panic!("{files:?}")
    };
    let profile = fs::read(file).unwrap();
    let refused = read(&profile).unwrap_err();
    let errors: Vec<&str> = refused.errors().map(|finding| finding.code).collect();
    assert_eq!(
        errors,
        [codes::TOSCA_VERSION],
        "unchanged, it states no version: {refused}"
    );
    let head = b"tosca_definitions_version: tosca_simple_yaml_1_3\n";
    let package = read(&[&head[..], &profile].concat()).unwrap_or_else(|f| panic!("{f}"));
    assert_eq!(package.vnfd().flavours.len(), 1);
}
