//! Virtual connection points: services with their ports, how far they can be reached, and the HTTP requests that lead to them.

use super::super::builder::Builder;
use super::super::topology::{Template, Topology};
use super::names::{LABEL, is_host, is_label, is_service_name};
use crate::model::{Cp, CpKind, Flavour, Route, Service, ServicePort, Workload};
use crate::yaml::Node;

impl Builder<'_, '_> {
    /// The services of a flavour. Errors are reported; a service with one is left out.
    pub(super) fn services(
        &mut self,
        topology: &Topology<'_>,
        flavour: &Flavour,
        units: &[Workload],
    ) -> Vec<Service> {
        let mut services = Vec::new();
        for cp in flavour.cps.values() {
            let Some(template) = topology.template(&cp.name) else {
                continue;
            };
            match cp.kind {
                CpKind::VirtualCp => services.extend(self.service(template, (flavour, cp), units)),
                CpKind::VnfExtCp => self.exposes_something(template, flavour, cp),
                CpKind::VduCp | CpKind::VipCp => {}
            }
        }
        services
    }

    fn service(
        &mut self,
        template: &Template<'_>,
        (flavour, cp): (&Flavour, &Cp),
        units: &[Workload],
    ) -> Option<Service> {
        if !is_service_name(&cp.name) {
            let message = format!("`{}` cannot be the name of a Service", cp.name);
            let hint = format!("{LABEL}, a letter at its beginning");
            self.untranslatable(&template.span, message, &hint);
            return None;
        }
        for second in template.targets("target").skip(1) {
            let message = format!(
                "`{}` has a second target, and a Service selects the pods of one workload",
                cp.name
            );
            self.untranslatable(
                &second.span,
                message,
                "add a `VirtualCp` for each deployable unit",
            );
        }
        let (ports, routes) = self.ports_and_routes(template)?;
        let unit = units
            .iter()
            .find(|unit| Some(&unit.vdu) == cp.vdu.as_ref())?;
        let is_version = |layer: &&String| layer.starts_with("ipv");
        Some(Service {
            name: cp.name.clone(),
            workload: unit.name.clone(),
            exposed: is_exposed(flavour, cp),
            ip_versions: cp
                .layer_protocols
                .iter()
                .filter(is_version)
                .cloned()
                .collect(),
            ports,
            routes,
            span: template.span.clone(),
        })
    }

    /// What `additionalServiceData` says; a service without ports is reported.
    fn ports_and_routes(
        &mut self,
        template: &Template<'_>,
    ) -> Option<(Vec<ServicePort>, Vec<Route>)> {
        let (mut ports, mut routes) = (Vec::new(), Vec::new());
        let entries = template.property("additionalServiceData").map(Node::items);
        for entry in entries.unwrap_or_default() {
            let first = ports.len();
            self.ports(template, entry, &mut ports);
            routes.extend(self.route(template, entry, &ports[first..]));
        }
        if ports.is_empty() {
            let message = format!("`{}` has no port, and a Service needs one", template.name);
            let hint = "add `portData` to its `additionalServiceData`";
            self.untranslatable(&template.span, message, hint);
            return None;
        }
        Some((ports, routes))
    }

    fn ports(&mut self, template: &Template<'_>, data: &Node, ports: &mut Vec<ServicePort>) {
        for node in data.get("portData").map(Node::items).unwrap_or_default() {
            let text = |key: &str| node.get(key).and_then(Node::as_str).unwrap_or_default();
            let (name, protocol) = (text("name"), text("protocol").to_ascii_lowercase());
            let port = node
                .get("port")
                .and_then(Node::as_u32)
                .and_then(|port| u16::try_from(port).ok());
            let is_known = ports.iter().any(|known| {
                known.name == name || (Some(known.port), &known.protocol) == (port, &protocol)
            });
            match port.filter(|port| *port > 0) {
                Some(port) if is_label(name) && !is_known => {
                    let name = name.to_owned();
                    ports.push(ServicePort {
                        name,
                        protocol,
                        port,
                    });
                }
                _ => {
                    let message = format!(
                        "port `{name}` of `{}` cannot be a port of a Service",
                        template.name
                    );
                    let hint = format!(
                        "use a number from 1 to 65535 and a name, each once; for the name {LABEL}"
                    );
                    self.untranslatable(&node.span, message, &hint);
                }
            }
        }
    }

    /// The requests that `serviceData` leads to the only TCP port of its entry.
    fn route(
        &mut self,
        template: &Template<'_>,
        entry: &Node,
        ports: &[ServicePort],
    ) -> Option<Route> {
        let service = entry.get("serviceData")?;
        let host = service.get("host").filter(|host| host.as_str() != Some(""));
        let mut paths = service.get("path").map(Node::texts).unwrap_or_default();
        if service.as_str().is_none() && host.is_none() && paths.is_empty() {
            return None;
        }
        if paths.is_empty() {
            paths.push("/".to_owned());
        }
        let mut tcp = ports.iter().filter(|port| port.protocol == "tcp");
        let (port, second) = (tcp.next(), tcp.next());
        let has_invalid_host = host.is_some_and(|host| !host.as_str().is_some_and(is_host));
        let problem = match port {
            _ if service.as_str().is_some() => "it is a text, not a host and paths (SOL001 V4.4.1)",
            _ if has_invalid_host => "its host is not a domain name in lower case",
            _ if paths.iter().any(|path| !is_path(path)) => {
                "its paths do not begin with `/`, or have characters that a path cannot have"
            }
            Some(port) if second.is_none() => {
                let host = host.and_then(Node::as_str).map(str::to_owned);
                let port = port.port;
                return Some(Route { host, paths, port });
            }
            _ => "its entry does not have exactly one TCP port",
        };
        let message = format!(
            "`serviceData` of `{}` leads no HTTP requests to it: {problem}",
            template.name
        );
        let hint = "correct it, or use one entry of `additionalServiceData` for each port";
        self.untranslatable(&service.span, message, hint);
        None
    }

    /// A `VnfExtCp` makes the services of its link reachable from outside.
    fn exposes_something(&mut self, template: &Template<'_>, flavour: &Flavour, cp: &Cp) {
        let is_on_link =
            |other: &&Cp| other.kind == CpKind::VirtualCp && other.virtual_link == cp.virtual_link;
        if !flavour.cps.values().any(|other| is_on_link(&other)) {
            let message = format!(
                "`{}` makes nothing reachable: no `VirtualCp` is on its internal link",
                cp.name
            );
            self.untranslatable(
                &template.span,
                message,
                "put a `VirtualCp` on that link (`virtual_link`)",
            );
        }
    }
}

/// Whether a requirement of the VNF is mapped to the connection point, or a `VnfExtCp` is on the same link.
fn is_exposed(flavour: &Flavour, cp: &Cp) -> bool {
    let mut mapped = flavour.external_cps.iter();
    let mut others = flavour.cps.values();
    mapped.any(|external| external.cpd_id == cp.name && !external.requirements.is_empty())
        || others.any(|other| {
            other.kind == CpKind::VnfExtCp
                && cp.virtual_link.is_some()
                && other.virtual_link == cp.virtual_link
        })
}

/// Whether `path` can be the beginning of a path of HTTP requests (RFC 3986 3.3), as an Ingress takes it.
fn is_path(path: &str) -> bool {
    let allowed = |c: char| c.is_ascii_alphanumeric() || "/-._~!$&'()*+,;=:@%".contains(c);
    path.len() <= 1024
        && path.starts_with('/')
        && path.chars().all(allowed)
        && !path.contains("//")
        && !path.split('/').any(|part| matches!(part, "." | ".."))
}
