//! Databases of released versions, each with an operation stopped at every write: this build resumes all of them.
//!
//! `tests/upgrade/<version>/` holds a database with its keys (`state.zip`) and what the world held then (`world.json`).
//! `VNFM_BLESS=1` regenerates the one of the version in development; those of released versions never change.

use super::fakes::*;
use super::faults::begin_with;
use super::setup::*;
use super::stopping_store::stop_at;
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{Read as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use vnfm_core::Engine;
use vnfm_core::ports::UnfinishedWork as _;
use vnfm_core::query::Query;
use vnfm_store::{SecretKeys, SqliteStore};
use vnfm_tests::sources;
use vnfm_types::LcmOperationState::Completed;
use vnfm_types::{LcmOperationType, ScaleInfo, TerminateVnfRequest};
use zip::write::SimpleFileOptions;

const FILES: [&str; 2] = ["vnfm.db", "secrets.key"];

fn states_folder() -> PathBuf {
    sources::root().join("tests/upgrade")
}

async fn open(folder: &Path) -> Arc<SqliteStore> {
    let keys = SecretKeys::open(&folder.join("secrets.key")).unwrap();
    Arc::new(
        SqliteStore::open(&folder.join("vnfm.db"), keys)
            .await
            .unwrap(),
    )
}

/// The operations of the product on the package of these tests, which has one flavour.
fn operations() -> impl Iterator<Item = &'static vnfm_core::lcm::Operation> {
    let all = vnfm_core::lcm::OPERATIONS.iter().copied();
    all.filter(|operation| operation.kind != LcmOperationType::ChangeFlavour)
}

/// Begins every operation as often as it writes, and stops it before or after that write; how many there are.
async fn stop_at_every_write(store: &Arc<SqliteStore>, world: &Arc<FakeWorld>) -> usize {
    let mut cases = 0;
    for operation in operations() {
        for after_effect in [false, true] {
            for number in 1.. {
                let engine = engine(store.clone(), world);
                let id = instance(&engine).await;
                if operation.kind != LcmOperationType::Instantiate {
                    let op =
                        super::faults::begin(&engine, LcmOperationType::Instantiate, &id).await;
                    engine.drive(&op).await.unwrap();
                }
                let op = match operation.kind {
                    LcmOperationType::Scale => {
                        let mut requests = super::faults::requests(operation.kind);
                        let request = requests.remove(usize::from(after_effect));
                        begin_with(&engine, operation.kind, &id, request).await
                    }
                    LcmOperationType::CreateSnapshot | LcmOperationType::RevertToSnapshot => {
                        begin_on_snapshot(&engine, operation.kind, &id).await
                    }
                    // The step that terminates dependants runs only in a cascade.
                    LcmOperationType::Terminate if after_effect => {
                        let request = TerminateVnfRequest::default();
                        let begun = engine.terminate_with_dependants(TENANT, &id, request);
                        begun.await.unwrap()
                    }
                    kind => super::faults::begin(&engine, kind, &id).await,
                };
                let stopping = stop_at(store.clone(), number, after_effect);
                let first = super::setup::engine(stopping.clone(), world);
                tokio::select! {
                    biased;
                    () = stopping.interceptor().stopped() => cases += 1,
                    ended = first.drive(&op) => {
                        ended.unwrap();
                        break;
                    }
                }
            }
        }
    }
    cases
}

/// Begins an operation on a snapshot of its own: all cases share one store.
async fn begin_on_snapshot(engine: &Engine, kind: LcmOperationType, id: &str) -> String {
    let (scope, request) = Default::default();
    let snapshot = engine.create_snapshot_info(TENANT, &scope, request).await;
    let request = serde_json::json!({"vnfSnapshotInfoId": snapshot.unwrap().info.id});
    let begin = async |kind| begin_with(engine, kind, id, request.clone()).await;
    if kind == LcmOperationType::RevertToSnapshot {
        let op = begin(LcmOperationType::CreateSnapshot).await;
        engine.drive(&op).await.unwrap();
    }
    begin(kind).await
}

/// Writes what a release keeps.
async fn write_state(to: &Path) {
    let folder = tempfile::tempdir().unwrap();
    let world = Arc::new(FakeWorld::default());
    let store = open(folder.path()).await;
    add_package_and_vim(&*store).await;
    stop_at_every_write(&store, &world).await;
    Arc::into_inner(store).unwrap().close().await.unwrap();
    fs::create_dir_all(to).unwrap();
    let mut archive = zip::ZipWriter::new(File::create(to.join("state.zip")).unwrap());
    for name in FILES {
        archive
            .start_file(name, SimpleFileOptions::default())
            .unwrap();
        archive
            .write_all(&fs::read(folder.path().join(name)).unwrap())
            .unwrap();
    }
    archive.finish().unwrap();
    let world_json = serde_json::json!({
        "resources": *world.resources.lock().unwrap(),
        "drained": *world.drained.lock().unwrap(),
    });
    fs::write(to.join("world.json"), format!("{world_json:#}\n")).unwrap();
}

