//! A `VirtualCp` as a Service, and the HTTP requests that lead to it as an Ingress.

use crate::translate::{NAME, named};
use serde_json::{Value, json};
use vnfm_descriptor::{Route, Service};

/// The objects of a service.
pub(crate) fn objects(service: &Service) -> Vec<Value> {
    let mut objects = vec![of_pods(service)];
    if !service.routes.is_empty() {
        let mut ingress = named("networking.k8s.io/v1", "Ingress", &service.name);
        let rules = service
            .routes
            .iter()
            .map(|route| rule(route, &service.name));
        ingress["spec"] = json!({"rules": rules.collect::<Vec<_>>()});
        objects.push(ingress);
    }
    objects
}

fn of_pods(service: &Service) -> Value {
    let ports = service.ports.iter().map(|port| {
        json!({
            "name": port.name,
            "protocol": port.protocol.to_uppercase(),
            "port": port.port,
            "targetPort": port.port,
        })
    });
    let kind = if service.exposed {
        "LoadBalancer"
    } else {
        "ClusterIP"
    };
    let mut object = named("v1", "Service", &service.name);
    object["spec"] = json!({"type": kind, "selector": {NAME: service.workload}, "ports": ports.collect::<Vec<_>>()});
    let families = service
        .ip_versions
        .iter()
        .map(|version| version.replace("ip", "IP"));
    let families: Vec<String> = families.collect();
    if !families.is_empty() {
        let policy = if families.len() > 1 {
            "RequireDualStack"
        } else {
            "SingleStack"
        };
        object["spec"]["ipFamilies"] = json!(families);
        object["spec"]["ipFamilyPolicy"] = policy.into();
    }
    object
}

/// Leads the requests of one host to a port of the service; the ingress class is the default one of the cluster.
fn rule(route: &Route, service: &str) -> Value {
    let backend = json!({"service": {"name": service, "port": {"number": route.port}}});
    let paths = route.paths.iter();
    let paths: Vec<Value> = paths
        .map(|path| json!({"path": path, "pathType": "Prefix", "backend": backend}))
        .collect();
    let mut rule = json!({"http": {"paths": paths}});
    if let Some(host) = &route.host {
        rule["host"] = host.as_str().into();
    }
    rule
}
