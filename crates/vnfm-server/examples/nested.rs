//! The SOL003 API embedded in another application: nested below a path, behind the application's
//! login, on its own engine.
//!
//! `cargo run -p vnfm-server --example nested`

use axum::Router;
use axum::extract::Request;
use axum::http::StatusCode;
use axum::middleware::{Next, from_fn};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use vnfm::memory::{MemoryPackages, MemoryStore};
use vnfm::ports::{Change, PackageRecord, Store as _};
use vnfm::{Engine, EngineParts, StaticPlugins, SystemClock};
use vnfm_nfvo::{Callbacks, Networks, Tls};
use vnfm_server::{
    App, AppState, Externals, Onboarding, Only, Packages, Principal, Role, Signatures, drive,
    router,
};
use vnfm_store::PackageDir;

/// The application's own login, here just a header. It identifies the caller as a `Principal`.
async fn login(mut request: Request, next: Next) -> Response {
    let user = request
        .headers()
        .get("x-user")
        .and_then(|user| user.to_str().ok());
    let Some(name) = user.map(ToOwned::to_owned) else {
        return StatusCode::UNAUTHORIZED.into_response();
    };
    let (way, tenant, only) = ("own", format!("{name}-inc"), Only::default());
    request.extensions_mut().insert(Principal {
        name,
        login_method: way,
        tenant,
        role: Role::Operate,
        scope: only,
    });
    next.run(request).await
}

/// Starts the application and returns the URL of its VNF instances.
async fn start() -> anyhow::Result<String> {
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let (clock, folder) = (
        Arc::new(SystemClock),
        std::env::temp_dir().join("vnfm-nested"),
    );
    let store = Arc::new(MemoryStore::new(clock.clone()));
    let record = PackageRecord::onboarded("alice-inc", "p", "a-vnfd");
    store
        .write(None, vec![Change::AddPackage(Box::new(record))])
        .await?;
    let packages = Arc::new(MemoryPackages::default());
    let engine = Engine::new(EngineParts::new(store.clone(), packages, clock.clone()));

    // The API: uploads go into a folder, notifications to callbacks; links use the public URL.
    let uploads = Arc::new(PackageDir::open(
        &folder,
        vnfm::descriptor::Limits::default(),
    )?);
    let trusted = (
        Signatures::new(Packages::default(), clock.clone())?,
        Externals::new(&[])?,
    );
    let hooks = Arc::new(StaticPlugins::default());
    let onboarding = Onboarding::new(store, uploads, hooks, trusted, 1 << 30);
    let timeout = Duration::from_secs(10);
    let callbacks = Callbacks::new(Networks::default(), timeout, &Tls::default(), clock.clone())?;
    let state = AppState::embedded(engine.clone(), onboarding, Arc::new(callbacks))?
        .with_public_url("http://orchestrator.example.com/nfv");
    let state = App::from(state);
    // Accepted operations are driven on this runtime.
    let accepted = state.drive_queue();
    tokio::spawn(drive(engine, clock, accepted, std::future::pending()));
    let sol003 = router(state).layer(from_fn(login));
    let application = Router::new().nest("/nfv", sol003);
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    let instances = format!(
        "http://{}/nfv/vnflcm/v2/vnf_instances",
        listener.local_addr()?
    );
    tokio::spawn(async move { axum::serve(listener, application).await });
    Ok(instances)
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let instances = start().await?;
    let client = reqwest::Client::builder().no_proxy().build()?;
    let list = || client.get(&instances).header("version", "2.3.0");
    println!(
        "without a login: {}",
        list().send().await?.status().as_u16()
    );
    let seen: Vec<Value> = list()
        .header("x-user", "alice")
        .send()
        .await?
        .json()
        .await?;
    println!("alice sees {} instances", seen.len());
    let request = client
        .post(&instances)
        .header("version", "2.3.0")
        .header("x-user", "alice");
    let response = request.json(&json!({"vnfdId": "a-vnfd"})).send().await?;
    println!("alice makes one: {}", response.status().as_u16());
    println!("it is at {}", response.headers()["location"].to_str()?);
    let seen: Vec<Value> = list().header("x-user", "bob").send().await?.json().await?;
    println!("bob, of another tenant, sees {} instances", seen.len());
    Ok(())
}
