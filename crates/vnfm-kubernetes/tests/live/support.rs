//! Test support: a cluster from its kubeconfig, a clock, a VIM, generated packages, and access to the
//! cluster that bypasses the driver.

use async_trait::async_trait;
use futures::future::BoxFuture;
use jiff::{SignedDuration, Timestamp};
use kube::api::{
    Api, ApiResource, DynamicObject, GroupVersionKind, ListParams, Patch, PatchParams, PostParams,
};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use vnfm_core::ports::{
    Allocation, Clock, Convergence, InfraDriver as _, Ownership, PortError, Recorded, Release, Vim,
    VimCall, VimLogin, Watcher,
};
use vnfm_descriptor::{Limits, Package};
use vnfm_kubernetes::KubernetesDriver;
use vnfm_outbound::Destinations;
use vnfm_types::{InstantiateVnfRequest, KeyValuePairs, VimConnectionInfo, VimPolicy};

/// One instance on the cluster, from the engine's point of view.
pub(crate) struct World {
    pub(crate) vim: TestVim,
    pub(crate) owner: Ownership,
    pub(crate) seen: Heard,
    pub(crate) client: Client,
    pub(crate) driver: KubernetesDriver,
    keep: Keep,
}

/// Kept alive as long as the cluster is used.
pub(crate) type Keep = Arc<dyn std::any::Any + Send + Sync>;

impl World {
    /// On the cluster of this test program; `None`, with a message, if there is none.
    pub(crate) async fn start() -> Option<Self> {
        let (file, keep) = crate::cluster().await?;
        Some(Self::on(file, keep).await)
    }

    /// On the cluster that a kubeconfig describes.
    pub(crate) async fn on(file: Kubeconfig, keep: Keep) -> Self {
        let connection = connection(&file);
        let config = Config::from_custom_kubeconfig(file, &KubeConfigOptions::default())
            .await
            .expect("it is complete");
        Self {
            vim: TestVim {
                login: Mutex::new((connection, 1)),
                policy: VimPolicy::OPEN,
            },
            owner: owner(),
            seen: Heard::default(),
            client: Client::try_from(config).expect("it makes a client"),
            driver: KubernetesDriver::new(Destinations::anywhere()),
            keep,
        }
    }

    /// Another instance of the same installation.
    pub(crate) fn neighbour(&self) -> Self {
        let login = self.vim.login.lock().unwrap().clone();
        let instance_id = owner().instance_id;
        Self {
            vim: TestVim {
                login: Mutex::new(login),
                policy: self.vim.policy.clone(),
            },
            owner: Ownership {
                instance_id,
                ..self.owner.clone()
            },
            seen: Heard::default(),
            client: self.client.clone(),
            driver: KubernetesDriver::new(Destinations::anywhere()),
            keep: Arc::clone(&self.keep),
        }
    }

