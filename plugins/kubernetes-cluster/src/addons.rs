//! Add-ons of a cluster: manifests of the catalogue and of the package, applied one after the other once the nodes are Ready,
//! and the network plugin and `CoreDNS` are healthy.
//!
//! ```text
//! login to the cloud, if it uses it ─ read ─ fill in values ─ namespaces, definitions ─ Established ─ all other objects ─ until they are healthy ─► next add-on
//! ```
//!
//! Values are put into the parsed manifest, each as one scalar: no value becomes structure. Data of a ConfigMap that are not
//! texts are written as JSON. What healthy means, [`problem`] says. Applying is idempotent, so that the attempt after a crash, an
//! upgrade, a new package and the action `apply_addons` repeat all of it. Objects that a new manifest no longer has stay.

use crate::built_in;
use crate::catalogue;
use crate::cloud_config;
use crate::installer::Installer;
use crate::kubectl::KUBECTL;
use crate::machine::{FOLDER, Machine, quote};
use crate::params::AddOn;
use serde::Deserialize as _;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};
use vnfm_plugin_sdk::prelude::*;

const PHASE: &str = "addons";
/// The label of the objects of an add-on, with its name.
const LABEL: &str = "vnfm.dev/addon";
/// The instance's metadata: versions by name; what is wrong by name.
const SHOWN: &str = "addons";
const SHOWN_NOT_HEALTHY: &str = "addonsNotHealthy";
/// Objects that others need, applied before them.
const FIRST: &[&str] = &["Namespace", "CustomResourceDefinition"];
/// The largest manifest, in bytes.
const MAX_MANIFEST: usize = 4 << 20;
/// Arguments of kubectl that apply what the file named next has.
const APPLY: &str = "apply --server-side --force-conflicts -f";
/// How long the objects of one add-on may take to be healthy, and the interval between two looks.
pub(crate) const HEALTH_TIMEOUT: Duration = Duration::from_mins(5);
const HEALTH_INTERVAL: Duration = Duration::from_millis(500);

/// What is wrong with add-ons, by name.
pub(crate) type Problems = BTreeMap<String, String>;

/// Applies the network plugin of the package and the add-ons of the plan to a cluster that has others already.
///
/// # Errors
///
/// `cni-failed`, and those of [`install`].
pub(crate) async fn update(
    installer: &Installer<'_>,
    master: &Machine<'_>,
) -> Result<(), DriverError> {
    let text = "applying the network plugin of the package";
    installer.report(90, text).await;
    built_in::apply_network(master).await?;
    install(installer, master).await
}

/// Applies the add-ons of the plan in order, each once the one before is healthy, and the first once the network plugin and
/// `CoreDNS` are.
///
/// # Errors
///
/// `addon-invalid` for a manifest that cannot be read or a value that nothing uses; `addons-failed` if the API server refuses an
/// object; `addon-not-healthy`, naming the object and what is wrong with it.
pub(crate) async fn install(
    installer: &Installer<'_>,
    master: &Machine<'_>,
) -> Result<(), DriverError> {
    built_in::wait_until_healthy(master).await?;
    for addon in &installer.plan.addons {
        let text = format!("installing add-on {}", title(addon));
        installer.report(92, &text).await;
        let mut addon = addon.clone();
        addon
            .values
            .extend(cloud_config::values(installer.cx, &addon).await?);
        let addon = &addon;
        let objects = read(installer.cx, addon).await?;
        let (first, others): (Vec<_>, Vec<_>) = objects
            .into_iter()
            .partition(|object| FIRST.iter().any(|kind| object["kind"] == *kind));
        for batch in [first, others] {
            if addon.cloud.is_some() {
                apply_hidden(master, &batch).await?;
            } else {
                apply(master, &addon.name, &batch).await?;
            }
            wait_until_healthy(master, &title(addon), &batch).await?;
        }
    }
    Ok(())
}

/// Adds names and versions of the add-ons, of the network plugin and of `CoreDNS` to what the instance shows.
///
/// # Errors
///
/// Those of [`built_in::versions`].
pub(crate) async fn shown(effects: Effects, master: &Machine<'_>) -> Result<Effects, DriverError> {
    let mut versions = built_in::versions(master).await?;
    for addon in &master.plan.addons {
        let known = versions.entry(addon.name.clone()).or_default();
        if let Some(version) = &addon.version {
            known.clone_from(version);
        }
    }
    Ok(effects.metadata(SHOWN, json!(versions)))
}

