//! A deployable unit as a Deployment or `StatefulSet`, with what its pods need: configuration, claims, an autoscaler.

use crate::translate::{NAME, named};
use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};
use std::collections::BTreeMap;
use vnfm_descriptor::{
    Autoscaling, Container, Flavour, PlacementRule, RunContainer, Volume, Workload, WorkloadKind,
};

/// Annotation of the pods: another configuration is another pod template, so its pods are replaced.
const CONFIGURATION: &str = "vnfm.dev/configuration";

/// The objects of a unit with this environment and number of pods.
pub(crate) fn objects(
    flavour: &Flavour,
    unit: &Workload,
    (configuration, number): (&BTreeMap<String, String>, u32),
) -> Vec<Value> {
    let mut objects = Vec::new();
    if !configuration.is_empty() {
        let mut map = named("v1", "ConfigMap", &unit.name);
        map["data"] = json!(configuration);
        objects.push(map);
    }
    objects.push(workload(flavour, unit, (configuration, number)));
    objects.extend(
        unit.autoscaling
            .map(|autoscaling| autoscaler(unit, autoscaling)),
    );
    objects
}

fn workload(
    flavour: &Flavour,
    unit: &Workload,
    (configuration, number): (&BTreeMap<String, String>, u32),
) -> Value {
    let labels = json!({NAME: unit.name});
    let mut template =
        json!({"metadata": {"labels": labels}, "spec": pod(flavour, unit, configuration)});
    if !configuration.is_empty() {
        template["metadata"]["annotations"] = json!({CONFIGURATION: fingerprint(configuration)});
    }
    let mut object = named("apps/v1", unit.kind.as_str(), &unit.name);
    object["metadata"]["labels"] = labels.clone();
    object["spec"] =
        json!({"replicas": number, "selector": {"matchLabels": labels}, "template": template});
    if unit.kind == WorkloadKind::StatefulSet {
        object["spec"]["serviceName"] = unit.name.as_str().into();
        let own = unit
            .volumes
            .iter()
            .filter(|volume| volume.per_vnfc_instance);
        let claims: Vec<Value> = own.map(own_claim).collect();
        if !claims.is_empty() {
            object["spec"]["volumeClaimTemplates"] = claims.into();
        }
    }
    object
}

fn pod(flavour: &Flavour, unit: &Workload, configuration: &BTreeMap<String, String>) -> Value {
    let containers = unit.containers.iter().map(|run| {
        let mut container = container(run, flavour.containers.get(&run.template));
        if !configuration.is_empty() {
            container["envFrom"] = json!([{"configMapRef": {"name": unit.name}}]);
        }
        let mounts = unit.volumes.iter();
        let mounts: Vec<Value> = mounts
            .map(|volume| json!({"name": volume.storage, "mountPath": volume.mount_path}))
            .collect();
        if !mounts.is_empty() {
            container["volumeMounts"] = mounts.into();
        }
        container
    });
    let mut pod = json!({"containers": containers.collect::<Vec<_>>()});
    let shared = unit
        .volumes
        .iter()
        .filter(|volume| !volume.per_vnfc_instance);
    let shared: Vec<Value> = shared
        .map(|volume| json!({"name": volume.storage, "persistentVolumeClaim": {"claimName": volume.storage}}))
        .collect();
    if !shared.is_empty() {
        pod["volumes"] = shared.into();
    }
    for (key, anti) in [("podAffinity", false), ("podAntiAffinity", true)] {
        let rules = unit.placement.iter().filter(|rule| rule.anti == anti);
        let terms: Vec<Value> = rules.map(term).collect();
        if !terms.is_empty() {
            pod["affinity"][key] = json!({"requiredDuringSchedulingIgnoredDuringExecution": terms});
        }
    }
    pod
}

fn container(run: &RunContainer, described: Option<&Container>) -> Value {
    let mut container = json!({"name": run.name, "image": run.image});
    for (key, words) in [("command", &run.command), ("args", &run.args)] {
        if !words.is_empty() {
            container[key] = json!(words);
        }
    }
    let (requests, limits) = described.map(resources).unwrap_or_default();
    for (key, amounts) in [("requests", requests), ("limits", limits)] {
        if !amounts.is_empty() {
            container["resources"][key] = amounts.into();
        }
    }
    container
}

