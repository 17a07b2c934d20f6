//! The real systems provide what the other tests assume.

use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};
use vnfm_tests::live::neighbour;

/// Logs in; returns the token and the catalogue.
fn login(
    clouds: &Path,
    cloud: &str,
    password: Option<&str>,
) -> Result<(String, Value), ureq::Error> {
    let file: Value = serde_yaml::from_str(&std::fs::read_to_string(clouds).unwrap()).unwrap();
    let auth = &file["clouds"][cloud]["auth"];
    let password = password.map_or_else(|| auth["password"].clone(), Value::from);
    let url = format!("{}/auth/tokens", auth["auth_url"].as_str().unwrap());
    let mut answer = ureq::post(&url).send_json(json!({ "auth": {
        "identity": { "methods": ["password"], "password": { "user": {
            "name": auth["username"], "domain": { "id": "default" }, "password": password } } },
        "scope": { "project": { "name": auth["project_name"], "domain": { "id": "default" } } } } }))?;
    let token = answer.headers()["X-Subject-Token"]
        .to_str()
        .unwrap()
        .to_owned();
    Ok((
        token,
        answer.body_mut().read_json::<Value>()?["token"]["catalog"].clone(),
    ))
}

#[test]
fn openstack_issues_tokens_to_its_user_only() {
    let Some(clouds) = neighbour("VNFM_LIVE_OPENSTACK") else {
        return;
    };
    let (token, catalog) = login(&clouds, "nfv", None).unwrap();
    assert!(token.len() > 20);
    let services: Vec<_> = catalog
        .as_array()
        .unwrap()
        .iter()
        .map(|entry| entry["type"].as_str().unwrap())
        .collect();
    for service in ["compute", "image", "network", "orchestration", "placement"] {
        assert!(
            services.contains(&service),
            "no `{service}` in {services:?}"
        );
    }
    let refused = login(&clouds, "nfv", Some("not-the-password")).unwrap_err();
    assert!(matches!(refused, ureq::Error::StatusCode(401)), "{refused}");
}

#[test]
fn openstack_has_the_resources_named_by_the_samples() {
    let Some(clouds) = neighbour("VNFM_LIVE_OPENSTACK") else {
        return;
    };
    let (token, catalog) = login(&clouds, "nfv", None).unwrap();
    for (service, path, key, name) in [
        ("compute", "/flavors", "flavors", "m1.tiny"),
        ("image", "/v2/images", "images", "nfv-image"),
        ("network", "/v2.0/networks", "networks", "provider"),
    ] {
        let entry = catalog
            .as_array()
            .unwrap()
            .iter()
            .find(|entry| entry["type"] == service)
            .unwrap();
        let endpoints = entry["endpoints"].as_array().unwrap();
        let public = endpoints
            .iter()
            .find(|endpoint| endpoint["interface"] == "public")
            .unwrap();
        let url = format!("{}{path}", public["url"].as_str().unwrap());
        let body: Value = ureq::get(&url)
            .header("X-Auth-Token", &token)
            .call()
            .unwrap()
            .body_mut()
            .read_json()
            .unwrap();
        let names: Vec<_> = body[key]
            .as_array()
            .unwrap()
            .iter()
            .map(|item| item["name"].clone())
            .collect();
        assert!(names.contains(&name.into()), "no `{name}` in {names:?}");
    }
}

#[test]
fn kubernetes_has_a_ready_simulated_node() {
    let (Some(kubeconfig), Some(assets)) = (
        neighbour("VNFM_LIVE_KUBECONFIG"),
        neighbour("VNFM_LIVE_ASSETS"),
    ) else {
        return;
    };
    let output = Command::new(assets.join("kubectl"))
        .arg("--kubeconfig")
        .arg(kubeconfig)
        .args(["get", "nodes", "-o", "json"])
        .output()
        .unwrap();
    let nodes: Value = serde_json::from_slice(&output.stdout).unwrap();
    let ready = |node: &Value| {
        let conditions = node["status"]["conditions"]
            .as_array()
            .cloned()
            .unwrap_or_default();
        conditions
            .iter()
            .any(|condition| condition["type"] == "Ready" && condition["status"] == "True")
    };
    assert!(
        nodes["items"].as_array().unwrap().iter().any(ready),
        "{nodes}"
    );
}
