//! The sealing key in Barbican, on a simulated cloud.

use crate::process::{Server, started, with_config};
use serde_json::{Value, json};
use std::io::Read as _;
use std::path::Path;
use std::process::Command;
use tempfile::TempDir;
use vnfm_sim::faults::{Fault, Rule};
use vnfm_sim::{Options, World};

struct Lab {
    world: World,
    folder: TempDir,
}

impl Lab {
    async fn new() -> Self {
        let (world, folder) = (
            World::start(Options::default()).await.unwrap(),
            tempfile::tempdir().unwrap(),
        );
        let lab = Self { world, folder };
        std::fs::write(lab.file("password"), &lab.world.endpoints().password).unwrap();
        lab
    }

    fn file(&self, name: &str) -> std::path::PathBuf {
        self.folder.path().join(name)
    }

    fn data(&self) -> std::path::PathBuf {
        self.file("data")
    }

    /// The program; with `wait`, its key is in Barbican, for which it waits this many seconds.
    fn with(&self, wait: Option<u64>) -> Command {
        let at = self.world.endpoints();
        let settings = json!({"secrets": {"barbican": {"endpoint": at.auth_url, "user": at.user, "project": at.user,
            "password_file": self.file("password"), "wait_seconds": wait}}});
        let settings = if wait.is_some() { settings } else { json!({}) };
        std::fs::write(self.file("vnfm.yaml"), settings.to_string()).unwrap();
        with_config(&self.data(), &self.file("vnfm.yaml"))
    }

    async fn start(&self, barbican: bool) -> Server {
        let mut command = self.with(barbican.then_some(30));
        tokio::task::spawn_blocking(move || started(&mut command))
            .await
            .unwrap()
    }

    /// Registers a VIM with a password; returns its id.
    async fn register(&self, server: &Server) -> String {
        let at = self.world.endpoints();
        let connection = json!({"vimType": "ETSINFV.OPENSTACK_KEYSTONE.V_3", "interfaceInfo": {"endpoint": at.auth_url},
            "accessInfo": {"username": at.user, "password": at.password, "project": at.user}});
        let body = json!({"name": "cloud", "connection": connection});
        let vim = call(server, "POST", "/vnfm/v1/vims", Some(body)).await;
        assert_eq!(vim.0, 201, "{}", vim.1);
        vim.1["id"].as_str().unwrap().to_owned()
    }
}

async fn call(server: &Server, method: &str, path: &str, body: Option<Value>) -> (u16, Value) {
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    let request = client.request(method.parse().unwrap(), format!("{}{path}", server.url));
    let request = match body {
        Some(body) => request.json(&body),
        None => request,
    };
    let response = request.send().await.unwrap();
    (
        response.status().as_u16(),
        response.json().await.unwrap_or_default(),
    )
}

async fn migrate(server: &Server, to: &str) -> (u16, Value) {
    call(
        server,
        "POST",
        "/vnfm/v1/secrets/migrate",
        Some(json!({"to": to})),
    )
    .await
}