/// What a container requests, and its limits. Of huge pages and extended resources it gets what it requests.
fn resources(container: &Container) -> (Map<String, Value>, Map<String, Value>) {
    let (mut requests, mut limits) = (Map::new(), Map::new());
    let pairs = [
        (
            "cpu",
            container.requested_cpu_resources.map(cores),
            container.cpu_resource_limit.map(cores),
        ),
        (
            "memory",
            container.requested_memory_bytes.map(quantity),
            container.memory_limit_bytes.map(quantity),
        ),
        (
            "ephemeral-storage",
            container.requested_ephemeral_storage_bytes.map(quantity),
            container.ephemeral_storage_limit_bytes.map(quantity),
        ),
    ];
    for (name, request, limit) in pairs {
        requests.extend(request.map(|amount| (name.to_owned(), amount.into())));
        limits.extend(limit.map(|amount| (name.to_owned(), amount.into())));
    }
    let extended = container.extended_resources.iter();
    let extended = extended.map(|(name, amount)| (name.clone(), amount.to_string()));
    let pages = container.huge_pages.iter();
    let pages = pages.map(|pages| {
        (
            format!("hugepages-{}", quantity(pages.page_bytes)),
            quantity(pages.requested_bytes),
        )
    });
    for (name, amount) in extended.chain(pages) {
        requests.insert(name.clone(), amount.clone().into());
        limits.insert(name, amount.into());
    }
    (requests, limits)
}

/// Thousandths of a core as Kubernetes writes them.
fn cores(milli: u32) -> String {
    if milli.is_multiple_of(1000) {
        (milli / 1000).to_string()
    } else {
        format!("{milli}m")
    }
}

/// Bytes as Kubernetes writes them: in the largest binary unit without a fraction.
fn quantity(bytes: u64) -> String {
    const UNITS: [(&str, u32); 4] = [("Ti", 40), ("Gi", 30), ("Mi", 20), ("Ki", 10)];
    let fits = |(_, shift): &&(&str, u32)| bytes > 0 && bytes.is_multiple_of(1 << *shift);
    let unit = UNITS.iter().find(fits);
    unit.map_or_else(
        || bytes.to_string(),
        |(unit, shift)| format!("{}{unit}", bytes >> shift),
    )
}

fn own_claim(volume: &Volume) -> Value {
    json!({"metadata": {"name": volume.storage}, "spec": claim_spec(volume, "ReadWriteOnce")})
}

/// The claim of a storage that all pods share.
pub(crate) fn shared_claim(volume: &Volume) -> Value {
    let mut claim = named("v1", "PersistentVolumeClaim", &volume.storage);
    claim["spec"] = claim_spec(volume, "ReadWriteMany");
    claim
}

fn claim_spec(volume: &Volume, access: &str) -> Value {
    let size = format!("{}Gi", volume.size_gib);
    json!({"accessModes": [access], "resources": {"requests": {"storage": size}}})
}

/// A rule on the nodes or zones where the pods of workloads run.
fn term(rule: &PlacementRule) -> Value {
    let key = if rule.by_zone {
        "topology.kubernetes.io/zone"
    } else {
        "kubernetes.io/hostname"
    };
    let selected = json!({"key": NAME, "operator": "In", "values": rule.workloads});
    json!({"labelSelector": {"matchExpressions": [selected]}, "topologyKey": key})
}

fn autoscaler(unit: &Workload, autoscaling: Autoscaling) -> Value {
    let target = json!({"type": "Utilization", "averageUtilization": autoscaling.cpu_percent});
    let mut object = named("autoscaling/v2", "HorizontalPodAutoscaler", &unit.name);
    object["spec"] = json!({
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": unit.kind.as_str(), "name": unit.name},
        "minReplicas": autoscaling.min_instances,
        "maxReplicas": autoscaling.max_instances,
        "metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": target}}],
    });
    object
}

/// SHA-256 of a configuration, by names, lengths and texts.
fn fingerprint(configuration: &BTreeMap<String, String>) -> String {
    let mut hash = Sha256::new();
    for (name, value) in configuration {
        hash.update(format!("{name}={}\0", value.len()));
        hash.update(value);
    }
    hex::encode(hash.finalize())
}
