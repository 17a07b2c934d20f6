//! States of an operation occurrence (SOL003 5.6.2.2) and the table of legal transitions.
//!
//! An operation begins in STARTING, except `MODIFY_INFO`, which needs no grant
//! and begins in PROCESSING ([`LcmOperationType::initial_state`]).
//!
//! ```text
//! STARTING ──► PROCESSING ──► COMPLETED
//!    │             │ ▲ retry
//!    ▼             ▼ │
//! ROLLED_BACK   FAILED_TEMP ──fail──► FAILED
//!    ▲             │ ▲
//!    │             ▼ │ undo failed, or cancelled
//!    └───────── ROLLING_BACK
//! ```

use serde::{Deserialize, Serialize};
use std::fmt;

/// `LcmOperationStateType`: the states of the diagram above.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum LcmOperationState {
    /// Preparation: queries the VIM and the NFVO; nothing is changed.
    Starting,
    /// Steps change resources or call hooks.
    Processing,
    /// Done: resources and record agree.
    Completed,
    /// Stopped by an error; retry, rollback or fail are possible.
    FailedTemp,
    /// Given up; resources may remain on the VIM.
    Failed,
    /// Its steps are being undone.
    RollingBack,
    /// Undone; no changes of the operation remain.
    RolledBack,
}

impl LcmOperationState {
    /// All states, in the order of the standard.
    pub const ALL: [Self; 7] = [
        Self::Starting,
        Self::Processing,
        Self::Completed,
        Self::FailedTemp,
        Self::Failed,
        Self::RollingBack,
        Self::RolledBack,
    ];

    /// The states in which a process must drive the operation.
    pub const DRIVEN: [Self; 3] = [Self::Starting, Self::Processing, Self::RollingBack];

    /// The only table of legal transitions.
    pub fn can_become(self, next: Self) -> bool {
        use LcmOperationState::{
            Completed, Failed, FailedTemp, Processing, RolledBack, RollingBack, Starting,
        };
        matches!(
            (self, next),
            (Starting, Processing | RolledBack)
                | (Processing, Completed | FailedTemp)
                | (FailedTemp, Processing | RollingBack | Failed)
                | (RollingBack, RolledBack | FailedTemp)
        )
    }

    /// True if the operation has ended for good and the instance is free again.
    pub fn is_final(self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::RolledBack)
    }

    /// True if a process must drive the operation (see [`Self::DRIVEN`]).
    pub fn is_driven(self) -> bool {
        Self::DRIVEN.contains(&self)
    }

    /// The spelling of the standard, such as `FAILED_TEMP`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Starting => "STARTING",
            Self::Processing => "PROCESSING",
            Self::Completed => "COMPLETED",
            Self::FailedTemp => "FAILED_TEMP",
            Self::Failed => "FAILED",
            Self::RollingBack => "ROLLING_BACK",
            Self::RolledBack => "ROLLED_BACK",
        }
    }
}

impl fmt::Display for LcmOperationState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// `LcmOperationType` (SOL003 5.5.4.5); each operation is named after the task in its URI.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum LcmOperationType {
    /// `instantiate`: creates the resources of an instance.
    Instantiate,
    /// `scale`: changes the level of one aspect.
    Scale,
    /// `scale_to_level`: changes the levels of several aspects.
    ScaleToLevel,
    /// `change_flavour`: changes to another deployment flavour.
    ChangeFlavour,
    /// `terminate`: deletes the resources of an instance.
    Terminate,
    /// `heal`: repairs or replaces VNFCs.
    Heal,
    /// `operate`: starts or stops VNFCs.
    Operate,
    /// `change_ext_conn`: changes the external connectivity.
    ChangeExtConn,
    /// PATCH of the VNF instance.
    ModifyInfo,
    /// `create_snapshot`: stores the state of an instance.
    CreateSnapshot,
    /// `revert_to_snapshot`: restores a stored state.
    RevertToSnapshot,
    /// `change_vnfpkg`: changes to another VNF package.
    ChangeVnfpkg,
}

impl LcmOperationType {
    /// The spelling of the standard, such as `INSTANTIATE`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Instantiate => "INSTANTIATE",
            Self::Scale => "SCALE",
            Self::ScaleToLevel => "SCALE_TO_LEVEL",
            Self::ChangeFlavour => "CHANGE_FLAVOUR",
            Self::Terminate => "TERMINATE",
            Self::Heal => "HEAL",
            Self::Operate => "OPERATE",
            Self::ChangeExtConn => "CHANGE_EXT_CONN",
            Self::ModifyInfo => "MODIFY_INFO",
            Self::CreateSnapshot => "CREATE_SNAPSHOT",
            Self::RevertToSnapshot => "REVERT_TO_SNAPSHOT",
            Self::ChangeVnfpkg => "CHANGE_VNFPKG",
        }
    }

    /// The state in which an occurrence of it is made (SOL003 5.6.2.2): STARTING is the initial state of all
    /// operations except Modify VNF Information, whose initial state is PROCESSING.
    pub fn initial_state(self) -> LcmOperationState {
        match self {
            Self::ModifyInfo => LcmOperationState::Processing,
            _ => LcmOperationState::Starting,
        }
    }
}

impl fmt::Display for LcmOperationType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// `CancelModeType` (SOL003 5.5.4.6): what happens to the running step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum CancelMode {
    /// The running step finishes; no further step starts.
    Graceful,
    /// The running step is dropped at once.
    Forceful,
}

#[cfg(test)]
mod tests {
    use super::LcmOperationState as S;

    #[test]
    fn the_transition_table_matches_the_standard() {
        let legal = [
            (S::Starting, S::Processing),
            (S::Starting, S::RolledBack),
            (S::Processing, S::Completed),
            (S::Processing, S::FailedTemp),
            (S::FailedTemp, S::Processing),
            (S::FailedTemp, S::RollingBack),
            (S::FailedTemp, S::Failed),
            (S::RollingBack, S::RolledBack),
            (S::RollingBack, S::FailedTemp),
        ];
        for from in S::ALL {
            for to in S::ALL {
                assert_eq!(
                    from.can_become(to),
                    legal.contains(&(from, to)),
                    "{from} -> {to}"
                );
            }
        }
    }

    #[test]
    fn a_final_state_has_no_transitions() {
        for from in S::ALL.into_iter().filter(|s| s.is_final()) {
            assert!(S::ALL.iter().all(|to| !from.can_become(*to)));
        }
    }
}
