//! Signatures against `openssl`, in both directions, and against everything that can be wrong with them.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod hostile;
mod packages;
mod pki;
mod signatures;
mod trust;
