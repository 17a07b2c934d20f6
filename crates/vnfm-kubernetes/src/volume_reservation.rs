//! Who has a `PersistentVolume`: the claim that it is bound to, or the one that it is reserved for, which then binds it.
//!
//! A volume that was in a VNF is for the claim of the same name in another one. One that was created empty is for the first claim
//! of its storage that no other volume is for.

use crate::catalog::{Target, core};
use crate::claims::{self, pauses};
use crate::client::Session;
use crate::errors::VOLUME;
use crate::labels::{self, INSTALLATION, label_of};
use crate::object::{find, find_metadata, merge};
use crate::resolved::ResolvedObject;
use crate::storages::planned_claims;
use kube::api::DynamicObject;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use vnfm_core::ReusedVolume;
use vnfm_core::ports::{Expired, PortError, VimCall};

/// The annotation with the reclaim policy from before the retention.
pub(crate) const POLICY_BEFORE: &str = "vnfm.dev/reclaim-policy";
pub(crate) const RETAIN: &str = "Retain";
const USE: &str = "use the volumes";

/// The claims of a VNF that volumes are for: their namespace, and its objects.
pub(crate) struct Places<'o> {
    pub(crate) namespace: &'o str,
    pub(crate) stages: &'o [Vec<ResolvedObject>],
}

impl Places<'_> {
    /// The claims of a storage, in the order of their pods.
    fn of_storage(&self, storage: &str) -> Vec<String> {
        let objects = self.stages.iter().flatten();
        let own = objects.filter(|one| one.target.namespace.as_deref() == Some(self.namespace));
        planned_claims(own.map(|one| &one.item.object), storage)
    }
}

/// Reserves the volumes for claims, which will bind them: each for the claim of the name that it had, and those that were
/// created empty for the other claims of their storage, in order.
///
/// # Errors
///
/// The API server's error; `Refused` if a volume is bound to another claim, lost its labels, or has no place.
pub(crate) async fn hand_over(
    cx: &VimCall<'_>,
    session: &Session<'_>,
    places: &Places<'_>,
    volumes: &[ReusedVolume],
) -> Result<(), PortError> {
    let (mut taken, mut new) = (BTreeSet::new(), Vec::new());
    for volume in volumes {
        let object = existing(cx, session, volume).await?;
        let name = text(&object, "/spec/claimRef/name").unwrap_or_default();
        if name == claim_name(&volume.id) {
            new.push(volume);
            continue;
        }
        if !taken.insert(name.to_owned()) {
            let what = format!("another volume is for the claim `{name}`, too");
            return Err(refused(USE, &target(&volume.resource_id), &what));
        }
        give(cx, session, volume, (places.namespace, name)).await?;
    }
    for volume in new {
        let storage = &volume.virtual_storage_desc_id;
        let mut all = places.of_storage(storage).into_iter();
        let Some(name) = all.find(|name| !taken.contains(name)) else {
            let what = format!("the VNF has no other claim that its pods mount as `{storage}`");
            return Err(refused(USE, &target(&volume.resource_id), &what));
        };
        give(cx, session, volume, (places.namespace, &name)).await?;
        taken.insert(name);
    }
    Ok(())
}

async fn existing(
    cx: &VimCall<'_>,
    session: &Session<'_>,
    volume: &ReusedVolume,
) -> Result<DynamicObject, PortError> {
    let target = target(&volume.resource_id);
    let object = find(session, &target).await?;
    object
        .filter(|object| is_its(object, cx, &volume.id))
        .ok_or_else(|| {
            let what = "it does not exist with the label of the retained volume";
            refused(USE, &target, what)
        })
}

/// Reserves a volume for a claim, unless that has it; waits until the claim before has released it.
async fn give(
    cx: &VimCall<'_>,
    session: &Session<'_>,
    volume: &ReusedVolume,
    (namespace, name): (&str, &str),
) -> Result<(), PortError> {
    let target = target(&volume.resource_id);
    let mut backoff = pauses(cx);
    loop {
        let object = existing(cx, session, volume).await?;
        let is_here = text(&object, "/spec/claimRef/namespace") == Some(namespace)
            && text(&object, "/spec/claimRef/name") == Some(name);
        let phase = text(&object, "/status/phase");
        match holder(session, &object).await? {
            Holder::Claim(_) | Holder::Reservation if is_here => return Ok(()),
            Holder::Claim(claim) => {
                let what = format!("{claim} is bound to it");
                return Err(refused(USE, &target, &what));
            }
            Holder::Reservation | Holder::Nobody => {}
        }
        if matches!(phase, Some("Released" | "Available")) {
            return reserve(session, &target, (namespace, name)).await;
        }
        let waiting = format!("{target} to be released by the claim that is gone");
        if let Err(Expired) = backoff.pause(&waiting).await {
            let what = format!("it is {} at the deadline", phase.unwrap_or("in no phase"));
            return Err(refused(USE, &target, &what));
        }
    }
}

