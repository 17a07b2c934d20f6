//! Kubernetes: the order file with its variables, and every manifest of the package.
//!
//! A manifest is parsed as written. If that is not YAML, it is parsed again with a word in place of each variable. A
//! variable stands for a scalar only: a manifest that becomes YAML only by its values is refused.

use crate::explain::codes;
use crate::kinds::{COMMON, CONTAINER, KINDS, Kind, METADATA, POD, REMOVED, TEMPLATE, group};
use crate::scalars::traps;
use crate::source::Source;
use std::collections::BTreeSet;
use vnfm_descriptor::raw::{Node, Parts, Sink, is_name, parse_all};
use vnfm_descriptor::{Chart, Finding, Flavour, Marked, ORDER_FILE, OrderFile, Span, Vdu, VduKind};

/// Checks the order file and the manifests of a package.
pub(crate) fn check(source: &Source<'_>, read: &Parts, sink: &mut Sink) {
    let mut workloads = BTreeSet::new();
    let mut used = BTreeSet::new();
    for path in manifests(source, read) {
        let Some(text) = source.text(&path) else {
            continue;
        };
        let variables = read.order.as_ref().map(|order| &order.variables);
        for (name, line) in placeholders(&text) {
            let declared = variables.is_some_and(|all| all.contains_key(&name));
            if declared {
                used.insert(name);
            } else if let (Some(all), true) = (variables, is_entire_value(&text, line, &name)) {
                let message = format!("variable `{name}` is not declared");
                let span = Span::line(&path, line);
                let finding = Finding::new(codes::VARIABLE_UNKNOWN, span, message);
                sink.add(finding.did_you_mean(&name, all.keys().map(String::as_str)));
            }
        }
        for node in documents(source, &path, &text, read.order.as_ref(), sink) {
            object(&node, sink);
            let name = node.at(&["metadata", "name"]).and_then(Node::as_str);
            workloads.extend(name.map(ToOwned::to_owned));
        }
    }
    if let Some(order) = &read.order {
        let packed = |path: &str| source.archive.has(path);
        for chart in order.charts.iter().filter(|chart| packed(&chart.path)) {
            chart_file(source, (&chart.path, ""), chart.span.clone(), sink);
        }
        unused(source, order, used, sink);
    }
    vdus(source, read, &workloads, sink);
}

/// The manifests that the order file names, and the other YAML files in `Files/kubernetes/`.
fn manifests(source: &Source<'_>, read: &Parts) -> Vec<String> {
    let mut all: Vec<String> = read
        .order
        .iter()
        .flat_map(|order| &order.manifests)
        .map(|manifest| manifest.path.clone())
        .collect();
    let other = source
        .yaml_paths()
        .filter(|path| *path != ORDER_FILE && path.starts_with("Files/kubernetes/"));
    all.extend(other.map(ToOwned::to_owned));
    all.sort();
    all.dedup();
    all
}

fn documents(
    source: &Source<'_>,
    path: &str,
    text: &str,
    order: Option<&OrderFile>,
    sink: &mut Sink,
) -> Vec<Node> {
    let mut found = Sink::default();
    let mut nodes = parse_all(text, path, source.limits, &mut found);
    if let (None, Some(order)) = (&nodes, order) {
        let marked = Marked::new(text, |name| order.variables.contains_key(name));
        nodes = parse_all(marked.text(), path, source.limits, &mut Sink::default());
    }
    let Some(nodes) = nodes else {
        for finding in found.all() {
            let finding = Finding::new(codes::MANIFEST_YAML, finding.span, finding.message);
            let has_variables = order.is_some_and(|order| !order.variables.is_empty());
            sink.add(if has_variables {
                finding.hint(AS_SCALARS)
            } else {
                finding
            });
        }
        return Vec::new();
    };
    for finding in found
        .all()
        .into_iter()
        .filter(|finding| finding.code.starts_with('W'))
    {
        sink.add(finding);
    }
    nodes.into_iter().filter(|node| !node.is_null()).collect()
}

