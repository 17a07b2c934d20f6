//! Changes of packages at the NFVO (SOL003 10.5.2.5, 10.5.2.6): from notifications, or found by polling.

use super::NfvoPackageSource;
use crate::onboarding::Onboarding;
use crate::problem::{HandlerResult, Problem};
use serde::Deserialize;
use std::sync::Arc;
use vnfm_core::ports::PackageRecord;
use vnfm_core::query::Query;
use vnfm_types::{PackageOperationalState, PackageUsageState};

/// A notification of the NFVO, as far as it is used.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Notification {
    /// Which kind of notification this is.
    #[serde(rename = "notificationType")]
    pub kind: NotificationType,
    /// Id of the package at the NFVO.
    pub vnf_pkg_id: String,
    /// `vnfdId` of the package's VNFD.
    pub vnfd_id: String,
}

/// The notifications of the NFVO about packages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub(crate) enum NotificationType {
    /// A package was on-boarded at the NFVO.
    VnfPackageOnboardingNotification,
    /// A package was enabled, disabled or deleted.
    VnfPackageChangeNotification,
}

impl NfvoPackageSource {
    /// Handles a notification in background tasks.
    pub(crate) fn handle(self: &Arc<Self>, notification: Notification) {
        tracing::info!(?notification, "notification of the NFVO about a package");
        match notification.kind {
            NotificationType::VnfPackageOnboardingNotification if self.prefetch => {
                for tenant in &self.tenants {
                    // The task runs in the background and logs its outcome.
                    drop(self.shared_fetch(tenant, &notification.vnfd_id));
                }
            }
            NotificationType::VnfPackageOnboardingNotification => {}
            NotificationType::VnfPackageChangeNotification => {
                let source = self.clone();
                tokio::spawn(async move {
                    let changed = |record: &PackageRecord| {
                        let nfvo = record.info.nfvo.as_ref();
                        nfvo.is_some_and(|nfvo| nfvo.vnf_pkg_id == notification.vnf_pkg_id)
                    };
                    if let Err(problem) = source.sync(changed).await {
                        let reason = &problem.details().detail;
                        tracing::warn!(
                            reason,
                            "cannot apply a change at the NFVO; the next poll tries again"
                        );
                    }
                });
            }
        }
    }

    /// Compares packages that are from the NFVO with their current state there.
    ///
    /// # Errors
    ///
    /// 503 if the NFVO or the database does not respond.
    pub(super) async fn sync(
        &self,
        filter: impl Fn(&PackageRecord) -> bool + Send + Sync,
    ) -> HandlerResult<()> {
        for tenant in &self.tenants {
            let records = self
                .intake
                .engine
                .store()
                .package_records(tenant, &Query::default())
                .await?;
            for record in records.into_iter().filter(|record| filter(record)) {
                self.compare(record).await?;
            }
        }
        Ok(())
    }

    async fn compare(&self, record: PackageRecord) -> HandlerResult<()> {
        let Some(nfvo) = &record.info.nfvo else {
            return Ok(());
        };
        let (tenant, id) = (record.tenant.as_str(), record.info.id.as_str());
        let offered = self
            .nfvo
            .current()
            .packages
            .package(&nfvo.vnf_pkg_id)
            .await
            .map_err(super::refused)?;
        let Some(offered) = offered else {
            return remove_or_disable(&self.intake.onboarding, &record).await;
        };
        self.intake
            .onboarding
            .follow((tenant, id), offered.operational_state)
            .await
    }
}

/// Deletes a package that the NFVO no longer has; if an instance uses it, disables it, so that no new instances are
/// created.
async fn remove_or_disable(onboarding: &Onboarding, record: &PackageRecord) -> HandlerResult<()> {
    let (tenant, id) = (record.tenant.as_str(), record.info.id.as_str());
    let deleted = match record.info.usage_state {
        PackageUsageState::NotInUse => onboarding.remove(tenant, id).await,
        PackageUsageState::InUse => Err(Problem::not_found("")),
    };
    match deleted {
        Ok(()) => {
            tracing::info!(tenant, id, "deleted a package that was deleted at the NFVO");
            Ok(())
        }
        // It is in use, possibly since just now.
        Err(_) => {
            onboarding
                .follow((tenant, id), PackageOperationalState::Disabled)
                .await
        }
    }
}
