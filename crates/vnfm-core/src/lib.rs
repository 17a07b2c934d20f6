//! The LCM engine of vnfm: operations as journaled steps over ports.
//!
//! Read in this order: [`lcm::instantiate`] (the story of one operation, top to bottom), [`lcm::runner`]
//! (how a step is run, retried, undone, resumed), [`ports`] (what the world must provide).
//!
//! The engine owns no runtime: whoever embeds it awaits [`Engine::drive`] where they like. Dropping that
//! future means what a crash means; [`Engine::resume_all`] goes on.

mod abandon;
mod acts;
mod deployment;
mod drivers;
mod engine;
mod events;
mod hooks;
mod instances;
pub mod lcm;
mod linked;
mod live;
mod notify;
mod orphans;
mod patch;
mod permit;
mod plan;
mod plugin_uses;
pub mod ports;
pub mod query;
mod recovery;
mod redact;
mod refusal;
mod solitude;
mod subscriptions;
mod turns;
mod vims;

pub use acts::{Act, SkipHooks};
pub use deployment::Deployment;
pub use drivers::Drivers;
pub use engine::{Engine, EngineParts, Limits};
pub use linked::{Linked, NoHosts};
pub use notify::{Notifier, Patience};
pub use patch::merge_patch;
pub use plan::{Plan, PlannedStep};
pub use plugin_uses::{PluginUse, ServedInstance};
pub use redact::{HIDDEN, Redactor, is_secret_name, redact};
pub use refusal::{Refusal, Why};
pub use subscriptions::Subscribed;
pub use vims::VimChange;

/// All error codes of this crate, for `docs/errors.md`.
pub fn codes() -> Vec<&'static ports::Code> {
    let mut codes = refusal::CODES.to_vec();
    codes.extend(lcm::codes());
    codes.extend(hooks::CODES);
    codes.extend(drivers::CODES);
    codes.extend(linked::CODES);
    codes.extend(vims::CODES);
    codes.push(&ports::NO_POLICIES);
    codes.extend(abandon::CODES);
    codes
}
