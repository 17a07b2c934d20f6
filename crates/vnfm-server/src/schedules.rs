//! Begins scheduled operations when their time has come.

use crate::drive::DriveQueue;
use crate::maintenance::Maintenance;
use std::sync::Arc;
use std::time::Duration;
use vnfm_core::Engine;
use vnfm_core::ports::Clock;

/// Interval between two looks at the schedules.
const INTERVAL: Duration = Duration::from_secs(5);

/// Begins what is due until it is dropped; nothing while the disk is low.
pub(crate) async fn run(
    engine: Engine,
    clock: Arc<dyn Clock>,
    wake: DriveQueue,
    maintenance: Option<Arc<Maintenance>>,
) {
    loop {
        clock.sleep(INTERVAL).await;
        let is_low = |maintenance: &Arc<Maintenance>| maintenance.check_disk().is_err();
        if maintenance.as_ref().is_some_and(is_low) {
            continue;
        }
        match engine.begin_due().await {
            Ok(begun) => begun.iter().for_each(|op_id| wake.drive(op_id)),
            Err(error) => tracing::warn!(%error, "cannot begin scheduled operations"),
        }
    }
}
