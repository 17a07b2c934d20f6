//! A grant is read against what was asked for: it approves exactly that, does not contradict itself, and prescribes
//! nothing that cannot be done. What only a driver can tell is the driver's to refuse, in `prepare`.

use super::Op;
use super::grant::Approved;
use crate::deployment::Deployment;
use crate::hooks;
use crate::ports::{Code, ErrorKind, Granted, PortError};
use crate::refusal::Refusal;
use crate::vims;
use serde_json::Value;
use std::collections::BTreeSet;
use vnfm_types::{
    ExtVirtualLinkData, Grant, GrantInfo, GrantRequest, LcmOperationType, ResourceDefinition,
};

const DOING: &str = "use the grant of the NFVO";

/// A grant, read against what was asked for.
pub(super) struct Reading<'a> {
    pub(super) op: &'a Op,
    pub(super) request: &'a GrantRequest,
    pub(super) grant: &'a Grant,
}

impl Reading<'_> {
    /// What of it changes what the operation does.
    ///
    /// # Errors
    ///
    /// Where it contradicts the request or itself, or prescribes what cannot be done.
    pub(super) async fn approved(&self) -> Result<Approved, PortError> {
        let Self { op, request, grant } = self;
        let ids = [
            (
                "vnfInstanceId",
                &grant.vnf_instance_id,
                &request.vnf_instance_id,
            ),
            (
                "vnfLcmOpOccId",
                &grant.vnf_lcm_op_occ_id,
                &request.vnf_lcm_op_occ_id,
            ),
        ];
        for (name, found, wanted) in ids {
            if found != wanted {
                return Err(amiss(format!("{name} is `{found}`, not `{wanted}`")));
            }
        }
        for (name, wanted, found) in [
            ("addResources", &request.add_resources, &grant.add_resources),
            (
                "removeResources",
                &request.remove_resources,
                &grant.remove_resources,
            ),
            (
                "updateResources",
                &request.update_resources,
                &grant.update_resources,
            ),
        ] {
            same_set(name, wanted, found)?;
            found.iter().try_for_each(|info| direct(name, info))?;
        }
        let mut approved = Approved {
            grant_id: Some(grant.id.clone()),
            additional_params: grant.additional_params.clone(),
            ..Approved::default()
        };
        if request.operation == LcmOperationType::Instantiate {
            self.place(&mut approved).await?;
        } else {
            self.stays()?;
        }
        if !approved.additional_params.is_empty() && !op.record.request.is_object() {
            return Err(unusable(
                "the operation takes no additionalParams".to_owned(),
            ));
        }
        Ok(approved)
    }

    /// What an instantiation is to be made of, and where.
    async fn place(&self, approved: &mut Approved) -> Result<(), PortError> {
        let mut made = Deployment::clone(self.op.deployment()?);
        let key = self.vim(&made)?;
        let asked = made.vim_connection_info.get(&key).cloned();
        if let Some(given) = self.grant.vim_connection_info.get(&key) {
            made.vim_connection_info = [(key.clone(), given.clone())].into_iter().collect();
        } else {
            made.vim_connection_info.retain(|known, _| *known == key);
        }
        let connections = &mut made.vim_connection_info;
        let found = vims::of_connections(&self.op.engine, self.op.tenant(), connections).await;
        let (vim, _) = found.map_err(not_usable)?;
        vims::by_id(connections, &vim);
        approved.elsewhere = made.vim_connection_info.get(&key) != asked.as_ref();
        approved.vim_connection_info = made.vim_connection_info;
        approved
            .ext_virtual_links
            .clone_from(&self.grant.ext_virtual_links);
        approved.granted = self.granted(&key)?;
        if !approved.additional_params.is_empty() {
            hooks::override_with(&mut made.additional_params, &approved.additional_params);
            let asked = hooks::Asked {
                package: self.op.package()?,
                flavour: &made.flavour_id,
                operation: "instantiate",
                params: &made.additional_params,
                skipped: &[],
                deployed: None,
            };
            hooks::check_parameters(&self.op.engine, &asked, &Value::Null).map_err(not_usable)?;
        }
        Ok(())
    }

    /// Key of the one VIM that everything is to lie on.
    fn vim(&self, made: &Deployment) -> Result<String, PortError> {
        let given = &self.grant.vim_connection_info;
        let infos = self.grant.add_resources.iter();
        let named: BTreeSet<&String> = infos
            .filter_map(|info| info.vim_connection_id.as_ref())
            .collect();
        let known = if given.is_empty() {
            &made.vim_connection_info
        } else {
            given
        };
        let mut named: Vec<&String> = if named.is_empty() {
            known.keys().collect()
        } else {
            named.into_iter().collect()
        };
        match (named.pop(), named.pop()) {
            (Some(one), None)
                if given.contains_key(one) || made.vim_connection_info.contains_key(one) =>
            {
                Ok(one.clone())
            }
            (Some(one), None) => Err(amiss(format!(
                "vimConnectionId `{one}` is not in vimConnectionInfo"
            ))),
            (None, _) => Err(unusable(
                "neither the request nor the grant names a VIM".to_owned(),
            )),
            (Some(one), Some(other)) => {
                let what = format!("it spreads the VNF over several VIMs: `{other}`, `{one}`");
                Err(unusable(what))
            }
        }
    }

    /// What is prescribed on the VIM of this key.
    fn granted(&self, key: &str) -> Result<Granted, PortError> {
        let grant = self.grant;
        let of_vim = |id: &Option<String>| id.as_deref().is_none_or(|id| id == key);
        let flavour = self.op.flavour()?;
        let mut granted = Granted::default();
        for info in &grant.add_resources {
            granted
                .resource_groups
                .extend(info.resource_group_id.clone());
            if let Some(zone) = self.zone(info)? {
                granted
                    .zones
                    .insert(info.resource_definition_id.clone(), zone.to_owned());
            }
        }
        let assets = grant.vim_assets.clone().unwrap_or_default();
        for one in assets
            .compute_resource_flavours
            .iter()
            .filter(|a| of_vim(&a.vim_connection_id))
        {
            let vdu = &one.vnfd_virtual_compute_desc_id;
            if !flavour.vdus.contains_key(vdu) {
                let what = format!("vnfdVirtualComputeDescId `{vdu}` is no VDU of the VNFD");
                return Err(amiss(what));
            }
            granted
                .flavours
                .insert(vdu.clone(), one.vim_flavour_id.clone());
        }
        for one in assets
            .software_images
            .iter()
            .filter(|a| of_vim(&a.vim_connection_id))
        {
            let id = &one.vnfd_software_image_id;
            let mut owners = flavour
                .images()
                .filter(|(owner, image)| owner == id || image.name == *id);
            let Some((first, _)) = owners.next() else {
                return Err(amiss(format!(
                    "vnfdSoftwareImageId `{id}` is no image of the VNFD"
                )));
            };
            for owner in std::iter::once(first).chain(owners.map(|(owner, _)| owner)) {
                granted
                    .images
                    .insert(owner.to_owned(), one.vim_software_image_id.clone());
            }
        }
        for link in grant
            .ext_managed_virtual_links
            .iter()
            .filter(|l| of_vim(&l.vim_connection_id))
        {
            let id = &link.vnf_virtual_link_desc_id;
            if !flavour.virtual_links.contains_key(id) {
                let what = format!("vnfVirtualLinkDescId `{id}` is no internal link of the VNFD");
                return Err(amiss(what));
            }
            granted
                .managed_links
                .insert(id.clone(), link.resource_id.clone());
            granted.managed_link_ids.insert(id.clone(), link.id.clone());
        }
        Ok(granted)
    }

    /// Name of the zone of a resource on the VIM.
    fn zone(&self, info: &GrantInfo) -> Result<Option<&str>, PortError> {
        let Some(id) = &info.zone_id else {
            return Ok(None);
        };
        match self.grant.zones.iter().find(|zone| zone.id == *id) {
            Some(zone) => Ok(Some(&zone.zone_id)),
            None => Err(amiss(format!("zoneId `{id}` is not in zones"))),
        }
    }

    /// A VNF that is there keeps its place: a grant may approve that, and change nothing of it.
    fn stays(&self) -> Result<(), PortError> {
        let first = self.op.deployment()?;
        let on = |key: &String| {
            first.vim_connection_info.contains_key(key)
                || self.op.instance.vnf.vim_connection_info.contains_key(key)
        };
        let grant = self.grant;
        let infos = grant.add_resources.iter();
        let named = infos.filter_map(|info| info.vim_connection_id.as_ref());
        if let Some(other) = grant
            .vim_connection_info
            .keys()
            .chain(named)
            .find(|key| !on(key))
        {
            return Err(unusable(format!(
                "it moves the VNF to another VIM: `{other}`"
            )));
        }
        let is_known = |link: &&ExtVirtualLinkData| {
            let mut links = first.ext_virtual_links.iter();
            !links.any(|known| known.id == link.id && known.resource_id == link.resource_id)
        };
        if let Some(link) = grant.ext_virtual_links.iter().find(is_known) {
            return Err(unusable(format!(
                "it connects the VNF to another link: `{}`",
                link.id
            )));
        }
        let old = &first.placement;
        let now = self.granted(
            first
                .vim_connection_info
                .keys()
                .next()
                .map_or("", String::as_str),
        )?;
        let zones: BTreeSet<&String> = old.zones.values().collect();
        if let Some(zone) = now.zones.values().find(|zone| !zones.contains(zone)) {
            return Err(unusable(format!("it moves resources to zone `{zone}`")));
        }
        for (what, old, now) in [
            ("flavor", &old.flavours, &now.flavours),
            ("image", &old.images, &now.images),
            ("network", &old.managed_links, &now.managed_links),
        ] {
            if let Some((of, id)) = now.iter().find(|(of, id)| old.get(*of) != Some(*id)) {
                return Err(unusable(format!("it gives `{of}` another {what}: `{id}`")));
            }
        }
        Ok(())
    }
}

