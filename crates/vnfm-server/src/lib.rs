//! The SOL003 facade: HTTP in, the engine's calls out.
//!
//! | file | what |
//! |---|---|
//! | [`compose`] | the composition root: everything is made here and nowhere else |
//! | `routes/<resource>.rs` | one file per resource, short handlers |
//! | [`problem`] | the one place that knows status codes |
//! | [`conditions`] | `ETag`, `If-Match`, `Last-Modified`, `If-Unmodified-Since` |
//! | [`view`] | records as the standard shows them |
//! | [`drive`] | drives accepted operations on this process's runtime |
//! | [`acts`] | who asks, why, and without which hooks: our own headers |
//! | [`onboarding`] | uploaded packages: checked, kept, or refused with every finding |
//! | [`upkeep`] | backup, pruning, room on the disk, recovery after a restore |
//! | [`nfvo`] | the NFVO as it is configured |
//! | [`config`] | flag > `VNFM_*` > YAML file > default |

pub mod acts;
pub mod body;
pub mod compose;
pub mod conditions;
pub mod config;
pub mod drive;
pub mod gate;
pub mod nfvo;
pub mod onboarding;
pub mod page;
pub mod problem;
pub mod query;
pub mod routes;
pub mod state;
pub mod upkeep;
pub mod view;
