//! The story `charts`: a chart of a VNFD through every operation that makes helm act, then two charts of an ASD; and the story
//! `many-charts`, whose times `cargo xtask bench --real` compares with the same charts installed by hand.
//!
//! After each operation the record must agree with the pods of the cluster, and the releases with `helm list`.

use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use super::control_plane::ControlPlane;
use super::ctl::text;
use super::instances::{Scenario, delete_all};
use super::kubectl::Kubectl;
use super::neighbour::{Kind, Neighbours};
use super::requests::{self, Values};
use super::task::{self, Subject, Task};
use super::world::World;
use crate::{paths, process};

/// The names of all instances.
pub(crate) const NAMES: &[&str] = &[WEB.name, APP.name];
/// The steps that are compared with the same by hand.
pub(crate) const INSTALL_ONE: &str = "instantiate one chart";
pub(crate) const INSTALL_MANY: &str = "instantiate fifty charts in one stage";
/// Number of charts in the ASD of `many-charts`.
const MANY: usize = 50;

const VIM: &str = "containers";
const WEB: Subject = Subject {
    name: "web-by-chart",
    kind: Kind::Pods,
};
const APP: Subject = Subject {
    name: "web-by-asd",
    kind: Kind::Pods,
};
const FIRST: &str = "cnf-chart";
const NEXT: &str = "cnf-chart-2";
const ASD: &str = "asd-charts";

/// The sample whose request serves for the ASD of `many-charts`: it has the same parameters.
const MANY_REQUEST: &str = "asd-web";

const RELEASE_1: &[(&str, &str)] = &[("web", "web-1.0.0 deployed")];
const RELEASE_2: &[(&str, &str)] = &[("web", "web-2.0.0 deployed")];
const TWO_PODS: &str = "1.0 simple, STARTED, web 0, 2 web";
const THREE_PODS: &str = "1.0 simple, STARTED, web 1, 3 web";

