//! Onboarding a package (SOL005 9.3.2): an upload goes to a temporary file, is checked as a whole, and is kept, or
//! refused with every finding.
//!
//! ```text
//! CREATED ──upload, from a URI, from the NFVO──► UPLOADING ──► PROCESSING ──► ONBOARDED
//!                                                    └────────────┴──refused──► ERROR  (onboardingFailureDetails)
//! ```
//! | file | what |
//! |---|---|
//! | here | records, uploads, the check |
//! | `onboarding/aside.rs` | what of a quota is set aside for a package that is arriving |
//! | `onboarding/fetched.rs` | content that this server fetches: from a URI, from the NFVO |
//! | `onboarding/held.rs` | what a package holds, for its record |
//! | `onboarding/modified.rs` | enabled, disabled, `userDefinedData`; what the NFVO says of its packages |
//! | `onboarding/served.rs` | archive, VNFD, manifest and artifacts, for those who fetch them |

mod aside;
mod fetched;
mod held;
mod modified;
mod served;

pub use fetched::{Fetch, go_on};
pub use served::Accepts;

use self::aside::Aside;
use crate::externals::Externals;
use crate::listener;
use crate::problem::{Answer, Problem};
use crate::signatures::{NotUnwrapped, Signatures, Verdict, hexadecimal};
use axum::body::Body;
use axum::http::StatusCode;
use futures::StreamExt as _;
use sha2::{Digest as _, Sha256};
use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::io::AsyncWriteExt as _;
use vnfm_core::ports::{
    Change, HookDriverRef, MgmtDrivers, PackageRecord, SecretJson, Store, StoreError,
};
use vnfm_descriptor::Package;
use vnfm_store::{PackageDir, PackageFailure};
use vnfm_types::{
    Checksum, KeyValuePairs, PackageOnboardingState, PackageOperationalState, PackageUsageState,
    ProblemDetails, VnfPkgInfo,
};

/// Takes packages in.
pub struct Onboarding {
    store: Arc<dyn Store>,
    packages: Arc<PackageDir>,
    mgmt: Arc<dyn MgmtDrivers>,
    signatures: Arc<Signatures>,
    externals: Externals,
    largest: AtomicU64,
    /// Held while a record is read and written.
    writing: tokio::sync::Mutex<()>,
    /// Packages whose content is being taken in, by this process.
    taking: Arc<Mutex<HashSet<String>>>,
}

/// That a package's content is being taken in; nobody else takes it in until this is dropped.
pub(crate) struct Taking {
    id: String,
    all: Arc<Mutex<HashSet<String>>>,
}

impl Drop for Taking {
    fn drop(&mut self) {
        self.all
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .remove(&self.id);
    }
}

impl Onboarding {
    /// Onboarding into `packages`, at most `largest` bytes each; hooks have to be served by `mgmt`, `signatures` tells
    /// whose packages are taken, and `externals` fetches what lies outside of them.
    pub fn new(
        store: Arc<dyn Store>,
        packages: Arc<PackageDir>,
        mgmt: Arc<dyn MgmtDrivers>,
        (signatures, externals): (Signatures, Externals),
        largest: u64,
    ) -> Self {
        Self {
            store,
            packages,
            mgmt,
            signatures: Arc::new(signatures),
            externals,
            largest: largest.into(),
            writing: tokio::sync::Mutex::default(),
            taking: Arc::default(),
        }
    }

    /// Another size of the largest package from now on, in bytes.
    pub fn set_largest(&self, largest: u64) {
        self.largest.store(largest, Ordering::SeqCst);
    }