const AS_SCALARS: &str = "a manifest must be YAML before variables are replaced: `$name` stands for a scalar, as in `replicas: $replicas`";

/// Checks an object, or each object of a `List`.
pub(crate) fn object(node: &Node, sink: &mut Sink) {
    let texts = (
        node.get("apiVersion").and_then(Node::as_str),
        node.get("kind").and_then(Node::as_str),
    );
    let (Some(api), Some(kind)) = texts else {
        let missing = if texts.0.is_none() {
            "apiVersion"
        } else {
            "kind"
        };
        let message = format!("this is not a Kubernetes object: it has no `{missing}`");
        sink.add(Finding::new(codes::K8S_OBJECT, node.span.clone(), message));
        return;
    };
    if api == "v1" && kind == "List" {
        for item in node.get("items").map(Node::items).unwrap_or_default() {
            object(item, sink);
        }
        return;
    }
    if ![api, kind].iter().any(|text| text.contains('$')) {
        served(node, (api, kind), sink);
    }
    name(node, kind, sink);
    if kind == "ConfigMap" || kind == "Secret" {
        return;
    }
    traps(node, &[], sink);
}

/// Kubernetes serves the kind in this `apiVersion`, and defines its fields.
fn served(node: &Node, (api, kind): (&str, &str), sink: &mut Sink) {
    let at = |key: &str| node.get(key).map(|node| node.span.clone());
    let elsewhere = || KINDS.iter().find(|known| known.name == kind);
    let now = |known: &Kind| format!("`{kind}` is in `{}`", known.api);
    if REMOVED.contains(&(api, kind)) {
        let message = format!("Kubernetes no longer serves `{kind}` in `{api}`");
        let finding = Finding::new(codes::K8S_API, at("apiVersion"), message);
        return sink.add(elsewhere().map_or(finding.clone(), |known| finding.hint(now(known))));
    }
    if let Some(known) = KINDS
        .iter()
        .find(|known| (known.api, known.name) == (api, kind))
    {
        return fields(node, known, sink);
    }
    let own = group(api);
    let in_group: Vec<&str> = KINDS
        .iter()
        .filter(|known| group(known.api) == own)
        .map(|known| known.api)
        .collect();
    let is_builtin = !in_group.is_empty() || own == "extensions";
    if !is_builtin {
        if let Some(known) = elsewhere().filter(|_| !own.contains('.')) {
            let message = format!("Kubernetes has no group `{own}`");
            sink.add(Finding::new(codes::K8S_API, at("apiVersion"), message).hint(now(known)));
        }
        return;
    }
    if let Some(known) = elsewhere() {
        let message = format!("Kubernetes does not serve `{kind}` in `{api}`");
        return sink.add(Finding::new(codes::K8S_API, at("apiVersion"), message).hint(now(known)));
    }
    if !in_group.contains(&api) {
        let message = format!("Kubernetes does not serve `{api}`");
        let finding = Finding::new(codes::K8S_API, at("apiVersion"), message);
        return sink.add(finding.did_you_mean(api, in_group));
    }
    let message = format!("Kubernetes has no kind `{kind}` in `{api}`");
    let finding = Finding::new(codes::K8S_KIND, at("kind"), message);
    sink.add(finding.did_you_mean(kind, KINDS.iter().map(|known| known.name)));
}

fn fields(node: &Node, known: &Kind, sink: &mut Sink) {
    let kind = known.name;
    if kind == "Event" {
        return;
    }
    let top: Vec<&str> = COMMON.iter().chain(&known.top).copied().collect();
    unknown(node, &top, kind, sink);
    if let Some(metadata) = node.get("metadata") {
        unknown(metadata, &METADATA, "metadata", sink);
    }
    let Some(spec) = node.get("spec") else { return };
    if let Some(allowed) = &known.spec {
        unknown(spec, allowed, &format!("{kind}'s spec"), sink);
    }
    let template = match kind {
        "Pod" => return pod(spec, sink),
        "CronJob" => spec.at(&["jobTemplate", "spec", "template"]),
        _ => spec.get("template").filter(|_| {
            known
                .spec
                .as_ref()
                .is_some_and(|spec| spec.contains(&"template"))
        }),
    };
    let Some(template) = template else { return };
    unknown(template, TEMPLATE, "a pod template", sink);
    if let Some(inner) = template.get("spec") {
        unknown(inner, &POD, "a pod's spec", sink);
        pod(inner, sink);
    }
    selector(spec, template, sink);
}

