//! Waiting on a cloud: what passes by itself, or by a `vim update`, is waited out.
//!
//! | a look fails with | then |
//! |---|---|
//! | `Unavailable` | it is looked again, until the deadline |
//! | the login is refused | the same, but Keystone is asked again only when the connection changed or 15 s passed |
//! | anything else, and a stack that failed | it ends |

use crate::errors::{LOGIN_REFUSED, STACK_FAILED_FOR_NOW, STACK_SLOW};
use jiff::{SignedDuration, Timestamp};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use vnfm_core::ports::{PortError, VimCall, Waited, wait};

/// The usual pause between two looks.
const USUAL: Duration = Duration::from_millis(250);
/// How long a refused login is not tried again unless it changed.
const REFUSED_FOR: SignedDuration = SignedDuration::from_secs(15);

/// The login that was refused, and when.
type RefusedLogin = Option<(u64, Timestamp)>;

/// What went wrong last, kept for the deadline.
#[derive(Default)]
struct Trouble {
    refused: RefusedLogin,
    error: Option<PortError>,
    reason: String,
    /// Whether only a refused login is waited out.
    only_logins: bool,
}

/// Looks until it is so. `doing` begins the error where the deadline comes first.
pub(crate) async fn patiently<T, F, Fut>(
    cx: &VimCall<'_>,
    doing: &str,
    look: F,
) -> Result<T, PortError>
where
    F: Fn() -> Fut,
    Fut: Future<Output = Result<Waited<T>, PortError>>,
{
    waited(cx, doing, Trouble::default(), look).await
}

/// Does something that observes before it acts, again after each refused login. All else ends it: what acts
/// counts its own attempts.
pub(crate) async fn once_logged_in<T, F, Fut>(
    cx: &VimCall<'_>,
    doing: &str,
    act: F,
) -> Result<T, PortError>
where
    F: Fn() -> Fut,
    Fut: Future<Output = Result<T, PortError>>,
{
    let trouble = Trouble {
        only_logins: true,
        ..Trouble::default()
    };
    waited(cx, doing, trouble, || async {
        act().await.map(Waited::Done)
    })
    .await
}

async fn waited<T, F, Fut>(
    cx: &VimCall<'_>,
    doing: &str,
    trouble: Trouble,
    look: F,
) -> Result<T, PortError>
where
    F: Fn() -> Fut,
    Fut: Future<Output = Result<Waited<T>, PortError>>,
{
    let trouble = Mutex::new(trouble);
    let seen = |reason: &str| {
        cx.watcher.waiting(reason);
        reason.clone_into(&mut lock(&trouble).reason);
    };
    let answer = wait(cx.clock, cx.deadline, USUAL, seen, || {
        one_look(cx, &trouble, &look)
    })
    .await?;
    let trouble = trouble.into_inner().unwrap_or_else(PoisonError::into_inner);
    answer.ok_or_else(|| {
        trouble.error.unwrap_or_else(|| {
            PortError::new(
                &STACK_SLOW,
                doing,
                format!("the time is over; {}", trouble.reason),
            )
        })
    })
}

async fn one_look<T, F, Fut>(
    cx: &VimCall<'_>,
    trouble: &Mutex<Trouble>,
    look: &F,
) -> Result<Waited<T>, PortError>
where
    F: Fn() -> Fut,
    Fut: Future<Output = Result<Waited<T>, PortError>>,
{
    let refused = lock(trouble).refused;
    let version = match cx.vim.connection().await {
        Ok(login) => login.version,
        Err(error) => return tolerated(cx, trouble, error, 0),
    };
    if let Some((refused, since)) = refused
        && refused == version
        && cx.clock.now().duration_since(since) < REFUSED_FOR
    {
        return Ok(Waited::NotYet(refusal_text(cx)));
    }
    match look().await {
        Ok(answer) => {
            let mut trouble = lock(trouble);
            trouble.error = None;
            trouble.refused = None;
            Ok(answer)
        }
        Err(error) => tolerated(cx, trouble, error, version),
    }
}

fn tolerated<T>(
    cx: &VimCall<'_>,
    trouble: &Mutex<Trouble>,
    error: PortError,
    version: u64,
) -> Result<Waited<T>, PortError> {
    let refused = error.code() == &LOGIN_REFUSED;
    let passing = error.is_unavailable() && error.code() != &STACK_FAILED_FOR_NOW;
    let mut trouble = lock(trouble);
    if !refused && (!passing || trouble.only_logins) {
        return Err(error);
    }
    if refused {
        trouble.refused = Some((version, cx.clock.now()));
    }
    let reason = if refused {
        refusal_text(cx)
    } else {
        error.to_string()
    };
    trouble.error = Some(error);
    Ok(Waited::NotYet(reason))
}

fn refusal_text(cx: &VimCall<'_>) -> String {
    let name = cx.vim.name();
    format!(
        "VIM `{name}` refuses the login; `vnfmctl vim update {name}` with the new password goes on"
    )
}

fn lock(trouble: &Mutex<Trouble>) -> std::sync::MutexGuard<'_, Trouble> {
    trouble.lock().unwrap_or_else(PoisonError::into_inner)
}
