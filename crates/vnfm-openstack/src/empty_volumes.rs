//! Empty volumes: Cinder volumes that no stack has created.
//!
//! ```text
//! create   look for it ─ request it ─ wait until it is `available`          `error`: refused with Cinder's message
//! delete   as every retained volume; one whose id was never recorded is looked for
//! ```
//! Name and metadata are in the request, so what an interrupted creation has left is found by them. Cinder may accept a request
//! whose response was lost after we have looked: then two volumes have the name, and the deletion deletes both.

use crate::cinder;
use crate::errors::{VOLUME_LATE, VOLUME_NOT_CREATED};
use crate::heat::member;
use crate::http_call::{Call, encoded};
use crate::keystone_login::{Cloud, Service};
use crate::retained_volumes::RETAINED;
use crate::retries::Waiter;
use crate::snapshots::INSTALLATION;
use jiff::{SignedDuration, Timestamp};
use serde::Deserialize;
use serde_json::json;
use vnfm_core::ports::{FoundVolume, PortError, VimCall, Waited};
use vnfm_types::RetainedVolume;

/// Requests for one volume to a Cinder that fails.
const MAX_REQUESTS: u32 = 3;
/// Time for these requests together: a client of the server waits meanwhile. A volume that Cinder has accepted may take longer.
const REQUESTS_TIMEOUT: SignedDuration = SignedDuration::from_secs(20);
/// From this version on, Cinder tells project members why a volume is in error.
const MESSAGES: &str = "volume 3.5";

/// What Cinder tells about a volume.
#[derive(Debug, Deserialize)]
struct Message {
    #[serde(default)]
    user_message: String,
}

/// The requests for one volume so far.
#[derive(Default)]
struct Requests {
    count: u32,
    /// No request lasts longer; set by the first one.
    until: Option<Timestamp>,
}

/// Creates the volume unless it exists, and waits until it is available.
pub(crate) async fn create(
    cx: &VimCall<'_>,
    cloud: &Cloud<'_>,
    volume: &RetainedVolume,
) -> Result<FoundVolume, PortError> {
    let action = format!("create volume `{}`", volume.id);
    let mut waiter = Waiter::for_login(cx, &action).late(&VOLUME_LATE);
    let mut requests = Requests::default();
    loop {
        let step = step((cx, cloud), volume, (&action, &mut requests));
        match waiter.attempt(step).await? {
            Waited::Done(found) => return Ok(found),
            Waited::NotYet(reason) => waiter.pause(&reason).await?,
        }
    }
}

/// The volume of the record; `None` if it does not exist.
pub(crate) async fn find(
    (cx, cloud): (&VimCall<'_>, &Cloud<'_>),
    volume: &RetainedVolume,
) -> Result<Option<cinder::Volume>, PortError> {
    let found = cinder::named(cloud, &name_of(volume)).await?;
    let is_it = |one: &cinder::Volume| {
        one.metadata.get(INSTALLATION) == Some(&cx.ownership.installation_id)
            && one.metadata.get(RETAINED) == Some(&volume.id)
    };
    Ok(found.into_iter().find(is_it))
}

fn name_of(volume: &RetainedVolume) -> String {
    format!("vnfm-volume-{}", volume.id)
}

/// Brings the creation of a volume a step further.
async fn step(
    (cx, cloud): (&VimCall<'_>, &Cloud<'_>),
    volume: &RetainedVolume,
    (action, requests): (&str, &mut Requests),
) -> Result<Waited<FoundVolume>, PortError> {
    let Some(found) = find((cx, cloud), volume).await? else {
        let latest = cloud.clock.now().saturating_add(REQUESTS_TIMEOUT);
        let until = *requests.until.get_or_insert(latest.unwrap_or_default());
        requests.count += 1;
        let limited = Cloud {
            deadline: cloud.deadline.min(until),
            ..*cloud
        };
        return match request((cx, &limited), volume, action).await {
            Err(error)
                if error.is_unavailable()
                    && requests.count < MAX_REQUESTS
                    && cloud.clock.now() < until =>
            {
                Ok(Waited::NotYet(error.to_string()))
            }
            requested => requested.map(|()| Waited::NotYet(format!("{action}: requested"))),
        };
    };
    let (id, status) = (&found.id, &found.status);
    match status.as_str() {
        "available" => Ok(Waited::Done(FoundVolume {
            resource_id: found.id,
            size_gib: found.size,
        })),
        "error" => {
            let what = message_about(cloud, id).await;
            Err(PortError::new(&VOLUME_NOT_CREATED, action, what).on(id))
        }
        _ => Ok(Waited::NotYet(format!("volume `{id}` is {status}"))),
    }
}

async fn request(
    (cx, cloud): (&VimCall<'_>, &Cloud<'_>),
    volume: &RetainedVolume,
    action: &str,
) -> Result<(), PortError> {
    let metadata = json!({INSTALLATION: cx.ownership.installation_id, RETAINED: volume.id});
    let mut wanted =
        json!({"name": name_of(volume), "size": volume.size_gib, "metadata": metadata});
    if let Some(kind) = &volume.volume_type {
        wanted["volume_type"] = json!(kind);
    }
    let call = Call::post("/volumes", json!({"volume": wanted}), action);
    cloud.send(Service::Volume, &call).await.map(drop)
}

/// Why a volume is in error, in Cinder's words.
async fn message_about(cloud: &Cloud<'_>, id: &str) -> String {
    let action = format!("read why volume `{id}` is in error");
    let path = format!("/messages?resource_uuid={}", encoded(id));
    let call = Call::get(path, action.as_str()).version(MESSAGES);
    let read = async {
        let reply = cloud.send(Service::Volume, &call).await?;
        member::<Vec<Message>>(reply, "messages", &action)
    };
    // The latest message is the first one. Without it the volume is in error all the same.
    let messages = read.await.unwrap_or_default();
    let first = messages.into_iter().next().map(|one| one.user_message);
    first.map_or_else(
        || "it is in `error`".to_owned(),
        |why| format!("it is in `error`: {why}"),
    )
}
