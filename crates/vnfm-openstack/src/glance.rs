//! Glance: images by name, and those that a package brought.
//!
//! An image that we upload is private, belongs to one instance and goes with it. Its tags say so:
//! `vnfm-<installation id>` and `vnf-<instance id>`. An upload that was cut off leaves it `queued`; it is
//! then filled, not made again.

use crate::call::{Call, encoded};
use crate::heat::{installation_tag, member, stack_name};
use crate::image_body;
use crate::session::{Cloud, Service};
use serde::Deserialize;
use serde_json::json;
use vnfm_core::ports::{Ownership, PortError};
use vnfm_descriptor::SwImage;

/// An image.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Image {
    pub(crate) id: String,
    #[serde(default)]
    pub(crate) name: Option<String>,
    pub(crate) status: String,
    #[serde(default)]
    pub(crate) tags: Vec<String>,
}

/// Every usable image of that name.
pub(crate) async fn named(cloud: &Cloud<'_>, name: &str) -> Result<Vec<Image>, PortError> {
    let mut found =
        list(cloud, &format!("name={}", encoded(name)), &format!("look for image `{name}`"))
            .await?;
    found.retain(|image| image.name.as_deref() == Some(name) && image.status == "active");
    Ok(found)
}

/// A usable image by its id; `None` where there is none.
pub(crate) async fn by_id(cloud: &Cloud<'_>, id: &str) -> Result<Option<Image>, PortError> {
    let doing = format!("look for image `{id}`");
    let call = Call::get(format!("/images/{}", encoded(id)), doing.as_str()).accepting(&[404]);
    let reply = cloud.send(Service::Image, &call).await?;
    if reply.status == 404 {
        return Ok(None);
    }
    let reply = crate::call::Reply { body: json!({ "image": reply.body }), ..reply };
    let image: Image = member(reply, "image", &doing)?;
    Ok(Some(image).filter(|image| image.status == "active"))
}

/// What was uploaded for an instance.
pub(crate) async fn of_instance(
    cloud: &Cloud<'_>,
    ownership: &Ownership,
) -> Result<Vec<Image>, PortError> {
    let (ours, its) = tags(ownership);
    let mut found =
        list(cloud, &format!("tag={}", encoded(&its)), "look for the instance's images").await?;
    found.retain(|image| image.tags.contains(&ours) && image.tags.contains(&its));
    Ok(found)
}

/// Everything that this installation uploaded.
pub(crate) async fn owned(cloud: &Cloud<'_>, installation: &str) -> Result<Vec<Image>, PortError> {
    let tag = installation_tag(installation);
    let mut found =
        list(cloud, &format!("tag={}", encoded(&tag)), "list the images of this installation")
            .await?;
    found.retain(|image| image.tags.contains(&tag));
    Ok(found)
}

/// Makes an image of the package's bytes, or goes on with one that an earlier call began.
pub(crate) async fn upload(
    cloud: &Cloud<'_>,
    ownership: &Ownership,
    image: &SwImage,
    file: image_body::Image,
) -> Result<String, PortError> {
    let doing = format!("upload image `{}`", image.name);
    let begun = of_instance(cloud, ownership).await?;
    let begun = begun.into_iter().find(|one| one.name.as_deref() == Some(&image.name));
    let made = match begun {
        Some(made) if made.status == "active" => return Ok(made.id),
        Some(made) if made.status == "queued" => made,
        Some(half) => {
            delete(cloud, &half.id).await?;
            create(cloud, ownership, image, &doing).await?
        }
        None => create(cloud, ownership, image, &doing).await?,
    };
    let path = format!("/images/{}/file", encoded(&made.id));
    cloud.send(Service::Image, &Call::put_image(path, file, doing)).await?;
    Ok(made.id)
}

/// Deletes an image; one that is not there is a success.
pub(crate) async fn delete(cloud: &Cloud<'_>, id: &str) -> Result<(), PortError> {
    let call = Call::delete(format!("/images/{}", encoded(id)), format!("delete image `{id}`"));
    cloud.send(Service::Image, &call.accepting(&[404])).await.map(drop)
}

async fn create(
    cloud: &Cloud<'_>,
    ownership: &Ownership,
    image: &SwImage,
    doing: &str,
) -> Result<Image, PortError> {
    let (ours, its) = tags(ownership);
    let mut body = json!({
        "name": image.name,
        "disk_format": image.disk_format.as_deref().unwrap_or("qcow2").to_ascii_lowercase(),
        "container_format": image.container_format.as_deref().unwrap_or("bare").to_ascii_lowercase(),
        "visibility": "private",
        "tags": [ours, its],
    });
    if let Some(gib) = image.min_disk_gib {
        body["min_disk"] = json!(gib);
    }
    if let Some(mib) = image.min_ram_mib {
        body["min_ram"] = json!(mib);
    }
    let reply = cloud.send(Service::Image, &Call::post("/images", body, doing)).await?;
    member(crate::call::Reply { body: json!({ "image": reply.body }), ..reply }, "image", doing)
}

async fn list(cloud: &Cloud<'_>, filter: &str, doing: &str) -> Result<Vec<Image>, PortError> {
    let call = Call::get(format!("/images?limit=200&{filter}"), doing);
    member(cloud.send(Service::Image, &call).await?, "images", doing)
}

fn tags(ownership: &Ownership) -> (String, String) {
    (installation_tag(&ownership.installation_id), stack_name(&ownership.instance_id))
}
