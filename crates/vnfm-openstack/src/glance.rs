//! Glance: images by name, and images from packages.
//!
//! An image that we upload is private and shared by the instances of its package. Its tags record that:
//!
//! | tag | meaning |
//! |---|---|
//! | `vnfm-<installation id>` | this installation uploaded it |
//! | `vnfm-package-<SHA-256>` | the package it comes from; package and image name identify it |
//! | `vnf-<instance id>` | this instance uses it; one tag per instance |
//!
//! ```text
//! use       found by package and name? ─┬─ active ─ add our tag
//!                                       ├─ queued ─ add our tag, upload
//!                                       └─ none, incomplete, or full of tags ─ create, upload
//! release   each with our tag: other users? ─┬─ yes ─ remove our tag
//!                                            └─ no ── delete the image
//! ```
//! The tag of the last user disappears with the image, so an interrupted release finds the image again. An
//! installation is one process, and within it [`ImageLocks`] serialises changes to the images of one package in one
//! project, so that concurrent instances see each other's images. Images of earlier releases have no package tag; they
//! are released the same way.

use crate::heat::{installation_tag, member, stack_name};
use crate::http_call::{Call, encoded};
use crate::image_body;
use crate::keystone_login::{Cloud, Service};
use crate::snapshots::SNAPSHOT;
use futures::lock::OwnedMutexGuard;
use serde::Deserialize;
use serde_json::json;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use vnfm_core::ports::{OwnedResource, Ownership, PortError};
use vnfm_descriptor::{Package, SwImage};

#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Image {
    pub(crate) id: String,
    #[serde(default)]
    pub(crate) name: Option<String>,
    pub(crate) status: String,
    #[serde(default)]
    pub(crate) tags: Vec<String>,
}

/// An image of a snapshot, with the properties that say what it is of.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct StoredImage {
    pub(crate) id: String,
    #[serde(default)]
    pub(crate) name: Option<String>,
    pub(crate) status: String,
    #[serde(rename = "vnfm_installation", default)]
    pub(crate) installation: Option<String>,
    #[serde(rename = "vnfm_instance", default)]
    pub(crate) instance: Option<String>,
    #[serde(rename = "vnfm_snapshot", default)]
    pub(crate) snapshot: Option<String>,
    /// The VNFC.
    #[serde(rename = "vnfm_part", default)]
    pub(crate) part: Option<String>,
}

/// The images of a snapshot.
pub(crate) async fn of_snapshot(
    cloud: &Cloud<'_>,
    id: &str,
) -> Result<Vec<StoredImage>, PortError> {
    let mut found = stored(cloud, (SNAPSHOT, id)).await?;
    found.retain(|image| image.snapshot.as_deref() == Some(id));
    Ok(found)
}

/// The images of snapshots that have this property.
pub(crate) async fn stored(
    cloud: &Cloud<'_>,
    (property, value): (&str, &str),
) -> Result<Vec<StoredImage>, PortError> {
    let action = "look for images of snapshots";
    let filter = format!("/images?limit=200&{property}={}", encoded(value));
    let reply = cloud
        .send(Service::Image, &Call::get(filter, action))
        .await?;
    let mut found: Vec<StoredImage> = member(reply, "images", action)?;
    found.retain(|image| image.snapshot.is_some());
    Ok(found)
}

/// The active images of that name.
pub(crate) async fn named(cloud: &Cloud<'_>, name: &str) -> Result<Vec<Image>, PortError> {
    let mut found = list(
        cloud,
        &format!("name={}", encoded(name)),
        &format!("look for image `{name}`"),
    )
    .await?;
    found.retain(|image| image.name.as_deref() == Some(name) && image.status == "active");
    Ok(found)
}

/// An active image by its id, if it exists.
pub(crate) async fn by_id(cloud: &Cloud<'_>, id: &str) -> Result<Option<Image>, PortError> {
    let action = format!("look for image `{id}`");
    let call = Call::get(format!("/images/{}", encoded(id)), action.as_str()).accepting(&[404]);
    let reply = cloud.send(Service::Image, &call).await?;
    if reply.status == 404 {
        return Ok(None);
    }
    let reply = crate::response::Reply {
        body: json!({ "image": reply.body }),
        ..reply
    };
    let image: Image = member(reply, "image", &action)?;
    Ok(Some(image).filter(|image| image.status == "active"))
}

