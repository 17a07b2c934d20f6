//! Growth of the database file after 10⁶ operations: the rows of a real instantiation and termination, copied many times by
//! the store itself with other ids and times.
//!
//! The growth is linear, so some thousand are enough for an estimate. With retention the million is spread over a year, and
//! data older than the default retention is deleted every ten days; the file does not shrink, so its size is the maximum.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context as _, Result};
use futures::future::try_join_all;
use jiff::{SignedDuration, Timestamp};
use tempfile::TempDir;
use vnfm_core::ports::StoreAdmin as _;
use vnfm_core::ports::{
    Change, InstanceRecord, JournalRow, OpRecord, OutboxRow, PackageRecord, Store as _,
};
use vnfm_store::{Retention, SecretKeys, SqliteStore};
use vnfm_types::LogLine;

use crate::figure::Figure;
use crate::world::{World, runtime};

const TENANT: &str = "default";
const MIB: f64 = 1024.0 * 1024.0;
/// Number of instances, and pairs of operations of each.
const INSTANCES: usize = 100;
const ROUNDS: u16 = 50;
const OPERATIONS: f64 = 1e6;
const YEAR: SignedDuration = SignedDuration::from_hours(365 * 24);
const PRUNED_EVERY: SignedDuration = SignedDuration::from_hours(10 * 24);

/// Runs the benchmarks with the programs in this folder.
///
/// # Errors
/// If a program is missing or an operation does not complete.
pub fn figures(programs: &Path) -> Result<Vec<Figure>> {
    let runtime = runtime()?;
    let life = runtime.block_on(recorded(programs))?;
    let kept = runtime.block_on(grown(&life, None))?;
    let pruned = runtime.block_on(grown(&life, Some(&Retention::default())))?;
    let name = "database file after 10⁶ operations (instantiate, terminate)";
    Ok(vec![
        Figure::untargeted(format!("{name}, all kept"), kept, "MiB"),
        Figure::untargeted(
            format!("{name} in a year, default retention"),
            pruned,
            "MiB",
        ),
    ])
}

/// An instance, and the rows of its operations.
struct Life {
    instance: InstanceRecord,
    operations: Vec<Left>,
}

/// The rows of one operation.
struct Left {
    op: OpRecord,
    journal: Vec<JournalRow>,
    log: Vec<LogLine>,
    notifications: Vec<OutboxRow>,
}

/// Instantiates and terminates one instance on a real server, and reads the remaining rows.
async fn recorded(programs: &Path) -> Result<Life> {
    let world = World::start(programs, &[]).await?;
    let id = world.create().await?;
    let mut ops = Vec::new();
    for task in ["instantiate", "terminate"] {
        let op = world.begin(&id, task).await?;
        world.completed(&op).await?;
        ops.push(op);
    }
    let (data, _folder) = world.stopped()?;
    let keys = SecretKeys::open(&data.join("secrets.key"))?;
    let store = SqliteStore::open(&data.join("vnfm.db"), keys).await?;
    let notifications = store.outbox(0, 1000).await?;
    let mut operations = Vec::new();
    for op in ops {
        let of_it = |row: &&OutboxRow| row.body["vnfLcmOpOccId"] == op.as_str();
        operations.push(Left {
            op: store.op(TENANT, &op).await?,
            journal: store.journal(&op).await?,
            log: store.log(&op, 0).await?,
            notifications: notifications.iter().filter(of_it).cloned().collect(),
        });
    }
    let instance = store.instance(TENANT, &id).await?;
    store.close().await?;
    Ok(Life {
        instance,
        operations,
    })
}

