//! Refusals of a size that flavour and instance do not allow, and of the levels in a request.

use crate::refusal::{self, Refusal, Why};
use std::collections::BTreeSet;
use vnfm_descriptor::{Flavour, LevelError, ScaleError, nearest};
use vnfm_types::ScaleInfo;

/// The refusal of a size that flavour and instance do not allow.
pub(super) fn not_possible(what: impl Into<String>) -> Refusal {
    Refusal::new(Why::Unprocessable, &refusal::BAD_SCALE, what)
}

/// The refusal for `error`, with the name that was probably meant.
pub(super) fn refused(flavour: &Flavour, error: &ScaleError) -> Refusal {
    let near = match error {
        ScaleError::Level(LevelError::Aspect { aspect, .. }) => {
            let aspects = flavour.scaling_aspects.keys();
            nearest(aspect, aspects.map(String::as_str))
        }
        ScaleError::Level(LevelError::Level { level, .. }) => {
            let levels = flavour.instantiation_levels.keys();
            nearest(level, levels.map(String::as_str))
        }
        _ => None,
    };
    let refusal = not_possible(error.to_string());
    match near {
        Some(near) => refusal.hint(format!("did you mean `{near}`?")),
        None => refusal,
    }
}

/// Refuses a list of levels that names an aspect twice.
pub(super) fn check_aspects(levels: &[ScaleInfo], member: &str) -> Result<(), Refusal> {
    let mut aspects = BTreeSet::new();
    let mut levels = levels.iter();
    match levels.find(|info| !aspects.insert(&info.aspect_id)) {
        Some(twice) => Err(not_possible(format!(
            "{member} names aspect `{}` twice",
            twice.aspect_id
        ))),
        None => Ok(()),
    }
}
