//! Timeouts for clients, with their defaults.

use std::time::Duration;

/// How long the listener waits for clients.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Timeouts {
    /// For the TLS handshake, and for the headers of a request.
    pub headers: Duration,
    /// The window in which a request body must deliver `body_bytes`.
    pub body: Duration,
    /// The minimum number of bytes per window.
    pub body_bytes: u64,
    /// For inactivity: between requests, and while the client does not read a response.
    pub idle: Duration,
    /// Concurrent streams of an HTTP/2 connection.
    pub streams: u32,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            headers: Duration::from_secs(10),
            body: Duration::from_secs(10),
            body_bytes: 10 * 1024,
            idle: Duration::from_mins(1),
            streams: 100,
        }
    }
}
