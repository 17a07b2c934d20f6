//! How parameters of a request become values of a Mciop's chart: the artifacts `HelmParamMappingRule` and
//! `HelmParamMappingScript` (SOL001 V5.4.1, 6.3.4 and 6.3.5).
//!
//! As the standard has it, a script reads the request and prints the values of the chart, and the rules are a file for that
//! script, in a format that only the script knows. Scripts of a package are never run here. Rules in this format need none,
//! so they apply instead of it:
//!
//! ```yaml
//! parameter_mapping:
//!   page.greeting: greeting   # key of a value: parameter that the VNFD declares for an operation
//! ```

use super::builder::Builder;
use super::kind::Kind;
use super::topology::{Template, Topology};
use crate::codes;
use crate::finding::{Finding, Span};
use crate::model::{Flavour, HelmParamMapping};
use crate::order::ORDER_FILE;
use crate::yaml::{Node, parse};
use std::collections::{BTreeMap, BTreeSet};

pub(super) const RULE: &str = "tosca.artifacts.nfv.HelmParamMappingRule";
pub(super) const SCRIPT: &str = "tosca.artifacts.nfv.HelmParamMappingScript";
const RULES_KEY: &str = "parameter_mapping";

impl Builder<'_, '_> {
    /// Reads the mappings of the flavour's Mciops; what cannot be applied is reported.
    pub(super) fn helm_mappings(&mut self, topology: &Topology<'_>, flavour: &mut Flavour) {
        let declared: BTreeSet<String> = flavour
            .additional_params
            .values()
            .filter_map(|schema| schema.get("properties")?.as_object())
            .flat_map(|properties| properties.keys().cloned())
            .collect();
        for template in &topology.templates {
            if let Some(mciop) = flavour.mciops.get_mut(&template.name) {
                mciop.parameter_mapping = self.helm_mapping(topology, template, &declared);
            }
        }
    }

    fn helm_mapping(
        &mut self,
        topology: &Topology<'_>,
        template: &Template<'_>,
        declared: &BTreeSet<String>,
    ) -> Option<HelmParamMapping> {
        let script = self.artifact_file(topology, template, SCRIPT);
        let rule = self.artifact_file(topology, template, RULE);
        let rules = rule.as_ref().and_then(|path| self.rules(path, declared));
        let (unread, text) = match (script, rule, rules) {
            (None, None, _) => return None,
            (Some(_), _, Some(rules)) => return Some(HelmParamMapping::Rules(rules)),
            (None, Some(_), Some(rules)) => {
                let text = "it has a `HelmParamMappingRule` without a `HelmParamMappingScript`: other VNFMs have nothing to run";
                self.warn(template, text, "add a script that does the same");
                return Some(HelmParamMapping::Rules(rules));
            }
            (Some(script), ..) => {
                let text = format!(
                    "its script `{script}` computes the values of the chart, and is never run"
                );
                (script, text)
            }
            (None, Some(rule), None) => {
                let text = format!("its rules `{rule}` are in a format that only a script knows");
                (rule, text)
            }
        };
        // The order file decides what is deployed, with values of its own.
        if !self.archive.has(ORDER_FILE) {
            let hint = format!(
                "state what it computes in a `HelmParamMappingRule`: `{RULES_KEY}: {{key of a value: parameter of an operation}}`"
            );
            self.warn(template, &text, &hint);
        }
        Some(HelmParamMapping::Unsupported(unread))
    }

    fn warn(&mut self, template: &Template<'_>, text: &str, hint: &str) {
        let message = format!("Mciop `{}`: {text}", template.name);
        let finding = Finding::new(codes::HELM_MAPPING, template.span.clone(), message);
        self.sink.add(finding.hint(hint));
    }

    /// The file of a Mciop's artifact of this type.
    fn artifact_file(
        &self,
        topology: &Topology<'_>,
        template: &Template<'_>,
        wanted: &str,
    ) -> Option<String> {
        let artifacts = template.node.get("artifacts").into_iter();
        let mut of_type = artifacts
            .flat_map(Node::named)
            .map(|(_, node)| node)
            .filter(|node| self.is_artifact(node, wanted));
        self.file(topology, of_type.next()?.get("file")?)
    }

    /// Whether an artifact of a node template is of this type.
    pub(super) fn is_artifact(&self, node: &Node, wanted: &str) -> bool {
        let kind = node.get("type").and_then(Node::as_str);
        kind.is_some_and(|kind| self.types.is_a(Kind::Artifact, kind, wanted))
    }

    /// The rules in a file; `None` if it has another format. A rule that cannot be applied is reported.
    fn rules(
        &mut self,
        path: &str,
        declared: &BTreeSet<String>,
    ) -> Option<BTreeMap<String, String>> {
        let bytes = self
            .archive
            .read(path, self.limits.yaml_bytes as u64)
            .ok()?;
        let text = String::from_utf8(bytes).ok()?;
        let marker = format!("{RULES_KEY}:");
        if !text.lines().any(|line| line.starts_with(&marker)) {
            return None;
        }
        let mut rules = BTreeMap::new();
        let root = parse(&text, path, self.limits, self.sink);
        for (key, node) in root.iter().flat_map(Node::named) {
            if key != RULES_KEY {
                self.wrong_rule(
                    &node.span,
                    format!("`{key}` is no member of a mapping file"),
                );
                continue;
            }
            if !node.is_mapping() {
                self.wrong_rule(&node.span, format!("`{RULES_KEY}` is no mapping"));
            }
            for (value, parameter) in node.named() {
                match parameter.as_str() {
                    Some(name) if declared.contains(name) => {
                        rules.insert(value.to_owned(), name.to_owned());
                    }
                    Some(name) => {
                        let text =
                            format!("no operation of the VNFD declares the parameter `{name}`");
                        self.wrong_rule(&parameter.span, text);
                    }
                    None => {
                        let text = format!("the rule for `{value}` names no parameter");
                        self.wrong_rule(&parameter.span, text);
                    }
                }
            }
        }
        Some(rules)
    }

    fn wrong_rule(&mut self, span: &Span, text: String) {
        let finding = Finding::new(codes::HELM_RULE, span.clone(), text);
        self.sink.add(finding.hint(format!(
            "write `{RULES_KEY}: {{page.greeting: greeting}}`: the key of a value, and a parameter of `additional_parameters`"
        )));
    }
}
