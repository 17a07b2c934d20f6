//! Secrets in texts: redaction, the formats of tokens, and the hash of a CA certificate.

use sha2::{Digest, Sha256};
use vnfm_plugin_sdk::Secret;

const HIDDEN: &str = "[hidden]";

/// Hides the `secrets` in `text`, and everything that looks like a bootstrap token or a bearer token.
pub(crate) fn redact(text: &str, secrets: &[Secret]) -> String {
    let mut text = text.to_owned();
    for secret in secrets.iter().filter(|secret| !secret.is_empty()) {
        text = text.replace(secret.reveal(), HIDDEN);
        // A multi-line key may be printed line by line.
        for line in secret.reveal().lines().filter(|line| line.len() > 20) {
            text = text.replace(line, HIDDEN);
        }
    }
    text.split_inclusive(char::is_whitespace)
        .map(|word| {
            let bare = word.trim_end();
            let core = bare.trim_matches(['"', '\'', ',', '=', ':']);
            if is_token(core) || is_bearer(core) {
                word.replace(core, HIDDEN)
            } else {
                word.to_owned()
            }
        })
        .collect()
}

/// Whether it has the format of kubeadm's bootstrap tokens.
pub(crate) fn is_token(word: &str) -> bool {
    let plain = |part: &str| {
        part.bytes()
            .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit())
    };
    word.split_once('.')
        .is_some_and(|(id, rest)| id.len() == 6 && rest.len() == 16 && plain(id) && plain(rest))
}

fn is_bearer(word: &str) -> bool {
    word.starts_with("eyJ") && word.len() > 40
}

/// `sha256:…` of a CA certificate's public key, as `kubeadm join` pins it; `None` if `pem` is not a certificate.
pub(crate) fn ca_hash(pem: &str) -> Option<String> {
    let (_, pem) = x509_parser::pem::parse_x509_pem(pem.as_bytes()).ok()?;
    let certificate = pem.parse_x509().ok()?;
    let digest = Sha256::digest(certificate.tbs_certificate.subject_pki.raw);
    Some(format!("sha256:{}", hex::encode(digest)))
}

/// When a certificate expires, in UTC, as kubeadm writes it: `2027-01-01T00:00:00Z`; `None` if `pem` is not a certificate.
pub(crate) fn expiry(pem: &str) -> Option<String> {
    let (_, pem) = x509_parser::pem::parse_x509_pem(pem.as_bytes()).ok()?;
    let at = pem.parse_x509().ok()?.validity().not_after.to_datetime();
    Some(format!(
        "{:04}-{:02}-{:02}T{:02}:{:02}:{:02}Z",
        at.year(),
        u8::from(at.month()),
        at.day(),
        at.hour(),
        at.minute(),
        at.second()
    ))
}

#[cfg(test)]
mod tests {
    use super::{ca_hash, expiry, redact};
    use vnfm_plugin_sdk::Secret;

    #[test]
    fn secrets_and_tokens_are_hidden() {
        let text = "join --token abcdef.0123456789abcdef on w1: hunter2, node.example.com\neyJhbGciOiJSUzI1NiIsImtpZCI6IjEyMzQ1Njc4OTAxMjM0NTY3ODkwIn0.x\n";
        let clean = redact(text, &[Secret::new("hunter2"), Secret::new("")]);
        assert_eq!(
            clean,
            "join --token [hidden] on w1: [hidden], node.example.com\n[hidden]\n"
        );
    }

    #[test]
    fn text_that_is_not_a_certificate_has_no_hash() {
        assert_eq!(
            ca_hash("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"),
            None
        );
        assert_eq!(ca_hash("nonsense"), None);
        assert_eq!(expiry("nonsense"), None);
    }
}
