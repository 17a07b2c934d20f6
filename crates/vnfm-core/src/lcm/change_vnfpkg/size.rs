//! The size of a VNF in terms of its new package: scale levels stay, and with them the number of VNFCs.

use super::destination::not_possible;
use crate::deployment::Deployment;
use crate::lcm::scale_refusal;
use crate::refusal::Refusal;
use std::collections::BTreeMap;
use vnfm_descriptor::{Component, Flavour, LevelError, PackagePath, ScaleStatus, ScaledSize};
use vnfm_types::AspectId;

/// Sets level, scale levels and VNFC counts of the target. Aspects and VDUs that only the new package has get the size of
/// the instantiation level.
pub(super) fn carry_over(
    (before, old): (&Deployment, Option<&Flavour>),
    (target, flavour): (&mut Deployment, &Flavour),
    path: &PackagePath,
) -> Result<(), Refusal> {
    let level = before.instantiation_level_id.as_deref();
    let level = level.map(|level| path.destination(Component::InstantiationLevel, level));
    let level = level.filter(|level| flavour.instantiation_levels.contains_key(*level));
    target.instantiation_level_id = level.map(ToOwned::to_owned);
    let levels = levels(before, (flavour, level), path)?;
    let counted = counts((before, old), (flavour, &levels, level), path);
    let instances = counted.map_err(|error| scale_refusal::not_possible(error.to_string()))?;
    target.set_size(ScaledSize { levels, instances });
    Ok(())
}

/// The scale level of each aspect of the new flavour.
fn levels(
    before: &Deployment,
    (flavour, level): (&Flavour, Option<&str>),
    path: &PackagePath,
) -> Result<ScaleStatus, Refusal> {
    let initial = flavour.scale_levels(level);
    let mut levels = initial.map_err(|error| scale_refusal::not_possible(error.to_string()))?;
    for (name, aspect) in &flavour.scaling_aspects {
        let source = path.source(Component::ScalingAspect, name);
        let Some(now) = before.scale_levels.get(&AspectId::from(source)) else {
            continue;
        };
        if *now > aspect.max_scale_level {
            return Err(not_possible(format!(
                "the scaling aspect `{source}` is at level {now}, and the new VNFD allows `{name}` up to {}: scale in first",
                aspect.max_scale_level
            )));
        }
        levels.insert(name.clone(), *now);
    }
    Ok(levels)
}

/// The number of VNFCs of each VDU. One that both packages compute alike stays, also if it deviates.
fn counts(
    (before, old): (&Deployment, Option<&Flavour>),
    (flavour, levels, level): (&Flavour, &ScaleStatus, Option<&str>),
    path: &PackagePath,
) -> Result<BTreeMap<String, u32>, LevelError> {
    let old_levels = before.scale_levels.iter();
    let old_levels: ScaleStatus = old_levels
        .map(|(name, at)| (name.to_string(), *at))
        .collect();
    let one = |vdu: &String| {
        let source = path.source(Component::Vdu, vdu);
        let known = old.filter(|old| old.vdus.contains_key(source));
        let computed = flavour.instances_at(vdu, levels)?;
        let was = known.and_then(|old| old.instances_at(source, &old_levels).ok());
        let mut aspects = flavour.scaling_aspects.values();
        let is_scaled = aspects.any(|aspect| aspect.deltas.contains_key(vdu));
        let count = if was == Some(computed) {
            before.instances_of(source)
        } else if is_scaled {
            computed
        } else {
            flavour.instances_of(vdu, level)?
        };
        Ok((vdu.clone(), count))
    };
    flavour.vdus.keys().map(one).collect()
}
