//! Changes of a package's record (SOL005 9.4.3.3.4), by clients and by the NFVO that it is from.

use super::Onboarding;
use crate::problem::{HandlerResult, Problem};
use axum::http::StatusCode;
use vnfm_core::merge_patch;
use vnfm_core::ports::{Change, PackageRecord};
use vnfm_types::{PackageOnboardingState, PackageOperationalState, VnfPkgInfoModifications};

impl Onboarding {
    /// Changes a package if it is as `expected`; returns the new record and the changes.
    ///
    /// # Errors
    ///
    /// 422 without changes; 404; 409 if the package is not ONBOARDED or already in that state; 412 if
    /// it is not as expected.
    pub(crate) async fn modify(
        &self,
        (tenant, id): (&str, &str),
        patch: VnfPkgInfoModifications,
        expected: impl Fn(&PackageRecord) -> bool,
    ) -> HandlerResult<(PackageRecord, VnfPkgInfoModifications)> {
        let _writing = self.writing.lock().await;
        let mut record = self.store.package_record(tenant, id).await?;
        if patch == VnfPkgInfoModifications::default() {
            let detail = "the patch has neither `operationalState` nor `userDefinedData`";
            return Err(Problem::schema_mismatch(detail));
        }
        if !expected(&record) {
            let detail = format!(
                "package `{id}` has changed since the version in `If-Match`; read it again"
            );
            return Err(Problem::new(
                StatusCode::PRECONDITION_FAILED,
                "request.stale",
                detail,
            ));
        }
        let mut changed = patch.clone();
        if let Some(state) = patch.operational_state {
            check_transition(&record, state)?;
            record.info.operational_state = state;
        }
        if let Some(data) = &patch.user_defined_data {
            merge_patch(&mut record.info.user_defined_data, Some(data));
            changed.user_defined_data = Some(record.info.user_defined_data.clone());
        }
        self.store
            .write(None, vec![Change::PutPackage(Box::new(record.clone()))])
            .await?;
        Ok((record, changed))
    }

    /// Applies that the NFVO has enabled or disabled a package from there. A local change meanwhile stays until the
    /// NFVO changes the state again.
    ///
    /// # Errors
    ///
    /// 503 if the database does not respond.
    pub(crate) async fn follow(
        &self,
        (tenant, id): (&str, &str),
        state: PackageOperationalState,
    ) -> HandlerResult<()> {
        let _writing = self.writing.lock().await;
        let mut record = self.store.package_record(tenant, id).await?;
        let is_onboarded = record.info.onboarding_state == PackageOnboardingState::Onboarded;
        let Some(nfvo) = record.info.nfvo.as_mut().filter(|_| is_onboarded) else {
            return Ok(());
        };
        if nfvo.operational_state == state {
            return Ok(());
        }
        nfvo.operational_state = state;
        record.info.operational_state = state;
        tracing::info!(id, ?state, "a package has the same state as at the NFVO");
        Ok(self
            .store
            .write(None, vec![Change::PutPackage(Box::new(record))])
            .await?)
    }
}

fn check_transition(record: &PackageRecord, state: PackageOperationalState) -> HandlerResult<()> {
    let info = &record.info;
    let detail = if info.onboarding_state != PackageOnboardingState::Onboarded {
        format!("package `{}` is not ONBOARDED", info.id)
    } else if info.operational_state == state {
        format!("package `{}` is already {}", info.id, state.as_str())
    } else {
        return Ok(());
    };
    Err(Problem::new(
        StatusCode::CONFLICT,
        "request.wrong-state",
        detail,
    ))
}
