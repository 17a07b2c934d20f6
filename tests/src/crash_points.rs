//! Scenarios in which the server is killed repeatedly, at random points.
//!
//! A point is a change of an operation's journal or progress, never a time. Points that an operation does not reach move
//! to the start of the next one, if necessary in another lifecycle of VNF-A. The points depend on a seed, which is
//! printed; `VNFM_SEED` repeats a run.

#![expect(clippy::unwrap_used, reason = "tests fail by panicking")]
#![expect(clippy::missing_panics_doc, reason = "tests fail by panicking")]

use std::collections::BTreeSet;
use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::programs::until;
use crate::rng::SeededRng;
use crate::testbed::{LONG, Testbed, VNF_A};

/// Codes of an operation that stopped because the server crashed repeatedly in the same step, last while it ran alone.
const DIED: [&str; 2] = ["hook.server-died", "op.server-died"];
/// Code of an operation whose hook's process was killed.
const HOOK_KILLED: &str = "plugin.killed";

/// The points at which the server is killed.
#[derive(Debug)]
pub struct CrashPlan {
    /// Operation and moment, in order.
    pending: Vec<(usize, usize)>,
    operation: usize,
    /// Whether every other point kills the hook's process alone.
    hooks_too: bool,
    /// How long an operation may take.
    limit: Duration,
    /// The points at which it was killed.
    pub crashed_at: Vec<String>,
    /// Number of retries after a repeated crash.
    pub retried: usize,
}

impl CrashPlan {
    /// Draws `number` points; `course` is the minimum number of points of each operation.
    pub fn draw_for(number: usize, course: &[usize]) -> Self {
        let seed = std::env::var("VNFM_SEED").ok().map_or_else(
            || RandomState::new().build_hasher().finish(),
            |seed| {
                seed.parse()
                    .unwrap_or_else(|_| panic!("VNFM_SEED is no number: {seed}"))
            },
        );
        let mut pending = draw(seed, number, course);
        pending.sort_unstable();
        println!("VNFM_SEED={seed}: the server dies at {pending:?}");
        Self {
            pending,
            operation: 0,
            hooks_too: false,
            limit: LONG,
            crashed_at: Vec::new(),
            retried: 0,
        }
    }

    /// Kills the process of the running hook alone at every other point, if there is one. Hooks must run in processes.
    #[must_use]
    pub fn of_hooks_too(self) -> Self {
        Self {
            hooks_too: true,
            ..self
        }
    }

    /// Gives each operation this long.
    #[must_use]
    pub fn within(self, limit: Duration) -> Self {
        Self { limit, ..self }
    }

    /// Begins the next operation and waits for its end; its id. One that repeated crashes have ended before it changed
    /// anything is begun again, as by its user.
    pub fn run_operation(
        &mut self,
        testbed: &mut Testbed,
        begin: impl Fn(&Testbed) -> String,
    ) -> String {
        loop {
            let op = begin(testbed);
            if self.follow(testbed, &op, ("retry", "COMPLETED")) == "COMPLETED" {
                return op;
            }
            self.retried += 1;
        }
    }

    /// Rolls back an operation that has failed, and waits for the end.
    pub fn run_rollback(&mut self, testbed: &mut Testbed, op: &str) {
        testbed.server.ctl(&["op", "rollback", op]);
        self.follow(testbed, op, ("rollback", "ROLLED_BACK"));
    }

    /// Kills the server while an operation is driven; `again` continues it if it has stopped because of that. Its last state:
    /// `end`, or ROLLED_BACK if crashes have ended it before it changed anything.
    fn follow(
        &mut self,
        testbed: &mut Testbed,
        op: &str,
        (again, end): (&str, &'static str),
    ) -> &'static str {
        let began = Instant::now();
        let path = format!("/vnfm/v1/op_occs/{op}/progress");
        let mut moments = BTreeSet::new();
        let ended = until("the end of the operation", self.limit, || {
            let now = testbed.server.get(&path);
            match now["operationState"].as_str().unwrap() {
                state if state == end => return Some(end),
                "ROLLED_BACK" if now["error"]["code"] == DIED[1] => return Some("ROLLED_BACK"),
                "FAILED_TEMP" => self.continue_after_crash(testbed, (again, op), &now["error"]),
                "STARTING" | "PROCESSING" | "ROLLING_BACK" => {
                    let moment = moment(&now);
                    moments.insert(moment.to_string());
                    if self.is_due(moments.len()) {
                        self.crash(testbed, &moment);
                    }
                }
                _ => panic!("{now:#}"),
            }
            None
        });
        let (number, seconds) = (moments.len(), began.elapsed().as_secs_f64());
        println!(
            "operation {}: {number} moments in {seconds:.1} s",
            self.operation
        );
        if ended == end {
            self.operation += 1;
        }
        ended
    }

