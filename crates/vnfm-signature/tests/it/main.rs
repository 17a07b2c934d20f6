//! Signatures against `openssl`, in both directions, and against everything that can be wrong with them.
#![expect(
    clippy::unwrap_used,
    reason = "a test that cannot go on says so by panicking"
)]

mod hostile;
mod packages;
mod pki;
mod signatures;
mod trust;
