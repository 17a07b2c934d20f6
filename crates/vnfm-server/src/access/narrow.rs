//! Requests of somebody who is narrowed to VIMs, namespaces or vendors.
//!
//! ```text
//!  the path names something ── not seen: 404, as if it were not there ── a change? ── onboarding, VIMs and the like: 403
//!                                                                        └─ the body names a VIM or a namespace
//!                                                                           outside: 403
//!                                                                        └─ it instantiates: its plan would make what
//!                                                                           is outside, or leads there: 422
//!  a 409 ── what stands in the way and is not seen has no name in it
//! ```
//! Lists, events and notifications are narrowed where they are read, by the same [`Only`].

use super::principal::{Only, Principal};
use crate::body;
use crate::problem::{Answer, Problem};
use crate::state::AppState;
use axum::body::{Body, to_bytes};
use axum::extract::Request;
use axum::http::{Method, StatusCode, header};
use axum::response::Response;
use percent_encoding::percent_decode_str;
use serde_json::Value;
use vnfm_core::ports::StoreError;
use vnfm_core::query::Query;
use vnfm_types::v1::ApiVersion;
use vnfm_types::{InstantiateVnfRequest, ProblemDetails, VimPolicy};

/// What a request is about.
#[derive(Debug, PartialEq, Eq)]
enum About {
    /// An instance to be made.
    NewInstance,
    /// One of these, by its id; VIMs by their names, too.
    Instance(String),
    Operation(String),
    Subscription(String),
    Package(String),
    Vim(String),
    /// Something that is there for everybody of a tenant.
    NewSubscription,
    /// Anything else.
    Other,
}

/// Lets a request through, or refuses it.
///
/// # Errors
///
/// 404 for what is not seen, 403 with what stands in the way of a change.
pub(super) async fn check(
    app: &AppState,
    principal: &Principal,
    request: Request,
) -> Answer<Request> {
    if principal.only.is_unlimited() {
        return Ok(request);
    }
    let about = about(request.uri().path());
    is_seen(app, principal, &about).await?;
    if matches!(
        *request.method(),
        Method::GET | Method::HEAD | Method::OPTIONS
    ) {
        return Ok(request);
    }
    match about {
        About::Package(_) | About::Vim(_) | About::Other => {
            let what = "your role is narrowed, and this change is for those who are not";
            Err(refused(principal, what))
        }
        About::NewInstance | About::NewSubscription | About::Subscription(_) => Ok(request),
        About::Instance(id) => as_wanted(app, principal, (request, Some(&id))).await,
        About::Operation(_) => as_wanted(app, principal, (request, None)).await,
    }
}

/// The request, where it wants nothing outside of what its principal is narrowed to.
async fn as_wanted(
    app: &AppState,
    principal: &Principal,
    (request, instance): (Request, Option<&str>),
) -> Answer<Request> {
    let (parts, content) = request.into_parts();
    let bytes = to_bytes(content, body::LARGEST).await.map_err(|_| {
        let what = format!(
            "the body is larger than {} bytes, or did not arrive whole",
            body::LARGEST
        );
        Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "request.too-large", what)
    })?;
    let asked = if bytes.trim_ascii().is_empty() {
        Value::Null
    } else {
        read(&bytes)?
    };
    as_asked(&principal.only, &asked).map_err(|what| refused(principal, &what))?;
    if let Some(instance) = instance.filter(|_| parts.uri.path().ends_with("/instantiate")) {
        as_planned(app, principal, (instance, parts.uri.path(), &bytes)).await?;
    }
    Ok(Request::from_parts(parts, Body::from(bytes)))
}

/// What an instantiation would make is in the namespaces that its principal is narrowed to, and nothing that leads out
/// of them: the plan decides, and not what the request says of it.
async fn as_planned(
    app: &AppState,
    principal: &Principal,
    (instance, path, body): (&str, &str, &[u8]),
) -> Answer<()> {
    if principal.only.namespaces.is_empty() {
        return Ok(());
    }
    let request: InstantiateVnfRequest = body::parse_as(ApiVersion::of_path(path), body)?;
    if request.vim_connection_info.is_empty() {
        // Whoever grants it would say where, and the plan depends on that.
        let what = "your role is narrowed to namespaces, and `vimConnectionInfo` names no VIM";
        return Err(refused(principal, what));
    }
    let policy = VimPolicy::for_namespaces(&principal.only.namespaces);
    Ok(app
        .engine
        .permits(&principal.tenant, instance, request, &policy)
        .await?)
}

