//! Fake ports. The VIM and the hooks record their state, and any call can be made to fail by its number.

use async_trait::async_trait;
use futures::future::pending;
use jiff::Timestamp;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, LazyLock, Mutex};
use tokio::sync::Notify;
use vnfm_core::ports::*;
use vnfm_core::query::Query;
use vnfm_core::{Deployment, Drivers, Engine, EngineParts, Limits};
use vnfm_descriptor::Package;
use vnfm_store::SqliteStore;
use vnfm_types::*;

pub(crate) const TENANT: &str = "default";
const CODE: Code = Code {
    name: "test.told-to",
    kind: ErrorKind::Unavailable,
    means: "the test injected a failure",
    next: "nothing",
};

/// The environment of an engine, which outlives it, and the switches of the test.
#[derive(Default)]
pub(crate) struct FakeWorld {
    /// Ids of instances with resources on the VIM.
    pub(crate) resources: Mutex<BTreeSet<String>>,
    /// Resources of each instance.
    pub(crate) inventories: Mutex<BTreeMap<String, Inventory>>,
    /// Parameters of each hook call.
    pub(crate) hook_params: Mutex<Vec<(String, Value)>>,
    /// Instances that a `…_start` hook has drained, and no later hook has restored.
    pub(crate) drained: Mutex<BTreeSet<String>>,
    /// Every call, in order.
    pub(crate) calls: Mutex<Vec<String>>,
    /// Number of the call that fails once, from 1; 0: none.
    pub(crate) fail_call: AtomicUsize,
    /// Number of times that it fails because no file descriptor is left.
    pub(crate) descriptor_failures: AtomicUsize,
    /// The failing call takes effect first.
    pub(crate) fail_after_effect: Mutex<bool>,
    /// Calls of this name never return.
    pub(crate) hang_in: Mutex<Option<&'static str>>,
    /// The newest version of the plugin, if not 1.0.0.
    pub(crate) newest_version: Mutex<Option<&'static str>>,
    /// The next call of this name waits for the notification before its effect.
    pub(crate) gate: Mutex<Option<(&'static str, Arc<Notify>)>>,
    /// Number of the call that never returns, from 1; 0: none.
    pub(crate) hang_at_call: AtomicUsize,
    /// Notified when a call hangs.
    pub(crate) hung: Notify,
    /// The VIM cannot be reached.
    pub(crate) vim_unavailable: AtomicBool,
    /// The plugin is not installed.
    pub(crate) plugin_missing: AtomicBool,
    /// Changes the plugin's declaration.
    pub(crate) change_declaration: Mutex<Option<fn(&mut Declaration)>>,
    /// An additional host service call of every hook: service and request.
    pub(crate) hook_service_call: Mutex<Option<(&'static str, Value)>>,
    /// Plugin version of each hook call.
    pub(crate) called_versions: Mutex<Vec<String>>,
    /// Only the newest version of the plugin is installed.
    pub(crate) first_plugin_missing: AtomicBool,
    /// The newest version of the plugin cannot be loaded.
    pub(crate) newest_plugin_broken: AtomicBool,
    /// The package cannot be read.
    pub(crate) package_missing: AtomicBool,
    /// Whether there is an NFVO.
    pub(crate) has_nfvo: AtomicBool,
    /// The last deployment that the VIM created.
    pub(crate) last_deployment: Mutex<Option<Arc<Deployment>>>,
    /// Requests for grants, in order.
    pub(crate) grant_requests: Mutex<Vec<GrantRequest>>,
    /// The next responses of the NFVO; afterwards it grants every request.
    pub(crate) grant_responses: Mutex<VecDeque<Result<GrantOutcome, PortError>>>,
}

/// The VIM in the registry; its name is `cloud`.
pub(crate) const CLOUD: &str = "5f1d0f0a-0000-4000-8000-00000000c10d";

impl FakeWorld {
    /// An environment with an NFVO.
    pub(crate) fn with_nfvo() -> Arc<Self> {
        Arc::new(Self {
            has_nfvo: AtomicBool::new(true),
            ..Self::default()
        })
    }

    pub(crate) async fn call(
        &self,
        name: &str,
        effect: impl FnOnce(&mut BTreeSet<String>),
    ) -> Result<(), PortError> {
        let number = {
            let mut calls = self.calls.lock().unwrap();
            calls.push(name.to_owned());
            calls.len()
        };
        let hangs = self.hang_in.lock().unwrap().is_some_and(|at| at == name);
        if hangs || self.hang_at_call.load(SeqCst) == number {
            self.hung.notify_one();
            pending::<()>().await;
        }
        let gate = self.gate.lock().unwrap().take_if(|(at, _)| *at == name);
        if let Some((_, opened)) = gate {
            opened.notified().await;
        }
        if self.vim_unavailable.load(SeqCst) && VIM_CALLS.contains(&name) {
            return Err(PortError::new(
                &CODE,
                format!("do `{name}`"),
                "the VIM is gone",
            ));
        }
        let fails = self.fail_call.load(SeqCst) == number;
        if fails && self.descriptor_failures.load(SeqCst) > 0 {
            if self.descriptor_failures.fetch_sub(1, SeqCst) > 1 {
                self.fail_call.fetch_add(1, SeqCst);
            }
            let none = std::io::Error::from_raw_os_error(24);
            return Err(PortError::new(
                &CODE,
                format!("do `{name}`"),
                none.to_string(),
            ));
        }
        let after = *self.fail_after_effect.lock().unwrap();
        if !fails || after {
            effect(&mut self.resources.lock().unwrap());
        }
        if fails {
            Err(PortError::new(
                &CODE,
                format!("do `{name}`"),
                "told to fail",
            ))
        } else {
            Ok(())
        }
    }

    pub(crate) fn calls(&self) -> Vec<String> {
        self.calls.lock().unwrap().clone()
    }

    pub(crate) fn resource_ids(&self) -> Vec<String> {
        self.resources.lock().unwrap().iter().cloned().collect()
    }
}

/// Names of calls to the VIM.
const VIM_CALLS: [&str; 5] = ["check", "prepare", "allocate", "heal", "release"];

/// A VIM of both types that only records resources.
struct FakeVim(Arc<FakeWorld>);

#[async_trait]
impl InfraDriver for FakeVim {
    fn vim_types(&self) -> &'static [&'static str] {
        &[KUBERNETES, OPENSTACK]
    }
    fn validate(&self, _: &VimConnectionInfo) -> Result<(), PortError> {
        Ok(())
    }
    fn validate_request(&self, _: &Allocation) -> Result<(), PortError> {
        Ok(())
    }
    fn permit(&self, _: &Allocation, _: &vnfm_types::VimPolicy) -> Result<(), PortError> {
        Ok(())
    }
    async fn check(&self, vim: &dyn vnfm_core::ports::Vim) -> Result<VimReport, PortError> {
        self.0.call("check", |_| ()).await?;
        let endpoint = vim
            .connection()
            .await?
            .info
            .interface_info
            .get("endpoint")
            .cloned();
        let identity = endpoint.and_then(|endpoint| endpoint.as_str().map(ToOwned::to_owned));
        Ok(VimReport {
            identity,
            ..VimReport::default()
        })
    }
    async fn prepare(&self, _: &VimCall<'_>, _: &Allocation) -> Result<Value, PortError> {
        self.0
            .call("prepare", |_| ())
            .await
            .map(|()| json!({"image": "i"}))
    }
    async fn allocate(
        &self,
        cx: &VimCall<'_>,
        what: &Allocation,
        prepared: &Value,
    ) -> Result<Allocated, PortError> {
        assert_eq!(
            prepared["image"], "i",
            "what `prepare` found has to come back"
        );
        *self.0.last_deployment.lock().unwrap() = Some(what.deployment.clone());
        let id = cx.ownership.instance_id.clone();
        let inventories = &self.0.inventories;
        let inventory = allocated().inventory;
        let effect = |all: &mut BTreeSet<String>| {
            _ = all.insert(id.clone());
            _ = inventories.lock().unwrap().insert(id, inventory);
        };
        self.0.call("allocate", effect).await?;
        Ok(allocated())
    }
    async fn release(
        &self,
        cx: &VimCall<'_>,
        _: &Allocation,
        _: &Release,
    ) -> Result<(), PortError> {
        let id = cx.ownership.instance_id.clone();
        self.0.call("release", |all| _ = all.remove(&id)).await
    }
    async fn heal(
        &self,
        cx: &VimCall<'_>,
        _: &Allocation,
        repair: &Repair,
    ) -> Result<Allocated, PortError> {
        assert_eq!(
            repair.handle, "h",
            "what `allocate` returned has to come back"
        );
        let id = cx.ownership.instance_id.clone();
        let mut inventory = repair.inventory.clone();
        for vnfc in &mut inventory.vnfc_resource_info {
            if repair.vnfcs.contains(&vnfc.id) {
                vnfc.id += "+";
            }
        }
        let healed = inventory.clone();
        let inventories = &self.0.inventories;
        let effect = |all: &mut BTreeSet<String>| {
            _ = all.insert(id.clone());
            _ = inventories.lock().unwrap().insert(id, healed);
        };
        self.0.call("heal", effect).await?;
        Ok(Allocated {
            inventory,
            ..allocated()
        })
    }
    async fn observe(
        &self,
        cx: &VimCall<'_>,
        _: &Allocation,
        _: &Value,
    ) -> Result<Allocated, PortError> {
        if self.0.vim_unavailable.load(SeqCst) {
            return Err(PortError::new(&CODE, "look", "the VIM is gone"));
        }
        let id = &cx.ownership.instance_id;
        if !self.0.resource_ids().contains(id) {
            return Ok(Allocated::default());
        }
        let inventory = self.0.inventories.lock().unwrap()[id].clone();
        Ok(Allocated {
            inventory,
            ..allocated()
        })
    }
    async fn owned(
        &self,
        _: &dyn vnfm_core::ports::Vim,
        _: &str,
    ) -> Result<Vec<OwnedResource>, PortError> {
        if self.0.vim_unavailable.load(SeqCst) {
            return Err(PortError::new(&CODE, "look", "the VIM is gone"));
        }
        let owned = |id: String| OwnedResource {
            kind: "Thing".into(),
            id: id.clone(),
            name: id.clone(),
            instance_id: Some(id),
        };
        Ok(self.0.resource_ids().into_iter().map(owned).collect())
    }
}

/// The resources of every instance.
fn allocated() -> Allocated {
    let vnfc = |id: &str| VnfcResourceInfo {
        id: id.into(),
        vdu_id: "v".into(),
        ..Default::default()
    };
    let vnfc_resource_info = vec![vnfc("c1"), vnfc("c2")];
    let inventory = Inventory {
        vnfc_resource_info,
        ..Inventory::default()
    };
    Allocated {
        handle: json!("h"),
        inventory,
        ..Allocated::default()
    }
}

/// A MgmtDriver with all hooks: the cluster `https://<instance>` is registered at the end of an instantiation, with
/// another token at the end of a heal, and unregistered at the end of a termination. What a `…_start` hook takes out
/// of service, its undo or the `…_end` hook restores.
struct FakeMgmtDriver(Arc<FakeWorld>, Declaration);

#[async_trait]
impl MgmtDriver for FakeMgmtDriver {
    fn declaration(&self) -> &Declaration {
        &self.1
    }
    async fn call(
        &self,
        request: HookRequest,
        host: Arc<dyn HookHost>,
    ) -> Result<Effects, PortError> {
        host.call("checkpoint.put", json!({"key": "k", "value": "v"}))
            .await?;
        self.0
            .called_versions
            .lock()
            .unwrap()
            .push(self.1.version.clone());
        let service_call = self.0.hook_service_call.lock().unwrap().clone();
        if let Some((service, request)) = service_call {
            host.call(service, request).await?;
        }
        let stored = host.call("checkpoint.get", json!({"key": "k"})).await?;
        assert_eq!(stored["value"], "v");
        let params = Value::Object(request.additional_params.clone());
        self.0
            .hook_params
            .lock()
            .unwrap()
            .push((request.hook.clone(), params));
        let id = request.instance.id.clone();
        let prefix = if request.undo { "undo " } else { "" };
        let drains = request.hook.ends_with("_start") && !request.undo;
        let drained = &self.0.drained;
        let mark_drained = |_: &mut BTreeSet<String>| {
            let mut drained = drained.lock().unwrap();
            _ = if drains {
                drained.insert(id)
            } else {
                drained.remove(&id)
            };
        };
        self.0
            .call(&format!("{prefix}{}", request.hook), mark_drained)
            .await?;
        Ok(effects_of(&request))
    }
}

/// Instantiation and heal register the cluster, each with its own token; termination unregisters it.
fn effects_of(request: &HookRequest) -> Effects {
    let name = format!("cluster-{}", request.instance.id);
    let mut effects = Effects {
        schema_version: 1,
        ..Effects::default()
    };
    let token = match request.hook.as_str() {
        _ if request.undo => return effects,
        "instantiate_end" => "planted-token",
        "heal_end" => "planted-token-after-heal",
        "terminate_end" => {
            effects.unregister_vims = vec![name];
            return effects;
        }
        _ => return effects,
    };
    let endpoint = format!("https://{}", request.instance.id);
    effects.register_vims = vec![NewVim {
        name,
        vim_type: KUBERNETES.into(),
        interface_info: [("endpoint".to_owned(), json!(endpoint))]
            .into_iter()
            .collect(),
        access_info: [("bearer_token".to_owned(), json!(token))]
            .into_iter()
            .collect(),
        ..NewVim::default()
    }];
    effects
}

/// The NFVO.
struct FakeNfvo(Arc<FakeWorld>);

/// A grant of everything requested.
pub(crate) fn granted(request: &GrantRequest) -> Grant {
    let approve = |all: &[ResourceDefinition]| {
        let info = |one: &ResourceDefinition| GrantInfo {
            resource_definition_id: one.id.clone(),
            ..GrantInfo::default()
        };
        all.iter().map(info).collect()
    };
    Grant {
        id: format!("grant-of-{}", request.vnf_lcm_op_occ_id),
        vnf_instance_id: request.vnf_instance_id.clone(),
        vnf_lcm_op_occ_id: request.vnf_lcm_op_occ_id.clone(),
        add_resources: approve(&request.add_resources),
        remove_resources: approve(&request.remove_resources),
        update_resources: approve(&request.update_resources),
        ..Grant::default()
    }
}

#[async_trait]
impl Nfvo for FakeNfvo {
    async fn request_grant(&self, request: &GrantRequest) -> Result<GrantOutcome, PortError> {
        self.0.grant_requests.lock().unwrap().push(request.clone());
        self.0.call("grant", |_| ()).await?;
        let next = self.0.grant_responses.lock().unwrap().pop_front();
        next.unwrap_or_else(|| Ok(GrantOutcome::Granted(Box::new(granted(request)))))
    }

