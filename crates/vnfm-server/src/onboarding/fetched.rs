//! Content that this server fetches itself: from a URI (SOL005 9.4.6.3.1), or from the NFVO.
//!
//! ```text
//! request ─ sealed in the record, UPLOADING ─ fetched into `<id>.arriving` ─ taken in, or refused ─ the request is forgotten
//!                                                   └─ the process ends: the next one goes on ─┘
//! ```
//! What the NFVO was sending to a process that ended is forgotten: it is fetched anew when it is wanted.

use super::{Aside, Onboarding, Received, Taking, not_onboarded, remove};
use crate::problem::{Answer, Problem};
use crate::state::App;
use axum::http::StatusCode;
use serde::Deserialize as _;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use vnfm_core::Refusal;
use vnfm_core::ports::{PackageRecord, SecretJson};
use vnfm_nfvo::Origin;
use vnfm_types::{
    KeyValuePairs, NfvoPackage, PackageOnboardingState, UploadVnfPackageFromUriRequest,
};

/// Fetches beside requests; a panic there ends the process, as for every part of the server.
pub fn go_on(app: App, fetch: Fetch) {
    let parts = app.operating.parts.clone();
    let fetching = async move { app.onboarding.fetch_from_uri(fetch).await };
    parts.spawn("fetch of a package", fetching);
}

/// What is to be fetched for a package.
pub struct Fetch {
    record: PackageRecord,
    from: Origin,
    /// In bytes.
    most: u64,
    /// Until it has ended.
    _taking: Taking,
}

impl Onboarding {
    /// Accepts that the content comes from a URI; the record is UPLOADING. `left` is what is left of a quota, in bytes.
    ///
    /// # Errors
    ///
    /// 400 for a login that makes no sense, 404, 409 where there is content already, 422 for an address that is not
    /// allowed.
    pub async fn from_uri(
        &self,
        (tenant, id): (&str, &str),
        request: UploadVnfPackageFromUriRequest,
        left: Option<u64>,
    ) -> Answer<Fetch> {
        self.store.package_record(tenant, id).await?;
        let sealed = serde_json::to_value(&request).map_err(|error| Problem::bug(&error))?;
        let from = self.externals.origin(request)?;
        let (record, taking) = self.begin((tenant, id), SecretJson::from(sealed)).await?;
        Ok(Fetch {
            record,
            from,
            most: self.most(left),
            _taking: taking,
        })
    }

    /// What a process before us left in the middle: what it was fetching from a URI goes on, anything else is refused, so
    /// that it is uploaded anew. What was being taken in is refused, too: it may be what ended that process.
    ///
    /// # Errors
    ///
    /// 503 where the database does not answer.
    pub async fn unfinished(&self, records: Vec<PackageRecord>) -> Answer<Vec<Fetch>> {
        let mut all = Vec::new();
        for mut record in records {
            let (tenant, id) = (record.tenant.clone(), record.info.id.clone());
            let was_arriving = record.info.onboarding_state == PackageOnboardingState::Uploading;
            let outcome = if !was_arriving || record.fetching.is_null() {
                let what = "the server stopped before all of it was taken in; upload it again";
                let code = "package.interrupted";
                Err(Problem::new(StatusCode::SERVICE_UNAVAILABLE, code, what))
            } else {
                match UploadVnfPackageFromUriRequest::deserialize(&*record.fetching) {
                    Ok(request) => self.from_uri((&tenant, &id), request, None).await,
                    Err(error) => Err(Problem::bug(&error)),
                }
            };
            match outcome {
                Ok(fetch) => {
                    tracing::info!(id, "a package was left in the middle, and goes on");
                    all.push(fetch);
                }
                Err(_) if record.info.nfvo.is_some() => self.remove(&tenant, &id).await?,
                Err(problem) => {
                    let why = &problem.details().detail;
                    tracing::warn!(id, why, "a package was left in the middle");
                    self.refuse(&mut record, problem.details().clone()).await?;
                    self.forget(&id).await;
                }
            }
        }
        let going_on: Vec<_> = all
            .iter()
            .map(|fetch| fetch.record.info.id.as_str())
            .collect();
        if let Err(error) = self.packages.forget_arrived(&going_on) {
            tracing::warn!(%error, "what had arrived of packages that are gone stays");
        }
        Ok(all)
    }

