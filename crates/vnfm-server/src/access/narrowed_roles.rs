//! Requests of callers limited to certain VIMs, namespaces or vendors.
//!
//! ```text
//!  subject of the route ── outside the scope: 404, as if missing
//!    └─ a change? ── onboarding, VIMs and the like: 403
//!                 └─ the body names a VIM or a namespace outside the scope: 403
//!                 └─ instantiation: the plan would create something outside, or leads there: 422
//!  a 409 ── names of objects outside the scope are replaced
//! ```
//! Lists, events and notifications are filtered where they are read, by the same [`Only`].

use super::principal::{Only, Principal};
use crate::body;
use crate::problem::{HandlerResult, Problem};
use crate::route_match::{Effect, Matched, Route, Subject};
use axum::body::{Body, to_bytes};
use axum::extract::Request;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use serde_json::Value;
use vnfm_core::Engine;
use vnfm_core::lcm::Requires;
use vnfm_core::ports::StoreError;
use vnfm_core::query::Query;
use vnfm_types::v1::ApiVersion;
use vnfm_types::{InstantiateVnfRequest, ProblemDetails, VimPolicy};

/// Passes the request on if it is within the principal's scope.
///
/// # Errors
///
/// 404 for a target outside the scope, 403 for a change outside it.
pub(super) async fn check(
    engine: &Engine,
    principal: &Principal,
    request: Request,
) -> HandlerResult<Request> {
    if principal.scope.is_unlimited() {
        return Ok(request);
    }
    // Without a route, it is a 404 or a 405.
    let matched = Matched::from_extensions(request.extensions()).cloned();
    let Some((matched, route)) = matched.as_ref().and_then(|one| Some((one, one.route()?))) else {
        return Ok(request);
    };
    check_visible(engine, principal, (route.subject, matched.id())).await?;
    if route.effect == Effect::Reads {
        return Ok(request);
    }
    match route.subject {
        Subject::Package | Subject::Vim | Subject::Shared => {
            let detail = "your role is limited to certain VIMs, namespaces or vendors; this change needs an unlimited role";
            Err(refused(principal, detail))
        }
        Subject::New | Subject::Subscription | Subject::Snapshot => Ok(request),
        Subject::Instance | Subject::Operation => {
            check_body(engine, principal, (request, matched)).await
        }
    }
}

/// Returns the request if its body names nothing outside the principal's scope.
async fn check_body(
    engine: &Engine,
    principal: &Principal,
    (request, matched): (Request, &Matched),
) -> HandlerResult<Request> {
    let (parts, content) = request.into_parts();
    let bytes = to_bytes(content, body::LARGEST).await.map_err(|_| {
        let detail = format!(
            "the body is larger than {} bytes, or incomplete",
            body::LARGEST
        );
        Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "request.too-large", detail)
    })?;
    let value = if bytes.trim_ascii().is_empty() {
        Value::Null
    } else {
        read(&bytes)?
    };
    let plans = matched
        .route()
        .is_some_and(|route| route.effect == Effect::Plans);
    // A plan may name nothing else than the operation that it plans.
    let (value, instantiates) = if plans {
        let instantiates = names_instantiation(engine, &value["operation"]);
        (value["request"].clone(), instantiates)
    } else {
        let instantiates = matched.route().is_some_and(Route::instantiates);
        (value, instantiates)
    };
    check_vims_and_namespace(&principal.scope, &value, instantiates)
        .map_err(|detail| refused(principal, &detail))?;
    if let Some(id) = value["vnfSnapshotInfoId"].as_str() {
        check_visible(engine, principal, (Subject::Snapshot, id)).await?;
    }
    if instantiates && plans {
        let request = value.to_string();
        let place = (matched.id(), parts.uri.path(), request.as_bytes());
        check_plan(engine, principal, place).await?;
    } else if instantiates {
        check_plan(engine, principal, (matched.id(), parts.uri.path(), &bytes)).await?;
    }
    Ok(Request::from_parts(parts, Body::from(bytes)))
}

/// Whether this is the name of an operation that creates the resources of an instance.
fn names_instantiation(engine: &Engine, name: &Value) -> bool {
    let mut all = engine.operations().iter();
    let named = all.find(|operation| *name == operation.kind.as_str());
    named.is_some_and(|operation| operation.requires == Requires::NotInstantiated)
}

