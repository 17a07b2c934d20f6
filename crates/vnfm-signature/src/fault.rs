//! Errors of signatures, classified by who can fix them.

/// Maximum size of a signature in bytes; ten times that of a typical one with a certificate chain.
pub(crate) const MAX_SIGNATURE_LEN: usize = 256 << 10;
/// Maximum number of signers of one signature.
pub(crate) const MAX_SIGNERS: usize = 8;

/// Who can fix an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Kind {
    /// The package is not signed, or not completely: the vendor must sign it.
    Missing,
    /// The signature does not match or is unsupported: the package was changed in transit, or the vendor must sign it again.
    Wrong,
    /// The signer is not trusted: the operator must check the trusted authorities.
    Untrusted,
}

/// An error of a signature.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Fault {
    /// The manifest or file has no signature.
    #[error("the package is not signed")]
    Unsigned,
    /// The manifest is signed but does not cover this file.
    #[error(
        "no signature covers it: it has neither a hash in the manifest nor a separate signature"
    )]
    Uncovered,
    /// A file needed for the verification cannot be read.
    #[error("cannot be read: {0}")]
    Unreadable(String),
    /// The signature exceeds the size limit.
    #[error("the signature has {0} bytes; at most {MAX_SIGNATURE_LEN} are allowed")]
    TooLarge(usize),
    /// The signature is not CMS.
    #[error("the signature is not valid CMS: {0}")]
    NotCms(String),
    /// It is CMS, but not signed data.
    #[error("the CMS has type {0} instead of signed data")]
    NotSigned(String),
    /// The signature includes its content.
    #[error("the signature contains the content; SOL004 requires a detached signature")]
    Attached,
    /// The CMS has no signer.
    #[error("the signature has no signer")]
    NoSigner,
    /// The CMS exceeds the limit of signers.
    #[error("the signature has {0} signers; at most {MAX_SIGNERS} are allowed")]
    TooManySigners(usize),
    /// The hash algorithm is weak or unknown.
    #[error("the hash `{0}` is not supported; use SHA-256, SHA-384 or SHA-512")]
    Hash(String),
    /// The signature algorithm is unknown.
    #[error("the signature algorithm `{0}` is not supported; use RSA, RSA-PSS or ECDSA")]
    Algorithm(String),
    /// The signed attributes violate CMS.
    #[error("the signed attributes are invalid: {0}")]
    Attributes(&'static str),
    /// The signer's certificate is missing.
    #[error(
        "the certificate of signer `{0}` is neither in the signature nor in a certificate file"
    )]
    NoCertificate(String),
    /// The content does not match the signature.
    #[error("the content was changed after it was signed")]
    Content,
    /// The signature does not match the certificate's key.
    #[error("the signature was not made with the key of the certificate `{0}`")]
    Signature(String),
    /// There is no chain from the certificate to a trusted authority.
    #[error("the certificate `{subject}` is not trusted: {why}")]
    Untrusted {
        /// Subject of the certificate that was checked.
        subject: String,
        /// The reason, without a full stop.
        why: String,
    },
    /// A file of certificates, keys or revocation lists is invalid.
    #[error("{0}")]
    File(String),
}

impl Fault {
    /// Who can fix the error.
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
