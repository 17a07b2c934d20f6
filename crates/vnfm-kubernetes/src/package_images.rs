//! The container images of a package: named in the plan as the VIM's registry has them, and pushed there before stage 1.
//!
//! ```text
//! plan      resolve   names become REGISTRY/PATH@DIGEST; which images are used
//! register  check_registry  logs in
//! preview   check     used images need a registry
//! converge  push      used images, one after the other; what the registry has is skipped
//! ```

use crate::client::Session;
use crate::errors::{NO_REGISTRY, REGISTRY, REGISTRY_UNAVAILABLE};
use crate::image_references::{ImageReferences, repository};
use crate::manifests::Plan;
use jiff::SignedDuration;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use vnfm_core::ports::{Allocation, Backoff, Expired, PortError, VimCall, Watcher};
use vnfm_descriptor::{OciImage, Package};
use vnfm_registry::{Blob, Content, ErrorKind, Image, Pushed, Reference, Registry, RegistryError};

/// How long a push is retried while the registry fails, after its last success.
const RETRY_PERIOD: SignedDuration = SignedDuration::from_secs(60);
const RETRY_INTERVAL: Duration = Duration::from_secs(2);
const MIB: u64 = 1 << 20;

/// Names the images of the package in the plan as the VIM's registry has them.
///
/// # Errors
///
/// The connection cannot be read.
pub(crate) async fn resolve(
    session: &Session<'_>,
    plan: &mut Plan,
    package: &Package,
) -> Result<(), PortError> {
    if package.images().is_empty() {
        return Ok(());
    }
    let registry = session.registry().await?.map(|(registry, _)| registry);
    let references = ImageReferences::new(package.images(), registry.as_ref());
    for item in plan.stages.iter_mut().flatten() {
        plan.images.extend(references.resolve(&mut item.object));
    }
    for chart in &mut plan.charts {
        for hook in &mut chart.hooks {
            plan.images.extend(references.resolve(&mut hook.object));
        }
        chart.images = references.clone();
    }
    Ok(())
}

/// What a report about the VIM says of its registry: its address, and why it cannot be reached; `None` without one.
///
/// # Errors
///
/// `Refused` if the registry does not accept the login, or must not be called.
pub(crate) async fn check_registry(session: &Session<'_>) -> Result<Option<String>, PortError> {
    let Some((registry, to)) = session.registry().await? else {
        return Ok(None);
    };
    let host = registry.access.host();
    let client = Registry::new(to, registry.access);
    let client = client.map_err(|error| port_error(session, error))?;
    match client.check().await {
        Ok(()) => Ok(Some(host)),
        Err(error) if error.kind == ErrorKind::Unavailable => {
            Ok(Some(format!("{host}: {}", port_error(session, error))))
        }
        Err(error) => Err(port_error(session, error)),
    }
}

/// Checks that there is a registry for the images that the plan uses.
///
/// # Errors
///
/// `Refused`, naming an image, if the VIM has none.
pub(crate) async fn check(
    session: &Session<'_>,
    plan: &Plan,
    allocation: &Allocation,
) -> Result<(), PortError> {
    let Some(first) = used(plan, &allocation.package).next() else {
        return Ok(());
    };
    match session.registry().await? {
        Some(_) => Ok(()),
        None => Err(no_registry(session, first)),
    }
}

/// Pushes the images that the plan uses; what the registry has is skipped.
///
/// # Errors
///
/// `Unavailable` while the registry fails, `Refused` if it does not accept login or image; the same call continues.
pub(crate) async fn push(
    cx: &VimCall<'_>,
    session: &Session<'_>,
    plan: &Plan,
    allocation: &Allocation,
) -> Result<(), PortError> {
    for found in used(plan, &allocation.package) {
        // Read for each image: an update of the VIM reaches an operation in flight.
        let Some((registry, to)) = session.registry().await? else {
            return Err(no_registry(session, found));
        };
        let client = Registry::new(to, registry.access.clone())
            .map_err(|error| port_error(session, error))?;
        let image = image(found, repository(&registry, found));
        let content = PackageContent {
            package: Arc::clone(&allocation.package),
            watcher: cx.watcher,
            image: &image,
            total: image.blobs.iter().map(|blob| blob.size).sum(),
            done: AtomicU64::new(0),
        };
        let pushed = push_one(cx, session, &client, &content).await?;
        report(cx, &image, &pushed);
    }
    Ok(())
}

