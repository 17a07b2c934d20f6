//! VIMs: our own API, since the standard leaves their registration open. Secrets go in and never come out.

use crate::access::roles::Needs;
use crate::access::{Principal, Tenant};
use crate::acts::Acting;
use crate::body::Json;
use crate::problem::{Answer, Problem};
use crate::query;
use crate::state::App;
use crate::view::Root;
use axum::extract::{Path, Query, State};
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use serde::Deserialize;
use std::collections::BTreeMap;
use vnfm_core::VimChange;
use vnfm_core::ports::{SecretConnection, StoreError, VimReport};
use vnfm_core::query::Query as Selection;
use vnfm_types::{Secret, Vim, VimConnectionInfo, VimPolicy};

/// A VIM to register: a connection, or the cluster that an instance's hook made.
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

/// What changes of a VIM.
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
    State(app): State<App>,
    principal: Principal,
    root: Root,
    Json(new): Json<NewVim>,
) -> Answer {
    may_share(&principal, new.shared)?;
    let tenant = &principal.tenant;
    let vim = if let Some(instance) = new.from_vnf_instance_id {
        if new.shared.is_some() || new.policy.is_some() {
            let what = "`shared` and `policy` are for a VIM with a `connection`; change this one once it is registered";
            return Err(Problem::unfit(what));
        }
        sees(&app, &principal, &instance).await?;
        app.engine
            .register_vim_of(tenant, &instance, new.name)
            .await?
    } else {
        let connection = SecretConnection(new.connection);
        let (id, name) = (new.id, Some(new.name));
        let (shared, policy) = (new.shared, new.policy);
        let change = VimChange {
            id,
            name,
            connection,
            password: None,
            shared,
            policy,
        };
        app.engine.register_vim(tenant, change).await?
    };
    let location = format!("{}/vnfm/v1/vims/{}", root.url, vim.id);
    Ok((
        StatusCode::CREATED,
        [(header::LOCATION, location)],
        axum::Json(vim),
    )
        .into_response())
}

/// The login of a cluster goes to nobody who does not see the instance that made it.
async fn sees(app: &App, principal: &Principal, instance: &str) -> Answer<()> {
    let one = Selection {
        limit: 1,
        scope: principal.only.clone(),
        ..Selection::only("id", instance)
    };
    if app
        .engine
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

/// Whether a VIM is shared concerns all tenants.
fn may_share(principal: &Principal, shared: Option<bool>) -> Answer<()> {
    if shared.is_none() || principal.is_operator() {
        return Ok(());
    }
    let what = format!(
        "`shared` concerns all tenants and needs {}",
        Needs::Operator
    );
    Err(Problem::new(
        StatusCode::FORBIDDEN,
        "access.forbidden",
        what,
    ))
}

pub(super) async fn list(State(app): State<App>, who: Principal) -> Answer<axum::Json<Vec<Vim>>> {
    let mut vims = app.engine.vims(&who.tenant).await?;
    vims.retain(|vim| who.only.is_among_vims(&vim.id));
    Ok(axum::Json(
        vims.into_iter().map(|vim| as_seen(&who, vim)).collect(),
    ))
}

/// Without the instance that registered it where that may be one that is not seen.
fn as_seen(who: &Principal, vim: Vim) -> Vim {
    if who.only.is_unlimited() {
        vim
    } else {
        Vim {
            registered_by: None,
            ..vim
        }
    }
}

pub(super) async fn show(
    State(app): State<App>,
    who: Principal,
    Path(id): Path<String>,
) -> Answer<axum::Json<Vim>> {
    let vim = app.engine.vim(&who.tenant, &id).await?;
    Ok(axum::Json(as_seen(&who, vim)))
}

pub(super) async fn update(
    State(app): State<App>,
    principal: Principal,
    Path(id): Path<String>,
    Json(changed): Json<ChangedVim>,
) -> Answer<axum::Json<Vim>> {
    may_share(&principal, changed.shared)?;
    let connection = SecretConnection(changed.connection);
    let ChangedVim {
        name,
        password,
        shared,
        policy,
        ..
    } = changed;
    let change = VimChange {
        id: None,
        name,
        connection,
        password,
        shared,
        policy,
    };
    Ok(axum::Json(
        app.engine
            .update_vim(&principal.tenant, &id, change)
            .await?,
    ))
}

pub(super) async fn delete(
    State(app): State<App>,
    Tenant(tenant): Tenant,
    acting: Acting,
    Path(id): Path<String>,
    Query(asked): Query<BTreeMap<String, String>>,
) -> Answer<StatusCode> {
    let force = query::force(&asked)?.then_some(acting.act);
    app.engine.delete_vim(&tenant, &id, force).await?;
    Ok(StatusCode::NO_CONTENT)
}

pub(super) async fn check(
    State(app): State<App>,
    Tenant(tenant): Tenant,
    Path(id): Path<String>,
) -> Answer<axum::Json<VimReport>> {
    Ok(axum::Json(app.engine.check_vim(&tenant, &id).await?))
}
