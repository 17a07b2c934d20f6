//! OAuth 2.0 bearer tokens that are signed (JWT, RFC 7519, RFC 9068): issuer, audience, time and signature are checked
//! here, with the keys that the issuer publishes ([`super::keys`]). What a token is worth, rules of the configuration say
//! by its claims; the first that fits decides.

use super::Refused;
use super::keys::{Keys, Source};
use super::outside;
use super::principal::{Gets, Principal};
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

/// Signatures that are taken. None is one with a shared secret, so nobody passes a public key off as one.
const ALGORITHMS: &[Algorithm] = &[Algorithm::RS256, Algorithm::PS256, Algorithm::ES256];
/// Seconds that clocks may differ, where nothing else is configured.
const SKEW: u64 = 60;
/// Seconds between two attempts to find an unknown key, where nothing else is configured.
const PAUSE: u32 = 30;
/// Seconds for which keys are taken for good, where nothing else is configured.
const KEEP: u32 = 600;

/// One of `access.oauth2`.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "TokenIssuer")]
pub struct Oauth2 {
    /// `iss` of its tokens, to the letter.
    pub issuer: String,
    /// `aud` of the tokens that are for us: one of these.
    pub audience: Vec<String>,
    /// Where it publishes its keys.
    #[schemars(extend("format" = "http-url"))]
    pub jwks_url: Option<String>,
    /// Or a file with them; it is read again when a token names a key that is not known.
    #[schemars(extend("format" = "file"))]
    pub jwks_file: Option<PathBuf>,
    /// PEM file of the authorities that the certificate at `jwks_url` may be of; those of the machine where absent.
    #[schemars(extend("format" = "file"))]
    pub authorities_file: Option<PathBuf>,
    /// Seconds that its clock and ours may differ; 60 where absent.
    pub skew_seconds: Option<u64>,
    /// Seconds between two attempts to find an unknown key; 30 where absent.
    pub refetch_seconds: Option<u32>,
    /// Seconds after which keys are read anew in any case, so that a withdrawn one ends; 600 where absent.
    pub keys_seconds: Option<u32>,
    /// The claim with the name of who asks; `sub` where absent.
    pub name_claim: Option<String>,
    /// The claim with the tenant, for rules that name none.
    pub tenant_claim: Option<String>,
    /// What a token is worth; the first that fits decides.
    pub rules: Vec<Rule>,
}

/// One rule.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "TokenRule")]
pub struct Rule {
    /// A claim, members of objects with dots: `realm_access.roles`. Where absent, every token fits.
    pub claim: Option<String>,
    /// What it is, or has among its values, or among its words.
    pub has: Option<String>,
    /// What the token is worth.
    pub gets: Gets,
}

/// Somebody who gives tokens.
pub struct Issuer {
    settings: Oauth2,
    keys: Keys,
}

impl Issuer {
    /// As configured; nothing is asked yet.
    ///
    /// # Errors
    ///
    /// Where what is configured contradicts itself or a file cannot be read.
    pub fn new(settings: Oauth2, clock: Arc<dyn Clock>) -> anyhow::Result<Self> {
        let of = format!("access.oauth2: `{}`", settings.issuer);
        if settings.audience.is_empty() {
            bail!("{of} has no `audience`: tokens for others would be taken for ours");
        }
        if settings.rules.is_empty() {
            bail!("{of} has no `rules`: its tokens would be worth nothing");
        }
        for rule in &settings.rules {
            if rule.claim.is_some() != rule.has.is_some() {
                bail!("{of}: in `rules`, `claim` and `has` go together");
            }
            rule.gets
                .checked()
                .map_err(|why| anyhow::anyhow!("{of}: {why}"))?;
        }
        let source = match (&settings.jwks_url, &settings.jwks_file) {
            (Some(url), None) => {
                let url = Url::parse(url).with_context(|| format!("{of}: `jwks_url` is no URL"))?;
                let http = outside::client(settings.authorities_file.as_deref())
                    .with_context(|| of.clone())?;
                Source::Url(Box::new((http, url)))
            }
            (None, Some(file)) => Source::File(file.clone()),
            _ => bail!("{of}: one of `jwks_url` and `jwks_file` says where its keys are"),
        };
        let seconds = |given: Option<u32>, default| {
            SignedDuration::from_secs(given.unwrap_or(default).into())
        };
        let times = (
            seconds(settings.refetch_seconds, PAUSE),
            seconds(settings.keys_seconds, KEEP),
        );
        Ok(Self {
            keys: Keys::new(source, times, clock),
            settings,
        })
    }

