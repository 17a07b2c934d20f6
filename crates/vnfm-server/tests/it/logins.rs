//! Logins by password, server token and Keystone token: which are accepted, and what the 401 says.

use crate::bench::{Bench, HASHED, INSTANCES, PASSWORD, Response, Setup};
use reqwest::{Method, RequestBuilder};
use serde_json::json;
use vnfm_sim::{Options, World};

pub(crate) async fn with(
    bench: &Bench,
    login: impl FnOnce(RequestBuilder) -> RequestBuilder,
) -> Response {
    bench
        .send(login(bench.request(Method::GET, INSTANCES)))
        .await
}

pub(crate) fn challenges(response: &Response) -> Vec<&str> {
    response
        .headers
        .get_all("www-authenticate")
        .iter()
        .map(|one| one.to_str().unwrap())
        .collect()
}

#[tokio::test]
async fn users_log_in_with_a_password_or_the_server_token() {
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
    let anonymous = with(&bench, |r| r).await;
    assert_eq!(anonymous.status, 401);
    assert_eq!(
        challenges(&anonymous),
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

/// A simulated Keystone, and the settings of a server that accepts its tokens.
struct Keystone {
    world: World,
    folder: tempfile::TempDir,
}

impl Keystone {
    async fn new() -> Self {
        let world = World::start(Options::default()).await.unwrap();
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("password"), &world.endpoints().password).unwrap();
        Self { world, folder }
    }

    fn settings(&self, cache: u32, role: &str) -> Setup {
        let (at, password) = (self.world.endpoints(), self.folder.path().join("password"));
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
    }

    async fn token(&self) -> String {
        let at = self.world.endpoints();
        let login = json!({"auth": {
            "identity": {"methods": ["password"], "password": {"user": {
                "name": at.user, "domain": {"id": "default"}, "password": at.password}}},
            "scope": {"project": {"name": at.user, "domain": {"id": "default"}}}}});
        let http = reqwest::Client::builder().no_proxy().build().unwrap();
        let request = http.post(format!("{}/auth/tokens", at.auth_url));
        let response = request.json(&login).send().await.unwrap();
        response.headers()["x-subject-token"]
            .to_str()
            .unwrap()
            .to_owned()
    }
}

#[tokio::test]
async fn keystone_tokens_are_accepted_cached_and_expire() {
    let keystone = Keystone::new().await;
    let (world, at) = (&keystone.world, keystone.world.endpoints());
    let validations = || world.ledger().calls_named("keystone.token_show").len();
    let bench = Bench::with(keystone.settings(3600, "member")).await;
    let first = keystone.token().await;
    for _ in 0..3 {
        assert_eq!(
            with(&bench, |r| r.header("x-auth-token", &first))
                .await
                .status,
            200
        );
    }
    assert_eq!(validations(), 1);
    let unknown = with(&bench, |r| r.header("x-auth-token", "gAAAAAunknown")).await;
    assert_eq!(unknown.status, 401, "{unknown:?}");
    assert_eq!(
        challenges(&unknown),
        [format!("Keystone uri=\"{}\"", at.auth_url)]
    );

    // The server's own token is revoked too; the server then logs in again.
    world.cloud().revoke_tokens();
    let second = keystone.token().await;
    assert_eq!(
        with(&bench, |r| r.header("x-auth-token", &second))
            .await
            .status,
        200
    );
    uncached_tokens_are_checked_each_time(keystone, &second).await;
}

/// Without a cache: 403 without a matching rule, 401 after a revocation, 503 without Keystone.
async fn uncached_tokens_are_checked_each_time(keystone: Keystone, token: &str) {
    let other = Bench::with(keystone.settings(0, "cook")).await;
    let refused = with(&other, |r| r.header("x-auth-token", token)).await;
    assert_eq!(
        (refused.status, &refused.body["code"]),
        (403, &json!("access.no-role")),
        "{refused:?}"
    );

    let asking = Bench::with(keystone.settings(0, "member")).await;
    assert_eq!(
        with(&asking, |r| r.header("x-auth-token", token))
            .await
            .status,
        200
    );
    keystone.world.cloud().revoke_tokens();
    assert_eq!(
        with(&asking, |r| r.header("x-auth-token", token))
            .await
            .status,
        401
    );
    drop(keystone);
    let unavailable = with(&asking, |r| r.header("x-auth-token", token)).await;
    assert_eq!(
        (unavailable.status, &unavailable.body["code"]),
        (503, &json!("access.unavailable")),
        "{unavailable:?}"
    );
}

/// RFC 6750 3: the challenge has an error code for an invalid token, and none without a token.
#[tokio::test]
async fn the_challenge_names_the_error_of_a_token() {
    let bench = Bench::with(Setup {
        token: Some("planted-0123456789"),
        ..Setup::default()
    })
    .await;
    let anonymous = with(&bench, |r| r).await;
    assert_eq!(
        (anonymous.status, challenges(&anonymous)),
        (401, vec!["Bearer"])
    );
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