/// MiB of the file after 10⁶ operations.
async fn grown(life: &Life, retention: Option<&Retention>) -> Result<f64> {
    let folder = tempfile::tempdir().context("cannot create a temporary folder")?;
    let store = open(&folder).await?;
    let instances = instances(&store, life).await?;
    store.close().await?;
    let empty = size(&folder)?;
    let store = open(&folder).await?;
    let began = Timestamp::UNIX_EPOCH;
    let mut pruned = began;
    for round in 0..ROUNDS {
        let now = began + YEAR * i32::from(round) / i32::from(ROUNDS);
        for left in &life.operations {
            let copies = instances.iter().map(|instance| left.under(instance, now));
            try_join_all(copies.map(|copy| written(&store, copy))).await?;
        }
        if let Some(retention) = retention.filter(|_| now.duration_since(pruned) >= PRUNED_EVERY) {
            store.prune(retention, now, false).await?;
            pruned = now;
        }
    }
    store.close().await?;
    let share = f64::from(ROUNDS) * as_float(instances.len() * life.operations.len()) / OPERATIONS;
    Ok((empty + (size(&folder)? - empty) / share) / MIB)
}

async fn open(folder: &TempDir) -> Result<SqliteStore> {
    let keys = SecretKeys::open(&folder.path().join("secrets.key"))?;
    Ok(SqliteStore::open(&folder.path().join("vnfm.db"), keys).await?)
}

/// Creates the instances; returns their ids.
async fn instances(store: &SqliteStore, life: &Life) -> Result<Vec<String>> {
    let (package, vnfd) = (&life.instance.vnf_pkg_id, &life.instance.vnf.vnfd_id);
    let record = PackageRecord::onboarded(TENANT, package, vnfd);
    store
        .write(None, vec![Change::AddPackage(Box::new(record))])
        .await?;
    let mut ids = Vec::with_capacity(INSTANCES);
    for _ in 0..INSTANCES {
        let mut record = life.instance.clone();
        record.vnf.id = uuid::Uuid::new_v4().to_string();
        ids.push(record.vnf.id.clone());
        store
            .write(None, vec![Change::AddInstance(Box::new(record))])
            .await?;
    }
    Ok(ids)
}

async fn written(store: &SqliteStore, left: Left) -> Result<()> {
    let Left {
        op,
        journal,
        log,
        notifications,
    } = left;
    let (id, from) = (op.op.id.clone(), op.op.operation_state);
    let record = Arc::new(op);
    // Written as ended, so that the next operation of the instance can start.
    let mut changes = vec![
        Change::AddOp(Box::new(OpRecord::clone(&record))),
        Change::PutOp { record, from },
    ];
    changes.extend(
        journal
            .into_iter()
            .map(|row| Change::Journal(Arc::new(row))),
    );
    changes.extend(
        notifications
            .into_iter()
            .map(|row| Change::Outbox(Box::new(row))),
    );
    store.write(None, changes).await?;
    Ok(store.append_log(&id, log).await?)
}

impl Left {
    /// The same for another operation on another instance that began at `at`.
    fn under(&self, instance: &str, at: Timestamp) -> Self {
        let later = at.duration_since(self.op.op.start_time);
        let id = uuid::Uuid::new_v4().to_string();
        let mut op = self.op.clone();
        op.op.start_time = at;
        op.op.state_entered_time += later;
        let mut notifications = self.notifications.clone();
        for row in &mut notifications {
            row.at += later;
            instance.clone_into(&mut row.instance_id);
            row.body["vnfLcmOpOccId"] = id.as_str().into();
            row.body["vnfInstanceId"] = instance.into();
        }
        let mut log = self.log.clone();
        for line in &mut log {
            line.at += later;
        }
        let mut journal = self.journal.clone();
        for row in &mut journal {
            row.op_id.clone_from(&id);
            row.started_at += later;
            row.ended_at = row.ended_at.map(|at| at + later);
        }
        instance.clone_into(&mut op.op.vnf_instance_id);
        op.op.id = id;
        Self {
            op,
            journal,
            log,
            notifications,
        }
    }
}

fn size(folder: &TempDir) -> Result<f64> {
    let length = folder.path().join("vnfm.db").metadata()?.len();
    Ok(as_float(usize::try_from(length)?))
}

#[expect(clippy::cast_precision_loss, reason = "sizes are far below 2^52")]
fn as_float(number: usize) -> f64 {
    number as f64
}
