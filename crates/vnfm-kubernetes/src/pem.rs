//! PEM as it arrives: proper, folded into one line by YAML, or wrapped in base64 once more as in a kubeconfig.
//!
//! A block is found by its `BEGIN` and `END` lines; what lies between is base64 with any white space in it.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// One block: its label, such as `CERTIFICATE`, and its bytes.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Block {
    pub(crate) label: String,
    pub(crate) bytes: Vec<u8>,
}

/// The blocks of a text.
///
/// # Errors
///
/// What is wrong, without a word of the text: it may be a key.
pub(crate) fn blocks(text: &str) -> Result<Vec<Block>, String> {
    let unwrapped;
    let mut rest = text.trim();
    if !rest.contains("-----BEGIN ") {
        unwrapped = unwrap(rest).ok_or("it has no `-----BEGIN …-----` line")?;
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
            .map_err(|_| format!("what lies in `{label}` is not base64"))?;
        found.push(Block {
            label: label.to_owned(),
            bytes,
        });
        rest = after;
    }
    Ok(found)
}

/// Certificates of a text, as DER.
pub(crate) fn certificates(text: &str) -> Result<Vec<Vec<u8>>, String> {
    let found: Vec<Vec<u8>> = blocks(text)?
        .into_iter()
        .filter(|block| block.label == "CERTIFICATE")
        .map(|block| block.bytes)
        .collect();
    if found.is_empty() {
        Err("it holds no certificate".to_owned())
    } else {
        Ok(found)
    }
}

/// The private key of a text.
pub(crate) fn private_key(text: &str) -> Result<Block, String> {
    let mut keys = blocks(text)?
        .into_iter()
        .filter(|block| block.label.ends_with("PRIVATE KEY"));
    match (keys.next(), keys.next()) {
        (Some(key), None) if key.label.starts_with("ENCRYPTED") => {
            Err("the key is encrypted".to_owned())
        }
        (Some(key), None) => Ok(key),
        (None, _) => Err("it holds no private key".to_owned()),
        (Some(_), Some(_)) => Err("it holds more than one private key".to_owned()),
    }
}

/// A block in the form that every reader takes.
pub(crate) fn proper(label: &str, bytes: &[u8]) -> String {
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

fn unwrap(text: &str) -> Option<String> {
    let packed: String = text.chars().filter(|c| !c.is_whitespace()).collect();
    let text = String::from_utf8(STANDARD.decode(packed).ok()?).ok()?;
    text.contains("-----BEGIN ").then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    const BYTES: &[u8] = &[7; 100];

    #[test]
    fn proper_folded_and_wrapped_are_the_same() {
        let text = proper("CERTIFICATE", BYTES);
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
        let text = proper("CERTIFICATE", &[1]) + &proper("CERTIFICATE", &[2]);
        assert_eq!(certificates(&text), Ok(vec![vec![1], vec![2]]));
    }

    #[test]
    fn a_key_is_one_key() {
        let key = proper("EC PRIVATE KEY", BYTES);
        assert!(private_key(&key).is_ok_and(|key| key.label == "EC PRIVATE KEY"));
        assert_eq!(
            private_key(&format!("{key}{key}")).err().as_deref(),
            Some("it holds more than one private key")
        );
        assert_eq!(
            private_key(&proper("CERTIFICATE", BYTES)).err().as_deref(),
            Some("it holds no private key")
        );
        assert_eq!(
            private_key(&proper("ENCRYPTED PRIVATE KEY", BYTES))
                .err()
                .as_deref(),
            Some("the key is encrypted")
        );
    }

    #[test]
    fn what_is_wrong_is_said_without_the_text() {
        for (text, reason) in [
            ("topsecret", "it has no `-----BEGIN …-----` line"),
            (
                "-----BEGIN CERTIFICATE-----topsecret",
                "the line `-----END CERTIFICATE-----` is missing",
            ),
            (
                "-----BEGIN CERTIFICATE-----top!secret-----END CERTIFICATE-----",
                "what lies in `CERTIFICATE` is not base64",
            ),
        ] {
            assert_eq!(blocks(text).err().as_deref(), Some(reason));
        }
    }
}
