//! HTTP requests, sent by the host: its proxies, certificate authorities and limits apply.

use crate::secret::Secret;
use crate::ssh::full_seconds;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::time::Duration;

/// A request. Header values and body are [`Secret`]s and never printed.
///
/// ```
/// use std::time::Duration;
/// use vnfm_plugin_sdk::testkit::{TestHost, block_on};
/// use vnfm_plugin_sdk::{HttpRequest, HttpResponse};
///
/// let host = TestHost::new().http("POST", "https://10.0.0.1/nodes", 201, "created");
/// let request = HttpRequest::new("POST", "https://10.0.0.1/nodes")
///     .header("authorization", "Bearer t")
///     .body(r#"{"name": "web-1"}"#)
///     .ca("-----BEGIN CERTIFICATE-----…")
///     .timeout(Duration::from_secs(10));
/// assert_eq!(request.deadline(), Duration::from_secs(10));
/// let response: HttpResponse = block_on(host.context().http(request)).unwrap();
/// assert!(response.ok() && response.body == "created");
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[must_use]
#[non_exhaustive]
pub struct HttpRequest {
    /// Request method, such as `GET`.
    pub method: String,
    /// Absolute URL, with scheme and host.
    pub url: String,
    /// Header fields; their values are often tokens.
    #[serde(default)]
    pub headers: BTreeMap<String, Secret>,
    /// Request body; absent: no body is sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body: Option<Secret>,
    /// PEM certificates of the only authorities to trust; absent: those of the system.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca_pem: Option<String>,
    /// Seconds until the request fails; absent: [`HttpRequest::deadline`] has the default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline_seconds: Option<u32>,
}

/// Applies to requests without a deadline, in seconds.
const DEFAULT_DEADLINE: u32 = 60;

impl HttpRequest {
    /// A request without a body and with a timeout of 30 seconds.
    pub fn new(method: impl Into<String>, url: impl Into<String>) -> Self {
        Self {
            method: method.into(),
            url: url.into(),
            headers: BTreeMap::new(),
            body: None,
            ca_pem: None,
            deadline_seconds: Some(30),
        }
    }

    /// Adds a header field; a field of the same name is replaced.
    pub fn header(mut self, name: impl Into<String>, value: impl Into<Secret>) -> Self {
        self.headers.insert(name.into(), value.into());
        self
    }

    /// Sets the request body; no `content-type` is set for it.
    pub fn body(mut self, body: impl Into<Secret>) -> Self {
        self.body = Some(body.into());
        self
    }

    /// Trusts only these PEM certificates, not the system's authorities.
    pub fn ca(mut self, pem: impl Into<String>) -> Self {
        self.ca_pem = Some(pem.into());
        self
    }

    /// Sets the timeout, in full seconds and at least one.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.deadline_seconds = Some(full_seconds(timeout).max(1));
        self
    }

    /// How long the response may take; 60 s if the request does not say.
    pub fn deadline(&self) -> Duration {
        Duration::from_secs(self.deadline_seconds.unwrap_or(DEFAULT_DEADLINE).into())
    }
}

/// A response of any status.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct HttpResponse {
    /// HTTP status code of any class, such as 404.
    pub status: u16,
    /// Header fields, names in lower case.
    #[serde(default)]
    pub headers: BTreeMap<String, String>,
    /// Response body, decoded as text.
    #[serde(default)]
    pub body: String,
}

impl HttpResponse {
    /// A response without header fields.
    pub fn new(status: u16, body: impl Into<String>) -> Self {
        Self {
            status,
            headers: BTreeMap::new(),
            body: body.into(),
        }
    }

    /// True for 200 to 299.
    pub fn ok(&self) -> bool {
        (200..300).contains(&self.status)
    }
}
