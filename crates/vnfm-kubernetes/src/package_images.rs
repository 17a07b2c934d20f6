//! The container images of a package: named in the plan as the VIM's registry has them, pushed there before stage 1, and
//! deleted there with their last user.
//!
//! ```text
//! plan      resolve   names become REGISTRY/PATH@DIGEST; which images are used
//! register  check_registry  logs in
//! preview   check     used images need a registry
//! converge  push      used images, one after the other; what the registry has is skipped
//!           give_up   images of the other package that the plan does not use
//! release   give_up   all images of the package
//! owned     uses      what the installation's instances use, as the registry's tags state it
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
use vnfm_core::ports::{Allocation, Backoff, OwnedResource, PortError, VimCall, Watcher};
use vnfm_descriptor::{OciImage, Package};
use vnfm_registry::{
    Blob, Content, ErrorKind, GivenUp, Image, ImageUse, ImageUser, Pushed, Reference, Registry,
    RegistryError,
};

/// How long a push is retried while the registry fails, after its last success.
const RETRY_PERIOD: SignedDuration = SignedDuration::from_secs(60);
const RETRY_INTERVAL: Duration = Duration::from_secs(2);
/// How long the registry may take to list all uses: nobody waits for an operation meanwhile, but for a response.
const LIST_TIME: Duration = Duration::from_secs(10);
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
        let Some(location) = ImageLocation::find(cx, session, found).await? else {
            return Err(no_registry(session, found));
        };
        let content = location.content(cx, &allocation.package);
        let action = format!("push image `{}`", location.image.repository);
        let attempt = || {
            content.done.store(0, Ordering::Relaxed);
            content.pushed(0);
            location.client.push(&location.image, &content)
        };
        let pushed = retried(cx, session, &action, attempt, removal).await?;
        report(cx, &location.image, &pushed);
    }
    Ok(())
}

/// Gives up the images of a package, but those that `plan` uses; the last user of an image deletes it. What the registry does
/// not permit is logged.
///
/// # Errors
///
/// `Unavailable` while the registry fails; the same call continues.
pub(crate) async fn give_up(
    cx: &VimCall<'_>,
    session: &Session<'_>,
    package: &Arc<Package>,
    kept: Option<(&Plan, &Package)>,
) -> Result<(), PortError> {
    let key = |image: &OciImage| (Reference::parse(&image.name).path, image.digest.clone());
    let kept = kept
        .into_iter()
        .flat_map(|(plan, package)| used(plan, package));
    let mut seen: BTreeSet<_> = kept.map(key).collect();
    for found in package.images() {
        if !seen.insert(key(found)) {
            continue;
        }
        let Some(location) = ImageLocation::find(cx, session, found).await? else {
            return Ok(());
        };
        let content = location.content(cx, package);
        let repository = &location.image.repository;
        let action = format!("give up image `{repository}`");
        let attempt = || {
            location
                .client
                .give_up(&location.image, &location.user, &content)
        };
        let given_up = retried(cx, session, &action, attempt, |_| None).await;
        let (level, text) = match given_up {
            Ok(GivenUp::NotUsed | GivenUp::InUse) => continue,
            Ok(GivenUp::Deleted) => ("info", "is deleted from the registry".to_owned()),
            Ok(_) => ("warn", "stays: the registry allows no deletion".to_owned()),
            Err(error) if error.is_unavailable() => return Err(error),
            Err(error) => ("warn", format!("stays in the registry: {error}")),
        };
        let text = format!("image `{repository}@{}` {text}", found.digest);
        cx.watcher.log(level, "kubernetes", &text);
    }
    Ok(())
}

