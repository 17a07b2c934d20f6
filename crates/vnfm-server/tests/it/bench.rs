//! A server on a free port, and a client that checks every response.

use crate::world::{Driver, Mgmt, Only, World};
use crate::{headers, oracle, standard_response};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use reqwest::header::{CONTENT_TYPE, HeaderMap, LOCATION};
use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tempfile::TempDir;
use tokio::task::JoinSet;
use vnfm::SystemClock;
use vnfm_core::lcm::{OPERATIONS, Operation};
use vnfm_core::ports::StoreAdmin as _;
use vnfm_core::ports::{Clock, StoreError};
use vnfm_core::{DeliveryTimeouts, Drivers, Engine, EngineParts, Notifier};
use vnfm_kubernetes::KubernetesDriver;
use vnfm_nfvo::{Callbacks, Networks, Tls};
use vnfm_server::reference::{self, Route};
use vnfm_server::{
    Access, Allowance, App, AppState, Externals, MeasuredSubscribers, Metrics, Nfvo,
    NfvoConnection, Onboarding, Packages, Rotate, Signatures, drive, router,
};
use vnfm_store::{FileDir, PackageDir, SqliteStore};
use vnfm_types::Secret;

/// The password of every user.
pub(crate) const PASSWORD: &str = "planted-password";
/// [`PASSWORD`], hashed with the cheapest parameters, to keep tests fast.
pub(crate) const HASHED: &str = "$argon2id$v=19$m=64,t=1,p=1$xujd1/a21sl7dd9Ve2+HDA$0S7vqNQWTHP2Xn4eaJn6Y3De5rMuvW3RU7jMxQXFhtM";

pub(crate) const INSTANCES: &str = "/vnflcm/v2/vnf_instances";
pub(crate) const OPS: &str = "/vnflcm/v2/vnf_lcm_op_occs";
pub(crate) const PACKAGES: &str = "/vnfpkgm/v2/vnf_packages";
pub(crate) const VIMS: &str = "/vnfm/v1/vims";

/// What the server under test is started with.
pub(crate) struct Setup {
    pub(crate) token: Option<&'static str>,
    /// `access` of the configuration file.
    pub(crate) access: Option<String>,
    pub(crate) largest: u64,
    pub(crate) page: usize,
    pub(crate) hooks: &'static [&'static str],
    /// Whether the MgmtDriver has the name from the original specification, and no schema.
    pub(crate) as_seed: bool,
    /// TLS settings for calls to subscribers.
    pub(crate) tls: Tls,
    /// Settings for signatures of packages.
    pub(crate) signatures: Packages,
    /// `nfvo` of the configuration file: a source of packages.
    pub(crate) nfvo: Option<String>,
    /// Whether VIMs of type Kubernetes are really called instead of simulated.
    pub(crate) kubernetes: bool,
    /// Burst of failed logins that is allowed.
    pub(crate) wrong_logins: u32,
    /// `public_url` in the configuration of the server.
    pub(crate) public_url: Option<String>,
    /// Bytes of the disk that stored files leave free.
    pub(crate) disk_reserve: u64,
    /// The operations of the engine.
    pub(crate) operations: &'static [&'static Operation],
}

impl Default for Setup {
    fn default() -> Self {
        let hooks = &[
            "instantiate_end",
            "heal_start",
            "heal_end",
            "scale_start",
            "scale_end",
            "scale_to_level_start",
            "scale_to_level_end",
            "operate_start",
            "operate_end",
            "change_current_package_start",
            "change_current_package_end",
            "terminate_end",
        ];
        let (tls, signatures) = (Tls::default(), Packages::default());
        Self {
            token: None,
            access: None,
            largest: 1 << 20,
            page: 100,
            hooks,
            as_seed: false,
            tls,
            signatures,
            nfvo: None,
            disk_reserve: 0,
            kubernetes: false,
            wrong_logins: 100,
            public_url: None,
            operations: OPERATIONS,
        }
    }
}