    /// A record without content.
    ///
    /// # Errors
    ///
    /// 503 where the database does not answer.
    pub async fn create(&self, tenant: &str, data: KeyValuePairs) -> Answer<PackageRecord> {
        let record = PackageRecord {
            tenant: tenant.to_owned(),
            info: VnfPkgInfo {
                id: uuid::Uuid::new_v4().to_string(),
                vnfd_id: None,
                vnf_provider: None,
                vnf_product_name: None,
                vnf_software_version: None,
                vnfd_version: None,
                checksum: None,
                package_security_option: None,
                signing_certificate: None,
                vnfm_info: Vec::new(),
                software_images: Vec::new(),
                additional_artifacts: Vec::new(),
                onboarding_state: PackageOnboardingState::Created,
                operational_state: PackageOperationalState::Disabled,
                usage_state: PackageUsageState::NotInUse,
                user_defined_data: data,
                onboarding_failure_details: None,
                warnings: Vec::new(),
                nfvo: None,
                links: None,
            },
            fetching: SecretJson::default(),
        };
        self.store
            .write(None, vec![Change::AddPackage(Box::new(record.clone()))])
            .await?;
        Ok(record)
    }

    /// Takes the content in; the record says how it went.
    ///
    /// # Errors
    ///
    /// 404, 409 where there is content already, 413, 503. What is wrong with the package itself is in the record.
    pub async fn upload(&self, tenant: &str, id: &str, body: Body) -> Answer<()> {
        let (mut record, _taking) = self.begin((tenant, id), SecretJson::default()).await?;
        let file = self.packages.incoming();
        let mut aside = Aside::new(&self.store, tenant);
        let received = match self.receive(body, &file, &mut aside).await {
            Ok(sha256) => Received {
                file,
                sha256: Some(sha256),
                aside,
            },
            Err(problem) => {
                aside.give_back().await;
                self.refuse(&mut record, problem.details().clone()).await?;
                remove(&file).await;
                return Err(problem);
            }
        };
        self.take_in(&mut record, received).await
    }

    /// Begins to take content in: the record is UPLOADING, and keeps the request by which it is fetched.
    ///
    /// A state in the middle that nobody here is at was left by a process or a client that has gone, and is begun anew.
    async fn begin(
        &self,
        (tenant, id): (&str, &str),
        fetching: SecretJson,
    ) -> Answer<(PackageRecord, Taking)> {
        self.store.package_record(tenant, id).await?;
        let refused =
            |what: String| Problem::new(StatusCode::CONFLICT, "request.wrong-state", what);
        let is_first = {
            let mut all = self.taking.lock().unwrap_or_else(PoisonError::into_inner);
            all.insert(id.to_owned())
        };
        if !is_first {
            return Err(refused(format!(
                "the content of package `{id}` is on its way already"
            )));
        }
        let taking = Taking {
            id: id.to_owned(),
            all: self.taking.clone(),
        };
        let mut record = self.store.package_record(tenant, id).await?;
        if record.info.onboarding_state == PackageOnboardingState::Onboarded {
            return Err(refused(format!("package `{id}` has content already")));
        }
        record.info.onboarding_failure_details = None;
        record.fetching = fetching;
        self.note(&mut record, PackageOnboardingState::Uploading)
            .await?;
        Ok((record, taking))
    }

    /// Checks what has come; the record says how it went.
    async fn take_in(&self, record: &mut PackageRecord, came: Received) -> Answer<()> {
        if let Err(problem) = self.note(record, PackageOnboardingState::Processing).await {
            remove(&came.file).await;
            return Err(problem);
        }
        match self.check(record, came).await {
            Ok(()) => Ok(()),
            Err(problem) => self.refuse(record, problem.details().clone()).await,
        }
    }

