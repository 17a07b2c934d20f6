//! The forms of VNFDs: imports, derivation, implementations, mappings, manifests.

#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

#[path = "tosca/resources.rs"]
mod resources;

use serde_json::json;
use std::io::{Cursor, Write};
use std::time::Duration;
use vnfm_descriptor::{Findings, Limits, Package, codes};
use zip::ZipWriter;
use zip::write::SimpleFileOptions;

const IDENTITY: &str = "descriptor_id: d1, descriptor_version: '1', provider: P, product_name: N, software_version: '1', vnfm_info: [any], flavour_description: F";

fn try_package(files: &[(&str, &str)]) -> Result<Package, Findings> {
    let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
    for (name, text) in files {
        zip.start_file(*name, SimpleFileOptions::default()).unwrap();
        zip.write_all(text.as_bytes()).unwrap();
    }
    Package::from_bytes(zip.finish().unwrap().into_inner(), &Limits::default())
}

#[track_caller]
fn package(files: &[(&str, &str)]) -> Package {
    try_package(files).unwrap_or_else(|findings| panic!("{findings}"))
}

/// The findings of a package, accepted or not, except for the missing manifest.
fn findings(files: &[(&str, &str)]) -> Vec<String> {
    let all = match try_package(files) {
        Ok(package) => package.warnings().to_vec(),
        Err(findings) => findings.as_slice().to_vec(),
    };
    all.iter()
        .filter(|finding| finding.code != codes::MANIFEST_NONE)
        .map(ToString::to_string)
        .collect()
}

/// A VNFD whose VNF has the type `N`; `types`, `vnf` and `rest` are inserted.
fn vnfd(types: &str, vnf: &str, rest: &str) -> String {
    format!(
        "tosca_definitions_version: tosca_simple_yaml_1_3
imports: [etsi_nfv_sol001_vnfd_types.yaml]
{types}
topology_template:
  substitution_mappings: {{node_type: N, properties: {{flavour_id: f}}}}
  node_templates:
    VNF:
      type: N
      properties: {{{IDENTITY}}}
{vnf}{rest}"
    )
}

const PLAIN: &str = "node_types: {N: {derived_from: tosca.nodes.nfv.VNF}}";

/// A package whose VNF implements its operations in every form, as `f`.
fn implementations() -> Package {
    let vnf = "      interfaces:
        Vnflcm:
          instantiate: {implementation: lib, inputs: {a: {get_input: x}, b: 2}}
          instantiate_end: lib
          terminate_start: Scripts/bye.sh
          terminate_end: {implementation: {primary: lib, timeout: 90 s}}
          heal_start: {implementation: {primary: {type: tosca.artifacts.Implementation.Bash, file: Scripts/bye.sh}, timeout: 5}}
          heal_end: null
          scale_start: []
          scale_end: {inputs: {a: 1}}
          operate_end: {implementation: by-configuration}
      artifacts:
        lib: {type: tosca.artifacts.Implementation.SharedLibrary, properties: {plugin: p}}
";
    let text = vnfd(PLAIN, vnf, "  inputs: {x: {type: string}}\n");
    package(&[
        ("Definitions/a.yaml", &text),
        ("Definitions/Scripts/bye.sh", ""),
        meta("Definitions/a.yaml"),
    ])
}

#[test]
fn implementations_are_names_paths_or_mappings() {
    let package = implementations();
    let flavour = &package.vnfd().flavours["f"];
    let hooks: Vec<(&str, &str, Option<&str>, Option<Duration>)> = flavour
        .hooks()
        .iter()
        .map(|hook| {
            let file = hook
                .artifact
                .as_ref()
                .and_then(|artifact| artifact.file.as_deref());
            (
                hook.operation.as_str(),
                hook.implementation.as_str(),
                file,
                hook.timeout,
            )
        })
        .collect();
    let script = Some("Definitions/Scripts/bye.sh");
    assert_eq!(
        hooks,
        [
            ("instantiate", "lib", None, None),
            ("instantiate_end", "lib", None, None),
            ("terminate_start", "Scripts/bye.sh", script, None),
            ("terminate_end", "lib", None, Some(Duration::from_secs(90))),
            (
                "heal_start",
                "Scripts/bye.sh",
                script,
                Some(Duration::from_secs(5))
            ),
            ("operate_end", "by-configuration", None, None),
        ]
    );
}

