//! The facade over the real engine and database, spoken to over HTTP; VIM and hooks are in memory.
//!
//! Every answer is checked against the official schemas, and for secrets that must not be in it.

#![expect(
    clippy::unwrap_used,
    reason = "a test that cannot go on says so by panicking"
)]

mod audit;
mod bench;
mod configured;
mod data_folder;
#[cfg(test)]
mod differences;
mod events;
mod external;
mod from_uri;
mod full_disk;
mod gate;
mod headers;
mod held;
mod hostile;
#[cfg(test)]
mod hostkeys;
mod keys;
mod large;
mod letter;
mod limits;
mod listener;
mod lists;
mod logins;
mod model;
mod modify;
mod narrowed;
mod openapi;
mod openapi_v1;
mod operate;
mod oracle;
mod packages;
mod parts;
mod policies;
mod process;
mod refusals;
mod signed;
mod statuses;
mod subscriptions;
mod supervision;
mod supply;
mod tasks;
mod tenants;
mod tls;
mod unfinished;
mod v1;
mod ways_out;
mod world;
