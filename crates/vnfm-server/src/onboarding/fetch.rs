//! Content that this server fetches: from a URI (SOL005 9.4.6.3.1), or from the NFVO.
//!
//! ```text
//! request ─ encrypted in the record, UPLOADING ─ fetched into `<id>.arriving` ─ stored, or refused ─ request deleted
//!                                                   └─ the process ends: the next one resumes ─┘
//! ```
//! An interrupted fetch from the NFVO is discarded; the package is fetched again when it is requested.

use super::{Onboarding, QuotaReservation, Received, UploadGuard, not_onboarded, remove};
use crate::problem::{HandlerResult, Problem};
use crate::supervisor::Supervisor;
use axum::http::StatusCode;
use serde::Deserialize as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use vnfm_core::Refusal;
use vnfm_core::ports::{PackageRecord, SecretJson};
use vnfm_nfvo::Origin;
use vnfm_types::{
    KeyValuePairs, NfvoPackage, PackageOnboardingState, UploadVnfPackageFromUriRequest,
};

/// Fetches in the background; a panic ends the process, as for every part of the server.
pub(crate) fn resume(onboarding: Arc<Onboarding>, supervisor: &Supervisor, fetch: Fetch) {
    let fetching = async move { onboarding.fetch_from_uri(fetch).await };
    supervisor.spawn("fetch of a package", fetching);
}

/// A fetch that has been accepted.
pub(crate) struct Fetch {
    record: PackageRecord,
    from: Origin,
    /// Maximum size of the archive in bytes.
    max_bytes: u64,
    _guard: UploadGuard,
}

impl Onboarding {
    /// Accepts an upload from a URI; the record becomes UPLOADING. `left`: the tenant's remaining quota in bytes.
    ///
    /// # Errors
    ///
    /// 400 for inconsistent credentials; 404; 409 if there is content already; 422 for an address that is not allowed.
    pub(crate) async fn begin_from_uri(
        &self,
        (tenant, id): (&str, &str),
        request: UploadVnfPackageFromUriRequest,
        left: Option<u64>,
    ) -> HandlerResult<Fetch> {
        self.store.package_record(tenant, id).await?;
        let sealed = serde_json::to_value(&request).map_err(|error| Problem::bug(&error))?;
        let from = self.externals.origin(request)?;
        let (record, guard) = self.begin((tenant, id), SecretJson::from(sealed)).await?;
        Ok(Fetch {
            record,
            from,
            max_bytes: self.max_fetch_bytes(left),
            _guard: guard,
        })
    }

    /// Handles packages that an earlier process left unfinished: fetches from a URI resume; everything else is refused
    /// and must be uploaded again. That includes packages that were being checked: the check may have crashed the
    /// process.
    ///
    /// # Errors
    ///
    /// 503 if the database does not respond.
    pub(crate) async fn unfinished(
        &self,
        records: Vec<PackageRecord>,
    ) -> HandlerResult<Vec<Fetch>> {
        let mut all = Vec::new();
        for mut record in records {
            let (tenant, id) = (record.tenant.clone(), record.info.id.clone());
            let was_arriving = record.info.onboarding_state == PackageOnboardingState::Uploading;
            let outcome = if !was_arriving || record.fetching.is_null() {
                let what = "the server stopped before the package was complete; upload it again";
                let code = "package.interrupted";
                Err(Problem::new(StatusCode::SERVICE_UNAVAILABLE, code, what))
            } else {
                match UploadVnfPackageFromUriRequest::deserialize(&*record.fetching) {
                    Ok(request) => self.begin_from_uri((&tenant, &id), request, None).await,
                    Err(error) => Err(Problem::bug(&error)),
                }
            };
            match outcome {
                Ok(fetch) => {
                    tracing::info!(id, "resuming an interrupted upload");
                    all.push(fetch);
                }
                Err(_) if record.info.nfvo.is_some() => self.remove(&tenant, &id).await?,
                Err(problem) => {
                    let reason = &problem.details().detail;
                    tracing::warn!(id, reason, "an upload was interrupted");
                    self.refuse(&mut record, problem.details().clone()).await?;
                    self.remove_files(&id).await;
                }
            }
        }
        let resumed: Vec<_> = all
            .iter()
            .map(|fetch| fetch.record.info.id.as_str())
            .collect();
        if let Err(error) = self.packages.remove_partial_downloads(&resumed) {
            tracing::warn!(%error, "cannot remove partial files of deleted packages");
        }
        Ok(all)
    }

