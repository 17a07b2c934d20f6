//! `limits` of the configuration, with what is so where nothing is configured.

use crate::access::attempts::Allowance;
use crate::listener::Timeouts;
use schemars::JsonSchema;
use serde::Deserialize;
use std::time::Duration;

/// How many entries a page of a list has.
const PAGE: usize = 100;

/// Time and size limits.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// Seconds for a step that works on a VIM; 1800 where absent.
    pub step_seconds: Option<u64>,
    /// Seconds for a hook; 3600 where absent.
    pub hook_seconds: Option<u64>,
    /// Seconds after which the crash of another process is noticed; 10 where absent.
    pub lease_seconds: Option<u64>,
    /// Bytes of the largest package; 512 MiB where absent.
    pub package_bytes: Option<u64>,
    /// Bytes that have to be free on the disk of the data folder before anything new is begun; 128 MiB where absent.
    pub free_bytes: Option<u64>,
    /// Entries of a page of a list, at most 1000; 0 for lists that are whole in one answer. 100 where absent.
    #[schemars(range(max = 1000))]
    pub page_entries: Option<usize>,
    /// Calls that one VIM gets at a time, all operations together; 0 for any number. 32 where absent.
    pub vim_calls: Option<usize>,
    /// Operations that work on one VIM at a time; others wait for their turn. 0 for any number. 100 where absent.
    pub vim_operations: Option<usize>,
    /// Resources (servers, ports, volumes, links, objects of a cluster) that one instance may have; 10000 where absent.
    pub resources: Option<u64>,
    /// Bytes of the templates or manifests of one instance; 32 MiB where absent.
    pub plan_bytes: Option<u64>,
    /// Connections at a time; where absent, as many as half of the descriptors that are left at the start, at most 10000.
    /// There are never more than that half.
    #[schemars(range(min = 1))]
    pub connections: Option<usize>,
    /// Connections of one address at a time, and behind `trusted_proxies` requests of one address at a time; a quarter of
    /// all connections, at least 64, where absent. One that does nothing makes room for a new one.
    #[schemars(range(min = 1))]
    pub connections_per_address: Option<usize>,
    /// Seconds that a client may take for a TLS handshake, and for the headers of a request; 10 where absent.
    #[schemars(range(min = 1))]
    pub header_seconds: Option<u64>,
    /// Seconds within which `body_bytes` of a request's body have to come while it is waited for; 10 where absent.
    #[schemars(range(min = 1))]
    pub body_seconds: Option<u64>,
    /// Bytes of a request's body that have to come within `body_seconds`; 10240 where absent.
    pub body_bytes: Option<u64>,
    /// Seconds for which a connection may do nothing; a request that waits for events does something. 60 where absent.
    #[schemars(range(min = 1))]
    pub idle_seconds: Option<u64>,
    /// Requests that one connection of HTTP/2 may have at a time; 100 where absent.
    #[schemars(range(min = 1))]
    pub http2_streams: Option<u32>,
    /// Wrong logins of one address in a second, on the average; one more is answered 429 and not looked at. 10 where
    /// absent.
    #[schemars(range(min = 1))]
    pub wrong_logins_per_second: Option<u32>,
    /// Wrong logins of one address that may come at once; 100 where absent.
    #[schemars(range(min = 1))]
    pub wrong_logins_burst: Option<u32>,
}

impl Limits {
    /// How many entries a page of a list has; 0: all of them.
    pub fn page_size(&self) -> usize {
        self.page_entries.unwrap_or(PAGE)
    }

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
