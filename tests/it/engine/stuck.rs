//! From every state of an operation, at every call, whatever is broken, an instance can be deleted by the commands of
//! docs/how-to/stuck.md, which are read from there and run as written.

use super::fakes::*;
use super::faults::{begin, ready, run_to_end};
use super::setup::*;
use clap::Parser as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;
use vnfm_cli::args::{Cli, Command, Online, Op, Termination, Vim, Vnf, VnfCommand};
use vnfm_core::ports::{Store, StoreError};
use vnfm_core::{Engine, Limits, Override, SkipHooks, VimChange};
use vnfm_tests::sources::root;
use vnfm_types::LcmOperationState::{self, FailedTemp, Processing, RollingBack, Starting};
use vnfm_types::{
    CancelMode, InstantiationState, LcmOperationType, OPENSTACK, TerminateVnfRequest,
    VimConnectionInfo,
};

/// What a test can break.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Broken {
    Nothing,
    Plugin,
    Unregistered,
    Vim,
    Package,
}

const EVERYTHING: [Broken; 5] = [
    Broken::Nothing,
    Broken::Plugin,
    Broken::Unregistered,
    Broken::Vim,
    Broken::Package,
];

impl Broken {
    /// As in the second table of the page.
    fn description(self) -> &'static str {
        match self {
            Self::Nothing => "nothing",
            Self::Plugin => "the plugin is missing",
            Self::Unregistered => "the VIM was deleted from the registry",
            Self::Vim => "the VIM is permanently lost",
            Self::Package => "the package cannot be read",
        }
    }
}

/// The state in which an operation is left.
#[derive(Debug, Clone, Copy, PartialEq)]
enum LeftIn {
    /// The operation was accepted and is never driven.
    Accepted,
    /// The process that drove it ended in this call.
    Hanging(usize),
    /// The operation stopped since this call failed.
    Stopped(usize),
    /// This call failed, it was rolled back, and the process ended in that call.
    HangingBack(usize, usize),
    /// This call failed, and it was rolled back as far as that goes.
    RolledBack(usize),
}

/// The table rows of the page.
struct Page {
    rows: Vec<Vec<String>>,
}

impl Page {
    fn read() -> Self {
        let path: PathBuf = root().join("docs/how-to/stuck.md");
        let text = std::fs::read_to_string(path).unwrap();
        let cells = |line: &str| line.split('|').map(|cell| cell.trim().to_owned()).collect();
        let rows = text
            .lines()
            .filter_map(|line| line.strip_prefix('|'))
            .map(cells)
            .collect();
        Self { rows }
    }

    /// The commands of the row that begins with these cells.
    fn commands(&self, begin: &[&str]) -> Vec<Vec<String>> {
        let matches = |row: &&Vec<String>| {
            begin
                .iter()
                .zip(row.iter())
                .all(|(wanted, cell)| cell.trim_matches('`') == *wanted)
        };
        let rows: Vec<_> = self.rows.iter().filter(matches).collect();
        assert_eq!(rows.len(), 1, "rows of {begin:?}");
        let commands = rows[0][begin.len()]
            .split("`, `")
            .map(|one| one.trim_matches('`'));
        commands
            .map(|one| one.split_whitespace().map(ToOwned::to_owned).collect())
            .collect()
    }
}

struct Case {
    engine: Engine,
    vnf: String,
    op: String,
    name: String,
}

fn act(reason: Option<String>) -> Override {
    Override::new("the test", reason.unwrap_or_default())
}

impl Case {
    /// Brings an operation to a state; `None` if it cannot get there.
    async fn new(kind: LcmOperationType, left: LeftIn) -> Option<(Self, Arc<FakeWorld>)> {
        let (world, first, vnf, store) = ready_with_short_lease(kind).await;
        let op = begin(&first, kind, &vnf).await;
        let reached = match left {
            LeftIn::Accepted => true,
            LeftIn::Hanging(call) => hang_at(&first, &world, &op, call).await,
            LeftIn::Stopped(call) => fail_at(&first, &world, &op, call).await,
            LeftIn::HangingBack(call, then) => {
                fail_at(&first, &world, &op, call).await
                    && first.rollback(TENANT, &op).await.is_ok()
                    && hang_at(&first, &world, &op, call + then).await
            }
            LeftIn::RolledBack(call) => {
                let stopped = fail_at(&first, &world, &op, call).await;
                let back = stopped && first.rollback(TENANT, &op).await.is_ok();
                if back {
                    first.drive(&op).await.unwrap();
                }
                back
            }
        };
        world.hang_at_call.store(0, SeqCst);
        world.fail_call.store(0, SeqCst);
        let engine = engine(store, &world);
        let name = format!("{kind} {left:?}");
        reached.then_some((
            Self {
                engine,
                vnf,
                op,
                name,
            },
            world,
        ))
    }

