//! Outbound HTTP. All calls to VIMs, targets of hooks, subscribers, token endpoints, the NFVO and file
//! servers go through this crate.
//!
//! ```text
//! Destinations ── allowed addresses: configured networks; own and metadata addresses rejected;
//!      │          a name is resolved once, and the connection goes to the checked address
//! Client ──────── no redirects, no proxy of the environment, total and stall timeout of its Policy
//!      │
//! read, Pieces ── no response is larger than its Policy allows
//! ```
//!
//! | file | content |
//! |---|---|
//! | `networks.rs` | the configured networks, and the default rule |
//! | `destinations.rs` | address checks before and during connecting |
//! | `client.rs` | a client with the limits of one purpose |
//! | `body.rs` | response bodies, read completely or in pieces, up to a limit |
//! | `upload.rs` | a request body that a thread writes |
//! | [`hyper`] | the same limits for a client built on hyper |
//!
//! An address that the operator wrote into the configuration is trusted ([`Destinations::anywhere`],
//! [`Destinations::and_host_of`]); one that a tenant, a package, a catalog or a redirect chose is not.

mod body;
mod client;
mod destinations;
pub mod hyper;
mod networks;
mod upload;

pub use body::{Pieces, ReadError, read};
pub use client::{Allowed, Client, Policy, Tls, Trust, error_chain, without_credentials};
pub use destinations::{Destinations, Forbidden, Machine, ThisMachine, is_forbidden};
pub use networks::Networks;
pub use upload::written;
// For building a request and reading the head of a response.
pub use reqwest::{
    Body, Certificate, Error, Method, RequestBuilder, Response, StatusCode, Url, header,
};