    /// True where a token says that it is of this issuer. Nothing else of it is believed at this point.
    pub(super) fn gave(&self, token: &str) -> bool {
        let claims: Option<Value> = jsonwebtoken::dangerous::insecure_decode_claims(token).ok();
        claims.is_some_and(|claims| claims["iss"] == self.settings.issuer.as_str())
    }

    /// Whoever the token is of.
    pub(super) async fn check(&self, token: &str) -> Result<Principal, Refused> {
        let wrong = |error: &dyn std::fmt::Display| {
            Refused::Wrong(format!("the bearer token is not taken: {error}"))
        };
        let header = decode_header(token).map_err(|error| wrong(&error))?;
        if header.crit.is_some() {
            let why = "its header has `crit`, and nothing that is named there is known here (RFC 7515 4.1.11)";
            return Err(wrong(&why));
        }
        if !ALGORITHMS.contains(&header.alg) {
            return Err(wrong(&format_args!(
                "its signature is {:?}, not one of {ALGORITHMS:?}",
                header.alg
            )));
        }
        let key = self.keys.key(header.kid.as_deref(), header.alg).await?;
        let mut wanted = Validation::new(header.alg);
        wanted.leeway = self.settings.skew_seconds.unwrap_or(SKEW);
        wanted.validate_nbf = true;
        wanted.set_issuer(&[&self.settings.issuer]);
        wanted.set_audience(&self.settings.audience);
        wanted.set_required_spec_claims(&["exp", "iss", "aud"]);
        let token = decode::<Value>(token, &key, &wanted).map_err(|error| wrong(&error))?;
        self.worth(&token.claims)
    }

    /// What claims are worth.
    fn worth(&self, claims: &Value) -> Result<Principal, Refused> {
        let settings = &self.settings;
        let text = |path: &str| claim(claims, path).and_then(Value::as_str);
        let name =
            text(settings.name_claim.as_deref().unwrap_or("sub")).unwrap_or("without a name");
        let fits = |rule: &&Rule| match (&rule.claim, &rule.has) {
            (Some(path), Some(value)) => claim(claims, path).is_some_and(|claim| has(claim, value)),
            _ => true,
        };
        let Some(rule) = settings.rules.iter().find(fits) else {
            let why = format!("no rule of the configuration fits the token of `{name}`");
            return Err(Refused::NoRole(why));
        };
        let tenant = settings.tenant_claim.as_deref().and_then(text);
        if rule.gets.tenant.is_none() && settings.tenant_claim.is_some() && tenant.is_none() {
            return Err(Refused::NoRole(format!(
                "the token of `{name}` does not say which tenant it is for"
            )));
        }
        rule.gets
            .principal(name, "oauth2", tenant)
            .map_err(Refused::NoRole)
    }
}

/// The claim at a path; a claim whose name has dots wins over members.
fn claim<'a>(claims: &'a Value, path: &str) -> Option<&'a Value> {
    claims.get(path).or_else(|| {
        path.split('.')
            .try_fold(claims, |value, name| value.get(name))
    })
}

/// Whether a claim is a value, has it in its list, or among its words, as `scope` does.
fn has(claim: &Value, value: &str) -> bool {
    match claim {
        Value::Array(values) => values.iter().any(|one| one == value),
        Value::String(text) => text == value || text.split_whitespace().any(|word| word == value),
        Value::Bool(is) => is.to_string() == value,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::{claim, has};
    use serde_json::json;

    #[test]
    fn a_claim_is_found_by_its_path_and_by_its_whole_name() {
        let claims =
            json!({"realm_access": {"roles": ["ops"]}, "a.b": "whole", "a": {"b": "deep"}});
        assert_eq!(claim(&claims, "realm_access.roles"), Some(&json!(["ops"])));
        assert_eq!(claim(&claims, "a.b"), Some(&json!("whole")));
        assert_eq!(claim(&claims, "a.c"), None);
    }

    #[test]
    fn a_value_is_in_a_list_or_among_the_words() {
        assert!(
            has(&json!(["x", "ops"]), "ops")
                && has(&json!("x ops"), "ops")
                && has(&json!(true), "true")
        );
        assert!(
            !has(&json!(["opsx"]), "ops") && !has(&json!("xops"), "ops") && !has(&json!(1), "1")
        );
        assert!(!has(&json!({"ops": 1}), "ops"));
    }
}
