//! A step of an operation: what it does, and what that means for retry, rollback and the journal.

use super::op_context::{Op, unreadable};
use crate::deployment::Deployment;
use crate::limits::Limits;
use crate::ports::{Inventory, PortError};
use futures_util::future::BoxFuture;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::time::Duration;
use vnfm_descriptor::Package;
use vnfm_types::LcmOperationState;

/// The typed output of a step; later steps and its undo read it by type.
pub type Output<T> = Result<T, PortError>;

/// A step's work as the runner calls it: returns the output with its version. Made by [`journaled`] or [`silent`].
pub type StepFn = for<'a> fn(&'a Op) -> BoxFuture<'a, Result<Value, PortError>>;

/// The resources that a hook receives.
pub type InventoryFn = fn(&Op) -> Output<Inventory>;

/// A step output in the journal. A newer binary reads every version that a released one wrote.
pub trait StepOutput: Serialize + DeserializeOwned + Send {
    /// Name of the step that produces it.
    const STEP: &'static str;
    /// Raised when the format changes.
    const VERSION: u32 = 1;
}

/// One step of an operation, as the journal knows it by name.
#[derive(Clone, Copy)]
pub struct Step {
    /// Key in the journal; never reused with another meaning.
    pub name: &'static str,
    /// State of the operation while the step runs.
    pub state: LcmOperationState,
    /// Whether it asks the NFVO, runs a hook, or works on the VNF itself.
    pub kind: StepKind,
    /// When it runs; otherwise it is journaled as skipped. `None`: always.
    pub condition: Option<StepCondition>,
    /// Time limit of one attempt. `None`: that of its kind.
    pub limit: Option<Duration>,
}

/// Whether an operation between these ends needs a step.
pub type StepCondition = fn(&Ends<'_>) -> bool;

/// The deployments between which an operation leads.
#[derive(Clone, Copy)]
pub struct Ends<'a> {
    /// The deployment so far.
    pub before: &'a Deployment,
    /// The deployment from then on.
    pub target: &'a Deployment,
    /// Their package; `None` if it cannot be read.
    pub package: Option<&'a Package>,
    /// Whether the operation terminates the instances on clusters of its own instance.
    pub cascade: bool,
    /// Whether volumes outlive the instance that the operation terminates.
    pub retains: bool,
}

impl<'a> Ends<'a> {
    /// The ends of an operation that neither cascades nor retains anything; `None` without a deployment.
    pub fn between(
        before: Option<&'a Deployment>,
        target: Option<&'a Deployment>,
        package: Option<&'a Package>,
    ) -> Option<Self> {
        Some(Self {
            before: before.or(target)?,
            target: target.or(before)?,
            package,
            cascade: false,
            retains: false,
        })
    }
}

/// What a step does when it runs.
#[derive(Clone, Copy)]
pub enum StepKind {
    /// Asks the NFVO for a grant; omitted, also from the journal, if there is no NFVO.
    Grant,
    /// Runs the vendor's hook of the step's name: skipped unless the VNFD names one, undone if its driver can.
    Hook(InventoryFn, HookOf),
    /// Work of the VNFM itself.
    Work {
        /// Does the work; idempotent, since a crash may repeat it.
        run: StepFn,
        /// How a rollback undoes it.
        undo: Undo,
        /// Lists what exists of the step's work if it fails; stored as its output.
        observe: Option<StepFn>,
    },
}

/// The package whose hook a step runs. The two differ only in an operation that changes the package.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HookOf {
    /// The package that the instance had before the operation.
    Before,
    /// The package that it has afterwards.
    Target,
}

/// How a rollback undoes a step.
#[derive(Clone, Copy)]
pub enum Undo {
    /// The step changes nothing, so there is nothing to undo.
    NotNeeded,
    /// Undoes the work; idempotent, since a crash may repeat it.
    By(StepFn),
    /// The step destroys something: no rollback once it has begun.
    Impossible,
}

/// Whether a step is run or undone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Direction {
    Forward,
    Backward,
}

impl Step {
    /// Work that changes nothing, unless [`Self::undone_by`] or [`Self::irreversible`] say otherwise.
    pub const fn new(name: &'static str, state: LcmOperationState, run: StepFn) -> Self {
        let (undo, observe) = (Undo::NotNeeded, None);
        let kind = StepKind::Work { run, undo, observe };
        Self::of_kind(name, state, kind)
    }

    const fn of_kind(name: &'static str, state: LcmOperationState, kind: StepKind) -> Self {
        Self {
            name,
            state,
            kind,
            condition: None,
            limit: None,
        }
    }

    /// The step that asks the NFVO for what [`Operation::grant`](super::Operation::grant) needs.
    pub const fn grant() -> Self {
        Self::of_kind("grant", LcmOperationState::Starting, StepKind::Grant)
    }

