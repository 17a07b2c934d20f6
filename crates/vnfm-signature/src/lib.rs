//! Signatures of VNF packages (SOL004 5.1): who signed a package, and whether it is unchanged.
//!
//! ```text
//! option 1   the manifest is signed, and names every file with its hash   ─┐
//! option 2   an outer zip: the package, its signature, its certificate    ─┤
//! artifacts  a file with a separate signature                             ─┴► Signature ─► Signer ─► Trust
//! ```
//! | file | content |
//! |---|---|
//! | [`signature`](Signature) | parsing of a signature, and verification against the content |
//! | [`certificate`](Certificate) | certificates from PEM and DER files |
//! | [`trust`](Trust) | the chain from a signer's certificate to a trusted authority |
//! | [`package_signatures`](check) | all signatures of a package, and the files that none covers |
//! | [`sign`](Key), [`seal`](Seal) | signing of packages, for vendors |
//!
//! `cms` and `x509-cert` parse structures, `aws-lc-rs` computes signatures, `webpki` builds chains; this crate implements
//! the requirements of SOL004. Callers supply the time.

mod algorithm;
mod certificate;
mod fault;
mod package_signatures;
mod seal;
mod sign;
mod signature;
mod trust;

pub use certificate::Certificate;
pub use fault::{Fault, Kind};
pub use package_signatures::{Report, SignedFile, check, check_outer};
pub use seal::Seal;
pub use sign::{Key, Padding, Signing, signature_pem};
pub use signature::{Signature, Signer, Verifier};
pub use trust::Trust;
