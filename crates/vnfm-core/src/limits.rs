//! Time limits of steps, hooks and grants, and how much may run at the same time.

use crate::ports::Budget;
use std::time::Duration;

/// Timeouts and concurrency limits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Timeout of a step that works on a VIM. Default 30 minutes.
    pub step: Duration,
    /// Timeout of a hook. Default 60 minutes.
    pub hook: Duration,
    /// Timeout of a grant, from the first request to the NFVO's decision. Default 10 minutes.
    pub grant: Duration,
    /// Timeout of one call to the NFVO. Default 30 s.
    pub grant_call: Duration,
    /// How long a process holds an operation without renewing; a crash is noticed after that. Default 10 s.
    pub lease: Duration,
    /// Maximum concurrent calls per VIM, over all operations; 0: unlimited (default).
    pub vim_calls: usize,
    /// Maximum concurrent operations per VIM; 0: unlimited (default).
    pub vim_operations: usize,
    /// Maximum size of the plan of one instance.
    pub plan: Budget,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            step: Duration::from_mins(30),
            hook: Duration::from_hours(1),
            grant: Duration::from_mins(10),
            grant_call: Duration::from_secs(30),
            lease: Duration::from_secs(10),
            vim_calls: 0,
            vim_operations: 0,
            plan: Budget::default(),
        }
    }
}
