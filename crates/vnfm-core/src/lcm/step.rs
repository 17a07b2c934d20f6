//! The parts of an operation: a table of steps, each with its undo, and what its end writes.

use super::Op;
use crate::engine::Engine;
use crate::ports::{Change, InstanceRecord, PortError};
use crate::refusal::{self, Refusal, Why};
use futures_util::future::BoxFuture;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use vnfm_types::{LcmOperationState, LcmOperationType, ResourceChanges, VnfInfoModifications};

/// The typed output of a step; later steps and its undo read it by type.
pub type Output<T> = Result<T, PortError>;

/// A step's work as the runner calls it: returns the output with its version.
pub type StepFn = for<'a> fn(&'a Op) -> BoxFuture<'a, Result<Value, PortError>>;

/// A step output in the journal. A newer binary reads every version that a released one wrote.
pub trait StepOutput: Serialize + DeserializeOwned + Send {
    /// Name of the step that produces it.
    const STEP: &'static str;
    /// Raised when the format changes.
    const VERSION: u32 = 1;
}

/// One row of an operation's table.
#[derive(Clone, Copy)]
pub struct Step {
    /// Key in the journal; never reused with another meaning.
    pub name: &'static str,
    /// State of the operation while the step runs.
    pub state: LcmOperationState,
    /// Does the work; idempotent.
    pub run: StepFn,
    /// Undoes the work; idempotent. `None` if there is nothing to undo.
    pub undo: Option<StepFn>,
    /// Lists what exists of the step's work if it fails; stored as its output.
    pub observe: Option<StepFn>,
    /// True if the step destroys something: no rollback once it has begun.
    pub irreversible: bool,
    /// True for the vendor's hook of this name: skipped unless the VNFD names one, undone if its driver can.
    pub hook: bool,
    /// True for the grant step: omitted, also from the journal, if there is no NFVO.
    pub grant: bool,
}

impl Step {
    /// A step without an undo.
    pub const fn new(name: &'static str, state: LcmOperationState, run: StepFn) -> Self {
        let (undo, observe) = (None, None);
        Self {
            name,
            state,
            run,
            undo,
            observe,
            irreversible: false,
            hook: false,
            grant: false,
        }
    }

    /// The step that requests a grant from the NFVO.
    pub const fn grant(run: StepFn) -> Self {
        let mut step = Self::new("grant", LcmOperationState::Starting, run);
        step.grant = true;
        step
    }

    /// Adds the undo.
    #[must_use]
    pub const fn undone_by(mut self, undo: StepFn) -> Self {
        self.undo = Some(undo);
        self
    }

    /// Adds the function that lists what exists after a failure.
    #[must_use]
    pub const fn observed_by(mut self, observe: StepFn) -> Self {
        self.observe = Some(observe);
        self
    }

    /// Rules out a rollback once the step has begun.
    #[must_use]
    pub const fn irreversible(mut self) -> Self {
        self.irreversible = true;
        self
    }

    /// A step that runs the vendor's hook of the same name.
    pub const fn hook(name: &'static str, run: StepFn) -> Self {
        let mut step = Self::new(name, LcmOperationState::Processing, run);
        step.hook = true;
        step
    }
}

/// What the end of an operation writes, in the transaction of its last state.
#[derive(Default)]
pub struct Completion {
    /// The instance after the operation.
    pub instance: Option<InstanceRecord>,
    /// Changed resources, for the occurrence.
    pub resource_changes: Option<ResourceChanges>,
    /// Attributes that a modification changed, for the occurrence.
    pub changed_info: Option<VnfInfoModifications>,
    /// Other rows to write.
    pub changes: Vec<Change>,
}

/// Accepts a request in JSON: engine, (tenant, instance id), body. Returns the id of the occurrence.
pub type AcceptFn =
    for<'a> fn(&'a Engine, (&'a str, &'a str), Value) -> BoxFuture<'a, Result<String, Refusal>>;

/// Parses the body of a request. The error does not quote the body, which may contain a secret.
pub(crate) fn body<T: DeserializeOwned>(body: Value) -> Result<T, Refusal> {
    serde_json::from_value(body).map_err(|_| {
        let what = "the body does not have the form that SOL003 defines for this operation";
        Refusal::new(Why::Unprocessable, &refusal::BAD_PARAMETERS, what)
    })
}

/// An operation: how it begins, its steps, and what its end writes.
pub struct Operation {
    /// Key of the operation in [`OPERATIONS`](super::OPERATIONS).
    pub kind: LcmOperationType,
    /// Accepts a request in JSON.
    pub accept: AcceptFn,
    /// In the order in which they run.
    pub steps: &'static [Step],
    /// What a final state, or `FAILED_TEMP`, writes in addition.
    pub finish: fn(&Op, LcmOperationState) -> Result<Completion, PortError>,
}

impl Operation {
    /// Names of the steps that are hooks.
    pub fn hooks(&self) -> Vec<&'static str> {
        self.steps
            .iter()
            .filter(|step| step.hook)
            .map(|step| step.name)
            .collect()
    }
}

/// The future of a [`StepFn`] for typed work.
pub(crate) fn journaled<'a, T: StepOutput>(
    work: impl Future<Output = Output<T>> + Send + 'a,
) -> BoxFuture<'a, Result<Value, PortError>> {
    Box::pin(async move {
        let data = serde_json::to_value(work.await?).map_err(super::op::unreadable(T::STEP))?;
        Ok(json!({"v": T::VERSION, "data": data}))
    })
}

/// The future of a [`StepFn`] for work without output.
pub(crate) fn silent<'a>(
    work: impl Future<Output = Output<()>> + Send + 'a,
) -> BoxFuture<'a, Result<Value, PortError>> {
    Box::pin(async move {
        work.await?;
        Ok(Value::Null)
    })
}
