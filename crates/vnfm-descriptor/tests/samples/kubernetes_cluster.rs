//! VNF-A, a VNF that becomes a Kubernetes cluster: its packages, levels, hooks and parameters.

use super::{open, request};
use serde_json::{Value, json};
use std::time::Duration;
use vnfm_descriptor::{CpKind, Flavour, HotExpression, LevelError, Package, VduKind};

fn cluster(package: &Package) -> &Flavour {
    package.vnfd().flavour("cluster_install").unwrap()
}

const SAMPLES: [&str; 3] = [
    "vnf-a-k8s-cluster",
    "vnf-a-k8s-cluster-base-hot",
    "vnf-a-vendor-script",
];

#[test]
fn vnf_a_has_the_machines_that_the_seed_describes() {
    for name in SAMPLES {
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
    }
}

#[test]
fn vnf_a_has_the_connection_points_that_the_seed_describes() {
    for name in SAMPLES {
        let package = open(name);
        let flavour = cluster(&package);
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
        [
            "instantiate_end",
            "heal_start",
            "heal_end",
            "scale_start",
            "scale_end",
            "scale_to_level_start",
            "scale_to_level_end",
            "operate_start",
            "operate_end",
            "change_current_package_start",
            "change_current_package_end",
            "terminate_end"
        ]
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

/// As the how-tos show them.
#[test]
fn documented_addons_are_valid_parameters() {
    let cloud = json!({
        "format": "kuryr-kubernetes", "roles": ["member"], "expires_at": "2027-01-01T00:00:00Z",
        "sections": {"DEFAULT": {"use_stderr": true}, "neutron_defaults": {"lbaas_activation_timeout": 60}},
        "access_rules": [{"service": "load-balancer", "method": "GET", "path": "/v2.0/lbaas/**"}],
    });
    let addons = json!([
        {"name": "metrics-server", "version": "0.9.0", "values": {"REPLICAS": 2}},
        {"name": "settings", "version": "1", "manifest": "a.yaml", "values": {"ZONE": "a"}},
        {"name": "cloud", "manifest": "b.yaml", "cloud": cloud},
    ]);
    for sample in [
        "vnf-a-k8s-cluster",
        "vnf-a-ha-cluster",
        "vnf-a-cloud-integration",
    ] {
        let package = open(sample);
        let schema = cluster(&package).additional_params_schema("instantiate");
        let installation = &schema.unwrap()["properties"]["k8s_cluster_installation_param"];
        let validator = jsonschema::validator_for(&installation["properties"]["addons"]).unwrap();
        let found: Vec<String> = validator
            .iter_errors(&addons)
            .map(|error| error.to_string())
            .collect();
        assert_eq!(found, [""; 0], "{sample}");
    }
}

/// As the how-to shows it.
#[test]
fn documented_node_software_is_a_valid_parameter() {
    let software = json!([
        {"name": "node-report", "version": "1.0", "artifact": "Files/software/node-report", "drain": false},
        {"name": "nic-driver", "version": "2.4-1", "roles": ["worker"], "artifact": "a.deb", "install": "b", "timeout_seconds": 60},
    ]);
    for sample in [
        "vnf-a-k8s-cluster",
        "vnf-a-k8s-cluster-2",
        "vnf-a-ha-cluster",
    ] {
        let package = open(sample);
        let schema = cluster(&package).additional_params_schema("instantiate");
        let installation = &schema.unwrap()["properties"]["k8s_cluster_installation_param"];
        let validator =
            jsonschema::validator_for(&installation["properties"]["node_software"]).unwrap();
        assert!(validator.is_valid(&software), "{sample}");
        assert!(!validator.is_valid(&json!([{"name": "x"}])), "{sample}");
    }
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