    /// Writes the body into `file`, bounded; tells its SHA-256, which costs no time while bytes are on their way.
    async fn receive(&self, body: Body, file: &Path, aside: &mut Aside) -> Answer<String> {
        let failed =
            |error: std::io::Error| not_written(format!("the upload cannot be written: {error}"));
        let mut out = tokio::fs::File::create(file).await.map_err(failed)?;
        let mut stream = body.into_data_stream();
        let (mut size, mut hash) = (0_u64, Sha256::new());
        let largest = self.largest.load(Ordering::SeqCst);
        while let Some(chunk) = stream.next().await {
            let chunk = chunk.map_err(|error| {
                listener::too_slow(&error).unwrap_or_else(|| {
                    Problem::bad_request(format!("the upload did not arrive whole: {error}"))
                })
            })?;
            size += chunk.len() as u64;
            if size > largest {
                let what = format!("the package is larger than {largest} bytes");
                return Err(Problem::new(
                    StatusCode::PAYLOAD_TOO_LARGE,
                    "request.too-large",
                    what,
                ));
            }
            if size >= aside.bytes() + STEP {
                aside.set(size).await?;
            }
            out.write_all(&chunk).await.map_err(failed)?;
            hash.update(&chunk);
        }
        aside.set(size).await?;
        // What is on its way to the file fails here; `sync_all` would keep that to itself.
        out.flush().await.map_err(failed)?;
        out.sync_all().await.map_err(failed)?;
        Ok(hexadecimal(&hash.finalize()))
    }

    /// Reads the package as a whole, and keeps it where nothing is wrong with it.
    async fn check(&self, record: &mut PackageRecord, received: Received) -> Answer<()> {
        let id = record.info.id.clone();
        let (
            Received {
                file,
                sha256,
                mut aside,
            },
            signed,
        ) = self.unwrapped(received).await?;
        let stored = match sha256 {
            Some(sha256) => self.packages.store_hashed(&id, file, sha256).await,
            None => self.packages.store(&id, file).await,
        };
        let package = stored.map_err(|failure| match failure {
            PackageFailure::Refused(_) => not_onboarded(failure.to_string()),
            _ => not_written(failure.to_string()),
        })?;
        let accepted = match self.accepted(record, package.clone(), signed).await {
            Ok(()) => self.fetch(&id, &package, &mut aside).await,
            Err(problem) => Err(problem),
        };
        let accepted = match accepted {
            Ok(()) => self.described(record, package).await,
            Err(problem) => Err(problem),
        };
        record.fetching = SecretJson::default();
        let kept = match accepted {
            Ok(()) => match self.keep(record, &mut aside).await {
                Err(StoreError::Exists { .. }) => Err(taken(record)),
                // Somebody has deleted it meanwhile, or others have filled the quota.
                Err(error @ (StoreError::NotFound { .. } | StoreError::QuotaExceeded { .. })) => {
                    Err(error.into())
                }
                outcome => return Ok(outcome?),
            },
            Err(problem) => Err(problem),
        };
        aside.give_back().await;
        record.info.vnfd_id = None;
        record.info.checksum = None;
        record.info.package_security_option = None;
        record.info.signing_certificate = None;
        record.info.software_images.clear();
        record.info.additional_artifacts.clear();
        if let Err(error) = self.packages.remove(&id).await {
            tracing::warn!(id, %error, "the file of a refused package stays");
        }
        kept
    }

    /// The package itself: what was uploaded, or what lies in its outer archive, with what its signature says.
    async fn unwrapped(&self, upload: Received) -> Answer<(Received, Option<Verdict>)> {
        let (signatures, limits) = (self.signatures.clone(), *self.packages.limits());
        let (from, inner) = (upload.file.clone(), self.packages.incoming());
        let largest = self.largest.load(Ordering::SeqCst);
        let to = inner.clone();
        let looking =
            tokio::task::spawn_blocking(move || signatures.unwrap(&from, (&to, largest), &limits));
        match looking.await.map_err(|error| Problem::bug(&error))? {
            Ok(None) => Ok((upload, None)),
            Ok(Some((verdict, sha256))) => {
                remove(&upload.file).await;
                let received = Received {
                    file: inner,
                    sha256: Some(sha256),
                    aside: upload.aside,
                };
                Ok((received, Some(verdict)))
            }
            Err(why) => {
                remove(&upload.file).await;
                remove(&inner).await;
                Err(match why {
                    NotUnwrapped::Refused(why) => not_onboarded(why),
                    NotUnwrapped::NotWritten(why) => not_written(why),
                })
            }
        }
    }