/// Each resource that was asked for is approved, and no other.
fn same_set(
    name: &str,
    wanted: &[ResourceDefinition],
    found: &[GrantInfo],
) -> Result<(), PortError> {
    let wanted: BTreeSet<&str> = wanted.iter().map(|one| one.id.as_str()).collect();
    let found: BTreeSet<&str> = found
        .iter()
        .map(|one| one.resource_definition_id.as_str())
        .collect();
    let list = |ids: Vec<&&str>| {
        ids.iter()
            .map(|id| format!("`{id}`"))
            .collect::<Vec<_>>()
            .join(", ")
    };
    let missing: Vec<_> = wanted.difference(&found).collect();
    if !missing.is_empty() {
        return Err(amiss(format!("{name} does not approve {}", list(missing))));
    }
    let strange: Vec<_> = found.difference(&wanted).collect();
    if !strange.is_empty() {
        return Err(amiss(format!(
            "{name} approves what nobody asked for: {}",
            list(strange)
        )));
    }
    Ok(())
}

/// Resources are managed by us, on the VIM itself.
fn direct(name: &str, info: &GrantInfo) -> Result<(), PortError> {
    let id = &info.resource_definition_id;
    if let Some(reservation) = &info.reservation_id {
        let what = format!("{name} wants reservation `{reservation}` used for `{id}`");
        return Err(unusable(format!("{what}, which no driver can")));
    }
    if let Some(provider) = &info.resource_provider_id {
        let what = format!("{name} wants provider `{provider}` asked for `{id}`");
        return Err(unusable(format!("{what}: only VIMs themselves are asked")));
    }
    Ok(())
}

