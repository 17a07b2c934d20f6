//! Onboarding of packages (SOL005 9.3.2): an upload goes to a temporary file, is checked as a whole, and is stored,
//! or refused with every finding.
//!
//! ```text
//! CREATED ──upload, from a URI, from the NFVO──► UPLOADING ──► PROCESSING ──► ONBOARDED
//!                                                    └────────────┴──refused──► ERROR  (onboardingFailureDetails)
//! ```
//! | file | contents |
//! |---|---|
//! | here | records, uploads, deletion |
//! | `onboarding/check.rs` | checks and stores a received package |
//! | `onboarding/quota_reservation.rs` | the quota of a package that is arriving |
//! | `onboarding/fetch.rs` | content that this server fetches: from a URI, from the NFVO |
//! | `onboarding/contents.rs` | a package's contents, for its record |
//! | `onboarding/update.rs` | enabled, disabled, `userDefinedData`; changes at the NFVO |
//! | `onboarding/read.rs` | archive, VNFD, manifest and artifacts, for clients |

mod check;
mod contents;
mod fetch;
mod quota_reservation;
mod read;
mod update;

pub(crate) use fetch::{Fetch, resume};
pub(crate) use read::Accepts;

use self::quota_reservation::QuotaReservation;
use crate::externals::Externals;
use crate::listener;
use crate::problem::{HandlerResult, Problem};
use crate::signatures::Signatures;
use axum::body::Body;
use axum::http::StatusCode;
use futures::StreamExt as _;
use sha2::{Digest as _, Sha256};
use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::io::AsyncWriteExt as _;
use vnfm_core::ports::{Change, MgmtDrivers, PackageRecord, SecretJson, Store, StoreError};
use vnfm_store::PackageDir;
use vnfm_types::{
    KeyValuePairs, PackageOnboardingState, PackageOperationalState, PackageUsageState,
    ProblemDetails, VnfPkgInfo,
};

/// Onboards, changes and deletes packages.
pub struct Onboarding {
    store: Arc<dyn Store>,
    packages: Arc<PackageDir>,
    mgmt: Arc<dyn MgmtDrivers>,
    signatures: Arc<Signatures>,
    externals: Externals,
    max_bytes: AtomicU64,
    /// Held from reading a record until it is written.
    writing: tokio::sync::Mutex<()>,
    /// Packages whose content is arriving in this process.
    uploading: Arc<Mutex<HashSet<String>>>,
}

/// Prevents a second upload of the same package until it is dropped.
pub(crate) struct UploadGuard {
    id: String,
    all: Arc<Mutex<HashSet<String>>>,
}

impl Drop for UploadGuard {
    fn drop(&mut self) {
        self.all
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .remove(&self.id);
    }
}

impl Onboarding {
    /// Stores into `packages`, at most `max_bytes` per package. `mgmt` must implement the hooks, `signatures` decides
    /// which packages are accepted, and `externals` fetches external artifacts.
    pub fn new(
        store: Arc<dyn Store>,
        packages: Arc<PackageDir>,
        mgmt: Arc<dyn MgmtDrivers>,
        (signatures, externals): (Signatures, Externals),
        max_bytes: u64,
    ) -> Self {
        Self {
            store,
            packages,
            mgmt,
            signatures: Arc::new(signatures),
            externals,
            max_bytes: max_bytes.into(),
            writing: tokio::sync::Mutex::default(),
            uploading: Arc::default(),
        }
    }

    /// Changes the size limit of packages, in bytes.
    pub(crate) fn set_max_bytes(&self, max_bytes: u64) {
        self.max_bytes.store(max_bytes, Ordering::SeqCst);
    }

    /// Creates a record without content.
    ///
    /// # Errors
    ///
    /// 503 if the database does not respond.
    pub(crate) async fn create(
        &self,
        tenant: &str,
        data: KeyValuePairs,
    ) -> HandlerResult<PackageRecord> {
        let record = PackageRecord {
            tenant: tenant.to_owned(),
            info: VnfPkgInfo {
                user_defined_data: data,
                ..VnfPkgInfo::created(uuid::Uuid::new_v4())
            },
            fetching: SecretJson::default(),
        };
        self.store
            .write(None, vec![Change::AddPackage(Box::new(record.clone()))])
            .await?;
        Ok(record)
    }