/// Checks that an instantiation creates objects only in the principal's namespaces, and nothing that leads out of
/// them. The plan decides, not what the request says about it.
async fn check_plan(
    engine: &Engine,
    principal: &Principal,
    (instance, path, body): (&str, &str, &[u8]),
) -> HandlerResult<()> {
    if principal.scope.namespaces.is_empty() {
        return Ok(());
    }
    let request: InstantiateVnfRequest = body::parse_as(ApiVersion::of_path(path), body)?;
    if request.vim_connection_info.is_empty() {
        // The NFVO would choose the VIM in its grant, and the plan depends on the VIM.
        let detail = "your role is limited to namespaces, so `vimConnectionInfo` must name a VIM";
        return Err(refused(principal, detail));
    }
    let policy = VimPolicy::for_namespaces(&principal.scope.namespaces);
    Ok(engine
        .permits(&principal.tenant, instance, request, &policy)
        .await?)
}

/// Parses the full body: handlers ignore unknown members, and a body that cannot be parsed cannot be checked.
fn read(bytes: &[u8]) -> HandlerResult<Value> {
    let read = serde_json::from_slice(bytes);
    read.map_err(|error| Problem::bad_request(format!("the body is not JSON: {error}")))
}

fn refused(principal: &Principal, what: &str) -> Problem {
    let tenant = &principal.tenant;
    Problem::new(StatusCode::FORBIDDEN, "access.narrowed", what).hint(format!(
        "send the request with a role in the tenant `{tenant}` without this limit"
    ))
}

/// Refuses a target outside the scope with the same 404 as a missing one.
async fn check_visible(
    engine: &Engine,
    principal: &Principal,
    (subject, id): (Subject, &str),
) -> HandlerResult<()> {
    let (store, tenant, only) = (engine.store(), &principal.tenant, &principal.scope);
    let one = |id: &str| Query {
        limit: 1,
        scope: only.clone(),
        ..Query::only("id", id)
    };
    let (what, is_visible) = match subject {
        Subject::Instance => (
            "VNF instance",
            !store.instances(tenant, &one(id)).await?.is_empty(),
        ),
        Subject::Operation => ("operation", !store.ops(tenant, &one(id)).await?.is_empty()),
        Subject::Subscription => (
            "subscription",
            !store.subscriptions(tenant, &one(id)).await?.is_empty(),
        ),
        Subject::Snapshot => (
            "VNF snapshot",
            !store.snapshots(tenant, &one(id)).await?.is_empty(),
        ),
        Subject::Package => (
            "VNF package",
            !store.package_records(tenant, &one(id)).await?.is_empty(),
        ),
        Subject::Vim => (
            "VIM",
            only.is_among_vims(&store.vim(tenant, id).await?.vim.id),
        ),
        Subject::New | Subject::Shared => return Ok(()),
    };
    if is_visible {
        Ok(())
    } else {
        Err(StoreError::NotFound {
            what,
            id: id.to_owned(),
        }
        .into())
    }
}

/// Replaces the name of an object outside the scope.
const HIDDEN_NAME: &str = "an object that your role does not show";

/// Hides the names of objects outside the scope in a 409.
pub(super) async fn hide_names(
    engine: &Engine,
    principal: &Principal,
    response: Response,
) -> Response {
    if principal.scope.is_unlimited() || response.status() != StatusCode::CONFLICT {
        return response;
    }
    let (mut parts, content) = response.into_parts();
    let bytes = to_bytes(content, body::LARGEST).await.unwrap_or_default();
    let Ok(mut problem) = serde_json::from_slice::<ProblemDetails>(&bytes) else {
        return Response::from_parts(parts, Body::from(bytes));
    };
    for name in &mut problem.blocked_by {
        if !is_name_visible(engine, principal, name).await {
            problem.detail = problem.detail.replace(name.as_str(), HIDDEN_NAME);
            problem.next = problem
                .next
                .map(|next| next.replace(name.as_str(), HIDDEN_NAME));
            HIDDEN_NAME.clone_into(name);
        }
    }
    parts.headers.remove(header::CONTENT_LENGTH);
    match serde_json::to_vec(&problem) {
        Ok(text) => Response::from_parts(parts, Body::from(text)),
        Err(error) => Problem::bug(&error).into_response(),
    }
}

