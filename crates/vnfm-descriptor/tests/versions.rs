//! The SOL001 version of a package, and warnings for what belongs to other versions.

#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use std::io::{Cursor, Write};
use vnfm_descriptor::{Findings, Limits, Package, codes};
use zip::ZipWriter;
use zip::write::SimpleFileOptions;

/// A package whose VDU has the given image: 2.5.1 to 3.5.1 describe it in the VDU.
fn package(import: &str, manifest: &str, vdu: &str) -> Result<Package, Findings> {
    packed(&[("a.yaml", &vnfd(import, vdu)), ("a.mf", manifest)])
}

fn vnfd(import: &str, vdu: &str) -> String {
    format!(
        "tosca_definitions_version: tosca_simple_yaml_1_3
imports: [{import}]
node_types: {{N: {{derived_from: tosca.nodes.nfv.VNF}}}}
topology_template:
  substitution_mappings: {{node_type: N, properties: {{flavour_id: f}}}}
  node_templates:
    VNF:
      type: N
      properties: {{descriptor_id: d, descriptor_version: '1', provider: P, product_name: N, software_version: '1', vnfm_info: [any], flavour_description: F}}
    V:
      type: tosca.nodes.nfv.Vdu.Compute
      properties:
        name: v
        vdu_profile: {{min_number_of_instances: 1, max_number_of_instances: 1}}
        {vdu}
"
    )
}

fn packed(files: &[(&str, &str)]) -> Result<Package, Findings> {
    let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
    for (name, text) in files {
        zip.start_file(*name, SimpleFileOptions::default()).unwrap();
        zip.write_all(text.as_bytes()).unwrap();
    }
    Package::from_bytes(zip.finish().unwrap().into_inner(), &Limits::default())
}

fn read(import: &str, manifest: &str, vdu: &str) -> (Option<String>, Vec<String>) {
    let package = package(import, manifest, vdu).unwrap_or_else(|findings| panic!("{findings}"));
    let warnings = package.warnings().iter().map(ToString::to_string).collect();
    (package.vnfd().sol001_version.clone(), warnings)
}

const METADATA: &str = "metadata:\n  vnf_product_name: N\n";

#[test]
fn the_version_comes_from_the_import_or_else_the_manifest() {
    let url = "https://forge.etsi.org/rep/nfv/SOL001/raw/v3.3.1/etsi_nfv_sol001_vnfd_types.yaml";
    assert_eq!(read(url, METADATA, ""), (Some("3.3.1".to_owned()), vec![]));
    let both = format!("{METADATA}  compatible_specification_versions: 2.7.1,3.5.1\n");
    let plain = "etsi_nfv_sol001_vnfd_types.yaml";
    assert_eq!(read(plain, &both, ""), (Some("3.5.1".to_owned()), vec![]));
    assert_eq!(
        read("etsi_nfv_sol001_vnfd_2_6_1_types.yaml", &both, "")
            .0
            .as_deref(),
        Some("2.6.1")
    );
    assert_eq!(read(plain, METADATA, ""), (None, vec![]));
}

#[test]
fn an_unknown_version_is_a_warning_and_read_as_the_newest() {
    let (version, warnings) = read("etsi_nfv_sol001_vnfd_types_v5.1.1.yaml", METADATA, "");
    assert_eq!(version.as_deref(), Some("5.4.1"));
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert!(
        warnings[0].starts_with(
            "a.yaml:2:11: warning[W-SOL001-VERSION]: SOL001 5.1.1 is unknown; the package is read as 5.4.1"
        ),
        "{warnings:?}"
    );
}

#[test]
fn declarations_of_another_version_are_accepted_with_a_warning() {
    let old = "sw_image_data: {name: i, version: '1', container_format: bare, disk_format: qcow2, min_disk: 1 GB, size: 1 GB, checksum: {algorithm: sha-256, hash: abc}}";
    let (_, warnings) = read("etsi_nfv_sol001_vnfd_types_v4.4.1.yaml", METADATA, old);
    assert_eq!(
        warnings,
        [
            "a.yaml:15:9: warning[W-SOL001-OTHER]: SOL001 4.4.1, the version of the package, does not define `V.sw_image_data` (hint: SOL001 2.5.1 to 3.5.1 defines it)"
        ]
    );
    assert_eq!(
        read("etsi_nfv_sol001_vnfd_types_v3.5.1.yaml", METADATA, old).1,
        [""; 0]
    );
    assert_eq!(
        read("etsi_nfv_sol001_vnfd_types.yaml", METADATA, old).1,
        [""; 0]
    );
    let listed = "nfvi_constraints: [fast]";
    let (_, warnings) = read("etsi_nfv_sol001_vnfd_types_v3.3.1.yaml", METADATA, listed);
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert!(
        warnings[0].contains("does not define `V.nfvi_constraints` in this form"),
        "{warnings:?}"
    );
    let (_, warnings) = read("etsi_nfv_sol001_vnfd_types_v2.6.1.yaml", METADATA, listed);
    assert_eq!(warnings, [""; 0]);
}

#[test]
fn declarations_of_no_version_are_refused() {
    for (vdu, code) in [
        ("sw_image_dat: {}", codes::PROPERTY_UNKNOWN),
        ("nfvi_constraints: 5", codes::PROPERTY_TYPE),
    ] {
        let findings = package("etsi_nfv_sol001_vnfd_types.yaml", METADATA, vdu).unwrap_err();
        let errors: Vec<&str> = findings.errors().map(|finding| finding.code).collect();
        assert_eq!(errors, [code], "{findings}");
    }
}

