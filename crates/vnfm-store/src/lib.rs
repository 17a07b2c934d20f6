//! Store port: SQLite with journal, leases, outbox, and sealed secrets.
//!
//! ```text
//! SqliteStore::open ─ lock ─ log whole? ─ database whole? ─ schema (migrations) ─ keys fit? ─ leases of a dead process given back
//!   write(fence, changes)   the fence, then each change as one conditional statement: all or none
//!   claim / renew / release by the clock of the database
//!     … all that wait at a moment share one BEGIN IMMEDIATE and one fsync, each under a savepoint of its own
//!   everything else         reads, on connections of their own
//! ```
//!
//! | module | what |
//! |---|---|
//! | `process_lock` | the lock on the file |
//! | `files`, `leftovers` | which files have to be there, and which a crash left |
//! | `integrity` | whether the database is whole |
//! | `sqlite` | connections, and the [`Store`](vnfm_core::ports::Store) trait itself |
//! | `group` | the thread that writes: group commit |
//! | `wal` | whether the write-ahead log holds all that was acknowledged |
//! | `schema` | numbered migrations |
//! | `write` | one function per [`Change`](vnfm_core::ports::Change), with its condition |
//! | `read` | rows back into records |
//! | `usage` | what tenants have, counted |
//! | `filter`, `dialect` | what a list is asked for, as SQL; how this database spells JSON |
//! | `visibility` | what somebody sees of a list, as SQL |
//! | `lease` | who drives an operation |
//! | `vim_cache` | VIMs as they were last read |
//! | `kept_addresses` | addresses that VIMs keep which were in use before addresses were checked |
//! | `keys`, `key_provider`, `rotate` | what seals secrets, and where it lies; sealing happens here and nowhere else |
//! | `backup` | a backup, and its way back |
//! | `statistics` | what there is, and whether it can be written, for those who watch |
//! | `retention` | how long what is over is kept |
//! | `packages` | the packages' files, on disk beside the database |
//!
//! Statements hold one SQL text that PostgreSQL takes as well; there, transactions are to be SERIALIZABLE. What
//! differs between the two is in `schema` (the view `clock`), in `dialect` (JSON) and in `sqlite` (how to connect).

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
pub use kept_addresses::{KeptAddress, kept_addresses_in};
pub use key_provider::SealedBy;
pub use keys::{KeyPlace, SecretKeys};
pub use leftovers::{Folder, sweep};
pub use packages::{CODES as PACKAGE_CODES, PackageDir, PackageFailure};
pub use quotas::Most;
pub use retention::{Pruned, Retention};
pub use sqlite::SqliteStore;
pub use statistics::{Figures, VimEnd};
