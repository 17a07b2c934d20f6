//! Moves the sealing key to the real cloud's Barbican and back, with a crash in between.

use std::time::Duration;

use serde_json::{Value, json};
use vnfm_tests::live::{neighbour, skip};
use vnfm_tests::programs::Server;

/// Registers the cloud; returns the path of its VIM.
fn register_cloud(server: &Server, clouds: &std::path::Path) -> String {
    let path = clouds.to_string_lossy();
    let file = ["--config-file", &path, "--cloud", "nfv"];
    let vim = server.ctl(&[&["vim", "register", "--name", "cloud"], &file[..]].concat());
    format!("/vnfm/v1/vims/{}", vim["id"].as_str().unwrap())
}

#[test]
fn the_secret_key_moves_to_barbican_and_back() {
    let Some(clouds) = neighbour("VNFM_LIVE_OPENSTACK") else {
        return;
    };
    let file: Value = serde_yaml::from_str(&std::fs::read_to_string(&clouds).unwrap()).unwrap();
    let login = |member: &str| {
        file["clouds"]["nfv"]["auth"][member]
            .as_str()
            .unwrap()
            .to_owned()
    };
    let folder = tempfile::tempdir().unwrap();
    let password = folder.path().join("password");
    std::fs::write(&password, login("password")).unwrap();
    // At first the key is in the file.
    let mut server = Server::start(folder.path(), "info");
    let vim = register_cloud(&server, &clouds);
    if !server
        .run(&["vim", "check", "cloud", "-o", "json"])
        .stdout
        .contains("key-manager")
    {
        return skip("the cloud has no Barbican; OPENSTACK_BARBICAN=1 starts one with it");
    }
    let refused = server.refused(&["secrets", "migrate", "--to", "barbican"]);
    assert!(refused.contains("secrets.barbican"), "{refused}");
    server.terminate();
    let settings = json!({"secrets": {"barbican": {"endpoint": login("auth_url"), "user": login("username"),
        "project": login("project_name"), "password_file": password}}});
    std::fs::write(folder.path().join("server.yaml"), settings.to_string()).unwrap();
    server.begin();
    assert_eq!(
        server.get(&vim).get("key_type"),
        None,
        "nothing moves by itself"
    );
    server.ctl(&["secrets", "migrate", "--to", "barbican"]);
    let key_file = folder.path().join("data/secrets.key");
    assert!(!key_file.exists());
    let stored = server.get(&vim);
    assert_eq!(stored["key_type"], "barbican_key", "{stored:#}");
    server.kill();
    server.begin();
    assert_eq!(server.get(&vim)["secret_uuid"], stored["secret_uuid"]);
    server.ctl(&["vim", "check", "cloud"]); // which needs the password that was sealed
    server.ctl(&["secrets", "rotate"]);
    assert_ne!(
        server.get(&vim)["secret_uuid"],
        stored["secret_uuid"],
        "a new key"
    );
    let back = server.ctl(&["secrets", "migrate", "--to", "file"]);
    assert_eq!(back["keyIn"], "file", "{back:#}");
    assert_eq!(back["unused"].as_array().unwrap().len(), 2, "{back:#}");
    server.ctl(&["vim", "check", "cloud"]);
    let (status, took) = server.terminate();
    assert!(
        status.success() && took < Duration::from_secs(10),
        "{status} {took:?}"
    );
}