/// The images that an instance uses.
async fn of_instance(cloud: &Cloud<'_>, ownership: &Ownership) -> Result<Vec<Image>, PortError> {
    let (installation, instance) = tags(ownership);
    let mut found = tagged(cloud, &instance, "look for the instance's images").await?;
    found.retain(|image| image.tags.contains(&installation));
    Ok(found)
}

/// One lock per project and package, held while the package's images are changed.
#[derive(Default)]
pub(crate) struct ImageLocks(Mutex<HashMap<(String, String), ImageLock>>);

type ImageLock = Arc<futures::lock::Mutex<()>>;

impl ImageLocks {
    /// Waits for the lock of the images of the package with this hash; held until the guard is dropped.
    pub(crate) async fn lock(
        &self,
        cloud: &Cloud<'_>,
        sha256: &str,
    ) -> Result<OwnedMutexGuard<()>, PortError> {
        let (session, _) = cloud.session().await?;
        let lock = {
            let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            all.retain(|_, lock| Arc::strong_count(lock) > 1);
            let key = (session.project.clone(), sha256.to_owned());
            all.entry(key).or_default().clone()
        };
        Ok(lock.lock_owned().await)
    }
}

impl Image {
    /// Whether a package of this or another VNFM brought it: such an image disappears with its instances.
    pub(crate) fn is_from_package(&self) -> bool {
        let any = |begins: &str| self.tags.iter().any(|tag| tag.starts_with(begins));
        any("vnfm-") && (any(PACKAGE) || any(INSTANCE))
    }

    /// False if another package brought it.
    pub(crate) fn may_be_of(&self, package: &Package) -> bool {
        let own = package_tag(package);
        let mut packages = self.tags.iter().filter(|tag| tag.starts_with(PACKAGE));
        packages.clone().next().is_none() || packages.any(|tag| *tag == own)
    }

    /// The ids of the instances that use it.
    pub(crate) fn users(&self) -> impl Iterator<Item = &str> {
        self.tags
            .iter()
            .filter_map(|tag| tag.strip_prefix(INSTANCE))
    }
}

/// Every image that this installation uploaded.
pub(crate) async fn owned(cloud: &Cloud<'_>, installation: &str) -> Result<Vec<Image>, PortError> {
    tagged(
        cloud,
        &installation_tag(installation),
        "list the images of this installation",
    )
    .await
}

/// Makes the instance a user of the package's image, uploading it if necessary; returns its id.
/// The caller holds the lock.
pub(crate) async fn use_image(
    cloud: &Cloud<'_>,
    ownership: &Ownership,
    image: &SwImage,
    file: image_body::Image,
) -> Result<String, PortError> {
    let action = format!("upload image `{}`", image.name);
    let package = package_tag(&file.package);
    let (installation, instance) = tags(ownership);
    let mut known = tagged(cloud, &package, "look for the package's images").await?;
    known.extend(of_instance(cloud, ownership).await?);
    // Another version of the package may have an image of the same name.
    known.retain(|one| {
        one.tags.contains(&installation)
            && one.name.as_deref() == Some(&image.name)
            && one.may_be_of(&file.package)
    });
    known.sort_by_key(|one| (one.status != "active", one.id.clone()));
    let mut chosen = None;
    for one in known {
        match one.status.as_str() {
            "active" | "queued" if tag(cloud, &one, &instance).await? => {
                chosen = Some(one);
                break;
            }
            // The process that uploaded it ended midway.
            "saving" | "uploading" | "importing" | "killed" => delete(cloud, &one.id).await?,
            _ => {}
        }
    }
    let chosen = match chosen {
        Some(complete) if complete.status == "active" => return Ok(complete.id),
        Some(queued) => queued,
        None => create(cloud, &[installation, package, instance], image, &action).await?,
    };
    let path = format!("/images/{}/file", encoded(&chosen.id));
    cloud
        .send(Service::Image, &Call::put_image(path, file, action))
        .await?;
    Ok(chosen.id)
}

