//! A place where the driver works: a VIM that can be changed, a clock, a watcher that can be waited for.

use futures::FutureExt;
use futures::future::BoxFuture;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, resume_unwind};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::watch;
use vnfm_core::ports::{
    Allocated, Allocation, Clock, InfraDriver, Ownership, PortError, Release, Repair,
    SecretConnection, Vim, VimCall, VimLogin, Watcher,
};
use vnfm_descriptor::{Limits, Package};
use vnfm_openstack::OpenStack;
use vnfm_outbound::Destinations;
use vnfm_types::VimConnectionInfo;

/// Real time, or so much later; or always the same.
#[derive(Default)]
pub(crate) struct TokioClock {
    pub(crate) ahead: SignedDuration,
    pub(crate) stopped: Option<Timestamp>,
}

impl Clock for TokioClock {
    fn now(&self) -> Timestamp {
        self.stopped.unwrap_or_else(Timestamp::now) + self.ahead
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "this is the clock that everything else sleeps with"
    )]
    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        Box::pin(tokio::time::sleep(duration))
    }
}

/// A VIM whose connection a test can change.
pub(crate) struct TestVim {
    login: Mutex<VimLogin>,
}

impl TestVim {
    pub(crate) fn new(info: VimConnectionInfo) -> Self {
        Self {
            login: Mutex::new(VimLogin {
                info: SecretConnection(info),
                version: 1,
            }),
        }
    }

    /// What `vim update` does.
    pub(crate) fn set_access(&self, name: &str, value: &str) {
        let mut login = self.login.lock().unwrap();
        login.version += 1;
        login.info.0.access_info.insert(name.into(), json!(value));
    }
}

#[async_trait::async_trait]
impl Vim for TestVim {
    fn name(&self) -> &'static str {
        "cloud"
    }
    fn connection_id(&self) -> &'static str {
        "vim1"
    }
    async fn connection(&self) -> Result<VimLogin, PortError> {
        Ok(self.login.lock().unwrap().clone())
    }
}

/// Keeps what it hears, and lets a test wait for it.
pub(crate) struct Ear {
    heard: watch::Sender<Vec<String>>,
}

impl Ear {
    pub(crate) fn new() -> Self {
        Self {
            heard: watch::Sender::new(Vec::new()),
        }
    }

    pub(crate) fn all(&self) -> Vec<String> {
        self.heard.borrow().clone()
    }

    /// Completes once something was heard that contains `part`.
    pub(crate) async fn hears(&self, part: &str) {
        let mut heard = self.heard.subscribe();
        heard
            .wait_for(|all| all.iter().any(|text| text.contains(part)))
            .await
            .unwrap();
    }

    /// Begins anew.
    pub(crate) fn forget(&self) {
        self.heard.send_modify(Vec::clear);
    }

    fn hear(&self, text: String) {
        self.heard.send_modify(|all| all.push(text));
    }
}

impl Watcher for Ear {
    fn waiting(&self, what: &str) {
        self.hear(what.to_owned());
    }
    fn progress(&self, percent: u8, message: &str) {
        self.hear(format!("{percent}% {message}"));
    }
    fn log(&self, level: &str, source: &str, text: &str) {
        self.hear(format!("{level} {source} {text}"));
    }
}

/// A driver, a VIM and an instance on it.
pub(crate) struct Place {
    pub(crate) driver: Arc<OpenStack>,
    pub(crate) vim: TestVim,
    pub(crate) ear: Ear,
    pub(crate) ownership: Ownership,
    pub(crate) network: String,
    pub(crate) seconds: i64,
    pub(crate) clock: TokioClock,
}

impl Place {
    pub(crate) fn new(info: VimConnectionInfo, network: &str) -> Self {
        let id = || uuid::Uuid::new_v4().to_string();
        Self {
            driver: Arc::new(OpenStack::new(
                Arc::new(TokioClock::default()),
                Destinations::anywhere(),
            )),
            vim: TestVim::new(info),
            ear: Ear::new(),
            ownership: Ownership {
                installation_id: id(),
                tenant: "default".into(),
                instance_id: id(),
                op_id: id(),
            },
            network: network.into(),
            seconds: 300,
            clock: TokioClock::default(),
        }
    }

    /// Another instance of the same installation in the same process.
    pub(crate) fn beside(&self) -> Self {
        let mut other = self.twin();
        other.driver = self.driver.clone();
        other.ownership.instance_id = uuid::Uuid::new_v4().to_string();
        other
    }

    /// The images of the installation, each with the instances that use it.
    pub(crate) async fn images(&self) -> BTreeMap<String, BTreeSet<String>> {
        let all = self
            .driver
            .owned(&self.vim, &self.ownership.installation_id)
            .await
            .unwrap();
        let mut images = BTreeMap::<String, BTreeSet<String>>::new();
        for one in all
            .into_iter()
            .filter(|one| one.kind == "OS::Glance::Image")
        {
            images.entry(one.id).or_default().extend(one.instance_id);
        }
        images
    }

