//! VIMs: our own API, since the standard leaves their registration open. Secrets go in and never come out.

use crate::acts::Acting;
use crate::body::Json;
use crate::problem::Answer;
use crate::query;
use crate::state::{App, TENANT};
use crate::view::Root;
use axum::extract::{Path, Query, State};
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use serde::Deserialize;
use std::collections::BTreeMap;
use vnfm_core::VimChange;
use vnfm_core::ports::{SecretConnection, VimReport};
use vnfm_types::{Secret, Vim, VimConnectionInfo};

/// A VIM to register: a connection, or the cluster that an instance's hook made.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct NewVim {
    id: Option<String>,
    name: String,
    #[serde(default)]
    connection: VimConnectionInfo,
    from_vnf_instance_id: Option<String>,
}

/// What changes of a VIM.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct ChangedVim {
    name: Option<String>,
    #[serde(default)]
    connection: VimConnectionInfo,
    password: Option<Secret>,
}

pub(super) async fn register(
    State(app): State<App>,
    root: Root,
    Json(new): Json<NewVim>,
) -> Answer {
    let vim = if let Some(instance) = new.from_vnf_instance_id {
        app.engine.register_vim_of(TENANT, &instance, new.name).await?
    } else {
        let connection = SecretConnection(new.connection);
        let change = VimChange { id: new.id, name: Some(new.name), connection, password: None };
        app.engine.register_vim(TENANT, change).await?
    };
    let location = format!("{}/vnfm/v1/vims/{}", root.url, vim.id);
    Ok((StatusCode::CREATED, [(header::LOCATION, location)], axum::Json(vim)).into_response())
}

pub(super) async fn list(State(app): State<App>) -> Answer<axum::Json<Vec<Vim>>> {
    Ok(axum::Json(app.engine.vims(TENANT).await?))
}

pub(super) async fn show(
    State(app): State<App>,
    Path(id): Path<String>,
) -> Answer<axum::Json<Vim>> {
    Ok(axum::Json(app.engine.vim(TENANT, &id).await?))
}

pub(super) async fn update(
    State(app): State<App>,
    Path(id): Path<String>,
    Json(changed): Json<ChangedVim>,
) -> Answer<axum::Json<Vim>> {
    let connection = SecretConnection(changed.connection);
    let (name, password) = (changed.name, changed.password);
    let change = VimChange { id: None, name, connection, password };
    Ok(axum::Json(app.engine.update_vim(TENANT, &id, change).await?))
}

pub(super) async fn delete(
    State(app): State<App>,
    acting: Acting,
    Path(id): Path<String>,
    Query(asked): Query<BTreeMap<String, String>>,
) -> Answer<StatusCode> {
    let force = query::force(&asked)?.then_some(acting.act);
    app.engine.delete_vim(TENANT, &id, force).await?;
    Ok(StatusCode::NO_CONTENT)
}

pub(super) async fn check(
    State(app): State<App>,
    Path(id): Path<String>,
) -> Answer<axum::Json<VimReport>> {
    Ok(axum::Json(app.engine.check_vim(TENANT, &id).await?))
}
