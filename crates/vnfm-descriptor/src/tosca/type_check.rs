//! Checks of declared types: parents, schemas, names, versions of SOL001.

#[cfg(test)]
use super::builtin;
use super::constraints;
use super::kind::{Kind, SECTIONS};
use super::tagged::{VERSIONS_KEY, Version};
use super::types::{PRIMITIVES, Types, operations_in};
use crate::codes;
use crate::finding::{Finding, Span};
use crate::sink::Sink;
use crate::yaml::Node;

impl<'a> Types<'a> {
    /// Checks the built-in types.
    #[cfg(test)]
    pub(super) fn check_builtin(&self, sink: &mut Sink) {
        for (kind, _, _) in SECTIONS {
            for name in builtin::names(kind) {
                self.check(kind, name, sink);
            }
        }
    }

    pub(super) fn check(&self, kind: Kind, name: &'a str, sink: &mut Sink) {
        let Some(node) = self.get(kind, name) else {
            return;
        };
        if let Some(parent) = node.get("derived_from") {
            let text = parent.as_str().unwrap_or_default();
            let primitive = kind == Kind::Data && PRIMITIVES.contains(&text);
            if !primitive && !self.known(kind, parent, sink) {
                return;
            }
            let chain = self.chain(kind, name);
            if chain
                .last()
                .and_then(|(_, last)| last.get("derived_from"))
                .and_then(Node::as_str)
                .is_some_and(|up| self.get(kind, up).is_some())
            {
                sink.add(Finding::new(
                    codes::TYPE_CYCLE,
                    parent.span.clone(),
                    format!("`{name}` derives from itself"),
                ));
            }
        }
        if kind == Kind::Data {
            constraints::check_written(self, node, sink);
        }
        for section in ["properties", "attributes"] {
            for (_, property) in node.get(section).into_iter().flat_map(Node::named) {
                self.check_schema(property, sink);
            }
        }
        for (_, capability) in node.get("capabilities").into_iter().flat_map(Node::named) {
            let named = capability
                .get("type")
                .or(Some(capability))
                .filter(|node| node.as_str().is_some());
            named.map(|named| self.known(Kind::Capability, named, sink));
        }
        for (_, interface) in node.get("interfaces").into_iter().flat_map(Node::named) {
            interface
                .get("type")
                .map(|named| self.known(Kind::Interface, named, sink));
            self.check_operations(interface, sink);
        }
        if kind == Kind::Interface {
            self.check_operations(node, sink);
        }
    }

    fn check_operations(&self, node: &Node, sink: &mut Sink) {
        for (_, operation) in operations_in(node) {
            for (_, input) in operation.get("inputs").into_iter().flat_map(Node::named) {
                self.check_schema(input, sink);
            }
        }
    }

    /// Checks a declaration: its type, the type of its entries, its constraints.
    pub(super) fn check_schema(&self, node: &Node, sink: &mut Sink) {
        constraints::check_written(self, node, sink);
        let named = node.get("type").or_else(|| node.as_str().map(|_| node));
        let primitive = |named: &Node| {
            named
                .as_str()
                .is_some_and(|name| PRIMITIVES.contains(&name))
        };
        if let Some(named) = named.filter(|named| !primitive(named)) {
            self.known(Kind::Data, named, sink);
        }
        if let Some(entry) = node.get("entry_schema") {
            self.check_schema(entry, sink);
        }
    }

    /// Whether the type that `named` names is declared; reports it if not.
    pub(super) fn known(&self, kind: Kind, named: &Node, sink: &mut Sink) -> bool {
        let name = named.as_str().unwrap_or("~");
        let label = SECTIONS
            .iter()
            .find(|(section, _, _)| *section == kind)
            .map_or("type", |(_, _, label)| *label);
        let found = self.get(kind, name);
        if let Some(node) = found {
            self.warn_if_other_version(node, &named.span, &format!("{label} `{name}`"), sink);
        }
        let known = found.is_some();
        if !known {
            let finding = Finding::new(
                codes::TYPE_UNKNOWN,
                named.span.clone(),
                format!("{label} `{name}` is not declared"),
            );
            let suffix = format!(":{name}");
            let prefixed = self.names(kind).find(|known| known.ends_with(&suffix));
            let finding = match prefixed {
                Some(prefixed) => finding.suggest(prefixed),
                None => finding.did_you_mean(name, self.names(kind)),
            };
            sink.add(if finding.hint.is_none() {
                finding.hint("import the file that declares it")
            } else {
                finding
            });
        }
        known
    }

    /// Warns if a declaration belongs to other versions of SOL001 than the package's.
    pub(super) fn warn_if_other_version(
        &self,
        declared: &Node,
        at: &Span,
        what: &str,
        sink: &mut Sink,
    ) {
        if let Some(versions) = declared.get(VERSIONS_KEY).and_then(Node::as_str) {
            self.other_version(versions, at, what, sink);
        }
    }

    /// Warns that `versions` of SOL001 have this but the package's does not; nothing if the package states no version.
    pub(super) fn other_version(&self, versions: &str, at: &Span, what: &str, sink: &mut Sink) {
        let Some(version) = self.version.map(Version::name) else {
            return;
        };
        let message =
            format!("SOL001 {version}, the version of the package, does not define {what}");
        sink.add(
            Finding::new(codes::SOL001_OTHER, at.clone(), message)
                .hint(format!("SOL001 {versions} defines it")),
        );
    }
}
