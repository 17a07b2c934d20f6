//! Signed OAuth 2.0 bearer tokens (JWT, RFC 7519, RFC 9068): verifies issuer, audience, validity and
//! signature with the keys that the issuer publishes ([`super::keys`]). Rules in the configuration map claims
//! to roles; the first match decides.

use super::http_client;
use super::keys::{Keys, Source};
use super::login_error::LoginError;
use super::principal::{Principal, RoleGrant};
use anyhow::{Context as _, bail};
use jiff::SignedDuration;
use jsonwebtoken::{Algorithm, Validation, decode, decode_header};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;
use std::path::PathBuf;
use std::sync::Arc;
use vnfm_core::ports::Clock;
use vnfm_outbound::Url;

/// Accepted signature algorithms. None uses a shared secret, so a public key cannot be passed off as one.
const ALGORITHMS: &[Algorithm] = &[Algorithm::RS256, Algorithm::PS256, Algorithm::ES256];
/// Default clock skew, in seconds.
const SKEW: u64 = 60;
/// Default seconds between two attempts to find an unknown key.
const REFETCH_INTERVAL: u32 = 30;
/// Default seconds after which keys are read again.
const KEYS_LIFETIME: u32 = 600;

/// An entry of `access.oauth2`: an issuer whose tokens are accepted.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "TokenIssuer")]
pub(crate) struct Oauth2 {
    /// `iss` of the tokens; must match exactly.
    pub issuer: String,
    /// Values of `aud` of which a token must have one.
    pub audience: Vec<String>,
    /// URL of the issuer's keys (JWKS).
    #[schemars(extend("format" = "http-url"))]
    pub jwks_url: Option<String>,
    /// File with the keys, instead of a URL; read again if a token names an unknown key.
    #[schemars(extend("format" = "file"))]
    pub jwks_file: Option<PathBuf>,
    /// PEM file of the CAs for `jwks_url`; the system's CAs if absent.
    #[schemars(extend("format" = "file"))]
    pub authorities_file: Option<PathBuf>,
    /// Allowed clock skew in seconds. Default: 60.
    pub skew_seconds: Option<u64>,
    /// Seconds between two attempts to find an unknown key. Default: 30.
    pub refetch_seconds: Option<u32>,
    /// Seconds after which keys are read again in any case, so that withdrawn keys expire. Default: 600.
    pub keys_seconds: Option<u32>,
    /// The claim with the caller's name. Default: `sub`.
    pub name_claim: Option<String>,
    /// The claim with the tenant, for rules without a tenant.
    pub tenant_claim: Option<String>,
    /// Rules for roles; the first match decides.
    pub rules: Vec<Rule>,
}

/// A rule that maps a claim to a role.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "TokenRule")]
pub(crate) struct Rule {
    /// A claim, with dots for members of objects: `realm_access.roles`. If absent, the rule matches every token.
    pub claim: Option<String>,
    /// The value that the claim must have, contain in its list, or contain as a word.
    pub has: Option<String>,
    /// Tenant, role and limits of the caller.
    pub gets: RoleGrant,
}

/// A token issuer with its keys.
pub(crate) struct Issuer {
    settings: Oauth2,
    keys: Keys,
}

impl Issuer {
    /// As configured; contacts no service yet.
    ///
    /// # Errors
    ///
    /// If the settings contradict each other or a file cannot be read.
    pub(crate) fn new(settings: Oauth2, clock: Arc<dyn Clock>) -> anyhow::Result<Self> {
        let name = format!("access.oauth2: `{}`", settings.issuer);
        if settings.audience.is_empty() {
            bail!("{name} has no `audience`: tokens for other services would be accepted");
        }
        if settings.rules.is_empty() {
            bail!("{name} has no `rules`: its tokens would give no role");
        }
        for rule in &settings.rules {
            if rule.claim.is_some() != rule.has.is_some() {
                bail!("{name}: in `rules`, `claim` and `has` must be given together");
            }
            rule.gets
                .checked()
                .map_err(|error| anyhow::anyhow!("{name}: {error}"))?;
        }
        let source = match (&settings.jwks_url, &settings.jwks_file) {
            (Some(url), None) => {
                let url =
                    Url::parse(url).with_context(|| format!("{name}: `jwks_url` is not a URL"))?;
                let http = http_client::client(settings.authorities_file.as_deref())
                    .with_context(|| name.clone())?;
                Source::Url(Box::new((http, url)))
            }
            (None, Some(file)) => Source::File(file.clone()),
            _ => bail!("{name}: give either `jwks_url` or `jwks_file`"),
        };
        let seconds = |given: Option<u32>, default| {
            SignedDuration::from_secs(given.unwrap_or(default).into())
        };
        let times = (
            seconds(settings.refetch_seconds, REFETCH_INTERVAL),
            seconds(settings.keys_seconds, KEYS_LIFETIME),
        );
        Ok(Self {
            keys: Keys::new(source, times, clock),
            settings,
        })
    }