impl Setup {
    fn access(&self, clock: &Arc<dyn Clock>) -> Access {
        let token = self.token.map(Secret::new);
        let access = match &self.access {
            None => Access::by_token(token).unwrap(),
            Some(yaml) => Access::new(serde_yaml::from_str(yaml).unwrap(), token, clock).unwrap(),
        };
        access.with_allowance(
            Allowance {
                per_second: 1,
                burst: self.wrong_logins,
            },
            clock,
        )
    }

    fn drivers(&self, world: &Arc<World>) -> Drivers {
        let played = Drivers::default().with(Driver(world.clone()));
        if self.kubernetes {
            played.with(KubernetesDriver::new(
                vnfm_outbound::Destinations::anywhere(),
            ))
        } else {
            played
        }
    }

    fn onboarding(
        &self,
        store: Arc<SqliteStore>,
        packages: Arc<PackageDir>,
        mgmt: Arc<Only>,
        clock: &Arc<dyn Clock>,
    ) -> Onboarding {
        let signatures = Signatures::new(self.signatures.clone(), clock.clone()).unwrap();
        let externals = Externals::new(&self.signatures.external).unwrap();
        Onboarding::new(store, packages, mgmt, (signatures, externals), self.largest)
    }

    fn connection(&self, url: &str, clock: &Arc<dyn Clock>) -> Option<Arc<NfvoConnection>> {
        let nfvo: Nfvo = serde_yaml::from_str(self.nfvo.as_ref()?).unwrap();
        Some(Arc::new(nfvo.connect(url, clock.clone()).unwrap()))
    }
}

pub(crate) struct Bench {
    pub(crate) url: String,
    pub(crate) world: Arc<World>,
    /// `Authorization` header of all requests.
    login: Mutex<Option<String>>,
    http: reqwest::Client,
    pub(crate) packages: Arc<PackageDir>,
    pub(crate) app: App,
    folder: TempDir,
    _tasks: JoinSet<()>,
}

/// A response: status, headers and body.
#[derive(Debug)]
pub(crate) struct Response {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Value,
    pub(crate) text: String,
    pub(crate) bytes: Vec<u8>,
    /// False for the response to a PATCH, which contains only the changes.
    pub(crate) is_all: bool,
}

impl Response {
    pub(crate) fn detail(&self) -> &str {
        self.body["detail"].as_str().unwrap()
    }

    pub(crate) fn id(&self) -> String {
        self.body["id"].as_str().unwrap().to_owned()
    }

    pub(crate) fn location(&self) -> &str {
        self.headers[LOCATION].to_str().unwrap()
    }

    /// The id at the end of `Location`.
    pub(crate) fn created_id(&self) -> String {
        self.location().rsplit('/').next().unwrap().to_owned()
    }
}

struct NoRotation;

#[async_trait::async_trait]
impl Rotate for NoRotation {
    async fn rotate(&self) -> Result<u64, StoreError> {
        Ok(7)
    }
    async fn migrate(&self, _: vnfm_store::KeyLocation) -> Result<u64, StoreError> {
        Ok(7)
    }
    async fn describe(&self) -> Result<Value, StoreError> {
        Ok(json!({"keyIn": "file", "keys": []}))
    }
}

/// Serves the application at `listener`, and subscribes at the NFVO if one is configured.
fn served(app: &App, listener: tokio::net::TcpListener) -> JoinSet<()> {
    let service = router(app.clone()).into_make_service_with_connect_info::<SocketAddr>();
    let mut tasks = JoinSet::new();
    if let Some(source) = app.nfvo_packages() {
        tasks.spawn(async move { source.follow().await });
    }
    tasks.spawn(async move { axum::serve(listener, service).await.unwrap() });
    tasks
}

impl Bench {
    pub(crate) async fn new() -> Self {
        Self::with(Setup::default()).await
    }

