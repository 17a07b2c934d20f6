//! Values: constraints, scalars, functions, node filters, groups, defaults.

#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use serde_json::json;
use std::io::{Cursor, Write};
use vnfm_descriptor::{Findings, Limits, Package, codes};
use zip::ZipWriter;
use zip::write::SimpleFileOptions;

/// A package with a node `X` of type `T`, whose properties are declared and given.
fn package(declared: &str, given: &str, rest: &str) -> Result<Package, Findings> {
    let vnfd = format!(
        "tosca_definitions_version: tosca_simple_yaml_1_3
imports: [etsi_nfv_sol001_vnfd_types.yaml]
data_types:
  Even: {{derived_from: integer, constraints: [valid_values: [2, 4, 6]]}}
  Ports: {{derived_from: range, constraints: [in_range: [1, 100]]}}
node_types:
  N: {{derived_from: tosca.nodes.nfv.VNF}}
  T: {{derived_from: tosca.nodes.Root, properties: {{{declared}}}}}
topology_template:
  substitution_mappings: {{node_type: N, properties: {{flavour_id: f}}}}
  node_templates:
    VNF:
      type: N
      properties: {{descriptor_id: d, descriptor_version: '1', provider: P, product_name: N, software_version: '1', vnfm_info: [any], flavour_description: F}}
    X: {{type: T, properties: {{{given}}}}}
{rest}"
    );
    let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
    for (name, text) in [("a.yaml", vnfd.as_str()), ("a.mf", "metadata:\n")] {
        zip.start_file(name, SimpleFileOptions::default()).unwrap();
        zip.write_all(text.as_bytes()).unwrap();
    }
    Package::from_bytes(zip.finish().unwrap().into_inner(), &Limits::default())
}

/// The codes and messages of the findings, without positions.
fn findings(declared: &str, given: &str, rest: &str) -> Vec<String> {
    let all = match package(declared, given, rest) {
        Ok(package) => package.warnings().to_vec(),
        Err(findings) => findings.as_slice().to_vec(),
    };
    all.iter()
        .map(|finding| format!("{} {}", finding.code, finding.message))
        .collect()
}

#[test]
fn every_kind_of_constraint_is_checked() {
    for (kind, constraint, good, bad) in [
        ("integer", "equal: 3", "3", "4"),
        ("integer", "greater_than: 3", "4", "3"),
        ("integer", "greater_or_equal: 3", "3", "2"),
        ("float", "less_than: 1.5", "1.4", "1.5"),
        ("float", "less_or_equal: 1.5", "1.50", "1.51"),
        ("float", "valid_values: [1.0, 2.0]", "1", "3"),
        ("integer", "in_range: [1, UNBOUNDED]", "70000", "0"),
        ("range", "in_range: [1, 10]", "[2, 10]", "[2, UNBOUNDED]"),
        ("string", "valid_values: [a, b]", "b", "c"),
        ("string", "length: 2", "ab", "abc"),
        ("string", "min_length: 2", "ab", "a"),
        ("list", "max_length: 1", "[a]", "[a, b]"),
        ("map", "min_length: 1", "{a: b}", "{}"),
        ("string", "pattern: 'v[0-9]+'", "v12", "v12x"),
        ("string", "pattern: 'a|b'", "b", "ab"),
        ("version", "greater_or_equal: 1.9", "'1.10'", "'1.8'"),
        (
            "timestamp",
            "less_than: 2020-01-01",
            "'2019-12-31T23:00:00Z'",
            "'2019-12-31T23:00:00-02:00'",
        ),
        ("scalar-unit.size", "greater_than: 1 GB", "1 GiB", "1000 MB"),
        (
            "scalar-unit.time",
            "in_range: [1 s, 1 m]",
            "1000 ms",
            "61 s",
        ),
        (
            "scalar-unit.frequency",
            "less_than: 1 GHz",
            "999 MHz",
            "1000 MHz",
        ),
        (
            "scalar-unit.bitrate",
            "greater_or_equal: 1 MBps",
            "8 Mbps",
            "7 Mbps",
        ),
        ("map", "valid_values: [{a: 1}, {b: 2}]", "{b: 2}", "{b: 3}"),
    ] {
        let declared = format!("p: {{type: {kind}, constraints: [{constraint}]}}");
        assert_eq!(
            findings(&declared, &format!("p: {good}"), ""),
            [""; 0],
            "{kind} {constraint}"
        );
        let found = findings(&declared, &format!("p: {bad}"), "");
        assert_eq!(found.len(), 1, "{kind} {constraint}: {found:?}");
        assert!(
            found[0].starts_with(codes::PROPERTY_CONSTRAINT),
            "{found:?}"
        );
    }
}

