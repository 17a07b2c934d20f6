//! Who has a `PersistentVolume`: the claim that it is bound to, or the one that it is reserved for, which then binds it.

use crate::catalog::{Target, core};
use crate::claims::{self, pauses};
use crate::client::Session;
use crate::errors::VOLUME;
use crate::labels::{self, INSTALLATION, label_of};
use crate::object::{find, find_metadata, merge};
use kube::api::DynamicObject;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use vnfm_core::ReusedVolume;
use vnfm_core::ports::{Expired, PortError, VimCall};

/// The annotation with the reclaim policy from before the retention.
pub(crate) const POLICY_BEFORE: &str = "vnfm.dev/reclaim-policy";

/// Reserves the volumes for the claims of the same names in `namespace`, which will bind them.
///
/// # Errors
///
/// The API server's error; `Refused` if a volume is bound to another claim, or lost its labels.
pub(crate) async fn hand_over(
    cx: &VimCall<'_>,
    session: &Session<'_>,
    namespace: &str,
    volumes: &[ReusedVolume],
) -> Result<(), PortError> {
    let mut claims = BTreeSet::new();
    for volume in volumes {
        let target = target(&volume.resource_id);
        let action = format!("use {target}");
        let mut backoff = pauses(cx);
        loop {
            let object = find(session, &target).await?;
            let Some(object) = object.filter(|object| is_its(object, cx, &volume.id)) else {
                let what = "it does not exist with the label of the retained volume";
                return Err(refused(&action, &target, what));
            };
            let name = text(&object, "/spec/claimRef/name").unwrap_or_default();
            let is_here = text(&object, "/spec/claimRef/namespace") == Some(namespace);
            let phase = text(&object, "/status/phase");
            let is_reserved = match holder(session, &object).await? {
                Holder::Claim(_) if is_here => true,
                Holder::Claim(claim) => {
                    let what = format!("{claim} is bound to it");
                    return Err(refused(&action, &target, &what));
                }
                Holder::Reservation => is_here,
                Holder::Nobody => false,
            };
            if is_reserved || matches!(phase, Some("Released" | "Available")) {
                if !claims.insert(name.to_owned()) {
                    let what = format!("another volume is for the claim `{name}`, too");
                    return Err(refused(&action, &target, &what));
                }
                if !is_reserved {
                    reserve(session, &target, (namespace, name)).await?;
                }
                break;
            }
            let waiting = format!("{target} to be released by the claim that is gone");
            if let Err(Expired) = backoff.pause(&waiting).await {
                let what = format!("it is {} at the deadline", phase.unwrap_or("in no phase"));
                return Err(refused(&action, &target, &what));
            }
        }
    }
    Ok(())
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