    /// Receives and checks the content; the record has the outcome.
    ///
    /// # Errors
    ///
    /// 404; 409 if there is content already; 413; 503. Findings about the package itself are only in the record.
    pub(crate) async fn upload(&self, tenant: &str, id: &str, body: Body) -> HandlerResult<()> {
        let (mut record, _guard) = self.begin((tenant, id), SecretJson::default()).await?;
        let file = self.packages.incoming();
        let mut reservation = QuotaReservation::new(&self.store, tenant);
        let received = match self.receive(body, &file, &mut reservation).await {
            Ok(sha256) => Received {
                file,
                sha256: Some(sha256),
                reservation,
            },
            Err(problem) => {
                reservation.release_now().await;
                self.refuse(&mut record, problem.details().clone()).await?;
                remove(&file).await;
                return Err(problem);
            }
        };
        self.process(&mut record, received).await
    }

    /// Starts an upload: the record becomes UPLOADING and stores the request for fetching the content.
    ///
    /// A package in an intermediate state without an upload in this process was left behind by a crash or a
    /// disconnected client; the upload starts again.
    async fn begin(
        &self,
        (tenant, id): (&str, &str),
        fetching: SecretJson,
    ) -> HandlerResult<(PackageRecord, UploadGuard)> {
        self.store.package_record(tenant, id).await?;
        let refused =
            |what: String| Problem::new(StatusCode::CONFLICT, "request.wrong-state", what);
        let is_first = {
            let mut all = self
                .uploading
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            all.insert(id.to_owned())
        };
        if !is_first {
            return Err(refused(format!(
                "the content of package `{id}` is already being uploaded"
            )));
        }
        let guard = UploadGuard {
            id: id.to_owned(),
            all: self.uploading.clone(),
        };
        let mut record = self.store.package_record(tenant, id).await?;
        if record.info.onboarding_state == PackageOnboardingState::Onboarded {
            return Err(refused(format!("package `{id}` already has content")));
        }
        record.info.onboarding_failure_details = None;
        record.fetching = fetching;
        self.set_state(&mut record, PackageOnboardingState::Uploading)
            .await?;
        Ok((record, guard))
    }

    /// Checks and stores a received file; the record has the outcome.
    async fn process(&self, record: &mut PackageRecord, received: Received) -> HandlerResult<()> {
        if let Err(problem) = self
            .set_state(record, PackageOnboardingState::Processing)
            .await
        {
            remove(&received.file).await;
            return Err(problem);
        }
        match self.check(record, received).await {
            Ok(()) => Ok(()),
            Err(problem) => self.refuse(record, problem.details().clone()).await,
        }
    }

    /// Writes the body into `file`, up to the size limit, and returns its SHA-256, computed while bytes arrive.
    async fn receive(
        &self,
        body: Body,
        file: &Path,
        reservation: &mut QuotaReservation,
    ) -> HandlerResult<String> {
        let failed =
            |error: std::io::Error| not_written(format!("cannot write the upload: {error}"));
        let mut out = tokio::fs::File::create(file).await.map_err(failed)?;
        let mut stream = body.into_data_stream();
        let (mut size, mut hash) = (0_u64, Sha256::new());
        let max_bytes = self.max_bytes.load(Ordering::SeqCst);
        while let Some(chunk) = stream.next().await {
            let chunk = chunk.map_err(|error| {
                listener::too_slow(&error).unwrap_or_else(|| {
                    Problem::bad_request(format!("the upload is incomplete: {error}"))
                })
            })?;
            size += chunk.len() as u64;
            if size > max_bytes {
                let detail = format!("the package is larger than {max_bytes} bytes");
                return Err(Problem::new(
                    StatusCode::PAYLOAD_TOO_LARGE,
                    "request.too-large",
                    detail,
                ));
            }
            if size >= reservation.bytes() + RESERVATION_STEP {
                reservation.set(size).await?;
            }
            out.write_all(&chunk).await.map_err(failed)?;
            hash.update(&chunk);
        }
        reservation.set(size).await?;
        // `flush` reports pending write errors; `sync_all` does not.
        out.flush().await.map_err(failed)?;
        out.sync_all().await.map_err(failed)?;
        Ok(hex::encode(hash.finalize()))
    }