fn pod(spec: &Node, sink: &mut Sink) {
    for list in ["containers", "initContainers"] {
        for container in spec.get(list).map(Node::items).unwrap_or_default() {
            unknown(container, &CONTAINER, "a container", sink);
            for needed in ["name", "image"] {
                if container.is_mapping() && container.get(needed).is_none() {
                    let message = format!("a container has no `{needed}`");
                    sink.add(Finding::new(
                        codes::K8S_IMAGE,
                        container.span.clone(),
                        message,
                    ));
                }
            }
        }
    }
}

fn unknown(node: &Node, known: &[&str], what: &str, sink: &mut Sink) {
    for (key, _) in node.entries() {
        let name = key.as_str().unwrap_or("~");
        if !known.contains(&name) && !name.contains('$') {
            let message = format!("{what} has no field `{name}`");
            let finding = Finding::new(codes::K8S_FIELD, key.span.clone(), message);
            sink.add(finding.did_you_mean(name, known.iter().copied()));
        }
    }
}

/// A workload's `matchLabels` are among the labels of its pods.
fn selector(spec: &Node, template: &Node, sink: &mut Sink) {
    let labels = template.at(&["metadata", "labels"]);
    for (key, value) in spec
        .at(&["selector", "matchLabels"])
        .map(Node::entries)
        .unwrap_or_default()
    {
        let name = key.as_str().unwrap_or("~");
        let own = labels
            .and_then(|labels| labels.get(name))
            .and_then(Node::as_str);
        if own != value.as_str() {
            let selected = value.as_str().unwrap_or("~");
            let message = format!("the pods have no label `{name}: {selected}`");
            let finding = Finding::new(codes::K8S_SELECTOR, key.span.clone(), message);
            sink.add(
                finding
                    .hint("add it to `template.metadata.labels`, or remove it from `matchLabels`"),
            );
        }
    }
}

fn name(node: &Node, kind: &str, sink: &mut Sink) {
    let metadata = node.get("metadata");
    let Some(named) = metadata.and_then(|metadata| metadata.get("name")) else {
        if metadata
            .and_then(|metadata| metadata.get("generateName"))
            .is_none()
        {
            let message = format!("the {kind} has no `metadata.name`");
            sink.add(Finding::new(codes::K8S_NAME, node.span.clone(), message));
        }
        return;
    };
    let text = named.as_str().unwrap_or_default();
    // Roles and role bindings may have names such as `system:node`.
    let free = kind.contains("Role") || text.contains('$');
    let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' || c == '.';
    let ends = text.starts_with(['-', '.']) || text.ends_with(['-', '.']);
    if !free && (text.is_empty() || text.len() > 253 || ends || !text.chars().all(allowed)) {
        let message = format!("`{text}` cannot be the name of an object");
        sink.add(
            Finding::new(codes::K8S_NAME, named.span.clone(), message).hint(
                "use lower-case letters, digits, `-` and `.`, with a letter or digit at both ends",
            ),
        );
    }
}

/// The names in `$name` and `${name}`, each with its line.
fn placeholders(text: &str) -> Vec<(String, usize)> {
    let mut all = Vec::new();
    for (index, line) in text.lines().enumerate() {
        for part in line.replace("$$", "").split('$').skip(1) {
            let inner = part.strip_prefix('{').unwrap_or(part);
            let name: String = inner
                .chars()
                .take_while(|c| c.is_ascii_alphanumeric() || *c == '_')
                .collect();
            if is_name(&name) {
                all.push((name, index + 1));
            }
        }
    }
    all
}