#[test]
fn implementations_keep_their_inputs_and_the_type_of_their_file() {
    let package = implementations();
    let flavour = &package.vnfd().flavours["f"];
    assert_eq!(
        flavour.hook("instantiate").unwrap().inputs,
        json!({"a": {"get_input": "x"}, "b": 2})
    );
    assert_eq!(
        flavour
            .hook("terminate_start")
            .unwrap()
            .artifact
            .as_ref()
            .unwrap()
            .kind,
        "tosca.artifacts.Implementation.Bash"
    );
    let warned: Vec<&str> = package
        .warnings()
        .iter()
        .map(|finding| finding.code)
        .collect();
    assert_eq!(
        warned,
        [codes::MANIFEST_NONE, codes::IMPLEMENTATION_UNKNOWN]
    );
}

#[test]
fn modifiable_attributes_come_from_the_type() {
    let types = "data_types:
  E: {derived_from: tosca.datatypes.nfv.VnfInfoModifiableAttributesExtensions, properties: {size: {type: integer}}}
  A: {derived_from: tosca.datatypes.nfv.VnfInfoModifiableAttributes, properties: {extensions: {type: E, required: false}}}
  C: {derived_from: tosca.datatypes.nfv.VnfConfigurableProperties, properties: {level: {type: string, required: false}}}
node_types:
  N:
    derived_from: tosca.nodes.nfv.VNF
    properties: {modifiable_attributes: {type: A, required: false}, configurable_properties: {type: C, required: false}}";
    let vnfd_with = |types: &str| {
        let text = vnfd(types, "", "");
        let package = package(&[("Definitions/a.yaml", &text), meta("Definitions/a.yaml")]);
        package.vnfd().flavours["f"].modifiable_types.clone()
    };
    let declared = vnfd_with(types);
    assert_eq!(
        declared["extensions"]["properties"],
        json!({"size": {"type": "integer"}})
    );
    let properties = &declared["vnfConfigurableProperties"]["properties"];
    assert_eq!(properties["level"]["type"], "string");
    assert_eq!(
        properties["isAutohealEnabled"]["type"], "boolean",
        "{properties:#}"
    );
    let plain = vnfd_with(PLAIN);
    assert!(
        plain["vnfConfigurableProperties"]["properties"]
            .get("level")
            .is_none()
    );
}

fn meta(entry: &str) -> (&'static str, &'static str) {
    assert_eq!(entry, "Definitions/a.yaml");
    (
        "TOSCA-Metadata/TOSCA.meta",
        "TOSCA-Meta-File-Version: 1.0\r\nCSAR-Version: 1.1\r\nEntry-Definitions: Definitions/a.yaml\r\n",
    )
}

#[test]
fn a_type_may_implement_operations_for_every_flavour() {
    let types = "interface_types:
  I: {derived_from: tosca.interfaces.nfv.Vnflcm, operations: {instantiate: {inputs: {additional_parameters: {type: T}}}}}
data_types:
  T:
    derived_from: tosca.datatypes.nfv.VnfOperationAdditionalParameters
    properties:
      size: {type: integer, default: 3, constraints: [in_range: [1, 9]]}
      mode: {type: Mode}
      list: {type: list, required: false, entry_schema: {type: string, constraints: [min_length: 2]}, constraints: [max_length: 4]}
      memory: {type: scalar-unit.size, required: false, constraints: [greater_than: 1 GiB]}
      token: {type: string, description: A secret, metadata: {writeOnly: true}}
  Mode: {derived_from: string, constraints: [valid_values: [fast, slow]]}
node_types:
  M: {derived_from: tosca.nodes.nfv.VNF, artifacts: {lib: {type: tosca.artifacts.Implementation.SharedLibrary, file: '-', properties: {plugin: p}}}}
  N: {derived_from: M, interfaces: {Vnflcm: {type: I, operations: {terminate_end: {implementation: lib}}}}}
";
    let package = package(&[("a.yaml", &vnfd(types, "", ""))]);
    let flavour = &package.vnfd().flavours["f"];
    let hook = flavour.hook("terminate_end").unwrap();
    assert_eq!(
        hook.artifact
            .as_ref()
            .and_then(|artifact| artifact.plugin()),
        Some("p")
    );
    assert_eq!(
        flavour.additional_params.keys().collect::<Vec<_>>(),
        ["instantiate"]
    );
    assert_eq!(
        flavour.additional_params_schema("instantiate").unwrap(),
        &json!({
            "type": "object",
            "properties": {
                "list": {"type": "array", "items": {"type": "string", "minLength": 2}, "maxItems": 4},
                "memory": {"type": "string"},
                "mode": {"type": "string", "enum": ["fast", "slow"]},
                "size": {"type": "integer", "minimum": 1, "maximum": 9, "default": 3},
                "token": {"type": "string", "description": "A secret", "writeOnly": true},
            },
            "required": ["mode", "token"],
            "additionalProperties": true,
        })
    );
}

