//! The matcher: outcomes by requirement, and the verdict of a cluster.

use crate::cluster_match::*;
use std::collections::BTreeMap;

fn node(
    name: &str,
    kernel: &str,
    labels: &[(&str, &str)],
    modules: Option<&[&str]>,
) -> NodeCapabilities {
    let own = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
    NodeCapabilities {
        name: name.to_owned(),
        schedulable: true,
        kernel_version: kernel.to_owned(),
        labels: labels.iter().map(own).collect::<BTreeMap<_, _>>(),
        kernel_modules: modules.map(|names| names.iter().map(|name| (*name).to_owned()).collect()),
        ..NodeCapabilities::default()
    }
}

fn cluster(nodes: Vec<NodeCapabilities>, apis: &[&str]) -> ClusterCapabilities {
    ClusterCapabilities {
        kubernetes_version: "v1.36.2".to_owned(),
        helm_version: Observed::unknown("none is configured"),
        nodes: Observed::Known(nodes),
        apis: Observed::Known(apis.iter().map(|api| (*api).to_owned()).collect()),
        csi_drivers: Observed::Known(["disk.csi.example.com".to_owned()].into()),
        storage_classes: Observed::unknown("403"),
    }
}

fn label(text: &str, mandatory: bool) -> RequirementOutcome {
    let nodes = vec![
        node(
            "a",
            "",
            &[("topology.kubernetes.io/region", "Boston"), ("gpu", "true")],
            None,
        ),
        node("b", "", &[("edge", "false")], None),
    ];
    let mut label = ClusterLabel::default();
    label.label = text.to_owned();
    label.mandatory = mandatory;
    cluster_label(&label, &cluster(nodes, &[]))
}

#[test]
fn kernel_versions_are_compared_number_by_number() {
    for (least, found, verdict) in [
        ("4.15.0", "5.10.0-28-amd64", Verdict::Met),
        ("5.10", "5.9.16", Verdict::NotMet),
        ("5.10", "5.10.0", Verdict::Met),
        ("5.10.0", "5.10", Verdict::Met),
        ("6", "6.1.0-rc1+", Verdict::Met),
        ("6.2", "6.1.0", Verdict::NotMet),
        ("5.10", "kwok-v0.7.0", Verdict::Unknown),
        ("5.10", "", Verdict::Unknown),
        ("recent", "6.1.0", Verdict::Unknown),
    ] {
        let outcome = kernel_version(least, &cluster(vec![node("a", found, &[], None)], &[]));
        assert_eq!(outcome.verdict, verdict, "{least} on {found}: {outcome}");
    }
}

#[test]
fn one_node_is_enough_and_is_named() {
    let mut cordoned = node("c", "6.9", &[], None);
    cordoned.schedulable = false;
    let nodes = vec![
        node("a", "5.4", &[], None),
        node("b", "6.1", &[], None),
        cordoned,
    ];
    let outcome = kernel_version("5.10", &cluster(nodes, &[]));
    assert_eq!(
        (outcome.verdict, outcome.nodes),
        (Verdict::Met, vec!["b".to_owned()])
    );
    assert_eq!(outcome.found, "on 1 of 2 nodes: b");
}

#[test]
fn modules_that_nobody_reports_are_unknown_and_not_absent() {
    let discovered = node("a", "", &[], Some(&["sctp", "nf_nat"]));
    let silent = node("b", "", &[], None);
    let labelled = node(
        "c",
        "",
        &[(
            "feature.node.kubernetes.io/kernel-loadedmodule.sctp",
            "true",
        )],
        None,
    );
    for (nodes, module, loaded, verdict) in [
        (vec![&discovered], "sctp", true, Verdict::Met),
        (vec![&discovered], "nf-nat", true, Verdict::Met),
        (vec![&discovered], "vfio", true, Verdict::NotMet),
        (vec![&silent], "sctp", true, Verdict::Unknown),
        (vec![&labelled], "sctp", true, Verdict::Met),
        (vec![&labelled], "vfio", true, Verdict::Unknown),
        (vec![&discovered], "sctp", false, Verdict::NotMet),
        (vec![&discovered], "vfio", false, Verdict::Met),
        (vec![&silent], "sctp", false, Verdict::Unknown),
        (vec![&discovered, &silent], "sctp", false, Verdict::Unknown),
    ] {
        let nodes = nodes.into_iter().cloned().collect();
        let outcome = kernel_module(module, loaded, &cluster(nodes, &[]));
        assert_eq!(outcome.verdict, verdict, "{outcome}");
    }
}