/// Adds versions, and what is wrong with add-ons, to what the instance shows.
///
/// # Errors
///
/// `addon-invalid` for a manifest that cannot be read; if the host cannot be reached.
pub(crate) async fn check(
    effects: Effects,
    master: &Machine<'_>,
) -> Result<(Effects, Problems), DriverError> {
    let mut problems = built_in::problems(master).await?;
    for addon in &master.plan.addons {
        let text = manifest(master.cx, addon).await?;
        let objects = objects(&text).map_err(|reason| invalid(addon, &reason))?;
        let problem = first_problem(master, &objects).await?;
        problems.extend(problem.map(|problem| (addon.name.clone(), problem)));
    }
    let not_healthy = if problems.is_empty() {
        Value::Null
    } else {
        json!(problems)
    };
    let effects = shown(effects, master).await?;
    Ok((effects.metadata(SHOWN_NOT_HEALTHY, not_healthy), problems))
}

/// The objects of add-ons of the catalogue, as a cluster gets them; `addons` is the member of the parameters.
///
/// # Errors
///
/// What is wrong with an add-on.
pub fn catalogue_objects(addons: Value) -> Result<Vec<(String, Vec<Value>)>, String> {
    let addons: Vec<AddOn> = serde_json::from_value(addons).map_err(|error| error.to_string())?;
    let addons = catalogue::planned(&addons)?.into_iter();
    let objects = addons.map(|addon| {
        let text = catalogue::manifest(&addon.name)?;
        Ok((addon.name.clone(), complete_objects(&addon, text)?))
    });
    objects.collect()
}

fn title(addon: &AddOn) -> String {
    match &addon.version {
        Some(version) => format!("`{}` {version}", addon.name),
        None => format!("`{}`", addon.name),
    }
}

/// The objects of an add-on, with its values and our label.
async fn read(cx: &HookContext, addon: &AddOn) -> Result<Vec<Value>, DriverError> {
    let text = manifest(cx, addon).await?;
    complete_objects(addon, &text).map_err(|reason| invalid(addon, &reason))
}

/// The manifest of an add-on: the package's, or the catalogue's.
async fn manifest(cx: &HookContext, addon: &AddOn) -> Result<String, DriverError> {
    let Some(path) = &addon.manifest else {
        let text = catalogue::manifest(&addon.name);
        return text
            .map(str::to_owned)
            .map_err(|reason| invalid(addon, &reason));
    };
    let bytes = cx.artifact(path).await?;
    if bytes.len() > MAX_MANIFEST {
        let (size, most) = (bytes.len(), MAX_MANIFEST);
        let reason = format!("it has {size} bytes; {most} are allowed");
        return Err(invalid(addon, &reason));
    }
    String::from_utf8(bytes).map_err(|_| invalid(addon, "it is not UTF-8"))
}

fn invalid(addon: &AddOn, reason: &str) -> DriverError {
    let manifest = match &addon.manifest {
        Some(path) => format!("`{path}`"),
        None => "the catalogue's manifest".to_owned(),
    };
    let detail = format!("{manifest} of add-on `{}`: {reason}", addon.name);
    DriverError::new("addon-invalid", detail).phase(PHASE)
}

/// The objects of a manifest with the add-on's values and our label.
fn complete_objects(addon: &AddOn, text: &str) -> Result<Vec<Value>, String> {
    let mut objects = objects(text)?;
    fill_in(&mut objects, addon)?;
    for object in &mut objects {
        if !object["metadata"]["name"].is_string() || !object["kind"].is_string() {
            return Err("an object has no `kind` or no `metadata.name`".to_owned());
        }
        write_data(object);
        if !object["metadata"]["labels"].is_object() {
            object["metadata"]["labels"] = json!({});
        }
        object["metadata"]["labels"][LABEL] = addon.name.as_str().into();
    }
    Ok(objects)
}

/// Writes data of a ConfigMap as JSON that are not texts, which the API server would refuse.
fn write_data(object: &mut Value) {
    if object["kind"] != "ConfigMap" {
        return;
    }
    let data = object["data"].as_object_mut().into_iter().flatten();
    for (_, value) in data.filter(|(_, value)| !value.is_string()) {
        *value = value.to_string().into();
    }
}

