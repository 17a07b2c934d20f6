//! Types of the same name in several files, distinguished by the prefixes of their imports.

#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use std::io::{Cursor, Write};
use vnfm_descriptor::{Findings, Limits, Package, codes};
use zip::ZipWriter;
use zip::write::SimpleFileOptions;

const META: &str = "Entry-Definitions: Definitions/vnfd.yaml\nETSI-Entry-Manifest: a.mf\n";

/// A package with these files in `Definitions/`.
fn package(files: &[(&str, String)]) -> Result<Package, Findings> {
    let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
    let mut add = |name: String, text: &str| {
        zip.start_file(name, SimpleFileOptions::default()).unwrap();
        zip.write_all(text.as_bytes()).unwrap();
    };
    add("TOSCA-Metadata/TOSCA.meta".into(), META);
    add("a.mf".into(), "metadata:\n  vnf_product_name: N\n");
    for (name, text) in files {
        add(
            format!("Definitions/{name}"),
            &format!("tosca_definitions_version: tosca_simple_yaml_1_3\n{text}"),
        );
    }
    Package::from_bytes(zip.finish().unwrap().into_inner(), &Limits::default())
}

fn read(files: &[(&str, String)]) -> Package {
    package(files).unwrap_or_else(|findings| panic!("{findings}"))
}

/// A VNF with two machines, of the types `first` and `second`.
fn vnfd(imports: &str, first: &str, second: &str) -> String {
    let machine = |name: &str, kind: &str| {
        format!(
            "    {name}:\n      type: {kind}\n      properties: {{name: {name}, role: r, vdu_profile: {{min_number_of_instances: 1, max_number_of_instances: 1}}}}\n"
        )
    };
    format!(
        "imports: [{imports}]
node_types: {{N: {{derived_from: tosca.nodes.nfv.VNF}}}}
topology_template:
  substitution_mappings: {{node_type: N, properties: {{flavour_id: f}}}}
  node_templates:
    VNF:
      type: N
      properties: {{descriptor_id: d, descriptor_version: '1', provider: P, product_name: N, software_version: '1', vnfm_info: [any], flavour_description: F}}
{}{}",
        machine("one", first),
        machine("two", second)
    )
}

/// A `Server` with a `role` of type `Role`, a string that must be `value`.
fn types(imports: &str, value: &str) -> String {
    format!(
        "imports: [{imports}]
data_types: {{Role: {{derived_from: string, constraints: [valid_values: [{value}]]}}}}
node_types:
  Server:
    derived_from: Machine
    properties: {{role: {{type: Role}}}}
"
    )
}

const MACHINE: &str = "node_types: {Machine: {derived_from: tosca.nodes.nfv.Vdu.Compute}}\n";
const BOTH: &str = "{file: acme.yaml, namespace_prefix: acme, namespace_uri: 'http://acme'}, {file: other.yaml, namespace_prefix: other}";

#[test]
fn a_prefixed_name_refers_to_the_declaration_in_its_file() {
    let files = |vnfd: String| {
        [
            ("vnfd.yaml", vnfd),
            ("acme.yaml", types("machine.yaml", "r")),
            ("other.yaml", types("machine.yaml", "r, s")),
            ("machine.yaml", MACHINE.to_owned()),
        ]
    };
    let package = read(&files(vnfd(BOTH, "acme:Server", "other:Server")));
    let flavour = &package.vnfd().flavours["f"];
    assert_eq!(
        flavour.vdus.keys().collect::<Vec<_>>(),
        ["one", "two"],
        "both are machines"
    );
    assert_eq!(package.warnings(), [], "nothing is declared twice");

    let wrong = vnfd(BOTH, "acme:Server", "other:Server").replace("role: r", "role: s");
    let refused = package_errors(&files(wrong));
    assert_eq!(
        refused.len(),
        1,
        "only acme's role excludes `s`: {refused:?}"
    );
    assert!(refused[0].contains("`one.role` is `s`"), "{refused:?}");

    let plain = package_errors(&files(vnfd(BOTH, "acme:Server", "Server")));
    assert!(
        plain[0].contains(codes::TYPE_UNKNOWN) && plain[0].contains(":Server`?"),
        "{plain:?}"
    );
}

