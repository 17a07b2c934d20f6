//! Hooks and their artifacts, and the properties that SOL001 requires of a VNF.

use super::rules::{FileCache, Rules};
use crate::explain::codes;
use std::collections::BTreeSet;
use vnfm_descriptor::raw::{
    Archive, Kind, Node, Sink, Template, Topology, Types, VNF, float, operations_in, units,
};
use vnfm_descriptor::{Finding, Limits, Span};

/// The artifact types that a runner can run.
const RUNNABLE: &[&str] = &[
    "tosca.artifacts.Implementation.SharedLibrary",
    "tosca.artifacts.Implementation.Bash",
    "tosca.artifacts.Implementation.Python",
    "tosca.artifacts.Implementation.Ansible",
];
const BASH: &str = "tosca.artifacts.Implementation.Bash";
const IMPLEMENTATION: &str = "tosca.artifacts.Implementation";

impl<'a> Rules<'a, '_> {
    pub(super) fn hooks(&mut self) {
        for vnf in self.templates_of("VNF") {
            let mut named = BTreeSet::new();
            let interfaces = vnf.node.get("interfaces").into_iter().flat_map(Node::named);
            for operation in interfaces.flat_map(|(_, interface)| operations_in(interface)) {
                self.operation(operation, &mut named);
            }
            for (key, artifact) in vnf
                .node
                .get("artifacts")
                .map(Node::entries)
                .unwrap_or_default()
            {
                self.artifact(vnf, (key, artifact), &named);
            }
        }
    }

    fn operation(
        &mut self,
        (operation, assigned): (&str, &'a Node),
        named: &mut BTreeSet<&'a str>,
    ) {
        let implementation = assigned.get("implementation").unwrap_or(assigned);
        let primary = implementation.get("primary").unwrap_or(implementation);
        named.extend(primary.as_str());
        named.extend(
            implementation
                .get("dependencies")
                .map(Node::items)
                .unwrap_or_default()
                .iter()
                .filter_map(Node::as_str),
        );
        let Some(timeout) = implementation.get("timeout") else {
            return;
        };
        let text = timeout.as_str().unwrap_or("~");
        let seconds = units::seconds(text).or_else(|| float(text));
        if seconds.is_none_or(|seconds| seconds <= 0.0) {
            let message = format!("the timeout of `{operation}`, `{text}`, is not a duration");
            let finding = Finding::new(codes::TIMEOUT, timeout.span.clone(), message);
            self.sink
                .add(finding.hint("write seconds, `600`, or a number with its unit, `10 m`"));
        }
    }

    fn artifact(
        &mut self,
        vnf: &Template,
        (key, artifact): (&Node, &Node),
        named: &BTreeSet<&str>,
    ) {
        let Some(kind) = artifact.get("type") else {
            return;
        };
        let (name, text) = (
            key.as_str().unwrap_or("~"),
            kind.as_str().unwrap_or_default(),
        );
        let is = |other: &str| self.types.is_a(Kind::Artifact, text, other);
        let runnable = RUNNABLE.iter().any(|known| is(known));
        if named.contains(name) && !runnable && self.types.get(Kind::Artifact, text).is_some() {
            let message = format!("no runner can run a `{text}`");
            let finding = Finding::new(codes::ARTIFACT_RUNNER, kind.span.clone(), message);
            self.sink
                .add(finding.hint(format!("runners exist for {}", RUNNABLE.join(", "))));
        }
        if is(BASH) {
            self.script(artifact);
        }
        if !named.contains(name) && is(IMPLEMENTATION) {
            let message = format!(
                "artifact `{name}` of `{}` is not used by any operation",
                vnf.name
            );
            let finding = Finding::new(codes::ARTIFACT_UNUSED, key.span.clone(), message);
            self.sink.add(finding.about(name));
        }
    }
}