    async fn poll_grant(&self, fixture: &str) -> Result<GrantOutcome, PortError> {
        self.0.call("look", |_| ()).await?;
        let next = self.0.grant_responses.lock().unwrap().pop_front();
        let request = self.0.grant_requests.lock().unwrap().last().cloned();
        let granted = || Ok(GrantOutcome::Granted(Box::new(granted(&request.unwrap()))));
        assert_eq!(fixture, "place", "where it was told to look");
        next.unwrap_or_else(granted)
    }
}

struct FakePlugins(Arc<FakeWorld>, Arc<FakeMgmtDriver>);

impl MgmtDrivers for FakePlugins {
    fn find(&self, _: &str, plugin: Option<&str>) -> Result<Arc<dyn MgmtDriver>, PortError> {
        if self.0.plugin_missing.load(SeqCst) {
            return Err(PortError::new(&CODE, "find the plugin", "there is none"));
        }
        let FakeMgmtDriver(world, declaration) = &*self.1;
        let newest = world
            .newest_version
            .lock()
            .unwrap()
            .unwrap_or(&declaration.version)
            .to_owned();
        // The first version is installed alongside the newest until it is removed.
        let first = plugin.is_some_and(|name| name == format!("fake@{}", declaration.version));
        let first = first && !world.first_plugin_missing.load(SeqCst);
        if !first && world.newest_plugin_broken.load(SeqCst) {
            return Err(PortError::new(
                &CODE,
                "load the plugin",
                "the newest is broken",
            ));
        }
        let version = if first {
            declaration.version.clone()
        } else {
            newest
        };
        let mut declaration = Declaration {
            version,
            ..declaration.clone()
        };
        if let Some(change) = *world.change_declaration.lock().unwrap() {
            change(&mut declaration);
        }
        Ok(Arc::new(FakeMgmtDriver(world.clone(), declaration)))
    }
    fn find_exact(
        &self,
        began: &DriverId,
        implementation: &str,
        _: Option<&str>,
    ) -> Result<Arc<dyn MgmtDriver>, PortError> {
        let own = format!("{}@{}", began.name, began.version);
        let driver = self.find(implementation, Some(&own))?;
        if driver.id() == *began {
            Ok(driver)
        } else {
            Err(replaced(began, Ok(driver.id())))
        }
    }
    fn list(&self) -> Vec<Declaration> {
        vec![self.1.1.clone()]
    }
}

struct FakePackages(Arc<FakeWorld>, Arc<Package>);

#[async_trait]
impl Packages for FakePackages {
    async fn package(&self, _: &str, _: &str) -> Result<Arc<Package>, PortError> {
        if self.0.package_missing.load(SeqCst) {
            return Err(PortError::new(
                &CODE,
                "read the package",
                "its file is gone",
            ));
        }
        Ok(self.1.clone())
    }
}

struct NoHosts;

#[async_trait]
impl HostServices for NoHosts {
    async fn ssh_run(&self, _: &SshTarget, _: &SshCommand) -> Result<CommandOutput, PortError> {
        Err(PortError::new(&CODE, "run", "no hosts"))
    }
    async fn ssh_put(&self, _: &SshTarget, _: &RemoteFile) -> Result<(), PortError> {
        Err(PortError::new(&CODE, "put", "no hosts"))
    }
    async fn ssh_wait(&self, _: &SshTarget, _: u32) -> Result<(), PortError> {
        Err(PortError::new(&CODE, "wait", "no hosts"))
    }
    async fn http(&self, _: &HttpRequest) -> Result<HttpResponse, PortError> {
        Err(PortError::new(&CODE, "ask", "no hosts"))
    }
}

/// All hooks, as named by the package and declared by the MgmtDriver.
const HOOKS: [&str; 6] = [
    "instantiate_start",
    "instantiate_end",
    "heal_start",
    "heal_end",
    "terminate_start",
    "terminate_end",
];

/// The package `vnf-a-seed`, which declares no parameters, with all hooks.
fn package() -> Arc<Package> {
    static PACKAGE: LazyLock<Arc<Package>> = LazyLock::new(|| {
        let seed = Path::new(env!("CARGO_MANIFEST_DIR")).join("../vnfd-samples/vnf-a-seed");
        let folder = tempfile::tempdir().unwrap();
        copy(&seed, folder.path());
        let vnfd = folder.path().join("Definitions/vnf-a-seed.yaml");
        let text = std::fs::read_to_string(&vnfd).unwrap();
        let begin = text.find("          instantiate_start: []").unwrap();
        let end = text[begin..].find("      artifacts:").unwrap() + begin;
        let hook =
            |name| format!("          {name}: {{implementation: mgmt-drivers-kubernetes}}\n");
        let hooks: String = HOOKS.into_iter().map(hook).collect();
        std::fs::write(&vnfd, format!("{}{hooks}{}", &text[..begin], &text[end..])).unwrap();
        Arc::new(Package::open(folder.path(), &vnfm_descriptor::Limits::default()).unwrap())
    });
    PACKAGE.clone()
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap().map(Result::unwrap) {
        let to = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &to);
        } else {
            std::fs::copy(entry.path(), to).unwrap();
        }
    }
}

