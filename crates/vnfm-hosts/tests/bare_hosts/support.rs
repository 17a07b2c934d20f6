//! What all tests here share: a clock, calls, the sample, and simulated hosts.

use async_trait::async_trait;
use futures::future::BoxFuture;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use vnfm_core::ports::{
    Allocation, Clock, Convergence, InfraDriver, Ownership, PortError, Power, PowerChange,
    Recorded, Release, Replacement, Stop, Vim, VimCall, VimLogin, Watcher,
};
use vnfm_descriptor::{Limits, Package};
use vnfm_hosts::BareHosts;
use vnfm_outbound::Destinations;
use vnfm_sim::hosts::{HostSpec, User};
use vnfm_sim::{Options, World};
use vnfm_types::{HOSTS, VimConnectionInfo, VnfOperationalState};

pub(crate) const LEASE: &str = "/var/lib/vnfm/lease";
pub(crate) const PASSWORD: &str = "the-password-of-the-hosts";

pub(crate) struct RealClock;

impl Clock for RealClock {
    fn now(&self) -> Timestamp {
        Timestamp::now()
    }
    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        Box::pin(async move {
            let _ = tokio::time::timeout(duration, std::future::pending::<()>()).await;
        })
    }
}

fn sample_folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../vnfd-samples/vnf-bare-hosts")
}

/// The allocation that the sample requests.
pub(crate) fn sample() -> Allocation {
    requested_of(&sample_folder())
}

/// The sample's request for the package in this folder.
fn requested_of(package: &Path) -> Allocation {
    let package = Package::open(package, &Limits::default());
    let package = package.unwrap_or_else(|findings| panic!("{findings}"));
    let request = sample_folder().join("requests/instantiate.json");
    let request = std::fs::read_to_string(request).unwrap();
    let request = serde_json::from_str(&request).unwrap();
    Allocation::requested("package", Arc::new(package), request).unwrap()
}

/// The sample with another rule instead of its own: its type, scope and targets.
pub(crate) fn ruled(kind: &str, scope: &str, targets: &[&str]) -> Allocation {
    let own = rule("AntiAffinityRule", "nfvi_node", &["control", "forwarder"]);
    let other = rule(kind, scope, targets);
    let folder = tempfile::tempdir().unwrap();
    for path in [
        "TOSCA-Metadata/TOSCA.meta",
        "vnf-bare-hosts.mf",
        "Definitions/vnf-bare-hosts.yaml",
    ] {
        let text = std::fs::read_to_string(sample_folder().join(path)).unwrap();
        let to = folder.path().join(path);
        std::fs::create_dir_all(to.parent().unwrap()).unwrap();
        std::fs::write(to, text.replace(&own, &other)).unwrap();
    }
    let what = requested_of(folder.path());
    let rules = &what
        .package
        .vnfd()
        .flavour("simple")
        .unwrap()
        .affinity_rules;
    assert_eq!((rules.len(), rules[0].scope.as_str()), (1, scope));
    assert_eq!(rules[0].targets, targets);
    what
}

/// A rule in the VNFD, below its name.
fn rule(kind: &str, scope: &str, targets: &[&str]) -> String {
    let targets = targets.join(", ");
    format!(
        "        type: tosca.policies.nfv.{kind}\n        properties: {{scope: {scope}}}\n        targets: [{targets}]\n"
    )
}

/// The sample with this number of forwarders.
pub(crate) fn with_forwarders(count: u32) -> Allocation {
    resized(&sample(), count)
}

/// The same instance with this number of forwarders.
pub(crate) fn resized(what: &Allocation, forwarders: u32) -> Allocation {
    let mut other = what.clone();
    let deployment = Arc::make_mut(&mut other.deployment);
    deployment
        .vdu_instances
        .insert("forwarder".into(), forwarders);
    other
}

/// The same instance, stopped.
pub(crate) fn stopped(what: &Allocation) -> Allocation {
    let mut other = what.clone();
    let deployment = Arc::make_mut(&mut other.deployment);
    deployment.vnf_state = VnfOperationalState::Stopped;
    other
}

/// A registered inventory.
pub(crate) struct Site {
    pub(crate) driver: BareHosts,
    pub(crate) info: Mutex<VimConnectionInfo>,
    pub(crate) log: Mutex<Vec<String>>,
    pub(crate) timeout: SignedDuration,
}

#[async_trait]
impl Vim for Site {
    fn name(&self) -> &'static str {
        "edge"
    }
    fn connection_id(&self) -> &'static str {
        "vim1"
    }
    async fn connection(&self) -> Result<VimLogin, PortError> {
        let info = self.info.lock().unwrap().clone();
        Ok(VimLogin { info, version: 1 })
    }
}

impl Watcher for Site {
    fn waiting(&self, what: &str) {
        self.log.lock().unwrap().push(what.to_owned());
    }
    fn progress(&self, _: u8, _: &str) {}
    fn log(&self, _: &str, _: &str, text: &str) {
        self.log.lock().unwrap().push(text.to_owned());
    }
}

impl Site {
    pub(crate) fn new(info: VimConnectionInfo) -> Self {
        let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
        Self {
            driver: BareHosts::new(Destinations::anywhere()),
            info: Mutex::new(info),
            log: Mutex::default(),
            timeout: SignedDuration::from_mins(3),
        }
    }

