//! Manual overrides: each one names its author and a reason, and is written to the audit log in the transaction that
//! performs it.

use crate::ports::Change;
use crate::refusal::{self, Refusal, Why};
use jiff::Timestamp;
use vnfm_types::AuditEntry;

/// The author of an override, and the reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Override {
    /// Name of the person or client, as they gave it.
    pub who: String,
    /// A sentence; required for most overrides.
    pub reason: String,
}

/// Hooks that an operation should skip.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SkipHooks {
    /// By name, such as `terminate_start`.
    pub hooks: Vec<String>,
    /// Who skips them, and why.
    pub act: Override,
}

/// What an override did, for its audit entry.
pub(crate) struct Overridden<'a> {
    /// The tenant in whose audit log it appears.
    pub(crate) tenant: &'a str,
    /// The command, such as `op fail`.
    pub(crate) what: &'a str,
    /// Id of the resource.
    pub(crate) target: &'a str,
    /// Name of the resource, if it has one.
    pub(crate) name: Option<String>,
}

impl Override {
    /// An override by `who`.
    pub fn new(who: impl Into<String>, reason: impl Into<String>) -> Self {
        Self {
            who: who.into(),
            reason: reason.into(),
        }
    }

    /// Refuses an override without a reason.
    pub(crate) fn with_reason(self) -> Result<Self, Refusal> {
        if self.reason.trim().is_empty() {
            let what = "this overrides what the VNFM would do, and needs a reason";
            return Err(Refusal::new(Why::Unprocessable, &refusal::NO_REASON, what));
        }
        Ok(self)
    }

    /// The audit entry of this override; also logged as a warning.
    pub(crate) fn audit(&self, overridden: Overridden<'_>, at: Timestamp) -> Change {
        let (who, reason) = (self.who.clone(), self.reason.clone());
        let Overridden {
            tenant,
            what,
            target,
            name,
        } = overridden;
        tracing::warn!(tenant, who, what, target, reason, "manual override");
        let entry = AuditEntry {
            seq: 0,
            at,
            who,
            what: what.to_owned(),
            target: target.to_owned(),
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
    /// Checks that every hook is in `known`, and that there is a reason.
    pub(crate) fn checked(self, known: &[&str]) -> Result<Self, Refusal> {
        if let Some(unknown) = self
            .hooks
            .iter()
            .find(|hook| !known.contains(&hook.as_str()))
        {
            let what = format!(
                "hook `{unknown}` is not a hook of this operation, which has: {}",
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
