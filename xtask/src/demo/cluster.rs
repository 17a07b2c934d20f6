//! The story `cluster`: VNF-A builds a cluster, VNF-B runs on it, both are terminated and leave nothing.

use anyhow::Result;

use super::instances::{SAMPLE_B, Story, VNF_A, VNF_B};

/// Runs all steps, from the first package to the check that nothing is left.
///
/// # Errors
/// The error of the first failing step.
pub(crate) fn play(story: &mut Story<'_>) -> Result<()> {
    let package_a = story.onboard(story.shape.folder())?;
    let package_b = story.onboard(SAMPLE_B)?;
    story.register_cloud()?;
    let cluster = story.bring_up_a(&package_a)?;
    story.bring_up_b(&package_b, &cluster)?;
    story.refuse_to_terminate_a()?;
    story.bring_down(VNF_B, "terminate VNF-B")?;
    let label = "terminate VNF-A: unregister the cluster, delete the stack";
    story.bring_down(VNF_A, label)?;
    story.clear(&[&package_a, &package_b], &cluster)?;
    story.check_that_nothing_is_left()
}
