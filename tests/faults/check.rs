//! The invariants, checked against the inventory of the simulated world, not against what drivers report.
//!
//! | | holds after each case |
//! |---|---|
//! | I1 | an operation has ended, or stopped with an error (`case.rs`) |
//! | I2 | nothing exists that is not in the inventory |
//! | I3 | resources of others are unchanged |
//! | I4 | every change of state is in the outbox, once, in order |
//! | I5 | the record matches what exists |
//! | I6 | no secret is shown or stored in the clear |
//! | I7 | recovery works (`case.rs`) |
//! | I8 | no instance has two open operations |

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;
use vnfm_core::Engine;
use vnfm_core::ports::{InstanceRecord, OpRecord};
use vnfm_core::query::Query;
use vnfm_types::{InstantiationState, LcmOperationState};

use crate::process::Process;
use crate::resources::{Expected, Extent, check_resources, field};
use crate::site::{PLANTED, Site};
use crate::vnf::{TENANT, Target, free_volumes};

/// The start of every token of the simulated world.
const TOKEN: &str = "eyJhbGci";
/// More notifications than a case can cause.
const MAX_NOTIFICATIONS: usize = 10_000;

/// A position in the outbox.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Mark(u64);

/// The current position in the outbox.
pub(crate) fn mark(site: &Site, process: &Process) -> Result<Mark> {
    let engine = process.engine()?;
    process.finish(async {
        loop {
            let rows = engine
                .store()
                .outbox(site.last_outbox_seq().get(), MAX_NOTIFICATIONS)
                .await?;
            let Some(last) = rows.last() else {
                return Ok(Mark(site.last_outbox_seq().get()));
            };
            site.last_outbox_seq().set(last.seq);
        }
    })
}

/// Checks every invariant for one instance, and that nothing else exists.
pub(crate) fn all(site: &Site, process: &Process, target: &Target, mark: Mark) -> Result<()> {
    let violations = site.control().page("violations")?;
    ensure!(
        violations.is_empty(),
        "invalid calls to the simulated world: {violations:?}"
    );
    let engine = process.engine()?;
    let instances = process.finish(async {
        let (mut instances, mut all) = (Vec::new(), Vec::new());
        for one in target.all() {
            let instance = engine.store().instance(TENANT, &one.instance).await?;
            let ops = operations(&engine, &one.instance).await?;
            check_no_open_operation(&instance, &ops)?;
            check_hidden_secrets(&engine, &instance, &ops).await?;
            check_vims(&engine, &instance).await?;
            all.extend(ops);
            instances.push((one.vnf, instance));
        }
        outbox(&engine, &all, mark).await?;
        Ok(instances)
    })?;
    let found = without_retained(process, site.new_resources()?)?;
    let instantiated = instances
        .iter()
        .filter(|(_, instance)| is_instantiated(instance))
        .enumerate();
    let mut expected: Vec<_> = instantiated
        .map(|(index, (vnf, instance))| {
            let extent = if index == 0 {
                Extent::Exact
            } else {
                Extent::Moved
            };
            Expected {
                vnf: *vnf,
                instance,
                extent,
            }
        })
        .collect();
    // VNF-B comes first: its resources run on those of VNF-A.
    expected.reverse();
    check_resources(&found, &expected, process)?;
    process.finish(async {
        let (orphans, silent) = engine.orphans(TENANT).await?;
        ensure!(
            orphans.is_empty() && silent.is_empty(),
            "I2: orphans {orphans:?} {silent:?}"
        );
        Ok(())
    })
}

/// The resources without the retained volumes that no instance uses, all of which must exist (I5).
pub(crate) fn without_retained(process: &Process, mut found: Vec<Value>) -> Result<Vec<Value>> {
    let engine = process.engine()?;
    let volumes = process.finish(async { Ok(free_volumes(&engine).await?) })?;
    for volume in volumes {
        let at = found.iter().position(|entry| {
            field(entry, "kind") == "volume" && field(entry, "id") == volume.on_vim()
        });
        let at = at.with_context(|| format!("I5: the retained {volume:?} does not exist"))?;
        found.swap_remove(at);
    }
    Ok(found)
}

pub(crate) async fn operations(engine: &Engine, instance: &str) -> Result<Vec<OpRecord>> {
    let filter = Query::of_instance(instance.to_owned());
    Ok(engine.store().ops(TENANT, &filter).await?)
}

/// Whether the instance is INSTANTIATED, by its record.
pub(crate) fn is_instantiated(instance: &InstanceRecord) -> bool {
    instance.vnf.instantiation_state == InstantiationState::Instantiated
}

/// Checks I8: no operation is open.
pub(crate) fn check_no_open_operation(instance: &InstanceRecord, ops: &[OpRecord]) -> Result<()> {
    let open: Vec<_> = ops
        .iter()
        .filter(|record| !record.op.operation_state.is_final())
        .collect();
    ensure!(
        open.is_empty(),
        "I8: an operation has not ended: {:?}",
        open[0].op
    );
    ensure!(
        instance.active_op.is_none(),
        "I8: `{:?}` holds the instance",
        instance.active_op
    );
    Ok(())
}

