//! The story `workers`: VNF-A's cluster grows from two workers to four and shrinks again. `cargo xtask bench --real` compares the
//! growth with the same steps done manually.

use anyhow::Result;

use super::instances::{Scenario, VNF_A};

/// The step that is compared.
pub(crate) const SCALE_OUT: &str = "scale VNF-A to four workers";

/// Runs all steps, from the package to the check that nothing is left.
///
/// # Errors
/// The error of the first failing step.
pub(crate) fn play(scenario: &mut Scenario<'_>) -> Result<()> {
    let package = scenario.onboard(scenario.shape.folder())?;
    scenario.register_cloud()?;
    let cluster = scenario.bring_up_a(&package)?;
    scale(scenario, SCALE_OUT, "large")?;
    scale(scenario, "scale VNF-A to two workers", "small")?;
    scenario.bring_down(VNF_A, "terminate VNF-A")?;
    scenario.clear(&[&package], &cluster)?;
    scenario.check_that_nothing_is_left()
}

fn scale(scenario: &mut Scenario<'_>, label: &str, level: &str) -> Result<()> {
    let ctl = scenario.ctl;
    let words = ["vnf", "scale_to_level", VNF_A, "--level", level, "--watch"];
    scenario
        .stage
        .step(label, |progress| ctl.watch(progress, &words))
}
