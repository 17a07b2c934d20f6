//! The subscription at the NFVO (SOL003 10.4.7): kept for as long as this process runs, and recreated
//! if the NFVO loses it.
//!
//! ```text
//! start ─► subscriptions of earlier processes deleted ─► subscribed ─► packages compared ──┐
//!            ▲                                                                             │ poll interval
//!            └── lost ──────── still subscribed? ◄─────────────────────────────────────────┘
//! ```
//! Each process generates the password for the NFVO and keeps it only in memory, so the subscription is recreated
//! after a start. The comparison finds changes that happened meanwhile.

use super::{NfvoPackageSource, USER, refused};
use crate::problem::HandlerResult;
use axum::http::{HeaderMap, header};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest as _, Sha256};
use std::time::Duration;

/// The delay after the first failure; it doubles.
const FIRST_DELAY: Duration = Duration::from_secs(1);
/// The longest delay after a failure, as doublings of the first.
const MAX_DOUBLINGS: u32 = 6;

impl NfvoPackageSource {
    /// Keeps the subscription and the packages in sync with the NFVO until it is dropped.
    pub async fn follow(&self) {
        if !self.subscribe {
            return std::future::pending().await;
        }
        let (mut subscription, mut failures) = (None, 0);
        loop {
            let delay = match self.follow_once(&mut subscription).await {
                Ok(()) => {
                    failures = 0;
                    self.poll_interval
                }
                Err(problem) => {
                    let reason = &problem.details().detail;
                    tracing::warn!(reason, "cannot sync packages with the NFVO; retrying");
                    failures = (failures + 1).min(MAX_DOUBLINGS);
                    self.poll_interval
                        .min(FIRST_DELAY * 2_u32.pow(failures - 1))
                }
            };
            self.clock.sleep(delay).await;
        }
    }

    async fn follow_once(&self, subscription: &mut Option<String>) -> HandlerResult<()> {
        if let Some(id) = subscription.as_deref()
            && !self
                .nfvo
                .current()
                .packages
                .is_subscribed(id)
                .await
                .map_err(refused)?
        {
            tracing::warn!(id, "the NFVO has lost the subscription; recreating it");
            *subscription = None;
        }
        if subscription.is_none() {
            self.nfvo
                .current()
                .packages
                .unsubscribe(&self.callback)
                .await
                .map_err(refused)?;
            let created = self
                .nfvo
                .current()
                .packages
                .subscribe(&self.callback, (USER, &self.password))
                .await;
            let id = created.map_err(refused)?;
            tracing::info!(id, "subscribed to the packages of the NFVO");
            *subscription = Some(id);
        }
        self.sync(|_| true).await
    }

    /// Whether a request has the credentials from the subscription.
    pub(crate) fn has_valid_credentials(&self, headers: &HeaderMap) -> bool {
        let header = headers
            .get(header::AUTHORIZATION)
            .and_then(|value| value.to_str().ok());
        let header = header.and_then(|value| value.split_once(' '));
        let Some((_, credentials)) =
            header.filter(|(scheme, _)| scheme.eq_ignore_ascii_case("basic"))
        else {
            return false;
        };
        let expected = STANDARD.encode(format!("{USER}:{}", self.password.reveal()));
        // Comparing hashes does not leak timing information.
        Sha256::digest(credentials.trim()) == Sha256::digest(expected)
    }
}