    async fn break_something(&mut self, world: &FakeWorld, broken: Broken) {
        self.name = format!("{} {broken:?}", self.name);
        match broken {
            Broken::Nothing => {}
            Broken::Plugin => world.plugin_missing.store(true, SeqCst),
            Broken::Vim => world.vim_unavailable.store(true, SeqCst),
            Broken::Package => world.package_missing.store(true, SeqCst),
            Broken::Unregistered => {
                let forced = Some(act(Some("burnt down".into())));
                self.engine.delete_vim(TENANT, CLOUD, forced).await.unwrap();
            }
        }
    }

    async fn op_state(&self) -> LcmOperationState {
        state(&self.engine, &self.op).await
    }

    /// Runs a command of the page, with its placeholders filled in.
    async fn run(&self, command: &[String]) {
        let words = command.iter().map(|word| match word.as_str() {
            "OP" => &self.op,
            "VNF" => &self.vnf,
            "ID" => CLOUD,
            word => word,
        });
        let command = Cli::try_parse_from(words)
            .unwrap_or_else(|error| panic!("{error}"))
            .command;
        let Command::Online(command) = command else {
            panic!("`{command:?}` changes nothing on the server");
        };
        let name = format!("{}: {command:?}", self.name);
        let engine = &self.engine;
        let outcome = match command {
            Online::Op(Op::Cancel {
                op,
                forceful: true,
                reason,
            }) => {
                engine
                    .cancel_by(TENANT, &op, CancelMode::Forceful, act(reason))
                    .await
            }
            Online::Op(Op::Fail { op, reason }) => engine.fail_by(TENANT, &op, act(reason)).await,
            Online::Vnf(VnfCommand::Typed(Vnf::Delete { vnf })) => {
                engine.delete(TENANT, &vnf).await
            }
            Online::Vnf(VnfCommand::Typed(Vnf::Abandon { vnf, reason, force })) => {
                engine.abandon(TENANT, &vnf, force, act(Some(reason))).await
            }
            Online::Vim(Vim::Register { name, id, .. }) => engine
                .register_vim(TENANT, openstack(id, name))
                .await
                .map(drop),
            Online::Vnf(VnfCommand::Typed(Vnf::Terminate(Termination { vnf, common, .. }))) => {
                let skip = SkipHooks {
                    hooks: common.skip.hooks,
                    act: act(common.skip.reason),
                };
                let request = TerminateVnfRequest::default();
                let begun = engine.terminate_without(TENANT, &vnf, request, skip).await;
                match begun {
                    Ok(op) => {
                        self.completes(&op, &name).await;
                        Ok(())
                    }
                    Err(refusal) => Err(refusal),
                }
            }
            other => panic!("teach this test what `{other:?}` does"),
        };
        outcome.unwrap_or_else(|refusal| panic!("{name}: {refusal} ({})", refusal.next()));
    }

    /// Runs an operation, which must complete.
    async fn completes(&self, op: &str, name: &str) {
        self.engine.drive(op).await.unwrap();
        let record = self.engine.store().op(TENANT, op).await.unwrap().op;
        assert_eq!(
            record.operation_state.as_str(),
            "COMPLETED",
            "{name}: {record:?}"
        );
    }

    /// Follows the first table until the operation has ended, and the second until the instance is deleted.
    async fn delete_by_page(&self, page: &Page, broken: Broken) {
        for _ in 0..3 {
            let before = self.op_state().await;
            if before.is_final() {
                break;
            }
            for command in page.commands(&[before.as_str()]) {
                self.run(&command).await;
            }
            run_to_end(&self.engine, &self.op).await;
            let after = self.op_state().await;
            let row = page
                .rows
                .iter()
                .find(|row| row[0].trim_matches('`') == before.as_str());
            assert_eq!(
                row.unwrap()[2].trim_matches('`'),
                after.as_str(),
                "{}",
                self.name
            );
        }
        assert!(self.op_state().await.is_final(), "{}", self.name);
        let vnf = self
            .engine
            .store()
            .instance(TENANT, &self.vnf)
            .await
            .unwrap()
            .vnf;
        let commands = match vnf.instantiation_state {
            InstantiationState::NotInstantiated => page.commands(&["NOT_INSTANTIATED", "anything"]),
            InstantiationState::Instantiated => {
                page.commands(&["INSTANTIATED", broken.description()])
            }
        };
        for command in commands {
            self.run(&command).await;
        }
    }

