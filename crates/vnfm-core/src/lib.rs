//! The LCM engine of vnfm: operations as journaled steps over ports.
//!
//! Its files stand on floors, and import only their own floor and those below:
//!
//! | floor | files |
//! |---|---|
//! | what adds to the engine | `instances`, `snapshots`, `links`, `subscriptions`, `notification_delivery`, `plan`, `restore_check`, `orphans`, `abandon`, `tenant`, … |
//! | the facade | [`Engine`] |
//! | operations | [`lcm`] |
//! | what operations use | `hooks`, `vims`, `patch` |
//! | what everything holds | [`lcm::Context`], drivers, running operations, stored files, refusals |
//! | what the engine needs | [`ports`], [`query`], [`Deployment`], limits |
//!
//! Read in this order: [`lcm::instantiate`] (one operation from top to bottom), [`lcm::step_runner`] (how a step is run,
//! retried, undone, resumed), [`ports`] (what the engine needs from its environment).
//!
//! The engine owns no runtime: the embedder awaits [`Engine::drive`] wherever it likes. Dropping that future is
//! equivalent to a crash; [`Engine::resume_all`] continues.
//!
//! To embed it, depend on the crate `vnfm` instead: it re-exports the engine with our adapters, and its front page is a
//! program that runs.

mod abandon;
mod cluster_match;
mod context;
mod deployment;
mod drivers;
mod engine;
mod events;
mod exclusive;
mod hooks;
mod in_progress;
mod instances;
pub mod json;
pub mod lcm;
mod limits;
mod links;
mod notification_delivery;
mod orphans;
mod overrides;
mod patch;
mod plan;
mod plugin_uses;
mod policy_check;
pub mod ports;
pub mod query;
mod redact;
mod refusal;
mod restore_check;
mod running_ops;
mod schedules;
mod snapshots;
mod static_plugins;
mod stored_files;
mod subscriptions;
mod tenant;
mod tenant_vim;
mod vim_events;
mod vim_limiter;
mod vims;
mod vnfd_match;
mod volumes;

pub use cluster_match::{RequirementLevel, RequirementOutcome, Verdict, match_cluster};
pub use deployment::{Deployment, ReusedVolume};
pub use drivers::Drivers;
pub use engine::{Engine, EngineParts, PackageMatch, VimChange, VimMatch};
pub use events::Event;
pub use json::{to_json, to_json_or_log};
pub use lcm::{Driven, NotCompleted};
pub use limits::Limits;
pub use notification_delivery::{DeliveryTimeouts, Notifier};
pub use overrides::{Override, SkipHooks};
pub use patch::merge_patch;
pub use plan::{Plan, PlannedStep};
pub use plugin_uses::{PluginUse, ServedInstance};
pub use redact::{HIDDEN, Redactor, is_secret_name, redact};
pub use refusal::{Refusal, Why};
pub use snapshots::ExpectedSnapshot;
pub use static_plugins::{NoHostServices, StaticPlugins};
pub use stored_files::{FileOwner, Incoming, StoredFiles};
pub use subscriptions::SubscribeOutcome;
pub use tenant::Tenant;

/// All error codes of this crate, for `docs/errors.md`.
pub fn codes() -> Vec<&'static ports::Code> {
    let mut codes = refusal::CODES.to_vec();
    codes.extend(lcm::codes());
    codes.extend(hooks::CODES);
    codes.extend(drivers::CODES);
    codes.extend(static_plugins::CODES);
    codes.push(&stored_files::QUOTA);
    codes.extend(engine::CODES);
    codes.push(&ports::NO_CAPABILITIES);
    codes.push(&ports::NO_POLICIES);
    codes.extend(abandon::CODES);
    codes.extend(orphans::CODES);
    codes
}
