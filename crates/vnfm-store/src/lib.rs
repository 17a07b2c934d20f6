//! Store port: SQLite with journal, leases, outbox, and sealed secrets.
//!
//! ```text
//! SqliteStore::open ─ lock ─ check log ─ check database ─ migrate schema ─ check keys ─ release leases of a dead process
//!   write(fence, changes)   the fence, then each change as one conditional statement: all or none
//!   claim / renew / release by the clock of the database
//!     … concurrent calls share one BEGIN IMMEDIATE and one fsync, each under its own savepoint
//!   everything else         reads, on separate connections
//! ```
//!
//! | module | content |
//! |---|---|
//! | `process_lock` | the lock on the file |
//! | `files`, `leftovers` | which files must exist, and which are leftovers of a crash |
//! | `integrity` | the integrity check of the database |
//! | `sqlite` | connections, and the [`Store`](vnfm_core::ports::Store) trait itself |
//! | `group` | the writer thread: group commit |
//! | `wal` | checks that the write-ahead log has all acknowledged transactions |
//! | `schema` | numbered migrations |
//! | `write` | one function per [`Change`](vnfm_core::ports::Change), with its condition |
//! | `read` | converts rows to records |
//! | `usage` | resources counted per tenant |
//! | `filter`, `dialect` | list filters as SQL; this database's JSON functions |
//! | `visibility` | visibility rules of lists as SQL |
//! | `lease` | leases of operations |
//! | `vim_cache` | cached VIM records |
//! | `kept_addresses` | VIM addresses from before addresses were checked, which remain allowed |
//! | `keys`, `key_provider`, `rotate` | the keys that encrypt secrets, and where they are stored; secrets are encrypted only here |
//! | `backup` | backup and restore |
//! | `statistics` | statistics and a write probe, for monitoring |
//! | `retention` | retention of finished operations, logs and events |
//! | `packages` | package files, in a folder next to the database |
//!
//! The SQL is also valid for PostgreSQL, where transactions would have to be SERIALIZABLE. What differs is in `schema`
//! (the view `clock`), in `dialect` (JSON) and in `sqlite` (connections).

mod backup;
mod dialect;
mod fault;
mod files;
mod filter;
mod group;
mod integrity;
mod kept_addresses;
mod key_provider;
mod keys;
mod lease;
mod leftovers;
mod location;
mod packages;
mod process_lock;
mod quotas;
mod read;
mod retention;
mod rotate;
mod schema;
mod sqlite;
mod statistics;
mod upgrade;
mod usage;
mod vim_cache;
mod visibility;
mod wal;
mod write;

pub use backup::{Recovery, Restored, restore, restore_with};
pub use files::{accept_loss, check_files};
pub use kept_addresses::{UncheckedAddress, unchecked_addresses_of_database};
pub use key_provider::SealedBy;
pub use keys::{KeyLocation, SecretKeys};
pub use leftovers::{Folder, remove_leftovers_in};
pub use packages::{CODES as PACKAGE_CODES, PackageDir, PackageFailure};
pub use quotas::QuotaLimits;
pub use retention::{Pruned, Retention};
pub use sqlite::SqliteStore;
pub use statistics::{Statistics, VimExpiry};
