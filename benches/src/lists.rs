//! Lists of 50 000 instances, half of them instantiated: pages, filters, and the streamed full list.
//!
//! One instance is instantiated through the API; the others are written directly into the database of the stopped server,
//! with the same resources under other ids.

use std::path::Path;
use std::time::Instant;

use anyhow::{Context as _, Result, ensure};
use futures::StreamExt as _;
use vnfm_core::ports::{Change, InstanceRecord, Store as _};
use vnfm_store::{SecretKeys, SqliteStore};

use crate::figure::{Figure, median};
use crate::world::{INSTANCES, World, runtime};

const KEPT: usize = 50_000;
/// Number of instances added per transaction.
const AT_ONCE: usize = 500;
/// Number of requests for each list.
const READS: usize = 20;
/// Not ordered by id, so that the position in the list is random.
const NAMED: usize = 31_415;
const TENANT: &str = "default";

/// Runs the benchmarks with the programs in this folder.
///
/// # Errors
/// If a program is missing or a request is refused.
pub fn figures(programs: &Path) -> Result<Vec<Figure>> {
    let runtime = runtime()?;
    let mut world = runtime.block_on(World::start(programs, &[]))?;
    let id = runtime.block_on(instantiated(&world))?;
    let marker = world.without_server("{}\n", |data| runtime.block_on(fill(data, &id)))?;
    let ask = |query: &str| runtime.block_on(read(&world, query));
    let last = format!("nextpage_opaque_marker={marker}");
    let deep =
        "filter=(eq,instantiatedVnfInfo/vnfcResourceInfo/computeResource/resourceId,nowhere)";
    let mut figures = vec![
        Figure::at_most(
            20.0,
            "50 000 instances: first page of 100, median",
            ask("")?,
            "ms",
        ),
        Figure::at_most(
            20.0,
            "50 000 instances: last page of 100, median",
            ask(&last)?,
            "ms",
        ),
        Figure::at_most(
            20.0,
            "50 000 instances: filter on an indexed attribute, median",
            ask(&format!("filter=(eq,vnfInstanceName,n{NAMED})"))?,
            "ms",
        ),
        Figure::at_most(
            1000.0,
            "50 000 instances: filter on a deep attribute that none has, median",
            ask(deep)?,
            "ms",
        ),
    ];
    world.without_server("limits: {page_entries: 0}\n", |_| Ok(()))?;
    runtime.block_on(read(&world, "filter=(eq,id,none)"))?;
    let before = world.server.resident()?;
    let most = runtime.block_on(full_list_memory(&world))?;
    let more = most - before;
    figures.push(Figure::at_most(
        64.0,
        "50 000 instances: more memory while all are sent",
        more,
        "MiB",
    ));
    Ok(figures)
}

/// Creates and instantiates one instance.
async fn instantiated(world: &World) -> Result<String> {
    let id = world.create().await?;
    let op = world.begin(&id, "instantiate").await?;
    world.completed(&op).await?;
    Ok(id)
}

/// Writes the other instances into the database; returns the marker of the last page.
async fn fill(data: &Path, id: &str) -> Result<String> {
    let keys = SecretKeys::open(&data.join("secrets.key"))?;
    let store = SqliteStore::open(&data.join("vnfm.db"), keys).await?;
    let with = store.instance(TENANT, id).await?;
    let mut ids = vec![id.to_owned()];
    let mut changes = Vec::new();
    for number in 1..KEPT {
        let record = another(&with, number);
        ids.push(record.vnf.id.clone());
        changes.push(Change::AddInstance(Box::new(record)));
        if changes.len() == AT_ONCE || number + 1 == KEPT {
            store.write(None, std::mem::take(&mut changes)).await?;
        }
    }
    store.close().await?;
    ids.sort();
    ids.get(KEPT - 101)
        .cloned()
        .context("there are too few instances")
}

/// A copy of the instance under another id; every second one has no resources.
fn another(with: &InstanceRecord, number: usize) -> InstanceRecord {
    let mut record = InstanceRecord {
        version: 0,
        active_op: None,
        ..with.clone()
    };
    record.vnf.id = uuid::Uuid::new_v4().to_string();
    record.vnf.vnf_instance_name = Some(format!("n{number}"));
    if number.is_multiple_of(2) {
        record.vnf.instantiation_state = vnfm_types::InstantiationState::NotInstantiated;
        record.vnf.instantiated_vnf_info = None;
        record.deployment = None;
        record.handle = serde_json::Value::Null;
    }
    record
}

async fn read(world: &World, query: &str) -> Result<f64> {
    let path = format!("{INSTANCES}?{query}");
    let mut milliseconds = Vec::with_capacity(READS);
    for _ in 0..READS {
        let began = Instant::now();
        world.get(&path).await?;
        milliseconds.push(began.elapsed().as_secs_f64() * 1000.0);
    }
    median(milliseconds)
}

/// Additional memory of the server while it sends all instances with all attributes.
async fn full_list_memory(world: &World) -> Result<f64> {
    let request = world
        .client
        .get(world.at(&format!("{INSTANCES}?all_fields")));
    let answer = request
        .header("Version", "2.0.0")
        .send()
        .await?
        .error_for_status()?;
    let (mut bytes, mut most) = (0, world.server.resident()?);
    let mut parts = answer.bytes_stream();
    while let Some(part) = parts.next().await {
        bytes += part?.len();
        most = most.max(world.server.resident()?);
    }
    ensure!(bytes > KEPT * 500, "received only {bytes} bytes");
    Ok(most)
}
