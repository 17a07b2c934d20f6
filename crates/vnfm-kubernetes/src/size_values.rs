//! The values of charts that are numbers of VDUs, as the request names them.
//!
//! | parameter of Tacker | names |
//! |---|---|
//! | `helm_value_names: {VDU: {replica: key}}` (v2) | the value that is the number of a VDU |
//! | `helm_replica_values: {aspect: key}` (v1) | the same for the VDUs that an aspect scales |
//!
//! Every chart gets them; with `helmreleasename` in `vdu_mapping`, only that release.

use crate::member::Member;
use crate::requested::{self, check_vdu};
use crate::reserved::{CHART, SIZES_BY_ASPECT, SIZES_BY_VDU};
use crate::values;
use serde_json::{Map, Value};
use vnfm_core::ports::{Allocation, PortError};

/// The value of a chart that is the number of a VDU's VNFCs.
pub(crate) struct SizeValue<'a> {
    /// Name of the VDU's node template.
    pub(crate) vdu: String,
    count: u32,
    /// Key of the value.
    key: Member<'a>,
    /// The only release that has the value.
    release: Option<&'a str>,
}

impl SizeValue<'_> {
    /// Whether the chart of this release has the value.
    pub(crate) fn is_for(&self, release: &str) -> bool {
        self.release.is_none_or(|own| own == release)
    }

    /// # Errors
    ///
    /// `Refused`: the key cannot be one of a value.
    pub(crate) fn set(&self, values: &mut Map<String, Value>) -> Result<(), PortError> {
        let set = values::set(values, self.key.text()?, self.count.into());
        set.map_err(|reason| self.key.refused(reason))
    }

    /// The error that there is no chart whose value it could be.
    pub(crate) fn without_chart(&self) -> PortError {
        let reason = format!("no chart is deployed that could have it: name one in `{CHART}`");
        self.key.refused(reason)
    }
}

/// The values that are numbers of VDUs.
///
/// # Errors
///
/// `Refused`, naming a VDU or aspect that the flavour does not have, or whose VDUs have different numbers.
pub(crate) fn sizes(allocation: &Allocation) -> Result<Vec<SizeValue<'_>>, PortError> {
    let params = &allocation.deployment.additional_params;
    let mut sizes = Vec::new();
    if let Some(by_vdu) = Member::of_request(params, SIZES_BY_VDU) {
        for (vdu, names) in by_vdu.members()? {
            check_vdu(allocation, vdu, &names)?;
            if let Some(key) = names.member("replica")? {
                sizes.push(size(allocation, vdu, key)?);
            }
        }
    }
    if let Some(by_aspect) = Member::of_request(params, SIZES_BY_ASPECT) {
        for (aspect, key) in by_aspect.members()? {
            sizes.extend(sizes_of_aspect(allocation, aspect, &key)?);
        }
    }
    Ok(sizes)
}

fn size<'a>(
    allocation: &'a Allocation,
    vdu: &str,
    key: Member<'a>,
) -> Result<SizeValue<'a>, PortError> {
    Ok(SizeValue {
        vdu: vdu.to_owned(),
        count: allocation.deployment.instances_of(vdu),
        key,
        release: requested::release_of(allocation, vdu)?,
    })
}

/// The value is the number of each VDU that the aspect scales.
fn sizes_of_aspect<'a>(
    allocation: &'a Allocation,
    aspect: &str,
    key: &Member<'a>,
) -> Result<Vec<SizeValue<'a>>, PortError> {
    let (package, deployment) = (&allocation.package, &allocation.deployment);
    let flavour = package.vnfd().flavour(&deployment.flavour_id);
    let Some(scaled) = flavour.and_then(|flavour| flavour.scaling_aspects.get(aspect)) else {
        let flavour = &deployment.flavour_id;
        return Err(key.refused(format!("flavour `{flavour}` has no aspect `{aspect}`")));
    };
    let vdus = scaled.deltas.keys();
    let sizes = vdus.map(|vdu| size(allocation, vdu, key.clone()));
    let sizes = sizes.collect::<Result<Vec<_>, PortError>>()?;
    if let [first, others @ ..] = &*sizes
        && let Some(other) = others.iter().find(|other| other.count != first.count)
    {
        let text = format!(
            "VDUs `{}` and `{}` of aspect `{aspect}` have different numbers",
            first.vdu, other.vdu
        );
        let hint = format!("name a value for each of them in `{SIZES_BY_VDU}`");
        return Err(key.refused(text).hint(hint));
    }
    Ok(sizes)
}
