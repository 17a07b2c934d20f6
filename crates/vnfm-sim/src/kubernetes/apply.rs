//! Server-side apply: field ownership, merging, conflicts.
//!
//! A field is a path; an item of a list that has keys (containers by name, ports by number and
//! protocol …) is addressed by them, as in `k:{"name":"web"}`. A list without keys is a single field.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

use crate::time::now;

/// A field's path from the root: `f:spec`, `f:containers`, `k:{"name":"web"}` …
pub(crate) type Path = Vec<String>;

/// The fields of one manager.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct ManagedFields {
    applied: bool,
    fields: BTreeSet<Path>,
    time: String,
}

/// The field owners of an object, by manager.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Owners(BTreeMap<(String, bool), ManagedFields>);

/// A field that another manager owns with another value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Conflict {
    pub(crate) manager: String,
    pub(crate) field: String,
}

impl Owners {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The entries of `metadata.managedFields`, one per manager.
    pub(crate) fn managed_fields(&self, api_version: &str) -> Value {
        let show = |((manager, _), share): (&(String, bool), &ManagedFields)| {
            let operation = if share.applied { "Apply" } else { "Update" };
            json!({ "manager": manager, "operation": operation, "apiVersion": api_version, "time": share.time,
                "fieldsType": "FieldsV1", "fieldsV1": tree(&share.fields) })
        };
        self.0.iter().map(show).collect()
    }

    /// After a write other than apply: the manager now owns the fields that it changed.
    pub(crate) fn after_write(mut self, manager: &str, before: &Value, after: &Value) -> Self {
        let (old, new) = (fields(before), fields(after));
        let changed: BTreeSet<Path> = new
            .iter()
            .filter(|(path, value)| old.get(*path) != Some(value))
            .map(|(path, _)| path.clone())
            .collect();
        for share in self.0.values_mut() {
            share
                .fields
                .retain(|path| new.contains_key(path) && !changed.contains(path));
        }
        if !changed.is_empty() && !manager.is_empty() {
            let share = self.0.entry((manager.to_owned(), false)).or_default();
            share.fields.extend(changed);
            share.time = now();
        }
        self.0.retain(|_, share| !share.fields.is_empty());
        self
    }

    /// Merges an applied configuration into the live object; conflicts if it changes fields of other managers.
    pub(crate) fn apply(
        mut self,
        manager: &str,
        live: &Value,
        applied: &Value,
        force: bool,
    ) -> Result<(Value, Self), Vec<Conflict>> {
        let (wanted, present) = (fields(applied), fields(live));
        let me = (manager.to_owned(), true);
        let mut conflicts = Vec::new();
        for (path, value) in &wanted {
            if present.get(path).is_none_or(|now| now == value) {
                continue;
            }
            let others = self
                .0
                .iter_mut()
                .filter(|(who, share)| **who != me && share.fields.contains(path));
            for ((other, _), share) in others {
                if force {
                    share.fields.remove(path);
                } else {
                    conflicts.push(Conflict {
                        manager: other.clone(),
                        field: dotted(path),
                    });
                }
            }
        }
        if !conflicts.is_empty() {
            return Err(conflicts);
        }
        let mut merged = live.clone();
        merge(&mut merged, applied, "", false);
        let before = self.0.remove(&me).unwrap_or_default().fields;
        let dropped = before.into_iter().filter(|path| !wanted.contains_key(path));
        let others: BTreeSet<&Path> = self.0.values().flat_map(|share| &share.fields).collect();
        let dropped: Vec<Path> = dropped.filter(|path| !others.contains(path)).collect();
        for path in dropped {
            remove_field(&mut merged, &path);
        }
        self.0.insert(
            me,
            ManagedFields {
                applied: true,
                fields: wanted.into_keys().collect(),
                time: now(),
            },
        );
        self.0.retain(|_, share| !share.fields.is_empty());
        Ok((merged, self))
    }
}