    /// The step that runs the vendor's hook of the same name, such as `heal_start`, with this inventory.
    pub const fn hook(name: &'static str, inventory: InventoryFn) -> Self {
        let kind = StepKind::Hook(inventory, HookOf::Target);
        Self::of_kind(name, LcmOperationState::Processing, kind)
    }

    /// As [`Self::hook`], for a hook of the package that the instance had before the operation.
    pub const fn hook_before(name: &'static str, inventory: InventoryFn) -> Self {
        let kind = StepKind::Hook(inventory, HookOf::Before);
        Self::of_kind(name, LcmOperationState::Processing, kind)
    }

    /// Adds the undo of its work.
    #[must_use]
    pub const fn undone_by(self, by: StepFn) -> Self {
        self.with_undo(Undo::By(by))
    }

    /// Rules out a rollback once the step has begun.
    #[must_use]
    pub const fn irreversible(self) -> Self {
        self.with_undo(Undo::Impossible)
    }

    /// Skips the step in operations that do not need it: an irreversible one then does not rule out a rollback.
    #[must_use]
    pub const fn only_if(mut self, condition: StepCondition) -> Self {
        self.condition = Some(condition);
        self
    }

    /// Sets the time limit of one attempt, for a step that waits for more than a VIM.
    #[must_use]
    pub const fn limited_to(mut self, limit: Duration) -> Self {
        self.limit = Some(limit);
        self
    }

    /// False if an operation between these ends does not need the step.
    pub fn is_needed(&self, ends: Option<&Ends<'_>>) -> bool {
        let condition = self.condition.zip(ends);
        condition.is_none_or(|(needed, ends)| needed(ends))
    }

    /// Adds the function that lists what exists after a failure.
    #[must_use]
    pub const fn observed_by(mut self, by: StepFn) -> Self {
        if let StepKind::Work { run, undo, .. } = self.kind {
            let observe = Some(by);
            self.kind = StepKind::Work { run, undo, observe };
        }
        self
    }

    const fn with_undo(mut self, undo: Undo) -> Self {
        if let StepKind::Work { run, observe, .. } = self.kind {
            self.kind = StepKind::Work { run, undo, observe };
        }
        self
    }

    /// True if a rollback has something to undo. A hook has only if its driver declares an undo.
    pub const fn has_undo(&self) -> bool {
        match self.kind {
            StepKind::Grant => false,
            StepKind::Hook(..) => true,
            StepKind::Work { undo, .. } => matches!(undo, Undo::By(_)),
        }
    }

    /// True if no rollback is possible once the step has begun.
    pub const fn is_irreversible(&self) -> bool {
        let StepKind::Work { undo, .. } = self.kind else {
            return false;
        };
        matches!(undo, Undo::Impossible)
    }

    /// True if the step runs a vendor's hook.
    pub const fn is_hook(&self) -> bool {
        matches!(self.kind, StepKind::Hook(..))
    }

    /// The package whose hook the step runs; of a step that is no hook, that of its work.
    pub const fn hook_of(&self) -> HookOf {
        match self.kind {
            StepKind::Hook(_, of) => of,
            StepKind::Grant | StepKind::Work { .. } => HookOf::Target,
        }
    }

    /// True if the step asks the NFVO.
    pub const fn is_grant(&self) -> bool {
        matches!(self.kind, StepKind::Grant)
    }

    pub(super) fn observe(&self) -> Option<StepFn> {
        match self.kind {
            StepKind::Grant | StepKind::Hook(..) => None,
            StepKind::Work { observe, .. } => observe,
        }
    }

    /// Time limit of one attempt.
    pub(super) fn time_limit(&self, limits: &Limits) -> Duration {
        self.limit.unwrap_or(match self.kind {
            // The last call of a grant step may use its full timeout; the step reports what failed.
            StepKind::Grant => limits.grant + limits.grant_call + limits.grant_call,
            StepKind::Hook(..) => limits.hook,
            StepKind::Work { .. } => limits.step,
        })
    }
}

/// The future of a [`StepFn`] for typed work.
pub fn journaled<'a, T: StepOutput>(
    work: impl Future<Output = Output<T>> + Send + 'a,
) -> BoxFuture<'a, Result<Value, PortError>> {
    Box::pin(async move { versioned(T::STEP, T::VERSION, &work.await?) })
}

/// The future of a [`StepFn`] for work without output.
pub fn silent<'a>(
    work: impl Future<Output = Output<()>> + Send + 'a,
) -> BoxFuture<'a, Result<Value, PortError>> {
    Box::pin(async move {
        work.await?;
        Ok(Value::Null)
    })
}

pub(super) fn versioned(
    step: &str,
    version: u32,
    output: &impl Serialize,
) -> Result<Value, PortError> {
    let data = serde_json::to_value(output).map_err(unreadable(step))?;
    Ok(json!({"v": version, "data": data}))
}