#[test]
fn parameters_may_be_declared_at_the_node_template() {
    let types = format!(
        "{PLAIN}\ndata_types: {{T: {{derived_from: tosca.datatypes.nfv.VnfOperationAdditionalParameters, properties: {{key_1: {{type: string}}}}}}}}"
    );
    let vnf =
        "      interfaces: {Vnflcm: {instantiate: {inputs: {additional_parameters: {type: T}}}}}\n";
    let package = package(&[("a.yaml", &vnfd(&types, vnf, ""))]);
    let schema = package.vnfd().flavours["f"]
        .additional_params_schema("instantiate")
        .unwrap();
    assert_eq!(schema["required"], json!(["key_1"]));
}

#[test]
fn imports_may_be_cycles_and_diamonds_and_name_files_in_any_form() {
    let a = vnfd("", "", "").replace(
        "[etsi_nfv_sol001_vnfd_types.yaml]",
        "['https://forge.etsi.org/rep/nfv/SOL001/raw/v2.6.1/etsi_nfv_sol001_vnfd_types.yaml', {b: b.yaml}, {c: {file: sub/c.yaml}}]",
    );
    let b = format!(
        "tosca_definitions_version: tosca_simple_yaml_1_2\nimports: [{{file: sub/c.yaml, namespace_prefix: x}}]\n{PLAIN}\n"
    );
    let c = "tosca_definitions_version: tosca_simple_yaml_1_2\nimports: [../a.yaml, ../b.yaml, etsi_nfv_sol001_common_types.yaml]\n";
    let files = [("a.yaml", a.as_str()), ("b.yaml", &b), ("sub/c.yaml", c)];
    let all = findings(&files);
    assert!(
        all.iter().any(|finding| finding.contains("E-ENTRY")),
        "two YAML files at the root need TOSCA.meta: {all:?}"
    );
    let inside: Vec<(String, &str)> = files
        .iter()
        .map(|(name, text)| (format!("Definitions/{name}"), *text))
        .collect();
    let mut inside: Vec<(&str, &str)> = inside
        .iter()
        .map(|(name, text)| (name.as_str(), *text))
        .collect();
    inside.push(meta("Definitions/a.yaml"));
    let package = package(&inside);
    assert_eq!(package.vnfd().node_type, "N");
    let cycles: Vec<String> = package
        .warnings()
        .iter()
        .filter(|finding| finding.code == codes::IMPORT_CYCLE)
        .map(ToString::to_string)
        .collect();
    assert_eq!(
        cycles,
        [
            "Definitions/sub/c.yaml:2:11: warning[W-IMPORT-CYCLE]: the imports form a cycle: `Definitions/a.yaml`, `Definitions/b.yaml`, `Definitions/sub/c.yaml`, then `Definitions/a.yaml` again (hint: move the shared types to a separate file)",
            "Definitions/sub/c.yaml:2:22: warning[W-IMPORT-CYCLE]: the imports form a cycle: `Definitions/b.yaml`, `Definitions/sub/c.yaml`, then `Definitions/b.yaml` again (hint: move the shared types to a separate file)",
        ]
    );
}

#[test]
fn prefixes_are_removed_from_the_names_of_types() {
    let a = vnfd("", "", "")
        .replace(
            "[etsi_nfv_sol001_vnfd_types.yaml]",
            "[etsi_nfv_sol001_vnfd_types.yaml, {file: b.yaml, namespace_prefix: acme, namespace_uri: 'http://acme'}]",
        )
        .replace("type: N", "type: acme:N")
        .replace("product_name: N", "product_name: 'acme:N'");
    let b = format!("tosca_definitions_version: tosca_simple_yaml_1_3\n{PLAIN}\n");
    let files = [
        ("Definitions/a.yaml", a.as_str()),
        ("Definitions/b.yaml", &b),
        meta("Definitions/a.yaml"),
    ];
    let package = package(&files);
    assert_eq!(package.vnfd().node_type, "N");
    assert_eq!(package.vnfd().product_name, "acme:N");
}

#[test]
fn a_vnf_without_substitution_or_vdus_is_a_flavour() {
    let text = format!(
        "tosca_definitions_version: tosca_simple_yaml_1_2\nimports: [etsi_nfv_sol001_vnfd_types.yaml]\n{PLAIN}\ntopology_template: {{node_templates: {{VNF: {{type: N, properties: {{{IDENTITY}, flavour_id: only}}}}}}}}\n"
    );
    let package = package(&[
        ("a.yaml", &text),
        (
            "BaseHOT/only/t.yaml",
            "heat_template_version: 2018-08-31\nparameters: {nfv: {type: json}}\nresources: {}\n",
        ),
    ]);
    assert!(package.vnfd().flavours["only"].vdus.is_empty());
    assert!(
        package
            .base_hot("only")
            .unwrap()
            .parameters
            .0
            .contains_key("nfv")
    );
}

