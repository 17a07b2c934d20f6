//! What somebody does on their own authority: each act says who and why, and is written into the audit in the
//! transaction that does it.

use crate::engine::Engine;
use crate::ports::Change;
use crate::refusal::{self, Refusal, Why};
use vnfm_types::AuditEntry;

/// Who does something, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Act {
    /// As they say.
    pub who: String,
    /// In a sentence.
    pub reason: String,
}

/// Hooks that an operation is not to run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SkipHooks {
    /// By name, such as `terminate_start`.
    pub hooks: Vec<String>,
    /// Who leaves them out.
    pub act: Act,
}

impl Act {
    /// An act of `who`.
    pub fn new(who: impl Into<String>, reason: impl Into<String>) -> Self {
        Self {
            who: who.into(),
            reason: reason.into(),
        }
    }

    /// The same, where it says why.
    pub(crate) fn with_reason(self) -> Result<Self, Refusal> {
        if self.reason.trim().is_empty() {
            let what = "this overrides what the VNFM would do, and needs a reason";
            return Err(Refusal::new(Why::Unprocessable, &refusal::NO_REASON, what));
        }
        Ok(self)
    }

    /// Its entry in the audit.
    pub(crate) fn audit(
        &self,
        engine: &Engine,
        tenant: &str,
        what: impl Into<String>,
        (target, name): (&str, Option<String>),
    ) -> Change {
        let (who, reason) = (self.who.clone(), self.reason.clone());
        let (what, target) = (what.into(), target.to_owned());
        let at = engine.parts.clock.now();
        tracing::warn!(
            tenant,
            who,
            what,
            target,
            reason,
            "an act on somebody's own authority"
        );
        let entry = AuditEntry {
            seq: 0,
            at,
            who,
            what,
            target,
            name,
            reason,
            from: None,
            status: None,
        };
        Change::Audit {
            tenant: tenant.to_owned(),
            entry: Box::new(entry),
        }
    }
}

impl SkipHooks {
    /// The same, where it has a reason and every hook is one of `known`.
    pub(crate) fn checked(self, known: &[&str]) -> Result<Self, Refusal> {
        if let Some(unknown) = self
            .hooks
            .iter()
            .find(|hook| !known.contains(&hook.as_str()))
        {
            let what = format!(
                "hook `{unknown}` is none of this operation, which has: {}",
                known.join(", ")
            );
            return Err(Refusal::new(
                Why::Unprocessable,
                &refusal::UNKNOWN_HOOK,
                what,
            ));
        }
        let act = if self.hooks.is_empty() {
            self.act
        } else {
            self.act.with_reason()?
        };
        Ok(Self { act, ..self })
    }
}

impl Engine {
    /// What was done on somebody's own authority, after number `after`, at most `limit` entries.
    ///
    /// # Errors
    ///
    /// Where the database does not answer.
    pub async fn audit(
        &self,
        tenant: &str,
        after: u64,
        limit: usize,
    ) -> Result<Vec<AuditEntry>, Refusal> {
        Ok(self.store().audit(tenant, after, limit).await?)
    }
}
