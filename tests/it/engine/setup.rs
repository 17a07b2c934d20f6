//! Engines, stores and instances for the tests, on the [fake ports](super::fakes).

use super::fake_plugins::{FakeMgmtDriver, FakePlugins};
use super::fakes::*;
use futures::future::BoxFuture;
use jiff::Timestamp;
use serde_json::json;
use std::path::Path;
use std::sync::atomic::{AtomicI64, Ordering::SeqCst};
use std::sync::{Arc, LazyLock};
use std::time::Duration;
use vnfm_core::lcm::{self, Operation};
use vnfm_core::ports::*;
use vnfm_core::query::Query;
use vnfm_core::{Drivers, Engine, EngineParts, Limits};
use vnfm_descriptor::Package;
use vnfm_store::SqliteStore;
use vnfm_types::*;

/// The operations of the product, and one that only these tests have: the generic cases cover each.
pub(crate) const OPERATIONS: &[&Operation] = &[
    &lcm::instantiate::OPERATION,
    &lcm::heal::OPERATION,
    &lcm::scale::OPERATION,
    &lcm::scale_to_level::OPERATION,
    &lcm::operate::OPERATION,
    &lcm::change_ext_conn::OPERATION,
    &lcm::change_vnfpkg::OPERATION,
    &lcm::create_snapshot::OPERATION,
    &lcm::revert_to_snapshot::OPERATION,
    &lcm::modify_info::OPERATION,
    &lcm::terminate::OPERATION,
    &super::own_operation::OPERATION,
];

/// The operations of an instance whose size can change.
pub(crate) const SCALABLE: &[&Operation] = &[
    &lcm::instantiate::OPERATION,
    &lcm::heal::OPERATION,
    &lcm::scale::OPERATION,
    &lcm::scale_to_level::OPERATION,
    &lcm::operate::OPERATION,
    &lcm::change_flavour::OPERATION,
    &lcm::change_ext_conn::OPERATION,
    &lcm::change_vnfpkg::OPERATION,
    &lcm::create_snapshot::OPERATION,
    &lcm::revert_to_snapshot::OPERATION,
    &lcm::modify_info::OPERATION,
    &lcm::terminate::OPERATION,
];

/// All hooks, as named by the package and declared by the MgmtDriver.
fn hooks() -> impl Iterator<Item = &'static str> {
    let all = OPERATIONS.iter().chain(SCALABLE);
    let all = all.flat_map(|operation| operation.hooks());
    all.collect::<std::collections::BTreeSet<_>>().into_iter()
}

/// The package `vnf-levels` with all hooks; it allows several steps at once, and any levels.
pub(crate) fn scalable_package() -> Arc<Package> {
    static PACKAGE: LazyLock<Arc<Package>> = LazyLock::new(|| changed_scalable_package(&[]));
    PACKAGE.clone()
}

/// [`scalable_package`] with a VNFD in which each text is replaced by another.
pub(crate) fn changed_scalable_package(changes: &[(&str, &str)]) -> Arc<Package> {
    let sample = Path::new(env!("CARGO_MANIFEST_DIR")).join("../vnfd-samples/vnf-levels");
    let folder = tempfile::tempdir().unwrap();
    copy(&sample, folder.path());
    let vnfd = folder.path().join("Definitions/vnf-levels.yaml");
    let text = std::fs::read_to_string(&vnfd).unwrap();
    let after = "        flavour_description: Web servers and workers\n";
    let hook = |name| format!("          {name}: {{implementation: fake}}\n");
    let hooks: String = hooks().map(hook).collect();
    let allowed = "        lcm_operations_configuration:\n          \
         instantiate: {target_scale_levels_supported: true}\n          \
         scale: {scaling_by_more_than_one_step_supported: true}\n          \
         scale_to_level: {arbitrary_target_levels_supported: true}\n";
    let changed = format!("{after}{allowed}      interfaces:\n        Vnflcm:\n{hooks}");
    assert!(text.contains(after));
    let mut text = text.replace(after, &changed);
    for (from, to) in changes {
        assert!(text.contains(from), "{from}");
        text = text.replace(from, to);
    }
    std::fs::write(&vnfd, text).unwrap();
    Arc::new(Package::open(folder.path(), &vnfm_descriptor::Limits::default()).unwrap())
}

/// An engine of [`SCALABLE`] for instances of [`scalable_package`] on this VIM.
pub(crate) fn scalable_engine(
    store: Arc<dyn Store>,
    world: &Arc<FakeWorld>,
    vim: impl InfraDriver + 'static,
    limits: Limits,
) -> Engine {
    Engine::new(EngineParts {
        limits,
        ..scalable_parts(store, world, vim, scalable_package())
    })
}