    pub(crate) fn cx(&self, seconds: i64) -> VimCall<'_> {
        VimCall {
            vim: &self.vim,
            ownership: &self.owner,
            clock: &RealClock,
            watcher: &self.seen,
            deadline: Timestamp::now() + SignedDuration::from_secs(seconds),
        }
    }

    /// The default namespace of the instance.
    pub(crate) fn namespace(&self) -> String {
        format!("vnf-{}", self.owner.instance_id)
    }

    pub(crate) async fn instantiate(
        &self,
        what: &Allocation,
        seconds: i64,
    ) -> Result<Recorded, PortError> {
        let prepared = self
            .driver
            .preview(&self.cx(seconds), &Convergence::create(what))
            .await?;
        self.driver
            .converge(&self.cx(seconds), &Convergence::create(what), &prepared)
            .await
    }

    pub(crate) async fn terminate(
        &self,
        what: &Allocation,
        handle: Value,
    ) -> Result<(), PortError> {
        self.terminate_within(what, handle, 60).await
    }

    pub(crate) async fn terminate_within(
        &self,
        what: &Allocation,
        handle: Value,
        seconds: i64,
    ) -> Result<(), PortError> {
        self.driver
            .release(
                &self.cx(seconds),
                what,
                &Release {
                    handle,
                    grace_seconds: Some(0),
                    retained: Vec::new(),
                },
            )
            .await
    }

    pub(crate) fn api(
        &self,
        api_version: &str,
        kind: &str,
        plural: &str,
        namespace: Option<&str>,
    ) -> Api<DynamicObject> {
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        let resource =
            ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(group, version, kind), plural);
        match namespace {
            Some(namespace) => Api::namespaced_with(self.client.clone(), namespace, &resource),
            None => Api::all_with(self.client.clone(), &resource),
        }
    }

    pub(crate) fn config_maps(&self, namespace: &str) -> Api<DynamicObject> {
        self.api("v1", "ConfigMap", "configmaps", Some(namespace))
    }

    pub(crate) fn namespaces(&self) -> Api<DynamicObject> {
        self.api("v1", "Namespace", "namespaces", None)
    }

    /// Creates an object without our labels, as another user would.
    pub(crate) async fn make(&self, api: &Api<DynamicObject>, object: Value) -> DynamicObject {
        let object: DynamicObject = serde_json::from_value(object).expect("it is an object");
        api.create(&PostParams::default(), &object)
            .await
            .expect("the cluster takes it")
    }

    pub(crate) async fn make_namespace(&self, name: &str) {
        self.make(
            &self.namespaces(),
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}),
        )
        .await;
    }

    pub(crate) async fn change(&self, api: &Api<DynamicObject>, name: &str, change: Value) {
        api.patch(name, &PatchParams::default(), &Patch::Merge(&change))
            .await
            .expect("the cluster takes the change");
    }

    /// Deletes an object that the test created; does not wait.
    pub(crate) async fn clean(&self, api: &Api<DynamicObject>, name: &str) {
        let deleted = api
            .delete(name, &kube::api::DeleteParams::background())
            .await;
        assert!(
            matches!(&deleted, Ok(_) | Err(kube::Error::Api(_))),
            "{:?}",
            deleted.err()
        );
    }

    /// Asserts that nothing of the instance remains, according to the driver and to the cluster.
    pub(crate) async fn assert_nothing_left(&self) {
        let left = self
            .driver
            .owned(&self.vim, &self.owner.installation_id)
            .await
            .expect("the cluster can be asked");
        assert_eq!(left, []);
        assert!(!self.has_any().await);
    }

    /// Whether the cluster has any object with the instance's labels; bypasses the driver.
    pub(crate) async fn has_any(&self) -> bool {
        let of_instance =
            ListParams::default().labels(&format!("vnfm.dev/instance={}", self.owner.instance_id));
        for (version, kind, plural) in [
            ("v1", "Pod", "pods"),
            ("v1", "ConfigMap", "configmaps"),
            ("v1", "Service", "services"),
            ("apps/v1", "Deployment", "deployments"),
        ] {
            let all = self.api(version, kind, plural, None);
            if !all
                .list(&of_instance)
                .await
                .expect("it can be listed")
                .items
                .is_empty()
            {
                return true;
            }
        }
        false
    }
}

/// A VIM whose connection the test can change.
pub(crate) struct TestVim {
    pub(crate) login: Mutex<(VimConnectionInfo, u64)>,
    pub(crate) policy: VimPolicy,
}

impl TestVim {
    pub(crate) fn update(&self, change: impl FnOnce(&mut VimConnectionInfo)) {
        let mut login = self.login.lock().unwrap();
        change(&mut login.0);
        login.1 += 1;
    }
}

#[async_trait]
impl Vim for TestVim {
    fn name(&self) -> &'static str {
        "cluster"
    }

    fn connection_id(&self) -> &'static str {
        "vim1"
    }

    fn policy(&self) -> &VimPolicy {
        &self.policy
    }

    async fn connection(&self) -> Result<VimLogin, PortError> {
        let login = self.login.lock().unwrap().clone();
        Ok(VimLogin {
            info: login.0,
            version: login.1,
        })
    }
}

/// Records the messages that the driver reports.
#[derive(Default)]
pub(crate) struct Heard {
    pub(crate) waits: Mutex<Vec<String>>,
    pub(crate) logs: Mutex<Vec<String>>,
    pub(crate) changed: tokio::sync::Notify,
}

