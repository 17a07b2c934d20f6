//! The SOL003 HTTP API on top of the engine.
//!
//! | module | contents |
//! |---|---|
//! | [`compose`] | the composition root: builds every part of the server |
//! | [`routes::table`] | every route: method, path, role, scope, quota, effect, handler |
//! | `routes/<resource>.rs` | one file per resource, short handlers |
//! | [`route`] | what a route needs, and which route a request matched |
//! | [`problem`] | the only place that knows status codes |
//! | [`conditions`] | `ETag`, `If-None-Match`, `If-Match`, `Last-Modified`, `If-Unmodified-Since` |
//! | [`challenge`] | `WWW-Authenticate`, with the reason why a bearer token was rejected |
//! | [`view`] | records in the standard's form |
//! | [`access`] | logins, roles, tenants, quotas, the audit log of changes |
//! | [`drive`] | drives accepted operations on this process's runtime |
//! | [`overrides`] | our own request headers: operator, reason, hooks to skip |
//! | [`onboarding`] | uploaded packages: checked, stored, or refused with every finding |
//! | [`signatures`] | which signatures of packages are accepted |
//! | [`externals`] | external artifacts of packages: fetched, verified, stored |
//! | [`artifacts`], [`content`] | the files of a package; full and partial content |
//! | [`nfvo_packages`] | packages from an NFVO: fetched on demand or when on-boarded there, and kept in sync |
//! | [`maintenance`] | backup, pruning, disk space, recovery after a restore |
//! | [`legacy_vims`] | VIMs at addresses that new VIMs may not use |
//! | [`nfvo`] | the configured NFVO |
//! | [`tls`] | the server's certificate, reloaded when its files change |
//! | [`forwarded`], [`request_tracing`] | the public URL behind proxies; request ids and traces |
//! | [`supervisor`] | background tasks: if one fails, the process ends |
//! | [`probes`], [`metrics`], [`certificates`] | health, metrics, expiry of certificates |
//! | [`notification_metrics`] | metrics of notifications |
//! | [`config`] | flag > `VNFM_*` > YAML file > default |

pub mod access;
pub mod artifacts;
pub mod body;
mod body_discard;
pub mod certificates;
pub mod challenge;
pub mod compose;
pub mod conditions;
pub mod config;
pub mod content;
pub mod data;
pub mod drive;
pub mod externals;
pub mod forwarded;
pub mod gate;
pub mod legacy_vims;
pub mod listener;
pub mod logs;
pub mod maintenance;
pub mod metrics;
pub mod nfvo;
pub mod nfvo_packages;
pub mod notification_metrics;
pub mod onboarding;
pub mod overrides;
pub mod page;
pub mod probes;
pub mod problem;
pub mod query;
pub mod request_tracing;
pub mod route;
pub mod routes;
pub mod secrets;
pub mod signatures;
pub mod state;
pub mod supervisor;
pub mod tls;
pub mod view;