async fn push_one(
    cx: &VimCall<'_>,
    session: &Session<'_>,
    client: &Registry,
    content: &PackageContent<'_>,
) -> Result<Pushed, PortError> {
    let action = format!("push image `{}`", content.image.repository);
    let until = (cx.clock.now() + RETRY_PERIOD).min(cx.deadline);
    let mut backoff = Backoff::new(cx.clock, cx.watcher, until, RETRY_INTERVAL);
    loop {
        content.done.store(0, Ordering::Relaxed);
        content.pushed(0);
        let pushing = client.push(content.image, content);
        let error = match session.within_deadline(&action, pushing).await? {
            Ok(pushed) => return Ok(pushed),
            Err(error) => error,
        };
        let is_transient = error.kind == ErrorKind::Unavailable;
        let error = port_error(session, error);
        let reason = format!("the registry to respond: {}", error.detail());
        if !is_transient {
            return Err(error);
        }
        if let Err(Expired) = backoff.pause(&reason).await {
            return Err(error);
        }
    }
}

fn report(cx: &VimCall<'_>, image: &Image, pushed: &Pushed) {
    let Image {
        repository,
        tag,
        digest,
        ..
    } = image;
    if pushed.created {
        let text = format!("pushed image `{repository}@{digest}`");
        cx.watcher.log("info", "kubernetes", &text);
    }
    if let (Some(tag), Some(other)) = (tag, &pushed.tag_taken_by) {
        let text = format!(
            "`{repository}:{tag}` in the registry is another image, {other}, and stays; the VNF uses {digest}"
        );
        cx.watcher.log("warn", "kubernetes", &text);
    }
}

/// The images of the package that the plan uses.
fn used<'a>(plan: &'a Plan, package: &'a Package) -> impl Iterator<Item = &'a OciImage> {
    let mut seen = BTreeSet::new();
    let images = package.images().iter();
    images.filter(move |image| plan.images.contains(&image.digest) && seen.insert(&image.name))
}

fn image(found: &OciImage, repository: String) -> Image {
    let blobs = found.blobs.iter().map(|blob| Blob {
        digest: blob.digest.clone(),
        media_type: blob.media_type.clone(),
        size: blob.size,
        path: blob.path.clone(),
        manifest: blob.manifest,
    });
    Image {
        repository,
        tag: Reference::parse(&found.name)
            .effective_tag()
            .map(str::to_owned),
        digest: found.digest.clone(),
        blobs: blobs.collect(),
    }
}

fn no_registry(session: &Session<'_>, image: &OciImage) -> PortError {
    let detail = format!(
        "VIM `{}` has no registry for image `{}` of the package",
        session.vim(),
        image.name
    );
    PortError::new(&NO_REGISTRY, "deploy the images of the package", detail).on(session.vim())
}

/// The error of the driver; omits what the registry wrote if the VIM must not expose responses.
fn port_error(session: &Session<'_>, error: RegistryError) -> PortError {
    let code = match error.kind {
        ErrorKind::Unavailable => &REGISTRY_UNAVAILABLE,
        _ => &REGISTRY,
    };
    let shown = session.shows_responses() && !error.response.is_empty();
    let detail = if shown {
        format!("{}: {}", error.detail, error.response)
    } else {
        error.detail
    };
    PortError::new(code, error.action, detail).on(session.vim())
}

/// The blobs of one image in a package.
struct PackageContent<'a> {
    package: Arc<Package>,
    watcher: &'a dyn Watcher,
    image: &'a Image,
    /// Size of all blobs in bytes.
    total: u64,
    /// Bytes of blobs that are in the registry.
    done: AtomicU64,
}

impl Content for PackageContent<'_> {
    fn body(&self, blob: &Blob) -> vnfm_outbound::Body {
        let (package, path) = (Arc::clone(&self.package), blob.path.clone());
        vnfm_outbound::written(move |out| {
            let copied = package.copy(&path, out);
            copied.map(drop).map_err(std::io::Error::other)
        })
    }

    fn pushed(&self, size: u64) {
        let done = self.done.fetch_add(size, Ordering::Relaxed) + size;
        let text = format!(
            "image `{}` is pushed to the registry: {} of {} MiB",
            self.image.repository,
            done / MIB,
            self.total.div_ceil(MIB)
        );
        self.watcher.waiting(&text);
    }
}