impl Rules<'_, '_> {
    /// Checks the line endings of a script: a shell reads a carriage return as part of the command.
    fn script(&mut self, artifact: &Node) {
        let Some(file) = artifact.get("file") else {
            return;
        };
        let Some(path) = self.path_of(file) else {
            return;
        };
        if let Some(line) = self.files.windows_line(self.archive, self.limits, &path) {
            let message = format!("line {line} of the script `{path}` has a Windows line ending");
            let finding = Finding::new(codes::SCRIPT_LINES, file.span.clone(), message);
            self.sink.add(finding.hint("`sed -i 's/\\r$//'` fixes it"));
        }
    }
}

impl FileCache {
    /// The first line with a Windows line ending; `None` if there is none or the file cannot be read.
    pub(super) fn windows_line(
        &mut self,
        archive: &Archive,
        limits: &Limits,
        path: &str,
    ) -> Option<usize> {
        let read = || {
            let bytes = archive.read(path, limits.file_bytes).ok()?;
            let at = bytes.windows(2).position(|two| two == b"\r\n")?;
            Some(bytes[..at].split(|byte| *byte == b'\n').count())
        };
        *self.scripts.entry(path.to_owned()).or_insert_with(read)
    }
}

/// Checks the properties that SOL001 requires of every VNF.
pub(super) fn required(topologies: &[Topology<'_>], types: &Types<'_>, sink: &mut Sink) {
    let is_vnf = |template: &&Template| types.is_a(Kind::Node, &template.kind, VNF);
    let vnfs: Vec<&Template> = topologies
        .iter()
        .flat_map(|topology| &topology.templates)
        .filter(is_vnf)
        .collect();
    let Some(first) = vnfs.first() else { return };
    for name in ["vnfm_info", "flavour_description"] {
        let given = vnfs.iter().any(|vnf| vnf.property(name).is_some());
        let default = || {
            vnfs.iter()
                .any(|vnf| default_of(types, vnf, name).is_some())
        };
        if !given && !default() {
            let message = format!("the VNF's `{name}` is missing");
            sink.add(Finding::new(
                codes::VNF_REQUIRED,
                first.span.clone(),
                message,
            ));
        }
    }
    let mut seen: BTreeSet<Span> = BTreeSet::new();
    for vnf in &vnfs {
        let info = vnf
            .property("vnfm_info")
            .or_else(|| default_of(types, vnf, "vnfm_info"));
        let Some(info) = info else { continue };
        let items = if info.is_sequence() {
            info.items()
        } else {
            std::slice::from_ref(info)
        };
        for item in items
            .iter()
            .filter(|item| item.as_str().is_some_and(|text| !is_vnfm(text)))
        {
            if seen.insert(item.span.clone()) {
                let text = item.as_str().unwrap_or_default();
                let message = format!("`{text}` is not a VNFM name as SOL001 defines it");
                let finding = Finding::new(codes::VNFM_INFO, item.span.clone(), message);
                sink.add(finding.hint("write `etsivnfm:v3.3.1`, or `<enterprise number>:<name>`"));
            }
        }
    }
}

fn default_of<'a>(types: &Types<'a>, vnf: &Template, name: &str) -> Option<&'a Node> {
    types
        .defaults(Kind::Node, &vnf.kind)
        .remove(name)?
        .filter(|node| !node.is_null())
}

/// `etsivnfm:v3.3.1` or `<IANA enterprise number>:<name>`.
fn is_vnfm(text: &str) -> bool {
    let digits = |part: &str, max: usize| {
        (1..=max).contains(&part.len()) && part.bytes().all(|byte| byte.is_ascii_digit())
    };
    if let Some(version) = text.strip_prefix("etsivnfm:v") {
        let parts: Vec<&str> = version.split('.').collect();
        return parts.len() == 3 && parts.iter().all(|part| digits(part, 2));
    }
    text.split_once(':').is_some_and(|(number, name)| {
        let word = |b: u8| b.is_ascii_alphanumeric() || b".-".contains(&b);
        digits(number, usize::MAX) && !name.is_empty() && name.bytes().all(word)
    })
}