/// The grant contradicts the request, or itself.
fn amiss(what: String) -> PortError {
    PortError::new(&AMISS, DOING, what)
}

/// The grant prescribes something that cannot be done.
fn unusable(what: String) -> PortError {
    PortError::new(&UNUSABLE, DOING, what)
}

fn not_usable(refusal: Refusal) -> PortError {
    let what = refusal.detail.clone();
    match vims::as_port_error(refusal) {
        error if error.is_unavailable() => error,
        error => unusable(what).hint(error.next()),
    }
}

/// The grant contradicts the request, or itself.
const AMISS: Code = Code {
    name: "grant.amiss",
    kind: ErrorKind::Refused,
    means: "the NFVO's grant contradicts the request for it, or itself; nothing was made",
    next: "report it to whoever runs the NFVO, with the grant's id",
};
/// The grant prescribes something that cannot be done.
const UNUSABLE: Code = Code {
    name: "grant.unusable",
    kind: ErrorKind::Refused,
    means: "the NFVO's grant prescribes something that this VNFM cannot do; nothing was made",
    next: "let the NFVO grant without it",
};

pub(super) const CODES: [&Code; 2] = [&AMISS, &UNUSABLE];

#[cfg(test)]
mod tests {
    use super::same_set;
    use serde_json::json;
    use vnfm_types::{GrantInfo, ResourceDefinition};

    #[test]
    fn what_is_approved_is_what_was_asked_for() {
        let wanted = |ids: &[&str]| -> Vec<ResourceDefinition> {
            let one = |id: &&str| json!({"id": id, "type": "COMPUTE", "resourceTemplateId": "v"});
            ids.iter()
                .map(|id| serde_json::from_value(one(id)).unwrap())
                .collect()
        };
        let found = |ids: &[&str]| -> Vec<GrantInfo> {
            let one = |id: &&str| json!({"resourceDefinitionId": id});
            ids.iter()
                .map(|id| serde_json::from_value(one(id)).unwrap())
                .collect()
        };
        same_set("addResources", &wanted(&["a", "b"]), &found(&["b", "a"])).unwrap();
        for (asked, granted, says) in [
            (&["a", "b"][..], &["a"][..], "does not approve `b`"),
            (&["a"], &["a", "c"], "nobody asked for: `c`"),
            (&["a"], &[], "does not approve `a`"),
        ] {
            let error = same_set("addResources", &wanted(asked), &found(granted)).unwrap_err();
            assert!(error.to_string().contains(says), "{error}");
            assert_eq!(error.name(), "grant.amiss");
        }
    }
}