impl Heard {
    /// Returns once the driver reports a wait whose reason contains `text`.
    pub(crate) async fn wait_for(&self, text: &str) {
        loop {
            let changed = self.changed.notified();
            if self
                .waits
                .lock()
                .unwrap()
                .iter()
                .any(|wait| wait.contains(text))
            {
                return;
            }
            changed.await;
        }
    }
}

impl Watcher for Heard {
    fn waiting(&self, what: &str) {
        self.waits.lock().unwrap().push(what.to_owned());
        self.changed.notify_waiters();
        self.changed.notify_one();
    }

    fn progress(&self, _percent: u8, _message: &str) {}

    fn log(&self, level: &str, _source: &str, text: &str) {
        self.logs.lock().unwrap().push(format!("{level}: {text}"));
    }
}

pub(crate) struct RealClock;

impl Clock for RealClock {
    fn now(&self) -> Timestamp {
        Timestamp::now()
    }

    #[expect(clippy::disallowed_methods, reason = "this is the clock")]
    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        Box::pin(tokio::time::sleep(duration))
    }
}

fn connection(file: &Kubeconfig) -> VimConnectionInfo {
    let file = serde_json::to_value(file).expect("it is data");
    let text = |pointer: &str| {
        file.pointer(pointer)
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_owned()
    };
    let object = |value: Value| value.as_object().cloned().unwrap_or_default();
    VimConnectionInfo {
        vim_type: vnfm_types::KUBERNETES.to_owned(),
        interface_info: object(json!({
            "endpoint": text("/clusters/0/cluster/server"),
            "ssl_ca_cert": text("/clusters/0/cluster/certificate-authority-data"),
        })),
        access_info: object(match file.pointer("/users/0/user/token") {
            Some(token) => json!({"bearer_token": token}),
            None => json!({
                "client_certificate": text("/users/0/user/client-certificate-data"),
                "client_key": text("/users/0/user/client-key-data"),
            }),
        }),
        ..VimConnectionInfo::default()
    }
}

fn owner() -> Ownership {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let unique = format!(
        "{:x}-{}",
        Timestamp::now().as_nanosecond(),
        COUNT.fetch_add(1, Ordering::Relaxed)
    );
    Ownership {
        installation_id: format!("installation-{unique}"),
        tenant: "default".to_owned(),
        instance_id: unique.clone(),
        op_id: format!("op-{unique}"),
    }
}

/// The first part of a VNFD, up to its VNF.
pub(crate) const VNF: &str = "tosca_definitions_version: tosca_simple_yaml_1_3
imports: [etsi_nfv_sol001_vnfd_types.yaml]
topology_template:
  substitution_mappings: {node_type: tosca.nodes.nfv.VNF, properties: {flavour_id: simple}}
  node_templates:
    VNF:
      type: tosca.nodes.nfv.VNF
      properties: {descriptor_id: b1bb0ce7, descriptor_version: '1.0', provider: Us, product_name: Web, software_version: '1.0',
        vnfm_info: [vnfm], flavour_id: simple, flavour_description: one}
";
/// Its unit `web`, of one to three containers.
pub(crate) const WEB_SERVER: &str = "    WebServer:
      type: tosca.nodes.nfv.Vdu.OsContainerDeployableUnit
      properties: {name: web, vdu_profile: {min_number_of_instances: 1, max_number_of_instances: 3}}
    WebCP:
      type: tosca.nodes.nfv.VduCp
      properties: {layer_protocols: [ipv4]}
      requirements: [virtual_binding: WebServer]
";

