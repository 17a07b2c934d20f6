//! Whether a scaling is allowed, and where it leads: from the scale status that a VNF has to the
//! one that it would have.
//!
//! ```text
//! scaled     aspect ± steps        0 … max_scale_level, several at once only where configured
//! scaled_to  a level per aspect    an instantiation level's own, or any where configured
//! ```
//! Either way each VDU stays within its profile ([`Flavour::instances_at`] counts).

use super::flavour::{Flavour, LevelError};
use serde::Serialize;
use std::collections::BTreeMap;

/// The scale level of each aspect, `scaleStatus` of SOL003.
pub type ScaleStatus = BTreeMap<String, u32>;

/// Which way a scaling goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum ScaleDirection {
    /// More instances.
    ScaleOut,
    /// Fewer instances.
    ScaleIn,
}

/// Why a scaling is not allowed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ScaleError {
    /// A number of instances cannot be told.
    #[error(transparent)]
    Level(#[from] LevelError),
    /// No step, or more than the descriptor allows at once.
    #[error(
        "scaling aspect `{aspect}` by {steps} steps is not allowed: the descriptor allows one step at a time"
    )]
    Steps {
        /// The aspect.
        aspect: String,
        /// The steps that were asked for.
        steps: u32,
    },
    /// The aspect is too low already.
    #[error("scaling aspect `{aspect}` is at level {level} and cannot go down {steps}")]
    TooLow {
        /// The aspect.
        aspect: String,
        /// Where it is.
        level: u32,
        /// The steps that were asked for.
        steps: u32,
    },
    /// A VDU would leave its profile.
    #[error("VDU `{vdu}` would have {count} instances; its profile allows {least} to {most}")]
    Profile {
        /// The VDU.
        vdu: String,
        /// What it would have.
        count: u32,
        /// `min_number_of_instances`.
        least: u32,
        /// `max_number_of_instances`.
        most: u32,
    },
    /// The levels are those of no instantiation level.
    #[error(
        "the levels asked for are those of no instantiation level of flavour `{flavour}`, and the descriptor allows no others"
    )]
    Arbitrary {
        /// The flavour.
        flavour: String,
    },
}

impl Flavour {
    /// The scale status after `steps` of an aspect.
    ///
    /// # Errors
    /// The aspect does not exist or has no such level, the descriptor does not allow so many
    /// steps at once, or a VDU would leave its profile.
    pub fn scaled(
        &self,
        status: &ScaleStatus,
        aspect: &str,
        direction: ScaleDirection,
        steps: u32,
    ) -> Result<ScaleStatus, ScaleError> {
        let Some(declared) = self.scaling_aspects.get(aspect) else {
            let (flavour, aspect) = (self.id.clone(), aspect.to_owned());
            return Err(LevelError::Aspect { flavour, aspect }.into());
        };
        if steps == 0 || (steps > 1 && !self.lcm.scaling_by_more_than_one_step_supported) {
            return Err(ScaleError::Steps {
                aspect: aspect.to_owned(),
                steps,
            });
        }
        let level = status.get(aspect).copied().unwrap_or(0);
        let next = match direction {
            ScaleDirection::ScaleOut => level.saturating_add(steps),
            ScaleDirection::ScaleIn => {
                level.checked_sub(steps).ok_or_else(|| ScaleError::TooLow {
                    aspect: aspect.to_owned(),
                    level,
                    steps,
                })?
            }
        };
        if next > declared.max_scale_level {
            let max = declared.max_scale_level;
            return Err(LevelError::TooHigh {
                aspect: aspect.to_owned(),
                level: next,
                max,
            }
            .into());
        }
        let mut status = status.clone();
        status.insert(aspect.to_owned(), next);
        self.within_profiles(&status)?;
        Ok(status)
    }

    /// The scale status after going to these levels; an aspect that is not named stays.
    ///
    /// # Errors
    /// An aspect does not exist or has no such level, the levels are those of no instantiation
    /// level where the descriptor allows no others, or a VDU would leave its profile.
    pub fn scaled_to(
        &self,
        status: &ScaleStatus,
        levels: &ScaleStatus,
    ) -> Result<ScaleStatus, ScaleError> {
        let mut next = status.clone();
        next.extend(
            levels
                .iter()
                .map(|(aspect, level)| (aspect.clone(), *level)),
        );
        self.within_profiles(&next)?;
        let named = |level: &String| {
            self.scale_levels(Some(level)).is_ok_and(|levels| {
                levels
                    .iter()
                    .all(|(aspect, level)| next.get(aspect).unwrap_or(&0) == level)
            })
        };
        if !self.lcm.arbitrary_target_levels_supported
            && !self.instantiation_levels.keys().any(named)
        {
            return Err(ScaleError::Arbitrary {
                flavour: self.id.clone(),
            });
        }
        Ok(next)
    }

    /// How many VNFCs each VDU has at the given scale levels.
    ///
    /// # Errors
    /// An aspect does not exist, a level is too high, or an aspect does not say what a step adds.
    pub fn all_instances_at(
        &self,
        status: &ScaleStatus,
    ) -> Result<BTreeMap<String, u32>, LevelError> {
        self.vdus
            .keys()
            .map(|vdu| Ok((vdu.clone(), self.instances_at(vdu, status)?)))
            .collect()
    }

    fn within_profiles(&self, status: &ScaleStatus) -> Result<(), ScaleError> {
        for (vdu, count) in self.all_instances_at(status)? {
            let profile = &self.vdus[&vdu];
            let least = profile.min_number_of_instances.unwrap_or(0);
            let most = profile.max_number_of_instances.unwrap_or(u32::MAX);
            if count < least || count > most {
                return Err(ScaleError::Profile {
                    vdu,
                    count,
                    least,
                    most,
                });
            }
        }
        Ok(())
    }
}
