//! Checks a received package, and stores it if nothing is wrong with it.

use super::quota_reservation::QuotaReservation;
use super::{Onboarding, Received, contents, not_onboarded, not_written, remove};
use crate::problem::{HandlerResult, Problem};
use crate::signatures::{UnwrapError, Verdict};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use vnfm_core::ports::{HookDriverRef, MgmtDrivers, PackageRecord, SecretJson, StoreError};
use vnfm_descriptor::Package;
use vnfm_store::PackageFailure;
use vnfm_types::{Checksum, PackageOnboardingState, PackageOperationalState};

impl Onboarding {
    /// Checks the complete package, and stores it if there are no errors.
    pub(super) async fn check(
        &self,
        record: &mut PackageRecord,
        received: Received,
    ) -> HandlerResult<()> {
        let id = record.info.id.clone();
        let (
            Received {
                file,
                sha256,
                mut reservation,
            },
            signed,
        ) = self.unwrap_signed(received).await?;
        let stored = match sha256 {
            Some(sha256) => self.packages.store_hashed(&id, file, sha256).await,
            None => self.packages.store(&id, file).await,
        };
        let package = stored.map_err(|failure| match failure {
            PackageFailure::Refused(_) => not_onboarded(failure.to_string()),
            _ => not_written(failure.to_string()),
        })?;
        let accepted = match self.accept(record, package.clone(), signed).await {
            Ok(()) => self.fetch_externals(&id, &package, &mut reservation).await,
            Err(problem) => Err(problem),
        };
        let accepted = match accepted {
            Ok(()) => self.describe_contents(record, package).await,
            Err(problem) => Err(problem),
        };
        record.fetching = SecretJson::default();
        let outcome = match accepted {
            Ok(()) => match self.keep(record, &mut reservation).await {
                Err(StoreError::Exists { .. }) => Err(vnfd_id_in_use(record)),
                // Deleted meanwhile, or other uploads used up the quota.
                Err(error @ (StoreError::NotFound { .. } | StoreError::QuotaExceeded { .. })) => {
                    Err(error.into())
                }
                outcome => return Ok(outcome?),
            },
            Err(problem) => Err(problem),
        };
        reservation.release_now().await;
        record.info.vnfd_id = None;
        record.info.checksum = None;
        record.info.package_security_option = None;
        record.info.signing_certificate = None;
        record.info.software_images.clear();
        record.info.additional_artifacts.clear();
        if let Err(error) = self.packages.remove(&id).await {
            tracing::warn!(id, %error, "cannot remove the file of a refused package");
        }
        outcome
    }

    /// The package itself: the upload, or the package in its outer archive with the signature's verdict.
    async fn unwrap_signed(&self, upload: Received) -> HandlerResult<(Received, Option<Verdict>)> {
        let (signatures, limits) = (self.signatures.clone(), *self.packages.limits());
        let (from, inner) = (upload.file.clone(), self.packages.incoming());
        let max_bytes = self.max_bytes.load(Ordering::SeqCst);
        let to = inner.clone();
        let unwrapping = tokio::task::spawn_blocking(move || {
            signatures.unwrap(&from, (&to, max_bytes), &limits)
        });
        match unwrapping.await.map_err(|error| Problem::bug(&error))? {
            Ok(None) => Ok((upload, None)),
            Ok(Some((verdict, sha256))) => {
                remove(&upload.file).await;
                let received = Received {
                    file: inner,
                    sha256: Some(sha256),
                    reservation: upload.reservation,
                };
                Ok((received, Some(verdict)))
            }
            Err(error) => {
                remove(&upload.file).await;
                remove(&inner).await;
                Err(match error {
                    UnwrapError::Refused(reason) => not_onboarded(reason),
                    UnwrapError::NotWritten(reason) => not_written(reason),
                })
            }
        }
    }

