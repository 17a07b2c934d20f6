//! What clients may do and take, with what is so where nothing is configured.

use super::Limits;
use crate::access::attempts::Allowance;
use crate::listener::Timeouts;
use std::time::Duration;

impl Limits {
    /// How long clients may take.
    pub fn timeouts(&self) -> Timeouts {
        let default = Timeouts::default();
        let seconds = |given: Option<u64>, default| given.map_or(default, Duration::from_secs);
        Timeouts {
            headers: seconds(self.header_seconds, default.headers),
            body: seconds(self.body_seconds, default.body),
            body_bytes: self.body_bytes.unwrap_or(default.body_bytes),
            idle: seconds(self.idle_seconds, default.idle),
            streams: self.http2_streams.unwrap_or(default.streams),
        }
    }

    /// How many wrong logins an address may have.
    pub fn refused_logins(&self) -> Allowance {
        let default = Allowance::default();
        Allowance {
            per_second: self.wrong_logins_per_second.unwrap_or(default.per_second),
            burst: self.wrong_logins_burst.unwrap_or(default.burst),
        }
    }
}