#[test]
fn scalars_are_checked_against_their_type() {
    for (kind, good, bad) in [
        ("timestamp", "2024-02-29", "2023-02-29"),
        ("version", "'1.2.3.beta-4'", "one"),
        ("range", "[0, UNBOUNDED]", "[2, 1]"),
        ("range", "[0.5, 1]", "[1]"),
        ("scalar-unit.bitrate", "10 Gbps", "10 GB"),
        ("scalar-unit.frequency", "2.4 GHz", "2.4"),
        ("Even", "4", "3"),
        ("Ports", "[1, 99]", "[0, 99]"),
    ] {
        let declared = format!("p: {{type: {kind}}}");
        assert_eq!(
            findings(&declared, &format!("p: {good}"), ""),
            [""; 0],
            "{kind}"
        );
        let found = findings(&declared, &format!("p: {bad}"), "");
        assert_eq!(found.len(), 1, "{kind} {bad}: {found:?}");
    }
}

#[test]
fn unusable_constraints_are_reported_at_their_declaration() {
    let found = findings("p: {type: string, constraints: [patern: a]}", "p: b", "");
    assert_eq!(found, ["E-KEY-UNKNOWN unknown constraint `patern`"]);
    let found = findings("p: {type: string, constraints: {pattern: a}}", "p: b", "");
    assert!(
        found[0].starts_with("E-SHAPE `constraints` is a mapping"),
        "{found:?}"
    );
    let found = findings(
        "p: {type: string, constraints: [pattern: '(?=a)']}",
        "p: b",
        "",
    );
    assert_eq!(
        found,
        ["W-PATTERN the pattern `(?=a)` is not supported, so values are not checked against it"]
    );
    let huge = "p: {type: string, constraints: [pattern: '((a{1,100}){1,100}){1,100}']}";
    assert!(findings(huge, "p: b", "")[0].starts_with(codes::PATTERN));
    let many: Vec<String> = (0..205)
        .map(|number| {
            format!(
                "p{number}: {{type: string, required: false, constraints: [pattern: a{number}]}}"
            )
        })
        .collect();
    let found = findings(&many.join(", "), "p0: a0", "");
    assert_eq!(found.len(), 5, "{found:?}");
    assert!(
        found
            .iter()
            .all(|finding| finding.starts_with(codes::PATTERN)),
        "{found:?}"
    );
}

#[test]
fn defaults_are_checked_against_their_declaration() {
    let found = findings(
        "p: {type: integer, default: x}, q: {type: Even, default: 3}",
        "",
        "",
    );
    assert_eq!(
        found,
        [
            "E-PROPERTY-TYPE `T.p.default` is `x`, not an integer",
            "E-PROPERTY-CONSTRAINT `T.q.default` is `3`, which violates `valid_values: [2, 4, 6]`"
        ]
    );
    let inputs = "  inputs: {i: {type: integer, default: [1], constraints: [in_rang: [1, 2]]}}\n";
    let found = findings("p: {type: string}", "p: a", inputs);
    assert_eq!(
        found,
        [
            "E-PROPERTY-TYPE `inputs.i.default` is a list, not an integer",
            "E-KEY-UNKNOWN unknown constraint `in_rang`"
        ]
    );
}

#[test]
fn get_property_reads_defaults_of_the_type() {
    let rest = "    V:
      type: tosca.nodes.nfv.Vdu.Compute
      properties: {name: {get_property: [X, p]}, vdu_profile: {min_number_of_instances: {get_property: [X, n, least]}, max_number_of_instances: 1}}
";
    let declared = "p: {type: string, default: web}, n: {type: map, entry_schema: {type: integer}, default: {least: 1}}";
    let package = package(declared, "", rest).unwrap_or_else(|findings| panic!("{findings}"));
    let vdu = &package.vnfd().flavours["f"].vdus["V"];
    assert_eq!(
        (vdu.display_name.as_str(), vdu.min_number_of_instances),
        ("web", Some(1))
    );
}

