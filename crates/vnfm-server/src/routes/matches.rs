//! Which VIMs fit a package. Our own API.

use crate::access::Principal;
use crate::problem::HandlerResult;
use crate::query;
use axum::extract::{Path, Query, State};
use std::collections::BTreeMap;
use vnfm_core::{Engine, PackageMatch};

pub(super) async fn show(
    State(engine): State<Engine>,
    Principal { tenant, scope, .. }: Principal,
    Path(id): Path<String>,
    Query(query): Query<BTreeMap<String, String>>,
) -> HandlerResult<axum::Json<PackageMatch>> {
    query::known(&query, &["vim"])?;
    let vim = query.get("vim").map(String::as_str);
    let is_visible = |vim: &str| scope.is_among_vims(vim);
    let found = engine.match_package(&tenant, &id, vim, is_visible);
    Ok(axum::Json(found.await?))
}