/// The parts of such an engine for instances of another package.
pub(crate) fn scalable_parts(
    store: Arc<dyn Store>,
    world: &Arc<FakeWorld>,
    vim: impl InfraDriver + 'static,
    package: Arc<Package>,
) -> EngineParts {
    EngineParts {
        packages: Arc::new(FakePackages(world.clone(), package)),
        drivers: Drivers::default().with(vim),
        ..parts(SCALABLE, store, world)
    }
}

/// Scaling aspects for the package `vnf-a-seed`, without which it has one `masterNode` and one `workerNode`, too.
const ASPECTS: &str = "
  policies:
    - aspects:
        type: tosca.policies.nfv.ScalingAspects
        properties:
          aspects:
            masters: {name: masters, description: Masters, max_scale_level: 2, step_deltas: [one]}
            workers: {name: workers, description: Workers, max_scale_level: 2, step_deltas: [one]}
    - masters_deltas:
        type: tosca.policies.nfv.VduScalingAspectDeltas
        properties: {aspect: masters, deltas: {one: {number_of_instances: 1}}}
        targets: [masterNode]
    - workers_deltas:
        type: tosca.policies.nfv.VduScalingAspectDeltas
        properties: {aspect: workers, deltas: {one: {number_of_instances: 1}}}
        targets: [workerNode]
    - initial:
        type: tosca.policies.nfv.VduInitialDelta
        properties: {initial_delta: {number_of_instances: 0}}
        targets: [masterNode, workerNode]
    - levels:
        type: tosca.policies.nfv.InstantiationLevels
        properties:
          levels:
            usual: {description: One each, scale_info: {masters: {scale_level: 1}, workers: {scale_level: 1}}}
          default_level: usual
    - counts:
        type: tosca.policies.nfv.VduInstantiationLevels
        properties: {levels: {usual: {number_of_instances: 1}}}
        targets: [masterNode, workerNode]
";

/// The package `vnf-a-seed`, which declares no parameters, with all hooks, and with scaling aspects.
fn package() -> Arc<Package> {
    static PACKAGE: LazyLock<Arc<Package>> = LazyLock::new(|| seed_package(&[]));
    PACKAGE.clone()
}

/// The VNFD of the package to which the generic cases change an instance.
pub(crate) const NEXT_VNFD: &str = "8d1c9f0e-5a53-4e5d-9d2c-6c1f0a7b0a04";
/// The `vnfPkgId` of that package.
pub(crate) const NEXT_PACKAGE: &str = "p2";

/// The next version of [`package`].
fn next_package() -> Arc<Package> {
    const OWN_VNFD: &str = "8d1c9f0e-5a53-4e5d-9d2c-6c1f0a7b0a03";
    static PACKAGE: LazyLock<Arc<Package>> =
        LazyLock::new(|| seed_package(&[(OWN_VNFD, NEXT_VNFD)]));
    PACKAGE.clone()
}

/// [`package`] with types in which each text is replaced by another.
fn seed_package(changes: &[(&str, &str)]) -> Arc<Package> {
    let seed = Path::new(env!("CARGO_MANIFEST_DIR")).join("../vnfd-samples/vnf-a-seed");
    let folder = tempfile::tempdir().unwrap();
    copy(&seed, folder.path());
    let vnfd = folder.path().join("Definitions/vnf-a-seed.yaml");
    let text = std::fs::read_to_string(&vnfd).unwrap();
    let begin = text.find("          instantiate_start: []").unwrap();
    let end = text[begin..].find("      artifacts:").unwrap() + begin;
    let hook = |name| format!("          {name}: {{implementation: mgmt-drivers-kubernetes}}\n");
    let hooks: String = hooks().map(hook).collect();
    let of_vnf = "        flavour_description: A simple flavour\n";
    let allowed = "        lcm_operations_configuration:\n          \
             scale_to_level: {arbitrary_target_levels_supported: true}\n";
    let text = format!("{}{hooks}{}{ASPECTS}", &text[..begin], &text[end..])
        .replace(of_vnf, &format!("{of_vnf}{allowed}"))
        .replace(
            "{min_number_of_instances: 1, max_number_of_instances: 1}",
            "{min_number_of_instances: 0, max_number_of_instances: 2}",
        );
    std::fs::write(&vnfd, text).unwrap();
    let types = folder.path().join("Definitions/vnf-a-seed-types.yaml");
    let mut text = std::fs::read_to_string(&types).unwrap();
    for (from, to) in changes {
        assert!(text.contains(from), "{from}");
        text = text.replace(from, to);
    }
    std::fs::write(&types, text).unwrap();
    Arc::new(Package::open(folder.path(), &vnfm_descriptor::Limits::default()).unwrap())
}