    pub(crate) async fn with(setup: Setup) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let limits = vnfm_descriptor::Limits::default();
        let packages = Arc::new(PackageDir::open(&folder.path().join("packages"), limits).unwrap());
        let store = Arc::new(SqliteStore::in_memory().await.unwrap());
        let world = World::new();
        let mgmt = Arc::new(Only(Mgmt::declaring(setup.hooks, setup.as_seed)));
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        let metrics = Arc::new(Metrics::new().unwrap());
        let parts = EngineParts {
            drivers: setup.drivers(&world),
            mgmt: mgmt.clone(),
            schemas: Arc::new(vnfm::schema_violations),
            operations: setup.operations,
            ..EngineParts::new(store.clone(), packages.clone(), clock.clone())
        };
        let files = FileDir::open(
            &folder.path().join("files"),
            clock.clone(),
            setup.disk_reserve,
        );
        let engine = Engine::new(parts)
            .observed_by(metrics.clone())
            .with_files(Arc::new(files.unwrap()));
        let notifier = notifier(store.clone(), clock.clone(), &setup.tls, &metrics);
        let access = setup.access(&clock);
        store.set_quotas(access.quotas());
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let onboarding = setup.onboarding(store, packages.clone(), mgmt, &clock);
        let state = AppState::embedded(engine.clone(), onboarding, notifier.subscribers.clone());
        let mut state = state
            .unwrap()
            .with_access(access)
            .with_page_size(setup.page)
            .with_rotation(Arc::new(NoRotation))
            .with_metrics(metrics);
        if let Some(url) = &setup.public_url {
            state = state.with_public_url(url);
        }
        if let Some(nfvo) = setup.connection(&url, &clock) {
            state = state.with_packages_of(&nfvo);
        }
        let app = App::from(state);
        let mut tasks = served(&app, listener);
        tasks.spawn(async move { notifier.run().await });
        let accepted = app.drive_queue();
        tasks.spawn(drive(engine, clock, accepted, std::future::pending()));
        Self {
            url,
            world,
            login: Mutex::default(),
            http: http_client(),
            packages,
            app,
            folder,
            _tasks: tasks,
        }
    }

    /// The folder of the files that are stored with instances.
    pub(crate) fn stored_files(&self) -> std::path::PathBuf {
        self.folder.path().join("files")
    }

    /// Sends later requests as this user, with [`PASSWORD`].
    pub(crate) fn log_in(&self, user: &str) {
        let login = format!("Basic {}", STANDARD.encode(format!("{user}:{PASSWORD}")));
        *self.login.lock().unwrap() = Some(login);
    }

    pub(crate) fn request(&self, method: Method, path: &str) -> RequestBuilder {
        let request = self.bare(method, path).header("version", "2.3.0");
        match &*self.login.lock().unwrap() {
            Some(login) => request.header("authorization", login),
            None => request,
        }
    }

    /// A request without the `Version` header, which the standard requires.
    pub(crate) fn bare(&self, method: Method, path: &str) -> RequestBuilder {
        self.http.request(method, format!("{}{path}", self.url))
    }

    pub(crate) async fn send(&self, request: RequestBuilder) -> Response {
        let request = request.build().unwrap();
        let path = request.url().path().to_owned();
        let method = request.method().clone();
        let response = self.http.execute(request).await.unwrap();
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        let bytes = response.bytes().await.unwrap().to_vec();
        let text = String::from_utf8_lossy(&bytes).into_owned();
        assert!(
            !text.contains("planted"),
            "a secret in the response of {path}: {text}"
        );
        let body = serde_json::from_str(&text).unwrap_or(Value::Null);
        let is_all = method != Method::PATCH;
        let response = Response {
            status,
            headers,
            body,
            text,
            bytes,
            is_all,
        };
        standard_response::check(&path, &response);
        oracle::documented(method.as_str(), &path, &response);
        headers::check(method.as_str(), &path, &response);
        response
    }

    pub(crate) async fn get(&self, path: &str) -> Response {
        self.send(self.request(Method::GET, path)).await
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> Response {
        self.send(self.request(Method::POST, path).json(body)).await
    }

    pub(crate) async fn delete(&self, path: &str) -> Response {
        self.send(self.request(Method::DELETE, path)).await
    }

    /// Creates a package record and uploads `content`.
    pub(crate) async fn upload(&self, content: Vec<u8>) -> (String, Response) {
        let id = self.post(PACKAGES, &json!({})).await.id();
        let path = format!("{PACKAGES}/{id}/package_content");
        let request = self
            .request(Method::PUT, &path)
            .header(CONTENT_TYPE, "application/zip");
        (id, self.send(request.body(content)).await)
    }

    /// Onboards a sample; returns the ids of package and VNFD.
    pub(crate) async fn onboard(&self, name: &str) -> (String, String) {
        let (id, response) = self.upload(packed(name)).await;
        assert_eq!(response.status, 202, "{response:?}");
        let shown = self.get(&format!("{PACKAGES}/{id}")).await.body;
        assert_eq!(shown["onboardingState"], "ONBOARDED", "{shown:#}");
        (id, shown["vnfdId"].as_str().unwrap().to_owned())
    }

    /// Disables a package and deletes it; the standard requires this order.
    pub(crate) async fn drop_package(&self, id: &str) {
        let path = format!("{PACKAGES}/{id}");
        let disable = self.request(Method::PATCH, &path);
        let disabled = self
            .send(disable.json(&json!({"operationalState": "DISABLED"})))
            .await;
        assert_eq!(disabled.status, 200, "{disabled:?}");
        assert_eq!(self.delete(&path).await.status, 204);
    }

    /// Creates an instance of a VNFD; returns its id.
    pub(crate) async fn create(&self, vnfd: &str) -> String {
        let response = self.post(INSTANCES, &json!({"vnfdId": vnfd})).await;
        assert_eq!(response.status, 201, "{response:?}");
        response.id()
    }

    /// Registers a VIM of type Kubernetes; returns its id.
    pub(crate) async fn vim(&self) -> String {
        let connection = json!({"vimType": "ETSINFV.KUBERNETES.V_1",
            "interfaceInfo": {"endpoint": "https://192.0.2.9:6443"}, "accessInfo": {"bearer_token": "planted-token"}});
        let response = self
            .post(VIMS, &json!({"name": "cluster", "connection": connection}))
            .await;
        assert_eq!(response.status, 201, "{response:?}");
        response.id()
    }

    /// A request to instantiate VNF-B on a new VIM.
    pub(crate) async fn request_b(&self) -> Value {
        json!({"flavourId": "simple", "vimConnectionInfo": {"vim1": {"vimId": self.vim().await}}})
    }

    /// Waits until the operation is no longer driven; returns it.
    pub(crate) async fn ended(&self, op_id: &str) -> Value {
        let events = self.get(&format!("/vnfm/v1/op_occs/{op_id}/events")).await;
        assert_eq!(events.status, 200, "{events:?}");
        self.get(&format!("{OPS}/{op_id}")).await.body
    }
}

