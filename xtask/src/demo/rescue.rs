//! What is done about a story that broke off: whatever runs is ended, whatever is there goes.

use anyhow::Result;

use super::ctl::{Ctl, text};
use super::story::{VNF_A, VNF_B};
use super::world::World;
use crate::terminal::{Busy, note};

/// Takes everything down, first by the server, then by force; what does not go is told.
pub(crate) fn everything(ctl: &Ctl, world: &World) {
    for name in [VNF_B, VNF_A] {
        if let Err(error) = one(ctl, name) {
            note(&format!("  {name} by the server: {error:#}"));
        }
    }
    if let Err(error) = world.sweep() {
        note(&format!("  by force: {error:#}"));
    }
}

fn one(ctl: &Ctl, name: &str) -> Result<()> {
    let all = ctl.json(&["vnf", "list"])?;
    let mut all = all.as_array().into_iter().flatten();
    let Some(instance) = all.find(|instance| instance["vnfInstanceName"] == name) else {
        return Ok(());
    };
    let id = text(instance, "id")?;
    let busy = Busy::begin(&format!("clean up {name}"));
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
            ctl.watch(&busy, &["op", "cancel", operation_id, "--forceful"])?;
            // it does not end well, which is what we want: the exit code says nothing here
            let _ = ctl.watch(&busy, &["op", "watch", operation_id]);
        }
        if state(ctl)? == "FAILED_TEMP" {
            ctl.watch(&busy, &["op", "fail", operation_id])?;
        }
    }
    if ctl.json(&["vnf", "show", id])?["instantiationState"] == "INSTANTIATED" {
        ctl.watch(&busy, &["vnf", "terminate", id, "--watch"])?;
    }
    ctl.watch(&busy, &["vnf", "delete", id])?;
    busy.done();
    Ok(())
}
