//! The SOL003 HTTP API on top of the engine.
//!
//! An application that embeds the API needs [`AppState`], [`router`], [`drive()`], and for its middleware [`Principal`]:
//! see `examples/nested.rs`. [`program`] is what the `vnfm-server` binary consists of, and [`mod@reference`] has the tables
//! that documentation and tests compare with. Everything else is private.
//!
//! A file imports only what is below it, apart from a few neighbours:
//!
//! ```text
//! compose                                     builds everything from the configuration
//! routes, page           config               handlers                 members of the configuration file
//! state                                       the handles of all parts
//! access  nfvo_packages  readiness            parts: each knows only what it uses
//! maintenance  onboarding  metrics  drive …
//! route  body  conditions  listener …         requests and connections
//! problem  view  tls  logs  log_text …        leaves
//! ```
//!
//! | module | contents |
//! |---|---|
//! | `compose` | the composition root: builds every part of the server |
//! | `routes/table.rs` | every route: method, path, role, scope, quota, effect, handler |
//! | `routes/<resource>.rs` | one file per resource, short handlers |
//! | `route_match` | what a route needs, and which route a request matched |
//! | `problem` | the only place that knows status codes |
//! | `conditions` | `ETag`, `If-None-Match`, `If-Match`, `Last-Modified`, `If-Unmodified-Since` |
//! | `challenge` | `WWW-Authenticate`, with the reason why a bearer token was rejected |
//! | `view` | records in the standard's form |
//! | `access` | logins, roles, tenants, quotas, the audit log of changes |
//! | `drive` | drives accepted operations on this process's runtime |
//! | `overrides` | our own request headers: operator, reason, hooks to skip |
//! | `onboarding` | uploaded packages: checked, stored, or refused with every finding |
//! | `signatures` | which signatures of packages are accepted |
//! | `externals` | external artifacts of packages: fetched, verified, stored |
//! | `artifacts`, `content` | the files of a package; full and partial content |
//! | `nfvo_packages` | packages from an NFVO: fetched on demand or when on-boarded there, and kept in sync |
//! | `maintenance` | backup, pruning, disk space, recovery after a restore |
//! | `legacy_vims` | VIMs at addresses that new VIMs may not use |
//! | `nfvo` | the configured NFVO |
//! | `tls` | the server's certificate, reloaded when its files change |
//! | `secrets`, `settings_file` | the location of the encryption keys; files that the operator names |
//! | `client_address`, `client_certificate` | who calls, as far as the connection tells |
//! | `forwarded`, `request_tracing` | the public URL behind proxies; request ids and traces |
//! | `supervisor` | background tasks: if one fails, the process ends |
//! | `readiness`, `metrics`, `certificates` | health, metrics, expiry of certificates |
//! | `notification_metrics` | metrics of notifications |
//! | `config` | flag > `VNFM_*` > YAML file > default |

mod access;
mod api_version;
mod artifacts;
mod body;
mod body_discard;
mod certificates;
mod challenge;
mod client_address;
mod client_certificate;
mod compose;
mod conditions;
mod config;
mod content;
mod data;
mod drive;
mod externals;
mod forwarded;
mod legacy_vims;
mod listener;
mod log_text;
mod logs;
mod maintenance;
mod metrics;
mod nfvo;
mod nfvo_packages;
mod notification_metrics;
mod onboarding;
mod overrides;
mod page;
mod problem;
mod query;
mod readiness;
mod request_tracing;
mod route_match;
mod routes;
mod schedules;
mod secrets;
mod settings_file;
mod signatures;
mod state;
mod supervisor;
mod tls;
mod view;

pub use access::attempts::Allowance;
pub use access::principal::{Only, Principal, Role};
pub use access::{Access, Settings as AccessSettings};
pub use drive::{DriveQueue, run as drive};
pub use externals::Externals;
pub use metrics::Metrics;
pub use nfvo::{Connection as NfvoConnection, Nfvo};
pub use nfvo_packages::{NfvoPackageSource, PackageIntake};
pub use notification_metrics::MeasuredSubscribers;
pub use onboarding::Onboarding;
pub use routes::router;
pub use secrets::Rotate;
pub use signatures::{Packages, Policy, Signatures};
pub use state::{App, AppState};

/// What the `vnfm-server` binary consists of.
pub mod program {
    pub use crate::access::users::hash_password;
    pub use crate::compose::Server;
    pub use crate::config::{Command, Config, Differences, Flags, RUNNER_MODE, check, environment};
    pub use crate::data::{accept_loss, restore};
    pub use crate::listener::Descriptors;
    pub use crate::logs::{Logging, begin as begin_logging};
}

/// The tables of the interface: routes, error codes, metrics, members of the configuration.
pub mod reference {
    pub use crate::access::roles::RequiredRole;
    pub use crate::config::{Member, example_mistakes, members, schema};
    pub use crate::metrics::NAMES as METRICS;
    pub use crate::problem::CODES;
    pub use crate::route_match::{Effect, Media, Route, Subject};
    pub use crate::routes::table::documented as routes;
    pub use crate::routes::{OPENAPI, OPENAPI_V1};
}