/// The database and the world that a release kept.
async fn unpack(from: &Path, to: &Path) -> (Arc<SqliteStore>, Arc<FakeWorld>) {
    let mut archive = zip::ZipArchive::new(File::open(from.join("state.zip")).unwrap()).unwrap();
    for name in FILES {
        let mut bytes = Vec::new();
        archive
            .by_name(name)
            .unwrap()
            .read_to_end(&mut bytes)
            .unwrap();
        fs::write(to.join(name), bytes).unwrap();
        fs::set_permissions(to.join(name), fs::Permissions::from_mode(0o600)).unwrap();
    }
    let world_json = fs::read_to_string(from.join("world.json")).unwrap();
    let world_json: serde_json::Value = serde_json::from_str(&world_json).unwrap();
    let ids = |name: &str| -> BTreeSet<String> {
        serde_json::from_value(world_json[name].clone()).unwrap()
    };
    let world = FakeWorld::default();
    *world.resources.lock().unwrap() = ids("resources");
    *world.drained.lock().unwrap() = ids("drained");
    (open(to).await, Arc::new(world))
}

/// The operations that are not ended, by kind.
async fn in_flight(engine: &Engine) -> Vec<(LcmOperationType, String)> {
    let all = engine.store().ops(TENANT, &Query::default()).await.unwrap();
    let driven = all
        .into_iter()
        .filter(|record| record.op.operation_state.is_driven());
    driven
        .map(|record| (record.op.operation, record.op.id))
        .collect()
}

/// Each instance that a release left INSTANTIATED has a deployment, and shows its levels.
async fn assert_levels_recorded(engine: &Engine, name: &str) {
    let all = engine
        .store()
        .instances(TENANT, &Query::default())
        .await
        .unwrap();
    for id in all.into_iter().map(|record| record.vnf.id) {
        let record = engine.store().instance(TENANT, &id).await.unwrap();
        let Some(info) = record.vnf.instantiated_vnf_info else {
            continue;
        };
        let deployment = record.deployment.unwrap();
        assert!(!deployment.vdu_instances.is_empty(), "{name}: {id}");
        assert_eq!(info.scale_status, deployment.scale_status(), "{name}: {id}");
        let aspects = |levels: &[ScaleInfo]| {
            levels
                .iter()
                .map(|info| info.aspect_id.clone())
                .collect::<BTreeSet<_>>()
        };
        assert_eq!(
            aspects(&info.scale_status),
            aspects(&info.max_scale_levels),
            "{name}: {id}"
        );
    }
}

#[tokio::test]
async fn operations_left_by_released_versions_are_resumed() {
    let current = states_folder().join(env!("CARGO_PKG_VERSION"));
    if std::env::var("VNFM_BLESS").as_deref() == Ok("1") {
        write_state(&current).await;
    }
    assert!(
        current.is_dir(),
        "no database of this version: run this test with VNFM_BLESS=1"
    );
    for version in fs::read_dir(states_folder())
        .unwrap()
        .map(|entry| entry.unwrap().path())
    {
        if !version.is_dir() {
            continue;
        }
        let name = version.display().to_string();
        let folder = tempfile::tempdir().unwrap();
        let (store, world) = unpack(&version, folder.path()).await;
        let without_levels = store.instances_without_levels().await.unwrap();
        let engine = engine(store.clone(), &world);
        engine.record_levels(without_levels).await.unwrap();
        assert_eq!(
            store.instances_without_levels().await.unwrap(),
            [],
            "{name}"
        );
        assert_levels_recorded(&engine, &name).await;
        let in_flight_ops = in_flight(&engine).await;
        for kind in [LcmOperationType::Instantiate, LcmOperationType::Terminate] {
            let of_kind = in_flight_ops
                .iter()
                .filter(|(other, _)| *other == kind)
                .count();
            assert!(of_kind >= 10, "{name}: {of_kind} times {kind}");
        }
        engine.resume_all().await.unwrap();
        for (kind, op) in &in_flight_ops {
            assert_eq!(state(&engine, op).await, Completed, "{name}: {kind} {op}");
        }
        assert_consistent(&engine, &world, &name).await;
        for id in world.resource_ids() {
            let op = super::faults::begin(&engine, LcmOperationType::Terminate, &id).await;
            engine.drive(&op).await.unwrap();
        }
        assert_eq!(
            world.resource_ids(),
            Vec::<String>::new(),
            "{name}: each can go"
        );
    }
}

/// Steps that no released version has, of operations whose requests name networks or volumes; `links.rs` and `volumes.rs` stop in
/// them.
const UNRELEASED: [&str; 4] = [
    "take_links",
    "give_back_links",
    "take_volumes",
    "retain_volumes",
];

#[tokio::test]
async fn upgrade_state_covers_every_step_of_every_operation() {
    let folder = tempfile::tempdir().unwrap();
    let world = FakeWorld::with_nfvo();
    let store = open(folder.path()).await;
    add_package_and_vim(&*store).await;
    let cases = stop_at_every_write(&store, &world).await;
    let engine = engine(store.clone(), &world);
    let in_flight_ops = in_flight(&engine).await;
    for operation in operations() {
        let steps = operation.steps.iter();
        for step in steps.filter(|step| !UNRELEASED.contains(&step.name)) {
            let mut seen = BTreeSet::new();
            for (_, op) in in_flight_ops
                .iter()
                .filter(|(kind, _)| *kind == operation.kind)
            {
                let journal = engine.store().journal(op).await.unwrap();
                let last = journal.last().filter(|row| row.step == step.name);
                seen.extend(last.map(|row| format!("{:?}", row.status)));
            }
            assert!(
                seen.contains("Started"),
                "{} never stops in `{}`",
                operation.kind,
                step.name
            );
        }
    }
    assert!(
        cases >= in_flight_ops.len() && in_flight_ops.len() >= 40,
        "{cases} cases, {} in flight",
        in_flight_ops.len()
    );
}
