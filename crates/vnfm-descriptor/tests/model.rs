//! The model for the engine: VDUs, containers, links, rules, monitoring, scaling.

#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use serde_json::json;
use std::collections::BTreeMap;
use std::io::{Cursor, Write};
use std::time::Duration;
use vnfm_descriptor::{
    Flavour, LevelError, Limits, Monitored, Package, ScaleDirection, ScaleError, ScaleStatus,
};
use zip::ZipWriter;
use zip::write::SimpleFileOptions;

/// A flavour of SOL001 in the given version; `rest` are node templates and policies.
fn flavour(version: &str, vnf: &str, rest: &str) -> Flavour {
    let vnfd = format!(
        "tosca_definitions_version: tosca_simple_yaml_1_3
imports: [etsi_nfv_sol001_vnfd_types_v{version}.yaml]
node_types: {{N: {{derived_from: tosca.nodes.nfv.VNF}}}}
topology_template:
  substitution_mappings: {{node_type: N, properties: {{flavour_id: f}}}}
  node_templates:
    VNF:
      type: N
      properties:
        descriptor_id: d
        descriptor_version: '1'
        provider: P
        product_name: N
        software_version: '1'
        vnfm_info: [any]
        flavour_description: F
{vnf}{rest}"
    );
    let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
    for (name, text) in [
        ("a.yaml", vnfd.as_str()),
        ("a.mf", "metadata:\n"),
        ("Charts/web.tgz", "chart"),
    ] {
        zip.start_file(name, SimpleFileOptions::default()).unwrap();
        zip.write_all(text.as_bytes()).unwrap();
    }
    let package = Package::from_bytes(zip.finish().unwrap().into_inner(), &Limits::default())
        .unwrap_or_else(|findings| panic!("{findings}"));
    assert_eq!(package.warnings(), []);
    package.vnfd().flavours["f"].clone()
}

#[test]
fn compute_requirements_are_read() {
    let flavour = flavour(
        "4.4.1",
        "",
        "    V:
      type: tosca.nodes.nfv.Vdu.Compute
      properties: {name: v, vdu_profile: {min_number_of_instances: 1, max_number_of_instances: 1}}
      capabilities:
        virtual_compute:
          properties:
            logical_node: {pci: {logical_node_requirements: {numa: same}}}
            requested_additional_capabilities:
              gpu: {requested_additional_capability_name: nvidia, support_mandatory: false, min_requested_additional_capability_version: '2', target_performance_parameters: {tflops: '10'}}
            virtual_cpu: {num_virtual_cpu: 4, cpu_architecture: x86_64, virtual_cpu_pinning: {virtual_cpu_pinning_policy: static, virtual_cpu_pinning_rule: ['0-1']}}
            virtual_memory: {virtual_mem_size: 4 GiB, numa_enabled: true, huge_pages_requirements: [{hugepage_size: 2 MiB, requested_size: 1 GiB}]}
",
    );
    let vdu = &flavour.vdus["V"];
    let compute = vdu.compute.as_ref().unwrap();
    let pinning = compute.cpu_pinning.as_ref().unwrap();
    assert_eq!(
        (pinning.policy.as_deref(), pinning.rules.as_slice()),
        (Some("static"), &["0-1".to_owned()][..])
    );
    assert_eq!(
        (compute.cpu_architecture.as_deref(), compute.numa_enabled),
        (Some("x86_64"), true)
    );
    let pages: Vec<(u64, u64)> = compute
        .huge_pages
        .iter()
        .map(|pages| (pages.page_bytes, pages.requested_bytes))
        .collect();
    assert_eq!(pages, [(2 << 20, 1 << 30)]);
    let gpu = &vdu.requested_capabilities[0];
    assert_eq!(
        (
            gpu.key.as_str(),
            gpu.name.as_str(),
            gpu.support_mandatory,
            gpu.min_version.as_deref()
        ),
        ("gpu", "nvidia", false, Some("2"))
    );
    assert_eq!(gpu.target_performance_parameters["tflops"], "10");
    assert_eq!(vdu.logical_node["pci"]["numa"], "same");
}

