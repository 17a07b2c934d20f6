//! The power states of a host, and what changes them.

use serde::{Deserialize, Serialize};

/// What a switch reports of its host.
pub(crate) struct PowerReport {
    pub(crate) state: PowerState,
    /// Why the last change failed, if the switch knows.
    pub(crate) failure: Option<String>,
}

impl From<PowerState> for PowerReport {
    fn from(state: PowerState) -> Self {
        Self {
            state,
            failure: None,
        }
    }
}

/// The state of a host, as `PowerState` of Redfish spells it; IPMI knows the first two.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub(crate) enum PowerState {
    On,
    Off,
    PoweringOn,
    PoweringOff,
    Paused,
}

/// What is requested, as `ResetType` of Redfish spells it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(crate) enum Reset {
    On,
    ForceOff,
    GracefulShutdown,
}

impl Reset {
    /// The state after it.
    pub(crate) fn wanted(self) -> PowerState {
        match self {
            Self::On => PowerState::On,
            Self::ForceOff | Self::GracefulShutdown => PowerState::Off,
        }
    }
}
