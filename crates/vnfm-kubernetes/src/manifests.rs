//! Reads the objects of the VNF from the package and the request, without any call.
//!
//! ```text
//! order file ──┬─ variables   request's additionalParams > default > 422
//!              └─ namespace   additionalParams.namespace > order file > the VIM's > vnf-<instance id>
//! sources ─────── manifests   text ──> documents ── $variables as scalars ──> objects, in stages by `order`
//! ```
//! Every error names the file and the line. An order file always declares `$namespace`; without one there are no variables.
//! A value never adds an object, a list or a member: see [`crate::template`].

use crate::charts::ChartRelease;
use crate::errors::{MANIFEST, VALUE};
use crate::file_modes;
use crate::identifiers::is_label;
use crate::item::Item;
use crate::kind_order;
use crate::replicas::{set_replicas, vdu_of};
use crate::requested;
use crate::sources::Sources;
use crate::stage::Stage;
use crate::stopped;
use crate::template::{self, BytesLeft, TemplateError, missing_value};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use vnfm_core::ports::{Allocation, Budget, PortError};
use vnfm_descriptor::{InvalidValue, Marked, OrderFile, Variables};
use vnfm_types::VnfOperationalState;

/// The action in the error of a plan that exceeds the budget.
const PLAN_ACTION: &str = "plan the objects";

/// The objects of a VNF.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Plan {
    /// The namespace of objects whose manifest names none.
    pub(crate) namespace: String,
    /// Whether the request or the package names it.
    pub(crate) is_named: bool,
    /// Objects in stages; a stage starts when the one before is ready.
    pub(crate) stages: Vec<Vec<Item>>,
    /// Charts that helm installs; their objects are in stages of their own once they are rendered.
    pub(crate) charts: Vec<ChartRelease>,
    /// The VDUs whose number of VNFCs is a value of the charts.
    pub(crate) sized: BTreeSet<String>,
}

impl Plan {
    /// Reads the package and inserts the values of the request.
    ///
    /// # Errors
    ///
    /// `Refused`, naming the variable, or the file and line of an invalid manifest.
    pub(crate) fn read(
        allocation: &Allocation,
        instance: &str,
        vim_namespace: Option<&str>,
    ) -> Result<Self, PortError> {
        let default = vim_namespace.map_or_else(|| format!("vnf-{instance}"), str::to_owned);
        let order = allocation.package.order_file();
        let (namespace, values) = values(order, allocation, &default)?;
        let sources = Sources::choose(allocation, &values)?;
        let mut left = BytesLeft::new(allocation.budget.bytes);
        let mut plan = Self {
            is_named: namespace != default,
            namespace,
            sized: sources.sized,
            ..Self::default()
        };
        for Stage {
            manifests,
            objects: mut items,
            by_kind,
            charts,
        } in sources.stages
        {
            let before = plan.items().count();
            let count = (before + items.len()) as u64;
            allocation.budget.allows(PLAN_ACTION, count, 0)?;
            for path in manifests {
                items.extend(read_file(allocation, &path, (&values, &mut left))?);
                let count = (before + items.len()) as u64;
                allocation.budget.allows(PLAN_ACTION, count, 0)?;
            }
            if by_kind {
                kind_order::sort(&mut items);
            }
            let stage = plan.stages.len();
            let charts = charts.into_iter();
            plan.charts
                .extend(charts.map(|chart| ChartRelease { stage, ..chart }));
            plan.stages.push(items);
        }
        if plan.charts.is_empty() {
            plan.finish(allocation)?;
        }
        Ok(plan)
    }

    /// Leaves out what the deployment does not have, and sets the replicas of its VDUs.
    ///
    /// # Errors
    ///
    /// `Refused` if an object is described twice, or no object has the replicas of a VDU.
    pub(crate) fn finish(&mut self, allocation: &Allocation) -> Result<(), PortError> {
        drop_other_flavours(&mut self.stages, allocation);
        let objects = self.stages.iter_mut().flatten();
        set_replicas(
            objects.map(|item| &mut item.object),
            allocation,
            &self.sized,
        )?;
        if allocation.deployment.vnf_state == VnfOperationalState::Stopped {
            stopped::stop(&mut self.stages);
        }
        self.refuse_duplicates()
    }

    /// Every object, in the order of deployment.
    pub(crate) fn items(&self) -> impl Iterator<Item = &Item> {
        self.stages.iter().flatten()
    }

    fn refuse_duplicates(&self) -> Result<(), PortError> {
        let mut seen: BTreeMap<(String, &str, &str, &str), &str> = BTreeMap::new();
        for item in self.items() {
            let namespace = item.namespace.as_deref().unwrap_or(&self.namespace);
            if let Some(first) = seen.insert(
                (item.group(), &item.kind, namespace, &item.name),
                &item.location,
            ) {
                let text = format!(
                    "{} `{}` is described at {first} already",
                    item.kind, item.name
                );
                return Err(manifest_error(&item.location, text));
            }
        }
        Ok(())
    }
}

