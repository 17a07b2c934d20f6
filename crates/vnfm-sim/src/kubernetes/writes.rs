//! Writes to a cluster's objects, shared by the API and the simulated `kubectl`, and error responses.

use std::sync::{Arc, MutexGuard};

use serde_json::{Map, Value, json};

use super::admit;
use super::apply::{Conflict, Owners};
use super::objects::{Key, Kind, Store, has_finalizers};
use crate::http::{Reply, Request};

/// Creates an object after admission.
pub(crate) fn create(
    store: &mut MutexGuard<'_, Store>,
    kind: &Arc<Kind>,
    (namespace, manager): (&str, &str),
    mut body: Value,
) -> Result<Arc<Value>, Reply> {
    let name = match body["metadata"]["name"].as_str() {
        Some(name) => name.to_owned(),
        None => match body["metadata"]["generateName"].as_str() {
            Some(prefix) => format!(
                "{prefix}{}",
                &uuid::Uuid::new_v4().simple().to_string()[..5]
            ),
            None => {
                return Err(admit::invalid(
                    kind,
                    "",
                    "metadata.name",
                    "Required value: name or generateName is required",
                ));
            }
        },
    };
    let stated = body["metadata"]["namespace"]
        .as_str()
        .unwrap_or(namespace)
        .to_owned();
    if kind.namespaced && stated != namespace {
        let message = format!(
            "the namespace of the provided object does not match the namespace sent on the request: {stated} != {namespace}"
        );
        return Err(error(400, "BadRequest", &message));
    }
    let key = Key::new(
        &kind.qualified(),
        if kind.namespaced { namespace } else { "" },
        &name,
    );
    if store.get(&key).is_some() {
        let message = format!("{} \"{name}\" already exists", kind.qualified());
        return Err(Reply::json(
            409,
            &status(
                409,
                "AlreadyExists",
                &message,
                json!({ "name": name, "group": kind.group, "kind": kind.plural }),
            ),
        )
        .with_remark(message));
    }
    admit::admit(store, kind, &key, &mut body)?;
    let owners = Owners::default().after_write(manager, &Value::Null, &body);
    let stored = store.put(&key, body, owners);
    if kind.plural == "customresourcedefinitions" {
        store.register_kind(&stored);
    }
    Ok(stored)
}

/// Applies an object; returns whether it is new, and its new state.
pub(crate) fn apply(
    store: &mut MutexGuard<'_, Store>,
    kind: &Arc<Kind>,
    (namespace, name): (&str, &str),
    (manager, force, applied): (&str, bool, &Value),
) -> Result<(bool, Arc<Value>), Reply> {
    let key = Key::new(&kind.qualified(), namespace, name);
    let old = store.stored(&key).cloned();
    let mut start = json!({ "apiVersion": kind.api_version(), "kind": kind.kind, "metadata": { "name": name } });
    let (live, owners) = match &old {
        Some(old) => ((*old.body).clone(), old.owners.clone()),
        None => (std::mem::take(&mut start), Owners::default()),
    };
    let (mut body, owners) = owners
        .apply(manager, &live, applied, force)
        .map_err(|conflicts| apply_conflict(kind, &conflicts))?;
    if old.is_none() {
        admit::admit(store, kind, &key, &mut body)?;
    } else {
        admit::default(store, kind, &mut body);
        admit::check(kind, name, &body)?;
        if old
            .as_ref()
            .is_some_and(|old| *old.body == body && old.owners == owners)
        {
            return Ok((false, old.map(|old| old.body).unwrap_or_default()));
        }
    }
    let stored = write(store, &key, body, owners);
    if kind.plural == "customresourcedefinitions" {
        store.register_kind(&stored);
    }
    Ok((old.is_none(), stored))
}

