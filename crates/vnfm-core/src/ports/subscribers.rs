//! Delivery of lifecycle notifications to subscribers.

use super::PortError;
use async_trait::async_trait;
use jiff::Timestamp;
use serde_json::Value;
use vnfm_types::SubscriptionAuthentication;
use vnfm_types::v1::ApiVersion;

/// The callback of a subscriber.
#[derive(Debug, Clone, Copy)]
pub struct Callback<'a> {
    /// The callback URI of the subscription.
    pub uri: &'a str,
    /// How we log in there; `None`: no login.
    pub login: Option<&'a SubscriptionAuthentication>,
    /// The API version in which it subscribed.
    pub api_version: ApiVersion,
}

/// Calls the callback URIs of subscribers.
#[async_trait]
pub trait Subscribers: Send + Sync {
    /// Whether we have a client certificate for `TLS_CERT`.
    fn has_certificate(&self) -> bool {
        false
    }

    /// Tests whether the callback accepts notifications (SOL003 5.4.20.3.2).
    ///
    /// # Errors
    ///
    /// `Refused` if the callback must not be called, or responds incorrectly; `Unavailable` if there is no response.
    async fn test(&self, callback: &Callback<'_>) -> Result<(), PortError>;

    /// Delivers a notification (SOL003 5.4.20.3.1); the subscriber has accepted it when this returns.
    ///
    /// # Errors
    ///
    /// Those of [`Self::test`], such as `Unavailable` without a response.
    async fn notify(&self, callback: &Callback<'_>, notification: &Value) -> Result<(), PortError>;

    /// Reports that a notification written at `since` is waiting for delivery; `None`: none is waiting any more. For metrics.
    fn report_waiting(&self, subscription_id: &str, since: Option<Timestamp>) {
        let _ = (subscription_id, since);
    }
}
