//! One task of a story: planned, run, and compared.
//!
//! ```text
//! record and neighbour agree ─► plan (exit code 9) ─► run ─► record and neighbour agree
//!                                 └── resourceChanges, and the neighbour's resources before and after, are as planned
//! ```

use anyhow::{Context, Result, ensure};
use serde::de::DeserializeOwned;
use serde_json::Value;
use vnfm_types::{ResourceChanges, VnfInstance};

use super::ctl::Ctl;
use super::instances::Scenario;
use super::neighbour::{Kind, Neighbours, Reported};
use super::plan::Plan;
use super::record;
use super::requests::{self, Values};
use super::snapshots;
use super::world::NETWORK;

/// A request of a sample.
#[derive(Clone, Copy)]
pub(crate) struct Request {
    sample: &'static str,
    name: &'static str,
    /// The network that it connects to; `None`: the usual one.
    network: Option<&'static str>,
}

impl Request {
    pub(crate) const fn new(sample: &'static str, name: &'static str) -> Self {
        Self {
            sample,
            name,
            network: None,
        }
    }

    pub(crate) const fn connecting_to(self, network: &'static str) -> Self {
        Self {
            network: Some(network),
            ..self
        }
    }
}

/// A task as `vnfmctl vnf` runs it.
#[derive(Clone, Copy)]
pub(crate) struct Task {
    /// Its name, such as `scale_to_level`.
    name: &'static str,
    /// Its options, separated by spaces; `VNFC` is the id of the last VNFC.
    options: &'static str,
    request: Option<Request>,
    /// With success: the summary of the record afterwards. When refused: part of the reason.
    outcome: &'static str,
}

impl Task {
    pub(crate) const fn new(
        name: &'static str,
        options: &'static str,
        outcome: &'static str,
    ) -> Self {
        Self {
            name,
            options,
            request: None,
            outcome,
        }
    }

    pub(crate) const fn with(self, request: Request) -> Self {
        Self {
            request: Some(request),
            ..self
        }
    }

    /// The command on this instance, as the report shows it.
    fn label(&self, of: &str) -> String {
        let request = self.request.map(|request| {
            let network = request
                .network
                .map(|network| format!(", network {network}"));
            format!(
                "--request {}.json{}",
                request.name,
                network.unwrap_or_default()
            )
        });
        let words = [self.name, of, self.options, &request.unwrap_or_default()];
        let words = words.into_iter().filter(|word| !word.is_empty());
        words.collect::<Vec<_>>().join(" ")
    }

    /// The words of the command on this instance.
    fn words(
        &self,
        (of, before): (&str, &VnfInstance),
        scenario: &Scenario<'_>,
        neighbours: &Neighbours<'_>,
    ) -> Result<Vec<String>> {
        let mut words = vec!["vnf".to_owned(), self.name.to_owned(), of.to_owned()];
        for option in self.options.split_whitespace() {
            let is_vnfc = option == "VNFC";
            let last = || record::last_vnfc(before).context("the instance has no VNFC");
            words.push(if is_vnfc { last()? } else { option.to_owned() });
        }
        if let Some(request) = &self.request {
            let mut values = Values::new();
            if let Some(cloud) = &neighbours.cloud {
                let network = cloud.network(request.network.unwrap_or(NETWORK))?;
                values.insert("NETWORK_ID", network.into());
            }
            let snapshot = scenario.snapshots.last();
            values.extend(snapshot.map(|id| ("SNAPSHOT_ID", id.as_str().into())));
            let file = requests::fill((request.sample, request.name), &values, scenario.folder)?;
            words.extend(["--request".to_owned(), file]);
        }
        Ok(words)
    }
}

/// An instance of the scenario.
#[derive(Clone, Copy)]
pub(crate) struct Subject {
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
}

/// An instance at one moment: its record, and what the neighbour reports, which agree.
struct View {
    record: VnfInstance,
    reported: Reported,
}

impl View {
    fn read(subject: Subject, ctl: &Ctl, neighbours: &Neighbours<'_>) -> Result<Self> {
        let record = instance(ctl, subject.name)?;
        let agreed = neighbours.agree(&record, subject.kind);
        let reported = agreed.with_context(|| format!("`{}`", subject.name))?;
        Ok(Self { record, reported })
    }
}

