//! A real OpenStack: `VNFM_LIVE_OPENSTACK` is the path of a clouds.yaml with a cloud `nfv`.
//!
//! The cloud has a network `provider`, an image `nfv-image`, and two hypervisors.

use crate::support::TestBed;
use serde_json::{Value, json};
use vnfm_types::{OPENSTACK, VimConnectionInfo};

/// The cloud's connection; prints why and returns `None` if the tier cannot run.
pub(crate) fn connection() -> Option<VimConnectionInfo> {
    let Ok(path) = std::env::var("VNFM_LIVE_OPENSTACK") else {
        let why = "skipped: VNFM_LIVE_OPENSTACK names no clouds.yaml; `cargo xtask stack up openstack` starts a cloud";
        assert!(
            std::env::var("VNFM_REQUIRE_LIVE").as_deref() != Ok("1"),
            "{why}"
        );
        eprintln!("{why}");
        return None;
    };
    let clouds = clouds(&path);
    let cloud = &clouds["clouds"]["nfv"];
    let info = json!({
        "vimType": OPENSTACK,
        "interfaceInfo": {"endpoint": cloud["auth"]["auth_url"]},
        "accessInfo": {
            "username": cloud["auth"]["username"],
            "password": cloud["auth"]["password"],
            "project": cloud["auth"]["project_name"],
            "userDomain": cloud["auth"]["user_domain_id"],
            "projectDomain": cloud["auth"]["project_domain_id"],
            "region": cloud["region_name"],
        },
    });
    Some(serde_json::from_value(info).unwrap())
}

fn clouds(path: &str) -> Value {
    let text = std::fs::read_to_string(path).unwrap_or_else(|error| panic!("`{path}`: {error}"));
    serde_yaml::from_str(&text).unwrap()
}

/// Name and password of another user of the clouds.yaml.
pub(crate) fn login(cloud: &str) -> (String, String) {
    let clouds = clouds(&std::env::var("VNFM_LIVE_OPENSTACK").unwrap());
    let auth = &clouds["clouds"][cloud]["auth"];
    let text = |name: &str| auth[name].as_str().unwrap().to_owned();
    (text("username"), text("password"))
}

pub(crate) fn bed() -> Option<TestBed> {
    Some(TestBed::new(connection()?, "provider"))
}
