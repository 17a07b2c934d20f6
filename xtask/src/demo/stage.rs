//! Runs the steps of the demo, and records how long each takes.

use anyhow::Result;
use serde::Serialize;

use crate::{interrupt, terminal};

/// Runs the steps with progress output, and records their durations.
#[derive(Default)]
pub(crate) struct Stage {
    pub(super) steps: Vec<Step>,
}

impl Stage {
    /// Runs one step, and prints its name and duration.
    ///
    /// # Errors
    /// The error of the step, or an interrupt.
    pub(crate) fn step<T>(
        &mut self,
        label: &str,
        act: impl FnOnce(&terminal::Progress) -> Result<T>,
    ) -> Result<T> {
        interrupt::check()?;
        let progress = terminal::Progress::begin(label);
        match act(&progress) {
            Ok(value) => {
                let seconds = (progress.done() * 1000.0).round() / 1000.0;
                self.steps.push(Step {
                    step: label.to_owned(),
                    seconds,
                });
                Ok(value)
            }
            Err(error) => {
                progress.failed();
                Err(error.context(format!("in the step `{label}`")))
            }
        }
    }
}

/// A step that succeeded, and its duration.
#[derive(Serialize)]
pub(super) struct Step {
    step: String,
    seconds: f64,
}
