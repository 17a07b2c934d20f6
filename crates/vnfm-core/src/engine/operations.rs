//! How operations begin and are controlled, as an embedder calls it.

use super::Engine;
use crate::lcm::{self, Begin, Control, Operation, Tried};
use crate::overrides::Override;
use crate::ports::InstanceRecord;
use crate::refusal::{self, Refusal, Why};
use vnfm_types::CancelMode;

impl Engine {
    /// Accepts an operation: its occurrence exists in its initial state when this returns its id.
    ///
    /// # Errors
    ///
    /// `NotFound`; `Stale` if the instance is not as expected; `Conflict` if it is busy or not in the state that the
    /// operation requires; `Unprocessable` if the request is malformed or cannot be served, or if this engine does not
    /// have the operation. Nothing is changed then.
    pub async fn begin(
        &self,
        tenant: &str,
        instance_id: &str,
        begin: Begin<'_>,
    ) -> Result<String, Refusal> {
        lcm::begin(
            &self.context,
            tenant,
            instance_id,
            self.with_own_row(begin)?,
        )
        .await
    }

    /// As [`Engine::begin`], but writes nothing: the operation's row, and the deployment that its steps would work on.
    pub(crate) async fn try_to_begin(
        &self,
        tenant: &str,
        instance_id: &str,
        begin: Begin<'_>,
    ) -> Result<Tried, Refusal> {
        lcm::try_to_begin(
            &self.context,
            tenant,
            instance_id,
            self.with_own_row(begin)?,
        )
        .await
    }

    /// The operations that can begin on this instance now. A request can still be refused for what it asks for.
    /// It reads the instance's package; it calls no VIM.
    pub async fn possible_operations(&self, instance: &InstanceRecord) -> Vec<&'static Operation> {
        let mut possible = Vec::new();
        for operation in self.operations {
            if operation.is_possible(&self.context, instance).await {
                possible.push(*operation);
            }
        }
        possible
    }

    /// The request, with the row that this engine has for its operation.
    fn with_own_row<'a>(&self, begin: Begin<'a>) -> Result<Begin<'a>, Refusal> {
        let kind = begin.operation.kind;
        let operation = self.operation(kind).ok_or_else(|| {
            let what = format!("unknown operation {kind}");
            Refusal::new(Why::Unprocessable, &refusal::BAD_PARAMETERS, what)
        })?;
        Ok(Begin { operation, ..begin })
    }

    fn control<'a>(&'a self, tenant: &'a str, op_id: &'a str) -> Control<'a> {
        Control {
            context: &self.context,
            operations: self.operations,
            tenant,
            op_id,
        }
    }

    /// Retries a FAILED_TEMP operation, continuing at the step that failed.
    ///
    /// # Errors
    ///
    /// `Conflict` if it is not FAILED_TEMP.
    pub async fn retry(&self, tenant: &str, op_id: &str) -> Result<(), Refusal> {
        self.control(tenant, op_id).retry().await
    }

    /// Rolls a FAILED_TEMP operation back: undoes every step that has begun, last first.
    ///
    /// # Errors
    ///
    /// `Conflict` if it is not FAILED_TEMP, or if a step that cannot be undone has begun.
    pub async fn rollback(&self, tenant: &str, op_id: &str) -> Result<(), Refusal> {
        self.control(tenant, op_id).rollback().await
    }

    /// Fails a FAILED_TEMP operation for good; its resources stay, and a later terminate cleans up.
    ///
    /// # Errors
    ///
    /// `Conflict` if it is not FAILED_TEMP.
    pub async fn fail(&self, tenant: &str, op_id: &str) -> Result<(), Refusal> {
        self.control(tenant, op_id).fail(None).await
    }

    /// As [`Engine::fail`], with an audit entry that says who and why.
    ///
    /// # Errors
    ///
    /// Those of [`Engine::fail`]: the operation is not in FAILED_TEMP.
    pub async fn fail_by(&self, tenant: &str, op_id: &str, act: Override) -> Result<(), Refusal> {
        self.control(tenant, op_id).fail(Some(&act)).await
    }

    /// Cancels an operation: the process that drives it stops after the running step, or at once if `Forceful`.
    ///
    /// # Errors
    /// `Conflict` if it is not STARTING, PROCESSING or ROLLING_BACK.
    pub async fn cancel(&self, tenant: &str, op_id: &str, mode: CancelMode) -> Result<(), Refusal> {
        self.control(tenant, op_id).cancel(mode, None).await
    }

    /// As [`Engine::cancel`], with an audit entry that says who and why.
    ///
    /// # Errors
    ///
    /// Those of [`Engine::cancel`]: its state does not allow it.
    pub async fn cancel_by(
        &self,
        tenant: &str,
        op_id: &str,
        mode: CancelMode,
        act: Override,
    ) -> Result<(), Refusal> {
        self.control(tenant, op_id).cancel(mode, Some(&act)).await
    }
}