/// Drops the workloads of VDUs that only other flavours have: manifests are the same for all flavours.
fn drop_other_flavours(stages: &mut [Vec<Item>], allocation: &Allocation) {
    let vnfd = allocation.package.vnfd();
    let Some(own) = requested::flavour(allocation) else {
        return;
    };
    let others = || {
        vnfd.flavours
            .values()
            .filter(|flavour| flavour.id != own.id)
    };
    let is_others = |item: &Item| {
        let runs_it = |flavour| vdu_of(flavour, &item.kind, &item.name).is_some();
        makes_pods(&item.group(), &item.kind) && !runs_it(&own) && others().any(runs_it)
    };
    for stage in stages {
        stage.retain(|item| !is_others(item));
    }
}

/// Whether objects of this kind are workloads.
fn makes_pods(group: &str, kind: &str) -> bool {
    matches!(group, "apps" | "batch") || kind == "Pod" || kind == "ReplicationController"
}

/// Returns the namespace, and the variables with their values.
fn values(
    order: Option<&OrderFile>,
    allocation: &Allocation,
    default: &str,
) -> Result<(String, Variables), PortError> {
    let Some(order) = order else {
        return Ok((namespace_of(allocation, default)?, Variables::new()));
    };
    let given = &allocation.deployment.additional_params;
    let mut values = order
        .values(|name| given.get(name))
        .map_err(|unfit| value_error(&unfit))?;
    let requested = given
        .get("namespace")
        .and_then(Value::as_str)
        .map(str::to_owned);
    let declared = values.get("namespace").and_then(Option::as_ref);
    let declared = declared.map(|value| vnfm_descriptor::text_of(value).into_owned());
    let fallback = requested
        .clone()
        .or(declared)
        .unwrap_or_else(|| default.to_owned());
    values.insert("namespace".to_owned(), Some(fallback.clone().into()));
    let ordered = order
        .namespace(&values)
        .map_err(|missing| missing_value(&allocation.package, &order.path, &missing))?;
    let namespace = valid_namespace(requested.or(ordered).unwrap_or(fallback))?;
    values.insert("namespace".to_owned(), Some(namespace.clone().into()));
    Ok((namespace, values))
}

/// The namespace that the request names, or the `default` one.
///
/// # Errors
///
/// `Refused` if no namespace can have that name.
fn namespace_of(allocation: &Allocation, default: &str) -> Result<String, PortError> {
    let given = allocation.deployment.additional_params.get("namespace");
    let given = given.and_then(Value::as_str).unwrap_or(default);
    valid_namespace(given.to_owned())
}

fn valid_namespace(namespace: String) -> Result<String, PortError> {
    if is_label(&namespace) {
        return Ok(namespace);
    }
    let text = format!(
        "`{namespace}` is not a valid name: lower-case letters, digits and `-`, at most 63 characters"
    );
    Err(PortError::new(&MANIFEST, "choose the namespace", text).on("additionalParams.namespace"))
}

/// The objects of a YAML stream without variables; `place` says where it comes from.
///
/// # Errors
///
/// `Refused`, naming the line of an invalid object, or the limit that is exceeded.
pub(crate) fn read_stream(
    text: &str,
    place: &str,
    budget: &Budget,
) -> Result<Vec<Item>, PortError> {
    budget.allows(PLAN_ACTION, 0, text.len() as u64)?;
    let (marked, values) = (Marked::new(text, |_| false), Variables::new());
    let mut left = BytesLeft::new(budget.bytes);
    let mut items = Vec::new();
    for (line, document) in documents(marked.text()) {
        let location = format!("{place}:{line}");
        let object =
            template::parse(document, &marked, &values, &mut left).map_err(|unfilled| {
                let reason = match unfilled {
                    TemplateError::Yaml(inner, reason) => {
                        format!("line {}: {reason}", line + inner)
                    }
                    _ => "it is too large".to_owned(),
                };
                manifest_error(&location, reason)
            })?;
        collect(object, &location, &mut items)?;
        budget.allows(PLAN_ACTION, items.len() as u64, 0)?;
    }
    Ok(items)
}

fn read_file(
    allocation: &Allocation,
    path: &str,
    (values, left): (&Variables, &mut BytesLeft),
) -> Result<Vec<Item>, PortError> {
    let bytes = allocation
        .package
        .read(path)
        .map_err(|error| manifest_error(path, error.to_string()))?;
    let text = String::from_utf8(bytes).map_err(|_| manifest_error(path, "it is not UTF-8"))?;
    let marked = Marked::new(&text, |name| values.contains_key(name));
    let mut items = Vec::new();
    for (line, document) in documents(marked.text()) {
        let object = template::parse(document, &marked, values, left)
            .map_err(|unfilled| template_error(allocation, (path, line), unfilled))?;
        collect(object, &format!("{path}:{line}"), &mut items)?;
    }
    Ok(items)
}

