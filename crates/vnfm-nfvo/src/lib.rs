//! SOL003 towards the NFVO: grants, VNF packages, and notifications to whoever subscribed to them.
//!
//! | file | what |
//! |---|---|
//! | [`grants`] | the NFVO is asked whether an operation may go on |
//! | [`packages`] | VNF packages that the NFVO has, and the subscription to what becomes of them |
//! | [`download`] | a large file, and after a cut the rest of it |
//! | [`callbacks`] | the requests to subscribers: test of a callback, delivery |
//! | [`login`] | how we log in at either: user and password, OAuth 2.0 client credentials, a certificate |
//!
//! What all requests have in common (no redirects, a largest answer, checked addresses) is `vnfm-outbound`'s.
//!
//! Which notification goes to whom, in which order, how often and for how long is the engine's
//! ([`vnfm_core::Notifier`]), and so is what a grant is needed for and what becomes of it ([`vnfm_core::lcm::grant`]).

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

/// One row of a table of codes.
const fn code(
    name: &'static str,
    kind: vnfm_core::ports::ErrorKind,
    means: &'static str,
    next: &'static str,
) -> vnfm_core::ports::Code {
    vnfm_core::ports::Code {
        name,
        kind,
        means,
        next,
    }
}

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
