//! When a credential expires: a token by its `exp` claim, a certificate by its `notAfter`. Nothing is verified here;
//! the API server does that.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jiff::Timestamp;

/// The `exp` claim of a JWT; `None` for an opaque token or one that does not expire.
pub(crate) fn token_expiry(token: &str) -> Option<Timestamp> {
    let claims = token.split('.').nth(1)?;
    let claims = URL_SAFE_NO_PAD.decode(claims.trim_end_matches('=')).ok()?;
    let claims: serde_json::Value = serde_json::from_slice(&claims).ok()?;
    let seconds = claims.get("exp")?;
    Timestamp::from_second(
        seconds
            .as_i64()
            .or_else(|| whole_seconds(seconds.as_f64()?))?,
    )
    .ok()
}

/// The `notAfter` of a certificate in DER; `None` if it cannot be parsed.
pub(crate) fn certificate_expiry(der: &[u8]) -> Option<Timestamp> {
    let (_, certificate) = x509_parser::parse_x509_certificate(der).ok()?;
    Timestamp::from_second(certificate.validity().not_after.timestamp()).ok()
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "a fraction of a second does not matter"
)]
fn whole_seconds(seconds: f64) -> Option<i64> {
    (seconds.is_finite() && seconds.abs() < 1e15).then_some(seconds as i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token(claims: &str) -> String {
        format!("e30.{}.c2ln", URL_SAFE_NO_PAD.encode(claims))
    }

    #[test]
    fn a_token_expires_at_its_exp_claim() {
        let end = Timestamp::from_second(1_900_000_000).ok();
        assert_eq!(token_expiry(&token(r#"{"exp":1900000000}"#)), end);
        assert_eq!(token_expiry(&token(r#"{"exp":1.9e9}"#)), end);
        for endless in [
            token(r#"{"sub":"x"}"#),
            token("[]"),
            "opaque".to_owned(),
            "a.!.c".to_owned(),
            String::new(),
        ] {
            assert_eq!(token_expiry(&endless), None, "{endless}");
        }
    }

    #[test]
    fn a_certificate_expires_at_not_after() {
        let mut parameters = rcgen::CertificateParams::new(vec!["a".to_owned()]).unwrap();
        parameters.not_after = rcgen::date_time_ymd(2031, 2, 3);
        let certificate = parameters
            .self_signed(&rcgen::KeyPair::generate().unwrap())
            .unwrap();
        assert_eq!(
            certificate_expiry(certificate.der()),
            "2031-02-03T00:00:00Z".parse().ok()
        );
    }

    #[test]
    fn invalid_der_has_no_expiry() {
        assert_eq!(certificate_expiry(&[1, 2, 3]), None);
    }
}