/// Whether the variable is the entire value of a line, so it cannot be a shell variable in a script.
fn is_entire_value(text: &str, line: usize, name: &str) -> bool {
    let line = text.lines().nth(line - 1).unwrap_or_default();
    let value = line
        .split_once(": ")
        .map_or("", |(_, value)| value)
        .trim()
        .trim_matches(['"', '\'']);
    value == format!("${name}") || value == format!("${{{name}}}")
}

fn unused(source: &Source<'_>, order: &OrderFile, mut used: BTreeSet<String>, sink: &mut Sink) {
    for (name, _) in placeholders(order.namespace.as_deref().unwrap_or_default()) {
        used.insert(name);
    }
    for chart in &order.charts {
        let values = placeholders(&chart.values.to_string()).into_iter();
        used.extend(values.map(|(name, _)| name));
    }
    let nodes = source.yaml(ORDER_FILE).unwrap_or_default();
    let declared = nodes.first().and_then(|node| node.get("variables"));
    let written = declared.map(Node::entries).unwrap_or_default();
    for name in order.variables.keys().filter(|name| !used.contains(*name)) {
        let key = written
            .iter()
            .map(|(key, _)| key)
            .find(|key| key.as_str() == Some(name));
        let span = key.map_or_else(|| Span::file(&order.path), |key| key.span.clone());
        let message = format!("variable `{name}` is declared but no manifest uses it");
        sink.add(Finding::new(codes::VARIABLE_UNUSED, span, message).about(name));
    }
    let named = |path: &str| order.manifests.iter().any(|manifest| manifest.path == path);
    for path in source
        .yaml_paths()
        .filter(|path| path.starts_with("Files/kubernetes/"))
    {
        if path != ORDER_FILE && !named(path) {
            let message = format!("`{path}` is not in the order file, so it is not applied");
            sink.add(Finding::new(codes::MANIFEST_UNUSED, Span::file(path), message).about(path));
        }
    }
}

/// The workload of each containerised VDU is in a manifest.
fn vdus(source: &Source<'_>, read: &Parts, workloads: &BTreeSet<String>, sink: &mut Sink) {
    let Some(vnfd) = &read.vnfd else { return };
    for flavour in vnfd.flavours.values() {
        let containers: Vec<&Vdu> = flavour
            .vdus
            .values()
            .filter(|vdu| vdu.kind == VduKind::OsContainer)
            .collect();
        if flavour.workloads.is_some()
            || !source.archive.has(ORDER_FILE) && charts(source, read, flavour, sink)
        {
            continue;
        }
        let Some(first) = containers.first() else {
            continue;
        };
        let Some(order) = &read.order else {
            if !source.archive.has(ORDER_FILE) {
                let message = format!(
                    "no order file states which manifests deploy `{}`",
                    first.name
                );
                let finding = Finding::new(codes::ORDER_NONE, Span::file(&flavour.file), message);
                sink.add(finding.hint(format!(
                    "write `{ORDER_FILE}`; without it, each request must name the manifests or the chart"
                )));
            }
            continue;
        };
        if !order.charts.is_empty() {
            continue; // only helm knows the workloads of charts
        }
        let known = || workloads.iter().map(String::as_str);
        for vdu in containers {
            let name = vdu
                .mcio
                .as_ref()
                .map_or(&vdu.display_name, |mcio| &mcio.name);
            if !workloads.contains(name) && !workloads.iter().any(|known| known.contains('$')) {
                let message = format!(
                    "no manifest creates `{name}`, the workload of VDU `{}`",
                    vdu.name
                );
                let finding = Finding::new(codes::WORKLOAD, Span::file(&flavour.file), message);
                sink.add(finding.did_you_mean(name, known()));
            }
        }
    }
}

/// Reports deployment items that are no charts, or that no driver deploys; true if the flavour has items other than manifests,
/// or Mciops: only helm knows the workloads of charts.
fn charts(source: &Source<'_>, read: &Parts, flavour: &Flavour, sink: &mut Sink) -> bool {
    let items = read.asd.iter().flat_map(|asd| &asd.deployment_items);
    let others: Vec<_> = items.filter(|item| !item.is_manifest()).collect();
    for item in &others {
        let (name, at) = (&item.artifact, Span::file(&flavour.file));
        if !item.is_chart() {
            let message = format!(
                "deployment item `{name}` is a `{}`, which no driver deploys",
                item.artifact_type
            );
            let hint = "provide it as a packed chart, or its objects as manifests";
            sink.add(Finding::new(codes::CHART, at, message).hint(hint));
            continue;
        }
        let owner = format!(" of deployment item `{name}`");
        chart_file(source, (&item.file, &owner), at, sink);
    }
    !others.is_empty() || !flavour.mciops.is_empty()
}