/// The object as [`apply`] would leave it; nothing is written.
pub(crate) fn dry_apply(
    store: &mut Store,
    kind: &Arc<Kind>,
    (namespace, name): (&str, &str),
    (manager, force, applied): (&str, bool, &Value),
) -> Result<(bool, Value), Reply> {
    let key = Key::new(&kind.qualified(), namespace, name);
    let old = store.stored(&key).cloned();
    let new = json!({ "apiVersion": kind.api_version(), "kind": kind.kind, "metadata": { "name": name } });
    let (live, owners) = match &old {
        Some(old) => ((*old.body).clone(), old.owners.clone()),
        None => (new, Owners::default()),
    };
    let (mut body, _) = owners
        .apply(manager, &live, applied, force)
        .map_err(|conflicts| apply_conflict(kind, &conflicts))?;
    admit::default(store, kind, &mut body);
    admit::check(kind, name, &body)?;
    Ok((old.is_none(), body))
}

/// Writes an object; a deleted one is removed once its finalizers are.
pub(super) fn write(store: &mut Store, key: &Key, mut body: Value, owners: Owners) -> Arc<Value> {
    let old = store.get(key).cloned();
    let stamp = old
        .as_ref()
        .map(|old| old["metadata"]["deletionTimestamp"].clone())
        .unwrap_or_default();
    if !stamp.is_null() {
        body["metadata"]["deletionTimestamp"] = stamp.clone();
    }
    let spec_changed = old.as_ref().is_none_or(|old| old["spec"] != body["spec"]);
    let generation = old
        .as_ref()
        .and_then(|old| old["metadata"]["generation"].as_i64())
        .unwrap_or(0);
    if !body["spec"].is_null() {
        body["metadata"]["generation"] = json!(if spec_changed {
            generation + 1
        } else {
            generation
        });
    }
    if !stamp.is_null()
        && !has_finalizers(&body)
        && !matches!(key.kind.as_str(), "pods" | "namespaces")
    {
        store.put(key, body, owners);
        return store.remove(key).unwrap_or_default();
    }
    store.put(key, body, owners)
}

pub(super) fn remove(
    store: &mut Store,
    key: &Key,
    request: &Request,
    options: &Value,
) -> Option<Arc<Value>> {
    let text = |name: &str| {
        options[name]
            .as_str()
            .map(str::to_owned)
            .or_else(|| request.param(name).map(str::to_owned))
            .unwrap_or_default()
    };
    let policy = text("propagationPolicy");
    let grace = options["gracePeriodSeconds"].as_i64().or_else(|| {
        request
            .param("gracePeriodSeconds")
            .and_then(|g| g.parse().ok())
    });
    if policy == "Orphan" {
        let uid = store
            .get(key)
            .map(|body| body["metadata"]["uid"].clone())
            .unwrap_or_default();
        let children: Vec<Key> = (store.all())
            .filter(|(_, body)| {
                body["metadata"]["ownerReferences"]
                    .as_array()
                    .into_iter()
                    .flatten()
                    .any(|owner| owner["uid"] == uid)
            })
            .map(|(key, _)| key.clone())
            .collect();
        for child in children {
            store.update(&child, |body| {
                if let Some(owners) = body["metadata"]["ownerReferences"].as_array_mut() {
                    owners.retain(|owner| owner["uid"] != uid);
                }
            });
        }
    }
    store.delete(key, policy == "Foreground", grace == Some(0))
}

pub(super) fn parse(request: &Request) -> Result<Value, Reply> {
    let wrong = |why: String| {
        error(
            400,
            "BadRequest",
            &format!("the object provided is unrecognized (must be of type Object): {why}"),
        )
    };
    if request.header("content-type").contains("yaml") {
        return serde_yaml::from_slice(&request.body).map_err(|why| wrong(why.to_string()));
    }
    serde_json::from_slice(&request.body).map_err(|why| wrong(why.to_string()))
}

pub(super) fn manager(request: &Request) -> String {
    let agent = || {
        request
            .header("user-agent")
            .split('/')
            .next()
            .unwrap_or_default()
            .to_owned()
    };
    request
        .param("fieldManager")
        .map_or_else(agent, str::to_owned)
}

