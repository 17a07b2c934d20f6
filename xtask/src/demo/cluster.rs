//! The story `cluster`: VNF-A builds a cluster, VNF-B runs on it, both are terminated and leave nothing.

use anyhow::Result;

use super::instances::{SAMPLE_B, Scenario, VNF_A, VNF_B};

/// Runs all steps, from the first package to the check that nothing is left.
///
/// # Errors
/// The error of the first failing step.
pub(crate) fn play(scenario: &mut Scenario<'_>) -> Result<()> {
    let package_a = scenario.onboard(scenario.shape.folder())?;
    let package_b = scenario.onboard(SAMPLE_B)?;
    scenario.register_cloud()?;
    let cluster = scenario.bring_up_a(&package_a)?;
    scenario.bring_up_b(&package_b, &cluster)?;
    scenario.refuse_to_terminate_a()?;
    scenario.bring_down(VNF_B, "terminate VNF-B")?;
    let label = "terminate VNF-A: unregister the cluster, delete the stack";
    scenario.bring_down(VNF_A, label)?;
    scenario.clear(&[&package_a, &package_b], &cluster)?;
    scenario.check_that_nothing_is_left()
}
