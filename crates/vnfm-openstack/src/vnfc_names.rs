//! Names of resources of one VNFC: `web-0`, the first of the VDU `web`.

use vnfm_descriptor::Flavour;

/// The VDU that a resource is named after, or the VDU of the VNFC that it is named after.
pub(crate) fn vdu_named<'n>(flavour: &Flavour, name: &'n str) -> Option<&'n str> {
    if flavour.vdus.contains_key(name) {
        return Some(name);
    }
    let (vdu, _) = vnfc_name(name)?;
    flavour.vdus.contains_key(vdu).then_some(vdu)
}

/// The parts of a name such as `web-0`.
pub(crate) fn vnfc_name(name: &str) -> Option<(&str, u32)> {
    let (stem, index) = name.rsplit_once('-')?;
    let is_number = index.bytes().all(|byte| byte.is_ascii_digit());
    let is_canonical = is_number && (index == "0" || !index.starts_with('0'));
    is_canonical.then_some((stem, index.parse().ok()?))
}