/// Merges one value into another: maps by name, lists with keys by key; replaces everything else.
/// With `null_deletes` a null deletes the member, as in a merge patch.
pub(crate) fn merge(live: &mut Value, change: &Value, field: &str, null_deletes: bool) {
    match (live, change) {
        (Value::Object(live), Value::Object(change)) => {
            for (name, value) in change {
                if value.is_null() && null_deletes {
                    live.remove(name);
                } else {
                    merge(
                        live.entry(name.clone()).or_insert(Value::Null),
                        value,
                        name,
                        null_deletes,
                    );
                }
            }
        }
        (Value::Array(live), Value::Array(change))
            if change.iter().all(|item| key(field, item).is_some()) =>
        {
            for item in change {
                match live
                    .iter_mut()
                    .find(|old| key(field, old) == key(field, item))
                {
                    Some(old) => merge(old, item, "", null_deletes),
                    None => live.push(item.clone()),
                }
            }
        }
        (live, change) => *live = change.clone(),
    }
}

/// Applies a merge patch (RFC 7386).
pub(crate) fn merge_patch(live: &mut Value, change: &Value) {
    let Value::Object(change) = change else {
        *live = change.clone();
        return;
    };
    if !live.is_object() {
        *live = json!({});
    }
    for (name, value) in change {
        match live.as_object_mut() {
            Some(live) if value.is_null() => _ = live.remove(name),
            Some(live) => merge_patch(live.entry(name.clone()).or_insert(Value::Null), value),
            None => {}
        }
    }
}

/// The key of a list item, if the list has keys.
fn key(field: &str, item: &Value) -> Option<String> {
    let item = item.as_object()?;
    let names: &[&str] = match field {
        "containers"
        | "initContainers"
        | "ephemeralContainers"
        | "volumes"
        | "env"
        | "imagePullSecrets" => &["name"],
        "volumeMounts" => &["mountPath"],
        "volumeDevices" => &["devicePath"],
        "ports" if item.contains_key("containerPort") => &["containerPort", "protocol"],
        "ports" if item.contains_key("port") => &["port", "protocol"],
        "ownerReferences" => &["uid"],
        "conditions" => &["type"],
        "hostAliases" => &["ip"],
        _ => return None,
    };
    let mut keys = Map::new();
    for name in names {
        let value = item
            .get(*name)
            .cloned()
            .or_else(|| (*name == "protocol").then(|| json!("TCP")))?;
        keys.insert((*name).to_owned(), value);
    }
    Some(format!("k:{}", Value::Object(keys)))
}

/// All fields that can be owned, with their values.
fn fields(object: &Value) -> BTreeMap<Path, Value> {
    let mut all = BTreeMap::new();
    for (name, value) in object.as_object().into_iter().flatten() {
        match name.as_str() {
            "apiVersion" | "kind" | "status" => {}
            "metadata" => {
                let owned = ["labels", "annotations", "finalizers", "ownerReferences"];
                for (name, value) in value
                    .as_object()
                    .into_iter()
                    .flatten()
                    .filter(|(name, _)| owned.contains(&name.as_str()))
                {
                    walk(
                        &mut all,
                        vec!["f:metadata".into(), format!("f:{name}")],
                        name,
                        value,
                    );
                }
            }
            _ => walk(&mut all, vec![format!("f:{name}")], name, value),
        }
    }
    all
}

fn walk(all: &mut BTreeMap<Path, Value>, path: Path, field: &str, value: &Value) {
    let below = |part: String| {
        let mut path = path.clone();
        path.push(part);
        path
    };
    match value {
        Value::Object(map) if !map.is_empty() => {
            for (name, value) in map {
                walk(all, below(format!("f:{name}")), name, value);
            }
        }
        Value::Array(list)
            if !list.is_empty() && list.iter().all(|item| key(field, item).is_some()) =>
        {
            for item in list {
                if let Some(key) = key(field, item) {
                    walk(all, below(key), "", item);
                }
            }
        }
        leaf => _ = all.insert(path, leaf.clone()),
    }
}

/// Removes a field and the parents that become empty.
fn remove_field(value: &mut Value, path: &[String]) {
    let Some((first, rest)) = path.split_first() else {
        return;
    };
    if let (Some(name), Some(map)) = (first.strip_prefix("f:"), value.as_object_mut()) {
        let Some(inner) = map.get_mut(name) else {
            return;
        };
        if let Some(item) = rest.first().filter(|part| part.starts_with("k:")) {
            remove_item(inner, name, item, &rest[1..]);
        } else {
            remove_field(inner, rest);
        }
        let empty = inner.as_object().is_some_and(Map::is_empty)
            || inner.as_array().is_some_and(Vec::is_empty);
        if rest.is_empty() || empty {
            map.remove(name);
        }
    }
}

