//! `api_versions` (SOL013 9.3.3): the versions under each of the standard's prefixes. `uriPrefix` is the full
//! `{apiRoot}/{apiName}/{apiMajorVersion}/` (7.1.6) from the client's view; for an interface with all its major
//! versions it ends with the API name.

use crate::problem::{HandlerResult, Problem};
use crate::view::Root;
use axum::Json;
use axum::http::Uri;
use serde_json::{Value, json};

/// An interface of the standard.
pub(crate) struct Api {
    /// The prefix of its paths.
    prefix: &'static str,
    /// Versions that the server supports, the oldest first.
    pub versions: &'static [&'static str],
    /// The version of requests that name none.
    pub assumed: Option<&'static str>,
}

/// VNF LCM, SOL003 V3.3.1 to V3.7.1.
pub(crate) static LCM: Api = Api {
    prefix: "/vnflcm/v2",
    versions: &["2.0.0", "2.3.0"],
    assumed: None,
};
/// VNF LCM, SOL003 V2.6.1. Clients of Tacker's first interface send no version.
pub(crate) static LCM_V1: Api = Api {
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
pub(crate) static PACKAGES: Api = Api {
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
pub(crate) fn api_of(path: &str) -> Option<(&'static Api, bool)> {
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

/// The versions of the interface at the path of the request.
///
/// # Errors
///
/// 404 if the path belongs to no interface.
pub(crate) async fn show(root: Root, uri: Uri) -> HandlerResult<Json<Value>> {
    let Some((api, _)) = api_of(uri.path()) else {
        return Err(Problem::not_found(format!(
            "no interface at `{}`",
            uri.path()
        )));
    };
    let versions: Vec<_> = api
        .versions
        .iter()
        .map(|version| json!({"version": version, "isDeprecated": false}))
        .collect();
    let prefix = format!("{}{}/", root.url, api.prefix);
    Ok(Json(json!({"uriPrefix": prefix, "apiVersions": versions})))
}
