//! Scalars that YAML 1.1 parsers (PyYAML, and so other VNFMs) read differently than YAML 1.2 parsers.

/// What a plain scalar is in YAML 1.1, if it differs from YAML 1.2.
pub(crate) fn meaning(text: &str) -> Option<&'static str> {
    let boolean = [
        "yes", "Yes", "YES", "no", "No", "NO", "on", "On", "ON", "off", "Off", "OFF",
    ];
    if boolean.contains(&text) {
        return Some("a boolean");
    }
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    if !digits.starts_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    if digits.len() > 1 && digits.starts_with('0') && digits.bytes().all(|b| b.is_ascii_digit()) {
        return Some("an octal number");
    }
    if digits.contains('_') && digits.bytes().all(|b| b.is_ascii_digit() || b == b'_') {
        return Some("a number");
    }
    if !digits.contains(':') {
        return None;
    }
    let parts: Vec<&str> = digits.split(':').collect();
    let is_base_60_digit =
        |part: &&str| part.len() <= 2 && part.parse::<u8>().is_ok_and(|n| n < 60);
    if !parts[0].is_empty()
        && parts[0].bytes().all(|b| b.is_ascii_digit())
        && parts[1..].iter().all(is_base_60_digit)
    {
        return Some("a base-60 number");
    }
    None
}