    async fn set_state(
        &self,
        record: &mut PackageRecord,
        state: PackageOnboardingState,
    ) -> HandlerResult<()> {
        record.info.onboarding_state = state;
        Ok(self.put(record).await?)
    }

    async fn refuse(
        &self,
        record: &mut PackageRecord,
        reason: ProblemDetails,
    ) -> HandlerResult<()> {
        record.fetching = SecretJson::default();
        record.info.onboarding_state = PackageOnboardingState::Error;
        record.info.operational_state = PackageOperationalState::Disabled;
        record.info.onboarding_failure_details = Some(reason);
        Ok(self.put(record).await?)
    }

    /// Writes the onboarding results, without overwriting concurrent modifications.
    async fn put(&self, record: &mut PackageRecord) -> Result<(), StoreError> {
        let _writing = self.writing.lock().await;
        let now = self
            .store
            .package_record(&record.tenant, &record.info.id)
            .await?;
        record.info.user_defined_data = now.info.user_defined_data;
        self.store
            .write(None, vec![Change::PutPackage(Box::new(record.clone()))])
            .await
    }

    /// Deletes a package that is DISABLED and not used by any instance (SOL005 9.4.3.3.5).
    ///
    /// # Errors
    ///
    /// 404; 409 with the instances that use it, or because it is ENABLED.
    pub(crate) async fn delete(&self, tenant: &str, id: &str) -> HandlerResult<()> {
        // Prevents it from being enabled meanwhile.
        let _writing = self.writing.lock().await;
        let info = self.store.package_record(tenant, id).await?.info;
        let is_enabled = info.operational_state == PackageOperationalState::Enabled;
        if is_enabled && info.usage_state == PackageUsageState::NotInUse {
            let detail = format!("package `{id}` is ENABLED");
            let problem = Problem::new(StatusCode::CONFLICT, "request.wrong-state", detail);
            return Err(problem.hint("set its operationalState to DISABLED, then delete it"));
        }
        self.remove(tenant, id).await
    }

    /// Deletes a package that no instance uses, in any operational state.
    pub(crate) async fn remove(&self, tenant: &str, id: &str) -> HandlerResult<()> {
        let removal = Change::RemovePackage {
            tenant: tenant.to_owned(),
            id: id.to_owned(),
        };
        self.store.write(None, vec![removal]).await?;
        if let Err(error) = self.packages.remove(id).await {
            tracing::warn!(id, %error, "cannot remove the file of a deleted package");
        }
        Ok(())
    }
}

/// A received file, its SHA-256 if computed while receiving, and its quota reservation.
struct Received {
    file: PathBuf,
    sha256: Option<String>,
    reservation: QuotaReservation,
}

/// The reservation grows in steps of this many bytes.
const RESERVATION_STEP: u64 = 4 * 1024 * 1024;

fn not_onboarded(reason: String) -> Problem {
    Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "package.refused", reason)
}

/// The server's disk rejects a package; logged for the operator.
fn not_written(reason: String) -> Problem {
    tracing::error!(reason, "cannot store a package");
    Problem::new(
        StatusCode::INSUFFICIENT_STORAGE,
        "package.not-written",
        reason,
    )
}

async fn remove(file: &Path) {
    match tokio::fs::remove_file(file).await {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            tracing::warn!(file = %file.display(), %error, "cannot remove the file of an upload");
        }
        _ => {}
    }
}
