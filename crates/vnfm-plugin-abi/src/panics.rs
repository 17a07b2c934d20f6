//! Turns panics into text, so that nothing unwinds across the boundary.

use std::any::Any;
use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};

thread_local! {
    static LAST: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Stores a panic's message and source location on this thread, for [`panic_text`]; called by a panic hook.
pub fn remember(text: String) {
    // Fails while the thread is being torn down; then the payload is used.
    let _ = LAST.try_with(|last| last.replace(Some(text)));
}

/// The message of a panic: the one that the panic hook stored, or else the payload's text.
pub fn panic_text(payload: Box<dyn Any + Send>) -> Vec<u8> {
    let message = if let Some(text) = payload.downcast_ref::<&str>() {
        (*text).to_owned()
    } else if let Some(text) = payload.downcast_ref::<String>() {
        text.clone()
    } else {
        "a panic without a message".to_owned()
    };
    // Dropping a payload may panic.
    let _ = catch_unwind(AssertUnwindSafe(|| drop(payload)));
    let remembered = LAST.try_with(RefCell::take).ok().flatten();
    remembered.unwrap_or(message).into_bytes()
}

/// Runs `work` and ignores a panic.
pub fn quietly(work: impl FnOnce()) {
    if let Err(payload) = catch_unwind(AssertUnwindSafe(work)) {
        panic_text(payload);
    }
}
