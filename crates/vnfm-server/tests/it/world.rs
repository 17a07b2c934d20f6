//! Fake neighbours of the engine: a VIM of any type without resources, and a MgmtDriver with only a schema.

use async_trait::async_trait;
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use tokio::sync::watch;
use vnfm_core::ports::{Vim, *};
use vnfm_types::*;

const INJECTED: Code = Code {
    name: "test.told-to",
    kind: ErrorKind::Refused,
    means: "the test makes it fail",
    next: "change the test",
};

/// A password that the VIM refuses.
pub(crate) const WRONG: &str = "planted-wrong-password";

/// What the VIM does with each call.
pub(crate) struct World {
    /// While true, everything that creates, replaces or deletes waits.
    pub(crate) held: watch::Sender<bool>,
    /// While true, an instantiation fails.
    pub(crate) fails: AtomicBool,
    /// While true, the driver offers only what every driver must.
    pub(crate) limited: AtomicBool,
    /// Names of the received calls.
    pub(crate) calls: watch::Sender<Vec<&'static str>>,
}

impl World {
    pub(crate) fn new() -> Arc<Self> {
        let (held, calls) = (watch::Sender::new(false), watch::Sender::default());
        Arc::new(Self {
            held,
            fails: AtomicBool::new(false),
            limited: AtomicBool::new(false),
            calls,
        })
    }

    /// Waits until `call` was received.
    pub(crate) async fn until(&self, call: &str) {
        self.calls
            .subscribe()
            .wait_for(|calls| calls.contains(&call))
            .await
            .unwrap();
    }

    /// Waits while everything is held.
    async fn released(&self) {
        let _ = self.held.subscribe().wait_for(|held| !held).await;
    }

    fn note(&self, call: &'static str) {
        self.calls.send_modify(|calls| calls.push(call));
    }
}

/// The driver of the simulated VIM.
pub(crate) struct Driver(pub(crate) Arc<World>);

#[async_trait]
impl InfraDriver for Driver {
    fn vim_types(&self) -> &'static [&'static str] {
        &[KUBERNETES, OPENSTACK, "openstack"]
    }
    fn validate(&self, connection: &VimConnectionInfo) -> Result<(), PortError> {
        match connection.interface_info.get("endpoint") {
            Some(_) => Ok(()),
            None => Err(PortError::new(
                &INJECTED,
                "use the VIM",
                "interfaceInfo.endpoint is missing",
            )),
        }
    }
    fn validate_request(&self, _: &Allocation) -> Result<(), PortError> {
        Ok(())
    }
    fn permit(&self, _: &Allocation, _: &VimPolicy) -> Result<(), PortError> {
        Ok(())
    }
    async fn check(&self, vim: &dyn Vim) -> Result<VimReport, PortError> {
        self.0.note("check");
        let login = vim.connection().await?;
        if login.info.access_info.values().any(|value| value == WRONG) {
            return Err(PortError::new(
                &INJECTED,
                format!("log in to `{}`", vim.name()),
                "401 Unauthorized",
            ));
        }
        let identity = login.info.interface_info["endpoint"]
            .as_str()
            .map(ToOwned::to_owned);
        Ok(VimReport {
            identity,
            ..VimReport::default()
        })
    }
    async fn preview(&self, _: &VimCall<'_>, _: &Convergence<'_>) -> Result<Value, PortError> {
        Ok(Value::Null)
    }
    async fn converge(
        &self,
        cx: &VimCall<'_>,
        change: &Convergence<'_>,
        _: &Value,
    ) -> Result<Recorded, PortError> {
        self.0.note(match change.current {
            None => "allocate",
            Some(_) if is_resize(change) => "resize",
            Some(_) => "heal",
        });
        cx.watcher.waiting("the test");
        self.0.released().await;
        if let Some(current) = change.current {
            let resizes = is_resize(change);
            return Ok(if resizes {
                resized(current, change.target)
            } else {
                healed(current)
            });
        }
        if self.0.fails.load(SeqCst) {
            return Err(PortError::new(&INJECTED, "make it", "told to fail")
                .on("thing-1")
                .request(Some("req-1".into())));
        }
        let mut inventory = inventory(cx.vim.connection_id());
        let params = &change.target.deployment.additional_params;
        if params.contains_key("with_storage") {
            let storage = VirtualStorageResourceInfo {
                id: "data-0".into(),
                virtual_storage_desc_id: "data".into(),
                ..VirtualStorageResourceInfo::default()
            };
            inventory.virtual_storage_resource_info.push(storage);
        }
        Ok(Recorded {
            handle: json!("h"),
            inventory,
            ..Recorded::default()
        })
    }
    fn power(&self) -> Option<&dyn Power> {
        (!self.0.limited.load(SeqCst)).then_some(self)
    }
    fn links(&self) -> Option<&dyn Links> {
        (!self.0.limited.load(SeqCst)).then_some(self)
    }
    fn volumes(&self) -> Option<&dyn Volumes> {
        (!self.0.limited.load(SeqCst)).then_some(self)
    }
    fn snapshots(&self) -> Option<&dyn Snapshots> {
        (!self.0.limited.load(SeqCst)).then_some(self)
    }
    fn changes_ext_connectivity(&self) -> bool {
        !self.0.limited.load(SeqCst)
    }
    async fn release(&self, _: &VimCall<'_>, _: &Allocation, _: &Release) -> Result<(), PortError> {
        self.0.note("release");
        self.0.released().await;
        Ok(())
    }
    async fn observe(
        &self,
        _: &VimCall<'_>,
        _: &Allocation,
        _: &Value,
    ) -> Result<Recorded, PortError> {
        self.0.note("observe");
        Ok(Recorded::default())
    }
    async fn owned(&self, _: &dyn Vim, _: &str) -> Result<Vec<OwnedResource>, PortError> {
        let (kind, id, name) = ("Thing".into(), "t1".into(), "thing-1".into());
        Ok(vec![OwnedResource {
            kind,
            id,
            name,
            instance_id: Some("nobody".into()),
            snapshot_id: None,
            link_id: None,
            volume_id: None,
        }])
    }
}

