//! Signed tokens of an identity provider (OAuth 2.0): claims, keys and what a client sees if one is refused.

use crate::bench::{Bench, Setup};
use crate::logins::{challenges, with};
use axum::Router;
use axum::routing::get;
use jsonwebtoken::jwk::{Jwk, JwkSet};
use jsonwebtoken::{Algorithm, EncodingKey, Header, encode};
use reqwest::Method;
use serde_json::{Value, json};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use tokio::task::JoinSet;
use vnfm_core::ports::Clock as _;

/// An identity provider that serves its keys over HTTP and counts the requests.
struct Provider {
    url: String,
    keys: Arc<Mutex<JwkSet>>,
    read: Arc<AtomicUsize>,
    _task: JoinSet<()>,
}

const ISSUER: &str = "https://idp.example.com/realms/nfv";

impl Provider {
    async fn new() -> Self {
        let keys = Arc::new(Mutex::new(JwkSet { keys: Vec::new() }));
        let read = Arc::new(AtomicUsize::new(0));
        let (shown, counted) = (keys.clone(), read.clone());
        let response = move || {
            counted.fetch_add(1, SeqCst);
            let set = serde_json::to_value(&*shown.lock().unwrap()).unwrap();
            async move { axum::Json(set) }
        };
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/certs", listener.local_addr().unwrap());
        let mut task = JoinSet::new();
        let router = Router::new().route("/certs", get(response));
        task.spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self {
            url,
            keys,
            read,
            _task: task,
        }
    }

    /// Publishes this key, and no other.
    fn publishes(&self, key: &Signing) {
        self.keys.lock().unwrap().keys = vec![key.public.clone()];
    }
}

/// A key pair for signing tokens.
struct Signing {
    private: EncodingKey,
    public: Jwk,
    algorithm: Algorithm,
}

impl Signing {
    fn new(kid: &str, algorithm: Algorithm) -> Self {
        let private = if algorithm == Algorithm::ES256 {
            let pair = rcgen::KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256).unwrap();
            EncodingKey::from_ec_der(&pair.serialize_der())
        } else {
            let pair = rcgen::KeyPair::generate_for(&rcgen::PKCS_RSA_SHA256).unwrap();
            // For a key of 2048 bits, PKCS#8 adds a prefix of 26 bytes.
            EncodingKey::from_rsa_der(&pair.serialize_der()[26..])
        };
        let mut public = Jwk::from_encoding_key(&private, algorithm).unwrap();
        public.common.key_id = Some(kid.to_owned());
        Self {
            private,
            public,
            algorithm,
        }
    }

    /// A token with these claims instead of the defaults.
    fn token(&self, claims: &Value) -> String {
        self.critical(claims, None)
    }

    /// As [`Self::token`], with `crit` in the header.
    fn critical(&self, claims: &Value, crit: Option<Vec<String>>) -> String {
        let now = vnfm::SystemClock.now().as_second();
        let mut all = json!({"iss": ISSUER, "aud": ["vnfm", "account"], "sub": "7f", "preferred_username": "ann",
            "iat": now, "exp": now + 300, "org": "acme", "realm_access": {"roles": ["vnfm-operator"]}});
        all.as_object_mut()
            .unwrap()
            .extend(claims.as_object().unwrap().clone());
        let header = Header {
            kid: self.public.common.key_id.clone(),
            crit,
            ..Header::new(self.algorithm)
        };
        encode(&header, &all, &self.private).unwrap()
    }
}

async fn trusting(provider: &Provider, more: &str) -> Bench {
    let access = format!(
        "oauth2:
- issuer: {ISSUER}
  audience: [vnfm]
  jwks_url: {}
  name_claim: preferred_username
  tenant_claim: org
  {more}
  rules:
  - {{claim: realm_access.roles, has: vnfm-operator, gets: {{role: operate}}}}
  - {{claim: realm_access.roles, has: vnfm-admin, gets: {{role: admin, tenant: default}}}}",
        provider.url
    );
    Bench::with(Setup {
        access: Some(access),
        ..Setup::default()
    })
    .await
}