    /// Writes what the package is into its record, unless its signatures or hooks refuse it.
    async fn accepted(
        &self,
        record: &mut PackageRecord,
        package: Arc<Package>,
        signed: Option<Verdict>,
    ) -> Answer<()> {
        let info = &mut record.info;
        info.warnings = package.warnings().iter().map(ToString::to_string).collect();
        let (signatures, inside) = (self.signatures.clone(), package.clone());
        let verdict = match signed {
            Some(verdict) => verdict,
            None => tokio::task::spawn_blocking(move || signatures.inside(&inside))
                .await
                .map_err(|error| Problem::bug(&error))?
                .map_err(not_onboarded)?,
        };
        self.signatures.note(verdict, info).map_err(not_onboarded)?;
        let vnfd = package.vnfd();
        info.vnfd_id = Some(vnfd.descriptor_id.clone());
        info.vnf_provider = Some(vnfd.provider.clone());
        info.vnf_product_name = Some(vnfd.product_name.clone());
        info.vnf_software_version = Some(vnfd.software_version.clone());
        info.vnfd_version = Some(vnfd.descriptor_version.clone());
        info.vnfm_info.clone_from(&vnfd.vnfm_info);
        let hash = package.sha256().to_owned();
        info.checksum = Some(Checksum {
            algorithm: "SHA-256".into(),
            hash,
        });
        info.onboarding_state = PackageOnboardingState::Onboarded;
        info.operational_state = PackageOperationalState::Enabled;
        info.onboarding_failure_details = None;
        let warnings = self.served(package).await?;
        record.info.warnings.extend(warnings);
        Ok(())
    }

    /// Fetches the external artifacts of a package; together they are no larger than a package may be.
    async fn fetch(&self, id: &str, package: &Package, aside: &mut Aside) -> Answer<()> {
        let mut left = self.largest.load(Ordering::SeqCst);
        for external in package.externals() {
            let to = self.packages.external(id, external);
            let to = to.map_err(|error| not_onboarded(error.to_string()))?;
            let part = self.packages.incoming();
            let fetched = self.externals.fetch(external, left, (&part, &to)).await;
            let size = fetched.map_err(not_onboarded)?;
            aside.set(aside.bytes() + size).await?;
            left = left.saturating_sub(size);
        }
        Ok(())
    }

    /// Writes what the package holds into its record.
    async fn described(&self, record: &mut PackageRecord, package: Arc<Package>) -> Answer<()> {
        let at = self.signatures.clock().now();
        let looking = tokio::task::spawn_blocking(move || held::of(&package, at)).await;
        let held = looking.map_err(|error| Problem::bug(&error))?;
        let held = held.map_err(not_onboarded)?;
        record.info.software_images = held.images;
        record.info.additional_artifacts = held.artifacts;
        Ok(())
    }

    /// Refuses hooks that their plugin does not declare; one whose plugin is not there (yet) is a warning.
    async fn served(&self, package: Arc<Package>) -> Answer<Vec<String>> {
        let mgmt = self.mgmt.clone();
        let looking = tokio::task::spawn_blocking(move || hooks(&*mgmt, &package));
        let (warnings, undeclared) = looking.await.map_err(|error| Problem::bug(&error))?;
        if undeclared.is_empty() {
            Ok(warnings)
        } else {
            Err(not_onboarded(undeclared.join("\n")))
        }
    }

    async fn note(&self, record: &mut PackageRecord, state: PackageOnboardingState) -> Answer<()> {
        record.info.onboarding_state = state;
        Ok(self.put(record).await?)
    }

    async fn refuse(&self, record: &mut PackageRecord, why: ProblemDetails) -> Answer<()> {
        record.fetching = SecretJson::default();
        record.info.onboarding_state = PackageOnboardingState::Error;
        record.info.operational_state = PackageOperationalState::Disabled;
        record.info.onboarding_failure_details = Some(why);
        Ok(self.put(record).await?)
    }

