//! Empty volumes: `PersistentVolume`s that the cluster provisions for a claim of our own.
//!
//! ```text
//! create   claim `vnfm-volume-ID` in the VIM's namespace ── bound ── its volume is retained ── the claim is deleted
//! delete   the volume, if the claim is bound, is retained ── the claim is deleted ── the volume, as every retained one
//! ```
//! Claim and volume carry our labels, so an interrupted creation is continued, or deleted, from what there is. The volume stays
//! Released, so no claim of somebody else can bind it; `volume_reservation` gives it to the claim of a VNF.

use crate::catalog::{Target, core};
use crate::claims::{self, gib, pauses};
use crate::client::Session;
use crate::deletion::delete;
use crate::errors::{CONFLICT, STILL_THERE, VOLUME};
use crate::labels::{self, INSTALLATION};
use crate::object::find;
use crate::owned::objects;
use crate::ready::readiness;
use crate::status::Readiness;
use crate::stored_claims::create;
use crate::volume_reservation::{claim_name, is_its, keep, refused, target, text};
use crate::watch::typed_json;
use kube::api::{ApiResource, DynamicObject, GroupVersionKind};
use serde_json::json;
use vnfm_core::ports::{Expired, FoundVolume, PortError, VimCall};
use vnfm_types::RetainedVolume;

const ACTION: &str = "create an empty volume";
/// Where the claim is if the VIM names no namespace.
const NAMESPACE: &str = "default";
const DEFAULT_CLASS: &str = "storageclass.kubernetes.io/is-default-class";
const NEEDS_POD: &str = "WaitForFirstConsumer";

/// Has the cluster provision the volume, unless it has.
pub(crate) async fn provision(
    cx: &VimCall<'_>,
    session: &Session<'_>,
    volume: &RetainedVolume,
) -> Result<FoundVolume, PortError> {
    let claim = claim_of(session, volume).await?;
    if provisioned(cx, session, volume).await?.is_none() {
        request(cx, session, (&claim, volume)).await?;
        wait_until_bound(cx, session, (&claim, volume)).await?;
    }
    let object = settle(cx, session, volume).await?;
    let Some(object) = object else {
        return Err(refused(ACTION, &claim, "its volume no longer exists"));
    };
    Ok(FoundVolume {
        resource_id: object.metadata.name.clone().unwrap_or_default(),
        size_gib: text(&object, "/spec/capacity/storage").and_then(gib),
    })
}

/// Retains the volume that our claim is bound to, and deletes the claim; then the volume, if there is one.
pub(crate) async fn settle(
    cx: &VimCall<'_>,
    session: &Session<'_>,
    volume: &RetainedVolume,
) -> Result<Option<DynamicObject>, PortError> {
    let (claim, mut backoff) = (claim_of(session, volume).await?, pauses(cx));
    while let Some(found) = find(session, &claim).await? {
        if !is_its(&found, cx, &volume.id) {
            break;
        }
        if let Some(name) = text(&found, "/spec/volumeName") {
            keep(cx, session, &target(name), &volume.id).await?;
        }
        if found.metadata.deletion_timestamp.is_none() {
            let uid = found.metadata.uid.as_deref().unwrap_or_default();
            delete(session, &claim, uid).await?;
        }
        if let Err(Expired) = backoff.pause(&format!("{claim} to be deleted")).await {
            let what = "it still exists at the deadline";
            let error = PortError::new(&STILL_THERE, format!("delete {claim}"), what);
            return Err(error.on(claim.to_string()));
        }
    }
    provisioned(cx, session, volume).await
}

async fn claim_of(session: &Session<'_>, volume: &RetainedVolume) -> Result<Target, PortError> {
    let namespace = session.namespace().await?;
    let namespace = namespace.as_deref().unwrap_or(NAMESPACE);
    Ok(claims::target(namespace, &claim_name(&volume.id)))
}

/// The `PersistentVolume` with the label of the volume.
async fn provisioned(
    cx: &VimCall<'_>,
    session: &Session<'_>,
    volume: &RetainedVolume,
) -> Result<Option<DynamicObject>, PortError> {
    let installation = &cx.ownership.installation_id;
    let selector = format!(
        "{INSTALLATION}={installation},{}={}",
        labels::VOLUME,
        volume.id
    );
    let all = objects(session, &target("").resource, None, &selector).await?;
    Ok(all.into_iter().next())
}

