//! A step that fails because this machine has no file descriptor left has not really failed: others will release theirs.
//! It is repeated until it gets one or its deadline passes. Steps are idempotent, so they can be repeated.

use super::op_context::Op;
use super::step::{Direction, Step};
use super::step_work::perform;
use crate::ports::PortError;
use serde_json::Value;
use std::time::Duration;

/// Pause before the step is repeated.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);
/// How the standard library ends the message of `EMFILE` and `ENFILE`.
const SHORTAGE_SUFFIXES: &[&str] = &["(os error 24)", "(os error 23)"];

/// Runs the work of a step, and repeats it while there is no descriptor for it. A hook runs once: it reports shortages in
/// its own process itself, and the code that starts that process waits for a descriptor.
pub(super) async fn run(op: &Op, step: &Step, direction: Direction) -> Result<Value, PortError> {
    loop {
        match perform(op, step, direction).await {
            Err(error) if !step.is_hook() && is_shortage(&error) => {
                tracing::warn!(step = step.name, %error, "no file descriptor left; the step is repeated");
                op.watcher()
                    .waiting("a free file descriptor on the VNFM's machine");
                op.clock().sleep(RETRY_INTERVAL).await;
            }
            outcome => return outcome,
        }
    }
}

fn is_shortage(error: &PortError) -> bool {
    SHORTAGE_SUFFIXES
        .iter()
        .any(|suffix| error.detail().contains(suffix))
}

#[cfg(test)]
mod tests {
    use super::is_shortage;
    use crate::ports::{Code, ErrorKind, PortError};

    const LOST: Code = Code {
        name: "test.lost",
        kind: ErrorKind::Unavailable,
        means: "it does not respond",
        next: "ask again",
    };

    #[test]
    fn a_descriptor_shortage_is_recognised_by_its_error_number() {
        let is = |error: std::io::Error| {
            is_shortage(&PortError::new(
                &LOST,
                "list stacks",
                format!("tcp connect: {error}"),
            ))
        };
        assert!(is(std::io::Error::from_raw_os_error(24)));
        assert!(is(std::io::Error::from_raw_os_error(23)));
        assert!(!is(std::io::Error::from_raw_os_error(111)));
    }
}