/// Removes the instance as a user of its images and deletes those without users. The caller holds the lock.
pub(crate) async fn release_images(
    cloud: &Cloud<'_>,
    ownership: &Ownership,
) -> Result<(), PortError> {
    let (_, instance) = tags(ownership);
    for image in of_instance(cloud, ownership).await? {
        if image.users().all(|user| user == ownership.instance_id) {
            delete(cloud, &image.id).await?;
            continue;
        }
        let action = format!("leave image `{}` to its other users", image.id);
        let call = Call::delete(tag_path(&image, &instance), action).accepting(&[404]);
        cloud.send(Service::Image, &call).await?;
    }
    Ok(())
}

/// Tags an image; false if it no longer exists (404) or has as many tags as Glance allows (413:
/// 128 unless `image_tag_quota` says otherwise).
async fn tag(cloud: &Cloud<'_>, image: &Image, tag: &str) -> Result<bool, PortError> {
    if image.tags.iter().any(|one| one == tag) {
        return Ok(true);
    }
    let call = Call::put(tag_path(image, tag), format!("use image `{}`", image.id));
    let reply = cloud
        .send(Service::Image, &call.accepting(&[404, 413]))
        .await?;
    Ok(!matches!(reply.status, 404 | 413))
}

fn tag_path(image: &Image, tag: &str) -> String {
    format!("/images/{}/tags/{}", encoded(&image.id), encoded(tag))
}

/// Deletes an image; succeeds if it does not exist.
pub(crate) async fn delete(cloud: &Cloud<'_>, id: &str) -> Result<(), PortError> {
    let call = Call::delete(
        format!("/images/{}", encoded(id)),
        format!("delete image `{id}`"),
    );
    cloud
        .send(Service::Image, &call.accepting(&[404]))
        .await
        .map(drop)
}

async fn create(
    cloud: &Cloud<'_>,
    tags: &[String],
    image: &SwImage,
    action: &str,
) -> Result<Image, PortError> {
    let mut body = json!({
        "name": image.name,
        "disk_format": image.disk_format.as_deref().unwrap_or("qcow2").to_ascii_lowercase(),
        "container_format": image.container_format.as_deref().unwrap_or("bare").to_ascii_lowercase(),
        "visibility": "private",
        "tags": tags,
    });
    if let Some(gib) = image.min_disk_gib {
        body["min_disk"] = json!(gib);
    }
    if let Some(mib) = image.min_ram_mib {
        body["min_ram"] = json!(mib);
    }
    let reply = cloud
        .send(Service::Image, &Call::post("/images", body, action))
        .await?;
    member(
        crate::response::Reply {
            body: json!({ "image": reply.body }),
            ..reply
        },
        "image",
        action,
    )
}

async fn tagged(cloud: &Cloud<'_>, tag: &str, action: &str) -> Result<Vec<Image>, PortError> {
    let mut found = list(cloud, &format!("tag={}", encoded(tag)), action).await?;
    found.retain(|image| image.tags.iter().any(|one| one == tag));
    Ok(found)
}

async fn list(cloud: &Cloud<'_>, filter: &str, action: &str) -> Result<Vec<Image>, PortError> {
    let call = Call::get(format!("/images?limit=200&{filter}"), action);
    member(cloud.send(Service::Image, &call).await?, "images", action)
}

/// Prefix of a package's tag.
const PACKAGE: &str = "vnfm-package-";
/// Prefix of an instance's tag, and of its stack's name.
const INSTANCE: &str = "vnf-";

fn package_tag(package: &Package) -> String {
    format!("{PACKAGE}{}", package.sha256())
}

/// The tag of the installation and the tag of the instance.
fn tags(ownership: &Ownership) -> (String, String) {
    (
        installation_tag(&ownership.installation_id),
        stack_name(&ownership.instance_id),
    )
}

/// An image, once per instance that uses it.
pub(crate) fn uses(image: &Image) -> Vec<OwnedResource> {
    let owned_by = |instance_id: Option<&str>| OwnedResource {
        kind: "OS::Glance::Image".into(),
        id: image.id.clone(),
        name: image.name.clone().unwrap_or_default(),
        instance_id: instance_id.map(str::to_owned),
        snapshot_id: None,
        link_id: None,
        volume_id: None,
    };
    let all: Vec<_> = image.users().map(|user| owned_by(Some(user))).collect();
    if all.is_empty() {
        vec![owned_by(None)]
    } else {
        all
    }
}