/// The images that instances of an installation use, or have not finished to give up, one entry for each user. None if the
/// login may not list the registry's repositories.
///
/// # Errors
///
/// The registry does not respond.
pub(crate) async fn owned(
    session: &Session<'_>,
    installation: &str,
) -> Result<Vec<OwnedResource>, PortError> {
    let Some((registry, to)) = session.registry().await? else {
        return Ok(Vec::new());
    };
    let host = registry.access.host();
    let client = Registry::new(to, registry.access.clone());
    let client = client.map_err(|error| port_error(session, error))?;
    let listed = tokio::time::timeout(LIST_TIME, client.all_uses(registry.prefix())).await;
    let listed = listed.map_err(|_| {
        let detail = format!("its lists did not end within {} s", LIST_TIME.as_secs());
        PortError::new(
            &REGISTRY_UNAVAILABLE,
            "list the images of the registry",
            detail,
        )
        .on(session.vim())
    })?;
    let found = match listed {
        Err(error) if error.kind == ErrorKind::Refused => {
            tracing::debug!(%error, "images omitted");
            return Ok(Vec::new());
        }
        found => found.map_err(|error| port_error(session, error))?,
    };
    let own = found
        .into_iter()
        .filter(|(_, one)| one.user.installation == installation);
    let resource = |(repository, one): (String, ImageUse)| OwnedResource {
        kind: "Image".to_owned(),
        id: format!("{host}/{repository}@{}", one.digest),
        name: format!("{host}/{repository}:{}", one.tag),
        instance_id: Some(one.user.instance),
        snapshot_id: None,
        link_id: None,
        volume_id: None,
    };
    Ok(own.map(resource).collect())
}

/// An image of the package in the VIM's registry.
struct ImageLocation {
    client: Registry,
    image: Image,
    user: ImageUser,
}

impl ImageLocation {
    /// Read for each image: an update of the VIM reaches an operation in flight. `None` if the VIM has no registry.
    async fn find(
        cx: &VimCall<'_>,
        session: &Session<'_>,
        found: &OciImage,
    ) -> Result<Option<Self>, PortError> {
        let Some((registry, to)) = session.registry().await? else {
            return Ok(None);
        };
        let repository = repository(&registry, found);
        let client = Registry::new(to, registry.access);
        let client = client.map_err(|error| port_error(session, error))?;
        let user = ImageUser {
            installation: cx.ownership.installation_id.clone(),
            instance: cx.ownership.instance_id.clone(),
        };
        let image = image(found, repository, user.clone());
        Ok(Some(Self {
            client,
            image,
            user,
        }))
    }

    fn content<'a>(&'a self, cx: &VimCall<'a>, package: &Arc<Package>) -> PackageContent<'a> {
        PackageContent {
            package: Arc::clone(package),
            watcher: cx.watcher,
            image: &self.image,
            total: self.image.blobs.iter().map(|blob| blob.size).sum(),
            done: AtomicU64::new(0),
        }
    }
}

/// Why a push has to be repeated: another instance was removing the image.
fn removal(pushed: &Pushed) -> Option<String> {
    let tag = pushed.removal.as_deref()?;
    Some(format!(
        "another instance to remove the image (tag `{tag}`)"
    ))
}

/// Repeats a call while the registry fails, or `waits_for` names a reason; after a minute the error, or the result, stands.
async fn retried<T, F: Future<Output = Result<T, RegistryError>>>(
    cx: &VimCall<'_>,
    session: &Session<'_>,
    action: &str,
    mut attempt: impl FnMut() -> F,
    waits_for: impl Fn(&T) -> Option<String>,
) -> Result<T, PortError> {
    let until = (cx.clock.now() + RETRY_PERIOD).min(cx.deadline);
    let mut backoff = Backoff::new(cx.clock, cx.watcher, until, RETRY_INTERVAL);
    loop {
        let ended = session.within_deadline(action, attempt()).await?;
        let reason = match &ended {
            Ok(done) => waits_for(done),
            Err(error) if error.kind == ErrorKind::Unavailable => {
                let error = port_error(session, error.clone());
                Some(format!("the registry to respond: {}", error.detail()))
            }
            Err(_) => None,
        };
        let may_repeat = match reason {
            Some(reason) => backoff.pause(&reason).await.is_ok(),
            None => false,
        };
        if !may_repeat {
            return ended.map_err(|error| port_error(session, error));
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
    if let Some(tag) = &pushed.removal {
        let text = format!(
            "`{repository}:{tag}` marks a removal of the image that does not end; if nothing carries it on, delete that tag"
        );
        cx.watcher.log("warn", "kubernetes", &text);
    }
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

fn image(found: &OciImage, repository: String, user: ImageUser) -> Image {
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
        user: Some(user),
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
