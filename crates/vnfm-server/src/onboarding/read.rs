//! Reads onboarded packages for clients: the archive (SOL005 9.4.5), VNFD (9.4.4), manifest (9.4.4b), artifacts
//! (9.4.5a, 9.4.7). [`crate::artifacts`] selects the files, [`crate::content`] sends them.

use super::Onboarding;
use crate::artifacts::{self, Files, Selection};
use crate::content::{Content, Source};
use crate::problem::{HandlerResult, Problem};
use axum::http::StatusCode;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io::{self, Seek as _};
use std::path::Path;
use std::sync::Arc;
use tokio::task::spawn_blocking;
use vnfm_core::Refusal;
use vnfm_core::ports::{PackageRecord, Packages as _};
use vnfm_descriptor::Package;
use vnfm_types::PackageOnboardingState;

const ZIP: &str = "application/zip";
const TEXT: &str = "text/plain; charset=utf-8";
const BYTES: &str = "application/octet-stream";

/// The media types that a client accepts.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Accepts {
    /// An archive of files: `application/zip`.
    pub zip: bool,
    /// A single text file: `text/plain`.
    pub text: bool,
}

impl Onboarding {
    /// The archive of a package.
    ///
    /// # Errors
    ///
    /// 404; 409 if the package is not onboarded.
    pub(crate) async fn archive(&self, tenant: &str, id: &str) -> HandlerResult<Content> {
        let record = self.onboarded(tenant, id).await?;
        let path = self.packages.path(id);
        let path = path.map_err(|error| Problem::from(Refusal::unprocessable(error)))?;
        let file = tokio::fs::File::open(path)
            .await
            .map_err(|error| Problem::bug(&error))?;
        let size = file
            .metadata()
            .await
            .map_err(|error| Problem::bug(&error))?
            .len();
        let tag = record
            .info
            .checksum
            .map(|checksum| checksum.hash)
            .unwrap_or_default();
        Ok(Content {
            source: Source::File(file),
            size,
            kind: ZIP,
            tag,
        })
    }

    /// The VNFD: a single file as text, several in an archive, with their signatures if requested.
    ///
    /// # Errors
    ///
    /// 404; 406 if the client does not accept the media type; 409 if the package is not onboarded.
    pub(crate) async fn vnfd(
        &self,
        (tenant, id): (&str, &str),
        signatures: bool,
        accepts: Accepts,
    ) -> HandlerResult<Content> {
        let package = self.opened(tenant, id).await?;
        let files = artifacts::of_vnfd(&package, signatures);
        let others = files
            .keys()
            .filter(|path| is_tosca(path) && *path != package.entry())
            .count();
        if !signatures && others == 0 && accepts.text {
            let entry = package.entry().to_owned();
            return file(package, entry, TEXT);
        }
        if !accepts.zip {
            return Err(unacceptable(if signatures || others > 0 {
                ZIP
            } else {
                "text/plain"
            }));
        }
        self.archive_of(package, files).await
    }

    /// The manifest, with the certificate of its signature if that is requested and in a separate file.
    ///
    /// # Errors
    ///
    /// 404, also if the package has no manifest; 406; 409 if the package is not onboarded.
    pub(crate) async fn manifest(
        &self,
        (tenant, id): (&str, &str),
        signatures: bool,
        accepts: Accepts,
    ) -> HandlerResult<Content> {
        let package = self.opened(tenant, id).await?;
        let Some(manifest) = package.manifest().map(|manifest| manifest.path.clone()) else {
            return Err(Problem::not_found(format!(
                "package `{id}` has no manifest"
            )));
        };
        let files = artifacts::of_manifest(&package);
        if signatures && !accepts.zip {
            return Err(unacceptable(ZIP));
        }
        if signatures && files.len() > 1 {
            return self.archive_of(package, files).await;
        }
        if !accepts.text && !signatures {
            return Err(unacceptable("text/plain"));
        }
        file(package, manifest, TEXT)
    }

    /// One artifact, by its path in the package or its URI; in an archive with its
    /// signature and certificate if requested.
    ///
    /// # Errors
    ///
    /// 404; 406; 409 if the package is not onboarded.
    pub(crate) async fn artifact(
        &self,
        (tenant, id): (&str, &str),
        path: &str,
        (signatures, accepts): (bool, Accepts),
    ) -> HandlerResult<Content> {
        let package = self.opened(tenant, id).await?;
        let absent = || Problem::not_found(format!("package `{id}` has no artifact `{path}`"));
        let found = match package
            .externals()
            .iter()
            .find(|external| external.uri == path)
        {
            Some(external) => external.uri.clone(),
            None => vnfm_descriptor::normalise(path).map_err(|_| absent())?,
        };
        if package.size(&found).is_err() {
            return Err(absent());
        }
        if !signatures {
            return file(package, found, BYTES);
        }
        if !accepts.zip {
            return Err(unacceptable(ZIP));
        }
        let files = artifacts::of_file(&package, &found);
        self.archive_of(package, files).await
    }

