//! What becomes of packages at the NFVO (SOL003 10.5.2.5, 10.5.2.6): told by it, or seen when it is looked at.

use super::Supply;
use crate::problem::{Answer, Problem};
use crate::state::{App, AppState};
use serde::Deserialize;
use vnfm_core::ports::PackageRecord;
use vnfm_core::query::Query;
use vnfm_types::{PackageOperationalState, PackageUsageState};

/// What the NFVO tells, as far as it is looked at.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Notification {
    /// Its kind.
    pub notification_type: NotificationType,
    /// The package, by its id there.
    pub vnf_pkg_id: String,
    /// Its VNFD.
    pub vnfd_id: String,
}

/// What is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub enum NotificationType {
    /// A package is on-boarded.
    VnfPackageOnboardingNotification,
    /// One was enabled, disabled or deleted.
    VnfPackageChangeNotification,
}

impl Supply {
    /// Takes a notification; what it means is done in tasks of their own.
    pub fn told(&self, app: &App, told: Notification) {
        tracing::info!(?told, "the NFVO tells of a package");
        match told.notification_type {
            NotificationType::VnfPackageOnboardingNotification if self.prefetch => {
                for tenant in &self.tenants {
                    // It goes on by itself; what becomes of it is in the log.
                    drop(self.fetched(app, tenant, &told.vnfd_id));
                }
            }
            NotificationType::VnfPackageOnboardingNotification => {}
            NotificationType::VnfPackageChangeNotification => {
                let app = app.clone();
                tokio::spawn(async move {
                    let Some(supply) = app.supply.clone() else {
                        return;
                    };
                    let changed = |record: &PackageRecord| {
                        let nfvo = record.info.nfvo.as_ref();
                        nfvo.is_some_and(|nfvo| nfvo.vnf_pkg_id == told.vnf_pkg_id)
                    };
                    if let Err(problem) = supply.look_at(&app, changed).await {
                        let why = &problem.details().detail;
                        tracing::warn!(why, "a change at the NFVO is seen at the next look");
                    }
                });
            }
        }
    }

    /// Compares packages that are from the NFVO with what it says of them now.
    ///
    /// # Errors
    ///
    /// 503 where the NFVO or the database does not answer.
    pub(super) async fn look_at(
        &self,
        app: &AppState,
        which: impl Fn(&PackageRecord) -> bool + Send + Sync,
    ) -> Answer<()> {
        for tenant in &self.tenants {
            let records = app
                .engine
                .store()
                .package_records(tenant, &Query::default())
                .await?;
            for record in records.into_iter().filter(|record| which(record)) {
                self.compare(app, record).await?;
            }
        }
        Ok(())
    }

    async fn compare(&self, app: &AppState, record: PackageRecord) -> Answer<()> {
        let Some(nfvo) = &record.info.nfvo else {
            return Ok(());
        };
        let (tenant, id) = (record.tenant.as_str(), record.info.id.as_str());
        let there = self
            .nfvo
            .current()
            .packages
            .package(&nfvo.vnf_pkg_id)
            .await
            .map_err(super::refused)?;
        let Some(there) = there else {
            return gone(app, &record).await;
        };
        app.onboarding
            .follow((tenant, id), there.operational_state)
            .await
    }
}

/// A package that the NFVO has no more goes, unless some instance is of it: then nothing more is made from it.
async fn gone(app: &AppState, record: &PackageRecord) -> Answer<()> {
    let (tenant, id) = (record.tenant.as_str(), record.info.id.as_str());
    let deleted = match record.info.usage_state {
        PackageUsageState::NotInUse => app.onboarding.remove(tenant, id).await,
        PackageUsageState::InUse => Err(Problem::not_found("")),
    };
    match deleted {
        Ok(()) => {
            tracing::info!(tenant, id, "a package is gone, as it is at the NFVO");
            Ok(())
        }
        // It is in use, or somebody has made an instance of it just now.
        Err(_) => {
            app.onboarding
                .follow((tenant, id), PackageOperationalState::Disabled)
                .await
        }
    }
}
