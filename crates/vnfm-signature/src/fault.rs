//! What can be wrong with a signature, sorted by who can mend it.

use crate::signature::{LARGEST, SIGNERS};

/// Who can mend it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Kind {
    /// Nobody signed, or not everything: the vendor signs.
    Missing,
    /// The signature does not fit, or is of a kind that is not taken: the vendor signs anew, or the package was
    /// changed on its way.
    Wrong,
    /// Nobody vouches for who signed: the operator looks at the authorities that are trusted.
    Untrusted,
}

/// What is wrong.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Fault {
    /// There is no signature.
    #[error("the package is not signed")]
    Unsigned,
    /// The manifest is signed and does not vouch for this file.
    #[error(
        "no signature covers it: the manifest states no hash of it, and it has no signature of its own"
    )]
    Uncovered,
    /// What has to be read to verify a signature cannot be read.
    #[error("cannot be read: {0}")]
    Unreadable(String),
    /// A signature is larger than any that is meant well.
    #[error("the signature has {0} bytes, more than the {LARGEST} that are read")]
    TooLarge(usize),
    /// These bytes are no CMS.
    #[error("the signature is no CMS that can be read: {0}")]
    NotCms(String),
    /// It is CMS, but not signed data.
    #[error("the CMS is of the type {0}, not signed data")]
    NotSigned(String),
    /// The signature brings what it signs.
    #[error("the signature holds a content of its own; SOL004 wants a detached one")]
    Attached,
    /// A CMS with certificates and nobody who signs.
    #[error("the signature has no signer")]
    NoSigner,
    /// More signers than any that is meant well.
    #[error("the signature has {0} signers, more than the {SIGNERS} that are looked at")]
    TooManySigners(usize),
    /// A hash that is too weak, or not known.
    #[error("the hash `{0}` is not taken; SHA-256, SHA-384 and SHA-512 are")]
    Hash(String),
    /// A way to sign that is not known.
    #[error("the signature's algorithm `{0}` is not taken; RSA, RSA-PSS and ECDSA are")]
    Algorithm(String),
    /// The signed attributes are not what CMS demands.
    #[error("the signed attributes are wrong: {0}")]
    Attributes(&'static str),
    /// Whose signature it is cannot be told.
    #[error("the certificate of signer `{0}` is neither in the signature nor beside it")]
    NoCertificate(String),
    /// What was signed is something else.
    #[error("it is not what was signed: the content was changed afterwards")]
    Content,
    /// Not made with the key of this certificate.
    #[error("the signature was not made with the key of the certificate `{0}`")]
    Signature(String),
    /// No way leads from the certificate to an authority that is trusted.
    #[error("the certificate `{subject}` is not trusted: {why}")]
    Untrusted {
        /// Whose certificate.
        subject: String,
        /// Why not.
        why: String,
    },
    /// A file of certificates, keys or revocations is not one.
    #[error("{0}")]
    File(String),
}

impl Fault {
    /// Who can mend it.
    pub fn kind(&self) -> Kind {
        match self {
            Fault::Unsigned | Fault::Uncovered => Kind::Missing,
            Fault::Untrusted { .. } => Kind::Untrusted,
            Fault::Unreadable(_)
            | Fault::TooLarge(_)
            | Fault::NotCms(_)
            | Fault::NotSigned(_)
            | Fault::Attached
            | Fault::NoSigner
            | Fault::TooManySigners(_)
            | Fault::Hash(_)
            | Fault::Algorithm(_)
            | Fault::Attributes(_)
            | Fault::NoCertificate(_)
            | Fault::Content
            | Fault::Signature(_)
            | Fault::File(_) => Kind::Wrong,
        }
    }
}