/// All of a body: a handler passes over members that it does not know, whatever is in them, and what cannot be read here
/// cannot be looked at.
fn read(bytes: &[u8]) -> Answer<Value> {
    let read = serde_json::from_slice(bytes);
    read.map_err(|error| Problem::bad_request(format!("the body is not JSON: {error}")))
}

fn refused(principal: &Principal, what: &str) -> Problem {
    let tenant = &principal.tenant;
    Problem::new(StatusCode::FORBIDDEN, "access.narrowed", what).next(format!(
        "send the request with a role in the tenant `{tenant}` that is not narrowed in this way"
    ))
}

fn about(path: &str) -> About {
    let decoded = |segment: &str| percent_decode_str(segment).decode_utf8_lossy().into_owned();
    let segments: Vec<_> = path.split('/').skip(1).collect();
    match segments.as_slice() {
        ["vnflcm", _, "vnf_instances"] => About::NewInstance,
        ["vnflcm", _, "vnf_instances", id, ..]
        | ["vnfm", "v1", "vnf_instances" | "orphans", id, ..] => About::Instance(decoded(id)),
        ["vnflcm", _, "vnf_lcm_op_occs", id, ..] | ["vnfm", "v1", "op_occs", id, ..] => {
            About::Operation(decoded(id))
        }
        ["vnflcm", _, "subscriptions"] => About::NewSubscription,
        ["vnflcm", _, "subscriptions", id, ..] => About::Subscription(decoded(id)),
        ["vnfpkgm", _, "vnf_packages", id, ..] => About::Package(decoded(id)),
        ["vnfm", "v1", "vims", id, ..] => About::Vim(decoded(id)),
        _ => About::Other,
    }
}

/// Whether something is seen that a path names, in words that do not tell it from what is not there.
async fn is_seen(app: &AppState, principal: &Principal, about: &About) -> Answer<()> {
    let (store, tenant, only) = (app.engine.store(), &principal.tenant, &principal.only);
    let one = |id: &str| Query {
        limit: 1,
        scope: only.clone(),
        ..Query::only("id", id)
    };
    let (what, id, is_there) = match about {
        About::Instance(id) => (
            "VNF instance",
            id,
            !store.instances(tenant, &one(id)).await?.is_empty(),
        ),
        About::Operation(id) => (
            "operation",
            id,
            !store.ops(tenant, &one(id)).await?.is_empty(),
        ),
        About::Subscription(id) => (
            "subscription",
            id,
            !store.subscriptions(tenant, &one(id)).await?.is_empty(),
        ),
        About::Package(id) => (
            "VNF package",
            id,
            !store.package_records(tenant, &one(id)).await?.is_empty(),
        ),
        About::Vim(id) => (
            "VIM",
            id,
            only.is_among_vims(&store.vim(tenant, id).await?.vim.id),
        ),
        About::NewInstance | About::NewSubscription | About::Other => return Ok(()),
    };
    if is_there {
        Ok(())
    } else {
        Err(StoreError::NotFound {
            what,
            id: id.clone(),
        }
        .into())
    }
}

/// What stands for something that is not seen.
const UNSEEN: &str = "something that your role does not show";

/// A 409 without the names of what its principal does not see.
pub(super) async fn without_names(
    app: &AppState,
    principal: &Principal,
    response: Response,
) -> Response {
    if principal.only.is_unlimited() || response.status() != StatusCode::CONFLICT {
        return response;
    }
    let (mut parts, content) = response.into_parts();
    let bytes = to_bytes(content, body::LARGEST).await.unwrap_or_default();
    let Ok(mut told) = serde_json::from_slice::<ProblemDetails>(&bytes) else {
        return Response::from_parts(parts, Body::from(bytes));
    };
    for name in &mut told.blocked_by {
        if !is_known(app, principal, name).await {
            told.detail = told.detail.replace(name.as_str(), UNSEEN);
            told.next = told.next.map(|next| next.replace(name.as_str(), UNSEEN));
            UNSEEN.clone_into(name);
        }
    }
    parts.headers.remove(header::CONTENT_LENGTH);
    let text = serde_json::to_vec(&told).unwrap_or_default();
    Response::from_parts(parts, Body::from(text))
}

/// Whether an instance or an operation is seen that is named as `name (id)` or by its id. What is neither tells nothing.
async fn is_known(app: &AppState, principal: &Principal, name: &str) -> bool {
    let id = name
        .strip_suffix(')')
        .and_then(|name| name.rsplit_once('('))
        .map(|(_, id)| id);
    let id = id.unwrap_or(name).to_owned();
    if uuid::Uuid::parse_str(&id).is_err() {
        return true;
    }
    let instance = is_seen(app, principal, &About::Instance(id.clone())).await;
    instance.is_ok() || is_seen(app, principal, &About::Operation(id)).await.is_ok()
}

