//! The SOL003 facade: HTTP in, the engine's calls out.
//!
//! | file | what |
//! |---|---|
//! | [`compose`] | the composition root: everything is made here and nowhere else |
//! | `routes/<resource>.rs` | one file per resource, short handlers |
//! | [`problem`] | the one place that knows status codes |
//! | [`conditions`] | `ETag`, `If-None-Match`, `If-Match`, `Last-Modified`, `If-Unmodified-Since` |
//! | [`challenge`] | `WWW-Authenticate` with what is wrong with a bearer token |
//! | [`view`] | records as the standard shows them |
//! | [`access`] | who may do what: logins, roles, tenants, limits, the audit of changes |
//! | [`drive`] | drives accepted operations on this process's runtime |
//! | [`acts`] | who asks, why, and without which hooks: our own headers |
//! | [`onboarding`] | uploaded packages: checked, kept, or refused with every finding |
//! | [`signatures`] | whose packages are taken |
//! | [`externals`] | what lies outside of packages: fetched, compared, kept |
//! | [`artifacts`], [`content`] | which files of a package are what; bytes that are served whole or in part |
//! | [`supply`] | packages of an NFVO: fetched when they are wanted or on-boarded there, and followed |
//! | [`upkeep`] | backup, pruning, room on the disk, recovery after a restore |
//! | [`kept`] | VIMs at addresses that are allowed to no new one |
//! | [`nfvo`] | the NFVO as it is configured |
//! | [`tls`] | the certificate as it lies in its files, looked at again and again |
//! | [`forwarded`], [`follow`] | where clients find us behind proxies; how a request is followed through logs |
//! | [`parts`] | what runs beside requests: where it fails, the process ends |
//! | [`probes`], [`metrics`], [`certificates`], [`told`] | what those see who operate it |
//! | [`config`] | flag > `VNFM_*` > YAML file > default |

pub mod access;
pub mod acts;
pub mod artifacts;
pub mod body;
pub mod certificates;
pub mod challenge;
pub mod compose;
pub mod conditions;
pub mod config;
pub mod content;
pub mod data;
pub mod drive;
pub mod externals;
pub mod follow;
pub mod forwarded;
pub mod gate;
pub mod kept;
pub mod listener;
pub mod logs;
pub mod metrics;
pub mod nfvo;
pub mod onboarding;
pub mod page;
pub mod parts;
pub mod probes;
pub mod problem;
pub mod query;
pub mod routes;
pub mod secrets;
pub mod signatures;
pub mod state;
pub mod supply;
pub mod tls;
pub mod told;
mod unread;
pub mod upkeep;
pub mod view;
