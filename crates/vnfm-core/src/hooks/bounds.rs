//! Limits on what a hook may store in the engine.
//!
//! | what | at most |
//! |---|---|
//! | a checkpoint | a key of 256 bytes, a value of 64 KiB |
//! | checkpoints of one run of a hook | 256, and 4 MiB together |
//! | a reason why a rollback is ruled out | 1 KiB |
//! | effects | 1 MiB as JSON, 100 VIMs |

use crate::ports::{Code, Effects, ErrorKind, PortError};
use serde_json::Value;
use std::collections::BTreeMap;
use std::io;
use std::sync::{Mutex, PoisonError};

const KEY_BYTES: usize = 256;
const VALUE_BYTES: usize = 64 << 10;
const CHECKPOINTS: usize = 256;
const ALL_BYTES: usize = 4 << 20;
const REASON_BYTES: usize = 1 << 10;
const EFFECTS_BYTES: usize = 1 << 20;
const VIMS: usize = 100;

/// Checkpoints of one run of a hook: size in bytes by key.
#[derive(Default)]
pub(crate) struct CheckpointSizes(Mutex<BTreeMap<String, usize>>);

impl CheckpointSizes {
    /// Counts a checkpoint against the limits of this run of the hook.
    ///
    /// # Errors
    ///
    /// `Refused` if it exceeds a limit, alone or together with earlier ones.
    pub(crate) fn count(&self, key: &str, value: &Value) -> Result<(), PortError> {
        check_max(key.len(), KEY_BYTES, "bytes as a key of `checkpoint.put`")?;
        let bytes = length(value);
        check_max(bytes, VALUE_BYTES, "bytes as a value of `checkpoint.put`")?;
        let mut sizes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let others = || sizes.iter().filter(|(known, _)| *known != key);
        check_max(others().count() + 1, CHECKPOINTS, "checkpoints")?;
        let together = others().map(|(_, bytes)| bytes).sum::<usize>() + bytes;
        check_max(together, ALL_BYTES, "bytes in checkpoints")?;
        sizes.insert(key.to_owned(), bytes);
        Ok(())
    }
}

/// Checks the size of the reason of `irreversible`.
///
/// # Errors
///
/// `Refused` if it exceeds the limit.
pub(crate) fn check_reason(reason: &str) -> Result<(), PortError> {
    let what = "bytes as the reason of `irreversible`";
    check_max(reason.len(), REASON_BYTES, what)
}

/// Checks the size of a hook's effects.
///
/// # Errors
///
/// `Refused` if they exceed a limit.
pub(crate) fn check_effects(effects: Effects) -> Result<Effects, PortError> {
    let vims = effects
        .register_vims
        .len()
        .max(effects.unregister_vims.len());
    check_max(vims, VIMS, "VIMs in its effects")?;
    check_max(length(&effects), EFFECTS_BYTES, "bytes of effects")?;
    Ok(effects)
}

fn check_max(count: usize, most: usize, what: &str) -> Result<(), PortError> {
    if count <= most {
        return Ok(());
    }
    let text = format!("{count} {what}; at most {most} are allowed");
    Err(PortError::new(
        &TOO_MUCH,
        "store the output of the hook",
        text,
    ))
}

/// Length as JSON, without building the text.
fn length(value: &impl serde::Serialize) -> usize {
    struct ByteCounter(usize);
    impl io::Write for ByteCounter {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0 += bytes.len();
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let mut counter = ByteCounter(0);
    match serde_json::to_writer(&mut counter, value) {
        Ok(()) => counter.0,
        // What cannot be serialized cannot be stored.
        Err(_) => usize::MAX,
    }
}

pub(super) const TOO_MUCH: Code = Code {
    name: "hook.too-much",
    kind: ErrorKind::Refused,
    means: "the checkpoints, effects or reasons of a hook are too many or too large",
    next: "have the plugin store large data on its hosts, and only its path in a checkpoint",
};

#[cfg(test)]
mod tests {
    use super::{
        ALL_BYTES, CHECKPOINTS, CheckpointSizes, VALUE_BYTES, check_effects, check_reason,
    };
    use crate::ports::{Effects, NewVim};
    use serde_json::{Value, json};

    fn text(bytes: usize) -> Value {
        // Two bytes are quotes.
        json!("x".repeat(bytes - 2))
    }

    #[test]
    fn checkpoints_of_a_hook_are_limited() {
        let sizes = CheckpointSizes::default();
        sizes.count("k", &text(VALUE_BYTES)).unwrap();
        let error = sizes.count("k", &text(VALUE_BYTES + 1)).unwrap_err();
        assert_eq!(error.name(), "hook.too-much");
        assert!(
            error.to_string().contains("65537 bytes as a value"),
            "{error}"
        );
        assert!(sizes.count(&"k".repeat(257), &json!(1)).is_err());
        for number in 1..ALL_BYTES / VALUE_BYTES {
            sizes
                .count(&number.to_string(), &text(VALUE_BYTES))
                .unwrap();
        }
        let error = sizes.count("one more", &json!(1)).unwrap_err();
        assert!(
            error.to_string().contains("bytes in checkpoints"),
            "{error}"
        );
        sizes.count("k", &text(VALUE_BYTES)).unwrap(); // overwriting a key adds nothing
        let many = CheckpointSizes::default();
        (0..CHECKPOINTS).for_each(|n| many.count(&n.to_string(), &json!(n)).unwrap());
        assert!(
            many.count("one more", &json!(1))
                .unwrap_err()
                .to_string()
                .contains("257")
        );
    }

    #[test]
    fn a_reason_of_a_hook_is_limited() {
        assert!(check_reason(&"x".repeat(1024)).is_ok());
        let error = check_reason(&"x".repeat(1025)).unwrap_err();
        assert_eq!(error.name(), "hook.too-much");
        assert!(error.to_string().contains("`irreversible`"), "{error}");
    }

    #[test]
    fn effects_of_a_hook_are_limited() {
        assert!(check_effects(Effects::default()).is_ok());
        let large = Effects::none().message("x".repeat(1 << 20));
        assert!(
            check_effects(large)
                .unwrap_err()
                .to_string()
                .contains("bytes of effects")
        );
        let mut many = Effects::none();
        many.register_vims = vec![NewVim::default(); 101];
        assert!(
            check_effects(many)
                .unwrap_err()
                .to_string()
                .contains("101 VIMs")
        );
    }
}
