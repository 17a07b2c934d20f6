//! Hashes in hexadecimal. The crate `hex` would be one more for everyone who embeds the engine.

use std::fmt::Write as _;

/// The bytes in lower-case hexadecimal.
pub(crate) fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}