#[async_trait]
impl Links for Driver {
    fn validate_link(&self, link: &LinkSpec) -> Result<(), PortError> {
        if link.subnets.is_empty() {
            let text = "`subnets` names no subnet";
            return Err(PortError::new(
                &INJECTED,
                "use the shared virtual link",
                text,
            ));
        }
        Ok(())
    }
    async fn create_link(&self, _: &VimCall<'_>, link: &SharedLink) -> Result<String, PortError> {
        self.0.note("create_link");
        Ok(format!("network-{}", link.spec.name))
    }
    async fn delete_link(&self, _: &VimCall<'_>, _: &SharedLink) -> Result<(), PortError> {
        self.0.note("delete_link");
        Ok(())
    }
}

#[async_trait]
impl Volumes for Driver {
    async fn find_volumes(
        &self,
        _: &VimCall<'_>,
        storages: &[VirtualStorageResourceInfo],
    ) -> Result<Vec<FoundVolume>, PortError> {
        let found = FoundVolume {
            resource_id: "volume-1".into(),
            size_gib: Some(5),
        };
        Ok(vec![found; storages.len()])
    }
    async fn retain_volumes(&self, _: &VimCall<'_>, _: &[RetainedVolume]) -> Result<(), PortError> {
        self.0.note("retain_volumes");
        Ok(())
    }
    async fn unretain_volumes(
        &self,
        _: &VimCall<'_>,
        _: &[RetainedVolume],
    ) -> Result<(), PortError> {
        self.0.note("unretain_volumes");
        Ok(())
    }
    async fn create_volume(
        &self,
        _: &VimCall<'_>,
        volume: &RetainedVolume,
    ) -> Result<FoundVolume, PortError> {
        self.0.note("create_volume");
        if volume.volume_type.as_deref() == Some("unknown") {
            let text = "there is no volume type `unknown`";
            return Err(PortError::new(&INJECTED, "create a volume", text));
        }
        Ok(FoundVolume {
            resource_id: "volume-2".into(),
            size_gib: volume.size_gib,
        })
    }
    async fn delete_volume(&self, _: &VimCall<'_>, _: &RetainedVolume) -> Result<(), PortError> {
        self.0.note("delete_volume");
        Ok(())
    }
}

