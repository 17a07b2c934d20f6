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
//! | `alone` | the lock on the file |
//! | `files`, `leftovers` | which files have to be there, and which a crash left |
//! | `integrity` | whether the database is whole |
//! | `sqlite` | connections, and the [`Store`](vnfm_core::ports::Store) trait itself |
//! | `group` | the thread that writes: group commit |
//! | `wal` | whether the write-ahead log holds all that was acknowledged |
//! | `schema` | numbered migrations |
//! | `write` | one function per [`Change`](vnfm_core::ports::Change), with its condition |
//! | `read` | rows back into records |
//! | `tally` | what tenants have, counted |
//! | `filter`, `dialect` | what a list is asked for, as SQL; how this database spells JSON |
//! | `sight` | what somebody sees of a list, as SQL |
//! | `lease` | who drives an operation |
//! | `known` | VIMs as they were last read |
//! | `kept` | addresses that VIMs keep which were in use before addresses were checked |
//! | `keys`, `keeper`, `rotate` | what seals secrets, and where it lies; sealing happens here and nowhere else |
//! | `backup` | a backup, and its way back |
//! | `figures` | what there is, and whether it can be written, for those who watch |
//! | `retention` | how long what is over is kept |
//! | `packages` | the packages' files, on disk beside the database |
//!
//! Statements hold one SQL text that PostgreSQL takes as well; there, transactions are to be SERIALIZABLE. What
//! differs between the two is in `schema` (the view `clock`), in `dialect` (JSON) and in `sqlite` (how to connect).

mod alone;
mod backup;
mod dialect;
mod fault;
mod figures;
mod files;
mod filter;
mod group;
mod integrity;
mod keeper;
mod kept;
mod keys;
mod known;
mod lease;
mod leftovers;
mod packages;
mod place;
mod quotas;
mod read;
mod retention;
mod rotate;
mod schema;
mod sight;
mod sqlite;
mod tally;
mod upgrade;
mod wal;
mod write;

pub use backup::{Recovery, Restored, restore, restore_with};
pub use figures::{Figures, VimEnd};
pub use files::{accept_loss, check_files};
pub use keeper::SealedBy;
pub use kept::{KeptAddress, kept_addresses_in};
pub use keys::{KeyPlace, SecretKeys};
pub use leftovers::{Folder, sweep};
pub use packages::{CODES as PACKAGE_CODES, PackageDir, PackageFailure};
pub use quotas::Most;
pub use retention::{Pruned, Retention};
pub use sqlite::SqliteStore;
