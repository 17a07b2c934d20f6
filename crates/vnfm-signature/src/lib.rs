//! Signatures of VNF packages (SOL004 5.1): who made a package, and whether it is still what they made.
//!
//! ```text
//! option 1   the manifest is signed, and names every file with its hash   ─┐
//! option 2   an outer zip: the package, its signature, its certificate    ─┤
//! artifacts  a file with a signature of its own                           ─┴► Signature ─► Signer ─► Trust
//! ```
//! | file | what |
//! |---|---|
//! | [`signature`](Signature) | a signature is read, and compared with what it signs |
//! | [`certificate`](Certificate) | certificates out of PEM and DER files |
//! | [`trust`](Trust) | from a signer's certificate to an authority that somebody trusts |
//! | [`package`](check) | all signatures of a package, and the files that none covers |
//! | [`sign`](Key), [`seal`](Seal) | signatures are made, and packages signed, for vendors |
//!
//! Structures are read by `cms` and `x509-cert`, signatures computed by `aws-lc-rs`, chains built by `webpki`; what
//! is ours is what SOL004 wants of them. Time is told by who asks.

mod algorithm;
mod certificate;
mod fault;
mod package;
mod seal;
mod sign;
mod signature;
mod trust;

pub use certificate::Certificate;
pub use fault::{Fault, Kind};
pub use package::{Report, SignedFile, check, check_outer};
pub use seal::Seal;
pub use sign::{Key, Padding, Signing, signature_pem};
pub use signature::{Signature, Signer, Verifier};
pub use trust::Trust;