/// An engine with default limits.
pub(crate) fn engine(store: Arc<dyn Store>, world: &Arc<FakeWorld>) -> Engine {
    engine_with(store, world, Limits::default())
}

pub(crate) fn engine_with(store: Arc<dyn Store>, world: &Arc<FakeWorld>, limits: Limits) -> Engine {
    // Real time, so that leases of the database's clock agree with it.
    engine_at(store, world, limits, Arc::new(vnfm::SystemClock))
}

pub(crate) fn engine_at(
    store: Arc<dyn Store>,
    world: &Arc<FakeWorld>,
    limits: Limits,
    clock: Arc<dyn Clock>,
) -> Engine {
    let undo = |name: &str| name.starts_with("heal") || name.ends_with("_start");
    let hook = |name: &str| {
        (
            name.to_owned(),
            HookDeclaration {
                undo: undo(name),
                ..HookDeclaration::default()
            },
        )
    };
    let declaration = Declaration {
        name: "fake".into(),
        version: "1.0.0".into(),
        hooks: HOOKS.into_iter().map(hook).collect(),
        config_schema: None,
    };
    let nfvo = world
        .has_nfvo
        .load(SeqCst)
        .then(|| Arc::new(FakeNfvo(world.clone())));
    Engine::new(EngineParts {
        store,
        packages: Arc::new(FakePackages(world.clone(), package())),
        drivers: Drivers::default().with(FakeVim(world.clone())),
        mgmt: Arc::new(FakePlugins(
            world.clone(),
            Arc::new(FakeMgmtDriver(world.clone(), declaration)),
        )),
        host: Arc::new(NoHosts),
        nfvo: nfvo.map(|nfvo| nfvo as Arc<dyn Nfvo>),
        schemas: Arc::new(vnfm::schema_violations),
        clock,
        limits,
    })
}

