//! What every response must be, by its path: of the standard's form, or a ProblemDetails with a known code.

use crate::bench::Response;
use crate::oracle;
use reqwest::header::CONTENT_TYPE;
use serde_json::Value;
use vnfm_server::reference;

/// Checks a response against the standard.
pub(crate) fn check(path: &str, response: &Response) {
    let versioned = ["/vnflcm/v1/", "/vnflcm/v2/", "/vnfpkgm/v2/"]
        .iter()
        .any(|api| path.starts_with(api));
    if versioned || path.ends_with("/api_versions") {
        assert!(
            response.headers.contains_key("version"),
            "no Version in {response:?}"
        );
    }
    if response.status >= 400 {
        assert_eq!(
            response.headers[CONTENT_TYPE], "application/problem+json",
            "{response:?}"
        );
        assert_eq!(response.body["status"], response.status, "{response:?}");
        let code = response.body["code"].as_str().unwrap();
        let ours = reference::CODES.iter().any(|(name, ..)| *name == code);
        let drivers = vnfm_kubernetes::errors::CODES.to_vec();
        let files = vnfm_store::FILE_CODES.to_vec();
        let engines = [vnfm_core::codes(), vnfm_nfvo::codes(), drivers, files].concat();
        let engines = engines.iter().any(|one| one.name == code);
        assert!(
            ours || engines || code.starts_with("test."),
            "`{code}` is in no table of codes"
        );
        return oracle::check("ProblemDetails", &response.body);
    }
    let resource = path.split('/').nth(3).unwrap_or_default();
    // The content of a package can be anything, and a PATCH of one returns only the changes.
    if resource == "vnf_packages" && path.split('/').count() > 5 {
        return;
    }
    let own = ["/plan", "/policy", "/schedule", "/files"];
    if own.iter().any(|end| path.ends_with(end)) || path.contains("/files/") {
        return;
    }
    if resource == "vnf_packages" && !response.is_all {
        return oracle::check_sol005("VnfPkgInfoModifications", &response.body);
    }
    let kind = match resource {
        "vnf_instances" => "VnfInstance",
        "vnf_lcm_op_occs" => "VnfLcmOpOcc",
        "vnf_packages" => "VnfPkgInfo",
        "subscriptions" => "LccnSubscription",
        _ => return,
    };
    let check = if path.starts_with("/vnflcm/v1/") {
        oracle::check_v1
    } else {
        oracle::check
    };
    match &response.body {
        Value::Null => {}
        Value::Array(entries) => entries.iter().for_each(|entry| check(kind, entry)),
        entry => check(kind, entry),
    }
}