    /// The same instance on the same cloud, in another process: to clean up behind this one, or to go on.
    pub(crate) fn twin(&self) -> Self {
        let info = self.vim.login.lock().unwrap().info.0.clone();
        Self {
            ownership: self.ownership.clone(),
            ..Self::new(info, &self.network)
        }
    }

    pub(crate) fn call(&self) -> VimCall<'_> {
        VimCall {
            vim: &self.vim,
            ownership: &self.ownership,
            clock: &self.clock,
            watcher: &self.ear,
            deadline: self.clock.now() + SignedDuration::from_secs(self.seconds),
        }
    }

    /// The request of the cluster samples, on this place's network.
    pub(crate) fn cluster(&self, sample_name: &str) -> Allocation {
        allocation(
            sample(sample_name),
            json!({
                "flavourId": "cluster_install",
                "extVirtualLinks": [{
                    "id": "external",
                    "resourceId": self.network,
                    "extCps": [
                        {"cpdId": "masterNodeExternalCP", "cpConfig": {"master": {}}},
                        {"cpdId": "workerNodeExternalCP", "cpConfig": {"worker": {}}},
                    ],
                }],
                "additionalParams": {"ssh_public_key": PUBLIC_KEY},
            }),
        )
    }

    pub(crate) async fn prepare(&self, what: &Allocation) -> Result<Value, PortError> {
        self.driver.prepare(&self.call(), what).await
    }

    pub(crate) async fn allocate(
        &self,
        what: &Allocation,
        prepared: &Value,
    ) -> Result<Allocated, PortError> {
        self.driver.allocate(&self.call(), what, prepared).await
    }

    pub(crate) async fn make(&self, what: &Allocation) -> Result<Allocated, PortError> {
        self.driver.validate_request(what)?;
        let prepared = self.prepare(what).await?;
        self.allocate(what, &prepared).await
    }

    /// Heals the VNFCs with these ids, as `made` shows the instance.
    pub(crate) async fn heal(
        &self,
        what: &Allocation,
        made: &Allocated,
        vnfcs: &[String],
    ) -> Result<Allocated, PortError> {
        let how = Repair {
            handle: made.handle.clone(),
            inventory: made.inventory.clone(),
            vnfcs: vnfcs.to_vec(),
            with_storage: false,
        };
        self.driver.heal(&self.call(), what, &how).await
    }

    /// What there is, without knowing anything of it.
    pub(crate) async fn observe(&self, what: &Allocation) -> Allocated {
        self.driver
            .observe(&self.call(), what, &Value::Null)
            .await
            .unwrap()
    }

    pub(crate) async fn release(&self, what: &Allocation, handle: Value) -> Result<(), PortError> {
        let how = Release {
            handle,
            grace_seconds: None,
        };
        self.driver.release(&self.call(), what, &how).await
    }

    /// Names of what carries our installation id.
    pub(crate) async fn owned(&self) -> Vec<String> {
        let all = self
            .driver
            .owned(&self.vim, &self.ownership.installation_id)
            .await
            .unwrap();
        assert!(
            all.iter()
                .all(|one| one.instance_id.as_deref() == Some(&self.ownership.instance_id))
        );
        all.into_iter().map(|one| one.name).collect()
    }

    /// Tells `story`, and leaves nothing on the cloud where it fails.
    pub(crate) async fn cleaned(&self, what: &Allocation, story: impl Future<Output = ()>) {
        let told = AssertUnwindSafe(story).catch_unwind().await;
        if let Err(panic) = told {
            let released = self.release(what, Value::Null).await;
            eprintln!("the story failed; what it made is released: {released:?}");
            resume_unwind(panic);
        }
    }

    pub(crate) fn stack_name(&self) -> String {
        format!("vnf-{}", self.ownership.instance_id)
    }
}

/// A key whose other half nobody has.
pub(crate) const PUBLIC_KEY: &str =
    "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJtzJ1FKlkmJkrFnzh3nLAMbDsSTLjpHgmjqhZYMF0wO test";

pub(crate) fn sample(name: &str) -> Package {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("../../vnfd-samples")
        .join(name);
    Package::open(&folder, &Limits::default()).unwrap_or_else(|findings| panic!("{findings}"))
}

pub(crate) fn allocation(package: Package, request: Value) -> Allocation {
    let request = serde_json::from_value(request).unwrap();
    let what = Allocation::requested("package", Arc::new(package), request).unwrap();
    Allocation {
        instance_name: Some("one".into()),
        ..what
    }
}

