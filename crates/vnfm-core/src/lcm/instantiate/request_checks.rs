//! Checks of an instantiation request against the instance, its package and its VNFD, before anything is written.

use super::super::scale_refusal::{check_aspects, not_possible, refused};
use crate::context::Context;
use crate::deployment::Deployment;
use crate::ports::StoreError;
use crate::refusal::{self, Refusal, Why};
use vnfm_descriptor::Flavour;
use vnfm_types::{InstantiateVnfRequest, PackageOperationalState};

/// Refuses a package that was disabled after the instance was created: nothing more is
/// instantiated from it (SOL005 9.5.4.4).
pub(super) async fn check_enabled(
    context: &Context,
    tenant: &str,
    vnf_pkg_id: &str,
) -> Result<(), Refusal> {
    match context.store().package_record(tenant, vnf_pkg_id).await {
        Ok(record) if record.info.operational_state == PackageOperationalState::Disabled => {
            let what = format!("VNF package `{vnf_pkg_id}` is DISABLED");
            Err(Refusal::new(Why::Conflict, &refusal::DISABLED, what))
        }
        // For a package without a record, the package store reports what is wrong with it.
        Ok(_) | Err(StoreError::NotFound { .. }) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Externally managed links must be links of the flavour, each at most once.
pub(super) fn check_links(
    package: &vnfm_descriptor::Package,
    request: &InstantiateVnfRequest,
) -> Result<(), Refusal> {
    let links = package
        .vnfd()
        .flavours
        .get(&request.flavour_id)
        .map(|one| &one.virtual_links);
    let mut seen = std::collections::BTreeSet::new();
    for link in &request.ext_managed_virtual_links {
        let id = &link.vnf_virtual_link_desc_id;
        let why = if links.is_none_or(|links| !links.contains_key(id)) {
            "is not an internal link of the flavour"
        } else if !seen.insert(id) {
            "is listed twice"
        } else {
            continue;
        };
        let what = format!("extManagedVirtualLinks: vnfVirtualLinkDescId `{id}` {why}");
        return Err(Refusal::new(
            Why::Unprocessable,
            &refusal::BAD_PARAMETERS,
            what,
        ));
    }
    Ok(())
}

/// The flavour must be in the VNFD, and the instantiation level in the flavour.
pub(super) fn check_flavour(
    package: &vnfm_descriptor::Package,
    request: &InstantiateVnfRequest,
) -> Result<(), Refusal> {
    let vnfd = package.vnfd();
    let unknown = |what| Refusal::new(Why::Unprocessable, &refusal::UNKNOWN_FLAVOUR, what);
    let Some(flavour) = vnfd.flavours.get(&request.flavour_id) else {
        let known: Vec<_> = vnfd.flavours.keys().map(String::as_str).collect();
        return Err(unknown(format!(
            "flavourId `{}` is not in the VNFD `{}`, which has: {}",
            request.flavour_id,
            vnfd.descriptor_id,
            known.join(", ")
        )));
    };
    match &request.instantiation_level_id {
        Some(level) if !flavour.instantiation_levels.contains_key(level) => {
            let known: Vec<_> = flavour
                .instantiation_levels
                .keys()
                .map(String::as_str)
                .collect();
            Err(unknown(format!(
                "instantiationLevelId `{level}` is not in the flavour `{}`, which has: {}",
                request.flavour_id,
                known.join(", ")
            )))
        }
        _ => check_target_levels(flavour, request),
    }
}

/// `targetScaleLevelInfo` replaces the instantiation level, if the flavour allows it.
fn check_target_levels(flavour: &Flavour, request: &InstantiateVnfRequest) -> Result<(), Refusal> {
    let levels = &request.target_scale_level_info;
    if levels.is_empty() {
        return Ok(());
    }
    if request.instantiation_level_id.is_some() {
        let what = "the request must not have both instantiationLevelId and targetScaleLevelInfo";
        return Err(not_possible(what));
    }
    check_aspects(levels, "targetScaleLevelInfo")?;
    Deployment::default()
        .set_target_levels(flavour, levels)
        .map_err(|error| refused(flavour, &error))
}
