//! How much a hook may leave with the engine: what it remembers, what it answers, what it says.
//!
//! | what | at most |
//! |---|---|
//! | a checkpoint | a key of 256 bytes, a value of 64 KiB |
//! | checkpoints of one run of a hook | 256, and 4 MiB together |
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
const EFFECTS_BYTES: usize = 1 << 20;
const VIMS: usize = 100;

/// What one run of a hook remembers: bytes by key.
#[derive(Default)]
pub(super) struct Remembered(Mutex<BTreeMap<String, usize>>);

impl Remembered {
    /// Counts a checkpoint against the limits of this run of the hook.
    ///
    /// # Errors
    ///
    /// `Refused` where it is too much, alone or with those before it.
    pub(super) fn count(&self, key: &str, value: &Value) -> Result<(), PortError> {
        at_most(key.len(), KEY_BYTES, "bytes as a key of `checkpoint.put`")?;
        let bytes = length(value);
        at_most(bytes, VALUE_BYTES, "bytes as a value of `checkpoint.put`")?;
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let others = || all.iter().filter(|(known, _)| *known != key);
        at_most(others().count() + 1, CHECKPOINTS, "checkpoints")?;
        let together = others().map(|(_, bytes)| bytes).sum::<usize>() + bytes;
        at_most(together, ALL_BYTES, "bytes in checkpoints")?;
        all.insert(key.to_owned(), bytes);
        Ok(())
    }
}

/// What a hook answers.
///
/// # Errors
///
/// `Refused` where it is too much.
pub(super) fn allowed(effects: Effects) -> Result<Effects, PortError> {
    let vims = effects
        .register_vims
        .len()
        .max(effects.unregister_vims.len());
    at_most(vims, VIMS, "VIMs in its effects")?;
    at_most(length(&effects), EFFECTS_BYTES, "bytes of effects")?;
    Ok(effects)
}

fn at_most(count: usize, most: usize, what: &str) -> Result<(), PortError> {
    if count <= most {
        return Ok(());
    }
    let text = format!("it gives {count} {what}; {most} are taken");
    Err(PortError::new(&TOO_MUCH, "keep what the hook says", text))
}

/// How long it is as JSON, without writing that down.
fn length(value: &impl serde::Serialize) -> usize {
    struct Counted(usize);
    impl io::Write for Counted {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0 += bytes.len();
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let mut counted = Counted(0);
    match serde_json::to_writer(&mut counted, value) {
        Ok(()) => counted.0,
        // What cannot be written cannot be kept.
        Err(_) => usize::MAX,
    }
}

/// A hook gives more than is kept.
pub(super) const TOO_MUCH: Code = Code {
    name: "hook.too-much",
    kind: ErrorKind::Refused,
    means: "a hook gives the engine more than is kept: checkpoints, or effects, that are too many or too large",
    next: "have the plugin keep large data on its hosts and only its place in a checkpoint",
};

#[cfg(test)]
mod tests {
    use super::{ALL_BYTES, CHECKPOINTS, Remembered, VALUE_BYTES, allowed};
    use crate::ports::{Effects, NewVim};
    use serde_json::{Value, json};

    fn text(bytes: usize) -> Value {
        // Two quotes belong to it.
        json!("x".repeat(bytes - 2))
    }

    #[test]
    fn a_hook_remembers_so_much_and_no_more() {
        let remembered = Remembered::default();
        remembered.count("k", &text(VALUE_BYTES)).unwrap();
        let error = remembered.count("k", &text(VALUE_BYTES + 1)).unwrap_err();
        assert_eq!(error.name(), "hook.too-much");
        assert!(
            error.to_string().contains("65537 bytes as a value"),
            "{error}"
        );
        assert!(remembered.count(&"k".repeat(257), &json!(1)).is_err());
        for number in 1..ALL_BYTES / VALUE_BYTES {
            remembered
                .count(&number.to_string(), &text(VALUE_BYTES))
                .unwrap();
        }
        let error = remembered.count("one more", &json!(1)).unwrap_err();
        assert!(
            error.to_string().contains("bytes in checkpoints"),
            "{error}"
        );
        remembered.count("k", &text(VALUE_BYTES)).unwrap(); // the same key again is no more
        let many = Remembered::default();
        (0..CHECKPOINTS).for_each(|n| many.count(&n.to_string(), &json!(n)).unwrap());
        assert!(
            many.count("one more", &json!(1))
                .unwrap_err()
                .to_string()
                .contains("257")
        );
    }

    #[test]
    fn effects_are_as_large_as_they_need_to_be_and_no_larger() {
        assert!(allowed(Effects::default()).is_ok());
        let large = Effects {
            message: Some("x".repeat(1 << 20)),
            ..Effects::default()
        };
        assert!(
            allowed(large)
                .unwrap_err()
                .to_string()
                .contains("bytes of effects")
        );
        let many = Effects {
            register_vims: vec![NewVim::default(); 101],
            ..Effects::default()
        };
        assert!(allowed(many).unwrap_err().to_string().contains("101 VIMs"));
    }
}
