//! PEM in the forms that clients send: regular, folded into one line by YAML, or base64-encoded again as in a kubeconfig.
//!
//! A block is delimited by its `BEGIN` and `END` lines; its base64 may contain any white space.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// One block: its label, such as `CERTIFICATE`, and its decoded bytes.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Block {
    pub(crate) label: String,
    pub(crate) bytes: Vec<u8>,
}

/// Parses the blocks of a text.
///
/// # Errors
///
/// What is wrong, without quoting the text: it may be a key.
pub(crate) fn blocks(text: &str) -> Result<Vec<Block>, String> {
    let unwrapped;
    let mut rest = text.trim();
    if !rest.contains("-----BEGIN ") {
        unwrapped = decode_wrapped(rest).ok_or("it has no `-----BEGIN …-----` line")?;
        rest = &unwrapped;
    }
    let mut found = Vec::new();
    while let Some((_, after)) = rest.split_once("-----BEGIN ") {
        let (label, after) = after
            .split_once("-----")
            .ok_or("a `BEGIN` line does not end in `-----`")?;
        let end = format!("-----END {label}-----");
        let (body, after) = after
            .split_once(&end)
            .ok_or_else(|| format!("the line `{end}` is missing"))?;
        let packed: String = body.chars().filter(|c| !c.is_whitespace()).collect();
        let bytes = STANDARD
            .decode(packed)
            .map_err(|_| format!("the content of `{label}` is not base64"))?;
        found.push(Block {
            label: label.to_owned(),
            bytes,
        });
        rest = after;
    }
    Ok(found)
}

/// The certificates of a text, as DER; at least one.
pub(crate) fn certificates(text: &str) -> Result<Vec<Vec<u8>>, String> {
    let found: Vec<Vec<u8>> = blocks(text)?
        .into_iter()
        .filter(|block| block.label == "CERTIFICATE")
        .map(|block| block.bytes)
        .collect();
    if found.is_empty() {
        Err("it contains no certificate".to_owned())
    } else {
        Ok(found)
    }
}

/// The only private key of a text.
pub(crate) fn private_key(text: &str) -> Result<Block, String> {
    let mut keys = blocks(text)?
        .into_iter()
        .filter(|block| block.label.ends_with("PRIVATE KEY"));
    match (keys.next(), keys.next()) {
        (Some(key), None) if key.label.starts_with("ENCRYPTED") => {
            Err("the key is encrypted".to_owned())
        }
        (Some(key), None) => Ok(key),
        (None, _) => Err("it contains no private key".to_owned()),
        (Some(_), Some(_)) => Err("it contains more than one private key".to_owned()),
    }
}

/// Encodes a block with 64 characters a line, which every parser accepts.
pub(crate) fn encode(label: &str, bytes: &[u8]) -> String {
    let packed = STANDARD.encode(bytes);
    let mut text = format!("-----BEGIN {label}-----\n");
    let mut rest = packed.as_str();
    while !rest.is_empty() {
        let (line, after) = rest.split_at(rest.len().min(64));
        text.push_str(line);
        text.push('\n');
        rest = after;
    }
    text + "-----END " + label + "-----\n"
}

fn decode_wrapped(text: &str) -> Option<String> {
    let packed: String = text.chars().filter(|c| !c.is_whitespace()).collect();
    let text = String::from_utf8(STANDARD.decode(packed).ok()?).ok()?;
    text.contains("-----BEGIN ").then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    const BYTES: &[u8] = &[7; 100];

    #[test]
    fn regular_folded_and_wrapped_pem_are_equivalent() {
        let text = encode("CERTIFICATE", BYTES);
        let folded = text.replace('\n', " ");
        let glued = text.replace('\n', "");
        let windows = text.replace('\n', "\r\n");
        let wrapped = STANDARD.encode(&text);
        for form in [&text, &folded, &glued, &windows, &wrapped] {
            assert_eq!(
                certificates(form).as_deref(),
                Ok(&[BYTES.to_vec()][..]),
                "{form}"
            );
        }
        assert!(text.lines().all(|line| line.len() <= 64));
    }

    #[test]
    fn a_chain_keeps_its_order() {
        let text = encode("CERTIFICATE", &[1]) + &encode("CERTIFICATE", &[2]);
        assert_eq!(certificates(&text), Ok(vec![vec![1], vec![2]]));
    }

    #[test]
    fn exactly_one_unencrypted_key_is_accepted() {
        let key = encode("EC PRIVATE KEY", BYTES);
        assert!(private_key(&key).is_ok_and(|key| key.label == "EC PRIVATE KEY"));
        assert_eq!(
            private_key(&format!("{key}{key}")).err().as_deref(),
            Some("it contains more than one private key")
        );
        assert_eq!(
            private_key(&encode("CERTIFICATE", BYTES)).err().as_deref(),
            Some("it contains no private key")
        );
        assert_eq!(
            private_key(&encode("ENCRYPTED PRIVATE KEY", BYTES))
                .err()
                .as_deref(),
            Some("the key is encrypted")
        );
    }

    #[test]
    fn errors_do_not_quote_the_text() {
        for (text, reason) in [
            ("topsecret", "it has no `-----BEGIN …-----` line"),
            (
                "-----BEGIN CERTIFICATE-----topsecret",
                "the line `-----END CERTIFICATE-----` is missing",
            ),
            (
                "-----BEGIN CERTIFICATE-----top!secret-----END CERTIFICATE-----",
                "the content of `CERTIFICATE` is not base64",
            ),
        ] {
            assert_eq!(blocks(text).err().as_deref(), Some(reason));
        }
    }
}
