//! Retained volumes: Cinder volumes that outlive the stack that made them.
//!
//! ```text
//! retain    the volume's metadata name it ─ the stack gets its own template, in which the volume has `deletion_policy: Retain`
//! release   Heat deletes the stack, and leaves the volume
//! reuse     the next stack has a volume with that `external_id`: Heat attaches it, and never deletes it
//! create    an empty volume with the same metadata (`empty_volumes`)
//! delete    the volume, if its metadata name it
//! ```
//! What was retained stays so without its stack. An update that changes only the policy touches no server. Only volumes of
//! the stack itself can be retained: in a group each member has the same template.

use crate::cinder;
use crate::driver::OpenStack;
use crate::empty_volumes;
use crate::errors::{VOLUME_LATE, VOLUME_NESTED, VOLUME_STUCK, message};
use crate::heat::{self, Phase, Stack};
use crate::heat_preview::template_of;
use crate::http_call::Call;
use crate::inventory::VOLUME;
use crate::keystone_login::{Cloud, Service};
use crate::retained_volumes::{RETAINED, check_named, lost};
use crate::retries::Waiter;
use crate::snapshots::{INSTALLATION, path};
use crate::stacks::{failure, own};
use async_trait::async_trait;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use vnfm_core::ports::{FoundVolume, PortError, VimCall, Volumes, Waited};
use vnfm_types::{RetainedVolume, VirtualStorageResourceInfo};

const POLICY: &str = "deletion_policy";
/// Updates of one stack to another policy.
const MAX_UPDATES: u32 = 3;

#[async_trait]
impl Volumes for OpenStack {
    async fn find_volumes(
        &self,
        cx: &VimCall<'_>,
        storages: &[VirtualStorageResourceInfo],
    ) -> Result<Vec<FoundVolume>, PortError> {
        let cloud = &self.cloud(cx);
        let stack = own(cx, cloud, "update").await?;
        let of_stack = match &stack {
            Some(stack) => names(cloud, stack).await?,
            None => BTreeMap::new(),
        };
        let mut found = Vec::new();
        for storage in storages {
            let id = &storage.storage_resource.resource_id;
            let volume = cinder::volume(cloud, id).await?.ok_or_else(|| lost(id))?;
            if !of_stack.contains_key(id) && !is_retained(cx, &volume) {
                let desc = &storage.virtual_storage_desc_id;
                let what = format!("volume `{id}` of storage `{desc}` is not of the stack itself");
                return Err(PortError::new(&VOLUME_NESTED, "retain the volumes", what).on(id));
            }
            found.push(FoundVolume {
                resource_id: id.clone(),
                size_gib: volume.size,
            });
        }
        Ok(found)
    }

    async fn retain_volumes(
        &self,
        cx: &VimCall<'_>,
        volumes: &[RetainedVolume],
    ) -> Result<(), PortError> {
        let cloud = &self.cloud(cx);
        for volume in volumes {
            let action = format!("name volume `{}`", volume.on_vim());
            let path = format!("{}/metadata", path("volumes", volume.on_vim()));
            let installation = &cx.ownership.installation_id;
            let body = json!({"metadata": {INSTALLATION: installation, RETAINED: volume.id}});
            cloud
                .send(Service::Volume, &Call::post(path, body, action))
                .await?;
        }
        match own(cx, cloud, "update").await? {
            Some(stack) => set_policy(cx, cloud, (&stack, volumes), Some("Retain")).await,
            None => Ok(()),
        }
    }

    async fn unretain_volumes(
        &self,
        cx: &VimCall<'_>,
        volumes: &[RetainedVolume],
    ) -> Result<(), PortError> {
        let cloud = &self.cloud(cx);
        if let Some(stack) = own(cx, cloud, "update").await? {
            set_policy(cx, cloud, (&stack, volumes), None).await?;
        }
        for volume in volumes {
            let action = format!("unname volume `{}`", volume.on_vim());
            for member in [INSTALLATION, RETAINED] {
                let volume = path("volumes", volume.on_vim());
                let call = Call::delete(format!("{volume}/metadata/{member}"), action.as_str());
                cloud.send(Service::Volume, &call.accepting(&[404])).await?;
            }
        }
        Ok(())
    }

    async fn create_volume(
        &self,
        cx: &VimCall<'_>,
        volume: &RetainedVolume,
    ) -> Result<FoundVolume, PortError> {
        empty_volumes::create(cx, &self.cloud(cx), volume).await
    }

    async fn delete_volume(
        &self,
        cx: &VimCall<'_>,
        volume: &RetainedVolume,
    ) -> Result<(), PortError> {
        let cloud = &self.cloud(cx);
        let action = format!("delete volume `{}`", volume.id);
        let mut waiter = Waiter::new(cx, &action).late(&VOLUME_LATE);
        let mut requested = None;
        loop {
            let step = delete_step((cx, cloud), volume, (&action, &mut requested));
            match waiter.attempt(step).await? {
                Waited::Done(()) => return Ok(()),
                Waited::NotYet(reason) => waiter.pause(&reason).await?,
            }
        }
    }
}

/// What there is of a volume: by its id, else what a creation without a recorded end has left.
async fn existing(
    (cx, cloud): (&VimCall<'_>, &Cloud<'_>),
    volume: &RetainedVolume,
) -> Result<Option<cinder::Volume>, PortError> {
    let known = match &volume.resource_id {
        Some(id) => cinder::volume(cloud, id).await?,
        None => None,
    };
    match known {
        None if volume.vnf_instance_id.is_none() => empty_volumes::find((cx, cloud), volume).await,
        known => Ok(known),
    }
}