#[test]
fn containers_units_and_charts_are_linked() {
    let flavour = flavour(
        "4.3.1",
        "",
        "    U:
      type: tosca.nodes.nfv.Vdu.OsContainerDeployableUnit
      properties: {name: u, vdu_profile: {min_number_of_instances: 1, max_number_of_instances: 3}, mcio_identification_data: {name: web, type: Deployment}}
      requirements: [container: C]
    C:
      type: tosca.nodes.nfv.Vdu.OsContainer
      properties: {name: c, requested_cpu_resources: 500, cpu_resource_limit: 1000, requested_memory_resources: 64 MiB, extended_resource_requests: [{extended_resource: {name: nvidia.com/gpu}, amount: 2}]}
      artifacts: {image: {type: tosca.artifacts.nfv.SwImage, file: 'registry/web:1', properties: {name: web, version: '1', container_format: docker}}}
    M:
      type: tosca.nodes.nfv.Mciop
      requirements: [associatedVdu: U]
      artifacts: {chart: {type: tosca.artifacts.nfv.HelmChart, file: Charts/web.tgz}}
",
    );
    assert_eq!(flavour.vdus["U"].containers, ["C"]);
    let container = &flavour.containers["C"];
    assert_eq!(
        (
            container.requested_cpu_resources,
            container.cpu_resource_limit,
            container.requested_memory_bytes
        ),
        (Some(500), Some(1000), Some(64 << 20))
    );
    assert_eq!(
        container.extended_resources,
        [("nvidia.com/gpu".to_owned(), 2)].into()
    );
    assert_eq!(
        container
            .image
            .as_ref()
            .and_then(|image| image.file.as_deref()),
        Some("registry/web:1")
    );
    let chart = &flavour.mciops["M"];
    assert_eq!(
        (chart.vdus.as_slice(), chart.files["chart"].as_str()),
        (&["U".to_owned()][..], "Charts/web.tgz")
    );
}

const LINK: &str = "    L:
      type: tosca.nodes.nfv.VnfVirtualLink
      properties:
        connectivity_type: {layer_protocols: [ipv4], flow_pattern: mesh}
        vl_profile: {max_bitrate_requirements: {root: 1000000}, min_bitrate_requirements: {root: 1000}, qos: {latency: 10 ms, packet_delay_variation: 0 s, packet_loss_ratio: 0.01}}
        monitoring_parameters: MONITORED
    V: {type: tosca.nodes.nfv.Vdu.Compute, properties: {name: v, vdu_profile: {min_number_of_instances: 1, max_number_of_instances: 1}}}
    P: {type: tosca.nodes.nfv.VduCp, properties: {layer_protocols: [ipv4]}, requirements: [{virtual_binding: V}, {virtual_link: L}]}
";

#[test]
fn links_and_monitoring_are_read_in_both_forms() {
    let new = "{m1: {name: in, performance_metric: byte_incoming, collection_period: 30 s}}";
    let old = "[{name: in, performance_metric: packet_incoming_virtual_link}]";
    let vnf = |parameters: &str| format!("        monitoring_parameters: {parameters}\n");
    let of_vnf = "{cpu: {name: load, performance_metric: v_cpu_usage_mean_vnf}}";
    let newer = flavour("4.4.1", &vnf(of_vnf), &LINK.replace("MONITORED", new));
    let found: Vec<(&str, &str, Option<Duration>, &Monitored)> = newer
        .monitoring_parameters
        .iter()
        .map(|one| {
            (
                one.id.as_str(),
                one.name.as_str(),
                one.collection_period,
                &one.of,
            )
        })
        .collect();
    let link = Monitored::VirtualLink("L".to_owned());
    assert_eq!(
        found,
        [
            ("cpu", "load", None, &Monitored::Vnf),
            ("m1", "in", Some(Duration::from_secs(30)), &link)
        ]
    );
    let older = flavour("2.6.1", "", &LINK.replace("MONITORED", old));
    assert_eq!(
        (
            older.monitoring_parameters[0].id.as_str(),
            &older.monitoring_parameters[0].of
        ),
        ("in", &link)
    );
    let link = &newer.virtual_links["L"];
    assert_eq!(
        (
            link.max_bitrate,
            link.min_bitrate,
            link.flow_pattern.as_deref()
        ),
        (Some(1_000_000), Some(1_000), Some("mesh"))
    );
    let qos = link.qos.as_ref().unwrap();
    assert_eq!(
        (qos.latency, qos.packet_loss_ratio.as_deref()),
        (Some(Duration::from_millis(10)), Some("0.01"))
    );
    let json = serde_json::to_value(qos).unwrap();
    assert_eq!(
        json,
        json!({"latency": 0.01, "packet_delay_variation": 0.0, "packet_loss_ratio": "0.01"})
    );
}