    /// Removes the files of a refused package.
    async fn remove_files(&self, id: &str) {
        if let Err(error) = self.packages.remove(id).await {
            tracing::warn!(id, %error, "cannot remove the file of a refused package");
        }
    }

    /// Fetches and checks the content; the record has the outcome.
    pub(crate) async fn fetch_from_uri(&self, fetch: Fetch) {
        let Fetch {
            mut record,
            from,
            max_bytes,
            _guard,
        } = fetch;
        let id = record.info.id.clone();
        let fetched = match self.packages.partial_download_path(&id) {
            Ok(file) => self
                .externals
                .archive(&from, max_bytes, &file)
                .await
                .map(|size| (file, size)),
            Err(error) => Err(error),
        };
        let outcome = match fetched {
            Ok((file, size)) => match self.reserve(&record, (file, size)).await {
                Ok(received) => self.process(&mut record, received).await,
                Err(problem) => self.refuse(&mut record, problem.details().clone()).await,
            },
            Err(error) => {
                let problem = Problem::from(Refusal::unprocessable(error));
                self.refuse(&mut record, problem.details().clone()).await
            }
        };
        match outcome {
            Ok(()) => {
                tracing::info!(id, state = ?record.info.onboarding_state, "uploaded from a URI");
            }
            Err(problem) => {
                let reason = &problem.details().detail;
                tracing::warn!(
                    id,
                    reason,
                    "cannot record the outcome of an upload from a URI"
                );
            }
        }
    }

    /// Reserves the quota for a fetched file, because other uploads may have used it meanwhile; removes the file
    /// if it does not fit.
    async fn reserve(
        &self,
        record: &PackageRecord,
        (file, size): (PathBuf, u64),
    ) -> HandlerResult<Received> {
        let mut reservation = QuotaReservation::new(&self.store, &record.tenant);
        if let Err(problem) = reservation.set(size).await {
            remove(&file).await;
            return Err(problem);
        }
        Ok(Received {
            file,
            sha256: None,
            reservation,
        })
    }

    /// Size limit for a fetch, in bytes.
    pub(crate) fn max_fetch_bytes(&self, left: Option<u64>) -> u64 {
        self.max_bytes
            .load(Ordering::SeqCst)
            .min(left.unwrap_or(u64::MAX))
    }

    /// Creates a record for a package of the NFVO, UPLOADING.
    pub(crate) async fn begin_from_nfvo(
        &self,
        tenant: &str,
        nfvo: NfvoPackage,
    ) -> HandlerResult<(PackageRecord, UploadGuard)> {
        let mut record = self.create(tenant, KeyValuePairs::new()).await?;
        record.info.nfvo = Some(nfvo);
        self.put(&mut record).await?;
        self.begin((tenant, &record.info.id), SecretJson::default())
            .await
    }

    /// A path for a file that arrives.
    pub(crate) fn incoming(&self) -> PathBuf {
        self.packages.incoming()
    }

    /// A copy, under a new name, of an archive that some package here already has, by its SHA-256.
    pub(crate) async fn copy_of(&self, sha256: &str) -> Option<PathBuf> {
        self.packages.copy_of(sha256).await
    }

    /// Checks and stores the content that the NFVO has sent.
    ///
    /// # Errors
    ///
    /// If the package cannot be used; its record is then deleted.
    pub(crate) async fn end_from_nfvo(
        &self,
        mut record: PackageRecord,
        content: Result<PathBuf, Problem>,
    ) -> HandlerResult<()> {
        let outcome = match content {
            Ok(file) => {
                let size = tokio::fs::metadata(&file)
                    .await
                    .map_or(0, |file| file.len());
                match self.reserve(&record, (file, size)).await {
                    Ok(received) => self.process(&mut record, received).await,
                    Err(problem) => Err(problem),
                }
            }
            Err(problem) => Err(problem),
        };
        if record.info.onboarding_state == PackageOnboardingState::Onboarded {
            return outcome;
        }
        if let Err(problem) = self.remove(&record.tenant, &record.info.id).await {
            let (id, reason) = (&record.info.id, &problem.details().detail);
            tracing::warn!(
                id,
                reason,
                "cannot delete the record of a package that could not be fetched"
            );
        }
        outcome?;
        let reason = record
            .info
            .onboarding_failure_details
            .map(|details| details.detail);
        Err(not_onboarded(reason.unwrap_or_default()))
    }
}