/// The error for the document that begins at `line` of file `path`.
fn template_error(
    allocation: &Allocation,
    (path, line): (&str, usize),
    unfilled: TemplateError,
) -> PortError {
    let location = format!("{path}:{line}");
    match unfilled {
        TemplateError::Yaml(inner, reason) => {
            manifest_error(&format!("{path}:{}", line + inner), reason)
        }
        TemplateError::Missing(missing) => missing_value(&allocation.package, path, &missing),
        TemplateError::NotScalar { name, given } => scalar_error(&location, &name, given),
        TemplateError::DuplicateKey(key) => manifest_error(
            &location,
            format!("the values of the request make two of its keys `{key}`"),
        ),
        TemplateError::TooLarge => {
            let over = allocation.budget.bytes.saturating_add(1);
            let exceeded = allocation
                .budget
                .allows(&format!("fill `{location}`"), 0, over);
            exceeded
                .err()
                .unwrap_or_else(|| manifest_error(&location, "it is too large with its values"))
        }
    }
}

/// The documents of a YAML stream, each with the line, from 1, where its content starts.
fn documents(text: &str) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    let (mut start, mut first, mut at) = (0, 1, 0);
    for (index, line) in text.split_inclusive('\n').enumerate() {
        let bare = line.trim_end();
        if bare == "---" || bare == "..." || bare.starts_with("--- ") {
            found.push((first, &text[start..at]));
            let is_inline = bare.starts_with("--- ");
            (start, first) = if is_inline {
                (at + 4, index + 1)
            } else {
                (at + line.len(), index + 2)
            };
        }
        at += line.len();
    }
    found.push((first, &text[start..]));
    let has_content = |document: &str| {
        document
            .lines()
            .map(str::trim)
            .any(|line| !line.is_empty() && !line.starts_with(['#', '%']))
    };
    found.retain(|(_, document)| has_content(document));
    found.iter_mut().for_each(skip_blank_lines);
    found
}

/// Skips leading blank lines and comments.
fn skip_blank_lines(document: &mut (usize, &str)) {
    while let Some((line, rest)) = document.1.split_once('\n') {
        let line = line.trim();
        if !line.is_empty() && !line.starts_with('#') {
            break;
        }
        *document = (document.0 + 1, rest);
    }
}

fn collect(mut object: Value, location: &str, items: &mut Vec<Item>) -> Result<(), PortError> {
    if object.is_null() {
        return Ok(());
    }
    let text = |pointer: &str| {
        object
            .pointer(pointer)
            .and_then(Value::as_str)
            .filter(|text| !text.is_empty())
            .map(str::to_owned)
    };
    if !object.is_object() {
        return Err(manifest_error(
            location,
            "it is a scalar or a list, not an object",
        ));
    }
    let api_version = text("/apiVersion")
        .ok_or_else(|| manifest_error(location, "an object without `apiVersion`"))?;
    let kind = text("/kind").ok_or_else(|| manifest_error(location, "an object without `kind`"))?;
    if kind == "List" && api_version == "v1" {
        let inner = object
            .get("items")
            .and_then(Value::as_array)
            .cloned()
            .unwrap_or_default();
        return inner
            .into_iter()
            .try_for_each(|object| collect(object, location, items));
    }
    if is_review(&api_version, &kind) {
        return Ok(());
    }
    let Some(name) = text("/metadata/name") else {
        let hint = if object.pointer("/metadata/generateName").is_some() {
            "; `generateName` cannot be applied twice"
        } else {
            ""
        };
        return Err(manifest_error(
            location,
            format!("a {kind} without `metadata.name`{hint}"),
        ));
    };
    let namespace = text("/metadata/namespace");
    file_modes::read_octal(&mut object);
    items.push(Item {
        api_version,
        kind,
        name,
        namespace,
        location: location.to_owned(),
        object,
    });
    Ok(())
}

/// Whether it asks the API server a question, such as a `SubjectAccessReview`: no object comes of it, so none is created.
fn is_review(api_version: &str, kind: &str) -> bool {
    let group = api_version.split_once('/').map(|(group, _)| group);
    let asks = ["authentication.k8s.io", "authorization.k8s.io"].map(Some);
    kind.ends_with("Review") && asks.contains(&group)
}