#[test]
fn a_custom_resource_is_served_in_the_version_that_is_named() {
    let apis = [
        "apps/v1",
        "redis.io/v1/Redis",
        "v1/Pod",
        "redis.io/v1beta1/Redis",
    ];
    for (kind, version, verdict) in [
        ("Redis", None, Verdict::Met),
        ("Redis", Some("redis.io/v1"), Verdict::Met),
        ("Redis", Some("v1beta1"), Verdict::Met),
        ("Redis", Some("redis.io/v2"), Verdict::NotMet),
        ("edis", None, Verdict::NotMet),
        ("Kafka", None, Verdict::NotMet),
        ("Redis CRD, version 5.0", None, Verdict::Unknown),
    ] {
        let resource = resource(kind, version);
        let outcome = custom_resource(&resource, &cluster(Vec::new(), &apis));
        assert_eq!(outcome.verdict, verdict, "{outcome}");
    }
    let outcome = custom_resource(
        &resource("Redis", Some("redis.io/v2")),
        &cluster(Vec::new(), &apis),
    );
    assert!(outcome.found.contains("redis.io/v1beta1"), "{outcome}");
}

fn resource(kind: &str, version: Option<&str>) -> RequiredResource {
    let mut one = RequiredResource::default();
    one.kind = kind.to_owned();
    one.api_version = version.map(str::to_owned);
    one
}

#[test]
fn a_label_is_a_key_a_pair_or_a_value() {
    for (text, verdict) in [
        ("gpu", Verdict::Met),
        ("gpu=true", Verdict::Met),
        ("gpu=false", Verdict::NotMet),
        ("Boston", Verdict::Met),
        ("boston", Verdict::NotMet),
        ("edge", Verdict::NotMet),
    ] {
        assert_eq!(label(text, true).verdict, verdict, "{text}");
    }
}

#[test]
fn only_what_is_mandatory_and_certainly_missing_prevents_a_deployment() {
    assert!(label("Oslo", true).prevents());
    assert!(!label("Oslo", false).prevents());
    let none = kernel_version("5.10", &cluster(Vec::new(), &[]));
    assert!(!none.prevents(), "a cluster may grow: {none}");
    let unreadable = ClusterCapabilities {
        nodes: Observed::unknown("403: forbidden"),
        ..cluster(Vec::new(), &[])
    };
    let unreadable = kernel_version("5.10", &unreadable);
    assert!(
        !unreadable.prevents() && unreadable.found.contains("403"),
        "{unreadable}"
    );
}

#[test]
fn a_plugin_is_recognized_by_what_it_brings() {
    let multus = "k8s.cni.cncf.io/v1/NetworkAttachmentDefinition";
    let mut accelerated = node("a", "", &[], None);
    accelerated
        .allocatable
        .insert("example.com/fpga".to_owned(), "2".to_owned());
    for (name, version, apis, verdict) in [
        ("Multus-CNI", None, vec![multus], Verdict::Met),
        ("Multus-CNI", None, vec![], Verdict::NotMet),
        ("Multus-CNI", Some("v3.8"), vec![multus], Verdict::Unknown),
        ("Multus-CNI", Some("v3.8"), vec![], Verdict::NotMet),
        ("disk.csi.example.com", None, vec![], Verdict::Met),
        ("example.com/fpga", None, vec![], Verdict::Met),
        ("whereabouts", None, vec![], Verdict::Unknown),
    ] {
        let mut required = RequiredPlugin::default();
        required.name = name.to_owned();
        required.version = version.map(str::to_owned);
        let outcome = plugin(&required, &cluster(vec![accelerated.clone()], &apis));
        assert_eq!(outcome.verdict, verdict, "{outcome}");
    }
}