/// `add`, `replace`, `remove` and `test` of RFC 6902.
pub(super) fn json_patch(body: &mut Value, operations: &Value) -> Result<(), String> {
    for operation in operations.as_array().into_iter().flatten() {
        let path = operation["path"].as_str().unwrap_or_default();
        let (parent, last) = path
            .rsplit_once('/')
            .ok_or_else(|| format!("the path `{path}` is not a pointer"))?;
        let last = last.replace("~1", "/").replace("~0", "~");
        let missing = || format!("the path `{path}` leads nowhere");
        let value = operation["value"].clone();
        if operation["op"] == "test" {
            if body.pointer(path) != Some(&value) {
                return Err(format!("testing value {path} failed"));
            }
            continue;
        }
        let at = body.pointer_mut(parent).ok_or_else(missing)?;
        match (operation["op"].as_str(), at) {
            (Some("add" | "replace"), Value::Object(map)) => _ = map.insert(last, value),
            (Some("remove"), Value::Object(map)) => _ = map.remove(&last).ok_or_else(missing)?,
            (Some("add"), Value::Array(list)) if last == "-" => list.push(value),
            (Some("add"), Value::Array(list)) => {
                list.insert(index(&last, list.len() + 1).ok_or_else(missing)?, value);
            }
            (Some("replace"), Value::Array(list)) => {
                let n = index(&last, list.len()).ok_or_else(missing)?;
                list[n] = value;
            }
            (Some("remove"), Value::Array(list)) => {
                list.remove(index(&last, list.len()).ok_or_else(missing)?);
            }
            (operation, _) => {
                return Err(format!(
                    "the operation `{}` cannot be done at `{path}`",
                    operation.unwrap_or_default()
                ));
            }
        }
    }
    Ok(())
}

fn index(text: &str, length: usize) -> Option<usize> {
    text.parse().ok().filter(|n| *n < length)
}

/// A `Status` of an error.
pub(crate) fn status(code: u16, reason: &str, message: &str, details: Value) -> Value {
    let mut body = json!({ "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": message, "reason": reason, "code": code });
    if let (Some(map), false) = (body.as_object_mut(), details.is_null()) {
        map.insert("details".into(), details);
    }
    body
}

/// An error response with a `Status` body.
pub(crate) fn error(code: u16, reason: &str, message: &str) -> Reply {
    Reply::json(code, &status(code, reason, message, Value::Null)).with_remark(message)
}

pub(super) fn unknown_path() -> Reply {
    error(
        404,
        "NotFound",
        "the server could not find the requested resource",
    )
}

pub(super) fn not_found(kind: &Kind, name: &str) -> Reply {
    let message = format!("{} \"{name}\" not found", kind.qualified());
    Reply::json(
        404,
        &status(
            404,
            "NotFound",
            &message,
            json!({ "name": name, "group": kind.group, "kind": kind.plural }),
        ),
    )
    .with_remark(message)
}

pub(super) fn conflict(kind: &Kind, name: &str, why: &str) -> Reply {
    let message = format!(
        "Operation cannot be fulfilled on {} \"{name}\": {why}",
        kind.qualified()
    );
    Reply::json(
        409,
        &status(
            409,
            "Conflict",
            &message,
            json!({ "name": name, "group": kind.group, "kind": kind.plural }),
        ),
    )
    .with_remark(message)
}

fn apply_conflict(kind: &Kind, conflicts: &[Conflict]) -> Reply {
    let message_of = |c: &Conflict| {
        format!(
            "conflict with \"{}\" using {}",
            c.manager,
            kind.api_version()
        )
    };
    let causes: Vec<Value> = conflicts
        .iter()
        .map(|c| json!({ "reason": "FieldManagerConflict", "message": message_of(c), "field": c.field }))
        .collect();
    let lines: Map<String, Value> = conflicts
        .iter()
        .map(|c| (format!("{}: {}", message_of(c), c.field), Value::Null))
        .collect();
    let lines: Vec<&String> = lines.keys().collect();
    let plural = if conflicts.len() == 1 {
        "conflict"
    } else {
        "conflicts"
    };
    let text = lines
        .iter()
        .map(|line| line.as_str())
        .collect::<Vec<_>>()
        .join("\n");
    let message = format!("Apply failed with {} {plural}: {text}", conflicts.len());
    Reply::json(
        409,
        &status(409, "Conflict", &message, json!({ "causes": causes })),
    )
    .with_remark(message)
}