    /// Kills the processes of hooks, if it is their turn and a hook runs, else the server; also if the hook has just ended.
    fn crash(&mut self, testbed: &mut Testbed, moment: &Value) {
        let step = moment[1].as_str().unwrap_or_default();
        let is_hook = step.ends_with("_start") || step.ends_with("_end");
        let is_hooks_turn = self.hooks_too && is_hook && self.crashed_at.len() % 2 == 1;
        let hooks = testbed.server.hook_processes();
        let killed = || {
            let kill = Command::new("kill").arg("-KILL").args(&hooks).output();
            kill.unwrap().status.success()
        };
        let victim = if is_hooks_turn && !hooks.is_empty() && killed() {
            "hook"
        } else {
            testbed.server.kill();
            testbed.server.begin();
            "server"
        };
        self.crashed_at.push(format!("{victim}: {moment}"));
    }

    /// Whether every point was used.
    pub fn is_over(&self) -> bool {
        self.pending.is_empty()
    }

    /// Uses up the remaining points in further lifecycles of VNF-A; `create` creates the instance and returns the request.
    pub fn run_remaining(&mut self, testbed: &mut Testbed, create: impl Fn(&Testbed) -> Value) {
        while !self.is_over() {
            testbed.delete_packages();
            let request = create(testbed);
            self.run_operation(testbed, |testbed| testbed.instantiate(VNF_A, &request));
            self.run_operation(testbed, |testbed| testbed.terminate(VNF_A));
            testbed.server.ctl(&["vnf", "delete", VNF_A]);
        }
    }

    /// Removes the next point if it has been reached.
    fn is_due(&mut self, moments: usize) -> bool {
        let now = (self.operation, moments);
        let is_due = self.pending.first().is_some_and(|next| *next < now);
        if is_due {
            self.pending.remove(0);
        }
        is_due
    }

    /// Continues an operation, which may have stopped only because of repeated crashes.
    fn continue_after_crash(
        &mut self,
        testbed: &Testbed,
        (again, op): (&str, &str),
        error: &Value,
    ) {
        let code = error["code"].as_str().unwrap();
        let is_crash = DIED.contains(&code) || self.hooks_too && code == HOOK_KILLED;
        assert!(is_crash, "{error:#}");
        let names_plugin = error["detail"]
            .as_str()
            .unwrap()
            .contains("kubernetes-cluster");
        assert!(names_plugin || code != DIED[0], "{error:#}");
        let retried = testbed.server.run(&["op", again, op]);
        assert_eq!(retried.code, 0, "{retried:?}");
        self.retried += 1;
    }
}

/// Journal and progress of an operation, without times.
fn moment(progress: &Value) -> Value {
    let steps = progress["steps"].as_array().into_iter().flatten();
    let steps: Vec<_> = steps.map(|step| &step["status"]).collect();
    json!([
        progress["operationState"],
        progress["step"],
        steps,
        progress["percent"],
        progress["message"],
        progress["waiting"]["for"],
    ])
}

/// Draws distinct points, reproducibly by the seed.
fn draw(seed: u64, number: usize, course: &[usize]) -> Vec<(usize, usize)> {
    let moments = course.iter().enumerate();
    let mut points: Vec<_> = moments
        .flat_map(|(at, length)| (0..*length).map(move |moment| (at, moment)))
        .collect();
    assert!(
        points.len() >= number,
        "{number} deaths do not fit into {} moments",
        points.len()
    );
    let mut rng = SeededRng::new(seed);
    (0..number)
        .map(|_| points.swap_remove(rng.below(points.len())))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::{CrashPlan, LONG, draw};

    #[test]
    fn the_same_seed_draws_the_same_distinct_points() {
        let course = [5, 3, 2];
        assert_eq!(draw(7, 6, &course), draw(7, 6, &course));
        assert_ne!(draw(7, 6, &course), draw(8, 6, &course));
        let mut all = draw(7, 10, &course);
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), 10);
        assert!(
            all.iter()
                .all(|(operation, moment)| *moment < course[*operation]),
            "{all:?}"
        );
    }

    #[test]
    fn a_missed_crash_point_moves_to_the_next_operation() {
        let pending = vec![(0, 1), (0, 7), (1, 0)];
        let mut crashes = CrashPlan {
            pending,
            operation: 0,
            hooks_too: false,
            limit: LONG,
            crashed_at: Vec::new(),
            retried: 0,
        };
        let due: Vec<_> = (1..4).map(|moments| crashes.is_due(moments)).collect();
        assert_eq!(due, [false, true, false]);
        crashes.operation = 1;
        let due: Vec<_> = [1, 1, 1, 2].map(|moments| crashes.is_due(moments)).into();
        assert_eq!(due, [true, true, false, false]);
    }
}