/// Whether it is allowed, and else why not.
type Allowed = Result<(), String>;

/// What a request wants of an instance.
fn as_asked(only: &Only, asked: &Value) -> Allowed {
    let instantiates = asked.get("flavourId").is_some();
    let names_no_vim = asked["vimConnectionInfo"]
        .as_object()
        .is_none_or(serde_json::Map::is_empty)
        && asked["vimConnectionInfo"]
            .as_array()
            .is_none_or(Vec::is_empty);
    if instantiates && names_no_vim && !only.vims.is_empty() {
        // Whoever grants it would say where.
        let what = "your role is narrowed to VIMs, and `vimConnectionInfo` names none";
        return Err(what.to_owned());
    }
    on_vims(only, asked)?;
    if instantiates {
        in_namespace(only, asked)
    } else {
        Ok(())
    }
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
    for connection in connections
        .into_iter()
        .filter(|connection| !connection.is_null())
    {
        let own = ["accessInfo", "interfaceInfo"]
            .iter()
            .any(|member| !is_empty(&connection[*member]));
        match connection["vimId"].as_str() {
            Some(id) if !own && only.vims.iter().any(|one| one == id) => {}
            Some(id) if !own => {
                return Err(format!("your role is narrowed to other VIMs than `{id}`"));
            }
            _ => {
                return Err(
                    "your role is narrowed to VIMs, which are named by their ids alone".to_owned(),
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
        Some(name) => Err(format!(
            "your role is narrowed to other namespaces than `{name}`"
        )),
        None => Err(
            "your role is narrowed to namespaces, and `additionalParams.namespace` names none"
                .to_owned(),
        ),
    }
}

fn is_empty(value: &Value) -> bool {
    value.is_null() || value.as_object().is_some_and(serde_json::Map::is_empty)
}

#[cfg(test)]
mod tests {
    use super::{About, Only, about, as_asked};
    use serde_json::json;

    #[test]
    fn a_request_is_held_to_its_vims_and_namespace() {
        let only = Only {
            vims: vec!["v1".into()],
            namespaces: vec!["n1".into()],
            ..Only::default()
        };
        let asked = |connection: serde_json::Value, namespace: &str| {
            json!({"flavourId": "f", "vimConnectionInfo": {"vim1": connection},
                "additionalParams": {"namespace": namespace}})
        };
        assert_eq!(
            as_asked(&only, &asked(json!({"vimId": "v1"}), "n1")),
            Ok(())
        );
        for (wrong, says) in [
            (asked(json!({"vimId": "v2"}), "n1"), "`v2`"),
            (asked(json!({"vimId": "v1"}), "n2"), "`n2`"),
            (
                asked(
                    json!({"vimId": "v1", "accessInfo": {"password": "p"}}),
                    "n1",
                ),
                "by their ids",
            ),
            (asked(json!({"vimType": "t"}), "n1"), "by their ids"),
            (json!({"flavourId": "f"}), "names none"),
            (
                json!({"vimConnectionInfo": [{"id": "x", "vimId": "v2"}]}),
                "`v2`",
            ),
        ] {
            let refused = as_asked(&only, &wrong).unwrap_err();
            assert!(refused.contains(says), "{refused}");
        }
        assert_eq!(
            as_asked(&only, &json!({"terminationType": "FORCEFUL"})),
            Ok(())
        );
        assert_eq!(
            as_asked(&only, &json!({"vimConnectionInfo": {"gone": null}})),
            Ok(())
        );
    }

    #[test]
    fn a_path_that_is_spelt_otherwise_is_about_the_same() {
        let instance = |id: &str| About::Instance(id.to_owned());
        for path in [
            "/vnflcm/v2/vnf_instances/a-b",
            "/vnflcm/v1/vnf_instances/%61-b/heal",
        ] {
            assert_eq!(about(path), instance("a-b"), "{path}");
        }
        assert_eq!(
            about("/vnfm/v1/vims/my%20cloud"),
            About::Vim("my cloud".to_owned())
        );
        assert_eq!(
            about("/vnfm/v1/op_occs/o/log"),
            About::Operation("o".to_owned())
        );
        assert_eq!(about("/vnfm/v1/audit"), About::Other);
    }
}
