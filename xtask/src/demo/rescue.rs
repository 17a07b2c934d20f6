//! Cleans up after a failed demo: stops running operations and deletes all resources.

use anyhow::Result;

use super::ctl::{Ctl, text};
use super::snapshots;
use super::world::World;
use super::{charts, operations};
use crate::terminal::{Progress, note};

/// Deletes everything, first through the server, then directly on the cloud; failures are printed.
pub(crate) fn clean_up(ctl: &Ctl, world: &World) {
    // They hold the cluster that VNF-A is. One that is in use is deleted after its operation has been stopped.
    drop(snapshots::delete_listed(ctl));
    for name in operations::NAMES.iter().chain(charts::NAMES) {
        if let Err(error) = delete_instance(ctl, name) {
            note(&format!(
                "  cannot delete {name} through the server: {error:#}"
            ));
        }
    }
    if let Err(error) = snapshots::delete_listed(ctl) {
        note(&format!("  cannot delete the snapshots: {error:#}"));
    }
    if let Err(error) = world.force_delete() {
        note(&format!("  cannot delete the rest directly: {error:#}"));
    }
}

fn delete_instance(ctl: &Ctl, name: &str) -> Result<()> {
    let all = ctl.json(&["vnf", "list"])?;
    let mut all = all.as_array().into_iter().flatten();
    let Some(instance) = all.find(|instance| instance["vnfInstanceName"] == name) else {
        return Ok(());
    };
    let id = text(instance, "id")?;
    let progress = Progress::begin(&format!("clean up {name}"));
    let operations = ctl.json(&["op", "list"])?;
    for operation in operations
        .as_array()
        .into_iter()
        .flatten()
        .filter(|operation| operation["vnfInstanceId"] == id)
    {
        let operation_id = text(operation, "id")?;
        let state = |ctl: &Ctl| {
            Ok::<_, anyhow::Error>(
                ctl.json(&["op", "show", operation_id])?["operationState"].clone(),
            )
        };
        if matches!(
            operation["operationState"].as_str(),
            Some("STARTING" | "PROCESSING" | "ROLLING_BACK")
        ) {
            ctl.watch(&progress, &["op", "cancel", operation_id, "--forceful"])?;
            // the cancelled operation fails as intended, so the exit code is ignored
            let _ = ctl.watch(&progress, &["op", "watch", operation_id]);
        }
        if state(ctl)? == "FAILED_TEMP" {
            ctl.watch(&progress, &["op", "fail", operation_id])?;
        }
    }
    if ctl.json(&["vnf", "show", id])?["instantiationState"] == "INSTANTIATED" {
        ctl.watch(&progress, &["vnf", "terminate", id, "--watch"])?;
    }
    ctl.watch(&progress, &["vnf", "delete", id])?;
    progress.done();
    Ok(())
}
