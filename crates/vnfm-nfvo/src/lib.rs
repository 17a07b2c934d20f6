//! SOL003 client for the NFVO (grants, VNF packages) and for subscribers (notifications).
//!
//! | file | content |
//! |---|---|
//! | [`grants`] | requests for grants |
//! | [`packages`] | VNF packages at the NFVO, and the subscription to their changes |
//! | [`download`] | large files, with resumption after an interruption |
//! | [`callbacks`] | requests to subscribers: test of a callback, delivery |
//! | [`login`] | how we log in at both: HTTP Basic, OAuth 2.0 client credentials, a client certificate |
//!
//! What all requests share (no redirects, limited responses, checked addresses) is in `vnfm-outbound`.
//!
//! The engine decides who receives which notification, in which order, and how delivery is retried
//! ([`vnfm_core::Notifier`]), and also when a grant is requested and how it is applied ([`vnfm_core::lcm::grant`]).

pub mod callbacks;
pub mod download;
pub mod grants;
pub mod login;
pub mod packages;

pub use callbacks::Callbacks;
pub use download::{Fetcher, Origin};
pub use grants::{Grants, NfvoAddress};
pub use login::{ClientCredentials, Login};
pub use packages::{OfferedPackage, PackageSource};
pub use vnfm_outbound::{Networks, Tls};

/// All error codes of this crate, for `docs/errors.md`.
pub fn codes() -> Vec<&'static vnfm_core::ports::Code> {
    [
        callbacks::CODES,
        download::CODES,
        grants::CODES,
        login::CODES,
        packages::CODES,
    ]
    .concat()
}
