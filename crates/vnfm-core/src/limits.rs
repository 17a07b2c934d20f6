//! Time limits of steps, hooks and grants, how much may run at the same time, and what happens when a step fails.

use crate::ports::Budget;
use std::collections::BTreeMap;
use std::time::Duration;
use vnfm_types::{InstancePolicy, OnFailure, PolicySource};

/// Timeouts of steps and calls, and concurrency limits.
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
    /// What happens when a step fails, unless tenant or instance have their own policy.
    pub on_failure: OnFailure,
    /// The same for tenants with their own policy.
    pub on_failure_of: BTreeMap<String, OnFailure>,
}

impl Limits {
    /// The policy of an instance: its own, or else that of its tenant or of the server.
    pub fn policy(&self, tenant: &str, of_instance: Option<OnFailure>) -> InstancePolicy {
        let own = of_instance.map(|own| (own, PolicySource::Instance));
        let of_tenant = self.on_failure_of.get(tenant);
        let of_tenant = of_tenant.map(|policy| (*policy, PolicySource::Tenant));
        let policy = own.or(of_tenant);
        let (on_failure, source) = policy.unwrap_or((self.on_failure, PolicySource::Server));
        InstancePolicy { on_failure, source }
    }
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
            on_failure: OnFailure::default(),
            on_failure_of: BTreeMap::new(),
        }
    }
}