/// Creates the claim unless it exists.
async fn request(
    cx: &VimCall<'_>,
    session: &Session<'_>,
    (claim, volume): (&Target, &RetainedVolume),
) -> Result<(), PortError> {
    if find(session, claim).await?.is_some() {
        return Ok(());
    }
    let class = class(session, volume.volume_type.as_deref()).await?;
    let size = format!("{}Gi", volume.size_gib.unwrap_or(1));
    let mut object = json!({
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": claim.name, "namespace": claim.namespace},
        "spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": class,
            "resources": {"requests": {"storage": size}}},
    });
    labels::stamp_volume(&mut object, cx.ownership, &volume.id);
    match create(session, claim, object).await {
        // The response of an earlier attempt was lost.
        Err(error) if error.code() == &CONFLICT => Ok(()),
        created => created,
    }
}

/// The name of the class to request, which must bind a claim that no pod mounts.
async fn class(session: &Session<'_>, wanted: Option<&str>) -> Result<String, PortError> {
    let found = match wanted {
        Some(name) => find(session, &class_target(name)).await?,
        None => default_class(session).await?,
    };
    let Some(found) = found else {
        let what = match wanted {
            Some(name) => format!("the cluster has no StorageClass `{name}`"),
            None => "the cluster has no default StorageClass".to_owned(),
        };
        let error = PortError::new(&VOLUME, ACTION, what).on("volumeType");
        return Err(error.hint("name a class of `kubectl get storageclass`: `--type CLASS`"));
    };
    let name = found.metadata.name.clone().unwrap_or_default();
    if text(&found, "/volumeBindingMode") == Some(NEEDS_POD) {
        let what =
            format!("it provisions a volume only for a pod (`volumeBindingMode: {NEEDS_POD}`)");
        return Err(refused(ACTION, &class_target(&name), &what).hint(
            "name a class with `Immediate`, or let a VNF make the volume and retain it: `vnfmctl vnf terminate --retain`",
        ));
    }
    Ok(name)
}

fn class_target(name: &str) -> Target {
    let kind = GroupVersionKind::gvk("storage.k8s.io", "v1", "StorageClass");
    Target {
        resource: ApiResource::from_gvk_with_plural(&kind, "storageclasses"),
        namespace: None,
        name: name.to_owned(),
    }
}

/// The class of claims that name none: of several default ones the latest, as the API server chooses.
async fn default_class(session: &Session<'_>) -> Result<Option<DynamicObject>, PortError> {
    let all = objects(session, &class_target("").resource, None, "").await?;
    let defaults = all.into_iter().filter(is_default);
    Ok(defaults.max_by_key(|class| class.metadata.creation_timestamp.clone()))
}

fn is_default(class: &DynamicObject) -> bool {
    let annotations = class.metadata.annotations.as_ref();
    annotations.is_some_and(|all| all.get(DEFAULT_CLASS).is_some_and(|value| value == "true"))
}

async fn wait_until_bound(
    cx: &VimCall<'_>,
    session: &Session<'_>,
    (claim, volume): (&Target, &RetainedVolume),
) -> Result<(), PortError> {
    let mut backoff = pauses(cx);
    loop {
        let found = find(session, claim).await?;
        let Some(found) = found.filter(|found| is_its(found, cx, &volume.id)) else {
            let what = "it does not exist with the label of the volume";
            return Err(refused(ACTION, claim, what));
        };
        let reason = match readiness(&typed_json(Some(&claim.resource), found)) {
            Readiness::Ready => return Ok(()),
            Readiness::Failed(why) => return Err(refused(ACTION, claim, &why)),
            Readiness::NotYet(why) => why,
        };
        if let Err(Expired) = backoff.pause(&format!("{claim}: {reason}")).await {
            let why = last_warning(session, claim).await;
            let why = why.map_or_else(String::new, |why| format!(": {why}"));
            return Err(refused(
                ACTION,
                claim,
                &format!("{reason} at the deadline{why}"),
            ));
        }
    }
}

/// The message of the newest `Warning` event about the claim; `None` without one, or without the right to list events.
async fn last_warning(session: &Session<'_>, claim: &Target) -> Option<String> {
    let resource = core("Event", "events");
    let events = objects(session, &resource, claim.namespace.as_deref(), "").await;
    let is_about = |event: &DynamicObject| {
        text(event, "/type") == Some("Warning")
            && text(event, "/involvedObject/name") == Some(&*claim.name)
    };
    let events = events.ok()?.into_iter().filter(is_about);
    let last = events.max_by_key(|event| event.metadata.creation_timestamp.clone())?;
    text(&last, "/message").map(str::to_owned)
}
