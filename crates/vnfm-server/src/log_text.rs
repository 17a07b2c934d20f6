//! Text from clients in log lines, errors and the audit log: bounded, because a client may send any amount.

/// How many characters of a client's text are logged.
pub(crate) const MAX_LOGGED_CHARS: usize = 256;

/// Cuts a text after a number of characters: text from clients may be arbitrarily long.
pub(crate) fn cut(text: &str, max_chars: usize) -> &str {
    text.char_indices()
        .nth(max_chars)
        .map_or(text, |(end, _)| &text[..end])
}
