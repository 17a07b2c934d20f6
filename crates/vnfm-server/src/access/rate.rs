//! How many requests one principal may send: a bucket for each, refilled at a rate that is configured.

use super::principal::Principal;
use governor::clock::{Clock as _, DefaultClock};
use governor::{DefaultKeyedRateLimiter, Quota};
use schemars::JsonSchema;
use serde::Deserialize;
use std::num::NonZeroU32;
use std::sync::atomic::{AtomicU64, Ordering};

/// `access.rate`.
#[derive(Debug, Clone, Copy, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Rate")]
pub struct Settings {
    /// Requests of one principal in a second, on the average.
    pub per_second: NonZeroU32,
    /// How many may come at once; as many as in a second where absent.
    pub burst: Option<NonZeroU32>,
}

/// The buckets of all principals.
pub struct Rate {
    buckets: DefaultKeyedRateLimiter<String>,
    clock: DefaultClock,
    asked: AtomicU64,
}

/// After so many requests the buckets that are full again are forgotten.
const SWEEP: u64 = 10_000;

impl Rate {
    /// As configured.
    pub fn new(settings: Settings) -> Self {
        let burst = settings.burst.unwrap_or(settings.per_second);
        let quota = Quota::per_second(settings.per_second).allow_burst(burst);
        let (buckets, clock) = (
            DefaultKeyedRateLimiter::keyed(quota),
            DefaultClock::default(),
        );
        Self {
            buckets,
            clock,
            asked: AtomicU64::new(0),
        }
    }

    /// Takes one request of a principal.
    ///
    /// # Errors
    ///
    /// The seconds after which the next one is taken, where the bucket is empty.
    pub fn take(&self, principal: &Principal) -> Result<(), u64> {
        if self.asked.fetch_add(1, Ordering::Relaxed) % SWEEP == SWEEP - 1 {
            self.buckets.retain_recent();
        }
        let key = format!("{}/{}/{}", principal.tenant, principal.way, principal.name);
        self.buckets.check_key(&key).map_err(|early| {
            let wait = early.wait_time_from(self.clock.now());
            wait.as_secs() + u64::from(wait.subsec_nanos() > 0)
        })
    }
}
