//! Connections: occurrences of requirements, connection points, unused links, storages and containers.

use super::rules::Rules;
use crate::explain::codes;
use std::collections::BTreeMap;
use vnfm_descriptor::Finding;
use vnfm_descriptor::raw::{Kind, Node, VNF};

/// Requirements that another rule checks.
const OWN_RULE: &[&str] = &[
    "virtual_link",
    "virtual_binding",
    "external_virtual_link",
    "container",
];

impl Rules<'_, '_> {
    pub(super) fn wiring(&mut self) {
        self.occurrences();
        self.connection_points();
        self.orders();
        self.unused(
            "VnfVirtualLink",
            codes::LINK_UNUSED,
            "no connection point is on link",
        );
        for kind in [
            "VirtualBlockStorage",
            "VirtualObjectStorage",
            "VirtualFileStorage",
        ] {
            self.unused(
                &format!("Vdu.{kind}"),
                codes::STORAGE_UNUSED,
                "no VDU uses storage",
            );
        }
        self.unused(
            "Vdu.OsContainer",
            codes::CONTAINER_UNUSED,
            "no deployable unit runs container",
        );
    }

    fn occurrences(&mut self) {
        let mapped = self.mapped();
        for template in &self.topology.templates {
            if self.types.is_a(Kind::Node, &template.kind, VNF) {
                continue;
            }
            for (name, declared) in self.types.requirements(&template.kind) {
                let count = |bound: &Node| bound.as_i64().and_then(|n| usize::try_from(n).ok());
                let (min, max) = match declared.get("occurrences").map(Node::items) {
                    Some([low, high]) => (count(low).unwrap_or(0), count(high)),
                    Some(_) => continue,
                    // TOSCA 1.3, 3.7.3.
                    None => (1, Some(1)),
                };
                let given = template.targets(name).count();
                let elsewhere = mapped.contains(&(template.name.as_str(), name));
                let too_few = given < min && !elsewhere && !OWN_RULE.contains(&name);
                let finding = if too_few {
                    let message = format!(
                        "`{}` has {given} requirements `{name}`, fewer than the {min} that its type requires",
                        template.name
                    );
                    Finding::new(codes::OCCURRENCES, template.span.clone(), message)
                        .hint(format!("add `- {name}: …` below `requirements`"))
                } else if let Some(max) = max.filter(|max| given > *max) {
                    let message = format!(
                        "`{}` has {given} requirements `{name}`, more than the {max} that its type allows",
                        template.name
                    );
                    Finding::new(codes::OCCURRENCES, template.span.clone(), message)
                        .hint("only the first is used")
                } else {
                    continue;
                };
                self.sink.add(finding.about(&template.name));
            }
        }
    }

    fn connection_points(&mut self) {
        let mapped = self.mapped();
        let sub = self.templates_of("VduSubCp");
        for cp in self.templates_of("VduCp") {
            let trunk = sub.iter().any(|other| other.name == cp.name);
            if cp.targets("virtual_binding").next().is_none() && !trunk {
                let message = format!("`{}` is not bound to a VDU", cp.name);
                let finding =
                    Finding::new(codes::CP_BINDING, cp.span.clone(), message).about(&cp.name);
                self.sink
                    .add(finding.hint("add `- virtual_binding: …` below `requirements`"));
            }
        }
        for cp in self
            .templates_of("VduCp")
            .into_iter()
            .chain(self.templates_of("VipCp"))
        {
            let outside = mapped.iter().any(|(name, _)| *name == cp.name);
            if cp.targets("virtual_link").next().is_none() && !outside {
                let message = format!(
                    "`{}` is neither on a virtual link nor mapped to a requirement of the VNF",
                    cp.name
                );
                let finding =
                    Finding::new(codes::CP_LINK, cp.span.clone(), message).about(&cp.name);
                self.sink.add(finding.hint(
                    "add a `virtual_link`, or map a requirement of the VNF to it in `substitution_mappings`",
                ));
            }
        }
    }

    /// `order` gives the order of a VDU's interfaces, so it must be unique.
    fn orders(&mut self) {
        let mut seen: BTreeMap<(&str, &str), &str> = BTreeMap::new();
        for cp in self.templates_of("VduCp") {
            let Some(order) = cp.property("order") else {
                continue;
            };
            let bound = cp.targets("virtual_binding").find_map(Node::as_str);
            let (Some(vdu), Some(text)) = (bound, order.as_str()) else {
                continue;
            };
            if let Some(other) = seen.insert((vdu, text), &cp.name) {
                let message = format!(
                    "`{}` and `{other}` of VDU `{vdu}` have the same order {text}",
                    cp.name
                );
                self.report(codes::CP_ORDER, order, message);
            }
        }
    }

    /// Reports templates of a type that neither a requirement nor a mapping names.
    fn unused(&mut self, kind: &str, code: &'static str, message: &str) {
        let mapped = self.mapped();
        for template in self.templates_of(kind) {
            let named = self.topology.templates.iter().any(|other| {
                other
                    .requirements()
                    .any(|(_, target)| target.as_str() == Some(&template.name))
            });
            if !named && !mapped.iter().any(|(name, _)| *name == template.name) {
                let message = format!("{message} `{}`", template.name);
                self.sink
                    .add(Finding::new(code, template.span.clone(), message));
            }
        }
    }
}