#[test]
fn duplicate_flavours_and_different_identities_are_refused() {
    let df = |id: &str, flavour: &str| {
        vnfd("", "", "")
            .replace("flavour_id: f}", &format!("flavour_id: {flavour}}}"))
            .replace("descriptor_id: d1", &format!("descriptor_id: {id}"))
    };
    let a = df("d1", "f").replace(
        "[etsi_nfv_sol001_vnfd_types.yaml]",
        &format!("[etsi_nfv_sol001_vnfd_types.yaml, b.yaml]\n{PLAIN}"),
    );
    let with = |b: &str| {
        findings(&[
            ("Definitions/a.yaml", &a),
            ("Definitions/b.yaml", b),
            meta("Definitions/a.yaml"),
        ])
    };
    assert_eq!(with(&df("d1", "g")), [""; 0]);
    let same = with(&df("d1", "f"));
    assert!(same.len() == 1 && same[0].contains("E-FLAVOUR"), "{same:?}");
    let other = with(&df("d2", "g"));
    assert!(
        other.len() == 1 && other[0].contains("E-VNF-PROPERTY"),
        "{other:?}"
    );
}

#[test]
fn hashes_are_checked_for_every_spelling_of_the_algorithm() {
    let text = vnfd(PLAIN, "", "");
    let sha256 = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
    let sha512 = "CF83E1357EEFB8BDF1542850D66D8007D620E4050B5715DC83F4A921D36CE9CE47D0D13C5D85F2B0FF8318D2877EEC2F63B931BD47417A81A538327AF927DA3E";
    let manifest = |first: &str, second: &str| {
        format!(
            "metadata:\r\n  vnf_product_name: N\r\n\r\nSource: a.txt\r\nAlgorithm: SHA-256\r\nHash: {first}\r\n\r\nsource: ./b.txt\r\nAlgorithm: sha512\r\nHash: {second}\r\nSource: https://example.org/c\r\nAlgorithm: SHA-256\r\nHash: {sha256}\r\n-----BEGIN CMS-----\r\nMII\r\n-----END CMS-----\r\n"
        )
    };
    let with = |mf: &str| {
        try_package(&[
            ("a.yaml", &text),
            ("a.mf", mf),
            ("a.txt", ""),
            ("b.txt", ""),
        ])
    };
    let good = with(&manifest(sha256, sha512)).unwrap();
    let read = good.manifest().unwrap();
    assert_eq!(
        (
            read.metadata["vnf_product_name"].as_str(),
            read.signed,
            read.sources.len()
        ),
        ("N", true, 3)
    );
    let outside: Vec<&str> = good
        .externals()
        .iter()
        .map(|one| one.uri.as_str())
        .collect();
    assert_eq!(outside, ["https://example.org/c"]);
    assert_eq!(
        good.warnings()
            .iter()
            .map(|finding| finding.code)
            .collect::<Vec<_>>(),
        [codes::SIGNATURE]
    );
    for bad in [
        manifest(&sha256.replace('e', "f"), sha512),
        manifest(sha256, sha256),
    ] {
        let refused = with(&bad).unwrap_err();
        assert_eq!(
            refused
                .errors()
                .map(|finding| finding.code)
                .collect::<Vec<_>>(),
            [codes::MANIFEST_HASH]
        );
    }
    let unknown = with(&manifest(sha256, sha512).replace("sha512", "md5")).unwrap_err();
    assert!(
        unknown.to_string().contains("unknown hash algorithm `md5`"),
        "{unknown}"
    );
}

#[test]
fn wrong_shapes_never_cause_a_panic() {
    let base = vnfd(
        PLAIN,
        "      interfaces: {Vnflcm: {instantiate_end: {implementation: x}}}\n      requirements: [{virtual_link: null}]\n",
        "    n: {type: tosca.nodes.nfv.Vdu.Compute, properties: {name: n, vdu_profile: {min_number_of_instances: 1, max_number_of_instances: 1}}}\n",
    );
    let lines: Vec<&str> = base.lines().collect();
    for (index, line) in lines.iter().enumerate() {
        let Some((key, _)) = line.split_once(':') else {
            continue;
        };
        for value in [
            "",
            " 7",
            " [a, [b]]",
            " {a: {b: c}}",
            " [{a: b}, 3]",
            " '-'",
            " {get_input: nothing}",
            " -99999999999999999999",
        ] {
            let mut changed = lines.clone();
            let text = format!("{key}:{value}");
            changed[index] = &text;
            // The result does not matter, only that there is no panic.
            let _ = try_package(&[("a.yaml", &changed.join("\n"))])
                .map(|package| package.vnfd().flavours.len());
        }
    }
}