fn has_key_file(data: &Path) -> bool {
    data.join("secrets.key").exists()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_server_stores_its_key_in_barbican_and_restarts_with_it() {
    let lab = Lab::new().await;
    let server = lab.start(true).await;
    let vim = format!("/vnfm/v1/vims/{}", lab.register(&server).await);
    let info = call(&server, "GET", &vim, None).await.1;
    assert_eq!(info["key_type"], "barbican_key", "{info:#}");
    let stored = lab.world.ledger().calls_named("barbican.secret_create");
    assert_eq!(stored.len(), 1);
    assert!(!has_key_file(&lab.data()));
    let ready = call(&server, "GET", "/readyz", None).await;
    assert_eq!((ready.0, &ready.1["parts"]["keys"]), (200, &json!("ready")));
    drop(server);
    let server = lab.start(true).await;
    assert_eq!(
        call(&server, "GET", &vim, None).await.1["secret_uuid"],
        info["secret_uuid"]
    );
    // It logs in with the sealed password.
    assert_eq!(
        call(&server, "POST", &format!("{vim}/check"), None).await.0,
        200
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn the_key_migrates_to_barbican_and_back() {
    let lab = Lab::new().await;
    let server = lab.start(false).await;
    let vim = format!("/vnfm/v1/vims/{}", lab.register(&server).await);
    let refused = migrate(&server, "barbican").await;
    assert_eq!(
        (refused.0, &refused.1["code"]),
        (409, &json!("store.keys-refused")),
        "{}",
        refused.1
    );
    assert!(
        refused.1["detail"]
            .as_str()
            .unwrap()
            .contains("`secrets.barbican`"),
        "{}",
        refused.1
    );
    drop(server);
    let server = lab.start(true).await;
    let info = call(&server, "GET", &vim, None).await.1;
    assert!(
        info.get("key_type").is_none() && has_key_file(&lab.data()),
        "{info:#}"
    );
    lab.world
        .faults()
        .add(Rule::new("barbican.*", Fault::Status { status: 503 }).nth(1, 99));
    let unavailable = migrate(&server, "barbican").await;
    assert_eq!(
        (unavailable.0, &unavailable.1["code"]),
        (503, &json!("store.keys-away")),
        "{}",
        unavailable.1
    );
    assert!(has_key_file(&lab.data()), "nothing was changed");
    lab.world.faults().clear();
    migrate_both_ways(&lab, &server, &vim).await;
}

/// Migrates the key to Barbican and back to the file; the VIM stays usable.
async fn migrate_both_ways(lab: &Lab, server: &Server, vim: &str) {
    let there = migrate(server, "barbican").await;
    assert_eq!(
        (there.0, &there.1["keyIn"]),
        (200, &json!("barbican")),
        "{}",
        there.1
    );
    assert_eq!(there.1["keys"].as_array().unwrap().len(), 1, "{}", there.1);
    assert!(!has_key_file(&lab.data()));
    assert_eq!(
        call(server, "GET", vim, None).await.1["key_type"],
        "barbican_key"
    );
    let returned = migrate(server, "file").await;
    assert_eq!(
        (returned.0, &returned.1["keyIn"]),
        (200, &json!("file")),
        "{}",
        returned.1
    );
    assert_eq!(
        returned.1["unused"].as_array().unwrap().len(),
        1,
        "the unused key is listed, not deleted"
    );
    assert!(has_key_file(&lab.data()));
    assert_eq!(
        call(server, "POST", &format!("{vim}/check"), None).await.0,
        200
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn startup_waits_for_barbican_and_then_fails_with_a_hint() {
    let lab = Lab::new().await;
    drop(lab.start(true).await);
    lab.world
        .faults()
        .add(Rule::new("barbican.secret_payload", Fault::Status { status: 503 }).nth(1, 99));
    let mut command = lab.with(Some(1));
    let ended = tokio::task::spawn_blocking(move || {
        let mut process = command.spawn().unwrap();
        let mut log = String::new();
        process
            .stderr
            .take()
            .unwrap()
            .read_to_string(&mut log)
            .unwrap();
        (process.wait().unwrap(), log)
    });
    let (status, log) = ended.await.unwrap();
    assert!(!status.success());
    assert!(
        log.contains("check that Keystone and Barbican answer"),
        "{log}"
    );
    assert!(!log.contains(&lab.world.endpoints().password), "{log}");
    // The first attempt with its retries fails; the next one succeeds.
    lab.world.faults().clear();
    lab.world
        .faults()
        .add(Rule::new("barbican.secret_payload", Fault::Status { status: 503 }).nth(1, 5));
    let mut server = lab.start(true).await;
    assert_eq!(call(&server, "GET", "/readyz", None).await.0, 200);
    server.process.kill().unwrap();
    let mut log = String::new();
    server
        .process
        .stderr
        .take()
        .unwrap()
        .read_to_string(&mut log)
        .unwrap();
    assert!(log.contains("waiting for it"), "{log}");
}
