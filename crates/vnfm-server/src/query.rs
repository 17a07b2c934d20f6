//! Query parameters of lists: pages, and a 400 for whatever else is asked.

use crate::problem::{Answer, Problem};
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use std::collections::BTreeMap;
use uuid::Uuid;
use vnfm_core::ports::InstanceFilter;

/// How many entries a page of a list has (SOL013 5.4).
pub const PAGE: usize = 100;

/// The parameters of a request, checked against those that the resource knows.
///
/// # Errors
///
/// 400 naming a parameter that it does not know.
pub fn known(query: &BTreeMap<String, String>, known: &[&str]) -> Answer<()> {
    match query.keys().find(|name| !known.contains(&name.as_str())) {
        Some(name) => {
            let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
            let what =
                format!("query parameter `{name}` is not supported here; supported: {known}");
            Err(Problem::bad_request(what))
        }
        None => Ok(()),
    }
}

/// Whether a request says `force=true`, the only parameter that it may have.
///
/// # Errors
///
/// 400 for another parameter, and for another value.
pub fn force(query: &BTreeMap<String, String>) -> Answer<bool> {
    known(query, &["force"])?;
    match query.get("force").map(String::as_str) {
        None | Some("false") => Ok(false),
        Some("true") => Ok(true),
        Some(other) => {
            let what = format!("query parameter `force` is `true` or `false`, not `{other}`");
            Err(Problem::bad_request(what))
        }
    }
}

/// The page that a request asks for: one entry more than is shown, so that we know of a next one.
///
/// # Errors
///
/// 400 as [`known`], and for a marker that we cannot have given.
pub fn page(query: &BTreeMap<String, String>) -> Answer<InstanceFilter> {
    known(query, &["nextpage_opaque_marker"])?;
    let after = query.get("nextpage_opaque_marker").cloned();
    if let Some(marker) = after.as_ref().filter(|marker| Uuid::parse_str(marker).is_err()) {
        let what = format!("`nextpage_opaque_marker` is not one of ours: `{marker}`");
        return Err(Problem::bad_request(what));
    }
    Ok(InstanceFilter { after, limit: PAGE + 1, instance_id: None })
}

/// A page with its `Link: rel="next"`, where `all` has one entry more than fits.
pub fn answer<T: Serialize>(mut all: Vec<T>, uri: &str, id: impl Fn(&T) -> String) -> Response {
    let more = all.len() > PAGE;
    all.truncate(PAGE);
    let last = all.last().map(id);
    let mut response = axum::Json(all).into_response();
    if let (true, Some(last)) = (more, last) {
        let link = format!("<{uri}?nextpage_opaque_marker={last}>; rel=\"next\"");
        if let Ok(link) = HeaderValue::from_str(&link) {
            response.headers_mut().insert(header::LINK, link);
        }
    }
    response
}
