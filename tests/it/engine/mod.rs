//! Tests of the engine against fake ports: every operation, step and fault, derived from the engine's own tables.
//!
//! | file | what |
//! |---|---|
//! | `fakes.rs`, `fake_plugins.rs`, `setup.rs` | fake ports: a VIM and hooks that record their state, and calls that fail by number; engines on them |
//! | `faults.rs` | each call fails once, each write is the last of its process: retry, rollback and resume |
//! | `flavours.rs` | changes of flavour and of external connectivity: refusals, hooks, grants, rollback |
//! | `events.rs`, `plan.rs` | the event stream; dry runs |
//! | `leases.rs` | clock jumps, two engines on one database, an expired lease |
//! | `snapshots.rs` | snapshots, and returns to them |
//! | `own_operation.rs` | an operation defined in a test alone, in one row |
//! | `plugins.rs` | crashes and shutdowns during a hook, a plugin replaced during an operation |
//! | `races.rs` | concurrent clients |
//! | `stopping_store.rs` | a store whose process ends at a chosen write |
//! | `store_faults.rs` | a database that fails once, at every write |
//! | `repeated_crashes.rs` | a server that crashes repeatedly in the same step |
//! | `vim_events.rs`, `dependents.rs` | records follow what a VIM reports, and what hooks move |
//! | `upgrade.rs` | databases of released versions, resumed |
//! | `operation_control.rs` | cancel, fail, deadlines, refused requests |
//! | `failure_policies.rs` | retries of a step, and rollback on failure |
//! | `cascade.rs` | terminating an instance together with those on its clusters |
//! | `stuck.rs` | from every state, whatever is broken, docs/how-to/stuck.md leads to a deleted instance |
//! | `abandon.rs` | what abandon removes and leaves, fencing, skipped hooks, the audit log |
//! | `modify.rs` | changed VIM connections |
//! | `notify.rs` | delivery to fast, slow, dead and deleted subscribers |
//! | `grants.rs`, `grant_contents.rs` | grant requests, and how a grant is used |
//! | `grant_waits.rs` | waiting for the NFVO: polling, retries, timeouts, cancels, crashes |
//! | `packages.rs` | changes of the VNF package: policies, what is carried over, hooks of both, grants, rollback |
//! | `heal.rs` | heal: refusals, reports, records, rollback |
//! | `operate.rs` | start and stop: states, refusals, hooks, grants, rollback, other operations on a stopped VNF |
//! | `stored_files.rs` | files that hooks store: their quota |
//! | `irreversible_hooks.rs` | hooks that rule out a rollback |
//! | `schedules.rs` | operations that begin at an interval |
//! | `scale.rs` | both scalings: sizes, refusals, hooks, grants, rollback, crashes |

mod abandon;
mod cascade;
mod credentials;
mod dependents;
mod descriptor_shortage;
mod empty_volumes;
mod events;
mod failure_policies;
mod fake_plugins;
pub(crate) mod fakes;
mod faults;
mod flavours;
mod grant_contents;
mod grant_waits;
mod grants;
mod heal;
mod irreversible_hooks;
mod leases;
mod links;
mod modify;
mod notify;
mod operate;
mod operation_control;
mod own_operation;
mod packages;
mod plan;
mod plugins;
mod races;
mod repeated_crashes;
mod scale;
mod scale_limits;
mod schedules;
pub(crate) mod setup;
mod snapshots;
mod step_tables;
mod stopping_store;
mod store_faults;
mod stored_files;
mod stuck;
mod upgrade;
mod vim_events;
mod volumes;
