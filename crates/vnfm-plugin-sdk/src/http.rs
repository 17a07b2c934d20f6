//! HTTP through the host: with its proxies, its certificate authorities and its limits.

use crate::secret::Secret;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::time::Duration;

/// A request. Header fields and body are secrets: nobody prints them.
///
/// ```
/// use std::time::Duration;
/// use vnfm_plugin_sdk::testkit::{TestHost, block_on};
/// use vnfm_plugin_sdk::{HttpRequest, HttpResponse};
///
/// let host = TestHost::new().http("POST", "https://10.0.0.1/nodes", 201, "made");
/// let request = HttpRequest::new("POST", "https://10.0.0.1/nodes")
///     .header("authorization", "Bearer t")
///     .body(r#"{"name": "web-1"}"#)
///     .ca("-----BEGIN CERTIFICATE-----…")
///     .deadline(Duration::from_secs(10));
/// let answer: HttpResponse = block_on(host.context().http(request)).unwrap();
/// assert!(answer.ok() && answer.body == "made");
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[must_use]
#[non_exhaustive]
pub struct HttpRequest {
    /// Such as `GET`.
    pub method: String,
    /// Absolute URL.
    pub url: String,
    /// Header fields.
    #[serde(default)]
    pub headers: BTreeMap<String, Secret>,
    /// Body.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body: Option<Secret>,
    /// Certificate authority to trust, PEM; the system's where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca_pem: Option<String>,
    /// Seconds until it is given up.
    pub deadline_seconds: u64,
}

impl HttpRequest {
    /// A request without a body; given up after thirty seconds unless said otherwise.
    pub fn new(method: impl Into<String>, url: impl Into<String>) -> Self {
        Self {
            method: method.into(),
            url: url.into(),
            headers: BTreeMap::new(),
            body: None,
            ca_pem: None,
            deadline_seconds: 30,
        }
    }

    /// Adds a header field.
    pub fn header(mut self, name: impl Into<String>, value: impl Into<Secret>) -> Self {
        self.headers.insert(name.into(), value.into());
        self
    }

    /// Sets the body.
    pub fn body(mut self, body: impl Into<Secret>) -> Self {
        self.body = Some(body.into());
        self
    }

    /// Trusts this certificate authority alone.
    pub fn ca(mut self, pem: impl Into<String>) -> Self {
        self.ca_pem = Some(pem.into());
        self
    }

    /// Gives it up after `limit`.
    pub fn deadline(mut self, limit: Duration) -> Self {
        self.deadline_seconds = limit.as_secs().max(1);
        self
    }
}

/// An answer; any status is one.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct HttpResponse {
    /// Status code.
    pub status: u16,
    /// Header fields, names in lower case.
    #[serde(default)]
    pub headers: BTreeMap<String, String>,
    /// Body as text.
    #[serde(default)]
    pub body: String,
}

impl HttpResponse {
    /// True for 200 to 299.
    pub fn ok(&self) -> bool {
        (200..300).contains(&self.status)
    }
}
