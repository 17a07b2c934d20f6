//! What is served of packages that are onboarded: the archive (SOL005 9.4.5), VNFD (9.4.4), manifest (9.4.4b), artifacts
//! (9.4.5a, 9.4.7). What is in a package is found in [`crate::artifacts`], how it is sent in [`crate::content`].

use super::Onboarding;
use crate::artifacts::{self, Files, Selection};
use crate::content::{Content, Source};
use crate::problem::{Answer, Problem};
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

/// What a client takes.
#[derive(Debug, Clone, Copy)]
pub struct Accepts {
    /// `application/zip`.
    pub zip: bool,
    /// `text/plain`.
    pub text: bool,
}

impl Onboarding {
    /// The archive of a package.
    ///
    /// # Errors
    ///
    /// 404; 409 where the package is not onboarded.
    pub async fn archive(&self, tenant: &str, id: &str) -> Answer<Content> {
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

    /// The VNFD: one file as text, several in an archive, with their signatures where they are asked for.
    ///
    /// # Errors
    ///
    /// 404; 406 where the client does not take what it is; 409 where the package is not onboarded.
    pub async fn vnfd(
        &self,
        (tenant, id): (&str, &str),
        signatures: bool,
        accepts: Accepts,
    ) -> Answer<Content> {
        let package = self.opened(tenant, id).await?;
        let files = artifacts::of_vnfd(&package, signatures);
        let others = files
            .keys()
            .filter(|path| is_tosca(path) && *path != package.entry())
            .count();
        if !signatures && others == 0 && accepts.text {
            let entry = package.entry().to_owned();
            return inside(package, entry, TEXT);
        }
        if !accepts.zip {
            return Err(unacceptable(if signatures || others > 0 {
                ZIP
            } else {
                "text/plain"
            }));
        }
        self.together(package, files).await
    }

    /// The manifest, with the certificate of its signature where that is asked for and lies in a file of its own.
    ///
    /// # Errors
    ///
    /// 404, also where the package has none; 406; 409 where the package is not onboarded.
    pub async fn manifest(
        &self,
        (tenant, id): (&str, &str),
        signatures: bool,
        accepts: Accepts,
    ) -> Answer<Content> {
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
            return self.together(package, files).await;
        }
        if !accepts.text && !signatures {
            return Err(unacceptable("text/plain"));
        }
        inside(package, manifest, TEXT)
    }

    /// One artifact, by its path in the package or by its URI; with what vouches for it in an archive, where that is asked
    /// for.
    ///
    /// # Errors
    ///
    /// 404; 406; 409 where the package is not onboarded.
    pub async fn artifact(
        &self,
        (tenant, id): (&str, &str),
        path: &str,
        (signatures, accepts): (bool, Accepts),
    ) -> Answer<Content> {
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
            return inside(package, found, BYTES);
        }
        if !accepts.zip {
            return Err(unacceptable(ZIP));
        }
        let files = artifacts::of_file(&package, &found);
        self.together(package, files).await
    }

    /// The artifacts that are selected, in an archive.
    ///
    /// # Errors
    ///
    /// 404; 409 where the package is not onboarded.
    pub async fn artifacts(
        &self,
        (tenant, id): (&str, &str),
        selection: Selection,
    ) -> Answer<Content> {
        let package = self.opened(tenant, id).await?;
        let of = package.clone();
        let selecting = spawn_blocking(move || artifacts::selected(&of, &selection)).await;
        let files = selecting.map_err(|error| Problem::bug(&error))?;
        let files = files.map_err(|error| Problem::bug(&io::Error::other(error)))?;
        self.together(package, files).await
    }

    async fn onboarded(&self, tenant: &str, id: &str) -> Answer<PackageRecord> {
        let record = self.store.package_record(tenant, id).await?;
        if record.info.onboarding_state == PackageOnboardingState::Onboarded {
            return Ok(record);
        }
        let what = format!("package `{id}` is not ONBOARDED");
        Err(Problem::new(
            StatusCode::CONFLICT,
            "request.wrong-state",
            what,
        ))
    }

    async fn opened(&self, tenant: &str, id: &str) -> Answer<Arc<Package>> {
        self.onboarded(tenant, id).await?;
        let package = self.packages.package(tenant, id).await;
        package.map_err(|error| Problem::from(Refusal::unprocessable(error)))
    }

    /// These files in an archive, which is the same each time.
    async fn together(&self, package: Arc<Package>, files: Files) -> Answer<Content> {
        let mut hasher = DefaultHasher::new();
        files.hash(&mut hasher);
        let tag = format!("{}-{:016x}", package.sha256(), hasher.finish());
        let path = self.packages.incoming();
        let writing = spawn_blocking(move || written(&package, &files, &path)).await;
        let file = writing.map_err(|error| Problem::bug(&error))?;
        let file = file.map_err(|error| {
            tracing::error!(%error, "an archive for a client cannot be written");
            let what = format!("the archive cannot be written: {error}");
            Problem::new(
                StatusCode::INSUFFICIENT_STORAGE,
                "package.not-written",
                what,
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

/// A file of a package.
fn inside(package: Arc<Package>, path: String, kind: &'static str) -> Answer<Content> {
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

/// The archive in a file that has no name any more: it is gone when it is sent.
fn written(package: &Package, files: &Files, path: &Path) -> Result<std::fs::File, String> {
    let begin = || -> io::Result<std::fs::File> {
        let file = std::fs::File::options()
            .read(true)
            .write(true)
            .create_new(true)
            .open(path)?;
        std::fs::remove_file(path)?;
        Ok(file)
    };
    let mut file = begin().map_err(|error| format!("`{}`: {error}", path.display()))?;
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
    let what = format!("this is served as {kind}, which `Accept` leaves out");
    Problem::new(StatusCode::NOT_ACCEPTABLE, "request.accept", what)
}
