//! Request rate limit per principal: a token bucket for each.

use super::principal::Principal;
use governor::clock::{Clock as _, DefaultClock};
use governor::{DefaultKeyedRateLimiter, Quota};
use schemars::JsonSchema;
use serde::Deserialize;
use std::num::NonZeroU32;
use std::sync::atomic::{AtomicU64, Ordering};

/// `access.rate`: how many requests a principal may make.
#[derive(Debug, Clone, Copy, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Rate")]
pub(crate) struct Settings {
    /// Average requests per second of one principal.
    pub per_second: NonZeroU32,
    /// Requests allowed at once. Default: `per_second`.
    pub burst: Option<NonZeroU32>,
}

/// The token buckets of all principals.
pub(crate) struct Rate {
    buckets: DefaultKeyedRateLimiter<String>,
    clock: DefaultClock,
    requests: AtomicU64,
}

/// After this many requests, full buckets are dropped.
const SWEEP: u64 = 10_000;

impl Rate {
    /// Buckets that are full: nobody has made a request yet.
    pub(crate) fn new(settings: Settings) -> Self {
        let burst = settings.burst.unwrap_or(settings.per_second);
        let quota = Quota::per_second(settings.per_second).allow_burst(burst);
        let (buckets, clock) = (
            DefaultKeyedRateLimiter::keyed(quota),
            DefaultClock::default(),
        );
        Self {
            buckets,
            clock,
            requests: AtomicU64::new(0),
        }
    }

    /// Counts one request of a principal.
    ///
    /// # Errors
    ///
    /// The seconds to wait, if the bucket is empty.
    pub(crate) fn take(&self, principal: &Principal) -> Result<(), u64> {
        if self.requests.fetch_add(1, Ordering::Relaxed) % SWEEP == SWEEP - 1 {
            self.buckets.retain_recent();
        }
        let key = format!(
            "{}/{}/{}",
            principal.tenant, principal.login_method, principal.name
        );
        self.buckets.check_key(&key).map_err(|early| {
            let wait = early.wait_time_from(self.clock.now());
            wait.as_secs() + u64::from(wait.subsec_nanos() > 0)
        })
    }
}
