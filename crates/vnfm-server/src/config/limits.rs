//! `limits` in the configuration, with the defaults.

use crate::access::attempts::Allowance;
use crate::listener::Timeouts;
use schemars::JsonSchema;
use serde::Deserialize;
use std::time::Duration;

/// Default number of entries per page of a list.
const PAGE: usize = 100;

/// Limits on time, size and concurrency.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Limits {
    /// Timeout in seconds for a step that works on a VIM. Default: 1800.
    pub step_seconds: Option<u64>,
    /// Timeout in seconds for a hook. Default: 3600.
    pub hook_seconds: Option<u64>,
    /// Seconds after which the crash of another process is noticed. Default: 10.
    pub lease_seconds: Option<u64>,
    /// Maximum size of a package in bytes. Default: 512 MiB.
    pub package_bytes: Option<u64>,
    /// Bytes that must be free on the disk of the data folder before anything new is started. Default: 128 MiB.
    pub free_bytes: Option<u64>,
    /// Entries per page of a list, at most 1000; 0 disables paging. Default: 100.
    #[schemars(range(max = 1000))]
    pub page_entries: Option<usize>,
    /// Concurrent calls to one VIM, over all operations; 0 for no limit. Default: 32.
    pub vim_calls: Option<usize>,
    /// Concurrent operations on one VIM; others wait. 0 for no limit. Default: 100.
    pub vim_operations: Option<usize>,
    /// Maximum number of resources (servers, ports, volumes, links, objects of a cluster)
    /// of one instance. Default: 10000.
    pub resources: Option<u64>,
    /// Maximum size of the templates or manifests of one instance, in bytes. Default: 32 MiB.
    pub plan_bytes: Option<u64>,
    /// Maximum number of connections. Default and upper bound: half of the file descriptors that are free at startup;
    /// the default is at most 10000.
    #[schemars(range(min = 1))]
    pub connections: Option<usize>,
    /// Maximum number of connections from one address and, behind `trusted_proxies`, of concurrent requests from
    /// one address. Default: a quarter of all connections, at least 64. At the limit, an inactive connection is
    /// closed for a new one.
    #[schemars(range(min = 1))]
    pub connections_per_address: Option<usize>,
    /// Timeout in seconds for a TLS handshake, and for the headers of a request. Default: 10.
    #[schemars(range(min = 1))]
    pub header_seconds: Option<u64>,
    /// Seconds within which `body_bytes` of a request body must arrive. Default: 10.
    #[schemars(range(min = 1))]
    pub body_seconds: Option<u64>,
    /// Bytes of a request body that must arrive within `body_seconds`. Default: 10240.
    pub body_bytes: Option<u64>,
    /// Seconds after which an inactive connection is closed; a request that waits for events
    /// counts as activity. Default: 60.
    #[schemars(range(min = 1))]
    pub idle_seconds: Option<u64>,
    /// Maximum number of concurrent requests on one HTTP/2 connection. Default: 100.
    #[schemars(range(min = 1))]
    pub http2_streams: Option<u32>,
    /// Average number of wrong logins per second and address; further ones get 429 and are not checked. Default: 10.
    #[schemars(range(min = 1))]
    pub wrong_logins_per_second: Option<u32>,
    /// Wrong logins of one address allowed at once. Default: 100.
    #[schemars(range(min = 1))]
    pub wrong_logins_burst: Option<u32>,
}

impl Limits {
    /// Entries per page of a list; 0 disables paging.
    pub(crate) fn page_size(&self) -> usize {
        self.page_entries.unwrap_or(PAGE)
    }

    /// The timeouts that the listener applies to clients.
    pub(crate) fn timeouts(&self) -> Timeouts {
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

    /// The allowance of wrong logins per address.
    pub(crate) fn refused_logins(&self) -> Allowance {
        let default = Allowance::default();
        Allowance {
            per_second: self.wrong_logins_per_second.unwrap_or(default.per_second),
            burst: self.wrong_logins_burst.unwrap_or(default.burst),
        }
    }
}
