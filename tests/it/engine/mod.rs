//! The engine against ports in memory: every operation, every step, every fault, without a line per step.
//!
//! | file | what |
//! |---|---|
//! | `bench.rs` | the ports: a VIM and hooks that keep books, calls that fail by number, a store that stops by number |
//! | `faults.rs` | each call fails, each write is the last one: retry, rollback and resume bring every case to an end |
//! | `events.rs`, `plan.rs` | what happened, and what would |
//! | `order.rs` | clocks that jump, two engines on one database, one that sleeps through its lease |
//! | `plugins.rs` | a server that dies in a hook, one that stops in order, a plugin that is replaced meanwhile |
//! | `races.rs` | many clients at once |
//! | `stopping.rs` | a store whose process ends at a chosen write |
//! | `store_faults.rs` | a database that fails once, at every write |
//! | `suspicion.rs` | a server that dies in the same step again and again, alone and beside others |
//! | `upgrade.rs` | databases of released versions, resumed |
//! | `ways_on.rs` | cancel, fail, deadlines, what is refused |
//! | `stuck.rs` | every state that is reached, with everything that can be broken, leads to *deleted* as docs/how-to/stuck.md says |
//! | `abandon.rs` | what abandon takes, what it leaves, whom it fences off, and the audit |
//! | `modify.rs` | a login that is changed, and where it may lead |
//! | `notify.rs` | subscribers that are quick, slow, dead or gone |
//! | `grants.rs` | what an NFVO is asked, every way in which it answers, and what becomes of that |
//! | `heal.rs` | what a heal refuses, says, keeps and undoes |

mod abandon;
pub(crate) mod bench;
mod events;
mod faults;
mod grants;
mod heal;
mod modify;
mod notify;
mod order;
mod plan;
mod plugins;
mod races;
mod scarce;
mod stopping;
mod store_faults;
mod stuck;
mod suspicion;
mod tables;
mod upgrade;
mod ways_on;
