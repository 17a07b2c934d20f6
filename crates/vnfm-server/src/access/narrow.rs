//! Changes of somebody who is narrowed to VIMs, namespaces or vendors. They may work on instances and what belongs to them;
//! every other change, such as onboarding, is for those who are not narrowed. Looked at are the instance as it is recorded
//! and the VIMs and the namespace that the request names.

use super::principal::{Only, Principal};
use crate::body;
use crate::problem::{Answer, Problem};
use crate::state::AppState;
use axum::body::{Body, to_bytes};
use axum::extract::Request;
use axum::http::{Method, StatusCode};
use serde_json::Value;
use vnfm_core::ports::{InstanceRecord, StoreError};
use vnfm_core::query::Query;

/// What a change is about.
enum About {
    /// An instance to be made.
    NewInstance,
    /// An instance, by its id.
    Instance(String),
    /// An operation, by its id.
    Operation(String),
    /// Only what its owner sees.
    Nothing,
    /// Anything else.
    Other,
}

/// Lets a request through, or refuses it.
///
/// # Errors
///
/// 403 with what stands in the way.
pub(super) async fn check(
    app: &AppState,
    principal: &Principal,
    request: Request,
) -> Answer<Request> {
    let is_change = !matches!(*request.method(), Method::GET | Method::HEAD | Method::OPTIONS);
    if principal.only.is_anything() || !is_change {
        return Ok(request);
    }
    let about = about(request.uri().path());
    let (parts, content) = request.into_parts();
    if let About::Other = about {
        let what = "your role is narrowed, and this change is for those who are not";
        return Err(refused(principal, what));
    }
    let bytes = to_bytes(content, body::LARGEST).await.map_err(|_| {
        let what =
            format!("the body is larger than {} bytes, or did not arrive whole", body::LARGEST);
        Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "request.too-large", what)
    })?;
    // What is no JSON the handler refuses.
    let asked: Value = serde_json::from_slice(&bytes).unwrap_or_default();
    let outcome = match about {
        About::Nothing | About::Other => Ok(()),
        About::NewInstance => new_instance(app, principal, &asked).await?,
        About::Instance(id) => instance(app, principal, (&id, &asked)).await?,
        About::Operation(id) => match app.engine.store().op(&principal.tenant, &id).await {
            // Until it is instantiated, only the operation knows where.
            Ok(op) => instance(app, principal, (&op.op.vnf_instance_id, &op.request.0)).await?,
            // The handler says that there is none.
            Err(StoreError::NotFound { .. }) => Ok(()),
            Err(error) => return Err(error.into()),
        },
    };
    outcome.map_err(|what| refused(principal, &what))?;
    Ok(Request::from_parts(parts, Body::from(bytes)))
}

fn refused(principal: &Principal, what: &str) -> Problem {
    let what = format!(
        "{what}; next: ask for it with a role in the tenant `{}` that is not narrowed so",
        principal.tenant
    );
    Problem::new(StatusCode::FORBIDDEN, "access.narrowed", what)
}

fn about(path: &str) -> About {
    let segments: Vec<_> = path.split('/').skip(1).collect();
    match segments.as_slice() {
        ["vnflcm", _, "vnf_instances"] => About::NewInstance,
        ["vnflcm", _, "vnf_instances", id, ..] | ["vnfm", "v1", "vnf_instances", id, ..] => {
            About::Instance((*id).to_owned())
        }
        ["vnflcm", _, "vnf_lcm_op_occs", id, _] => About::Operation((*id).to_owned()),
        ["vnflcm", _, "subscriptions", ..] => About::Nothing,
        _ => About::Other,
    }
}

/// Whether it is allowed, and else why not.
type Allowed = Result<(), String>;

async fn new_instance(app: &AppState, principal: &Principal, asked: &Value) -> Answer<Allowed> {
    let only = &principal.only;
    let Some(vnfd) = asked["vnfdId"].as_str().filter(|_| !only.vendors.is_empty()) else {
        return Ok(Ok(()));
    };
    let packages =
        app.engine.store().package_records(&principal.tenant, &Query::only("vnfdId", vnfd)).await?;
    let mut vendors = packages.iter().filter_map(|package| package.info.vnf_provider.as_deref());
    Ok(vendors.try_for_each(|vendor| of_vendor(only, vendor)))
}