/// A package of one VDU `server` with one external CP `out`.
pub(crate) struct OneVdu {
    pub(crate) image: &'static str,
    pub(crate) memory: &'static str,
    pub(crate) count: u32,
    pub(crate) apart: bool,
    pub(crate) brings_image: bool,
    /// Boots from a volume `root`, and has another one, `data`.
    pub(crate) volumes: bool,
}

impl Default for OneVdu {
    fn default() -> Self {
        Self {
            image: "nfv-image",
            memory: "128 MiB",
            count: 1,
            apart: false,
            brings_image: false,
            volumes: false,
        }
    }
}

impl OneVdu {
    pub(crate) fn on(&self, place: &Place) -> Allocation {
        let request = json!({
            "flavourId": "simple",
            "extVirtualLinks": [
                {"id": "external", "resourceId": place.network, "extCps": [{"cpdId": "out", "cpConfig": {"c": {}}}]},
            ],
        });
        allocation(self.package(), request)
    }

    fn package(&self) -> Package {
        let folder = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = folder.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        write(
            "TOSCA-Metadata/TOSCA.meta",
            "TOSCA-Meta-File-Version: 1.0\nCSAR-Version: 1.1\nCreated-By: us\nEntry-Definitions: vnfd.yaml\n",
        );
        write("vnfd.yaml", &self.vnfd());
        let mut limits = Limits::default();
        if self.brings_image {
            // Larger than what is read at once: an image is sent piece by piece.
            limits.file_bytes = 64 << 10;
            write(
                "Artifacts/small.img",
                &"not much of an image\n".repeat(50_000),
            );
        }
        Package::open(folder.path(), &limits).unwrap_or_else(|findings| panic!("{findings}"))
    }

    /// The image of the VDU, its requirements, and the nodes of its volumes.
    fn disks(&self, artifact: &str) -> (String, &'static str, String) {
        let image = format!(
            "sw_image_data: {{name: {}, version: '1', container_format: bare, disk_format: raw, min_disk: 1 GiB, size: 1 MiB}}",
            self.image
        );
        if !self.volumes {
            return (format!("\n        {image}{artifact}"), "", String::new());
        }
        let storage = |name: &str, image: &str| {
            format!(
                "    {name}:\n      type: tosca.nodes.nfv.Vdu.VirtualBlockStorage\n      properties:\n        virtual_block_storage_data: {{size_of_storage: 1 GiB}}\n{image}"
            )
        };
        let root = storage("root", &format!("        {image}\n"));
        let wanted = "\n      requirements: [{virtual_storage: root}, {virtual_storage: data}]";
        (String::new(), wanted, root + &storage("data", ""))
    }

    fn vnfd(&self) -> String {
        let artifact = if self.brings_image {
            "\n      artifacts: {sw_image: {type: tosca.artifacts.nfv.SwImage, file: Artifacts/small.img}}"
        } else {
            ""
        };
        let policies = if self.apart {
            "  policies:\n    - apart: {type: tosca.policies.nfv.AntiAffinityRule, targets: [server], properties: {scope: nfvi_node}}\n"
        } else {
            ""
        };
        let (own_image, requirements, storages) = self.disks(artifact);
        format!(
            "tosca_definitions_version: tosca_simple_yaml_1_3
imports: [etsi_nfv_sol001_vnfd_types.yaml]
node_types:
  test.Vnf:
    derived_from: tosca.nodes.nfv.VNF
    properties:
      descriptor_id: {{type: string, default: 5a7c1a0e-0f3f-4a59-8f5b-1f6f0a6d2b11}}
      descriptor_version: {{type: string, default: '1.0'}}
      provider: {{type: string, default: us}}
      product_name: {{type: string, default: test}}
      software_version: {{type: string, default: '1.0'}}
      vnfm_info: {{type: list, entry_schema: {{type: string}}, default: [vnfm]}}
      flavour_id: {{type: string, default: simple}}
      flavour_description: {{type: string, default: simple}}
topology_template:
  substitution_mappings:
    node_type: test.Vnf
    properties: {{flavour_id: simple}}
  node_templates:
    VNF:
      type: test.Vnf
      properties: {{flavour_description: simple}}
    server:
      type: tosca.nodes.nfv.Vdu.Compute
      properties:
        name: server
        description: one
        vdu_profile: {{min_number_of_instances: {count}, max_number_of_instances: {count}}}{own_image}
      capabilities:
        virtual_compute:
          properties:
            virtual_cpu: {{num_virtual_cpu: 1}}
            virtual_memory: {{virtual_mem_size: {memory}}}{requirements}
{storages}    out:
      type: tosca.nodes.nfv.VduCp
      properties: {{layer_protocols: [ipv4], order: 0}}
      requirements: [{{virtual_binding: server}}]
{policies}",
            count = self.count,
            memory = self.memory,
        )
    }
}