/// A package of manifests with their order, with the request's parameters.
#[expect(
    clippy::needless_pass_by_value,
    reason = "what `json!` makes is used once"
)]
pub(crate) fn package(manifests: &[(i64, &str)], order_head: &str, params: Value) -> Allocation {
    let folder = tempfile::tempdir().expect("there is room");
    let write = |path: &str, text: &str| {
        let path = folder.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap_or(Path::new("/"))).expect("a folder");
        std::fs::write(path, text).expect("a file");
    };
    write(
        "TOSCA-Metadata/TOSCA.meta",
        "TOSCA-Meta-File-Version: 1.0\nCSAR-Version: 1.1\nCreated-By: us\nEntry-Definitions: Definitions/vnfd.yaml\n",
    );
    write("Definitions/vnfd.yaml", &format!("{VNF}{WEB_SERVER}"));
    let mut order = format!("{order_head}\nmanifests:\n");
    for (index, (place, text)) in manifests.iter().enumerate() {
        writeln!(
            order,
            "- {{path: Files/kubernetes/{index}.yaml, order: {place}}}"
        )
        .expect("a line");
        write(&format!("Files/kubernetes/{index}.yaml"), text);
    }
    write("Files/kubernetes/order.yaml", &order);
    let package = Package::open(folder.path(), &Limits::default())
        .unwrap_or_else(|findings| panic!("{findings}"));
    let additional_params: KeyValuePairs = params.as_object().cloned().unwrap_or_default();
    let request = InstantiateVnfRequest {
        flavour_id: "simple".into(),
        additional_params,
        ..InstantiateVnfRequest::default()
    };
    Allocation::requested("package", Arc::new(package), request).expect("levels")
}

/// A package with these files and no order file, with the request's parameters.
pub(crate) fn unordered_package(files: &[(&str, &str)], params: &Value) -> Allocation {
    let files = files.iter().map(|(path, text)| (*path, text.as_bytes()));
    package_of((&format!("{VNF}{WEB_SERVER}"), files.collect()), params)
}

/// A package with this VNFD and these files.
pub(crate) fn package_of((vnfd, files): (&str, Vec<(&str, &[u8])>), params: &Value) -> Allocation {
    let folder = tempfile::tempdir().expect("there is room");
    let meta = "TOSCA-Meta-File-Version: 1.0\nCSAR-Version: 1.1\nCreated-By: us\nEntry-Definitions: Definitions/vnfd.yaml\n";
    let own = [
        ("TOSCA-Metadata/TOSCA.meta", meta.as_bytes()),
        ("Definitions/vnfd.yaml", vnfd.as_bytes()),
    ];
    for (path, bytes) in own.into_iter().chain(files) {
        let path = folder.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap_or(Path::new("/"))).expect("a folder");
        std::fs::write(path, bytes).expect("a file");
    }
    let package = Package::open(folder.path(), &Limits::default())
        .unwrap_or_else(|findings| panic!("{findings}"));
    let flavours = &package.vnfd().flavours;
    let request = InstantiateVnfRequest {
        flavour_id: flavours.keys().next().expect("a flavour").clone(),
        additional_params: params.as_object().cloned().unwrap_or_default(),
        ..InstantiateVnfRequest::default()
    };
    Allocation::requested("package", Arc::new(package), request).expect("levels")
}

/// The sample VNF-B as an allocation.
pub(crate) fn sample() -> Allocation {
    sample_of("vnf-b-cnf", "instantiate.json")
}

/// A sample as an allocation, with one of its requests.
pub(crate) fn sample_of(name: &str, request: &str) -> Allocation {
    let samples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../vnfd-samples");
    let folder = samples.join(name);
    let package =
        Package::open(&folder, &Limits::default()).unwrap_or_else(|findings| panic!("{findings}"));
    let request = std::fs::read(folder.join("requests").join(request)).expect("its request");
    let request = serde_json::from_slice(&request).expect("a request");
    Allocation::requested("package", Arc::new(package), request).expect("levels")
}

pub(crate) const CONFIG: &str =
    "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: page}\ndata: {x: '1'}\n";
pub(crate) const SERVICE: &str = "apiVersion: v1\nkind: Service\nmetadata: {name: web}\nspec: {selector: {app: web}, ports: [{port: 80}]}\n";

pub(crate) fn deployment(replicas: u32, more: &str) -> String {
    format!(
        "apiVersion: apps/v1\nkind: Deployment\nmetadata: {{name: web}}\nspec:\n  replicas: {replicas}\n  selector: {{matchLabels: {{app: web}}}}\n  template:\n    metadata: {{labels: {{app: web}}}}\n    spec:\n      containers: [{{name: web, image: 'localhost/busybox:1'}}]\n{more}"
    )
}