async fn instance(
    app: &AppState,
    principal: &Principal,
    (id, asked): (&str, &Value),
) -> Answer<Allowed> {
    let record = match app.engine.store().instance(&principal.tenant, id).await {
        Ok(record) => record,
        Err(StoreError::NotFound { .. }) => return Ok(Ok(())),
        Err(error) => return Err(error.into()),
    };
    Ok(as_recorded(&principal.only, &record).and_then(|()| as_asked(&principal.only, asked)))
}

/// The instance as it is.
fn as_recorded(only: &Only, record: &InstanceRecord) -> Allowed {
    of_vendor(only, &record.vnf.vnf_provider)?;
    if record.request.0.is_null() {
        return Ok(());
    }
    on_vims(only, &record.request.0)?;
    in_namespace(only, &record.request.0)
}

/// What a request wants of it.
fn as_asked(only: &Only, asked: &Value) -> Allowed {
    on_vims(only, asked)?;
    let instantiates = asked.get("flavourId").is_some();
    if instantiates { in_namespace(only, asked) } else { Ok(()) }
}

fn of_vendor(only: &Only, vendor: &str) -> Allowed {
    let is_ours = only.vendors.is_empty() || only.vendors.iter().any(|one| one == vendor);
    is_ours
        .then_some(())
        .ok_or_else(|| format!("your role is narrowed to other vendors than `{vendor}`"))
}

/// Each connection names a VIM that is allowed, by its id; one with a login of its own leads who knows where.
fn on_vims(only: &Only, request: &Value) -> Allowed {
    if only.vims.is_empty() {
        return Ok(());
    }
    let connections: Vec<_> = match &request["vimConnectionInfo"] {
        Value::Object(connections) => connections.values().collect(),
        Value::Array(connections) => connections.iter().collect(),
        _ => Vec::new(),
    };
    for connection in connections.into_iter().filter(|connection| !connection.is_null()) {
        let own =
            ["accessInfo", "interfaceInfo"].iter().any(|member| !is_empty(&connection[*member]));
        match connection["vimId"].as_str() {
            Some(id) if !own && only.vims.iter().any(|one| one == id) => {}
            Some(id) if !own => {
                return Err(format!("your role is narrowed to other VIMs than `{id}`"));
            }
            _ => {
                return Err(
                    "your role is narrowed to VIMs, which are named by their ids alone".to_owned()
                );
            }
        }
    }
    Ok(())
}

fn in_namespace(only: &Only, request: &Value) -> Allowed {
    if only.namespaces.is_empty() {
        return Ok(());
    }
    match request["additionalParams"]["namespace"].as_str() {
        Some(name) if only.namespaces.iter().any(|one| one == name) => Ok(()),
        Some(name) => Err(format!("your role is narrowed to other namespaces than `{name}`")),
        None => {
            Err("your role is narrowed to namespaces, and `additionalParams.namespace` names none"
                .to_owned())
        }
    }
}

fn is_empty(value: &Value) -> bool {
    value.is_null() || value.as_object().is_some_and(serde_json::Map::is_empty)
}

#[cfg(test)]
mod tests {
    use super::{Only, as_asked};
    use serde_json::json;

    #[test]
    fn a_request_is_held_to_its_vims_and_namespace() {
        let only =
            Only { vims: vec!["v1".into()], namespaces: vec!["n1".into()], ..Only::default() };
        let asked = |connection: serde_json::Value, namespace: &str| {
            json!({"flavourId": "f", "vimConnectionInfo": {"vim1": connection},
                "additionalParams": {"namespace": namespace}})
        };
        assert_eq!(as_asked(&only, &asked(json!({"vimId": "v1"}), "n1")), Ok(()));
        for (wrong, says) in [
            (asked(json!({"vimId": "v2"}), "n1"), "`v2`"),
            (asked(json!({"vimId": "v1"}), "n2"), "`n2`"),
            (asked(json!({"vimId": "v1", "accessInfo": {"password": "p"}}), "n1"), "by their ids"),
            (asked(json!({"vimType": "t"}), "n1"), "by their ids"),
            (json!({"flavourId": "f"}), "names none"),
            (json!({"vimConnectionInfo": [{"id": "x", "vimId": "v2"}]}), "`v2`"),
        ] {
            let refused = as_asked(&only, &wrong).unwrap_err();
            assert!(refused.contains(says), "{refused}");
        }
        assert_eq!(as_asked(&only, &json!({"terminationType": "FORCEFUL"})), Ok(()));
        assert_eq!(as_asked(&only, &json!({"vimConnectionInfo": {"gone": null}})), Ok(()));
    }
}
