//! Store port: SQLite with journal, leases, outbox, and sealed secrets.
//!
//! ```text
//! SqliteStore::open ─ lock ─ check log ─ check database ─ migrate schema ─ check keys ─ take over leases of a dead process
//!   write(fence, changes)   the fence, then the statements of each change: all or none
//!   claim / renew / release by the clock of the database
//!     … concurrent calls share one BEGIN IMMEDIATE and one fsync, each under its own savepoint
//!   everything else         queries, on separate threads
//! ```
//! Three floors; each imports only those below it:
//!
//! | floor | module | content |
//! |---|---|---|
//! | store | `sqlite` | opening; the [`Store`](vnfm_core::ports::Store) trait and the ports for the care of a store |
//! | pure | `write` | the statements of each [`Change`](vnfm_core::ports::Change), with its conditions |
//! | | `read` | queries, and how their rows become records |
//! | | `op_lease`, `tenant_usage`, `kept_addresses` | leases; resources counted per tenant; addresses from before they were checked |
//! | | `filter`, `visibility`, `dialect` | list filters and visibility rules as SQL; this database's JSON functions |
//! | tasks | `opening`, `schema`, `upgrade` | first transactions, numbered migrations, rows of older versions |
//! | | `retention`, `statistics`, `restore_mark` | removal of old rows; counts; the mark of a restored database |
//! | | `backup` | backup and restore |
//! | | `rotate`, `key_provider`, `secret_keys` | the keys that encrypt secrets, and where they are stored; secrets are encrypted only here |
//! | executor | `statement`, `refusals` | queries and statements as data |
//! | | `database`, `group_commit`, `readers` | the writing thread with group commit; the reading threads |
//! | | `executor`, `location` | runs queries and statements on SQLite; its connections |
//! | files | `process_lock`, `files`, `leftovers` | the lock on the file; which files must exist, and which are left by a crash |
//! | | `wal`, `integrity` | checks that the log has all acknowledged transactions, and that the database is intact |
//! | | `packages`, `instance_files` | package files and files stored with instances, in folders next to the database |
//! | | `hashing` | SHA-256 of files |
//!
//! The SQL is also valid for PostgreSQL, where transactions would have to be SERIALIZABLE. What differs is in `schema`
//! (the view `clock`), in `dialect` (JSON) and in the executor.

mod backup;
mod database;
mod dialect;
mod executor;
mod fault;
mod files;
mod filter;
mod group_commit;
mod hashing;
mod instance_files;
mod integrity;
mod kept_addresses;
mod key_provider;
mod leftovers;
mod location;
mod op_lease;
mod opening;
mod packages;
mod process_lock;
mod quota_conditions;
mod read;
mod readers;
mod refusals;
mod restore_mark;
mod retention;
mod rotate;
mod schema;
mod secret_keys;
mod sqlite;
mod statement;
mod statistics;
mod tenant_usage;
mod upgrade;
mod vim_record_cache;
mod visibility;
mod wal;
mod write;

pub use backup::{BackupFolders, Restored, restore, restore_with};
pub use files::{accept_loss, check_files};
pub use instance_files::{CODES as FILE_CODES, FileDir};
pub use kept_addresses::{UncheckedAddress, unchecked_addresses_of_database};
pub use leftovers::{Folder, remove_leftovers_in};
pub use packages::{CODES as PACKAGE_CODES, PackageDir, PackageFailure};
pub use secret_keys::SecretKeys;
pub use sqlite::{SqliteStore, StoreBackups};
pub use vnfm_core::ports::{
    KeyLocation, Pruned, QuotaLimits, Recovery, Retention, SealedBy, Statistics, VimExpiry,
};
