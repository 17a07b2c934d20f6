//! What a panic said, as text: nothing unwinds across the boundary.

use std::any::Any;
use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};

thread_local! {
    static LAST: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Remembers for [`panic_text`] what a panic hook was told on this thread, with the place in the source.
pub fn remember(text: String) {
    // A thread that is being torn down has no memory; the payload is used then.
    let _ = LAST.try_with(|last| last.replace(Some(text)));
}

/// What `payload` says: what the panic hook remembered, else the payload's text.
pub fn panic_text(payload: Box<dyn Any + Send>) -> Vec<u8> {
    let said = if let Some(text) = payload.downcast_ref::<&str>() {
        (*text).to_owned()
    } else if let Some(text) = payload.downcast_ref::<String>() {
        text.clone()
    } else {
        "a panic without a text".to_owned()
    };
    // A payload may panic when it is dropped.
    let _ = catch_unwind(AssertUnwindSafe(|| drop(payload)));
    let remembered = LAST.try_with(RefCell::take).ok().flatten();
    remembered.unwrap_or(said).into_bytes()
}

/// Runs `work`, whose panic is of no interest.
pub fn quietly(work: impl FnOnce()) {
    if let Err(payload) = catch_unwind(AssertUnwindSafe(work)) {
        panic_text(payload);
    }
}