    fn cx<'a>(&'a self, owner: &'a Ownership) -> VimCall<'a> {
        VimCall {
            vim: self,
            ownership: owner,
            clock: &RealClock,
            watcher: self,
            deadline: Timestamp::now() + self.timeout,
        }
    }

    pub(crate) async fn preview(
        &self,
        owner: &Ownership,
        what: &Allocation,
    ) -> Result<Value, PortError> {
        let change = Convergence::create(what);
        self.driver.preview(&self.cx(owner), &change).await
    }

    pub(crate) async fn create(
        &self,
        owner: &Ownership,
        what: &Allocation,
    ) -> Result<Recorded, PortError> {
        let change = Convergence::create(what);
        self.driver
            .converge(&self.cx(owner), &change, &Value::Null)
            .await
    }

    pub(crate) async fn heal(
        &self,
        owner: &Ownership,
        (what, record): (&Allocation, &Recorded),
        vnfc: &str,
    ) -> Result<Recorded, PortError> {
        let vnfcs = vec![vnfc.to_owned()];
        let replace = Replacement {
            vnfcs,
            with_storage: false,
        };
        let change = Convergence::update(record, what).replacing(replace);
        self.driver
            .converge(&self.cx(owner), &change, &Value::Null)
            .await
    }

    pub(crate) async fn update(
        &self,
        owner: &Ownership,
        (what, record): (&Allocation, &Recorded),
    ) -> Result<Recorded, PortError> {
        let change = Convergence::update(record, what);
        self.driver
            .converge(&self.cx(owner), &change, &Value::Null)
            .await
    }

    pub(crate) async fn operate(
        &self,
        owner: &Ownership,
        (target, current): (&Allocation, &Recorded),
        stop: Stop,
    ) -> Result<Recorded, PortError> {
        let change = PowerChange {
            current,
            target,
            stop,
        };
        self.driver.operate(&self.cx(owner), &change).await
    }

    pub(crate) async fn release(&self, owner: &Ownership, handle: Value) -> Result<(), PortError> {
        let how = Release {
            handle,
            grace_seconds: None,
            retained: Vec::new(),
        };
        self.driver.release(&self.cx(owner), &sample(), &how).await
    }

    pub(crate) async fn observe(
        &self,
        owner: &Ownership,
        record: &Recorded,
    ) -> Result<Recorded, PortError> {
        self.driver
            .observe(&self.cx(owner), &sample(), &record.handle)
            .await
    }
}

pub(crate) fn owner() -> Ownership {
    let id = || uuid::Uuid::new_v4().to_string();
    Ownership {
        installation_id: "installation".into(),
        tenant: "default".into(),
        instance_id: id(),
        op_id: id(),
    }
}

/// The hosts of a record, by VDU and position.
pub(crate) fn hosts_of(record: &Recorded) -> Vec<String> {
    let vnfcs = record.inventory.vnfc_resource_info.iter();
    vnfcs
        .map(|vnfc| vnfc.compute_resource.resource_id.clone())
        .collect()
}

/// Hosts of the simulated world, at addresses of their own.
pub(crate) struct SimulatedHosts {
    pub(crate) world: World,
    pub(crate) names: Vec<String>,
}

impl SimulatedHosts {
    pub(crate) async fn start(count: u8) -> Self {
        let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
        let world = World::start(Options::default()).await.unwrap();
        let block = world.endpoints().address_block.clone();
        let block = block.trim_end_matches("0/24").to_owned();
        let mut names = Vec::new();
        for number in 1..=count {
            let name = format!("node-{number}");
            let user = User {
                name: "ops".into(),
                password: Some(PASSWORD.into()),
                authorized_keys: Vec::new(),
            };
            let spec = HostSpec {
                server_id: name.clone(),
                name: name.clone(),
                address: format!("{block}{}", 200 + number).parse().unwrap(),
                users: vec![user],
            };
            world.hosts().boot(spec).await.unwrap();
            names.push(name);
        }
        Self { world, names }
    }

    /// The inventory; `more` are further members of each host, by name.
    pub(crate) fn inventory(&self, more: impl Fn(&str) -> Value) -> VimConnectionInfo {
        let block = self.world.endpoints().address_block.clone();
        let block = block.trim_end_matches("0/24").to_owned();
        let hosts = self.names.iter().enumerate().map(|(at, name)| {
            let mut host = json!({"name": name, "address": format!("{block}{}", 201 + at),
                "sshPort": self.world.endpoints().ssh_port});
            let more = more(name);
            host.as_object_mut()
                .unwrap()
                .extend(more.as_object().unwrap().clone());
            host
        });
        VimConnectionInfo::new(HOSTS)
            .interface("hosts", hosts.collect::<Vec<_>>())
            .interface("wipeCommand", "rm -rf /etc/router")
            .access("username", "ops")
            .access("password", PASSWORD)
    }

    pub(crate) fn site(&self) -> Site {
        Site::new(self.inventory(|_| json!({})))
    }

    /// Names of the hosts that have a lease, according to their disks.
    pub(crate) fn leased(&self) -> Vec<String> {
        let names = self.names.iter();
        names
            .filter(|name| self.world.hosts().file(name, LEASE).is_some())
            .cloned()
            .collect()
    }

    /// The lease of a host, according to its disk.
    pub(crate) fn lease(&self, name: &str) -> Value {
        let text = self.world.hosts().file(name, LEASE).unwrap();
        serde_json::from_slice(&text).unwrap()
    }
}