/// Lets a volume outlive its claim: it gets the labels of the retained volume, and its reclaim policy is noted.
///
/// # Errors
///
/// The API server's error; `Refused` if the volume does not exist.
pub(crate) async fn keep(
    cx: &VimCall<'_>,
    session: &Session<'_>,
    target: &Target,
    id: &str,
) -> Result<(), PortError> {
    let action = format!("retain {target}");
    let Some(object) = find(session, target).await? else {
        return Err(refused(&action, target, "it no longer exists"));
    };
    let noted = annotation(&object);
    let policy = noted.or(text(&object, "/spec/persistentVolumeReclaimPolicy"));
    let change = json!({
        "metadata": {
            "labels": {INSTALLATION: cx.ownership.installation_id, labels::VOLUME: id},
            "annotations": {POLICY_BEFORE: policy.unwrap_or(RETAIN)},
        },
        "spec": {"persistentVolumeReclaimPolicy": RETAIN},
    });
    merge(session, target, &action, &change).await
}

/// Reserves a volume for a claim, whether or not it exists yet.
async fn reserve(
    session: &Session<'_>,
    target: &Target,
    (namespace, name): (&str, &str),
) -> Result<(), PortError> {
    let claim = json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": namespace, "name": name,
        "uid": null, "resourceVersion": null});
    let change = json!({"spec": {"claimRef": claim}});
    merge(session, target, &format!("reserve {target}"), &change).await
}

/// For whom a volume is.
pub(crate) enum Holder {
    /// The claim that it is bound to.
    Claim(Target),
    /// Any claim of the name that it has.
    Reservation,
    /// A claim that no longer exists.
    Nobody,
}

/// Who has a volume.
pub(crate) async fn holder(
    session: &Session<'_>,
    volume: &DynamicObject,
) -> Result<Holder, PortError> {
    let member = |name: &str| text(volume, &format!("/spec/claimRef/{name}"));
    let Some(uid) = member("uid") else {
        return Ok(Holder::Reservation);
    };
    let (namespace, name) = (member("namespace"), member("name"));
    let claim = claims::target(namespace.unwrap_or_default(), name.unwrap_or_default());
    let found = find_metadata(session, &claim).await?;
    let is_it = found.is_some_and(|found| found.uid.as_deref() == Some(uid));
    Ok(if is_it {
        Holder::Claim(claim)
    } else {
        Holder::Nobody
    })
}

/// The name of the claim with which an empty volume is made: a volume with it was never in a VNF.
pub(crate) fn claim_name(volume: &str) -> String {
    format!("vnfm-volume-{volume}")
}

/// The volume of that name.
pub(crate) fn target(name: &str) -> Target {
    Target {
        resource: core("PersistentVolume", "persistentvolumes"),
        namespace: None,
        name: name.to_owned(),
    }
}

/// The text at a pointer; `None` if it is empty.
pub(crate) fn text<'o>(object: &'o DynamicObject, pointer: &str) -> Option<&'o str> {
    let text = object.data.pointer(pointer).and_then(Value::as_str);
    text.filter(|text| !text.is_empty())
}

/// The reclaim policy from before the retention.
pub(crate) fn annotation(volume: &DynamicObject) -> Option<&str> {
    let all = volume.metadata.annotations.as_ref()?;
    all.get(POLICY_BEFORE).map(String::as_str)
}

/// Whether an object is this retained volume.
pub(crate) fn is_its(object: &DynamicObject, cx: &VimCall<'_>, volume: &String) -> bool {
    label_of(&object.metadata, INSTALLATION) == Some(&cx.ownership.installation_id)
        && label_of(&object.metadata, labels::VOLUME) == Some(volume)
}

/// The error for a volume or claim.
pub(crate) fn refused(action: &str, target: &Target, what: &str) -> PortError {
    PortError::new(&VOLUME, action, format!("{target}: {what}")).on(target.to_string())
}
