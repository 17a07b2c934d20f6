//! A test bed for the driver: a VIM whose connection can change, a clock, and a watcher that records messages.

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
    Allocation, Clock, Convergence, InfraDriver, Ownership, PortError, Recorded, Release,
    Replacement, Vim, VimCall, VimLogin, Watcher,
};
use vnfm_descriptor::{Limits, Package};
use vnfm_openstack::{OpenStack, UnplacedZones};
use vnfm_outbound::Destinations;
use vnfm_types::VimConnectionInfo;

/// Real time plus `ahead`, or stopped.
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
            login: Mutex::new(VimLogin { info, version: 1 }),
        }
    }

    /// Changes a member of `extra`, as `vim update` does.
    pub(crate) fn set_extra(&self, name: &str, value: Value) {
        let mut login = self.login.lock().unwrap();
        login.version += 1;
        login.info.extra.insert(name.into(), value);
    }

    /// Changes a member of `accessInfo`, as `vim update` does.
    pub(crate) fn set_access(&self, name: &str, value: &str) {
        let mut login = self.login.lock().unwrap();
        login.version += 1;
        login.info.access_info.insert(name.into(), json!(value));
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

/// Records messages and lets a test wait for one.
pub(crate) struct TestWatcher {
    messages: watch::Sender<Vec<String>>,
}

impl TestWatcher {
    pub(crate) fn new() -> Self {
        Self {
            messages: watch::Sender::new(Vec::new()),
        }
    }

    pub(crate) fn messages(&self) -> Vec<String> {
        self.messages.borrow().clone()
    }

    /// Waits until a message contains `part`.
    pub(crate) async fn wait_for(&self, part: &str) {
        let mut messages = self.messages.subscribe();
        messages
            .wait_for(|all| all.iter().any(|text| text.contains(part)))
            .await
            .unwrap();
    }

    pub(crate) fn clear(&self) {
        self.messages.send_modify(Vec::clear);
    }

    fn record(&self, text: String) {
        self.messages.send_modify(|all| all.push(text));
    }
}

impl Watcher for TestWatcher {
    fn waiting(&self, reason: &str) {
        self.record(reason.to_owned());
    }
    fn progress(&self, percent: u8, message: &str) {
        self.record(format!("{percent}% {message}"));
    }
    fn log(&self, level: &str, source: &str, text: &str) {
        self.record(format!("{level} {source} {text}"));
    }
}

/// A driver, a VIM and an instance on it.
pub(crate) struct TestBed {
    pub(crate) driver: Arc<OpenStack>,
    pub(crate) vim: TestVim,
    pub(crate) watcher: TestWatcher,
    pub(crate) ownership: Ownership,
    pub(crate) network: String,
    pub(crate) seconds: i64,
    pub(crate) clock: TokioClock,
}

impl TestBed {
    pub(crate) fn new(info: VimConnectionInfo, network: &str) -> Self {
        let id = || uuid::Uuid::new_v4().to_string();
        Self {
            driver: Arc::new(OpenStack::new(
                Arc::new(TokioClock::default()),
                Destinations::anywhere(),
            )),
            vim: TestVim::new(info),
            watcher: TestWatcher::new(),
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
    pub(crate) fn other_instance(&self) -> Self {
        let mut other = self.restarted();
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

    /// The same instance on the same cloud in another process, which resumes or cleans up.
    pub(crate) fn restarted(&self) -> Self {
        let info = self.vim.login.lock().unwrap().info.clone();
        Self {
            ownership: self.ownership.clone(),
            ..Self::new(info, &self.network)
        }
    }

    /// The same instance, with a driver that logs zones that it cannot follow.
    pub(crate) fn warning_of_unplaced_zones(&self) -> Self {
        let clock = Arc::new(TokioClock::default());
        let driver = OpenStack::new(clock, Destinations::anywhere());
        Self {
            driver: Arc::new(driver.with_unplaced_zones(UnplacedZones::Warn)),
            ..self.restarted()
        }
    }

    pub(crate) fn call(&self) -> VimCall<'_> {
        VimCall {
            vim: &self.vim,
            ownership: &self.ownership,
            clock: &self.clock,
            watcher: &self.watcher,
            deadline: self.clock.now() + SignedDuration::from_secs(self.seconds),
        }
    }

    /// The request of the cluster samples, on this test bed's network.
    pub(crate) fn cluster(&self, sample_name: &str) -> Allocation {
        allocation(sample(sample_name), self.cluster_request())
    }

    /// A request for a sample of VNF-A.
    pub(crate) fn cluster_request(&self) -> Value {
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
        })
    }

    pub(crate) async fn prepare(&self, allocation: &Allocation) -> Result<Value, PortError> {
        let change = Convergence::create(allocation);
        self.driver.preview(&self.call(), &change).await
    }

    pub(crate) async fn allocate(
        &self,
        allocation: &Allocation,
        prepared: &Value,
    ) -> Result<Recorded, PortError> {
        let change = Convergence::create(allocation);
        let converged = self.driver.converge(&self.call(), &change, prepared).await;
        converged.map(existing)
    }

    pub(crate) async fn instantiate(&self, allocation: &Allocation) -> Result<Recorded, PortError> {
        self.driver.validate_request(allocation)?;
        let prepared = self.prepare(allocation).await?;
        self.allocate(allocation, &prepared).await
    }

    /// As [`Self::instantiate`], with what the instance was made of.
    pub(crate) async fn instantiate_with_resolved(&self, allocation: &Allocation) -> Recorded {
        let prepared = self.prepare(allocation).await.unwrap();
        let change = Convergence::create(allocation);
        let converged = self.driver.converge(&self.call(), &change, &prepared).await;
        converged.unwrap()
    }

    /// Heals the VNFCs with these ids, whose instance is `allocated`.
    pub(crate) async fn heal(
        &self,
        allocation: &Allocation,
        allocated: &Recorded,
        vnfcs: &[String],
    ) -> Result<Recorded, PortError> {
        let replace = Replacement {
            vnfcs: vnfcs.to_vec(),
            with_storage: false,
        };
        let change = Convergence::update(allocated, allocation).replacing(replace);
        let nothing = &Value::Null;
        let converged = self.driver.converge(&self.call(), &change, nothing).await;
        converged.map(existing)
    }

    /// Observes the instance without its handle.
    pub(crate) async fn observe(&self, allocation: &Allocation) -> Recorded {
        let observed = self
            .driver
            .observe(&self.call(), allocation, &Value::Null)
            .await;
        existing(observed.unwrap())
    }

    pub(crate) async fn release(
        &self,
        allocation: &Allocation,
        handle: Value,
    ) -> Result<(), PortError> {
        let release = Release {
            handle,
            grace_seconds: None,
            retained: Vec::new(),
        };
        self.driver
            .release(&self.call(), allocation, &release)
            .await
    }

    /// Names of the resources tagged with our installation id.
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

    /// Runs `scenario`; if it panics, releases the instance first.
    pub(crate) async fn with_cleanup(
        &self,
        allocation: &Allocation,
        scenario: impl Future<Output = ()>,
    ) {
        let outcome = AssertUnwindSafe(scenario).catch_unwind().await;
        if let Err(panic) = outcome {
            let released = self.release(allocation, Value::Null).await;
            eprintln!("the scenario failed; releasing the instance: {released:?}");
            resume_unwind(panic);
        }
    }

    pub(crate) fn stack_name(&self) -> String {
        format!("vnf-{}", self.ownership.instance_id)
    }
}

/// A public key whose private key was discarded.
pub(crate) const PUBLIC_KEY: &str =
    "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJtzJ1FKlkmJkrFnzh3nLAMbDsSTLjpHgmjqhZYMF0wO test";

pub(crate) fn sample_folder(name: &str) -> PathBuf {
    let samples = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../vnfd-samples");
    samples.join(name)
}

pub(crate) fn sample(name: &str) -> Package {
    Package::open(&sample_folder(name), &Limits::default())
        .unwrap_or_else(|findings| panic!("{findings}"))
}

pub(crate) fn allocation(package: Package, request: Value) -> Allocation {
    let request = serde_json::from_value(request).unwrap();
    let allocation = Allocation::requested("package", Arc::new(package), request).unwrap();
    Allocation {
        instance_name: Some("one".into()),
        ..allocation
    }
}

/// A package of one VDU `server` with one external CP `out`.
pub(crate) struct OneVdu {
    pub(crate) image: &'static str,
    pub(crate) memory: &'static str,
    pub(crate) count: u32,
    pub(crate) apart: bool,
    pub(crate) brings_image: bool,
    /// Boots from a volume `root` and has a second volume, `data`.
    pub(crate) volumes: bool,
    /// Brings a Base HOT that reads Tacker's layout; a nested template has the server.
    pub(crate) tackers_layout: bool,
}

const TACKERS_LAYOUT: &str = "heat_template_version: 2018-08-31
parameters: {nfv: {type: json}}
resources:
  server:
    type: server.yaml
    properties:
      flavor: {get_param: [nfv, VDU, server, computeFlavourId]}
      image: {get_param: [nfv, VDU, server, vcImageId]}
      zone: {get_param: [nfv, VDU, server, locationConstraints]}
      net: {get_param: [nfv, CP, out, network]}
";
const TACKERS_SERVER: &str = "heat_template_version: 2018-08-31
parameters: {flavor: {type: string}, image: {type: string}, zone: {type: string}, net: {type: string}}
resources:
  server:
    type: OS::Nova::Server
    properties:
      flavor: {get_param: flavor}
      image: {get_param: image}
      availability_zone: {get_param: zone}
      networks: [{port: {get_resource: out}}]
  out:
    type: OS::Neutron::Port
    properties: {network: {get_param: net}}
";

impl Default for OneVdu {
    fn default() -> Self {
        Self {
            image: "nfv-image",
            memory: "128 MiB",
            count: 1,
            apart: false,
            brings_image: false,
            volumes: false,
            tackers_layout: false,
        }
    }
}

impl OneVdu {
    pub(crate) fn allocation(&self, bed: &TestBed) -> Allocation {
        let request = json!({
            "flavourId": "simple",
            "extVirtualLinks": [
                {"id": "external", "resourceId": bed.network, "extCps": [{"cpdId": "out", "cpConfig": {"c": {}}}]},
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
        if self.tackers_layout {
            write("BaseHOT/simple/top.yaml", TACKERS_LAYOUT);
            write("BaseHOT/simple/nested/server.yaml", TACKERS_SERVER);
        }
        let mut limits = Limits::default();
        if self.brings_image {
            // Larger than one read, so that the image is sent in pieces.
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
        let requirements =
            "\n      requirements: [{virtual_storage: root}, {virtual_storage: data}]";
        (String::new(), requirements, root + &storage("data", ""))
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

/// What exists, without what it was made of: `resolved` learns ids that the first call could not know.
pub(crate) fn existing(recorded: Recorded) -> Recorded {
    Recorded {
        resolved: Value::Null,
        ..recorded
    }
}