/// What follows the instantiation, each with the releases afterwards.
type Row = (Task, &'static [(&'static str, &'static str)]);
const BEFORE_FAILURE: &[Row] = &[(
    Task::new("scale", "--aspect web --out", THREE_PODS),
    RELEASE_1,
)];
const AFTER_FAILURE: &[Row] = &[
    (
        Task::new("change_vnfpkg", "", "2.0 simple, STARTED, web 1, 3 web")
            .with(task::Request::new(FIRST, "change_vnfpkg")),
        RELEASE_2,
    ),
    (
        Task::new("heal", "--vnfc VNFC", "2.0 simple, STARTED, web 1, 3 web"),
        RELEASE_2,
    ),
    (
        Task::new("change_vnfpkg", "", THREE_PODS).with(task::Request::new(NEXT, "change_vnfpkg")),
        RELEASE_1,
    ),
    (Task::new("scale", "--aspect web --in", TWO_PODS), RELEASE_1),
];

/// Runs all steps, from the first package to the check that nothing is left.
///
/// # Errors
/// The error of the first failing step.
pub(crate) fn play(scenario: &mut Scenario<'_>) -> Result<()> {
    let plane = register(scenario)?;
    let neighbours = Neighbours {
        cloud: None,
        cluster: Some(Kubectl::Direct(plane)),
    };
    let first = scenario.onboard(FIRST)?;
    let next = scenario.onboard(NEXT)?;
    let asd = scenario.onboard(ASD)?;
    let label = "instantiate web-by-chart: a hook, then the objects";
    scenario.bring_up(WEB.name, (FIRST, &first), VIM, label)?;
    task::check(scenario, &neighbours, WEB, TWO_PODS)?;
    check_releases(scenario, plane, WEB, RELEASE_1)?;
    run_all(scenario, &neighbours, plane, BEFORE_FAILURE)?;
    roll_back_a_failing_change(scenario)?;
    task::check(scenario, &neighbours, WEB, THREE_PODS)?;
    check_releases(scenario, plane, WEB, RELEASE_1)?;
    run_all(scenario, &neighbours, plane, AFTER_FAILURE)?;
    scenario.bring_down(WEB.name, "terminate web-by-chart: uninstall its chart")?;
    let label = "instantiate web-by-asd: two charts, one after the other";
    scenario.bring_up(APP.name, (ASD, &asd), VIM, label)?;
    task::check(scenario, &neighbours, APP, "1.0 default, STARTED, 2 web")?;
    let both = [
        ("settings", "settings-1.0.0 deployed"),
        ("web", "web-1.0.0 deployed"),
    ];
    check_releases(scenario, plane, APP, &both)?;
    scenario.bring_down(APP.name, "terminate web-by-asd: uninstall both charts")?;
    clear(scenario, &[&first, &next, &asd])
}

/// One chart, then [`MANY`] equal charts in one stage of an ASD.
///
/// # Errors
/// The error of the first failing step.
pub(crate) fn play_many(scenario: &mut Scenario<'_>) -> Result<()> {
    let plane = register(scenario)?;
    let one = scenario.onboard(FIRST)?;
    scenario.bring_up(WEB.name, (FIRST, &one), VIM, INSTALL_ONE)?;
    check_releases(scenario, plane, WEB, RELEASE_1)?;
    scenario.bring_down(WEB.name, "terminate one chart")?;
    let package = scenario.folder.join("many-charts");
    let label = format!("write an ASD of {MANY} charts");
    let folder = package.clone();
    scenario.stage.step(&label, |_| write_asd(&folder))?;
    let many = scenario.onboard(&package.to_string_lossy())?;
    scenario.bring_up(APP.name, (MANY_REQUEST, &many), VIM, INSTALL_MANY)?;
    let names: Vec<String> = (1..=MANY).map(|number| format!("app-{number}")).collect();
    let states: Vec<String> = names
        .iter()
        .map(|name| format!("{name}-1.0.0 deployed"))
        .collect();
    let all = names.iter().zip(&states);
    let all: Vec<_> = all.map(|(name, state)| (&**name, &**state)).collect();
    check_releases(scenario, plane, APP, &all)?;
    scenario.bring_down(APP.name, "terminate fifty charts")?;
    clear(scenario, &[&one, &many])
}

fn register<'a>(scenario: &mut Scenario<'a>) -> Result<&'a ControlPlane> {
    let World::ControlPlane { plane, .. } = scenario.world else {
        bail!("this story needs a control plane");
    };
    let ctl = scenario.ctl;
    scenario.stage.step("vim register: the cluster", |_| {
        let file = plane.kubeconfig().to_string_lossy();
        ctl.json(&["vim", "register", "--name", VIM, "--config-file", &file])
    })?;
    Ok(plane)
}

fn run_all(
    scenario: &mut Scenario<'_>,
    neighbours: &Neighbours<'_>,
    plane: &ControlPlane,
    rows: &[Row],
) -> Result<()> {
    for (one, releases) in rows {
        task::run(scenario, neighbours, (WEB, &[]), one)?;
        check_releases(scenario, plane, WEB, releases)?;
    }
    Ok(())
}

/// Changes to the next package so that a hook of its chart fails, after helm has changed the objects, and rolls that back.
fn roll_back_a_failing_change(scenario: &mut Scenario<'_>) -> Result<()> {
    let ctl = scenario.ctl;
    let request = (FIRST, "change_vnfpkg_failing");
    let file = requests::fill(request, &Values::new(), scenario.folder)?;
    let words = ["vnf", "change_vnfpkg", WEB.name, "--request", &file];
    let label = format!("change_vnfpkg {}: a hook fails", WEB.name);
    let op = scenario.stage.step(&label, |progress| {
        let begun = ctl.json(&words)?;
        let op = text(&begun, "vnfLcmOpOccId")?.to_owned();
        // It fails as intended, so the exit code says nothing.
        let _ = ctl.watch(progress, &["op", "watch", &op]);
        let shown = ctl.json(&["op", "show", &op])?;
        ensure!(
            shown["operationState"] == "FAILED_TEMP",
            "the operation did not fail: {shown}"
        );
        let detail = text(&shown["error"], "detail")?;
        ensure!(
            detail.contains("hooks failed"),
            "the error does not say that a hook failed: {detail}"
        );
        progress.show(detail);
        Ok(op)
    })?;
    let label = format!("op rollback: {} as before", WEB.name);
    scenario.stage.step(&label, |progress| {
        ctl.json(&["op", "rollback", &op])?;
        let _ = ctl.watch(progress, &["op", "watch", &op]);
        let shown = ctl.json(&["op", "show", &op])?;
        ensure!(
            shown["operationState"] == "ROLLED_BACK",
            "the operation was not rolled back: {shown}"
        );
        Ok(())
    })
}

