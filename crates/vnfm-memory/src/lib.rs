//! The ports `Store` and `Packages` in memory, and a VIM for tests: nothing outlives the process, and nothing but Rust is linked.
//!
//! | file | what |
//! |---|---|
//! | `store` | [`MemoryStore`]: the port, one lock over everything |
//! | `state` | what there is, and how a list of changes becomes all or none |
//! | `table` | rows by key that remember what they were until they are kept |
//! | `instances`, `ops`, `vims`, `others` | one function per [`Change`](vnfm_core::ports::Change), with its condition |
//! | `packages` | [`MemoryPackages`]: packages that somebody hands over |
//! | `vim` | [`MemoryVim`]: a driver and its VIM, which does everything at once |
//!
//! It keeps the same contract as a database (`docs/contracts/store.md`), so a test may use it in the place of one. It
//! is for tests, for tools that end with their work, and for embedders that journal elsewhere: a crash forgets what was
//! going on, and resources stay on the VIM. Secrets lie in the process's memory as they are.

mod instances;
mod ops;
mod others;
mod packages;
mod quotas;
mod state;
mod store;
mod table;
mod vim;
mod vims;

pub use packages::MemoryPackages;
pub use store::MemoryStore;
pub use vim::{MEMORY_VIM, MemoryVim};

use vnfm_core::ports::Code;

/// All error codes of this crate, for `docs/errors.md`.
pub const CODES: &[&Code] = &[&packages::ABSENT, &vim::LOGIN, &vim::LACKS];
