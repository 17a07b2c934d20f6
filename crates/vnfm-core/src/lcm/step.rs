//! What an operation is made of: a table of steps, each with its opposite, and how its end is written.

use super::Op;
use crate::engine::Engine;
use crate::ports::{Change, InstanceRecord, PortError};
use crate::refusal::{self, Refusal, Why};
use futures_util::future::BoxFuture;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use vnfm_types::{LcmOperationState, LcmOperationType, ResourceChanges, VnfInfoModifications};

/// What a step yields; later steps and its opposite read it by type.
pub type Output<T> = Result<T, PortError>;

/// A step's work as the runner calls it: the output with its version.
pub type StepFn = for<'a> fn(&'a Op) -> BoxFuture<'a, Result<Value, PortError>>;

/// An output that the journal keeps. A newer binary reads every version that a released one wrote.
pub trait StepOutput: Serialize + DeserializeOwned + Send {
    /// The step that produces it.
    const STEP: &'static str;
    /// Raised when its shape changes.
    const VERSION: u32 = 1;
}

/// One row of an operation's table.
#[derive(Clone, Copy)]
pub struct Step {
    /// Key in the journal; never reused for another meaning.
    pub name: &'static str,
    /// State that the operation is in while the step runs.
    pub state: LcmOperationState,
    /// The work.
    pub run: StepFn,
    /// Its opposite; `None` where there is nothing to undo.
    pub undo: Option<StepFn>,
    /// What exists of its work, looked up where it stops on its way; kept as its output.
    pub look: Option<StepFn>,
    /// True where nothing brings back what it takes away: no rollback once it has begun.
    pub irreversible: bool,
    /// True where it is a hook of this name: skipped where the VNFD names none, undone where its driver says how.
    pub hook: bool,
    /// True where it asks the NFVO: passed over, without a trace, where there is none.
    pub grant: bool,
}

impl Step {
    /// A step with nothing to undo.
    pub const fn new(name: &'static str, state: LcmOperationState, run: StepFn) -> Self {
        let (undo, look) = (None, None);
        Self {
            name,
            state,
            run,
            undo,
            look,
            irreversible: false,
            hook: false,
            grant: false,
        }
    }

    /// The step that asks the NFVO.
    pub const fn grant(run: StepFn) -> Self {
        let mut step = Self::new("grant", LcmOperationState::Starting, run);
        step.grant = true;
        step
    }

    /// The same step, with its opposite.
    #[must_use]
    pub const fn undone_by(mut self, undo: StepFn) -> Self {
        self.undo = Some(undo);
        self
    }

    /// The same step, with a look at what exists where it stops on its way.
    #[must_use]
    pub const fn seen_by(mut self, look: StepFn) -> Self {
        self.look = Some(look);
        self
    }

    /// The same step, as one after which there is no way back.
    #[must_use]
    pub const fn irreversible(mut self) -> Self {
        self.irreversible = true;
        self
    }

    /// A step that runs the vendor's hook of its name.
    pub const fn hook(name: &'static str, run: StepFn) -> Self {
        let mut step = Self::new(name, LcmOperationState::Processing, run);
        step.hook = true;
        step
    }
}

/// What the end of an operation writes, in the transaction of its last state.
#[derive(Default)]
pub struct Settled {
    /// The instance as it is from now on.
    pub instance: Option<InstanceRecord>,
    /// What was changed, for the occurrence.
    pub resource_changes: Option<ResourceChanges>,
    /// What a modification changed, for the occurrence.
    pub changed_info: Option<VnfInfoModifications>,
    /// What else is written.
    pub changes: Vec<Change>,
}

/// How a request is accepted that came as JSON: by whose engine, on whose instance.
pub type AcceptFn =
    for<'a> fn(&'a Engine, (&'a str, &'a str), Value) -> BoxFuture<'a, Result<String, Refusal>>;

/// A request's body as `T`. What is wrong with it is not told: it may be a secret that stands there.
pub(crate) fn body<T: DeserializeOwned>(body: Value) -> Result<T, Refusal> {
    serde_json::from_value(body).map_err(|_| {
        let what = "the body is not as SOL003 has it for this operation";
        Refusal::new(Why::Unprocessable, &refusal::BAD_PARAMETERS, what)
    })
}

/// An operation: how it begins, its steps, and what its end writes.
pub struct Operation {
    /// Its type.
    pub kind: LcmOperationType,
    /// Accepts a request for an instance of a tenant.
    pub accept: AcceptFn,
    /// Its steps, in order.
    pub steps: &'static [Step],
    /// What a final state, or `FAILED_TEMP`, writes beside it.
    pub settle: fn(&Op, LcmOperationState) -> Result<Settled, PortError>,
}

impl Operation {
    /// The names of its hooks.
    pub fn hooks(&self) -> Vec<&'static str> {
        self.steps
            .iter()
            .filter(|step| step.hook)
            .map(|step| step.name)
            .collect()
    }
}

/// Makes a [`StepFn`]'s future out of a typed one.
pub(crate) fn journaled<'a, T: StepOutput>(
    work: impl Future<Output = Output<T>> + Send + 'a,
) -> BoxFuture<'a, Result<Value, PortError>> {
    Box::pin(async move {
        let data = serde_json::to_value(work.await?).map_err(super::op::unreadable(T::STEP))?;
        Ok(json!({"v": T::VERSION, "data": data}))
    })
}

/// Makes a [`StepFn`]'s future out of one that yields nothing.
pub(crate) fn silent<'a>(
    work: impl Future<Output = Output<()>> + Send + 'a,
) -> BoxFuture<'a, Result<Value, PortError>> {
    Box::pin(async move {
        work.await?;
        Ok(Value::Null)
    })
}
