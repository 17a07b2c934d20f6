//! The ways to log in: which are taken, which are not, and what a client is told.

use crate::bench::{Answer, Bench, HASHED, INSTANCES, PASSWORD, Setup};
use axum::Router;
use axum::routing::get;
use jsonwebtoken::jwk::{Jwk, JwkSet};
use jsonwebtoken::{Algorithm, EncodingKey, Header, encode};
use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use tokio::task::JoinSet;
use vnfm_core::ports::Clock as _;
use vnfm_sim::{Options, World};

async fn with(bench: &Bench, login: impl FnOnce(RequestBuilder) -> RequestBuilder) -> Answer {
    bench
        .send(login(bench.request(Method::GET, INSTANCES)))
        .await
}

fn challenges(answer: &Answer) -> Vec<&str> {
    answer
        .headers
        .get_all("www-authenticate")
        .iter()
        .map(|one| one.to_str().unwrap())
        .collect()
}

#[tokio::test]
async fn users_log_in_with_a_password_and_the_token_of_the_server_still_counts() {
    let access = format!("users: [{{name: ann, password_hash: '{HASHED}', gets: {{role: read}}}}]");
    let token = Some("planted-0123456789");
    let bench = Bench::with(Setup {
        token,
        access: Some(access),
        ..Setup::default()
    })
    .await;
    assert_eq!(
        with(&bench, |r| r.basic_auth("ann", Some(PASSWORD)))
            .await
            .status,
        200
    );
    assert_eq!(
        with(&bench, |r| r.bearer_auth("planted-0123456789"))
            .await
            .status,
        200
    );
    let nobody = with(&bench, |r| r).await;
    assert_eq!(nobody.status, 401);
    assert_eq!(
        challenges(&nobody),
        ["Bearer", "Basic realm=\"vnfm\", charset=\"UTF-8\""]
    );
    for wrong in [
        with(&bench, |r| r.basic_auth("ann", Some("planted-passwore"))).await,
        with(&bench, |r| r.basic_auth("bob", Some(PASSWORD))).await,
        with(&bench, |r| r.bearer_auth("planted-012345678x")).await,
        with(&bench, |r| r.header("authorization", "Digest x")).await,
        with(&bench, |r| r.header("x-auth-token", "x")).await,
    ] {
        assert_eq!(
            (wrong.status, &wrong.body["code"]),
            (401, &json!("request.unauthorized")),
            "{wrong:?}"
        );
    }
}

/// An identity provider: its keys over HTTP, counted.
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
        let answer = move || {
            counted.fetch_add(1, SeqCst);
            let set = serde_json::to_value(&*shown.lock().unwrap()).unwrap();
            async move { axum::Json(set) }
        };
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/certs", listener.local_addr().unwrap());
        let mut task = JoinSet::new();
        let router = Router::new().route("/certs", get(answer));
        task.spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self {
            url,
            keys,
            read,
            _task: task,
        }
    }

    /// Publishes a new key and nothing else.
    fn publishes(&self, key: &Signing) {
        self.keys.lock().unwrap().keys = vec![key.public.clone()];
    }
}

/// A key that tokens are signed with.
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
            // PKCS#8 wraps the key by 26 bytes where it has 2048 bits.
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

    /// A token with those claims in place of the usual ones.
    fn token(&self, claims: &Value) -> String {
        self.critical(claims, None)
    }

    /// The same with `crit` in its header.
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

