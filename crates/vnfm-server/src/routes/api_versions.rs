//! `api_versions` (SOL013 9.3.3): what is served under each of the standard's prefixes.

use axum::Json;
use serde_json::{Value, json};

/// One of the standard's interfaces.
pub struct Api {
    prefix: &'static str,
    /// Versions, oldest first.
    pub versions: &'static [&'static str],
    /// What a request is taken for that names none.
    pub assumed: Option<&'static str>,
}

/// VNF LCM, SOL003 V3.3.1 to V3.7.1.
pub const LCM: Api = Api { prefix: "/vnflcm/v2", versions: &["2.0.0", "2.3.0"], assumed: None };
/// VNF LCM, SOL003 V2.6.1. Clients of Tacker's first interface name no version.
pub const LCM_V1: Api = Api { prefix: "/vnflcm/v1", versions: &["1.3.0"], assumed: Some("1.3.0") };
/// All of VNF LCM, for its `api_versions` alone.
const ALL_LCM: Api =
    Api { prefix: "/vnflcm", versions: &["1.3.0", "2.0.0", "2.3.0"], assumed: None };
/// VNF package management the SOL005 way; 2.4.0 is what SOL003 and SOL005 V3.7.1 have.
pub const PACKAGES: Api =
    Api { prefix: "/vnfpkgm/v2", versions: &["2.0.0", "2.3.0", "2.4.0"], assumed: None };

/// The same, for its `api_versions` alone.
const ALL_PACKAGES: Api = Api { prefix: "/vnfpkgm", ..PACKAGES };

/// The interface that a path belongs to; none for our own API and for `api_versions`.
pub fn api_of(path: &str) -> Option<&'static Api> {
    if path.ends_with("/api_versions") {
        return None;
    }
    [&LCM, &LCM_V1, &PACKAGES].into_iter().find(|api| path.starts_with(api.prefix))
}

/// `GET /vnflcm/api_versions`: every version there is.
pub async fn lcm() -> Json<Value> {
    shown(&ALL_LCM)
}

/// `GET /vnflcm/v2/api_versions`.
pub async fn lcm_v2() -> Json<Value> {
    shown(&LCM)
}

/// `GET /vnflcm/v1/api_versions`.
pub async fn lcm_v1() -> Json<Value> {
    shown(&LCM_V1)
}

/// `GET /vnfpkgm/api_versions`.
pub async fn packages() -> Json<Value> {
    shown(&ALL_PACKAGES)
}

/// `GET /vnfpkgm/v2/api_versions`.
pub async fn packages_v2() -> Json<Value> {
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
