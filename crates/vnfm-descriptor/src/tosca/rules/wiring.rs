//! Who is connected to whom: occurrences of requirements, connection points, what nobody uses.

use super::super::template::VNF;
use super::super::types::Kind;
use super::Rules;
use crate::finding::{Finding, codes};
use crate::yaml::Node;
use std::collections::BTreeMap;

/// Requirements with a rule of their own.
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
                let (least, most) = match declared.get("occurrences").map(Node::items) {
                    Some([low, high]) => (count(low).unwrap_or(0), count(high)),
                    Some(_) => continue,
                    // TOSCA 1.3, 3.7.3.
                    None => (1, Some(1)),
                };
                let given = template.targets(name).count();
                let elsewhere = mapped.contains(&(template.name.as_str(), name));
                let few = given < least && !elsewhere && !OWN_RULE.contains(&name);
                let finding = if few {
                    let message = format!(
                        "`{}` has {given} requirements `{name}`, fewer than the {least} that its type wants",
                        template.name
                    );
                    Finding::new(codes::OCCURRENCES, template.span.clone(), message)
                        .hint(format!("write `- {name}: …` below `requirements`"))
                } else if let Some(most) = most.filter(|most| given > *most) {
                    let message = format!(
                        "`{}` has {given} requirements `{name}`, more than the {most} that its type allows",
                        template.name
                    );
                    Finding::new(codes::OCCURRENCES, template.span.clone(), message)
                        .hint("only the first is read")
                } else {
                    continue;
                };
                self.sink.add(finding);
            }
        }
    }

    fn connection_points(&mut self) {
        let mapped = self.mapped();
        let sub = self.of("VduSubCp");
        for cp in self.of("VduCp") {
            let trunk = sub.iter().any(|other| other.name == cp.name);
            if cp.targets("virtual_binding").next().is_none() && !trunk {
                let message = format!("`{}` is bound to no VDU", cp.name);
                let finding = Finding::new(codes::CP_BINDING, cp.span.clone(), message);
                self.sink
                    .add(finding.hint("write `- virtual_binding: …` below `requirements`"));
            }
        }
        for cp in self.of("VduCp").into_iter().chain(self.of("VipCp")) {
            let outside = mapped.iter().any(|(name, _)| *name == cp.name);
            if cp.targets("virtual_link").next().is_none() && !outside {
                let message = format!("`{}` is on no link, and not mapped to the outside", cp.name);
                let finding = Finding::new(codes::CP_LINK, cp.span.clone(), message);
                self.sink.add(finding.hint(
                    "give it a `virtual_link`, or map a requirement of the VNF to it in `substitution_mappings`",
                ));
            }
        }
    }

    /// The order of a VDU's interfaces is told by `order`.
    fn orders(&mut self) {
        let mut seen: BTreeMap<(&str, &str), &str> = BTreeMap::new();
        for cp in self.of("VduCp") {
            let Some(order) = cp.property("order") else {
                continue;
            };
            let bound = cp.targets("virtual_binding").find_map(Node::as_str);
            let (Some(vdu), Some(text)) = (bound, order.as_str()) else {
                continue;
            };
            if let Some(other) = seen.insert((vdu, text), &cp.name) {
                let message = format!(
                    "`{}` and `{other}` of VDU `{vdu}` both have the order {text}",
                    cp.name
                );
                self.say(codes::CP_ORDER, order, message);
            }
        }
    }

    /// Templates of a type that no requirement and no mapping names.
    fn unused(&mut self, kind: &str, code: &'static str, what: &str) {
        let mapped = self.mapped();
        for template in self.of(kind) {
            let named = self.topology.templates.iter().any(|other| {
                other
                    .requirements()
                    .any(|(_, target)| target.as_str() == Some(&template.name))
            });
            if !named && !mapped.iter().any(|(name, _)| *name == template.name) {
                let message = format!("{what} `{}`", template.name);
                self.sink
                    .add(Finding::new(code, template.span.clone(), message));
            }
        }
    }
}