/// A store with the package and a VIM.
pub(crate) async fn store() -> Arc<SqliteStore> {
    let store = Arc::new(SqliteStore::in_memory().await.unwrap());
    add_package_and_vim(&*store).await;
    store
}

/// Adds the package and the VIM.
pub(crate) async fn add_package_and_vim(store: &dyn Store) {
    let package = package();
    let info: VnfPkgInfo = serde_json::from_value(json!({
        "id": "p1", "vnfdId": package.vnfd().descriptor_id, "onboardingState": "ONBOARDED",
        "operationalState": "ENABLED", "usageState": "NOT_IN_USE",
    }))
    .unwrap();
    let record = PackageRecord {
        tenant: TENANT.into(),
        info,
        fetching: SecretJson::default(),
    };
    let now = Timestamp::now();
    let vim = VimRecord {
        tenant: TENANT.into(),
        version: 0,
        vim: vnfm_types::Vim {
            id: CLOUD.into(),
            name: "cloud".into(),
            vim_type: OPENSTACK.into(),
            interface_info: KeyValuePairs::new(),
            extra: KeyValuePairs::new(),
            registered_by: None,
            identity: None,
            shared: false,
            policy: None,
            key_type: None,
            secret_uuid: None,
            expires_at: None,
            created_at: now,
            updated_at: now,
        },
        access_info: SecretJson::from(json!({"password": "planted-password"})),
    };
    let changes = vec![
        Change::AddPackage(Box::new(record)),
        Change::AddVim(Box::new(vim)),
    ];
    store.write(None, changes).await.unwrap();
}