    /// The instance and its records are deleted, and resources left on its VIM are listed as orphans.
    async fn is_deleted(&self, world: &FakeWorld) {
        let found = self.engine.store().instance(TENANT, &self.vnf).await;
        assert!(
            matches!(found, Err(StoreError::NotFound { .. })),
            "{}: {found:?}",
            self.name
        );
        assert!(self.op_state().await.is_final(), "{}", self.name);
        let uses = self.engine.store().uses(TENANT, CLOUD).await.unwrap();
        assert!(uses.is_empty(), "{}: {uses:?}", self.name);
        let vims = self.engine.vims(TENANT).await.unwrap();
        assert!(
            vims.iter().all(|vim| vim.registered_by.is_none()),
            "{}",
            self.name
        );
        world.vim_unavailable.store(false, SeqCst);
        let (orphans, not_asked) = self.engine.orphans(TENANT).await.unwrap();
        let orphans: Vec<_> = orphans.into_iter().map(|orphan| orphan.id).collect();
        if vims.is_empty() {
            assert!(
                world.resource_ids().is_empty() || not_asked.len() == 1,
                "{}: {not_asked:?}",
                self.name
            );
        } else {
            assert_eq!(orphans, world.resource_ids(), "{}", self.name);
        }
    }
}

/// As [`ready`], with leases that are soon over.
async fn ready_with_short_lease(
    kind: LcmOperationType,
) -> (Arc<FakeWorld>, Engine, String, Arc<dyn Store>) {
    let (world, _, id, store) = super::faults::ready_with_store(kind).await;
    let lease = Duration::from_millis(20);
    let first = engine_with(
        store.clone(),
        &world,
        Limits {
            lease,
            ..Limits::default()
        },
    );
    (world, first, id, store)
}

/// Lets the process end while call `number` hangs; false if there is no such call.
async fn hang_at(engine: &Engine, world: &FakeWorld, op: &str, number: usize) -> bool {
    world.hang_at_call.store(number, SeqCst);
    tokio::select! {
        biased;
        () = world.hung.notified() => true,
        ended = engine.drive(op) => {
            ended.unwrap();
            false
        }
    }
}

/// Lets call `number` fail; false if there is no such call.
async fn fail_at(engine: &Engine, world: &FakeWorld, op: &str, number: usize) -> bool {
    world.fail_call.store(number, SeqCst);
    engine.drive(op).await.unwrap();
    world.calls().len() >= number
}

/// Every state in which an operation of this kind can be left.
async fn all_left_states(kind: LcmOperationType) -> Vec<LeftIn> {
    let (world, engine, vnf) = ready(kind).await;
    let op = begin(&engine, kind, &vnf).await;
    engine.drive(&op).await.unwrap();
    let calls = world.calls().len();
    let mut all = vec![LeftIn::Accepted];
    for call in 1..=calls {
        all.extend([
            LeftIn::Hanging(call),
            LeftIn::Stopped(call),
            LeftIn::RolledBack(call),
        ]);
        all.extend((1..=calls).map(|then| LeftIn::HangingBack(call, then)));
    }
    all
}

#[tokio::test(flavor = "multi_thread")]
async fn documented_commands_delete_an_instance_from_every_state() {
    let page = Page::read();
    let mut seen = std::collections::BTreeMap::<_, usize>::new();
    for operation in OPERATIONS {
        for left in all_left_states(operation.kind).await {
            for broken in EVERYTHING {
                let Some((mut case, world)) = Case::new(operation.kind, left).await else {
                    break;
                };
                *seen.entry(case.op_state().await).or_default() += 1;
                case.break_something(&world, broken).await;
                case.delete_by_page(&page, broken).await;
                case.is_deleted(&world).await;
            }
        }
    }
    for op_state in [
        Starting,
        Processing,
        FailedTemp,
        RollingBack,
        LcmOperationState::RolledBack,
    ] {
        assert!(
            seen.get(&op_state).is_some_and(|cases| *cases >= 5),
            "{op_state} in {seen:?}"
        );
    }
    let cases: usize = seen.values().sum();
    assert!(cases >= 200, "only {cases} cases: {seen:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn abandon_deletes_an_instance_from_every_state() {
    let page = Page::read();
    let mut cases = 0;
    for operation in OPERATIONS {
        for left in all_left_states(operation.kind).await {
            for broken in [
                Broken::Nothing,
                Broken::Vim,
                Broken::Unregistered,
                Broken::Package,
            ] {
                let Some((mut case, world)) = Case::new(operation.kind, left).await else {
                    break;
                };
                case.break_something(&world, broken).await;
                for command in page.commands(&["anything"]) {
                    case.run(&command).await;
                }
                case.is_deleted(&world).await;
                cases += 1;
            }
        }
    }
    assert!(cases >= 150, "only {cases} cases");
}

/// An OpenStack VIM to register.
fn openstack(id: Option<String>, name: String) -> VimChange {
    let connection = VimConnectionInfo {
        vim_type: OPENSTACK.into(),
        ..VimConnectionInfo::default()
    };
    VimChange {
        id,
        name: Some(name),
        connection,
        ..VimChange::default()
    }
}