/// Reports a file that is no packed chart.
fn chart_file(source: &Source<'_>, (path, owner): (&str, &str), at: Span, sink: &mut Sink) {
    let packed = source.archive.read(path, source.limits.file_bytes);
    let packed = packed.map_err(|error| error.to_string());
    let chart = packed
        .and_then(|packed| Chart::read(&packed, source.limits).map_err(|error| error.to_string()));
    if let Err(reason) = chart {
        let message = format!("`{path}`{owner} is not a Helm chart: {reason}");
        let finding = Finding::new(codes::CHART_FILE, at, message);
        sink.add(finding.hint("create it with `helm package`"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use vnfm_descriptor::Limits;

    fn codes_of(text: &str) -> Vec<&'static str> {
        let mut sink = Sink::default();
        let node =
            vnfm_descriptor::raw::parse(text, "a.yaml", &Limits::default(), &mut sink).unwrap();
        object(&node, &mut sink);
        sink.all().iter().map(|finding| finding.code).collect()
    }

    #[test]
    fn custom_groups_and_placeholders_are_accepted() {
        for text in [
            "{apiVersion: cilium.io/v2, kind: CiliumNetworkPolicy, metadata: {name: a}, any: 1}",
            "{apiVersion: monitoring.coreos.com/v1, kind: ServiceMonitor, metadata: {name: a}}",
            "{apiVersion: example.org/v1, kind: Deployment, metadata: {name: a}, other: 1}",
            "{apiVersion: resource.k8s.io/v1, kind: DeviceClass, metadata: {name: a}}",
            "{apiVersion: v1, kind: Pod, metadata: {generateName: a-}, spec: {containers: []}}",
            "{apiVersion: rbac.authorization.k8s.io/v1, kind: Role, metadata: {name: 'a:B'}}",
            "{apiVersion: '$api', kind: Thing, metadata: {name: $name}}",
        ] {
            assert_eq!(codes_of(text), [""; 0], "{text}");
        }
    }

    #[test]
    fn unknown_versions_kinds_fields_and_names_are_reported() {
        for (text, code) in [
            (
                "{apiVersion: v1, kind: Deployment, metadata: {name: a}}",
                codes::K8S_API,
            ),
            (
                "{apiVersion: deployment/v1, kind: Deployment, metadata: {name: a}}",
                codes::K8S_API,
            ),
            (
                "{apiVersion: apps/v2, kind: Deploymnt, metadata: {name: a}}",
                codes::K8S_API,
            ),
            (
                "{apiVersion: apps/v1, kind: Deploymnt, metadata: {name: a}}",
                codes::K8S_KIND,
            ),
            (
                "{apiVersion: v1, kind: Pod, metadata: {name: a}, spec: {container: []}}",
                codes::K8S_FIELD,
            ),
            (
                "{apiVersion: v1, kind: Pod, metadata: {name: A_b}}",
                codes::K8S_NAME,
            ),
            ("{kind: Pod, metadata: {name: a}}", codes::K8S_OBJECT),
        ] {
            assert_eq!(codes_of(text), [code], "{text}");
        }
    }

    #[test]
    fn variables_are_found_with_their_lines() {
        let found = placeholders("a: $x\nb: ${y}-$z\nc: $$no $1\n");
        assert_eq!(
            found,
            [
                ("x".to_owned(), 1),
                ("y".to_owned(), 2),
                ("z".to_owned(), 2)
            ]
        );
        assert!(is_entire_value("a: ${x}\n", 1, "x") && !is_entire_value("a: ${x}y\n", 1, "x"));
    }
}