/// Creates an instance; its id.
pub(crate) async fn instance(engine: &Engine) -> String {
    let vnfd_id = package().vnfd().descriptor_id.clone();
    let request = CreateVnfRequest {
        vnfd_id,
        ..CreateVnfRequest::default()
    };
    engine.create(TENANT, request).await.unwrap().vnf.id
}

/// A request to instantiate on this VIM.
pub(crate) fn on(vim_id: &str) -> InstantiateVnfRequest {
    let vim = VimConnectionInfo {
        vim_id: Some(vim_id.into()),
        ..VimConnectionInfo::default()
    };
    InstantiateVnfRequest {
        flavour_id: "cluster_install".into(),
        vim_connection_info: [("vim1".to_owned(), Box::new(vim))].into_iter().collect(),
        ..InstantiateVnfRequest::default()
    }
}

pub(crate) async fn state(engine: &Engine, op: &str) -> LcmOperationState {
    engine
        .store()
        .op(TENANT, op)
        .await
        .unwrap()
        .op
        .operation_state
}

/// What must hold after every case: records match the environment, and no instance stays locked.
pub(crate) async fn assert_consistent(engine: &Engine, world: &FakeWorld, case: &str) {
    let all = engine
        .store()
        .instances(TENANT, &Query::default())
        .await
        .unwrap();
    let with: Vec<_> = all
        .iter()
        .filter(|record| record.vnf.instantiation_state == InstantiationState::Instantiated)
        .map(|record| record.vnf.id.clone())
        .collect();
    assert_eq!(
        with,
        world.resource_ids(),
        "{case}: inventory and reality differ"
    );
    assert!(
        all.iter().all(|record| record.active_op.is_none()),
        "{case}: an operation has not ended"
    );
    let registered = engine.vims(TENANT).await.unwrap();
    let of_gone = registered
        .iter()
        .filter_map(|vim| vim.registered_by.as_ref());
    for owner in of_gone {
        assert!(
            with.contains(owner),
            "{case}: the VIM of `{owner}` still exists"
        );
    }
    let (orphans, silent) = engine.orphans(TENANT).await.unwrap();
    assert!(
        orphans.is_empty() && silent.is_empty(),
        "{case}: {orphans:?} {silent:?}"
    );
}