/// Whether the instance or operation named as `name (id)` or by its id is visible. Other names reveal nothing.
async fn is_name_visible(engine: &Engine, principal: &Principal, name: &str) -> bool {
    let id = name
        .strip_suffix(')')
        .and_then(|name| name.rsplit_once('('))
        .map(|(_, id)| id);
    let id = id.unwrap_or(name).to_owned();
    if uuid::Uuid::parse_str(&id).is_err() {
        return true;
    }
    let instance = check_visible(engine, principal, (Subject::Instance, &id)).await;
    instance.is_ok()
        || check_visible(engine, principal, (Subject::Operation, &id))
            .await
            .is_ok()
}

/// The error is the reason for a refusal.
type ScopeResult = Result<(), String>;

/// Checks the VIMs and the namespace that a request names.
fn check_vims_and_namespace(only: &Only, request: &Value, instantiates: bool) -> ScopeResult {
    let names_no_vim = request["vimConnectionInfo"]
        .as_object()
        .is_none_or(serde_json::Map::is_empty)
        && request["vimConnectionInfo"]
            .as_array()
            .is_none_or(Vec::is_empty);
    if instantiates && names_no_vim && !only.vims.is_empty() {
        // The NFVO would choose the VIM in its grant.
        let detail = "your role is limited to certain VIMs, so `vimConnectionInfo` must name one";
        return Err(detail.to_owned());
    }
    check_vims(only, request)?;
    if instantiates {
        check_namespace(only, request)
    } else {
        Ok(())
    }
}

/// Each connection must name an allowed VIM by its id; a connection with its own login could lead anywhere.
fn check_vims(only: &Only, request: &Value) -> ScopeResult {
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
                return Err(format!("your role does not include the VIM `{id}`"));
            }
            _ => {
                return Err(
                    "your role is limited to certain VIMs: name them only by their ids".to_owned(),
                );
            }
        }
    }
    Ok(())
}

fn check_namespace(only: &Only, request: &Value) -> ScopeResult {
    if only.namespaces.is_empty() {
        return Ok(());
    }
    match request["additionalParams"]["namespace"].as_str() {
        Some(name) if only.namespaces.iter().any(|one| one == name) => Ok(()),
        Some(name) => Err(format!(
            "your role does not include the namespace `{name}`"
        )),
        None => Err(
            "your role is limited to certain namespaces, so `additionalParams.namespace` must name one"
                .to_owned(),
        ),
    }
}

fn is_empty(value: &Value) -> bool {
    value.is_null() || value.as_object().is_some_and(serde_json::Map::is_empty)
}

#[cfg(test)]
mod tests {
    use super::{Only, check_vims_and_namespace};
    use serde_json::json;

    #[test]
    fn a_request_may_only_name_the_vims_and_namespace_of_the_role() {
        let only = Only {
            vims: vec!["v1".into()],
            namespaces: vec!["n1".into()],
            ..Only::default()
        };
        let request = |connection: serde_json::Value, namespace: &str| {
            json!({"flavourId": "f", "vimConnectionInfo": {"vim1": connection},
                "additionalParams": {"namespace": namespace}})
        };
        assert_eq!(
            check_vims_and_namespace(&only, &request(json!({"vimId": "v1"}), "n1"), true),
            Ok(())
        );
        for (wrong, expected) in [
            (request(json!({"vimId": "v2"}), "n1"), "`v2`"),
            (request(json!({"vimId": "v1"}), "n2"), "`n2`"),
            (
                request(
                    json!({"vimId": "v1", "accessInfo": {"password": "p"}}),
                    "n1",
                ),
                "by their ids",
            ),
            (request(json!({"vimType": "t"}), "n1"), "by their ids"),
            (json!({"flavourId": "f"}), "must name one"),
            (
                json!({"vimConnectionInfo": [{"id": "x", "vimId": "v2"}]}),
                "`v2`",
            ),
        ] {
            let refused = check_vims_and_namespace(&only, &wrong, true).unwrap_err();
            assert!(refused.contains(expected), "{refused}");
        }
        assert_eq!(
            check_vims_and_namespace(&only, &json!({"terminationType": "FORCEFUL"}), false),
            Ok(())
        );
        assert_eq!(
            check_vims_and_namespace(
                &only,
                &json!({"vimConnectionInfo": {"removed": null}}),
                false
            ),
            Ok(())
        );
    }
}