/// Tokens, the status of a request with each, and what the detail of a refusal contains.
fn token_cases(key: &Signing) -> Vec<(String, u16, &'static str)> {
    let now = vnfm::SystemClock.now().as_second();
    let stranger = Signing::new("one", key.algorithm);
    vec![
        (key.token(&json!({"exp": now - 30})), 200, ""),
        (key.token(&json!({"nbf": now + 30})), 200, ""),
        (
            key.token(&json!({"exp": now - 90})),
            401,
            "ExpiredSignature",
        ),
        (
            key.token(&json!({"nbf": now + 90})),
            401,
            "ImmatureSignature",
        ),
        (key.token(&json!({"exp": null})), 401, ""),
        (
            key.token(&json!({"aud": ["account"]})),
            401,
            "InvalidAudience",
        ),
        (key.token(&json!({"aud": null})), 401, ""),
        (
            key.token(&json!({"iss": "https://idp.example.com/realms/other"})),
            401,
            "not accepted by this server",
        ),
        (stranger.token(&json!({})), 401, "InvalidSignature"),
        (
            "no.token.at-all".to_owned(),
            401,
            "not accepted by this server",
        ),
        (
            key.token(&json!({"realm_access": {"roles": ["cook"]}})),
            403,
            "no rule",
        ),
        (
            key.token(&json!({"org": null})),
            403,
            "does not name a tenant",
        ),
        (
            key.token(&json!({"org": "../default"})),
            403,
            "invalid tenant name",
        ),
    ]
}

#[tokio::test]
async fn a_signed_token_needs_valid_issuer_audience_time_signature_and_a_rule() {
    let provider = Provider::new().await;
    for algorithm in [Algorithm::RS256, Algorithm::PS256, Algorithm::ES256] {
        let key = Signing::new("one", algorithm);
        provider.publishes(&key);
        let bench = trusting(&provider, "skew_seconds: 60").await;
        let good = with(&bench, |r| r.bearer_auth(key.token(&json!({})))).await;
        assert_eq!(good.status, 200, "{algorithm:?}: {good:?}");
        for (token, status, says) in token_cases(&key) {
            let response = with(&bench, |r| r.bearer_auth(token)).await;
            assert_eq!(
                response.status, status,
                "{algorithm:?}, {says}: {response:?}"
            );
            assert!(
                status == 200 || response.detail().contains(says),
                "{says}: {response:?}"
            );
            let error = match status {
                401 => &["Bearer error=\"invalid_token\""][..],
                403 => &["Bearer error=\"insufficient_scope\""],
                _ => &[],
            };
            assert_eq!(challenges(&response), error, "{says}");
        }
        let admin = key.token(&json!({"realm_access": {"roles": ["vnfm-admin"]}}));
        let recovery = bench.request(Method::GET, "/vnfm/v1/recovery");
        assert_eq!(bench.send(recovery.bearer_auth(admin)).await.status, 200);
        let recovery = bench.request(Method::GET, "/vnfm/v1/recovery");
        let refused = bench
            .send(recovery.bearer_auth(key.token(&json!({}))))
            .await;
        assert_eq!(refused.status, 403);
        assert_eq!(
            challenges(&refused),
            ["Bearer error=\"insufficient_scope\""]
        );
    }
}

#[tokio::test]
async fn a_token_with_an_unknown_critical_header_is_refused() {
    let provider = Provider::new().await;
    let key = Signing::new("one", Algorithm::ES256);
    provider.publishes(&key);
    let bench = trusting(&provider, "").await;
    for crit in [vec!["exp".to_owned()], vec!["b64".to_owned()], Vec::new()] {
        let token = key.critical(&json!({}), Some(crit));
        let response = with(&bench, |r| r.bearer_auth(token)).await;
        assert_eq!(response.status, 401, "{response:?}");
        assert!(
            response.detail().contains("RFC 7515 4.1.11"),
            "{response:?}"
        );
    }
}

