//! `InfraDriver` for Kubernetes: manifests by server-side apply, waits by watch.
//!
//! ```text
//! VimConnectionInfo ── connection  read once: address, trust, login, proxy
//!                      client      in memory only, asked anew at each call; below it http: checked addresses, bounded answers
//! package + request ── manifests   order file, variables, namespace ──> objects in stages
//!                      catalog     any kind, by discovery
//!                      policy      what VIM and role allow, or refused before anything is made
//!                      apply       ours by label, or refused untouched     labels
//!                      watch ───── ready: does it work?  trouble: why not?
//!                      inventory   pods as VNFCs, services as external CPs
//!                      heal        pods replaced, what others deleted or edited brought back
//!                      delete      in reverse, until gone
//!                      owned       what carries our labels
//! ```
//! [`KubernetesDriver`] puts them together, one short function per method of the port.

mod amount;
mod apply;
mod catalog;
mod client;
mod connection;
mod delete;
mod driver;
pub mod errors;
mod expiry;
mod heal;
mod http;
mod inventory;
mod labels;
mod manifests;
mod names;
mod owned;
mod pem;
mod pod_security;
mod policy;
mod ready;
mod rollout;
mod services;
mod template;
mod trouble;
mod watch;

pub use driver::KubernetesDriver;
