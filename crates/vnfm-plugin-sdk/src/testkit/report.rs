//! The result of a [`Trial`](super::Trial).

use std::fmt;

/// Summary of a trial that passed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct TrialReport {
    /// Number of calls that the hook makes without faults.
    pub calls: usize,
    /// Number of faults injected, each in a run of its own.
    pub faults: usize,
}

/// The rules that a hook violates.
///
/// ```
/// use vnfm_plugin_sdk::testkit::{Violations, TestHost, block_on, request, trial};
/// # use vnfm_plugin_sdk::prelude::*;
/// # use std::sync::Arc;
/// # struct Talker;
/// # impl MgmtDriver for Talker {
/// #     type Config = NoConfig;
/// #     fn new(_: NoConfig) -> Result<Self, DriverError> { Ok(Self) }
/// #     fn hooks(hooks: Hooks<Self>) -> Hooks<Self> { hooks.on("instantiate_end", Self::end) }
/// # }
/// # impl Talker {
/// #     async fn end(self: Arc<Self>, cx: HookContext, _: HookRequest<NoParams>) -> Result<Effects, DriverError> {
/// #         cx.progress(50, "logged in with pass-phrase").await;
/// #         Ok(Effects::none())
/// #     }
/// # }
/// let leaking = trial::<Talker>(TestHost::new, request("instantiate_end")).secret("pass-phrase");
/// let violations: Violations = block_on(leaking.run_async()).unwrap_err();
/// assert_eq!(violations.messages()[0], "leaks a secret: logged in with [the secret]");
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Violations(pub(super) Vec<String>);

impl Violations {
    /// One message per violation, naming the call and the fault.
    pub fn messages(&self) -> &[String] {
        &self.0
    }
}

impl fmt::Debug for Violations {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // `unwrap` in tests prints this.
        write!(f, "{self}")
    }
}

impl fmt::Display for Violations {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plural = if self.0.len() == 1 { "" } else { "s" };
        write!(f, "the hook violates {} rule{plural}:", self.0.len())?;
        self.0
            .iter()
            .try_for_each(|message| write!(f, "\n- {message}"))
    }
}

impl std::error::Error for Violations {}