/// I4: for each operation its states, from its initial one to the last, each a legal move from the one before. I8:
/// those of one instance do not overlap. Returns the operations in the order in which they began; their times are
/// useless when the clock jumps.
pub(crate) async fn outbox(engine: &Engine, ops: &[OpRecord], mark: Mark) -> Result<Vec<String>> {
    let rows = engine.store().outbox(mark.0, MAX_NOTIFICATIONS).await?;
    let mut began = Vec::new();
    let mut states_by_op: BTreeMap<String, Vec<LcmOperationState>> = BTreeMap::new();
    let mut open: BTreeMap<String, String> = BTreeMap::new();
    let mut last = mark.0;
    for row in rows {
        ensure!(row.seq > last, "I4: number {} after {last}", row.seq);
        last = row.seq;
        let Some(op) = row.body["vnfLcmOpOccId"].as_str() else {
            continue;
        };
        let state: LcmOperationState = serde_json::from_value(row.body["operationState"].clone())?;
        let other = open.get(&row.instance_id).filter(|other| *other != op);
        ensure!(
            other.is_none(),
            "I8: `{op}` is {state} while {other:?} has not ended"
        );
        if state.is_final() {
            open.remove(&row.instance_id);
        } else {
            open.insert(row.instance_id.clone(), op.to_owned());
        }
        let states = states_by_op.entry(op.to_owned()).or_default();
        if states.is_empty() {
            began.push(op.to_owned());
        }
        states.push(state);
    }
    for (op, states) in &states_by_op {
        let record = ops.iter().find(|record| record.op.id == *op);
        let record =
            record.with_context(|| format!("I4: notification of an unknown operation `{op}`"))?;
        let initial = record.op.operation.initial_state();
        ensure!(
            states[0] == initial,
            "I4: `{op}` begins with {states:?}, not {initial}"
        );
        let legal = states.windows(2).all(|pair| pair[0].can_become(pair[1]));
        ensure!(
            legal,
            "I4: a notification is missing or duplicated: {states:?}"
        );
        let last = states.last().copied();
        ensure!(
            last == Some(record.op.operation_state),
            "I4: {states:?} and {:?}",
            record.op
        );
    }
    Ok(began)
}

/// I6: what operators can read.
async fn check_hidden_secrets(
    engine: &Engine,
    instance: &InstanceRecord,
    ops: &[OpRecord],
) -> Result<()> {
    let mut texts = vec![
        serde_json::to_string(&instance.vnf)?,
        format!("{instance:?}"),
    ];
    for record in ops {
        texts.push(format!("{} {record:?}", serde_json::to_string(&record.op)?));
        for line in engine.store().log(&record.op.id, 0).await? {
            texts.push(line.text);
        }
    }
    for text in texts {
        ensure!(
            !text.contains(PLANTED) && !text.contains(TOKEN),
            "I6: a secret in: {text}"
        );
    }
    Ok(())
}

/// Checks I6 on the files of the database.
pub(crate) fn check_database(data: &Path) -> Result<()> {
    for name in ["vnfm.db", "vnfm.db-wal"] {
        let path = data.join(name);
        let Ok(bytes) = std::fs::read(&path) else {
            continue;
        };
        for secret in [PLANTED, TOKEN] {
            ensure!(
                !holds(&bytes, secret.as_bytes()),
                "I6: a secret in `{name}`"
            );
        }
    }
    Ok(())
}

/// I6: every file of the data folder.
pub(crate) fn files(data: &Path) -> Result<()> {
    for entry in data.read_dir()? {
        let path = entry?.path();
        if path.is_dir() {
            files(&path)?;
            continue;
        }
        let bytes =
            std::fs::read(&path).with_context(|| format!("cannot read `{}`", path.display()))?;
        for secret in [PLANTED, TOKEN] {
            ensure!(
                !holds(&bytes, secret.as_bytes()),
                "I6: a secret in `{}`",
                path.display()
            );
        }
    }
    Ok(())
}

/// Whether `bytes` contain `part`. Uses memchr, because databases are large.
fn holds(mut bytes: &[u8], part: &[u8]) -> bool {
    let Some((first, _)) = part.split_first() else {
        return true;
    };
    while let Some(at) = memchr::memchr(*first, bytes) {
        bytes = &bytes[at..];
        if bytes.starts_with(part) {
            return true;
        }
        bytes = &bytes[1..];
    }
    false
}

/// I5: only an instantiated instance has registered VIMs, and they can be reached.
async fn check_vims(engine: &Engine, instance: &InstanceRecord) -> Result<()> {
    let vims = engine.vims(TENANT).await?;
    let id = instance.vnf.id.as_str();
    let own: Vec<_> = vims
        .iter()
        .filter(|vim| vim.registered_by.as_deref() == Some(id))
        .collect();
    if !is_instantiated(instance) {
        ensure!(
            own.is_empty(),
            "I5: VIM {:?} still exists after its instance",
            own[0].name
        );
        let uses = engine.store().vims(TENANT).await?;
        for vim in uses {
            let by = engine.store().uses(TENANT, &vim.vim.id).await?;
            let left = by.iter().any(|one| one.instance_id == id);
            ensure!(!left, "I5: `{id}` still uses VIM `{}`", vim.vim.name);
        }
        return Ok(());
    }
    for vim in &own {
        engine
            .check_vim(TENANT, &vim.id)
            .await
            .context("I5: its VIM cannot be reached")?;
        let known = &instance.vnf.vim_connection_info;
        let is_known = known
            .values()
            .any(|one| one.vim_id.as_deref() == Some(vim.id.as_str()));
        ensure!(
            is_known,
            "I5: the instance does not know its VIM: {known:?}"
        );
    }
    Ok(())
}