fn package_errors(files: &[(&str, String)]) -> Vec<String> {
    package(files)
        .unwrap_err()
        .errors()
        .map(ToString::to_string)
        .collect()
}

#[test]
fn a_prefix_includes_the_imports_of_its_file() {
    let files = [
        ("vnfd.yaml", vnfd(BOTH, "acme:Server", "other:Server")),
        ("acme.yaml", "imports: [deep.yaml]\n".to_owned()),
        ("deep.yaml", types("machine.yaml", "r")),
        ("other.yaml", types("machine.yaml", "r, s")),
        ("machine.yaml", MACHINE.to_owned()),
    ];
    assert_eq!(read(&files).warnings(), []);
}

#[test]
fn without_prefixes_the_first_declaration_is_used() {
    let files = [
        (
            "vnfd.yaml",
            vnfd("acme.yaml, other.yaml", "Server", "Server"),
        ),
        ("acme.yaml", types("machine.yaml", "r")),
        ("other.yaml", types("machine.yaml", "s")),
        ("machine.yaml", MACHINE.to_owned()),
    ];
    let package = read(&files);
    let warned: Vec<&str> = package
        .warnings()
        .iter()
        .map(|finding| finding.code)
        .collect();
    assert_eq!(warned, [codes::TYPE_REDEFINED; 2], "`Role` and `Server`");
}

#[test]
fn names_of_templates_values_and_texts_are_not_renamed() {
    let own = vnfd(BOTH, "acme:Server", "other:Server")
        .replace("product_name: N", "product_name: 'acme:Server'")
        .replace("    one:\n", "    Server:\n")
        .replace("name: one", "name: 'acme:Server'");
    let files = [
        (
            "vnfd.yaml",
            format!(
                "{own}  policies:\n    - Server:\n        type: tosca.policies.nfv.AntiAffinityRule\n        properties: {{scope: zone}}\n        targets: [Server, two]\n"
            ),
        ),
        ("acme.yaml", types("machine.yaml", "r")),
        ("other.yaml", types("machine.yaml", "r")),
        ("machine.yaml", MACHINE.to_owned()),
    ];
    let package = read(&files);
    assert_eq!(package.vnfd().product_name, "acme:Server");
    let flavour = &package.vnfd().flavours["f"];
    assert_eq!(flavour.vdus["Server"].display_name, "acme:Server");
    assert_eq!(flavour.affinity_rules[0].targets, ["Server", "two"]);
}

/// A renamed copy of the standard's types states its version, and its additional types are used.
#[test]
fn a_copy_of_the_standard_types_is_recognized_by_its_head() {
    let copy = "metadata: \n  template_name: etsi_nfv_sol001_vnfd_types\n  template_version: 3.3.1\nnode_types:\n  tosca.nodes.nfv.VNF: {derived_from: tosca.nodes.Root}\n  Machine: {derived_from: tosca.nodes.nfv.Vdu.Compute}\n";
    let files = [
        (
            "vnfd.yaml",
            vnfd("nfv.yaml, server.yaml", "Server", "Server"),
        ),
        ("nfv.yaml", copy.to_owned()),
        ("server.yaml", types("nfv.yaml", "r")),
    ];
    let package = read(&files);
    assert_eq!(package.vnfd().sol001_version.as_deref(), Some("3.3.1"));
    assert_eq!(
        package.warnings(),
        [],
        "the copy does not redefine the standard's types"
    );
    let own = copy.replace("etsi_nfv_sol001_vnfd_types", "mine");
    let package = read(&[files[0].clone(), ("nfv.yaml", own), files[2].clone()]);
    assert_eq!(
        package.vnfd().sol001_version,
        None,
        "a vendor's version is not a version of SOL001"
    );
    assert_eq!(package.warnings()[0].code, codes::TYPE_REDEFINED);
}