#[test]
fn constraints_depend_on_the_version() {
    let boot = "boot_data: {vim_specific_properties: {properties: {a: b}}}";
    assert!(package("etsi_nfv_sol001_vnfd_types_v4.4.1.yaml", METADATA, boot).is_ok());
    let text = "boot_data: '#cloud-config'";
    assert_eq!(
        read("etsi_nfv_sol001_vnfd_types_v2.5.1.yaml", METADATA, text).1,
        [""; 0]
    );
}

/// Files of a version that is not built in: they declare a type, a property, a changed property and a requirement.
const FUTURE: &str = "tosca_definitions_version: tosca_simple_yaml_1_3
description: ETSI NFV SOL 001 vnfd types definitions version 6.1.1
metadata: {template_name: etsi_nfv_sol001_vnfd_types, template_author: ETSI_NFV, template_version: 6.1.1}
data_types:
  tosca.datatypes.nfv.Energy:
    derived_from: tosca.datatypes.Root
    properties:
      watts: {type: integer, required: true}
node_types:
  tosca.nodes.nfv.Vdu.Compute:
    derived_from: tosca.nodes.Root
    properties:
      energy: {type: tosca.datatypes.nfv.Energy, required: false}
      description: {type: integer, required: true}
";

fn future(vdu: &str) -> Result<Package, Findings> {
    let vnfd = vnfd("types/etsi_nfv_sol001_vnfd_types.yaml", vdu);
    let files = [
        ("a.yaml", vnfd.as_str()),
        ("a.mf", METADATA),
        ("types/etsi_nfv_sol001_vnfd_types.yaml", FUTURE),
    ];
    packed(&files)
}

#[test]
fn type_files_of_an_unknown_version_add_to_the_newest() {
    let used = "energy: {watts: 5}\n        description: 7";
    let package = future(used).unwrap_or_else(|findings| panic!("{findings}"));
    let warnings: Vec<&str> = package
        .warnings()
        .iter()
        .map(|warning| warning.code)
        .collect();
    assert_eq!(
        warnings,
        [codes::SOL001_VERSION],
        "{:?}",
        package.warnings()
    );
    let codes_of = |vdu| -> Vec<&str> {
        let findings = future(vdu).unwrap_err();
        findings.errors().map(|finding| finding.code).collect()
    };
    assert_eq!(
        codes_of("energy: {watts: many}\n        description: 7"),
        [codes::PROPERTY_TYPE],
        "its data type is checked"
    );
    assert_eq!(
        codes_of("description: text"),
        [codes::PROPERTY_TYPE],
        "the type in the file is the one that the package was written for"
    );
}

#[test]
fn without_a_version_that_is_unknown_the_package_s_type_files_are_not_read() {
    let known = FUTURE.replace("6.1.1", "5.4.1");
    let vnfd = vnfd(
        "types/etsi_nfv_sol001_vnfd_types.yaml",
        "energy: {watts: 5}",
    );
    let files = [
        ("a.yaml", vnfd.as_str()),
        ("a.mf", METADATA),
        ("types/etsi_nfv_sol001_vnfd_types.yaml", known.as_str()),
    ];
    let findings = packed(&files).unwrap_err();
    let errors: Vec<&str> = findings.errors().map(|finding| finding.code).collect();
    assert_eq!(errors, [codes::PROPERTY_UNKNOWN], "{findings}");
}

/// What 5.4.1 adds: deployable modules, a certificate, power profiles.
#[test]
fn a_package_of_version_5_uses_what_it_adds() {
    let vdu = "description: d
    M:
      type: tosca.nodes.nfv.DeployableModule
      properties: {name: m}
      requirements: [{member: V}]
    C:
      type: tosca.nodes.nfv.Certificate
      properties: {name: c, certificate_type: VNFCI_CERT}
  policies:
    - P: {type: tosca.policies.nfv.PowerProfiles, targets: [VNF], properties: {profiles: {low: {name: low}}}}";
    let import = |version: &str| format!("etsi_nfv_sol001_vnfd_types_v{version}.yaml");
    assert_eq!(
        read(&import("5.4.1"), METADATA, vdu),
        (Some("5.4.1".to_owned()), vec![])
    );
    let (version, warnings) = read(&import("4.4.1"), METADATA, vdu);
    assert_eq!(version.as_deref(), Some("4.4.1"));
    assert!(
        !warnings.is_empty()
            && warnings
                .iter()
                .all(|warning| warning.contains("W-SOL001-OTHER")),
        "{warnings:?}"
    );
}

#[test]
fn a_fifth_type_file_of_an_unknown_version_adds_nothing() {
    let path = |number: usize| format!("types/{number}/etsi_nfv_sol001_vnfd_types.yaml");
    let with = |used: &str| {
        let imports: Vec<String> = (1..=5).map(path).collect();
        let vnfd = vnfd(&imports.join(", "), &format!("{used}: {{watts: 5}}"));
        let types: Vec<(String, String)> = (1..=5)
            .map(|number| {
                let text = FUTURE.replace("energy", &format!("energy{number}"));
                (
                    path(number),
                    text.replace("      description: {type: integer, required: true}\n", ""),
                )
            })
            .collect();
        let mut files = vec![("a.yaml", vnfd.as_str()), ("a.mf", METADATA)];
        files.extend(
            types
                .iter()
                .map(|(path, text)| (path.as_str(), text.as_str())),
        );
        packed(&files)
    };
    assert!(with("energy4").is_ok());
    let findings = with("energy5").unwrap_err();
    let errors: Vec<&str> = findings.errors().map(|finding| finding.code).collect();
    assert_eq!(errors, [codes::PROPERTY_UNKNOWN], "{findings}");
}
