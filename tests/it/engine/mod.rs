//! The engine against ports in memory: every operation, every step, every fault, without a line per step.
//!
//! | file | what |
//! |---|---|
//! | `fakes.rs` | the ports: a VIM and hooks that keep books, calls that fail by number, a store that stops by number |
//! | `faults.rs` | each call fails, each write is the last one: retry, rollback and resume bring every case to an end |
//! | `events.rs`, `plan.rs` | what happened, and what would |
//! | `leases.rs` | clocks that jump, two engines on one database, one that sleeps through its lease |
//! | `plugins.rs` | a server that dies in a hook, one that stops in order, a plugin that is replaced meanwhile |
//! | `races.rs` | many clients at once |
//! | `stopping_store.rs` | a store whose process ends at a chosen write |
//! | `store_faults.rs` | a database that fails once, at every write |
//! | `repeated_crashes.rs` | a server that dies in the same step again and again, alone and beside others |
//! | `upgrade.rs` | databases of released versions, resumed |
//! | `operation_control.rs` | cancel, fail, deadlines, what is refused |
//! | `stuck.rs` | every state that is reached, with everything that can be broken, leads to *deleted* as docs/how-to/stuck.md says |
//! | `abandon.rs` | what abandon takes, what it leaves, whom it fences off, and the audit |
//! | `modify.rs` | a login that is changed, and where it may lead |
//! | `notify.rs` | subscribers that are quick, slow, dead or gone |
//! | `grants.rs` | what an NFVO is asked, every way in which it answers, and what becomes of that |
//! | `heal.rs` | what a heal refuses, says, keeps and undoes |

mod abandon;
mod descriptor_shortage;
mod events;
pub(crate) mod fakes;
mod faults;
mod grant_contents;
mod grants;
mod heal;
mod leases;
mod modify;
mod notify;
mod operation_control;
mod plan;
mod plugins;
mod races;
mod repeated_crashes;
mod step_tables;
mod stopping_store;
mod store_faults;
mod stuck;
mod upgrade;