pub(super) fn copy(from: &Path, to: &Path) {
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
    Engine::new(EngineParts {
        limits,
        clock,
        ..parts(OPERATIONS, store, world)
    })
}

/// An engine with only these operations.
pub(crate) fn engine_of(
    operations: &'static [&'static Operation],
    store: Arc<dyn Store>,
    world: &Arc<FakeWorld>,
) -> Engine {
    Engine::new(parts(operations, store, world))
}

/// An engine of [`OPERATIONS`] on this VIM.
pub(crate) fn engine_on(
    store: Arc<dyn Store>,
    world: &Arc<FakeWorld>,
    vim: impl InfraDriver + 'static,
) -> Engine {
    Engine::new(EngineParts {
        drivers: Drivers::default().with(vim),
        ..parts(OPERATIONS, store, world)
    })
}

fn parts(
    operations: &'static [&'static Operation],
    store: Arc<dyn Store>,
    world: &Arc<FakeWorld>,
) -> EngineParts {
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
        hooks: hooks().map(hook).collect(),
        config_schema: None,
    };
    let nfvo = world
        .has_nfvo
        .load(SeqCst)
        .then(|| Arc::new(FakeNfvo(world.clone())));
    let mut others = world.other_packages.lock().unwrap();
    let next = others.entry(NEXT_PACKAGE.to_owned());
    next.or_insert_with(next_package);
    drop(others);
    let packages = Arc::new(FakePackages(world.clone(), package()));
    EngineParts {
        drivers: Drivers::default().with(FakeVim(world.clone())),
        mgmt: Arc::new(FakePlugins(
            world.clone(),
            Arc::new(FakeMgmtDriver(world.clone(), declaration)),
        )),
        nfvo: nfvo.map(|nfvo| nfvo as Arc<dyn Nfvo>),
        schemas: Arc::new(vnfm::schema_violations),
        operations,
        ..EngineParts::new(store, packages, Arc::new(vnfm::SystemClock))
    }
}

/// A store with the package and a VIM.
pub(crate) async fn store() -> Arc<SqliteStore> {
    let store = Arc::new(SqliteStore::in_memory().await.unwrap());
    add_package_and_vim(&*store).await;
    store
}

/// A snapshot without contents, which every store has.
pub(crate) const SNAPSHOT: &str = "5f1d0f0a-0000-4000-8000-000000005a45";

/// Adds the packages, the VIM, and [`SNAPSHOT`].
pub(crate) async fn add_package_and_vim(store: &dyn Store) {
    let own = package_record("p1", &package().vnfd().descriptor_id);
    let next = package_record(NEXT_PACKAGE, NEXT_VNFD);
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
        Change::AddPackage(Box::new(own)),
        Change::AddPackage(Box::new(next)),
        Change::AddVim(Box::new(vim)),
        Change::AddSnapshot(Box::new(SnapshotRecord {
            tenant: TENANT.into(),
            info: VnfSnapshotInfo {
                id: SNAPSHOT.into(),
                ..VnfSnapshotInfo::default()
            },
            ..SnapshotRecord::default()
        })),
    ];
    store.write(None, changes).await.unwrap();
}

/// A clock that advances at once when something sleeps, and only then.
pub(crate) struct InstantClock(AtomicI64);

impl InstantClock {
    pub(crate) fn new() -> Arc<Self> {
        let now = Timestamp::now().as_millisecond();
        Arc::new(Self(AtomicI64::new(now)))
    }
}

impl Clock for InstantClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_millisecond(self.0.load(SeqCst)).unwrap()
    }
    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        if duration > Duration::from_mins(2) {
            return Box::pin(std::future::pending());
        }
        self.0
            .fetch_add(i64::try_from(duration.as_millis()).unwrap(), SeqCst);
        Box::pin(tokio::task::yield_now())
    }
}

/// An onboarded and enabled package.
pub(crate) fn package_record(id: &str, vnfd_id: &str) -> PackageRecord {
    let info: VnfPkgInfo = serde_json::from_value(json!({
        "id": id, "vnfdId": vnfd_id, "onboardingState": "ONBOARDED",
        "operationalState": "ENABLED", "usageState": "NOT_IN_USE",
    }))
    .unwrap();
    PackageRecord {
        tenant: TENANT.into(),
        info,
        fetching: SecretJson::default(),
    }
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
    InstantiateVnfRequest::new("cluster_install").on_vim(vim_id)
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
    for record in all.iter().filter(|record| with.contains(&record.vnf.id)) {
        let states = world.states.lock().unwrap();
        let state = states.get(&record.vnf.id).copied().unwrap_or_default();
        let info = record.vnf.instantiated_vnf_info.as_ref().unwrap();
        assert_eq!(info.vnf_state, state, "{case}: vnfState and reality differ");
    }
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