/// Runs a task of `subject` with all comparisons; the instances in `others` must agree with their neighbours afterwards.
///
/// # Errors
/// If it does not complete, or if anything differs.
pub(crate) fn run(
    scenario: &mut Scenario<'_>,
    neighbours: &Neighbours<'_>,
    subjects: (Subject, &[Subject]),
    task: &Task,
) -> Result<()> {
    if task.name == snapshots::CREATE {
        snapshots::create(scenario)?;
    }
    play(scenario, neighbours, subjects, task)?;
    let ctl = scenario.ctl;
    let now = || instance(ctl, subjects.0.name);
    let has_images = subjects.0.kind == Kind::Servers;
    match task.name {
        snapshots::CREATE if has_images => {
            snapshots::check_created(scenario, neighbours.cloud()?, &now()?)
        }
        snapshots::REVERT if has_images => {
            snapshots::check_reverted(scenario, neighbours.cloud()?, &now()?)
        }
        snapshots::CREATE => snapshots::check_record(scenario, &now()?),
        _ => Ok(()),
    }
}

fn play(
    scenario: &mut Scenario<'_>,
    neighbours: &Neighbours<'_>,
    (subject, others): (Subject, &[Subject]),
    task: &Task,
) -> Result<()> {
    let ctl = scenario.ctl;
    let before = View::read(subject, ctl, neighbours)?;
    let words = task.words((subject.name, &before.record), scenario, neighbours)?;
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    scenario.stage.step(&task.label(subject.name), |progress| {
        let plan: Plan = parsed("the plan", ctl.plan(&words)?)?;
        progress.show(&format!("plan: {}", plan.summary()));
        let op = ctl.operate(progress, &words)?;
        let changes: ResourceChanges = match &op["resourceChanges"] {
            Value::Null => ResourceChanges::default(),
            changes => parsed("`resourceChanges`", changes.clone())?,
        };
        let after = View::read(subject, ctl, neighbours)?;
        plan.check_changes(&changes, &before.record, &after.record)?;
        let resources = (&before.reported.resources, &after.reported.resources);
        plan.check_resources(&before.record, resources, subject.kind)?;
        let summary = neighbours.summary(&after.record)?;
        progress.show(&format!("then: {summary}"));
        ensure!(
            summary == task.outcome,
            "the instance should be `{}`, but is `{summary}`",
            task.outcome
        );
        for other in others {
            View::read(*other, ctl, neighbours)?;
        }
        Ok(())
    })
}

/// Runs a task that must be refused, and so must its plan; nothing may change.
///
/// # Errors
/// If it is not refused, or for another reason than `outcome`.
pub(crate) fn refuse(
    scenario: &mut Scenario<'_>,
    neighbours: &Neighbours<'_>,
    subject: Subject,
    task: &Task,
) -> Result<()> {
    let ctl = scenario.ctl;
    let before = View::read(subject, ctl, neighbours)?;
    let words = task.words((subject.name, &before.record), scenario, neighbours)?;
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let label = format!("{}: refused", task.label(subject.name));
    scenario.stage.step(&label, |progress| {
        for also in [&["--plan"][..], &[]] {
            let reason = ctl.refused(&[&words, also].concat())?;
            ensure!(
                reason.contains(task.outcome),
                "the refusal does not say `{}`: {reason}",
                task.outcome
            );
            if also.is_empty() {
                reason.lines().for_each(|line| progress.show(line));
            }
        }
        let after = View::read(subject, ctl, neighbours)?;
        ensure!(
            before.record == after.record,
            "the refused task changed the record"
        );
        ensure!(
            before.reported.resources == after.reported.resources,
            "the refused task changed resources"
        );
        Ok(())
    })
}

/// Waits until the neighbour reports what the record of `subject` says, and compares that with `summary`.
///
/// # Errors
/// If the record and the neighbour still differ at the deadline.
pub(crate) fn check(
    scenario: &mut Scenario<'_>,
    neighbours: &Neighbours<'_>,
    subject: Subject,
    summary: &str,
) -> Result<()> {
    let ctl = scenario.ctl;
    let label = format!("{}: record and neighbour agree", subject.name);
    scenario.stage.step(&label, |_| {
        let now = neighbours.summary(&View::read(subject, ctl, neighbours)?.record)?;
        ensure!(
            now == summary,
            "the instance should be `{summary}`, but is `{now}`"
        );
        Ok(())
    })
}

/// The record of an instance.
///
/// # Errors
/// If it does not exist.
pub(crate) fn instance(ctl: &Ctl, name: &str) -> Result<VnfInstance> {
    parsed("the instance", ctl.json(&["vnf", "show", name])?)
}

fn parsed<T: DeserializeOwned>(what: &str, value: Value) -> Result<T> {
    let text = value.to_string();
    serde_json::from_value(value).with_context(|| format!("cannot read {what}: {text}"))
}