#[test]
fn policies_are_read_in_both_forms() {
    let policies = "  policies:
    - web: {type: tosca.policies.nfv.SecurityGroupRule, properties: {port_range_min: 80, port_range_max: 80}, targets: [P]}
    - look: {type: tosca.policies.nfv.SupportedVnfInterface, properties: {interface_name: vnf_indicator, details: {uri_components: {scheme: http}}}, targets: [P]}
    - busy: {type: tosca.policies.nfv.VnfIndicator, properties: {source: vnf}, targets: [VNF], triggers: {scale_out: {event: e, action: []}}}
    - next: {type: tosca.policies.nfv.VnfPackageChange, properties: {selector: SELECTOR, modification_qualifier: up, destination_flavour_id: g, component_mappings: [{component_type: vdu, source_id: V, destination_id: W}]}, targets: [VNF]}
";
    let selector = "{source_descriptor_id: d, destination_descriptor_id: e, source_flavour_id: f}";
    let package_with = |version: &str, selector: &str| {
        let link = LINK.replace("        monitoring_parameters: MONITORED\n", "");
        flavour(
            version,
            "",
            &format!("{link}{}", policies.replace("SELECTOR", selector)),
        )
    };
    for flavour in [
        package_with("4.4.1", &format!("[{selector}]")),
        package_with("3.5.1", selector),
    ] {
        let rule = &flavour.security_group_rules[0];
        assert_eq!(
            (
                rule.direction.as_str(),
                rule.protocol.as_str(),
                rule.port_range_min,
                rule.port_range_max
            ),
            ("ingress", "tcp", 80, 80)
        );
        assert_eq!(rule.targets, ["P"]);
        let offered = &flavour.supported_interfaces[0];
        assert_eq!(
            (offered.interface.as_str(), offered.cps.as_slice()),
            ("vnf_indicator", &["P".to_owned()][..])
        );
        assert_eq!(flavour.indicators[0].triggers, ["scale_out"]);
        let change = &flavour.package_changes[0];
        assert_eq!(change.selectors.len(), 1);
        assert_eq!(change.selectors[0].destination_descriptor_id, "e");
        assert_eq!(
            (
                change.component_mappings[0].destination_id.as_str(),
                change.destination_flavour_id.as_str()
            ),
            ("W", "g")
        );
    }
}

/// Aspect `a` adds one VM, then two; `b` adds one for each step; the profile allows five.
fn scaling(configuration: &str) -> Flavour {
    let vnf = format!("        lcm_operations_configuration: {configuration}\n");
    flavour(
        "3.3.1",
        &vnf,
        "    V: {type: tosca.nodes.nfv.Vdu.Compute, properties: {name: v, vdu_profile: {min_number_of_instances: 1, max_number_of_instances: 5}}}
  policies:
    - aspects: {type: tosca.policies.nfv.ScalingAspects, properties: {aspects: {a: {name: a, description: a, max_scale_level: 2, step_deltas: [one, two]}, b: {name: b, description: b, max_scale_level: 3, step_deltas: [one]}}}}
    - start: {type: tosca.policies.nfv.VduInitialDelta, properties: {initial_delta: {number_of_instances: 1}}, targets: [V]}
    - of_a: {type: tosca.policies.nfv.VduScalingAspectDeltas, properties: {aspect: a, deltas: {one: {number_of_instances: 1}, two: {number_of_instances: 2}}}, targets: [V]}
    - of_b: {type: tosca.policies.nfv.VduScalingAspectDeltas, properties: {aspect: b, deltas: {one: {number_of_instances: 1}}}, targets: [V]}
    - levels: {type: tosca.policies.nfv.InstantiationLevels, properties: {levels: {low: {description: l}, high: {description: h, scale_info: {a: {scale_level: 2}}}}, default_level: low}}
",
    )
}

fn status(levels: &[(&str, u32)]) -> ScaleStatus {
    levels
        .iter()
        .map(|(aspect, level)| ((*aspect).to_owned(), *level))
        .collect()
}

#[test]
fn scaling_follows_aspects_and_their_steps() {
    use ScaleDirection::{ScaleIn, ScaleOut};
    let flavour =
        scaling("{heal: {causes: [broken]}, terminate: {min_graceful_termination_timeout: 10 s}}");
    assert_eq!(flavour.lcm.heal_causes, ["broken"]);
    assert_eq!(
        flavour.lcm.min_graceful_termination_timeout,
        Some(Duration::from_secs(10))
    );
    let begin = status(&[("a", 0), ("b", 0)]);
    let scaled = |from: &ScaleStatus, aspect, direction, steps| {
        flavour
            .scaled(from, aspect, direction, steps)
            .map_err(|error| error.to_string())
    };
    let one = scaled(&begin, "a", ScaleOut, 1).unwrap();
    assert_eq!(one, status(&[("a", 1), ("b", 0)]));
    let two = scaled(&one, "a", ScaleOut, 1).unwrap();
    assert_eq!(
        flavour.all_instances_at(&two),
        Ok(BTreeMap::from([("V".to_owned(), 4)]))
    );
    assert_eq!(scaled(&two, "a", ScaleIn, 1), Ok(one.clone()));
    // A VNFD that says nothing about scaling allows several steps, too.
    for silent in [
        "{scale: {scaling_by_more_than_one_step_supported: true}}",
        "{}",
    ] {
        let several = scaling(silent);
        assert_eq!(several.scaled(&begin, "a", ScaleOut, 2), Ok(two.clone()));
    }
}

