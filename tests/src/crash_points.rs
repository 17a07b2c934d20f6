//! A story in which the server is killed again and again, at points that are drawn over its course.
//!
//! A point is a moment of one of its operations: another state of the journal, or another word about how far it is,
//! never a time. Points that a course is too short for come at the beginning of the next operation, if need be in
//! another life of VNF-A. Which points they are is a matter of a seed, which is printed; `VNFM_SEED` tells the same
//! story again.

#![expect(
    clippy::unwrap_used,
    reason = "a test that cannot go on says so by panicking"
)]
#![expect(clippy::missing_panics_doc, reason = "see above: all of it panics")]

use std::collections::BTreeSet;
use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::time::Instant;

use serde_json::{Value, json};

use crate::rng::Dice;
use crate::programs::until;
use crate::testbed::{LONG, Stage, VNF_A};

/// What an operation stops with when the server died again and again in the same step, at last while that ran alone.
const DIED: [&str; 2] = ["hook.server-died", "op.server-died"];

/// When the server dies.
#[derive(Debug)]
pub struct Deaths {
    /// Operation and moment, in order.
    to_come: Vec<(usize, usize)>,
    operation: usize,
    /// The moments at which it died.
    pub died: Vec<String>,
    /// How often somebody had to say that a hook should be begun once more.
    pub retried: usize,
}

impl Deaths {
    /// So many, drawn from the moments that each operation of a story has at least.
    pub fn drawn(number: usize, course: &[usize]) -> Self {
        let seed = std::env::var("VNFM_SEED").ok().map_or_else(
            || RandomState::new().build_hasher().finish(),
            |seed| {
                seed.parse()
                    .unwrap_or_else(|_| panic!("VNFM_SEED is no number: {seed}"))
            },
        );
        let mut to_come = draw(seed, number, course);
        to_come.sort_unstable();
        println!("VNFM_SEED={seed}: the server dies at {to_come:?}");
        Self {
            to_come,
            operation: 0,
            died: Vec::new(),
            retried: 0,
        }
    }

    /// Begins the story's next operation and brings it to its end; its id.
    pub fn over(&mut self, stage: &mut Stage, begin: impl FnOnce(&Stage) -> String) -> String {
        let (op, began) = (begin(stage), Instant::now());
        let path = format!("/vnfm/v1/op_occs/{op}/progress");
        let mut moments = BTreeSet::new();
        until("the end of the operation", LONG, || {
            let now = stage.server.get(&path);
            match now["operationState"].as_str().unwrap() {
                "COMPLETED" => return Some(()),
                "FAILED_TEMP" => self.goes_on(stage, &op, &now["error"]),
                "STARTING" | "PROCESSING" => {
                    let moment = moment(&now);
                    moments.insert(moment.to_string());
                    if self.is_due(moments.len()) {
                        self.died.push(moment.to_string());
                        stage.server.kill();
                        stage.server.begin();
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
        self.operation += 1;
        op
    }

    /// What the story was too short for comes in further lives of VNF-A, which `create` begins; it returns the request.
    pub fn in_further_lives(&mut self, stage: &mut Stage, create: impl Fn(&Stage) -> Value) {
        while !self.to_come.is_empty() {
            stage.packages_go();
            let request = create(stage);
            self.over(stage, |stage| stage.instantiate(VNF_A, &request));
            self.over(stage, |stage| stage.terminate(VNF_A));
            stage.server.ctl(&["vnf", "delete", VNF_A]);
        }
    }

    /// Takes the next death out of the list if it is time for it.
    fn is_due(&mut self, moments: usize) -> bool {
        let now = (self.operation, moments);
        let is_due = self.to_come.first().is_some_and(|next| *next < now);
        if is_due {
            self.to_come.remove(0);
        }
        is_due
    }

    /// A step in which the server died while it ran alone is begun again when somebody says so, and for no other reason.
    fn goes_on(&mut self, stage: &Stage, op: &str, error: &Value) {
        let code = error["code"].as_str().unwrap();
        assert!(DIED.contains(&code), "{error:#}");
        let names_plugin = error["detail"]
            .as_str()
            .unwrap()
            .contains("kubernetes-cluster");
        assert!(names_plugin || code != DIED[0], "{error:#}");
        let retried = stage.server.run(&["op", "retry", op]);
        assert_eq!(retried.code, 0, "{retried:?}");
        self.retried += 1;
    }
}

/// What the journal and the step say of themselves, without times.
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

/// Numbers that come again with the same seed: points of a course, each at most once.
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
    let mut dice = Dice::new(seed);
    (0..number)
        .map(|_| points.swap_remove(dice.below(points.len())))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::{Deaths, draw};

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
        let to_come = vec![(0, 1), (0, 7), (1, 0)];
        let mut deaths = Deaths {
            to_come,
            operation: 0,
            died: Vec::new(),
            retried: 0,
        };
        let due: Vec<_> = (1..4).map(|moments| deaths.is_due(moments)).collect();
        assert_eq!(due, [false, true, false]);
        deaths.operation = 1;
        let due: Vec<_> = [1, 1, 1, 2].map(|moments| deaths.is_due(moments)).into();
        assert_eq!(due, [true, true, false, false]);
    }
}
