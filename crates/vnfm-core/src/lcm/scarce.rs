//! A step for which this machine has no descriptor left is nobody's failure: others hold what it needs, and give it back.
//! It is run again until it has one, within the time of the step. Each step says "make it so", so it may.

use super::op::Op;
use super::step::{Step, StepFn};
use crate::ports::PortError;
use serde_json::Value;
use std::time::Duration;

/// How long after such a failure a step is run again.
const PAUSE: Duration = Duration::from_secs(1);
/// How the standard library ends the text of `EMFILE` and `ENFILE`.
const SCARCE: &[&str] = &["(os error 24)", "(os error 23)"];

/// Runs the work of a step, again and again while there is no descriptor for it. A hook is run once: what is scarce in
/// its own process is its own to say, and whoever starts that process waits for a descriptor.
pub(super) async fn run(op: &Op, step: &Step, work: StepFn) -> Result<Value, PortError> {
    loop {
        match work(op).await {
            Err(error) if !step.hook && is_scarce(&error) => {
                tracing::warn!(step = step.name, %error, "there is no descriptor left; the step is run again");
                op.watcher()
                    .waiting("a free descriptor of the VNFM's machine");
                op.clock().sleep(PAUSE).await;
            }
            outcome => return outcome,
        }
    }
}

fn is_scarce(error: &PortError) -> bool {
    SCARCE.iter().any(|scarce| error.detail().contains(scarce))
}

#[cfg(test)]
mod tests {
    use super::is_scarce;
    use crate::ports::{Code, ErrorKind, PortError};

    const LOST: Code = Code {
        name: "test.lost",
        kind: ErrorKind::Unavailable,
        means: "it does not answer",
        next: "ask again",
    };

    #[test]
    fn what_is_scarce_is_known_by_the_number_of_its_error() {
        let of = |error: std::io::Error| {
            is_scarce(&PortError::new(
                &LOST,
                "list stacks",
                format!("tcp connect: {error}"),
            ))
        };
        assert!(of(std::io::Error::from_raw_os_error(24)));
        assert!(of(std::io::Error::from_raw_os_error(23)));
        assert!(!of(std::io::Error::from_raw_os_error(111)));
    }
}