#[test]
fn scaling_beyond_aspects_or_profiles_is_refused() {
    use ScaleDirection::{ScaleIn, ScaleOut};
    let flavour = scaling("{scale: {scaling_by_more_than_one_step_supported: false}}");
    let begin = status(&[("a", 0), ("b", 0)]);
    let two = status(&[("a", 2), ("b", 0)]);
    for (from, aspect, direction, steps, expected) in [
        (
            &begin,
            "c",
            ScaleOut,
            1,
            "flavour `f` has no scaling aspect `c`, only `a`, `b`",
        ),
        (
            &begin,
            "a",
            ScaleIn,
            1,
            "scaling aspect `a` is at level 0 and cannot be reduced by 1, at most by 0",
        ),
        (
            &two,
            "a",
            ScaleOut,
            1,
            "the highest level of scaling aspect `a` is 2, not 3",
        ),
        (
            &begin,
            "a",
            ScaleOut,
            2,
            "scaling aspect `a` by 2 steps is not allowed: the descriptor allows one step at a time",
        ),
        (
            &begin,
            "a",
            ScaleOut,
            0,
            "scaling aspect `a` by 0 steps is not allowed: the descriptor allows one step at a time",
        ),
        (
            &status(&[("a", 2), ("b", 1)]),
            "b",
            ScaleOut,
            1,
            "VDU `V` would have 6 instances; its profile allows 1 to 5",
        ),
    ] {
        let error = flavour.scaled(from, aspect, direction, steps).unwrap_err();
        assert_eq!(error.to_string(), expected);
    }
}

#[test]
fn scaling_to_an_instantiation_level_takes_its_levels_and_counts() {
    let flavour = scaling("{}");
    let high = flavour.scaled_to_level("high").unwrap();
    assert_eq!(high.levels, status(&[("a", 2), ("b", 0)]));
    assert_eq!(high.instances, BTreeMap::from([("V".to_owned(), 4)]));
    assert_eq!(flavour.size_at(high.levels.clone()), Ok(high));
    let error = flavour.scaled_to_level("huge").unwrap_err().to_string();
    assert_eq!(
        error,
        "flavour `f` has no instantiation level `huge`, only `high`, `low`"
    );
}

#[test]
fn scaling_to_levels_needs_an_instantiation_level_or_permission() {
    let begin = status(&[("a", 0), ("b", 0)]);
    let strict = scaling("{scale_to_level: {arbitrary_target_levels_supported: false}}");
    assert_eq!(
        strict.scaled_to(&begin, &status(&[("a", 2)])),
        Ok(status(&[("a", 2), ("b", 0)]))
    );
    assert_eq!(
        strict.scaled_to(&begin, &status(&[("a", 1)])),
        Err(ScaleError::Arbitrary {
            flavour: "f".to_owned()
        })
    );
    let free = scaling("{scale_to_level: {arbitrary_target_levels_supported: true}}");
    assert_eq!(
        free.scaled_to(&begin, &status(&[("b", 3)])),
        Ok(status(&[("a", 0), ("b", 3)]))
    );
    assert!(matches!(
        free.scaled_to(&begin, &status(&[("a", 2), ("b", 2)])),
        Err(ScaleError::Level(LevelError::Profile { count: 6, .. }))
    ));
    assert!(matches!(
        free.scaled_to(&begin, &status(&[("b", 4)])),
        Err(ScaleError::Level(_))
    ));
}

#[test]
fn a_model_of_sdc_is_named_once_although_its_types_are_not_declared() {
    let folder = tempfile::tempdir().unwrap();
    let model = "tosca_definitions_version: tosca_simple_yaml_1_3
metadata: {invariantUUID: a, UUID: b, name: farm, type: Service, category: Network}
topology_template:
  node_templates:
    farm: {type: org.openecomp.resource.vf.Farm}
    other: {type: org.openecomp.resource.vf.Other}
";
    std::fs::write(folder.path().join("farm.yaml"), model).unwrap();
    let findings = Package::open(folder.path(), &Limits::default()).unwrap_err();
    let [finding] = findings.as_slice() else {
        panic!("{findings}")
    };
    assert_eq!(finding.code, vnfm_descriptor::codes::PACKAGE_KIND);
    assert!(finding.message.contains("ONAP SDC"), "{finding}");
}
