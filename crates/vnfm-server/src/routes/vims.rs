//! VIMs: our own API, since the standard does not define their registration. Secrets can be written but never read.

use crate::access::roles::RequiredRole;
use crate::access::{Principal, Tenant};
use crate::body::Json;
use crate::overrides::OperatorHeaders;
use crate::problem::{HandlerResult, Problem};
use crate::query;
use crate::view::Root;
use axum::extract::{Path, Query, State};
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use serde::Deserialize;
use serde_json::json;
use std::collections::BTreeMap;
use vnfm_core::Engine;
use vnfm_core::VimChange;
use vnfm_core::ports::{ClusterCapabilities, StoreError, VimReport};
use vnfm_core::query::Query as Selection;
use vnfm_types::{Secret, Vim, VimConnectionInfo, VimPolicy};

/// A VIM to register: a connection, or the cluster that a hook of an instance created.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct NewVim {
    id: Option<String>,
    name: String,
    #[serde(default)]
    connection: VimConnectionInfo,
    from_vnf_instance_id: Option<String>,
    shared: Option<bool>,
    policy: Option<VimPolicy>,
}

/// The body of a request to change a VIM.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct ChangedVim {
    name: Option<String>,
    #[serde(default)]
    connection: VimConnectionInfo,
    password: Option<Secret>,
    shared: Option<bool>,
    policy: Option<VimPolicy>,
}

pub(super) async fn register(
    State(engine): State<Engine>,
    principal: Principal,
    root: Root,
    Json(new): Json<NewVim>,
) -> HandlerResult {
    check_may_share(&principal, new.shared)?;
    let tenant = &principal.tenant;
    let vim = if let Some(instance) = new.from_vnf_instance_id {
        if new.shared.is_some() || new.policy.is_some() {
            let detail = "`shared` and `policy` are only for a VIM with a `connection`; set them after the registration";
            return Err(Problem::schema_mismatch(detail));
        }
        check_visible(&engine, &principal, &instance).await?;
        engine.register_vim_of(tenant, &instance, new.name).await?
    } else {
        let change = VimChange {
            id: new.id,
            name: Some(new.name),
            connection: new.connection,
            password: None,
            shared: new.shared,
            policy: new.policy,
        };
        engine.register_vim(tenant, change).await?
    };
    let location = format!("{}/vnfm/v1/vims/{}", root.url, vim.id);
    Ok((
        StatusCode::CREATED,
        [(header::LOCATION, location)],
        axum::Json(vim),
    )
        .into_response())
}

/// A cluster's login is only for callers who can see the instance that created it.
async fn check_visible(
    engine: &Engine,
    principal: &Principal,
    instance: &str,
) -> HandlerResult<()> {
    let one = Selection {
        limit: 1,
        scope: principal.scope.clone(),
        ..Selection::only("id", instance)
    };
    if engine
        .store()
        .instances(&principal.tenant, &one)
        .await?
        .is_empty()
    {
        let id = instance.to_owned();
        return Err(StoreError::NotFound {
            what: "VNF instance",
            id,
        }
        .into());
    }
    Ok(())
}

/// Sharing a VIM concerns all tenants, so it needs the operator.
fn check_may_share(principal: &Principal, shared: Option<bool>) -> HandlerResult<()> {
    if shared.is_none() || principal.is_operator() {
        return Ok(());
    }
    let detail = format!(
        "`shared` concerns all tenants and needs {}",
        RequiredRole::Operator
    );
    Err(Problem::new(
        StatusCode::FORBIDDEN,
        "access.forbidden",
        detail,
    ))
}

pub(super) async fn list(
    State(engine): State<Engine>,
    principal: Principal,
) -> HandlerResult<axum::Json<Vec<Vim>>> {
    let mut vims = engine.vims(&principal.tenant).await?;
    vims.retain(|vim| principal.scope.is_among_vims(&vim.id));
    Ok(axum::Json(
        vims.into_iter()
            .map(|vim| visible_part(&principal, vim))
            .collect(),
    ))
}

/// Hides the instance that registered the VIM from callers with a limited scope.
fn visible_part(principal: &Principal, vim: Vim) -> Vim {
    if principal.scope.is_unlimited() {
        vim
    } else {
        Vim {
            registered_by: None,
            ..vim
        }
    }
}

pub(super) async fn show(
    State(engine): State<Engine>,
    principal: Principal,
    Path(id): Path<String>,
) -> HandlerResult<axum::Json<Vim>> {
    let vim = engine.vim(&principal.tenant, &id).await?;
    Ok(axum::Json(visible_part(&principal, vim)))
}

pub(super) async fn update(
    State(engine): State<Engine>,
    principal: Principal,
    Path(id): Path<String>,
    Json(changed): Json<ChangedVim>,
) -> HandlerResult<axum::Json<Vim>> {
    check_may_share(&principal, changed.shared)?;
    let change = VimChange {
        id: None,
        name: changed.name,
        connection: changed.connection,
        password: changed.password,
        shared: changed.shared,
        policy: changed.policy,
    };
    Ok(axum::Json(
        engine.update_vim(&principal.tenant, &id, change).await?,
    ))
}

pub(super) async fn delete(
    State(engine): State<Engine>,
    Tenant(tenant): Tenant,
    headers: OperatorHeaders,
    Path(id): Path<String>,
    Query(query): Query<BTreeMap<String, String>>,
) -> HandlerResult<StatusCode> {
    let force = query::force(&query)?.then_some(headers.act);
    engine.delete_vim(&tenant, &id, force).await?;
    Ok(StatusCode::NO_CONTENT)
}

pub(super) async fn check(
    State(engine): State<Engine>,
    Tenant(tenant): Tenant,
    Path(id): Path<String>,
) -> HandlerResult<axum::Json<VimReport>> {
    Ok(axum::Json(engine.check_vim(&tenant, &id).await?))
}

pub(super) async fn capabilities(
    State(engine): State<Engine>,
    Tenant(tenant): Tenant,
    Path(id): Path<String>,
) -> HandlerResult<axum::Json<ClusterCapabilities>> {
    Ok(axum::Json(engine.vim_capabilities(&tenant, &id).await?))
}

/// How long a kubeconfig is valid, in seconds, unless the request has another number.
const KUBECONFIG_SECONDS: u32 = 3_600;

/// A request for a kubeconfig; the body may be `{}`.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct KubeconfigRequest {
    expiration_seconds: Option<u32>,
}

/// Issues a kubeconfig. The response is the only place that ever has it.
pub(super) async fn kubeconfig(
    State(engine): State<Engine>,
    Tenant(tenant): Tenant,
    headers: OperatorHeaders,
    Path(id): Path<String>,
    Json(request): Json<KubeconfigRequest>,
) -> HandlerResult {
    let seconds = request.expiration_seconds.unwrap_or(KUBECONFIG_SECONDS);
    let issued = engine.issue_kubeconfig(&tenant, &id, (seconds, headers.act));
    let issued = issued.await?;
    let body = json!({ "kubeconfig": issued.kubeconfig.reveal(), "expiresAt": issued.expires_at });
    Ok(([(header::CACHE_CONTROL, "no-store")], axum::Json(body)).into_response())
}
