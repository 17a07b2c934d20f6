//! Our subscription at the NFVO (SOL003 10.4.7): there is one as long as this process runs, whatever the NFVO forgets.
//!
//! ```text
//! start ─► what processes before us left is ended ─► subscribed ─► a look at all packages ─┐
//!            ▲                                                                             │ a while
//!            └── forgotten ─── is it still there? ◄────────────────────────────────────────┘
//! ```
//! The password that the NFVO logs in with is made anew with each process and kept in memory alone, so after a start the
//! subscription is made anew, too. What changed meanwhile is seen by the look.

use super::{Supply, USER, refused};
use crate::problem::Answer;
use crate::state::App;
use axum::http::{HeaderMap, header};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest as _, Sha256};
use std::time::Duration;

/// The pause after the first failure; it doubles.
const PAUSE: Duration = Duration::from_secs(1);
/// The longest pause after a failure, in doublings of the first.
const DOUBLINGS: u32 = 6;

impl Supply {
    /// Keeps the subscription, and what is here as it is at the NFVO, until it is dropped.
    pub async fn stand(&self, app: &App) {
        if !self.subscribe {
            return std::future::pending().await;
        }
        let (mut subscription, mut failures) = (None, 0);
        loop {
            let pause = match self.stand_once(app, &mut subscription).await {
                Ok(()) => {
                    failures = 0;
                    self.look
                }
                Err(problem) => {
                    let why = &problem.details().detail;
                    tracing::warn!(why, "the NFVO does not tell of its packages for now");
                    failures = (failures + 1).min(DOUBLINGS);
                    self.look.min(PAUSE * 2_u32.pow(failures - 1))
                }
            };
            self.clock.sleep(pause).await;
        }
    }

    async fn stand_once(&self, app: &App, subscription: &mut Option<String>) -> Answer<()> {
        if let Some(id) = subscription.as_deref()
            && !self
                .nfvo
                .current()
                .packages
                .is_subscribed(id)
                .await
                .map_err(refused)?
        {
            tracing::warn!(
                id,
                "the NFVO has forgotten our subscription; it is made anew"
            );
            *subscription = None;
        }
        if subscription.is_none() {
            self.nfvo
                .current()
                .packages
                .unsubscribe(&self.callback)
                .await
                .map_err(refused)?;
            let made = self
                .nfvo
                .current()
                .packages
                .subscribe(&self.callback, (USER, &self.password))
                .await;
            let id = made.map_err(refused)?;
            tracing::info!(id, "subscribed to the packages of the NFVO");
            *subscription = Some(id);
        }
        self.look_at(app, |_| true).await
    }

    /// Whether a notification is from whom we gave the password.
    pub(crate) fn knows(&self, headers: &HeaderMap) -> bool {
        let brought = headers
            .get(header::AUTHORIZATION)
            .and_then(|value| value.to_str().ok());
        let brought = brought.and_then(|value| value.split_once(' '));
        let Some((_, brought)) = brought.filter(|(way, _)| way.eq_ignore_ascii_case("basic"))
        else {
            return false;
        };
        let wanted = STANDARD.encode(format!("{USER}:{}", self.password.reveal()));
        // Of two hashes it does not matter how long it takes to tell them apart.
        Sha256::digest(brought.trim()) == Sha256::digest(wanted)
    }
}