    /// Whether the token claims this issuer. Nothing is verified at this point.
    pub(super) fn is_issuer_of(&self, token: &str) -> bool {
        let claims: Option<Value> = jsonwebtoken::dangerous::insecure_decode_claims(token).ok();
        claims.is_some_and(|claims| claims["iss"] == self.settings.issuer.as_str())
    }

    /// Verifies a token and returns its principal.
    pub(super) async fn check(&self, token: &str) -> Result<Principal, LoginError> {
        let wrong = |error: &dyn std::fmt::Display| {
            LoginError::BadCredentials(format!("the bearer token is not accepted: {error}"))
        };
        let header = decode_header(token).map_err(|error| wrong(&error))?;
        if header.crit.is_some() {
            let reason =
                "its header has `crit` with extensions that are not supported (RFC 7515 4.1.11)";
            return Err(wrong(&reason));
        }
        if !ALGORITHMS.contains(&header.alg) {
            return Err(wrong(&format_args!(
                "its signature is {:?}, not one of {ALGORITHMS:?}",
                header.alg
            )));
        }
        let key = self.keys.key(header.kid.as_deref(), header.alg).await?;
        let mut validation = Validation::new(header.alg);
        validation.leeway = self.settings.skew_seconds.unwrap_or(SKEW);
        validation.validate_nbf = true;
        validation.set_issuer(&[&self.settings.issuer]);
        validation.set_audience(&self.settings.audience);
        validation.set_required_spec_claims(&["exp", "iss", "aud"]);
        let token = decode::<Value>(token, &key, &validation).map_err(|error| wrong(&error))?;
        self.principal(&token.claims)
    }

    /// Maps verified claims to a principal.
    fn principal(&self, claims: &Value) -> Result<Principal, LoginError> {
        let settings = &self.settings;
        let text = |path: &str| claim(claims, path).and_then(Value::as_str);
        let name = text(settings.name_claim.as_deref().unwrap_or("sub")).unwrap_or("unnamed");
        let matches = |rule: &&Rule| match (&rule.claim, &rule.has) {
            (Some(path), Some(value)) => {
                claim(claims, path).is_some_and(|claim| has_value(claim, value))
            }
            _ => true,
        };
        let Some(rule) = settings.rules.iter().find(matches) else {
            let reason = format!("no rule in the configuration matches the token of `{name}`");
            return Err(LoginError::NoRole(reason));
        };
        let tenant = settings.tenant_claim.as_deref().and_then(text);
        if rule.gets.tenant.is_none() && settings.tenant_claim.is_some() && tenant.is_none() {
            return Err(LoginError::NoRole(format!(
                "the token of `{name}` does not name a tenant"
            )));
        }
        rule.gets
            .principal(name, "oauth2", tenant)
            .map_err(LoginError::NoRole)
    }
}

/// The claim at a path; a claim whose name contains the dots takes precedence.
fn claim<'a>(claims: &'a Value, path: &str) -> Option<&'a Value> {
    claims.get(path).or_else(|| {
        path.split('.')
            .try_fold(claims, |value, name| value.get(name))
    })
}

/// Whether a claim equals the value, or contains it in its list or as a word, as in `scope`.
fn has_value(claim: &Value, value: &str) -> bool {
    match claim {
        Value::Array(values) => values.iter().any(|one| one == value),
        Value::String(text) => text == value || text.split_whitespace().any(|word| word == value),
        Value::Bool(is) => is.to_string() == value,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::{claim, has_value};
    use serde_json::json;

    #[test]
    fn a_claim_is_found_by_its_path_and_by_its_full_name() {
        let claims = json!({"realm_access": {"roles": ["ops"]}, "a.b": "full", "a": {"b": "deep"}});
        assert_eq!(claim(&claims, "realm_access.roles"), Some(&json!(["ops"])));
        assert_eq!(claim(&claims, "a.b"), Some(&json!("full")));
        assert_eq!(claim(&claims, "a.c"), None);
    }

    #[test]
    fn a_value_matches_in_a_list_or_as_a_word() {
        assert!(
            has_value(&json!(["x", "ops"]), "ops")
                && has_value(&json!("x ops"), "ops")
                && has_value(&json!(true), "true")
        );
        assert!(
            !has_value(&json!(["opsx"]), "ops")
                && !has_value(&json!("xops"), "ops")
                && !has_value(&json!(1), "1")
        );
        assert!(!has_value(&json!({"ops": 1}), "ops"));
    }
}