fn scalar_error(location: &str, name: &str, given: &str) -> PortError {
    let text = format!(
        "variable `{name}` is {given}, but a placeholder requires a string, number or boolean"
    );
    PortError::new(&VALUE, format!("fill `{location}`"), text)
        .on(format!("additionalParams.{name}"))
        .hint("quote the placeholder (`\"$name\"`) to insert JSON text; otherwise use one variable per part")
}

fn value_error(unfit: &InvalidValue) -> PortError {
    PortError::new(&VALUE, "use the request", unfit.to_string())
        .on(format!("additionalParams.{}", unfit.name))
}

fn manifest_error(location: &str, reason: impl Into<String>) -> PortError {
    PortError::new(
        &MANIFEST,
        format!("use `{location}` of the package"),
        reason,
    )
    .on(location)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn items(text: &str) -> Result<Vec<Item>, String> {
        let mut items = Vec::new();
        let marked = Marked::new(text, |_| false);
        let values = Variables::new();
        for (line, document) in documents(marked.text()) {
            let object = template::parse(document, &marked, &values, &mut BytesLeft::new(1 << 20))
                .map_err(|unfilled| match unfilled {
                    TemplateError::Yaml(inner, reason) => format!("{}: {reason}", line + inner),
                    other => format!("{other:?}"),
                })?;
            collect(object, &format!("f:{line}"), &mut items).map_err(|error| error.to_string())?;
        }
        Ok(items)
    }

    #[test]
    fn documents_keep_their_lines() {
        let text = "# head\n---\n\n# first\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n---\n# nothing\n--- {apiVersion: v1, kind: Secret, metadata: {name: b, namespace: c}}\n...\n";
        let places: Vec<(String, String)> = items(text)
            .unwrap()
            .into_iter()
            .map(|item| (item.name, item.location))
            .collect();
        assert_eq!(
            places,
            [
                ("a".to_owned(), "f:5".to_owned()),
                ("b".to_owned(), "f:10".to_owned())
            ]
        );
    }

    #[test]
    fn reviews_are_left_out_as_the_api_server_keeps_no_object_of_them() {
        let text = "apiVersion: authorization.k8s.io/v1\nkind: SelfSubjectRulesReview\nspec: {namespace: a}\n---\n\
                    apiVersion: authentication.k8s.io/v1\nkind: TokenReview\nmetadata: {name: t}\n---\n\
                    apiVersion: example.org/v1\nkind: CodeReview\nmetadata: {name: c}\n";
        let kinds: Vec<String> = items(text)
            .unwrap()
            .into_iter()
            .map(|one| one.kind)
            .collect();
        assert_eq!(kinds, ["CodeReview"]);
    }

    #[test]
    fn a_block_scalar_may_contain_dashes() {
        let text =
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata:\n  x: |\n    ---\n    y\n";
        assert_eq!(items(text).unwrap()[0].object["data"]["x"], "---\ny\n");
    }

    #[test]
    fn lists_are_expanded_and_merge_keys_applied() {
        let text = "apiVersion: v1\nkind: List\nitems:\n- apiVersion: v1\n  kind: ConfigMap\n  metadata: {name: a}\n  base: &b {x: 1}\n  data: {<<: *b, y: 2}\n";
        let found = items(text).unwrap();
        assert_eq!(
            (found.len(), &found[0].object["data"]["x"]),
            (1, &Value::from(1))
        );
    }

    #[test]
    fn an_invalid_document_is_refused_with_its_line() {
        for (text, expected) in [
            (
                "- a\n",
                "cannot use `f:1` of the package: it is a scalar or a list, not an object",
            ),
            (
                "\nkind: A\n",
                "cannot use `f:2` of the package: an object without `apiVersion`",
            ),
            (
                "apiVersion: v1\n",
                "cannot use `f:1` of the package: an object without `kind`",
            ),
            (
                "apiVersion: v1\nkind: Pod\n",
                "cannot use `f:1` of the package: a Pod without `metadata.name`",
            ),
            (
                "apiVersion: v1\nkind: Pod\nmetadata: {generateName: a-}\n",
                "cannot use `f:1` of the package: a Pod without `metadata.name`; `generateName` cannot be applied twice",
            ),
        ] {
            assert_eq!(items(text).unwrap_err(), expected);
        }
        let broken = items("# a\n---\nb: 1\nc: d: 2\n").unwrap_err();
        assert!(broken.starts_with("4: "), "{broken}");
    }

    #[test]
    fn a_namespace_is_an_rfc_1123_label() {
        for (name, fits) in [
            ("a", true),
            ("vnf-1", true),
            ("", false),
            ("A", false),
            ("-a", false),
            ("a-", false),
            ("a.b", false),
        ] {
            assert_eq!(is_label(name), fits, "{name}");
        }
        assert!(is_label(&"a".repeat(63)) && !is_label(&"a".repeat(64)));
    }
}
