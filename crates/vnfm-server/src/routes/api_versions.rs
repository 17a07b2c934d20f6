//! `api_versions` (SOL013 9.3.3): the versions under each of the standard's prefixes. `uriPrefix` is the full
//! `{apiRoot}/{apiName}/{apiMajorVersion}/` (7.1.6) from the client's view; for an interface with all its major
//! versions it ends with the API name.

use crate::view::Root;
use axum::Json;
use serde_json::{Value, json};

/// An interface of the standard.
pub struct Api {
    /// The prefix of its paths.
    prefix: &'static str,
    /// Supported versions, oldest first.
    pub versions: &'static [&'static str],
    /// The version of requests that name none.
    pub assumed: Option<&'static str>,
}

/// VNF LCM, SOL003 V3.3.1 to V3.7.1.
pub static LCM: Api = Api {
    prefix: "/vnflcm/v2",
    versions: &["2.0.0", "2.3.0"],
    assumed: None,
};
/// VNF LCM, SOL003 V2.6.1. Clients of Tacker's first interface send no version.
pub static LCM_V1: Api = Api {
    prefix: "/vnflcm/v1",
    versions: &["1.3.0"],
    assumed: Some("1.3.0"),
};
/// All versions of VNF LCM, only for its `api_versions`.
static ALL_LCM: Api = Api {
    prefix: "/vnflcm",
    versions: &["1.3.0", "2.0.0", "2.3.0"],
    assumed: None,
};
/// VNF package management as in SOL005; 2.4.0 is the version in SOL003 and SOL005 V3.7.1.
pub static PACKAGES: Api = Api {
    prefix: "/vnfpkgm/v2",
    versions: &["2.0.0", "2.3.0", "2.4.0"],
    assumed: None,
};

/// All versions of VNF package management, only for its `api_versions`.
static ALL_PACKAGES: Api = Api {
    prefix: "/vnfpkgm",
    versions: PACKAGES.versions,
    assumed: None,
};

/// The interface of a path, and whether the path is its `api_versions`; `None` for our own API.
pub fn api_of(path: &str) -> Option<(&'static Api, bool)> {
    let below = |api: &Api| {
        let rest = path.strip_prefix(api.prefix)?;
        (rest.is_empty() || rest.starts_with('/')).then_some(rest == "/api_versions")
    };
    let versioned = [&LCM, &LCM_V1, &PACKAGES].into_iter();
    let unversioned = [&ALL_LCM, &ALL_PACKAGES]
        .into_iter()
        .filter(|api| below(api) == Some(true));
    versioned
        .chain(unversioned)
        .find_map(|api| Some((api, below(api)?)))
}

/// `GET /vnflcm/api_versions`: every version.
pub async fn lcm(root: Root) -> Json<Value> {
    api_versions(&ALL_LCM, &root)
}

/// `GET /vnflcm/v2/api_versions`.
pub async fn lcm_v2(root: Root) -> Json<Value> {
    api_versions(&LCM, &root)
}

/// `GET /vnflcm/v1/api_versions`.
pub async fn lcm_v1(root: Root) -> Json<Value> {
    api_versions(&LCM_V1, &root)
}

/// `GET /vnfpkgm/api_versions`.
pub async fn packages(root: Root) -> Json<Value> {
    api_versions(&ALL_PACKAGES, &root)
}

/// `GET /vnfpkgm/v2/api_versions`.
pub async fn packages_v2(root: Root) -> Json<Value> {
    api_versions(&PACKAGES, &root)
}

fn api_versions(api: &Api, root: &Root) -> Json<Value> {
    let versions: Vec<_> = api
        .versions
        .iter()
        .map(|version| json!({"version": version, "isDeprecated": false}))
        .collect();
    let prefix = format!("{}{}/", root.url, api.prefix);
    Json(json!({"uriPrefix": prefix, "apiVersions": versions}))
}