    /// Writes what onboarding has found; what only a modification changes stays as it is by now.
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

    /// Deletes a package that is DISABLED and that no instance was made from (SOL005 9.4.3.3.5).
    ///
    /// # Errors
    ///
    /// 404; 409 with the instances that need it, or that it is ENABLED.
    pub async fn delete(&self, tenant: &str, id: &str) -> Answer<()> {
        // Nobody enables it meanwhile.
        let _writing = self.writing.lock().await;
        let info = self.store.package_record(tenant, id).await?.info;
        let is_enabled = info.operational_state == PackageOperationalState::Enabled;
        if is_enabled && info.usage_state == PackageUsageState::NotInUse {
            let what = format!("package `{id}` is ENABLED");
            let problem = Problem::new(StatusCode::CONFLICT, "request.wrong-state", what);
            return Err(problem.next("make its operationalState DISABLED, then delete it"));
        }
        self.remove(tenant, id).await
    }

    /// Deletes a package that no instance was made from, whatever its operational state.
    pub(crate) async fn remove(&self, tenant: &str, id: &str) -> Answer<()> {
        let gone = Change::RemovePackage {
            tenant: tenant.to_owned(),
            id: id.to_owned(),
        };
        self.store.write(None, vec![gone]).await?;
        if let Err(error) = self.packages.remove(id).await {
            tracing::warn!(id, %error, "the file of a deleted package stays");
        }
        Ok(())
    }
}

/// A file that was just written, with its SHA-256 where that was computed on the way, and what is set aside for it.
struct Received {
    file: PathBuf,
    sha256: Option<String>,
    aside: Aside,
}

/// How many bytes arrive before they are set aside.
const STEP: u64 = 4 * 1024 * 1024;

/// Warnings, and what is wrong: loads libraries, which takes its time.
fn hooks(mgmt: &dyn MgmtDrivers, package: &Package) -> (Vec<String>, Vec<String>) {
    let (mut warnings, mut undeclared) = (Vec::new(), Vec::new());
    for (flavour, hook) in package
        .vnfd()
        .flavours
        .iter()
        .flat_map(|(id, f)| f.hooks().iter().map(move |hook| (id, hook)))
    {
        let named = format!("hook `{}` of flavour `{flavour}`", hook.operation);
        match mgmt.for_hook(&HookDriverRef::of(hook, package)) {
            Err(error) => {
                warnings.push(format!(
                    "{named} is not served: {error} (hint: {})",
                    error.next()
                ));
            }
            Ok(driver) if !driver.declaration().hooks.contains_key(&hook.operation) => {
                let says = driver.declaration();
                let declared: Vec<_> = says.hooks.keys().map(String::as_str).collect();
                undeclared.push(format!(
                    "{named} is not among those that `{}` {} declares: {}",
                    says.name,
                    says.version,
                    declared.join(", ")
                ));
            }
            Ok(_) => {}
        }
    }
    (warnings, undeclared)
}

fn taken(record: &PackageRecord) -> Problem {
    let vnfd = record.info.vnfd_id.as_deref().unwrap_or_default();
    not_onboarded(format!(
        "another package with vnfdId `{vnfd}` is onboarded; delete it first"
    ))
}

fn not_onboarded(why: String) -> Problem {
    Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "package.refused", why)
}

/// Our disk does not take a package; whoever runs the server hears of it.
fn not_written(why: String) -> Problem {
    tracing::error!(why, "a package cannot be kept");
    Problem::new(StatusCode::INSUFFICIENT_STORAGE, "package.not-written", why)
}

async fn remove(file: &Path) {
    match tokio::fs::remove_file(file).await {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            tracing::warn!(file = %file.display(), %error, "an upload's file stays");
        }
        _ => {}
    }
}
