//! Computes the scale status after a scaling, or why the scaling is not allowed.
//!
//! ```text
//! scaled           aspect ± steps              0 … max_scale_level; several steps only if configured
//! scaled_to        a level per aspect          those of an instantiation level; others only if configured
//! scaled_to_level  an instantiation level      its levels, and its numbers of instances
//! ```
//! Each time every VDU stays within its profile ([`Flavour::instances_at`] counts).

use super::flavour::{Flavour, LevelError, ScalingAspect};
use serde::Serialize;
use std::collections::BTreeMap;

/// The scale level of each aspect, `scaleStatus` of SOL003.
pub type ScaleStatus = BTreeMap<String, u32>;

/// The size of an instance after a scaling.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ScaledSize {
    /// Scale level of each aspect.
    pub levels: ScaleStatus,
    /// Number of VNFCs of each VDU.
    pub instances: BTreeMap<String, u32>,
}

/// The direction of a scaling.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum ScaleDirection {
    /// Scale out: add instances of VDUs.
    ScaleOut,
    /// Scale in: remove instances of VDUs.
    ScaleIn,
}

/// Why a scaling is not allowed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ScaleError {
    /// A number of instances cannot be computed.
    #[error(transparent)]
    Level(#[from] LevelError),
    /// Zero steps, or more than the descriptor allows at once.
    #[error(
        "scaling aspect `{aspect}` by {steps} steps is not allowed: the descriptor allows {allowed}"
    )]
    Steps {
        /// The scaling aspect of the request.
        aspect: String,
        /// The number of steps in the request.
        steps: u32,
        /// What the descriptor allows, for the message.
        allowed: &'static str,
    },
    /// The aspect would fall below level 0.
    #[error(
        "scaling aspect `{aspect}` is at level {level} and cannot be reduced by {steps}, at most by {level}"
    )]
    TooLow {
        /// The scaling aspect of the request.
        aspect: String,
        /// The current level of the aspect.
        level: u32,
        /// The number of steps in the request.
        steps: u32,
    },
    /// An instantiation names levels, which the descriptor does not allow.
    #[error(
        "flavour `{flavour}` does not support levels in an instantiation: `target_scale_levels_supported` is not true"
    )]
    TargetLevels {
        /// The flavour's identifier, for the message.
        flavour: String,
    },
    /// The levels match no instantiation level, and the descriptor allows no others.
    #[error(
        "the requested levels match no instantiation level of flavour `{flavour}`, and the descriptor allows no others"
    )]
    Arbitrary {
        /// The flavour's identifier, for the message.
        flavour: String,
    },
}

impl Flavour {
    /// The scale status after `steps` of an aspect.
    ///
    /// # Errors
    /// The aspect does not exist or has no such level, the descriptor does not allow this number of
    /// steps, or a VDU would be outside its profile.
    pub fn scaled(
        &self,
        status: &ScaleStatus,
        aspect: &str,
        direction: ScaleDirection,
        steps: u32,
    ) -> Result<ScaleStatus, ScaleError> {
        let Some(declared) = self.scaling_aspects.get(aspect) else {
            return Err(self.unknown_aspect(aspect).into());
        };
        if steps == 0 || (steps > 1 && !self.lcm.scaling_by_more_than_one_step_supported) {
            return Err(ScaleError::Steps {
                aspect: aspect.to_owned(),
                steps,
                allowed: if self.lcm.scaling_by_more_than_one_step_supported {
                    "one or more steps"
                } else {
                    "one step at a time"
                },
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
        self.check_profiles(&status)?;
        Ok(status)
    }

    /// The scale status after scaling to these levels; aspects not in `levels` are unchanged.
    ///
    /// # Errors
    /// An aspect does not exist or has no such level, the levels match no instantiation level and the
    /// descriptor allows no others, or a VDU would be outside its profile.
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
        self.check_profiles(&next)?;
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

    /// The size of a new instance with these levels. Aspects not in `levels`, and VDUs that no aspect in it scales, are as in
    /// the default instantiation level.
    ///
    /// # Errors
    /// An aspect does not exist or has no such level, the descriptor does not allow levels in an instantiation, or a VDU
    /// would be outside its profile.
    pub fn size_of_new(&self, levels: &ScaleStatus) -> Result<ScaledSize, ScaleError> {
        if !self.lcm.target_scale_levels_supported {
            return Err(ScaleError::TargetLevels {
                flavour: self.id.clone(),
            });
        }
        let mut all = self.scale_levels(None)?;
        all.extend(levels.clone());
        let mut size = self.size_at(all)?;
        let scaled_by = |vdu: &str, aspect: &String| {
            let aspect = self.scaling_aspects.get(aspect);
            aspect.is_some_and(|aspect| aspect.deltas.contains_key(vdu))
        };
        for (vdu, count) in &mut size.instances {
            if !levels.keys().any(|aspect| scaled_by(vdu, aspect)) {
                *count = self.instances_of(vdu, None)?;
            }
        }
        self.check_counts(&size.instances)?;
        Ok(size)
    }

    /// The size at an instantiation level. The numbers that the level states for its VDUs take precedence over
    /// those of the aspects, as in an instantiation.
    ///
    /// # Errors
    /// The level does not exist, an aspect lacks the delta of a step, or a VDU would be outside its profile.
    pub fn scaled_to_level(&self, level: &str) -> Result<ScaledSize, ScaleError> {
        let levels = self.scale_levels(Some(level))?;
        let counted = |vdu: &String| Ok((vdu.clone(), self.instances_of(vdu, Some(level))?));
        let instances = self.vdus.keys().map(counted);
        let instances = instances.collect::<Result<_, LevelError>>()?;
        Ok(ScaledSize { levels, instances })
    }

    /// The size at these scale levels, which [`Flavour::scaled`] or [`Flavour::scaled_to`] returned.
    ///
    /// # Errors
    /// As [`Flavour::all_instances_at`].
    pub fn size_at(&self, levels: ScaleStatus) -> Result<ScaledSize, ScaleError> {
        let instances = self.all_instances_at(&levels)?;
        Ok(ScaledSize { levels, instances })
    }

    /// The number of VNFCs of each VDU at the given scale levels.
    ///
    /// # Errors
    /// An aspect does not exist, a level is too high, or an aspect lacks the delta of a step.
    pub fn all_instances_at(
        &self,
        status: &ScaleStatus,
    ) -> Result<BTreeMap<String, u32>, LevelError> {
        self.vdus
            .keys()
            .map(|vdu| Ok((vdu.clone(), self.instances_at(vdu, status)?)))
            .collect()
    }

    fn check_profiles(&self, status: &ScaleStatus) -> Result<(), ScaleError> {
        self.check_counts(&self.all_instances_at(status)?)
    }

    fn check_counts(&self, instances: &BTreeMap<String, u32>) -> Result<(), ScaleError> {
        for (vdu, &count) in instances {
            self.vdus[vdu].within_profile(count)?;
        }
        Ok(())
    }
}

impl ScalingAspect {
    /// The delta of a step, counted from 1; a single entry repeats for every step.
    pub(super) fn step_delta(&self, step: u32) -> Option<&str> {
        let index = if self.step_deltas.len() == 1 {
            0
        } else {
            step as usize - 1
        };
        self.step_deltas.get(index).map(String::as_str)
    }
}