#[async_trait]
impl Snapshots for Driver {
    async fn check_source(&self, _: &VimCall<'_>, _: &SnapshotSource<'_>) -> Result<(), PortError> {
        Ok(())
    }
    async fn create(
        &self,
        _: &VimCall<'_>,
        source: &SnapshotSource<'_>,
    ) -> Result<StoredSnapshot, PortError> {
        self.0.note("store");
        self.0.released().await;
        let vnfcs = source.current.inventory.vnfc_resource_info.iter();
        let vnfc = |vnfc: &VnfcResourceInfo| VnfcSnapshotInfo {
            id: vnfc.id.clone(),
            vnfc_instance_id: vnfc.id.clone(),
            vnfc_resource_info_id: Some(vnfc.id.clone()),
            compute_snapshot_resource: Some(vnfc.compute_resource.clone()),
            ..VnfcSnapshotInfo::default()
        };
        Ok(StoredSnapshot {
            handle: json!("stored"),
            vnfcs: vnfcs.map(vnfc).collect(),
        })
    }
    async fn revert(
        &self,
        _: &VimCall<'_>,
        reversion: &Reversion<'_>,
    ) -> Result<Recorded, PortError> {
        self.0.note("revert");
        Ok(reversion.current.clone())
    }
    async fn delete(&self, _: &VimCall<'_>, _: &str, _: &Value) -> Result<(), PortError> {
        self.0.note("discard");
        Ok(())
    }
    async fn plan_create(
        &self,
        _: &VimCall<'_>,
        _: &SnapshotSource<'_>,
    ) -> Result<ResourcePlan, PortError> {
        Ok(ResourcePlan::default())
    }
    async fn plan_revert(
        &self,
        _: &VimCall<'_>,
        _: &Reversion<'_>,
    ) -> Result<ResourcePlan, PortError> {
        Ok(ResourcePlan::default())
    }
}

/// Whether the change replaces no VNFC.
fn is_resize(change: &Convergence<'_>) -> bool {
    change.replace.vnfcs.is_empty()
}

/// The instance with as many VNFCs `web` as its deployment has.
fn resized(current: &Recorded, target: &Allocation) -> Recorded {
    let mut now = current.clone();
    let wanted = target.deployment.instances_of("web") as usize;
    let vnfcs = &mut now.inventory.vnfc_resource_info;
    vnfcs.truncate(wanted);
    // Without VNFCs, its instantiation was given up, and this is a heal.
    let Some(first) = vnfcs.first().cloned() else {
        return now;
    };
    for number in vnfcs.len()..wanted {
        let mut added = first.clone();
        added.id = format!("vnfc{}", number + 1);
        added.vnfc_cp_info.clear();
        vnfcs.push(added);
    }
    now
}

#[async_trait]
impl Power for Driver {
    fn is_per_vnfc(&self) -> bool {
        true
    }
    async fn operate(
        &self,
        _: &VimCall<'_>,
        change: &PowerChange<'_>,
    ) -> Result<Recorded, PortError> {
        self.0.note("power");
        self.0.released().await;
        Ok(change.current.clone())
    }
}

/// The instance with a new id for every VNFC.
fn healed(current: &Recorded) -> Recorded {
    let mut inventory = current.inventory.clone();
    for vnfc in &mut inventory.vnfc_resource_info {
        vnfc.id += "-healed";
    }
    Recorded {
        handle: json!("h"),
        inventory,
        ..Recorded::default()
    }
}