/// The objects of a manifest, those of its lists one by one.
pub(crate) fn objects(text: &str) -> Result<Vec<Value>, String> {
    let mut found = Vec::new();
    for document in serde_yaml::Deserializer::from_str(text) {
        let mut object = Value::deserialize(document).map_err(|error| error.to_string())?;
        let is_list = object["kind"] == "List";
        match object.get_mut("items").map(Value::take) {
            Some(Value::Array(items)) if is_list => found.extend(items),
            Some(items) => {
                object["items"] = items;
                found.push(object);
            }
            None if object.is_null() => {}
            None => found.push(object),
        }
    }
    if found.iter().all(Value::is_object) {
        Ok(found)
    } else {
        Err("a document is not an object".to_owned())
    }
}

/// Replaces each scalar `${NAME}` for which the add-on has a value.
fn fill_in(objects: &mut [Value], addon: &AddOn) -> Result<(), String> {
    let mut used = BTreeSet::new();
    for object in objects {
        fill_in_one(object, addon, &mut used);
    }
    let is_optional = |name: &String| addon.cloud.is_some() && cloud_config::is_optional(name);
    let given = addon.values.keys();
    let mut unused = given.filter(|name| !used.contains(*name) && !is_optional(name));
    match unused.next() {
        Some(name) => Err(format!(
            "no scalar is `${{{name}}}`, for which there is a value"
        )),
        None => Ok(()),
    }
}

