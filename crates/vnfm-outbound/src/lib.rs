//! HTTP towards neighbours. Every byte that a VIM, a hook's target, a subscriber, a token endpoint, the NFVO or a package's
//! server sends comes through here.
//!
//! ```text
//! Destinations ── which addresses: networks of the configuration, own and metadata addresses refused,
//!      │          a name resolved once and connected to where it was checked
//! Client ──────── no redirects, no proxy of the environment, total and stalled time of its Policy
//!      │
//! read, Pieces ── no answer is larger than its Policy
//! ```
//!
//! | file | what |
//! |---|---|
//! | `networks.rs` | networks that the configuration names, and the default rule |
//! | `destinations.rs` | what is checked before and while connecting |
//! | `client.rs` | a client with the limits of one purpose |
//! | `body.rs` | answers read whole, or in pieces, up to a limit |
//! | [`hyper`] | the same for a client that is built on hyper |
//!
//! An address that the operator wrote into the configuration is trusted ([`Destinations::anywhere`],
//! [`Destinations::and_host_of`]); one that a tenant, a package, a catalog or a redirect chose is not.

mod body;
mod client;
mod destinations;
pub mod hyper;
mod networks;

pub use body::{Pieces, ReadError, read};
pub use client::{Allowed, Client, Policy, Tls, Trust, shown, words};
pub use destinations::{Destinations, Forbidden, Machine, ThisMachine, is_forbidden};
pub use networks::Networks;
// What a caller needs to build a request and to look at an answer's head.
pub use reqwest::{
    Body, Certificate, Error, Method, RequestBuilder, Response, StatusCode, Url, header,
};