/// Every route of the product.
pub(crate) fn routes() -> Vec<Route> {
    reference::routes(OPERATIONS)
}

/// Every path of the product with its methods, in lower case.
pub(crate) fn paths() -> BTreeMap<String, Vec<String>> {
    let mut paths: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for route in routes() {
        let methods = paths.entry(route.path.into_owned()).or_default();
        methods.push(route.method.as_str().to_lowercase());
    }
    paths
}

/// A packed sample of `vnfd-samples`.
pub(crate) fn packed(name: &str) -> Vec<u8> {
    let samples = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../vnfd-samples");
    vnfm_descriptor::pack(&samples.join(name), &vnfm_descriptor::Limits::default()).unwrap()
}

/// A client that uses no proxy and follows no redirect.
fn http_client() -> reqwest::Client {
    let client = reqwest::Client::builder().no_proxy();
    let client = client.redirect(reqwest::redirect::Policy::none());
    client.build().unwrap()
}

/// A notifier that counts its calls in the metrics of the server.
fn notifier(
    store: Arc<SqliteStore>,
    clock: Arc<dyn Clock>,
    tls: &Tls,
    metrics: &Arc<Metrics>,
) -> Notifier {
    let networks = Networks::parse(&["127.0.0.0/8".to_owned()]).unwrap();
    let callbacks = Callbacks::new(networks, Duration::from_mins(1), tls, clock.clone()).unwrap();
    Notifier {
        store,
        clock: clock.clone(),
        subscribers: Arc::new(MeasuredSubscribers {
            inner: Arc::new(callbacks),
            clock,
            metrics: metrics.clone(),
        }),
        patience: DeliveryTimeouts::default(),
    }
}