    /// Writes the package's properties into its record, unless its signatures or hooks are refused.
    async fn accept(
        &self,
        record: &mut PackageRecord,
        package: Arc<Package>,
        signed: Option<Verdict>,
    ) -> HandlerResult<()> {
        let info = &mut record.info;
        info.warnings = package.warnings().iter().map(ToString::to_string).collect();
        let (signatures, inside) = (self.signatures.clone(), package.clone());
        let verdict = match signed {
            Some(verdict) => verdict,
            None => tokio::task::spawn_blocking(move || signatures.verify(&inside))
                .await
                .map_err(|error| Problem::bug(&error))?
                .map_err(not_onboarded)?,
        };
        self.signatures
            .apply(verdict, info)
            .map_err(not_onboarded)?;
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
        let warnings = self.check_hooks(package).await?;
        record.info.warnings.extend(warnings);
        Ok(())
    }

    /// Fetches the external artifacts of a package; their total size is limited like that of a package.
    async fn fetch_externals(
        &self,
        id: &str,
        package: &Package,
        reservation: &mut QuotaReservation,
    ) -> HandlerResult<()> {
        let mut left = self.max_bytes.load(Ordering::SeqCst);
        for external in package.externals() {
            let to = self.packages.external(id, external);
            let to = to.map_err(|error| not_onboarded(error.to_string()))?;
            let part = self.packages.incoming();
            let fetched = self.externals.fetch(external, left, (&part, &to)).await;
            let size = fetched.map_err(not_onboarded)?;
            reservation.set(reservation.bytes() + size).await?;
            left = left.saturating_sub(size);
        }
        Ok(())
    }

    /// Writes the package's contents into its record.
    async fn describe_contents(
        &self,
        record: &mut PackageRecord,
        package: Arc<Package>,
    ) -> HandlerResult<()> {
        let at = self.signatures.clock().now();
        let contents = tokio::task::spawn_blocking(move || contents::read(&package, at)).await;
        let contents = contents.map_err(|error| Problem::bug(&error))?;
        let contents = contents.map_err(not_onboarded)?;
        record.info.software_images = contents.images;
        record.info.additional_artifacts = contents.artifacts;
        Ok(())
    }

    /// Refuses hooks that their plugin does not declare; a missing plugin is only a warning.
    async fn check_hooks(&self, package: Arc<Package>) -> HandlerResult<Vec<String>> {
        let mgmt = self.mgmt.clone();
        let checking = tokio::task::spawn_blocking(move || hook_findings(&*mgmt, &package));
        let (warnings, undeclared) = checking.await.map_err(|error| Problem::bug(&error))?;
        if undeclared.is_empty() {
            Ok(warnings)
        } else {
            Err(not_onboarded(undeclared.join("\n")))
        }
    }
}

/// Returns warnings and errors. Loads plugin libraries, so it blocks.
fn hook_findings(mgmt: &dyn MgmtDrivers, package: &Package) -> (Vec<String>, Vec<String>) {
    let (mut warnings, mut undeclared) = (Vec::new(), Vec::new());
    for (flavour, hook) in package
        .vnfd()
        .flavours
        .iter()
        .flat_map(|(id, f)| f.hooks().iter().map(move |hook| (id, hook)))
    {
        let named = format!("hook `{}` of flavour `{flavour}`", hook.operation);
        if !hook.is_called() {
            warnings.push(format!(
                "{named} is never called: a rollback undoes the steps, and calls no hook of its own"
            ));
            continue;
        }
        match mgmt.resolve(&HookDriverRef::for_hook(hook, package)) {
            Err(error) => {
                warnings.push(format!(
                    "{named} has no plugin: {error} (hint: {})",
                    error.next()
                ));
            }
            Ok(driver) if !driver.declaration().hooks.contains_key(&hook.operation) => {
                let declaration = driver.declaration();
                let declared: Vec<_> = declaration.hooks.keys().map(String::as_str).collect();
                undeclared.push(format!(
                    "{named} is not declared by `{}` {}, which declares: {}",
                    declaration.name,
                    declaration.version,
                    declared.join(", ")
                ));
            }
            Ok(_) => {}
        }
    }
    (warnings, undeclared)
}

fn vnfd_id_in_use(record: &PackageRecord) -> Problem {
    let vnfd = record.info.vnfd_id.as_deref().unwrap_or_default();
    not_onboarded(format!("another package with vnfdId `{vnfd}` is onboarded")).hint(
        "`vnfmctl package list` shows it; delete it, or give this VNFD another `descriptor_id`",
    )
}
