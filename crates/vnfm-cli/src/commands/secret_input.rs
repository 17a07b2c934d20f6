//! Secrets that a command reads.

use crate::client::{Outcome, local};
use std::io::Read as _;

/// Reads a secret from standard input, so that it does not appear in the process list.
pub(super) fn read_secret() -> Outcome<String> {
    let mut text = String::new();
    std::io::stdin().read_to_string(&mut text).map_err(local)?;
    Ok(text.trim_end_matches(['\n', '\r']).to_owned())
}