/// Compares the releases in the namespace of an instance, by name with their chart and status.
fn check_releases(
    scenario: &mut Scenario<'_>,
    plane: &ControlPlane,
    subject: Subject,
    expected: &[(&str, &str)],
) -> Result<()> {
    let ctl = scenario.ctl;
    let label = format!("helm list: the releases of {}", subject.name);
    scenario.stage.step(&label, |_| {
        let id = task::instance(ctl, subject.name)?.id;
        let found = plane.releases(&format!("vnf-{id}"))?;
        let found: Vec<_> = found
            .iter()
            .map(|(name, state)| (&**name, &**state))
            .collect();
        let mut expected = expected.to_vec();
        expected.sort_unstable();
        ensure!(
            found == expected,
            "helm lists {found:?} instead of {expected:?}"
        );
        Ok(())
    })
}

fn clear(scenario: &mut Scenario<'_>, packages: &[&str]) -> Result<()> {
    let ctl = scenario.ctl;
    scenario
        .stage
        .step("delete the packages and the VIM", |_| {
            delete_all(ctl, packages, VIM)
        })?;
    scenario.check_that_nothing_is_left()
}

const META: &str = "TOSCA-Meta-File-Version: 1.0
CSAR-Version: 1.1
Created-By: vnfm
Entry-Definitions: Definitions/asd.yaml
";
const ASD_HEAD: &str = "tosca_definitions_version: tosca_simple_yaml_1_3
imports: [oran_asd_types_v02.00.00.yaml]
topology_template:
  node_templates:
    app:
      type: tosca.nodes.asd.Asd
      properties: {asdId: many-charts, asdInvariantId: many-charts, asdVersion: '1.0', asdProvider: vnfm, asdApplicationName: Many charts,
        asdApplicationSwVersion: '1.0'}
      artifacts:
";

/// A package of [`MANY`] charts in one stage, packed by the script that packs those for the comparison.
fn write_asd(package: &Path) -> Result<()> {
    let mut asd = ASD_HEAD.to_owned();
    for number in 1..=MANY {
        writeln!(
            asd,
            "        app-{number}: {{type: tosca.artifacts.asd.DeploymentItem, file: Charts/app-{number}.tgz, properties: {{deploymentItemId: '{number}', artifactType: helm_chart, deploymentOrder: 1, deploymentParameter: [greeting, replicas]}}}}"
        )?;
    }
    for (path, content) in [
        ("TOSCA-Metadata/TOSCA.meta", META),
        ("Definitions/asd.yaml", &asd),
    ] {
        let path = package.join(path);
        let folder = path
            .parent()
            .context("a file of the package has no folder")?;
        std::fs::create_dir_all(folder)?;
        std::fs::write(&path, content)
            .with_context(|| format!("cannot write `{}`", path.display()))?;
    }
    let mut pack = Command::new("bash");
    pack.arg(paths::scripts().join("pack-charts.sh"))
        .arg(package.join("Charts"))
        .arg(MANY.to_string());
    let packed = process::follow(&mut pack, |_, _| {})?;
    ensure!(packed.success(), "the charts cannot be packed");
    Ok(())
}