fn remove_item(list: &mut Value, field: &str, item: &str, rest: &[String]) {
    let Some(list) = list.as_array_mut() else {
        return;
    };
    let Some(at) = list
        .iter()
        .position(|i| key(field, i).as_deref() == Some(item))
    else {
        return;
    };
    remove_field(&mut list[at], rest);
    if key(field, &list[at]).as_deref() != Some(item) {
        list.remove(at);
    }
}

/// A path in the form `.spec.template.spec.containers[name="web"].image`.
fn dotted(path: &[String]) -> String {
    let part = |part: &String| {
        if let Some(name) = part.strip_prefix("f:") {
            return format!(".{name}");
        }
        let Ok(keys) = serde_json::from_str::<Map<String, Value>>(part.trim_start_matches("k:"))
        else {
            return format!("[{part}]");
        };
        let keys: Vec<String> = keys
            .iter()
            .map(|(name, value)| format!("{name}={value}"))
            .collect();
        format!("[{}]", keys.join(","))
    };
    path.iter().map(part).collect()
}

fn tree(fields: &BTreeSet<Path>) -> Value {
    let mut top = Map::new();
    for path in fields {
        let mut at = &mut top;
        for part in path {
            let next = at.entry(part.clone()).or_insert_with(|| json!({}));
            let Some(map) = next.as_object_mut() else {
                break;
            };
            at = map;
        }
    }
    Value::Object(top)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn deployment(image: &str, replicas: u32) -> Value {
        json!({ "apiVersion": "apps/v1", "kind": "Deployment", "metadata": { "name": "web", "labels": { "a": "b" } },
            "spec": { "replicas": replicas, "template": { "spec": { "containers": [{ "name": "web", "image": image }] } } } })
    }

    #[test]
    fn a_field_changed_by_another_manager_conflicts_unless_forced() {
        let (live, owners) = Owners::default()
            .apply("vnfm", &json!({}), &deployment("a:1", 2), false)
            .unwrap();
        let mut scaled = live.clone();
        scaled["spec"]["replicas"] = json!(5);
        let owners = owners.after_write("kubectl", &live, &scaled);
        let conflicts = owners
            .clone()
            .apply("vnfm", &scaled, &deployment("a:1", 2), false)
            .unwrap_err();
        assert_eq!(
            conflicts,
            [Conflict {
                manager: "kubectl".into(),
                field: ".spec.replicas".into()
            }]
        );
        let (forced, owners) = owners
            .apply("vnfm", &scaled, &deployment("a:2", 2), true)
            .unwrap();
        assert_eq!(forced["spec"]["replicas"], 2);
        assert_eq!(
            forced["spec"]["template"]["spec"]["containers"][0]["image"],
            "a:2"
        );
        assert_eq!(
            owners.managed_fields("apps/v1").as_array().unwrap().len(),
            1
        );
    }

    #[test]
    fn fields_no_longer_applied_are_removed_and_those_of_other_managers_stay() {
        let (mut live, owners) = Owners::default()
            .apply("vnfm", &json!({}), &deployment("a:1", 2), false)
            .unwrap();
        live["spec"]["template"]["spec"]["containers"]
            .as_array_mut()
            .unwrap()
            .push(json!({ "name": "sidecar", "image": "s" }));
        let owners = owners.after_write("mesh", &deployment("a:1", 2), &live);
        let mut less = deployment("a:1", 2);
        less["metadata"].as_object_mut().unwrap().remove("labels");
        less["spec"].as_object_mut().unwrap().remove("replicas");
        let (merged, _) = owners.apply("vnfm", &live, &less, false).unwrap();
        assert!(
            merged["spec"].get("replicas").is_none() && merged["metadata"].get("labels").is_none()
        );
        assert_eq!(
            merged["spec"]["template"]["spec"]["containers"]
                .as_array()
                .unwrap()
                .len(),
            2
        );
    }

    #[test]
    fn a_merge_patch_deletes_nulls_and_replaces_lists() {
        let mut live = json!({ "a": { "b": 1, "c": 2 }, "l": [1, 2] });
        merge_patch(&mut live, &json!({ "a": { "b": null }, "l": [3] }));
        assert_eq!(live, json!({ "a": { "c": 2 }, "l": [3] }));
    }
}
