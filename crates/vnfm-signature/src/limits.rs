//! What a signature may contain at most.

/// Maximum size of a signature in bytes; ten times that of a typical one with a certificate chain.
pub(crate) const MAX_SIGNATURE_LEN: usize = 256 << 10;
/// Maximum number of signers of one signature.
pub(crate) const MAX_SIGNERS: usize = 8;
