//! The VNF snapshots of a story: each is created before the task that fills it, and all are deleted before their VIM.

use std::collections::BTreeSet;

use anyhow::{Context, Result, ensure};
use vnfm_types::{VnfInstance, VnfSnapshot, VnfSnapshotInfo};

use super::cloud::Cloud;
use super::ctl::{Ctl, text};
use super::instances::{Scenario, VIM};
use super::record;

/// The task that fills a snapshot.
pub(crate) const CREATE: &str = "create_snapshot";
/// The task that returns to one.
pub(crate) const REVERT: &str = "revert_to_snapshot";

/// Creates a snapshot without contents, which becomes that of the next requests.
///
/// # Errors
/// The error that `vnfmctl` reports.
pub(crate) fn create(scenario: &mut Scenario<'_>) -> Result<()> {
    let ctl = scenario.ctl;
    let id = scenario.stage.step("snapshot create", |_| {
        text(&ctl.json(&["snapshot", "create"])?, "id").map(str::to_owned)
    })?;
    scenario.snapshots.push(id);
    Ok(())
}

/// Checks that the last snapshot is a complete one of this instance, and that the cloud has all its images.
///
/// # Errors
/// If a VNFC or an image is missing.
pub(crate) fn check_created(
    scenario: &mut Scenario<'_>,
    cloud: &Cloud,
    instance: &VnfInstance,
) -> Result<()> {
    let contents = last(scenario)?;
    scenario.stage.step("snapshot show: complete", |progress| {
        check_complete(&contents, instance)?;
        let vnfcs: BTreeSet<_> = record::vnfcs(instance).into_keys().collect();
        let stored = contents.vnfc_snapshots.iter();
        let stored: BTreeSet<_> = stored.map(|vnfc| vnfc.vnfc_instance_id.clone()).collect();
        ensure!(
            stored == vnfcs,
            "the snapshot has VNFCs {stored:?}, the instance {vnfcs:?}"
        );
        let images = images(&contents);
        ensure!(
            images.len() == vnfcs.len(),
            "{} VNFCs have {} images",
            vnfcs.len(),
            images.len()
        );
        let all = cloud.list("image", "/v2/images", "images")?;
        let active = all.iter().filter(|image| image["status"] == "active");
        let active: BTreeSet<_> = active.filter_map(|image| image["id"].as_str()).collect();
        let missing: Vec<_> = images.difference(&active).collect();
        ensure!(missing.is_empty(), "the cloud lacks images {missing:?}");
        progress.show(&format!("{} images", images.len()));
        Ok(())
    })
}

/// Checks that the last snapshot is a complete one of this instance, which has nothing but its record.
///
/// # Errors
/// If it is not complete, or has a VNFC.
pub(crate) fn check_record(scenario: &mut Scenario<'_>, instance: &VnfInstance) -> Result<()> {
    let contents = last(scenario)?;
    scenario.stage.step("snapshot show: complete", |_| {
        check_complete(&contents, instance)?;
        let stored = contents.vnfc_snapshots.len();
        ensure!(
            stored == 0,
            "the snapshot of a VNF without claims has {stored} VNFCs"
        );
        Ok(())
    })
}

fn check_complete(contents: &VnfSnapshot, instance: &VnfInstance) -> Result<()> {
    let (stored, id) = (&contents.vnf_instance_id, &instance.id);
    ensure!(
        stored == id,
        "the snapshot is of instance `{stored}`, not `{id}`"
    );
    ensure!(
        contents.creation_finished_at.is_some(),
        "the snapshot has no `creationFinishedAt`"
    );
    Ok(())
}

/// Deletes the last snapshot, while its VIM exists.
///
/// # Errors
/// If the VIM does not delete it.
pub(crate) fn delete_last(scenario: &mut Scenario<'_>) -> Result<()> {
    let id = scenario.snapshots.pop().context("no snapshot exists")?;
    let ctl = scenario.ctl;
    scenario.stage.step("snapshot delete", |_| {
        ctl.json(&["snapshot", "delete", &id]).map(drop)
    })
}

/// Checks that each server of this instance has an image of the last snapshot.
///
/// # Errors
/// If one has another.
pub(crate) fn check_reverted(
    scenario: &mut Scenario<'_>,
    cloud: &Cloud,
    instance: &VnfInstance,
) -> Result<()> {
    let contents = last(scenario)?;
    let label = "the servers have the images of the snapshot";
    scenario.stage.step(label, |_| {
        let images = images(&contents);
        let servers = cloud.list("compute", "/servers/detail", "servers")?;
        for vnfc in record::vnfcs(instance).keys() {
            let id = record::resource_of(instance, vnfc).context("a VNFC has no server")?;
            let server = servers.iter().find(|server| server["id"] == id.as_str());
            let image = server.and_then(|server| server["image"]["id"].as_str());
            ensure!(
                image.is_some_and(|image| images.contains(image)),
                "server `{id}` has image {image:?}, which is not of the snapshot"
            );
        }
        Ok(())
    })
}

/// Deletes all snapshots; until then they hold their VIM.
///
/// # Errors
/// If the VIM can be deleted before, or a snapshot cannot be.
pub(crate) fn delete_all(scenario: &mut Scenario<'_>) -> Result<()> {
    let (ctl, all) = (scenario.ctl, std::mem::take(&mut scenario.snapshots));
    let label = "vim delete: refused, snapshots are on it";
    scenario.stage.step(label, |progress| {
        let reason = ctl.refused(&["vim", "delete", VIM])?;
        ensure!(
            all.iter().any(|id| reason.contains(id)),
            "the refusal names no snapshot: {reason}"
        );
        let hint = "delete the listed VNF snapshots";
        ensure!(reason.contains(hint), "the hint is not to {hint}: {reason}");
        reason.lines().for_each(|line| progress.show(line));
        Ok(())
    })?;
    scenario
        .stage
        .step("snapshot delete", |_| delete_listed(ctl))
}

/// Deletes every snapshot that the server lists.
///
/// # Errors
/// If one cannot be deleted.
pub(crate) fn delete_listed(ctl: &Ctl) -> Result<()> {
    let all = ctl.json(&["snapshot", "list"])?;
    for one in all.as_array().context("`snapshot list` returns no list")? {
        ctl.json(&["snapshot", "delete", text(one, "id")?])?;
    }
    Ok(())
}

/// The contents of the last snapshot.
fn last(scenario: &Scenario<'_>) -> Result<VnfSnapshot> {
    let id = scenario.snapshots.last().context("no snapshot exists")?;
    let shown = scenario.ctl.json(&["snapshot", "show", id])?;
    let info: VnfSnapshotInfo =
        serde_json::from_value(shown).with_context(|| format!("cannot read snapshot `{id}`"))?;
    let contents = info.vnf_snapshot.map(|contents| *contents);
    contents.with_context(|| format!("snapshot `{id}` has no contents"))
}

/// The images of its VNFCs.
fn images(contents: &VnfSnapshot) -> BTreeSet<&str> {
    let vnfcs = contents.vnfc_snapshots.iter();
    let images = vnfcs.filter_map(|vnfc| vnfc.compute_snapshot_resource.as_ref());
    images.map(|image| image.resource_id.as_str()).collect()
}
