//! Starting and stopping VNFCs: what only some VIMs can do. A driver that can offers it by
//! [`InfraDriver::power`](super::InfraDriver::power).
//!
//! | rule | mandatory |
//! |---|---|
//! | each VNFC gets the state that the target has for it ([`Deployment::state_of`](crate::Deployment::state_of)) | yes |
//! | `operate` is idempotent, and returns once every VNFC has its state | yes |
//! | a VNFC that exists before and after keeps its id, resources and addresses | yes |
//! | `converge` leaves VNFCs stopped that the target has stopped, also those that it creates or replaces | yes |
//! | a graceful stop becomes forceful at its timeout | yes |

use super::{Allocation, PortError, Recorded, VimCall};
use async_trait::async_trait;
use std::time::Duration;

/// Starts and stops the VNFCs of an instance.
#[async_trait]
pub trait Power: Send + Sync {
    /// Whether a single VNFC can be started and stopped; false: only all of them, as stopped ones cease to exist.
    fn is_per_vnfc(&self) -> bool;

    /// Brings each VNFC to the state that the target has for it, and waits for that.
    ///
    /// # Errors
    ///
    /// With the VIM's message, or what was not reached at the deadline; calling again continues, and a target from before
    /// reverses it.
    async fn operate(
        &self,
        cx: &VimCall<'_>,
        change: &PowerChange<'_>,
    ) -> Result<Recorded, PortError>;
}

/// A change of the states of VNFCs.
#[derive(Clone, Copy)]
pub struct PowerChange<'a> {
    /// The record from before the operation.
    pub current: &'a Recorded,
    /// The states that the VNFCs should have; nothing else differs from the record.
    pub target: &'a Allocation,
    /// How running VNFCs are stopped.
    pub stop: Stop,
}

/// How running VNFCs are stopped.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Stop {
    /// At once.
    #[default]
    Forceful,
    /// By asking them to shut down; forcefully after this time. `None`: never.
    Graceful(Option<Duration>),
}
