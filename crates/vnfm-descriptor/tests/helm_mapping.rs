//! The artifacts of a Mciop that map parameters to values of its chart.

#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use vnfm_descriptor::{HelmParamMapping, Limits, Mciop, Package, codes};

const META: &str = "TOSCA-Meta-File-Version: 1.0\nCSAR-Version: 1.1\nCreated-By: us\nEntry-Definitions: vnfd.yaml\n";
const VNFD: &str = "tosca_definitions_version: tosca_simple_yaml_1_3
imports: [etsi_nfv_sol001_vnfd_types.yaml]
data_types:
  my.datatypes.Values:
    derived_from: tosca.datatypes.nfv.VnfOperationAdditionalParameters
    properties: {greeting: {type: string, required: false}}
interface_types:
  my.interfaces.Vnflcm:
    derived_from: tosca.interfaces.nfv.Vnflcm
    operations: {instantiate: {inputs: {additional_parameters: {type: my.datatypes.Values}}}}
node_types:
  my.nodes.Web:
    derived_from: tosca.nodes.nfv.VNF
    interfaces: {Vnflcm: {type: my.interfaces.Vnflcm}}
topology_template:
  substitution_mappings: {node_type: my.nodes.Web, properties: {flavour_id: simple}}
  node_templates:
    VNF:
      type: my.nodes.Web
      properties: {descriptor_id: b1bb0ce7, descriptor_version: '1.0', provider: Us, product_name: Web, software_version: '1.0',
        vnfm_info: [vnfm], flavour_id: simple, flavour_description: one}
    web:
      type: tosca.nodes.nfv.Vdu.OsContainerDeployableUnit
      properties: {name: web, description: pods, vdu_profile: {min_number_of_instances: 1, max_number_of_instances: 5}}
      requirements: [container: httpd]
    httpd:
      type: tosca.nodes.nfv.Vdu.OsContainer
      properties: {name: httpd, description: server}
      artifacts:
        image: {type: tosca.artifacts.nfv.SwImage, file: 'localhost/busybox:1', properties: {name: busybox, version: '1', container_format: docker}}
    chart:
      type: tosca.nodes.nfv.Mciop
      requirements: [associatedVdu: web]
      artifacts:
        chart: {type: tosca.artifacts.nfv.HelmChart, file: web.tgz}
        # more artifacts
";
const SCRIPT: &str = "script: {type: tosca.artifacts.nfv.HelmParamMappingScript, file: map.sh, properties: {language: bash}}
        ";
const RULES: &str = "rules: {type: tosca.artifacts.nfv.HelmParamMappingRule, file: rules.yaml}";

/// The Mciop `chart` of a package with these artifacts and files, and the codes of its warnings.
fn mapping(artifacts: &str, rules: &str) -> Result<(Mciop, Vec<&'static str>), String> {
    let vnfd = VNFD.replace("# more artifacts", artifacts);
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("TOSCA-Metadata")).unwrap();
    for (path, text) in [
        ("TOSCA-Metadata/TOSCA.meta", META),
        ("vnfd.yaml", &vnfd),
        ("web.tgz", "chart"),
        ("map.sh", "#!/bin/bash"),
        ("rules.yaml", rules),
    ] {
        std::fs::write(folder.path().join(path), text).unwrap();
    }
    let package =
        Package::open(folder.path(), &Limits::default()).map_err(|all| all.to_string())?;
    let flavour = package.vnfd().flavour("simple").unwrap();
    let mut codes: Vec<&str> = package.warnings().iter().map(|one| one.code).collect();
    codes.retain(|code| *code == codes::HELM_MAPPING);
    Ok((flavour.mciops["chart"].clone(), codes))
}

#[test]
fn a_script_is_no_chart_and_reported_and_rules_apply_instead_of_it() {
    let (mciop, warnings) = mapping(SCRIPT, "").unwrap();
    assert_eq!(
        mciop.files.into_iter().collect::<Vec<_>>(),
        [("chart".to_owned(), "web.tgz".to_owned())]
    );
    assert_eq!(
        mciop.parameter_mapping,
        Some(HelmParamMapping::Unsupported("map.sh".into()))
    );
    assert_eq!(warnings, [codes::HELM_MAPPING]);

    let both = format!("{SCRIPT}{RULES}");
    let (mciop, warnings) = mapping(&both, "parameter_mapping: {page.text: greeting}").unwrap();
    let rules = [("page.text".to_owned(), "greeting".to_owned())].into();
    assert_eq!(
        mciop.parameter_mapping,
        Some(HelmParamMapping::Rules(rules))
    );
    assert!(warnings.is_empty());
    let (mciop, _) = mapping(&both, "greeting=.additionalParams.greeting").unwrap();
    assert_eq!(
        mciop.parameter_mapping,
        Some(HelmParamMapping::Unsupported("map.sh".into()))
    );
    let (_, warnings) = mapping(RULES, "parameter_mapping: {page.text: greeting}").unwrap();
    assert_eq!(
        warnings,
        [codes::HELM_MAPPING],
        "the standard requires a script"
    );
}

#[test]
fn a_rule_that_cannot_be_applied_is_refused_by_its_line() {
    for (rules, expected) in [
        ("parameter_mapping:\n  a: typo\n", "rules.yaml:2:"),
        ("parameter_mapping:\n  a: {b: c}\n", "names no parameter"),
        ("parameter_mapping: [a]\n", "is no mapping"),
        ("values: {}\nparameter_mapping: {a: greeting}\n", "`values`"),
        ("parameter_mapping: {\n", "rules.yaml:"),
    ] {
        let error = mapping(&format!("{SCRIPT}{RULES}"), rules).unwrap_err();
        assert!(error.contains(expected), "{rules}: {error}");
    }
}