#[test]
fn a_requirement_may_select_its_target_by_type_or_filter() {
    let port = |requirement: &str| {
        format!(
            "    V1: {{type: tosca.nodes.nfv.Vdu.Compute, properties: {{name: small, vdu_profile: {{min_number_of_instances: 1, max_number_of_instances: 1}}}}, capabilities: {{virtual_compute: {{properties: {{virtual_cpu: {{num_virtual_cpu: 1}}, virtual_memory: {{virtual_mem_size: 1 GB}}}}}}}}}}
    V2: {{type: tosca.nodes.nfv.Vdu.Compute, properties: {{name: large, vdu_profile: {{min_number_of_instances: 1, max_number_of_instances: 1}}}}}}
    L: {{type: tosca.nodes.nfv.VnfVirtualLink, properties: {{connectivity_type: {{layer_protocols: [ipv4]}}, vl_profile: {{}}}}}}
    P: {{type: tosca.nodes.nfv.VduCp, properties: {{layer_protocols: [ipv4]}}, requirements: [{{virtual_binding: {requirement}}}, {{virtual_link: {{node: tosca.nodes.nfv.VnfVirtualLink}}}}]}}
"
        )
    };
    let bound = |requirement: &str| {
        let package = package("p: {type: string}", "p: a", &port(requirement))
            .unwrap_or_else(|findings| panic!("{findings}"));
        let cp = package.vnfd().flavours["f"].cps["P"].clone();
        assert_eq!(cp.virtual_link.as_deref(), Some("L"));
        cp.vdu
    };
    let by_name =
        "{node: tosca.nodes.nfv.Vdu.Compute, node_filter: {properties: [name: {equal: large}]}}";
    assert_eq!(bound(by_name).as_deref(), Some("V2"));
    let by_range = "{node_filter: {properties: [{name: [{min_length: 5}, {pattern: 's.*'}]}]}, capability: tosca.capabilities.nfv.VirtualBindable}";
    assert_eq!(bound(by_range).as_deref(), Some("V1"));
    let several = findings(
        "p: {type: string}",
        "p: a",
        &port("{node: tosca.nodes.nfv.Vdu.Compute}"),
    );
    assert_eq!(
        several,
        [
            "E-NODE-FILTER `P.virtual_binding` selects a node template by type or filter, but `V1`, `V2` match"
        ]
    );
    let none = port("{node: tosca.nodes.nfv.Vdu.Compute, node_filter: {properties: [name: huge]}}");
    assert!(findings("p: {type: string}", "p: a", &none)[0].ends_with("none matches"));
    let by_capability = |cpus: u32| {
        format!(
            "{{node: tosca.nodes.nfv.Vdu.Compute, node_filter: {{capabilities: [virtual_compute: {{properties: [virtual_cpu: {{num_virtual_cpu: {cpus}}}]}}]}}}}"
        )
    };
    assert_eq!(bound(&by_capability(1)).as_deref(), Some("V1"));
    let found = findings("p: {type: string}", "p: a", &port(&by_capability(2)));
    assert!(found[0].ends_with("none matches"), "{found:?}");
}

#[test]
fn types_and_members_of_groups_are_checked() {
    let groups = "  groups:
    g: {type: tosca.groups.nfv.PlacementGroup, members: [X, Y], properties: {descriptio: d}}
    h: {type: tosca.groups.nfv.PlacmentGroup, members: [X]}
";
    assert_eq!(
        findings("p: {type: string}", "p: a", groups),
        [
            "E-NODE-UNKNOWN group `g` names `Y`, which is not a node template",
            "E-PROPERTY-UNKNOWN `g` has no property `descriptio`",
            "E-TYPE-UNKNOWN group type `tosca.groups.nfv.PlacmentGroup` is not declared",
        ]
    );
}

#[test]
fn a_pattern_must_match_the_entire_value_in_requests_too() {
    let rest =
        "      interfaces: {Vnflcm: {instantiate: {inputs: {additional_parameters: {type: P}}}}}\n";
    let vnfd = format!(
        "tosca_definitions_version: tosca_simple_yaml_1_3
imports: [etsi_nfv_sol001_vnfd_types.yaml]
data_types: {{P: {{derived_from: tosca.datatypes.nfv.VnfOperationAdditionalParameters, properties: {{a: {{type: string, constraints: [pattern: 'x|y']}}, r: {{type: range, required: false}}, n: {{type: integer, required: false, constraints: [in_range: [1, UNBOUNDED]]}}}}}}}}
node_types: {{N: {{derived_from: tosca.nodes.nfv.VNF}}}}
topology_template:
  substitution_mappings: {{node_type: N, properties: {{flavour_id: f}}}}
  node_templates:
    VNF:
      type: N
      properties: {{descriptor_id: d, descriptor_version: '1', provider: P, product_name: N, software_version: '1', vnfm_info: [any], flavour_description: F}}
{rest}"
    );
    let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
    zip.start_file("a.yaml", SimpleFileOptions::default())
        .unwrap();
    zip.write_all(vnfd.as_bytes()).unwrap();
    let package =
        Package::from_bytes(zip.finish().unwrap().into_inner(), &Limits::default()).unwrap();
    let schema = package.vnfd().flavours["f"]
        .additional_params_schema("instantiate")
        .unwrap();
    let validator = jsonschema::validator_for(schema).unwrap();
    for (value, valid) in [
        (json!({"a": "x"}), true),
        (json!({"a": "xy"}), false),
        (json!({"a": "y", "r": [1, "UNBOUNDED"]}), true),
        (json!({"a": "y", "r": [1, "b"]}), false),
        (json!({"a": "y", "n": 5}), true),
        (json!({"a": "y", "n": 0}), false),
    ] {
        assert_eq!(validator.is_valid(&value), valid, "{value}");
    }
}
