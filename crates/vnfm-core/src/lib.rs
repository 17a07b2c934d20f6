//! The LCM engine of vnfm: operations as journaled steps over ports.
//!
//! Read in this order: [`lcm::instantiate`] (the story of one operation, top to bottom), [`lcm::runner`]
//! (how a step is run, retried, undone, resumed), [`ports`] (what the world must provide).
//!
//! The engine owns no runtime: whoever embeds it awaits [`Engine::drive`] where they like. Dropping that
//! future means what a crash means; [`Engine::resume_all`] goes on.

mod abandon;
mod acts;
mod engine;
mod hooks;
mod instances;
pub mod lcm;
mod live;
mod notify;
mod orphans;
mod patch;
pub mod ports;
pub mod query;
mod recovery;
mod redact;
mod refusal;
mod subscriptions;
mod vims;

pub use acts::{Act, SkipHooks};
pub use engine::{Engine, EngineParts, Limits};
pub use notify::{Notifier, Patience};
pub use redact::{HIDDEN, Redactor, is_secret_name, redact};
pub use refusal::{Refusal, Why};
pub use subscriptions::Subscribed;
pub use vims::{Drivers, VimChange};

/// All error codes of this crate, for `docs/errors.md`.
pub fn codes() -> Vec<&'static ports::Code> {
    let mut codes = refusal::CODES.to_vec();
    codes.extend(lcm::codes());
    codes.extend(hooks::CODES);
    codes.extend(vims::CODES);
    codes.extend(abandon::CODES);
    codes
}
