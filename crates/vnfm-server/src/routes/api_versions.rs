//! `api_versions` (SOL013 9.3.3): what is served under each of the standard's prefixes.

use axum::Json;
use serde_json::{Value, json};

/// One of the standard's interfaces.
pub struct Api {
    prefix: &'static str,
    /// Versions, oldest first.
    pub versions: &'static [&'static str],
}

/// VNF LCM, SOL003 V3.3.1 to V3.7.1.
pub const LCM: Api = Api { prefix: "/vnflcm/v2", versions: &["2.0.0", "2.3.0"] };
/// VNF package management the SOL005 way.
pub const PACKAGES: Api = Api { prefix: "/vnfpkgm/v2", versions: &["2.0.0", "2.3.0"] };

/// The interface that a path belongs to; none for our own API and for `api_versions`.
pub fn api_of(path: &str) -> Option<&'static Api> {
    if path.ends_with("/api_versions") {
        return None;
    }
    [&LCM, &PACKAGES].into_iter().find(|api| path.starts_with(api.prefix))
}

/// `GET /vnflcm/…/api_versions`.
pub async fn lcm() -> Json<Value> {
    shown(&LCM)
}

/// `GET /vnfpkgm/…/api_versions`.
pub async fn packages() -> Json<Value> {
    shown(&PACKAGES)
}

fn shown(api: &Api) -> Json<Value> {
    let versions: Vec<_> = api
        .versions
        .iter()
        .map(|version| json!({"version": version, "isDeprecated": false}))
        .collect();
    Json(json!({"uriPrefix": api.prefix, "apiVersions": versions}))
}
