//! Retained volumes: `PersistentVolume`s that outlive the claims of an instance.
//!
//! ```text
//! retain    the volume gets our labels and `persistentVolumeReclaimPolicy: Retain`; the policy before is in an annotation
//! release   the claim goes with its namespace; the volume is Released, with its data
//! reuse     the volume is reserved for the claim of the same name in the next instance's namespace, which then binds it
//! create    a claim of our own makes the cluster provision an empty volume (`empty_volumes`), which is then retained
//! delete    the policy before ─┬─ Delete: the cluster deletes the volume with its data
//!                              └─ any other: we delete the object; where its data are, they stay
//! ```
//! A `PersistentVolume` belongs to no namespace: the VIM's own login changes it, also for a narrowed role or a shared VIM, for
//! which the engine refuses volumes.

use crate::catalog::Target;
use crate::claims::{self, gib, pauses};
use crate::client::Session;
use crate::deletion::delete;
use crate::driver::KubernetesDriver;
use crate::empty_volumes::{provision, settle};
use crate::errors::STILL_THERE;
use crate::labels::{self, INSTALLATION, INSTANCE, label_of};
use crate::object::{find, merge};
use crate::owned::objects;
use crate::volume_reservation::{
    Holder, POLICY_BEFORE, RETAIN, annotation, holder, is_its, keep, refused, target, text,
};
use async_trait::async_trait;
use kube::api::DynamicObject;
use serde_json::{Value, json};
use vnfm_core::ports::{Expired, FoundVolume, PortError, VimCall, Volumes};
use vnfm_types::{RetainedVolume, VirtualStorageResourceInfo};

#[async_trait]
impl Volumes for KubernetesDriver {
    async fn find_volumes(
        &self,
        cx: &VimCall<'_>,
        storages: &[VirtualStorageResourceInfo],
    ) -> Result<Vec<FoundVolume>, PortError> {
        let session = &self.session(cx)?;
        let mut found = Vec::new();
        for storage in storages {
            let namespace = storage.metadata.get("namespace").and_then(Value::as_str);
            let name = &storage.storage_resource.resource_id;
            let claim = claims::target(namespace.unwrap_or_default(), name);
            let refused = |what: &str| refused("retain the volumes", &claim, what);
            let bound = find(session, &claim).await?;
            let object = match bound {
                None => retained(cx, session, &claim).await?,
                Some(bound) => {
                    let Some(volume) = text(&bound, "/spec/volumeName").map(target) else {
                        return Err(refused("it is bound to no volume"));
                    };
                    find(session, &volume).await?
                }
            };
            let Some(object) = object else {
                return Err(refused("it no longer exists, or its volume does not"));
            };
            if label_of(&object.metadata, INSTANCE).is_some() {
                return Err(refused(
                    "the package brings its volume, which goes with the VNF",
                ));
            }
            found.push(FoundVolume {
                resource_id: object.metadata.name.clone().unwrap_or_default(),
                size_gib: text(&object, "/spec/capacity/storage").and_then(gib),
            });
        }
        Ok(found)
    }

    async fn retain_volumes(
        &self,
        cx: &VimCall<'_>,
        volumes: &[RetainedVolume],
    ) -> Result<(), PortError> {
        let session = &self.session(cx)?;
        for volume in volumes {
            keep(cx, session, &target(volume.on_vim()), &volume.id).await?;
        }
        Ok(())
    }

    async fn unretain_volumes(
        &self,
        cx: &VimCall<'_>,
        volumes: &[RetainedVolume],
    ) -> Result<(), PortError> {
        let session = &self.session(cx)?;
        for volume in volumes {
            let target = target(volume.on_vim());
            let object = find(session, &target).await?;
            let Some(object) = object.filter(|object| is_its(object, cx, &volume.id)) else {
                continue;
            };
            let change = json!({
                "metadata": {
                    "labels": {INSTALLATION: null, labels::VOLUME: null},
                    "annotations": {POLICY_BEFORE: null},
                },
                "spec": {"persistentVolumeReclaimPolicy": annotation(&object).unwrap_or(RETAIN)},
            });
            merge(session, &target, &format!("give up {target}"), &change).await?;
        }
        Ok(())
    }

    async fn create_volume(
        &self,
        cx: &VimCall<'_>,
        volume: &RetainedVolume,
    ) -> Result<FoundVolume, PortError> {
        provision(cx, &self.session(cx)?, volume).await
    }

    async fn delete_volume(
        &self,
        cx: &VimCall<'_>,
        volume: &RetainedVolume,
    ) -> Result<(), PortError> {
        let session = &self.session(cx)?;
        let name = match &volume.resource_id {
            Some(name) => Some(name.clone()),
            None => settle(cx, session, volume)
                .await?
                .and_then(|object| object.metadata.name),
        };
        let Some(name) = name else {
            return Ok(());
        };
        let (target, mut backoff) = (target(&name), pauses(cx));
        let action = format!("delete {target}");
        loop {
            let Some(object) = find(session, &target).await? else {
                return Ok(());
            };
            delete_step(cx, session, (&target, &object), volume).await?;
            if let Err(Expired) = backoff.pause(&format!("{target} to be deleted")).await {
                let text = "it still exists at the deadline";
                return Err(PortError::new(&STILL_THERE, action, text).on(target.to_string()));
            }
        }
    }
}

/// The retained volume of a claim that is gone: an earlier termination may have failed after it had deleted the claim.
async fn retained(
    cx: &VimCall<'_>,
    session: &Session<'_>,
    claim: &Target,
) -> Result<Option<DynamicObject>, PortError> {
    let selector = format!(
        "{INSTALLATION}={},{}",
        cx.ownership.installation_id,
        labels::VOLUME
    );
    let all = objects(session, &target("").resource, None, &selector).await?;
    Ok(all.into_iter().find(|object| {
        text(object, "/spec/claimRef/name") == Some(&*claim.name)
            && text(object, "/spec/claimRef/namespace") == claim.namespace.as_deref()
    }))
}

/// Brings the deletion of a volume a step further.
async fn delete_step(
    cx: &VimCall<'_>,
    session: &Session<'_>,
    (target, object): (&Target, &DynamicObject),
    volume: &RetainedVolume,
) -> Result<(), PortError> {
    let action = format!("delete {target}");
    if !is_its(object, cx, &volume.id) {
        let what = "it does not carry the label of the retained volume";
        return Err(refused(&action, target, what));
    }
    if let Holder::Claim(claim) = holder(session, object).await? {
        let what = format!("{claim} is bound to it");
        return Err(refused(&action, target, &what));
    }
    if object.metadata.deletion_timestamp.is_some() {
        return Ok(());
    }
    let phase = text(object, "/status/phase");
    let policy = text(object, "/spec/persistentVolumeReclaimPolicy");
    let cluster_deletes = annotation(object) == Some("Delete");
    match phase {
        Some("Bound") => Ok(()),
        Some("Failed") if cluster_deletes => {
            let why = text(object, "/status/message").unwrap_or("the cluster failed to delete it");
            Err(refused(&action, target, why))
        }
        Some("Released") if cluster_deletes && policy == Some("Delete") => Ok(()),
        Some("Released") if cluster_deletes => {
            let change = json!({"spec": {"persistentVolumeReclaimPolicy": "Delete"}});
            merge(session, target, &action, &change).await
        }
        _ => {
            let uid = object.metadata.uid.as_deref().unwrap_or_default();
            delete(session, target, uid).await
        }
    }
}
