//! Checks a grant against its request: it approves exactly what was requested, does not contradict itself, and
//! prescribes nothing that we cannot do. What only a driver can judge, the driver refuses in `preview`.

use super::approved::Approved;
use super::op_context::Op;
use super::operation::GrantDecides;
use crate::deployment::Deployment;
use crate::hooks;
use crate::patch::merge_patch;
use crate::ports::{Code, ErrorKind, Granted, PortError};
use crate::refusal::Refusal;
use crate::vims;
use serde_json::Value;
use std::collections::BTreeSet;
use vnfm_types::{ExtVirtualLinkData, Grant, GrantInfo, GrantRequest, ResourceDefinition};

const ACTION: &str = "use the grant of the NFVO";

pub(super) struct GrantReader<'a> {
    pub(super) op: &'a Op,
    pub(super) request: &'a GrantRequest,
    pub(super) grant: &'a Grant,
}

impl GrantReader<'_> {
    /// The parts of the grant that affect the operation.
    ///
    /// # Errors
    ///
    /// If it contradicts the request or itself, or prescribes something we cannot do.
    pub(super) async fn approved(&self) -> Result<Approved, PortError> {
        self.check_ids()?;
        let Self { op, request, grant } = self;
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
            check_exact_approval(name, wanted, found)?;
            found
                .iter()
                .try_for_each(|info| check_supported(name, info))?;
        }
        let mut approved = Approved {
            grant_id: Some(grant.id.clone()),
            additional_params: grant.additional_params.clone(),
            ..Approved::default()
        };
        match op.operation.grant.as_ref().map(|rule| rule.decides) {
            Some(GrantDecides::Placement) => self.review_target(&mut approved).await?,
            Some(GrantDecides::Flavour) => {
                self.review_target(&mut approved).await?;
                if approved.elsewhere {
                    return Err(unusable("it moves the VNF to another VIM".to_owned()));
                }
            }
            Some(GrantDecides::NewResources) => {
                approved.granted.zones = self.check_assets_unchanged()?.zones;
            }
            Some(GrantDecides::Parameters) | None => self.check_placement_unchanged()?,
        }
        if !approved.additional_params.is_empty() && !op.record.request.is_object() {
            return Err(unusable(
                "the operation does not accept additionalParams".to_owned(),
            ));
        }
        Ok(approved)
    }

    /// Refuses the grant of another request.
    fn check_ids(&self) -> Result<(), PortError> {
        let Self { request, grant, .. } = self;
        let (found, wanted) = (&grant.vnf_lcm_op_occ_id, &request.vnf_lcm_op_occ_id);
        let op = ("vnfLcmOpOccId", found, wanted);
        let (found, wanted) = (&grant.vnf_instance_id, &request.vnf_instance_id);
        for (name, found, wanted) in [("vnfInstanceId", found, wanted), op] {
            if found != wanted {
                let what = format!("{name} is `{found}`, not `{wanted}`");
                return Err(invalid_grant(what));
            }
        }
        Ok(())
    }

    /// The target of an instantiation: VIM, links, parameters and placement.
    async fn review_target(&self, approved: &mut Approved) -> Result<(), PortError> {
        let mut target = Deployment::clone(self.op.deployment()?);
        let key = self.vim(&target)?;
        let requested = target.vim_connection_info.get(&key).cloned();
        if let Some(given) = self.grant.vim_connection_info.get(&key) {
            target.vim_connection_info = [(key.clone(), given.clone())].into_iter().collect();
        } else {
            target.vim_connection_info.retain(|known, _| *known == key);
        }
        let connections = &mut target.vim_connection_info;
        let found = vims::of_connections(&self.op.context, self.op.tenant(), connections).await;
        let (vim, _) = found.map_err(not_usable)?;
        vims::name_by_id(connections, &vim);
        approved.elsewhere = target.vim_connection_info.get(&key) != requested.as_ref();
        approved.vim_connection_info = target.vim_connection_info;
        approved
            .ext_virtual_links
            .clone_from(&self.grant.ext_virtual_links);
        approved.granted = self.granted(&key)?;
        if !approved.additional_params.is_empty() {
            merge_patch(
                &mut target.additional_params,
                Some(&approved.additional_params),
            );
            let requested = hooks::ParameterCheck {
                package: self.op.package()?,
                flavour: &target.flavour_id,
                interface_operation: self.op.operation.interface_operation,
                params: &target.additional_params,
                skipped: &[],
                deployed: None,
            };
            hooks::check_parameters(&self.op.context, &requested, &Value::Null)
                .map_err(not_usable)?;
        }
        Ok(())
    }

    /// Key of the one VIM that hosts all resources.
    fn vim(&self, target: &Deployment) -> Result<String, PortError> {
        let given = &self.grant.vim_connection_info;
        let infos = self.grant.add_resources.iter();
        let named: BTreeSet<&String> = infos
            .filter_map(|info| info.vim_connection_id.as_ref())
            .collect();
        let known = if given.is_empty() {
            &target.vim_connection_info
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
                if given.contains_key(one) || target.vim_connection_info.contains_key(one) =>
            {
                Ok(one.clone())
            }
            (Some(one), None) => Err(invalid_grant(format!(
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

    /// The placement that the grant prescribes on the VIM with this key.
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
        self.add_assets(key, &mut granted)?;
        for link in grant
            .ext_managed_virtual_links
            .iter()
            .filter(|l| of_vim(&l.vim_connection_id))
        {
            let id = &link.vnf_virtual_link_desc_id;
            if !flavour.virtual_links.contains_key(id) {
                let what =
                    format!("vnfVirtualLinkDescId `{id}` is not an internal link of the VNFD");
                return Err(invalid_grant(what));
            }
            granted
                .managed_links
                .insert(id.clone(), link.resource_id.clone());
            granted.managed_link_ids.insert(id.clone(), link.id.clone());
        }
        Ok(granted)
    }

    /// Adds the flavors and images that the grant prescribes.
    fn add_assets(&self, key: &str, granted: &mut Granted) -> Result<(), PortError> {
        let of_vim = |id: &Option<String>| id.as_deref().is_none_or(|id| id == key);
        let flavour = self.op.flavour()?;
        let assets = self.grant.vim_assets.clone().unwrap_or_default();
        for one in assets
            .compute_resource_flavours
            .iter()
            .filter(|a| of_vim(&a.vim_connection_id))
        {
            let vdu = &one.vnfd_virtual_compute_desc_id;
            if !flavour.vdus.contains_key(vdu) {
                let what = format!("vnfdVirtualComputeDescId `{vdu}` is not a VDU of the VNFD");
                return Err(invalid_grant(what));
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
                return Err(invalid_grant(format!(
                    "vnfdSoftwareImageId `{id}` is not an image of the VNFD"
                )));
            };
            for owner in std::iter::once(first).chain(owners.map(|(owner, _)| owner)) {
                granted
                    .images
                    .insert(owner.to_owned(), one.vim_software_image_id.clone());
            }
        }
        Ok(())
    }

    /// The zone's name on the VIM.
    fn zone(&self, info: &GrantInfo) -> Result<Option<&str>, PortError> {
        let Some(id) = &info.zone_id else {
            return Ok(None);
        };
        match self.grant.zones.iter().find(|zone| zone.id == *id) {
            Some(zone) => Ok(Some(&zone.zone_id)),
            None => Err(invalid_grant(format!("zoneId `{id}` is not in zones"))),
        }
    }

    /// An existing VNF stays where it is: a grant may confirm its placement, but not change it.
    fn check_placement_unchanged(&self) -> Result<(), PortError> {
        let after = self.check_assets_unchanged()?;
        let before = &self.op.deployment()?.placement;
        let zones: BTreeSet<&String> = before.zones.values().collect();
        if let Some(zone) = after.zones.values().find(|zone| !zones.contains(zone)) {
            return Err(unusable(format!("it moves resources to zone `{zone}`")));
        }
        Ok(())
    }

    /// VIM, links, flavors and images of an existing VNF stay. The placement that the grant prescribes.
    fn check_assets_unchanged(&self) -> Result<Granted, PortError> {
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
        let before = &first.placement;
        let after = self.granted(
            first
                .vim_connection_info
                .keys()
                .next()
                .map_or("", String::as_str),
        )?;
        for (what, before, after) in [
            ("flavor", &before.flavours, &after.flavours),
            ("image", &before.images, &after.images),
            ("network", &before.managed_links, &after.managed_links),
        ] {
            if let Some((of, id)) = after.iter().find(|(of, id)| before.get(*of) != Some(*id)) {
                return Err(unusable(format!("it gives `{of}` another {what}: `{id}`")));
            }
        }
        Ok(after)
    }
}

/// The grant approves every requested resource, and no other.
fn check_exact_approval(
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
        return Err(invalid_grant(format!(
            "{name} does not approve {}",
            list(missing)
        )));
    }
    let extra: Vec<_> = found.difference(&wanted).collect();
    if !extra.is_empty() {
        return Err(invalid_grant(format!(
            "{name} approves resources that were not requested: {}",
            list(extra)
        )));
    }
    Ok(())
}

/// Only direct resource management is supported: no reservations, no resource providers.
fn check_supported(name: &str, info: &GrantInfo) -> Result<(), PortError> {
    let id = &info.resource_definition_id;
    if let Some(reservation) = &info.reservation_id {
        let what = format!("{name} uses reservation `{reservation}` for `{id}`");
        return Err(unusable(format!("{what}, which no driver supports")));
    }
    if let Some(provider) = &info.resource_provider_id {
        let what = format!("{name} gets `{id}` from resource provider `{provider}`");
        return Err(unusable(format!(
            "{what}; only direct access to the VIM is supported"
        )));
    }
    Ok(())
}

fn invalid_grant(what: String) -> PortError {
    PortError::new(&INVALID, ACTION, what)
}

fn unusable(what: String) -> PortError {
    PortError::new(&UNUSABLE, ACTION, what)
}

fn not_usable(refusal: Refusal) -> PortError {
    let what = refusal.detail.clone();
    match vims::as_port_error(refusal) {
        error if error.is_unavailable() => error,
        error => unusable(what).hint(error.next()),
    }
}

const INVALID: Code = Code {
    name: "grant.amiss",
    kind: ErrorKind::Refused,
    means: "the NFVO's grant contradicts the grant request, or itself; nothing was created",
    next: "report it to the operator of the NFVO, with the grant's id",
};
const UNUSABLE: Code = Code {
    name: "grant.unusable",
    kind: ErrorKind::Refused,
    means: "the NFVO's grant prescribes something that this VNFM cannot do; nothing was created",
    next: "have the NFVO issue a grant without it",
};

pub(super) const CODES: [&Code; 2] = [&INVALID, &UNUSABLE];

#[cfg(test)]
mod tests {
    use super::check_exact_approval;
    use serde_json::json;
    use vnfm_types::{GrantInfo, ResourceDefinition};

    #[test]
    fn a_grant_approves_exactly_the_requested_resources() {
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
        check_exact_approval("addResources", &wanted(&["a", "b"]), &found(&["b", "a"])).unwrap();
        for (requested, granted, text) in [
            (&["a", "b"][..], &["a"][..], "does not approve `b`"),
            (&["a"], &["a", "c"], "not requested: `c`"),
            (&["a"], &[], "does not approve `a`"),
        ] {
            let error = check_exact_approval("addResources", &wanted(requested), &found(granted))
                .unwrap_err();
            assert!(error.to_string().contains(text), "{error}");
            assert_eq!(error.name(), "grant.amiss");
        }
    }
}