    /// Removes what there is of a package that was refused.
    async fn forget(&self, id: &str) {
        if let Err(error) = self.packages.remove(id).await {
            tracing::warn!(id, %error, "the file of a refused package stays");
        }
    }

    /// Fetches it and takes it in; the record says how it went.
    pub async fn fetch_from_uri(&self, fetch: Fetch) {
        let Fetch {
            mut record,
            from,
            most,
            _taking,
        } = fetch;
        let id = record.info.id.clone();
        let fetched = match self.packages.arriving(&id) {
            Ok(file) => self
                .externals
                .archive(&from, most, &file)
                .await
                .map(|size| (file, size)),
            Err(error) => Err(error),
        };
        let outcome = match fetched {
            Ok((file, size)) => match self.arrived(&record, (file, size)).await {
                Ok(received) => self.take_in(&mut record, received).await,
                Err(problem) => self.refuse(&mut record, problem.details().clone()).await,
            },
            Err(error) => {
                let problem = Problem::from(Refusal::unprocessable(error));
                self.refuse(&mut record, problem.details().clone()).await
            }
        };
        match outcome {
            Ok(()) => tracing::info!(id, state = ?record.info.onboarding_state, "from a URI"),
            Err(problem) => {
                let why = &problem.details().detail;
                tracing::warn!(id, why, "what came from a URI is not noted");
            }
        }
    }

    /// What has come for a package, with its size set aside: others may have come meanwhile. Without room for it, it goes.
    async fn arrived(
        &self,
        record: &PackageRecord,
        (file, size): (PathBuf, u64),
    ) -> Answer<Received> {
        let mut aside = Aside::new(&self.store, &record.tenant);
        if let Err(problem) = aside.set(size).await {
            remove(&file).await;
            return Err(problem);
        }
        Ok(Received {
            file,
            sha256: None,
            aside,
        })
    }

    /// How much may be fetched, in bytes.
    pub(crate) fn most(&self, left: Option<u64>) -> u64 {
        self.largest
            .load(Ordering::SeqCst)
            .min(left.unwrap_or(u64::MAX))
    }

    /// A new record for a package of the NFVO, UPLOADING.
    pub(crate) async fn begin_from_nfvo(
        &self,
        tenant: &str,
        nfvo: NfvoPackage,
    ) -> Answer<(PackageRecord, Taking)> {
        let mut made = self.create(tenant, KeyValuePairs::new()).await?;
        made.info.nfvo = Some(nfvo);
        self.put(&mut made).await?;
        self.begin((tenant, &made.info.id), SecretJson::default())
            .await
    }

    /// Where what comes may be written.
    pub(crate) fn incoming(&self) -> PathBuf {
        self.packages.incoming()
    }

    /// An archive that some package here has already, by its SHA-256: under a new name, to be taken in.
    pub(crate) async fn copy_of(&self, sha256: &str) -> Option<PathBuf> {
        self.packages.copy_of(sha256).await
    }

    /// Takes in what the NFVO has sent.
    ///
    /// # Errors
    ///
    /// Why it is no package that may be used; then its record is gone, too.
    pub(crate) async fn end_from_nfvo(
        &self,
        mut record: PackageRecord,
        content: Result<PathBuf, Problem>,
    ) -> Answer<()> {
        let outcome = match content {
            Ok(file) => {
                let size = tokio::fs::metadata(&file)
                    .await
                    .map_or(0, |file| file.len());
                match self.arrived(&record, (file, size)).await {
                    Ok(received) => self.take_in(&mut record, received).await,
                    Err(problem) => Err(problem),
                }
            }
            Err(problem) => Err(problem),
        };
        if record.info.onboarding_state == PackageOnboardingState::Onboarded {
            return outcome;
        }
        if let Err(problem) = self.remove(&record.tenant, &record.info.id).await {
            let (id, why) = (&record.info.id, &problem.details().detail);
            tracing::warn!(
                id,
                why,
                "the record of a package that was not fetched stays"
            );
        }
        outcome?;
        let why = record
            .info
            .onboarding_failure_details
            .map(|details| details.detail);
        Err(not_onboarded(why.unwrap_or_default()))
    }
}