/// One VNFC with an external connection point.
fn inventory(vim: &str) -> Inventory {
    let address = IpOverEthernetAddressInfo {
        ip_addresses: vec![IpAddressesInfo {
            type_: "IPV4".into(),
            addresses: vec!["192.0.2.1".into()],
            ..IpAddressesInfo::default()
        }],
        ..IpOverEthernetAddressInfo::default()
    };
    let protocol = CpProtocolInfo {
        layer_protocol: "IP_OVER_ETHERNET".into(),
        ip_over_ethernet: Some(address),
    };
    let cp = VnfcCpInfo {
        id: "cp1".into(),
        cpd_id: "cpd".into(),
        vnf_ext_cp_id: Some("ext1".into()),
        cp_protocol_info: vec![protocol.clone()],
        ..VnfcCpInfo::default()
    };
    let vnfc = VnfcResourceInfo {
        id: "vnfc1".into(),
        vdu_id: "web".into(),
        compute_resource: ResourceHandle {
            vim_connection_id: Some(vim.into()),
            resource_id: "thing-1".into(),
            ..ResourceHandle::default()
        },
        vnfc_cp_info: vec![cp],
        ..VnfcResourceInfo::default()
    };
    let ext = VnfExtCpInfo {
        id: "ext1".into(),
        cpd_id: "cpd".into(),
        cp_config_id: "config".into(),
        cp_protocol_info: vec![protocol],
        associated_vnfc_cp_id: Some("cp1".into()),
        ..VnfExtCpInfo::default()
    };
    Inventory {
        vnfc_resource_info: vec![vnfc],
        ext_cp_info: vec![ext],
        ..Inventory::default()
    }
}

/// Value of `site` with which a hook never returns.
pub(crate) const HANGS: &str = "hangs";

/// Value of `site` with which a hook registers a cluster.
pub(crate) const REGISTERS: &str = "registers";

/// A MgmtDriver that declares `hooks`, those of the instantiation with a schema that requires `site`; or one with the
/// name from the original specification and without a schema.
pub(crate) struct Mgmt(Declaration, &'static str);

/// Name of the MgmtDriver in the original specification.
const OF_THE_SEED: &str = "mgmt-drivers-kubernetes";
const NAME: &str = "kubernetes-cluster";

impl Mgmt {
    pub(crate) fn declaring(hooks: &[&str], as_seed: bool) -> Arc<Self> {
        let parameters = json!({
            "type": "object",
            "required": ["site"],
            "properties": {"site": {"type": "string"}},
        });
        let declared = hooks.iter().map(|hook| {
            let has_schema = !as_seed && hook.starts_with("instantiate");
            let parameters = has_schema.then(|| parameters.clone());
            (
                (*hook).to_owned(),
                HookDeclaration {
                    parameters,
                    undo: false,
                },
            )
        });
        let declaration = Declaration {
            name: NAME.into(),
            version: "1.2.3".into(),
            hooks: declared.collect(),
            config_schema: None,
        };
        Arc::new(Self(declaration, if as_seed { OF_THE_SEED } else { NAME }))
    }
}

#[async_trait]
impl MgmtDriver for Mgmt {
    fn declaration(&self) -> &Declaration {
        &self.0
    }
    async fn call(&self, request: HookRequest, _: Arc<dyn HookHost>) -> Result<Effects, PortError> {
        if request.additional_params.get("site") == Some(&json!(HANGS)) {
            std::future::pending::<()>().await;
        }
        let mut effects = Effects::none();
        let registers = request.additional_params.get("site") == Some(&json!(REGISTERS));
        if registers && request.hook == "instantiate_end" {
            effects.register_vims.push(cluster());
        }
        Ok(effects)
    }
}

/// A cluster that a hook registers.
fn cluster() -> NewVim {
    NewVim::new("made", KUBERNETES)
        .interface("endpoint", "https://made.example.com")
        .access("bearer_token", "planted-token")
}

/// A registry with one driver.
pub(crate) struct Only(pub(crate) Arc<Mgmt>);

impl MgmtDrivers for Only {
    fn resolve(&self, wanted: &HookDriverRef<'_>) -> Result<Arc<dyn MgmtDriver>, PortError> {
        let name = wanted.plugin.unwrap_or(wanted.implementation);
        if name == self.0.1 {
            return wanted.checked(Ok(self.0.clone()));
        }
        let action = format!("find plugin `{name}`");
        Err(PortError::new(&INJECTED, action, "there is none"))
    }
    fn list(&self) -> Vec<Declaration> {
        vec![self.0.0.clone()]
    }
}
