//! Measures deliveries to subscribers: the age of each notification when it is delivered or rejected.

use crate::metrics::Metrics;
use async_trait::async_trait;
use jiff::Timestamp;
use serde_json::Value;
use std::sync::Arc;
use vnfm_core::ports::{Callback, Clock, PortError, Subscribers};

/// Wraps [`Subscribers`], and measures the age of notifications.
pub struct MeasuredSubscribers {
    /// Where the notifications are delivered.
    pub inner: Arc<dyn Subscribers>,
    /// The clock for the age of notifications.
    pub clock: Arc<dyn Clock>,
    /// Where deliveries and their age are counted.
    pub metrics: Arc<Metrics>,
}

#[async_trait]
impl Subscribers for MeasuredSubscribers {
    fn has_certificate(&self) -> bool {
        self.inner.has_certificate()
    }

    async fn test(&self, callback: &Callback<'_>) -> Result<(), PortError> {
        self.inner.test(callback).await
    }

    async fn notify(&self, callback: &Callback<'_>, notification: &Value) -> Result<(), PortError> {
        let outcome = self.inner.notify(callback, notification).await;
        let written = notification["timeStamp"].as_str();
        if let Some(written) = written.and_then(|text| text.parse::<Timestamp>().ok()) {
            let age = self
                .clock
                .now()
                .duration_since(written)
                .try_into()
                .unwrap_or_default();
            self.metrics.notified(outcome.is_ok(), age);
        }
        outcome
    }

    fn report_waiting(&self, subscription_id: &str, since: Option<Timestamp>) {
        self.inner.report_waiting(subscription_id, since);
        self.metrics.waits(subscription_id, since);
    }
}
