//! Those who subscribed to lifecycle changes, at the other end of their callbacks.

use super::PortError;
use async_trait::async_trait;
use jiff::Timestamp;
use serde_json::Value;
use vnfm_types::SubscriptionAuthentication;
use vnfm_types::v1::Edition;

/// Where a subscriber is told.
#[derive(Debug, Clone, Copy)]
pub struct Callback<'a> {
    /// The URI that it gave.
    pub uri: &'a str,
    /// How we log in there.
    pub login: Option<&'a SubscriptionAuthentication>,
    /// The version of the interface that it speaks: the one at which it subscribed.
    pub edition: Edition,
}

/// Callbacks.
#[async_trait]
pub trait Subscribers: Send + Sync {
    /// Whether we have a certificate to log in with.
    fn has_certificate(&self) -> bool {
        false
    }

    /// Asks whether somebody is there who takes notifications (SOL003 5.4.20.3.2).
    ///
    /// # Errors
    ///
    /// `Refused` where the callback is one that must not be called, or does not answer as it should; `Unavailable`
    /// where nobody answers.
    async fn test(&self, callback: &Callback<'_>) -> Result<(), PortError>;

    /// Delivers a notification (SOL003 5.4.20.3.1); once this returns the subscriber has taken it.
    ///
    /// # Errors
    ///
    /// As [`Self::test`].
    async fn tell(&self, callback: &Callback<'_>, notification: &Value) -> Result<(), PortError>;

    /// That a subscription waits for a notification to be taken that was written at `since`; no more where that is absent.
    fn waits(&self, subscription_id: &str, since: Option<Timestamp>) {
        let _ = (subscription_id, since);
    }
}
