//! SOL003 as a part of another application: nested below a path of it, behind its own login, over its own engine.
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
use vnfm_server::access::{Principal, Role, principal::Only};
use vnfm_server::externals::Externals;
use vnfm_server::signatures::{Packages, Signatures};
use vnfm_server::state::AppState;
use vnfm_server::{drive, onboarding::Onboarding, routes};
use vnfm_store::PackageDir;

/// The application's own login: here a header that anybody can send. What it says of somebody is a `Principal`.
async fn login(mut request: Request, next: Next) -> Response {
    let who = request
        .headers()
        .get("x-user")
        .and_then(|user| user.to_str().ok());
    let Some(name) = who.map(ToOwned::to_owned) else {
        return StatusCode::UNAUTHORIZED.into_response();
    };
    let (way, tenant, only) = ("own", format!("{name}-inc"), Only::default());
    request.extensions_mut().insert(Principal {
        name,
        way,
        tenant,
        role: Role::Operate,
        only,
    });
    next.run(request).await
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
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

    // The facade: uploads go into a folder, notifications to callbacks; links are as its clients see them.
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
    let answer = Duration::from_secs(10);
    let callbacks = Callbacks::new(Networks::default(), answer, &Tls::default(), clock.clone())?;
    let mut facade = AppState::embedded(engine.clone(), onboarding, Arc::new(callbacks))?;
    facade.public_url = Some("http://orchestrator.example.com/nfv".to_owned());
    let facade = Arc::new(facade);
    // What is accepted is driven on this runtime.
    tokio::spawn(drive::run(
        engine,
        clock,
        facade.wake.clone(),
        std::future::pending(),
    ));
    let sol003 = routes::router(facade).layer(from_fn(login));
    let application = Router::new().nest("/nfv", sol003);
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    let instances = format!(
        "http://{}/nfv/vnflcm/v2/vnf_instances",
        listener.local_addr()?
    );
    tokio::spawn(async move { axum::serve(listener, application).await });

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
    let make = client
        .post(&instances)
        .header("version", "2.3.0")
        .header("x-user", "alice");
    let made = make.json(&json!({"vnfdId": "a-vnfd"})).send().await?;
    println!("alice makes one: {}", made.status().as_u16());
    println!("it is at {}", made.headers()["location"].to_str()?);
    let seen: Vec<Value> = list().header("x-user", "bob").send().await?.json().await?;
    println!("bob, of another tenant, sees {} instances", seen.len());
    Ok(())
}