fn fill_in_one(value: &mut Value, addon: &AddOn, used: &mut BTreeSet<String>) {
    match value {
        Value::String(text) => {
            let name = text
                .strip_prefix("${")
                .and_then(|rest| rest.strip_suffix('}'));
            let given = name.and_then(|name| addon.values.get_key_value(name));
            if let Some((name, given)) = given {
                used.insert(name.clone());
                *value = json!(given);
            }
        }
        Value::Array(all) => all.iter_mut().for_each(|one| fill_in_one(one, addon, used)),
        Value::Object(all) => {
            for one in all.values_mut() {
                fill_in_one(one, addon, used);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Applies objects that hold a login: no file of the host gets them.
async fn apply_hidden(master: &Machine<'_>, objects: &[Value]) -> Result<(), DriverError> {
    if objects.is_empty() {
        return Ok(());
    }
    let (arguments, input) = (format!("{APPLY} -"), Secret::new(written(objects)));
    master.kubectl(PHASE, (&arguments, input)).await.map(drop)
}

/// Objects as a YAML stream.
fn written(objects: &[Value]) -> String {
    let documents: Vec<String> = objects.iter().map(Value::to_string).collect();
    format!("---\n{}\n", documents.join("\n---\n"))
}

/// Applies objects, as the file `name` of our folder on the host.
pub(crate) async fn apply(
    master: &Machine<'_>,
    name: &str,
    objects: &[Value],
) -> Result<(), DriverError> {
    if objects.is_empty() {
        return Ok(());
    }
    let path = format!("{FOLDER}/addon-{name}.yaml");
    let text = Upload::new(&path, written(objects));
    master.put(text, PHASE).await?;
    let arguments = format!("{APPLY} {path}");
    let applied = master.kubectl(PHASE, (&arguments, Secret::default()));
    applied.await.map(drop)
}

/// Waits until these objects are healthy.
///
/// # Errors
///
/// `addon-not-healthy` after [`HEALTH_TIMEOUT`].
pub(crate) async fn wait_until_healthy(
    master: &Machine<'_>,
    title: &str,
    objects: &[Value],
) -> Result<(), DriverError> {
    let began = Instant::now();
    loop {
        let Some(problem) = first_problem(master, objects).await? else {
            return Ok(());
        };
        if began.elapsed() >= HEALTH_TIMEOUT {
            let detail = format!("{title} is not healthy: {problem}");
            let error = DriverError::new("addon-not-healthy", detail).retryable();
            return Err(error.phase(PHASE));
        }
        let reason = format!("{title}: {problem}");
        master.cx.pause(&reason, HEALTH_INTERVAL).await?;
    }
}

/// What is wrong with the first of these objects that is not healthy.
///
/// # Errors
///
/// If the host cannot be reached.
pub(crate) async fn first_problem(
    master: &Machine<'_>,
    objects: &[Value],
) -> Result<Option<String>, DriverError> {
    for object in objects.iter().filter(|object| has_health(object)) {
        let text = |member: &Value| member.as_str().unwrap_or_default().to_owned();
        let (kind, metadata) = (text(&object["kind"]), &object["metadata"]);
        let (name, namespace) = (text(&metadata["name"]), text(&metadata["namespace"]));
        let scope = match namespace.as_str() {
            "" => String::new(),
            namespace => format!(" -n {}", quote(namespace)),
        };
        let line = format!(
            "{KUBECTL} get {}/{}{scope} -o json",
            kind.to_lowercase(),
            quote(&name)
        );
        let output = master.try_run(PHASE, &line, Secret::default()).await?;
        let found = serde_json::from_str::<Value>(&output.stdout);
        let problem = match found {
            Ok(found) if output.ok() => problem(&found),
            _ => Some(output.stderr.trim().to_owned()),
        };
        if let Some(problem) = problem {
            return Ok(Some(format!("{kind} `{name}`: {problem}")));
        }
    }
    Ok(None)
}

/// Whether the status of an object tells its health.
fn has_health(object: &Value) -> bool {
    let kind = object["kind"].as_str().unwrap_or_default();
    COUNTS.iter().any(|(known, ..)| *known == kind)
        || CONDITIONS.iter().any(|(known, _)| *known == kind)
}

/// Kinds of workloads: the number of pods that they want, 1 if absent, and the number of those that they have.
const COUNTS: &[(&str, &str, &[&str])] = &[
    (
        "Deployment",
        "/spec/replicas",
        &["/status/updatedReplicas", "/status/availableReplicas"],
    ),
    (
        "StatefulSet",
        "/spec/replicas",
        &["/status/updatedReplicas", "/status/readyReplicas"],
    ),
    (
        "DaemonSet",
        "/status/desiredNumberScheduled",
        &["/status/updatedNumberScheduled", "/status/numberAvailable"],
    ),
];

/// Kinds with a condition that must be `True`.
const CONDITIONS: &[(&str, &str)] = &[
    ("CustomResourceDefinition", "Established"),
    ("APIService", "Available"),
    ("Job", "Complete"),
];

/// Why an object is not healthy.
fn problem(object: &Value) -> Option<String> {
    let kind = object["kind"].as_str().unwrap_or_default();
    let number = |path: &str| object.pointer(path).and_then(Value::as_i64);
    if let Some((_, condition)) = CONDITIONS.iter().find(|(known, _)| *known == kind) {
        let conditions = object["status"]["conditions"].as_array();
        let mut conditions = conditions.into_iter().flatten();
        let seen = conditions.find(|seen| seen["type"] == *condition);
        if seen.is_some_and(|seen| seen["status"] == "True") {
            return None;
        }
        let message = seen.and_then(|seen| seen["message"].as_str());
        let message = message.map_or(String::new(), |text| format!(": {text}"));
        return Some(format!("it is not {condition}{message}"));
    }
    let (_, wanted, counts) = COUNTS.iter().find(|(known, ..)| *known == kind)?;
    if number("/status/observedGeneration") < number("/metadata/generation") {
        return Some("its controller has not observed it yet".to_owned());
    }
    let wanted = number(wanted).unwrap_or(1);
    let counts = counts.iter().map(|path| number(path).unwrap_or(0));
    let ready = counts.min().unwrap_or(0);
    if ready < wanted {
        return Some(format!("{ready} of {wanted} pods are ready"));
    }
    // Until a new pod is available, a Deployment keeps an old one, which counts as available.
    let all = number("/status/replicas").unwrap_or(0);
    let old = all - number("/status/updatedReplicas").unwrap_or(all);
    (old > 0).then(|| format!("{old} pods are still those of before"))
}

#[cfg(test)]
mod tests {
    use super::{catalogue_objects, fill_in, objects, problem};
    use crate::catalogue::{CATALOGUE, Preset};
    use crate::params::AddOn;
    use serde_json::{Value, json};

    fn addon(values: &Value) -> AddOn {
        let addon = json!({ "name": "metrics", "manifest": "m.yaml", "values": values });
        serde_json::from_value(addon).unwrap()
    }

    #[test]
    fn a_value_is_always_one_scalar() {
        let text = "kind: ConfigMap\nmetadata: {name: a}\ndata: {line: '${TEXT}', other: 'x ${TEXT}', port: '${PORT}'}\n";
        let mut all = objects(text).unwrap();
        let evil = "a\nkind: ClusterRoleBinding\n---\n${PORT}";
        fill_in(&mut all, &addon(&json!({ "TEXT": evil, "PORT": 80 }))).unwrap();
        let expected = json!({ "line": evil, "other": "x ${TEXT}", "port": 80 });
        assert_eq!((all.len(), &all[0]["data"]), (1, &expected));
    }

    #[test]
    fn a_value_that_nothing_uses_is_refused() {
        let mut all = objects("kind: A\n").unwrap();
        let error = fill_in(&mut all, &addon(&json!({ "TYPO": "x" }))).unwrap_err();
        assert!(error.contains("`${TYPO}`"), "{error}");
    }

    #[test]
    fn documents_and_lists_are_read_and_others_are_refused() {
        let text = "kind: A\n---\n---\nkind: List\nitems: [{kind: B}, {kind: C}]\n";
        let kinds: Vec<_> = objects(text)
            .unwrap()
            .into_iter()
            .map(|one| one["kind"].clone())
            .collect();
        assert_eq!(kinds, ["A", "B", "C"]);
        assert!(objects("- a\n").is_err());
        assert!(objects("a: [\n").is_err());
    }

    #[test]
    fn health_is_read_from_status() {
        let deployment = |status: Value| json!({ "kind": "Deployment", "metadata": { "generation": 2 }, "spec": { "replicas": 2 }, "status": status });
        let table = [
            (
                deployment(json!({ "observedGeneration": 1 })),
                Some("not observed"),
            ),
            (
                deployment(
                    json!({ "observedGeneration": 2, "updatedReplicas": 2, "availableReplicas": 1 }),
                ),
                Some("1 of 2"),
            ),
            (
                deployment(
                    json!({ "observedGeneration": 2, "updatedReplicas": 2, "availableReplicas": 2 }),
                ),
                None,
            ),
            (
                deployment(
                    json!({ "observedGeneration": 2, "replicas": 3, "updatedReplicas": 2, "availableReplicas": 2 }),
                ),
                Some("1 pods are still those of before"),
            ),
            (
                json!({ "kind": "DaemonSet", "status": { "desiredNumberScheduled": 3 } }),
                Some("0 of 3"),
            ),
            (
                json!({ "kind": "CustomResourceDefinition", "status": {} }),
                Some("not Established"),
            ),
            (
                json!({ "kind": "APIService", "status": { "conditions": [{ "type": "Available", "status": "False", "message": "no endpoints" }] } }),
                Some("no endpoints"),
            ),
            (json!({ "kind": "ConfigMap" }), None),
        ];
        for (object, expected) in table {
            let found = problem(&object);
            match expected {
                Some(text) => assert!(
                    found.as_deref().is_some_and(|found| found.contains(text)),
                    "{object}: {found:?}"
                ),
                None => assert_eq!(found, None, "{object}"),
            }
        }
    }

    /// Each value of an entry is used by its manifest, which uses no other.
    #[test]
    fn manifests_take_exactly_the_values_of_their_entries() {
        let addons = CATALOGUE.iter().map(|entry| {
            let required = entry
                .values
                .iter()
                .filter(|(_, preset)| *preset == Preset::Required);
            let values: serde_json::Map<_, _> = required
                .map(|(key, _)| ((*key).to_owned(), json!("a:1")))
                .collect();
            json!({ "name": entry.name, "values": values })
        });
        for (name, objects) in catalogue_objects(addons.collect()).unwrap() {
            let text = json!(objects).to_string();
            assert!(!text.contains("\"${"), "{name}: {text}");
            assert!(
                text.contains(&format!("\"vnfm.dev/addon\":\"{name}\"")),
                "{text}"
            );
        }
    }

    #[test]
    fn data_that_are_not_texts_are_written_as_json() {
        let objects = catalogue_objects(
            json!([{"name": "local-path", "values": {"HELPER_IMAGE": "a\": b"}}]),
        );
        let (_, objects) = objects.unwrap().remove(0);
        let data = objects
            .iter()
            .find(|object| object["kind"] == "ConfigMap")
            .unwrap();
        let helper: Value =
            serde_json::from_str(data["data"]["helperPod.yaml"].as_str().unwrap()).unwrap();
        assert_eq!(helper["spec"]["containers"][0]["image"], "a\": b");
        assert!(
            data["data"]["setup"]
                .as_str()
                .unwrap()
                .starts_with("#!/bin/sh\n")
        );
    }
}
