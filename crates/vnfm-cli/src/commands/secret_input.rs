//! Secrets that a command reads from standard input, so that they do not appear in the process list.

use crate::client::{Outcome, local};
use crate::input;
use std::io::Read;

/// Maximum size of a secret in bytes: a token with many claims has a few KiB.
const MAX_SECRET_BYTES: u64 = 64 << 10;

/// Reads a secret to the end of standard input, without the line break at its end.
pub(super) fn read_secret() -> Outcome<String> {
    read_from(std::io::stdin())
}

fn read_from(input: impl Read) -> Outcome<String> {
    let secret = input::stream(input, MAX_SECRET_BYTES).and_then(input::utf8);
    let text = secret.map_err(|error| local(format!("the secret on standard input: {error}")))?;
    Ok(text.trim_end_matches(['\n', '\r']).to_owned())
}

#[cfg(test)]
mod tests {
    use super::{MAX_SECRET_BYTES, read_from};
    use std::io::repeat;

    #[test]
    fn a_secret_has_no_line_break_and_an_endless_one_is_refused() {
        assert_eq!(read_from(&b"hunter2\r\n"[..]).unwrap(), "hunter2");
        let error = read_from(repeat(b'x')).unwrap_err();
        assert!(
            format!("{error:?}").contains(&MAX_SECRET_BYTES.to_string()),
            "{error:?}"
        );
    }
}