#[tokio::test]
async fn a_tenant_claim_cannot_grant_the_operator_role() {
    let provider = Provider::new().await;
    let key = Signing::new("one", Algorithm::ES256);
    provider.publishes(&key);
    let access = format!(
        "oauth2:
- {{issuer: {ISSUER}, audience: [vnfm], jwks_url: {}, tenant_claim: org, rules: [{{gets: {{role: admin}}}}]}}",
        provider.url
    );
    let bench = Bench::with(Setup {
        access: Some(access),
        ..Setup::default()
    })
    .await;
    let recovery = async |org: &str| {
        let request = bench.request(Method::GET, "/vnfm/v1/recovery");
        bench
            .send(request.bearer_auth(key.token(&json!({"org": org}))))
            .await
    };
    let refused = recovery("default").await;
    assert_eq!(
        (refused.status, &refused.body["code"]),
        (403, &json!("access.no-role"))
    );
    assert_eq!(recovery("acme").await.body["code"], "access.forbidden");
}

#[tokio::test]
async fn a_token_signed_with_the_public_key_is_refused() {
    let provider = Provider::new().await;
    let key = Signing::new("one", Algorithm::RS256);
    provider.publishes(&key);
    let bench = trusting(&provider, "").await;
    let claims: Value =
        jsonwebtoken::dangerous::insecure_decode_claims(key.token(&json!({}))).unwrap();
    let header = Header {
        kid: Some("one".into()),
        ..Header::new(Algorithm::HS256)
    };
    let public = serde_json::to_vec(&key.public).unwrap();
    let forged = encode(&header, &claims, &EncodingKey::from_secret(&public)).unwrap();
    let response = with(&bench, |r| r.bearer_auth(forged)).await;
    assert_eq!(response.status, 401, "{response:?}");
    assert!(response.detail().contains("HS256"), "{response:?}");
}

#[tokio::test]
async fn a_new_signing_key_is_fetched_once_and_unknown_key_ids_do_not_cause_refetches() {
    let provider = Provider::new().await;
    let (old, new) = (
        Signing::new("old", Algorithm::ES256),
        Signing::new("new", Algorithm::ES256),
    );
    provider.publishes(&old);
    let bench = trusting(&provider, "refetch_seconds: 0").await;
    assert_eq!(
        with(&bench, |r| r.bearer_auth(old.token(&json!({}))))
            .await
            .status,
        200
    );
    provider.publishes(&new);
    assert_eq!(
        with(&bench, |r| r.bearer_auth(old.token(&json!({}))))
            .await
            .status,
        200,
        "still known"
    );
    assert_eq!(provider.read.load(SeqCst), 1);
    assert_eq!(
        with(&bench, |r| r.bearer_auth(new.token(&json!({}))))
            .await
            .status,
        200
    );
    assert_eq!(provider.read.load(SeqCst), 2);
    assert_eq!(
        with(&bench, |r| r.bearer_auth(old.token(&json!({}))))
            .await
            .status,
        401,
        "withdrawn"
    );

    let bench = trusting(&provider, "refetch_seconds: 3600").await;
    let before = provider.read.load(SeqCst);
    for _ in 0..5 {
        assert_eq!(
            with(&bench, |r| r.bearer_auth(old.token(&json!({}))))
                .await
                .status,
            401
        );
        assert_eq!(
            with(&bench, |r| r.bearer_auth(new.token(&json!({}))))
                .await
                .status,
            200
        );
    }
    assert_eq!(provider.read.load(SeqCst), before + 1);
}

#[tokio::test]
async fn unreadable_signing_keys_give_503_and_cached_ones_stay_valid() {
    let provider = Provider::new().await;
    let key = Signing::new("one", Algorithm::ES256);
    let nowhere = Provider {
        url: "http://127.0.0.1:1/certs".into(),
        ..Provider::new().await
    };
    let bench = trusting(&nowhere, "").await;
    let response = with(&bench, |r| r.bearer_auth(key.token(&json!({})))).await;
    assert_eq!(
        (response.status, &response.body["code"]),
        (503, &json!("access.unavailable")),
        "{response:?}"
    );
    assert!(response.headers.contains_key("retry-after"));
    // A cached key stays valid when the provider is unreachable.
    provider.publishes(&key);
    let bench = trusting(&provider, "keys_seconds: 0\n  refetch_seconds: 0").await;
    assert_eq!(
        with(&bench, |r| r.bearer_auth(key.token(&json!({}))))
            .await
            .status,
        200
    );
    drop(provider);
    assert_eq!(
        with(&bench, |r| r.bearer_auth(key.token(&json!({}))))
            .await
            .status,
        200
    );
}