#[tokio::test]
async fn a_signed_token_is_taken_where_issuer_audience_time_signature_and_rules_say_so() {
    let provider = Provider::new().await;
    for algorithm in [Algorithm::RS256, Algorithm::PS256, Algorithm::ES256] {
        let key = Signing::new("one", algorithm);
        provider.publishes(&key);
        let bench = trusting(&provider, "skew_seconds: 60").await;
        let good = with(&bench, |r| r.bearer_auth(key.token(&json!({})))).await;
        assert_eq!(good.status, 200, "{algorithm:?}: {good:?}");
        let now = vnfm::SystemClock.now().as_second();
        let stranger = Signing::new("one", algorithm);
        for (token, status, says) in [
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
        ] {
            let answer = with(&bench, |r| r.bearer_auth(token)).await;
            assert_eq!(answer.status, status, "{algorithm:?}, {says}: {answer:?}");
            assert!(
                status == 200 || answer.detail().contains(says),
                "{says}: {answer:?}"
            );
            let error = match status {
                401 => &["Bearer error=\"invalid_token\""][..],
                403 => &["Bearer error=\"insufficient_scope\""],
                _ => &[],
            };
            assert_eq!(challenges(&answer), error, "{says}");
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
async fn a_token_with_a_header_that_is_critical_and_unknown_is_refused() {
    let provider = Provider::new().await;
    let key = Signing::new("one", Algorithm::ES256);
    provider.publishes(&key);
    let bench = trusting(&provider, "").await;
    for crit in [vec!["exp".to_owned()], vec!["b64".to_owned()], Vec::new()] {
        let token = key.critical(&json!({}), Some(crit));
        let answer = with(&bench, |r| r.bearer_auth(token)).await;
        assert_eq!(answer.status, 401, "{answer:?}");
        assert!(answer.detail().contains("RFC 7515 4.1.11"), "{answer:?}");
    }
}

#[tokio::test]
async fn a_claim_makes_nobody_look_after_the_server() {
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
async fn a_token_is_not_signed_with_what_everybody_knows() {
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
    let answer = with(&bench, |r| r.bearer_auth(forged)).await;
    assert_eq!(answer.status, 401, "{answer:?}");
    assert!(answer.detail().contains("HS256"), "{answer:?}");
}

#[tokio::test]
async fn a_new_key_is_looked_for_once_and_unknown_ones_do_not_make_us_ask_again_and_again() {
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
async fn keys_that_cannot_be_read_are_no_reason_to_let_anybody_in_and_none_to_call_them_wrong() {
    let provider = Provider::new().await;
    let key = Signing::new("one", Algorithm::ES256);
    let nowhere = Provider {
        url: "http://127.0.0.1:1/certs".into(),
        ..Provider::new().await
    };
    let bench = trusting(&nowhere, "").await;
    let answer = with(&bench, |r| r.bearer_auth(key.token(&json!({})))).await;
    assert_eq!(
        (answer.status, &answer.body["code"]),
        (503, &json!("access.unavailable")),
        "{answer:?}"
    );
    assert!(answer.headers.contains_key("retry-after"));
    // One that was read stays good when the provider is gone.
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

#[tokio::test]
async fn tokens_of_keystone_are_taken_remembered_and_end() {
    let world = World::start(Options::default()).await.unwrap();
    let at = world.endpoints();
    let folder = tempfile::tempdir().unwrap();
    let password = folder.path().join("password");
    std::fs::write(&password, &at.password).unwrap();
    let settings = |cache: u32, role: &str| {
        let (auth, password, user) = (&at.auth_url, password.display(), &at.user);
        let access = format!(
            "keystone:
  endpoint: {auth}
  user: {user}
  project: {user}
  password_file: {password}
  cache_seconds: {cache}
  rules:
  - {{project: {user}, role: {role}, gets: {{tenant: acme, role: operate}}}}"
        );
        Setup {
            access: Some(access),
            ..Setup::default()
        }
    };
    let login = json!({"auth": {
        "identity": {"methods": ["password"], "password": {"user": {
            "name": at.user, "domain": {"id": "default"}, "password": at.password}}},
        "scope": {"project": {"name": at.user, "domain": {"id": "default"}}}}});
    let http = reqwest::Client::builder().no_proxy().build().unwrap();
    let token = || async {
        let answer = http
            .post(format!("{}/auth/tokens", at.auth_url))
            .json(&login)
            .send()
            .await
            .unwrap();
        answer.headers()["x-subject-token"]
            .to_str()
            .unwrap()
            .to_owned()
    };
    let asked = || world.books().calls_of("keystone.token_show").len();

    let bench = Bench::with(settings(3600, "member")).await;
    let first = token().await;
    for _ in 0..3 {
        assert_eq!(
            with(&bench, |r| r.header("x-auth-token", &first))
                .await
                .status,
            200
        );
    }
    assert_eq!(asked(), 1);
    let unknown = with(&bench, |r| r.header("x-auth-token", "gAAAAAunknown")).await;
    assert_eq!(unknown.status, 401, "{unknown:?}");
    assert_eq!(
        challenges(&unknown),
        [format!("Keystone uri=\"{}\"", at.auth_url)]
    );

    // Our own token ends like any other, and then we log in again.
    world.cloud().revoke_tokens();
    let second = token().await;
    assert_eq!(
        with(&bench, |r| r.header("x-auth-token", &second))
            .await
            .status,
        200
    );

    let other = Bench::with(settings(0, "cook")).await;
    let refused = with(&other, |r| r.header("x-auth-token", &second)).await;
    assert_eq!(
        (refused.status, &refused.body["code"]),
        (403, &json!("access.no-role")),
        "{refused:?}"
    );

    let asking = Bench::with(settings(0, "member")).await;
    assert_eq!(
        with(&asking, |r| r.header("x-auth-token", &second))
            .await
            .status,
        200
    );
    world.cloud().revoke_tokens();
    assert_eq!(
        with(&asking, |r| r.header("x-auth-token", &second))
            .await
            .status,
        401
    );
    drop(world);
    let gone = with(&asking, |r| r.header("x-auth-token", &second)).await;
    assert_eq!(
        (gone.status, &gone.body["code"]),
        (503, &json!("access.unavailable")),
        "{gone:?}"
    );
}

/// RFC 6750 3: a token that does not do is told why; who sent none is not.
#[tokio::test]
async fn a_challenge_says_what_is_wrong_with_a_token() {
    let bench = Bench::with(Setup {
        token: Some("planted-0123456789"),
        ..Setup::default()
    })
    .await;
    let nobody = with(&bench, |r| r).await;
    assert_eq!((nobody.status, challenges(&nobody)), (401, vec!["Bearer"]));
    let wrong = with(&bench, |r| r.bearer_auth("another")).await;
    assert_eq!(
        (wrong.status, challenges(&wrong)),
        (401, vec!["Bearer error=\"invalid_token\""])
    );
    for odd in ["Bearer", "Bearer a b", "Bearer \u{22}a\u{22}"] {
        let malformed = with(&bench, |r| r.header("authorization", odd)).await;
        assert_eq!(malformed.status, 400, "{odd}: {malformed:?}");
        assert_eq!(
            challenges(&malformed),
            ["Bearer error=\"invalid_request\""],
            "{odd}"
        );
        assert_eq!(malformed.headers["version"], "2.3.0");
    }
}
