//! What is changed of a package after it was made (SOL005 9.4.3.3.4), by those who may, and by the NFVO that it is from.

use super::Onboarding;
use crate::problem::{Answer, Problem};
use axum::http::StatusCode;
use vnfm_core::merge_patch;
use vnfm_core::ports::{Change, PackageRecord};
use vnfm_types::{PackageOnboardingState, PackageOperationalState, VnfPkgInfoModifications};

impl Onboarding {
    /// Changes a package that is as `expected`; the record as it is then, and what was changed.
    ///
    /// # Errors
    ///
    /// 422 where nothing is to be changed; 404; 409 where it is not ONBOARDED or in that state already; 412 where it is not
    /// as expected.
    pub async fn modify(
        &self,
        (tenant, id): (&str, &str),
        patch: VnfPkgInfoModifications,
        expected: impl Fn(&PackageRecord) -> bool,
    ) -> Answer<(PackageRecord, VnfPkgInfoModifications)> {
        let _writing = self.writing.lock().await;
        let mut record = self.store.package_record(tenant, id).await?;
        if patch == VnfPkgInfoModifications::default() {
            let what = "neither `operationalState` nor `userDefinedData` is there to be changed";
            return Err(Problem::unfit(what));
        }
        if !expected(&record) {
            let what = format!("package `{id}` is not as `If-Match` says; read it again");
            return Err(Problem::new(
                StatusCode::PRECONDITION_FAILED,
                "request.stale",
                what,
            ));
        }
        let mut changed = patch.clone();
        if let Some(state) = patch.operational_state {
            may_become(&record, state)?;
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

    /// Notes that the NFVO has enabled or disabled a package that is from there: it is so here, too. What somebody here
    /// decided meanwhile stays until the NFVO changes its mind.
    ///
    /// # Errors
    ///
    /// 503 where the database does not answer.
    pub(crate) async fn follow(
        &self,
        (tenant, id): (&str, &str),
        state: PackageOperationalState,
    ) -> Answer<()> {
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
        tracing::info!(id, ?state, "a package is what it is at the NFVO");
        Ok(self
            .store
            .write(None, vec![Change::PutPackage(Box::new(record))])
            .await?)
    }
}

fn may_become(record: &PackageRecord, state: PackageOperationalState) -> Answer<()> {
    let info = &record.info;
    let what = if info.onboarding_state != PackageOnboardingState::Onboarded {
        format!("package `{}` is not ONBOARDED", info.id)
    } else if info.operational_state == state {
        let word = serde_json::to_value(state).unwrap_or_default();
        format!(
            "package `{}` is {} already",
            info.id,
            word.as_str().unwrap_or_default()
        )
    } else {
        return Ok(());
    };
    Err(Problem::new(
        StatusCode::CONFLICT,
        "request.wrong-state",
        what,
    ))
}