    /// The selected artifacts in an archive.
    ///
    /// # Errors
    ///
    /// 404; 409 if the package is not onboarded.
    pub(crate) async fn artifacts(
        &self,
        (tenant, id): (&str, &str),
        selection: Selection,
    ) -> HandlerResult<Content> {
        let package = self.opened(tenant, id).await?;
        let opened = package.clone();
        let selecting = spawn_blocking(move || artifacts::selected(&opened, &selection)).await;
        let files = selecting.map_err(|error| Problem::bug(&error))?;
        let files = files.map_err(|error| Problem::bug(&io::Error::other(error)))?;
        self.archive_of(package, files).await
    }

    async fn onboarded(&self, tenant: &str, id: &str) -> HandlerResult<PackageRecord> {
        let record = self.store.package_record(tenant, id).await?;
        if record.info.onboarding_state == PackageOnboardingState::Onboarded {
            return Ok(record);
        }
        let detail = format!("package `{id}` is not ONBOARDED");
        Err(Problem::new(
            StatusCode::CONFLICT,
            "request.wrong-state",
            detail,
        ))
    }

    async fn opened(&self, tenant: &str, id: &str) -> HandlerResult<Arc<Package>> {
        self.onboarded(tenant, id).await?;
        let package = self.packages.package(tenant, id).await;
        package.map_err(|error| Problem::from(Refusal::unprocessable(error)))
    }

    /// An archive of the files, with identical bytes each time.
    async fn archive_of(&self, package: Arc<Package>, files: Files) -> HandlerResult<Content> {
        let mut hasher = DefaultHasher::new();
        files.hash(&mut hasher);
        let tag = format!("{}-{:016x}", package.sha256(), hasher.finish());
        let path = self.packages.incoming();
        let writing = spawn_blocking(move || write_archive(&package, &files, &path)).await;
        let file = writing.map_err(|error| Problem::bug(&error))?;
        let file = file.map_err(|error| {
            tracing::error!(%error, "cannot write an archive for a client");
            let detail = format!("cannot write the archive: {error}");
            Problem::new(
                StatusCode::INSUFFICIENT_STORAGE,
                "package.not-written",
                detail,
            )
        })?;
        let size = file.metadata().map_err(|error| Problem::bug(&error))?.len();
        let source = Source::File(tokio::fs::File::from_std(file));
        Ok(Content {
            source,
            size,
            kind: ZIP,
            tag,
        })
    }
}

fn file(package: Arc<Package>, path: String, kind: &'static str) -> HandlerResult<Content> {
    let size = package.size(&path).map_err(|error| Problem::bug(&error))?;
    let mut hasher = DefaultHasher::new();
    path.hash(&mut hasher);
    let tag = format!("{}-{:016x}", package.sha256(), hasher.finish());
    Ok(Content {
        source: Source::Inside { package, path },
        size,
        kind,
        tag,
    })
}

/// Writes the archive into an unlinked file: it disappears when it is closed.
fn write_archive(package: &Package, files: &Files, path: &Path) -> Result<std::fs::File, String> {
    let create = || -> io::Result<std::fs::File> {
        let file = std::fs::File::options()
            .read(true)
            .write(true)
            .create_new(true)
            .open(path)?;
        std::fs::remove_file(path)?;
        Ok(file)
    };
    let mut file = create().map_err(|error| format!("`{}`: {error}", path.display()))?;
    vnfm_descriptor::excerpt(package, files, &mut file).map_err(|findings| findings.to_string())?;
    file.rewind().map_err(|error| error.to_string())?;
    Ok(file)
}

fn is_tosca(path: &str) -> bool {
    let extension = Path::new(path)
        .extension()
        .and_then(|extension| extension.to_str());
    extension.is_some_and(|own| {
        ["yaml", "yml"]
            .iter()
            .any(|one| own.eq_ignore_ascii_case(one))
    })
}

fn unacceptable(kind: &str) -> Problem {
    let detail =
        format!("the resource is available only as {kind}, which `Accept` does not include");
    Problem::new(StatusCode::NOT_ACCEPTABLE, "request.accept", detail)
}
