//! The ports `Store` and `Packages` in memory, and a VIM for tests: nothing outlives the process, and only Rust is linked.
//!
//! | file | content |
//! |---|---|
//! | `store` | [`MemoryStore`]: the port, one lock over everything |
//! | `state` | all tables, and how a list of changes is applied completely or not at all |
//! | `table` | rows by key, with rollback of uncommitted changes |
//! | `instances`, `ops`, `vims`, `snapshots`, `links`, `packages_and_outbox` | one function per [`Change`](vnfm_core::ports::Change), with its condition |
//! | `packages` | [`MemoryPackages`]: packages onboarded by the program |
//! | `vim` | [`MemoryVim`]: a driver and its VIM, in which everything succeeds at once |
//! | `vim_snapshots` | what snapshots store of it |
//! | `vim_links` | its networks that are shared virtual links |
//!
//! It satisfies the same contract as a database (`docs/contracts/store.md`), so tests can use it instead of one. It is for
//! tests, for short-lived tools, and for embedders that journal elsewhere: a crash loses running operations, and their
//! resources stay on the VIM. Secrets are unsealed in the process's memory.

mod instances;
mod links;
mod made;
mod ops;
mod packages;
mod packages_and_outbox;
mod quotas;
mod schedules;
mod snapshots;
mod state;
mod store;
mod table;
mod vim;
mod vim_links;
mod vim_snapshots;
mod vim_volumes;
mod vims;
mod volumes;
mod write;

pub use packages::MemoryPackages;
pub use store::MemoryStore;
pub use vim::{MEMORY_VIM, MemoryVim};

use vnfm_core::ports::Code;

/// All error codes of this crate, for `docs/errors.md`.
pub const CODES: &[&Code] = &[
    &packages::ABSENT,
    &vim::LOGIN,
    &made::LACKS,
    &vim_snapshots::NOT_STORED,
];