/// Brings the deletion of a volume a step further; `requested` is the id whose deletion was requested last.
async fn delete_step(
    (cx, cloud): (&VimCall<'_>, &Cloud<'_>),
    volume: &RetainedVolume,
    (action, requested): (&str, &mut Option<String>),
) -> Result<Waited<()>, PortError> {
    let Some(found) = existing((cx, cloud), volume).await? else {
        return Ok(Waited::Done(()));
    };
    let id = &found.id;
    check_named(&found, &volume.id, action)?;
    match found.status.as_str() {
        "error_deleting" => {
            let what = "it is in `error_deleting`";
            return Err(PortError::new(&VOLUME_STUCK, action, what).on(id));
        }
        "creating" | "deleting" => {}
        _ if requested.as_ref() == Some(id) => {}
        _ => {
            let call = Call::delete(path("volumes", id), action).accepting(&[400, 404]);
            let reply = cloud.send(Service::Volume, &call).await?;
            if reply.status == 400 {
                return Err(PortError::new(&VOLUME_STUCK, action, message(&reply)).on(id));
            }
            *requested = Some(id.clone());
        }
    }
    let status = &found.status;
    Ok(Waited::NotYet(format!("volume `{id}` is {status}")))
}

/// Whether a volume was retained: an earlier termination may have failed after it had deleted the stack.
fn is_retained(cx: &VimCall<'_>, volume: &cinder::Volume) -> bool {
    volume.metadata.get(INSTALLATION) == Some(&cx.ownership.installation_id)
        && volume.metadata.contains_key(RETAINED)
}

/// The names in the template of the stack's own volumes, by their ids.
async fn names(cloud: &Cloud<'_>, stack: &Stack) -> Result<BTreeMap<String, String>, PortError> {
    let resources = heat::resources(cloud, stack).await?.into_iter();
    let own = resources.filter(|one| one.kind == VOLUME && one.parent.is_none());
    Ok(own.map(|one| (one.id().to_owned(), one.name)).collect())
}

/// Updates the stack until the volumes have this policy in its template.
async fn set_policy(
    cx: &VimCall<'_>,
    cloud: &Cloud<'_>,
    (stack, volumes): (&Stack, &[RetainedVolume]),
    policy: Option<&str>,
) -> Result<(), PortError> {
    let action = format!(
        "set the deletion policy of volumes in stack `{}`",
        stack.name
    );
    let mut waiter = Waiter::new(cx, &action);
    let mut updates = 0;
    let all: BTreeSet<&str> = volumes.iter().map(RetainedVolume::on_vim).collect();
    loop {
        let attempt = async {
            let current = heat::show(cloud, stack).await?;
            let current = current.ok_or_else(|| lost(&stack.name))?;
            let waiting = Ok(Waited::NotYet(format!(
                "stack `{}` is {}",
                current.name, current.status
            )));
            if current.phase() == Phase::InProgress {
                return waiting;
            }
            let names = names(cloud, &current).await?;
            let mut template = template_of(cloud, &current).await?;
            let ids = names.iter().filter(|(id, _)| all.contains(id.as_str()));
            let changed = ids.filter(|(_, name)| has_set(&mut template, name, policy));
            let is_set = changed.count() == 0;
            match current.phase() {
                // Heat updates no stack whose deletion has begun.
                Phase::Complete | Phase::Deleting | Phase::DeleteFailed if is_set => {
                    return Ok(Waited::Done(()));
                }
                Phase::Complete | Phase::Failed if updates < MAX_UPDATES => {}
                _ => return Err(failure(cloud, &current, &action).await),
            }
            heat::update_template(cloud, cx.ownership, &current, &template).await?;
            updates += 1;
            waiting
        };
        match waiter.attempt(attempt).await? {
            Waited::Done(()) => return Ok(()),
            Waited::NotYet(reason) => waiter.pause(&reason).await?,
        }
    }
}

/// Sets the policy of a resource in a template; whether it had another.
fn has_set(template: &mut Value, name: &str, policy: Option<&str>) -> bool {
    let Some(resource) = template["resources"][name].as_object_mut() else {
        return false;
    };
    // Heat reports an external resource as it is: it is never deleted.
    if resource.contains_key("external_id") {
        return false;
    }
    let before = match policy {
        Some(policy) => resource.insert(POLICY.to_owned(), json!(policy)),
        None => resource.remove(POLICY),
    };
    before.as_ref().and_then(Value::as_str) != policy
}

#[cfg(test)]
mod tests {
    use super::has_set;
    use serde_json::json;

    #[test]
    fn the_policy_of_a_volume_is_set_once_and_reversed() {
        let mut template = json!({"resources": {"v": {"type": "OS::Cinder::Volume"}}});
        let before = template.clone();
        assert!(has_set(&mut template, "v", Some("Retain")));
        assert_eq!(template["resources"]["v"]["deletion_policy"], "Retain");
        assert!(!has_set(&mut template, "v", Some("Retain")));
        assert!(has_set(&mut template, "v", None));
        assert!(!has_set(&mut template, "v", None));
        assert!(!has_set(&mut template, "other", Some("Retain")));
        assert_eq!(template["resources"]["v"], before["resources"]["v"]);
    }
}
