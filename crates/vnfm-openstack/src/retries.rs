//! Waiting for the cloud: retries what may pass by itself or after a `vim update`.
//!
//! | an attempt fails with | then |
//! |---|---|
//! | `Unavailable` | try again until the deadline |
//! | a refused login | the same, but log in again only when the connection has changed or 15 s have passed |
//! | any other error, including a failed stack | return it |

use crate::errors::{LOGIN_REFUSED, STACK_FAILED_FOR_NOW, STACK_SLOW};
use jiff::{SignedDuration, Timestamp};
use std::time::Duration;
use tracing::Instrument as _;
use vnfm_core::ports::{Backoff, Code, Expired, PortError, VimCall, Waited};

/// The interval between attempts once the first short ones are over.
pub(crate) const INTERVAL: Duration = Duration::from_millis(250);
/// How long a refused login is not tried again, unless the connection changes.
const REFUSAL_LIFETIME: SignedDuration = SignedDuration::from_secs(15);

/// A loop that waits for the cloud:
///
/// ```text
/// loop {
///     match waiter.attempt(look()).await? {
///         Waited::Done(found) => return Ok(found),
///         Waited::NotYet(reason) => waiter.pause(&reason).await?,
///     }
/// }
/// ```
pub(crate) struct Waiter<'a> {
    cx: &'a VimCall<'a>,
    action: &'a str,
    backoff: Backoff<'a>,
    /// The version of the connection whose login was refused, and when.
    refused: Option<(u64, Timestamp)>,
    /// The last error that was tolerated since the last successful attempt; returned at the deadline.
    error: Option<PortError>,
    tolerates_outages: bool,
    /// The code of the error at the deadline.
    late: &'static Code,
}

impl<'a> Waiter<'a> {
    /// Tolerates refused logins and unavailable services until the deadline of `cx`. `action` begins the deadline's error.
    pub(crate) fn new(cx: &'a VimCall<'a>, action: &'a str) -> Self {
        Self {
            cx,
            action,
            backoff: Backoff::for_call(cx, INTERVAL),
            refused: None,
            error: None,
            tolerates_outages: true,
            late: &STACK_SLOW,
        }
    }

    /// Sets the code of the error at the deadline, for what Heat does not do.
    pub(crate) fn late(self, late: &'static Code) -> Self {
        Self { late, ..self }
    }

    /// Tolerates only refused logins. For attempts that change the cloud: they count their own retries, and
    /// must observe before they act.
    pub(crate) fn for_login(cx: &'a VimCall<'a>, action: &'a str) -> Self {
        Self {
            tolerates_outages: false,
            ..Self::new(cx, action)
        }
    }

    /// Runs `attempt`; an error that may pass becomes [`Waited::NotYet`].
    ///
    /// Does not run it while a refused login is still the current one.
    pub(crate) async fn attempt<T>(
        &mut self,
        attempt: impl Future<Output = Result<Waited<T>, PortError>>,
    ) -> Result<Waited<T>, PortError> {
        let span = self.backoff.span();
        let version = match self.cx.vim.connection().instrument(span.clone()).await {
            Ok(login) => login.version,
            Err(error) => return self.tolerate(error, 0).map(Waited::NotYet),
        };
        if let Some((refused, since)) = self.refused
            && refused == version
            && self.cx.clock.now().duration_since(since) < REFUSAL_LIFETIME
        {
            return Ok(Waited::NotYet(self.login_refused()));
        }
        match attempt.instrument(span).await {
            Ok(outcome) => {
                self.error = None;
                self.refused = None;
                Ok(outcome)
            }
            Err(error) => self.tolerate(error, version).map(Waited::NotYet),
        }
    }

    /// Waits for the next attempt.
    ///
    /// At the deadline: the last tolerated error, or [`Waiter::late`] (`heat.deadline`) with `reason`.
    pub(crate) async fn pause(&mut self, reason: &str) -> Result<(), PortError> {
        match self.backoff.pause(reason).await {
            Ok(()) => Ok(()),
            Err(Expired) => Err(self.error.take().unwrap_or_else(|| {
                let detail = format!("the deadline has passed; {reason}");
                PortError::new(self.late, self.action, detail)
            })),
        }
    }

    /// The reason to wait after `error`, or the error itself if waiting does not help.
    fn tolerate(&mut self, error: PortError, version: u64) -> Result<String, PortError> {
        let refused = error.code() == &LOGIN_REFUSED;
        let passing = error.is_unavailable() && error.code() != &STACK_FAILED_FOR_NOW;
        let tolerated = refused || (passing && self.tolerates_outages);
        if !tolerated {
            return Err(error);
        }
        let reason = if refused {
            self.refused = Some((version, self.cx.clock.now()));
            self.login_refused()
        } else {
            error.to_string()
        };
        self.error = Some(error);
        Ok(reason)
    }

    fn login_refused(&self) -> String {
        let name = self.cx.vim.name();
        format!(
            "VIM `{name}` refuses the login; `vnfmctl vim update {name}` with the new password lets it continue"
        )
    }
}
