//! Forged tokens and hostile issuers: an issuer whose keys are served by a listener here, and the Keystone of the
//! simulated world. A valid token is sent as well, to detect a server that refuses all of them.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64URL;
use jsonwebtoken::{Algorithm, EncodingKey, Header, encode};
use rcgen::{KeyPair, PKCS_ECDSA_P256_SHA256, PublicKeyData as _};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::cases::Case;
use crate::payloads;
use crate::testbed::Testbed;

const ISSUER: &str = "https://issuer.example.com";
const AUDIENCE: &str = "vnfm";
/// The year 2100, in seconds since 1970.
const LATER: u64 = 4_102_444_800;
/// The `kid` of the key.
const KID: &str = "first";
/// How long a valid token may be rate-limited.
const TIMEOUT: Duration = Duration::from_secs(15);
/// Interval between the bytes of a dripping response.
const DRIP: Duration = Duration::from_millis(100);

/// Responses to requests for the issuer's keys.
#[derive(Debug, Clone)]
enum KeyResponse {
    True,
    Endless,
    Dripping,
    Million,
    Text(&'static str),
    Redirect(SocketAddr),
}

/// An issuer of tokens that publishes its keys.
pub(crate) struct Issuer {
    address: SocketAddr,
    pair: KeyPair,
    keys: Arc<Mutex<KeyResponse>>,
    /// Archives that it serves as well, by index.
    archives: Arc<Mutex<Vec<Vec<u8>>>>,
}

impl Issuer {
    /// Listens at a free port, for as long as the process lives.
    ///
    /// # Errors
    /// If there is none, or no key can be made.
    pub(crate) fn open() -> Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).context("cannot listen")?;
        let address = listener.local_addr()?;
        let pair = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256)?;
        let keys = Arc::new(Mutex::new(KeyResponse::True));
        let point = pair.der_bytes().to_vec();
        let (x, y) = (
            BASE64URL.encode(&point[1..33]),
            BASE64URL.encode(&point[33..65]),
        );
        let key = json!({"kty": "EC", "crv": "P-256", "use": "sig", "alg": "ES256", "kid": KID,
            "x": x, "y": y});
        let archives: Arc<Mutex<Vec<_>>> = Arc::default();
        let (shared_keys, shared_archives) = (keys.clone(), archives.clone());
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let keys = shared_keys
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .clone();
                let (key, shared_archives) = (key.clone(), shared_archives.clone());
                // A client may close the connection at any time.
                std::thread::spawn(move || drop(answer(stream, (&keys, &key), &shared_archives)));
            }
        });
        Ok(Self {
            address,
            pair,
            keys,
            archives,
        })
    }

    /// Serves an archive; its URL.
    pub(crate) fn offer(&self, archive: Vec<u8>) -> String {
        let mut archives = self.archives.lock().unwrap_or_else(PoisonError::into_inner);
        archives.push(archive);
        format!("{}{}", self.archives(), archives.len() - 1)
    }

    /// The common prefix of the URLs of all archives.
    pub(crate) fn archives(&self) -> String {
        format!("http://{}/archives/", self.address)
    }

    /// Its section of the server's configuration.
    pub(crate) fn settings(&self) -> Value {
        json!({"issuer": ISSUER, "audience": [AUDIENCE], "refetch_seconds": 0, "keys_seconds": 0,
            "jwks_url": format!("http://{}/keys", self.address), "tenant_claim": "tenant",
            "rules": [{"gets": {"role": "admin"}}]})
    }

    fn set_keys(&self, keys: KeyResponse) {
        *self.keys.lock().unwrap_or_else(PoisonError::into_inner) = keys;
    }

    fn sign(&self, header: &Header, claims: &Value) -> Result<String> {
        let key = EncodingKey::from_ec_der(&self.pair.serialize_der());
        Ok(encode(header, claims, &key)?)
    }
}

fn answer(
    mut stream: TcpStream,
    (keys, key): (&KeyResponse, &Value),
    shared_archives: &Mutex<Vec<Vec<u8>>>,
) -> std::io::Result<()> {
    let mut request = [0; 4096];
    let length = stream.read(&mut request)?;
    let request = String::from_utf8_lossy(&request[..length]);
    let wanted = request
        .split_whitespace()
        .nth(1)
        .and_then(|path| path.strip_prefix("/archives/"));
    if let Some(number) = wanted.and_then(|number| number.parse::<usize>().ok()) {
        let shared_archives = shared_archives
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let archive = shared_archives.get(number).cloned().unwrap_or_default();
        drop(shared_archives);
        let head = "HTTP/1.1 200 OK\r\ncontent-type: application/zip\r\nconnection: close\r\n";
        stream.write_all(format!("{head}content-length: {}\r\n\r\n", archive.len()).as_bytes())?;
        return stream.write_all(&archive);
    }
    let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\n";
    let complete = |body: &str| format!("{head}content-length: {}\r\n\r\n{body}", body.len());
    match keys {
        KeyResponse::True => {
            stream.write_all(complete(&json!({"keys": [key]}).to_string()).as_bytes())
        }
        KeyResponse::Text(text) => stream.write_all(complete(text).as_bytes()),
        KeyResponse::Million => {
            let keys = vec![key.to_string(); 1_000_000].join(",");
            stream.write_all(complete(&format!("{{\"keys\": [{keys}]}}")).as_bytes())
        }
        KeyResponse::Redirect(to) => {
            let head = format!("HTTP/1.1 302 Found\r\nlocation: http://{to}/keys\r\n");
            stream.write_all(format!("{head}content-length: 0\r\n\r\n").as_bytes())
        }
        KeyResponse::Endless => {
            stream.write_all(format!("{head}\r\n{{\"keys\": [\"").as_bytes())?;
            let piece = vec![b'a'; 64 << 10];
            loop {
                stream.write_all(&piece)?;
            }
        }
        KeyResponse::Dripping => {
            stream.write_all(format!("{head}\r\n").as_bytes())?;
            loop {
                stream.write_all(b" ")?;
                std::thread::park_timeout(DRIP);
            }
        }
    }
}

/// The claims of the valid token.
fn claims() -> Value {
    json!({"iss": ISSUER, "aud": AUDIENCE, "sub": "ida", "tenant": "acme", "exp": LATER})
}

/// Forged tokens: a description, and header and claims as JSON merge patches.
fn forgeries() -> Vec<(String, Value, Value)> {
    let mut all = Vec::new();
    let mut add = |name: &str, header: Value, claims: Value| {
        all.push((name.to_owned(), header, claims));
    };
    add(
        "`crit` that nobody knows",
        json!({"crit": ["b64"], "b64": true}),
        json!({}),
    );
    add("`crit` that is empty", json!({"crit": []}), json!({}));
    add(
        "of a key that nobody has",
        json!({"kid": "second"}),
        json!({}),
    );
    add("`alg` none", json!({"alg": "none"}), json!({}));
    add(
        "`alg` with a shared secret",
        json!({"alg": "HS256"}),
        json!({}),
    );
    add("`alg` of another key", json!({"alg": "RS256"}), json!({}));
    add(
        "with a key of its own",
        json!({"kid": "own", "jwk": {"kty": "oct", "k": "YQ"}}),
        json!({}),
    );
    for name in ["iss", "aud", "exp"] {
        add(&format!("without `{name}`"), json!({}), json!({name: null}));
        for text in payloads::all() {
            let text: String = text.chars().take(2000).collect();
            add(
                &format!("`{name}` is hostile"),
                json!({}),
                json!({name: text}),
            );
        }
    }
    add("that has ended", json!({}), json!({"exp": 1}));
    add("that has not begun", json!({}), json!({"nbf": LATER - 1}));
    add("without a tenant", json!({}), json!({"tenant": null}));
    add(
        "for the operator's tenant",
        json!({}),
        json!({"tenant": "default"}),
    );
    all.extend(forged_tenants());
    all
}

/// Tokens for tenants whose names are not allowed.
fn forged_tenants() -> impl Iterator<Item = (String, Value, Value)> {
    let is_name = |text: &String| {
        text.chars()
            .all(|one| one.is_ascii_alphanumeric() || one == '-')
    };
    let names = payloads::all()
        .into_iter()
        .filter(move |text| !is_name(text) || text.len() > 100);
    names.map(|text| {
        let text: String = text.chars().take(2000).collect();
        (
            "for an impossible tenant".to_owned(),
            json!({}),
            json!({"tenant": text}),
        )
    })
}

/// Forged tokens, hostile keys, and tokens unknown to Keystone.
pub(crate) fn cases() -> Vec<Case> {
    let mut all = Vec::new();
    for (name, header, changed) in forgeries() {
        all.push(Case::new(
            "token",
            format!("a token {name}: {changed}"),
            move |testbed, _| {
                let token = forge(&testbed.issuer, &header, &changed)?;
                check_refused(testbed, "authorization", &format!("Bearer {token}"))?;
                check_good_token(testbed)
            },
        ));
    }
    let keys = [
        KeyResponse::Endless,
        KeyResponse::Dripping,
        KeyResponse::Million,
        KeyResponse::Text(""),
        KeyResponse::Text("<html>"),
        KeyResponse::Text("[]"),
        KeyResponse::Text(r#"{"keys": {"a": 1}}"#),
        KeyResponse::Text(r#"{"keys": [{"kty": "oct", "k": "YQ", "kid": "first"}]}"#),
        KeyResponse::Text(r#"{"keys": [{"kty": 7, "kid": []}]}"#),
        KeyResponse::Redirect(([0, 0, 0, 0], 0).into()),
    ];
    for keys in keys {
        all.push(Case::new(
            "token",
            format!("keys: {keys:?}"),
            move |testbed, _| {
                let keys = match keys {
                    KeyResponse::Redirect(_) => KeyResponse::Redirect(testbed.canary.address()),
                    ref keys => keys.clone(),
                };
                testbed.issuer.set_keys(keys);
                let token = forge(&testbed.issuer, &json!({"kid": "unknown"}), &json!({}))?;
                let refusal = check_refused(testbed, "authorization", &format!("Bearer {token}"));
                testbed.issuer.set_keys(KeyResponse::True);
                refusal?;
                check_good_token(testbed)
            },
        ));
    }
    for text in payloads::all() {
        let visible: String = text.chars().take(40).collect();
        all.push(Case::new(
            "token",
            format!("of Keystone: {visible:?}"),
            move |testbed, _| {
                let text: String = text
                    .chars()
                    .filter(|one| (' '..='~').contains(one))
                    .collect();
                check_refused(testbed, "x-auth-token", &text[..text.len().min(4000)])
            },
        ));
    }
    all
}

/// Sends a token that Keystone must validate.
///
/// # Errors
/// If the server accepts the token.
pub(crate) fn send_keystone_token(testbed: &Testbed) -> Result<()> {
    check_refused(
        testbed,
        "x-auth-token",
        &Uuid::new_v4().simple().to_string(),
    )
}

/// A token with patched header and claims. It is signed with the issuer's key, except for `none` and HS256.
fn forge(issuer: &Issuer, header: &Value, changed: &Value) -> Result<String> {
    let mut signed_header = json!({"typ": "JWT", "alg": "ES256", "kid": KID});
    merge(&mut signed_header, header);
    let mut claims = claims();
    merge(&mut claims, changed);
    let part = |value: &Value| BASE64URL.encode(value.to_string());
    let payload = format!("{}.{}", part(&signed_header), part(&claims));
    let signature = match signed_header["alg"].as_str() {
        Some("none") => String::new(),
        Some("HS256") => {
            let key = EncodingKey::from_secret(issuer.pair.public_key_pem().as_bytes());
            jsonwebtoken::crypto::sign(payload.as_bytes(), &key, Algorithm::HS256)?
        }
        _ => {
            let key = EncodingKey::from_ec_der(&issuer.pair.serialize_der());
            jsonwebtoken::crypto::sign(payload.as_bytes(), &key, Algorithm::ES256)?
        }
    };
    Ok(format!("{payload}.{signature}"))
}

fn merge(into: &mut Value, patch: &Value) {
    let Some(into) = into.as_object_mut() else {
        return;
    };
    for (name, value) in patch.as_object().into_iter().flatten() {
        if value.is_null() {
            into.remove(name);
        } else {
            into.insert(name.clone(), value.clone());
        }
    }
}

/// An invalid token must not succeed.
fn check_refused(testbed: &Testbed, header: &str, token: &str) -> Result<()> {
    for path in ["/vnflcm/v2/vnf_instances", "/vnfm/v1/secrets"] {
        let status = testbed.clients.with_header((header, token), path)?;
        ensure!(
            matches!(status, 400 | 401 | 403 | 429 | 503),
            "GET {path} is answered {status}"
        );
    }
    Ok(())
}

/// The valid token is accepted, but has no operator rights.
fn check_good_token(testbed: &Testbed) -> Result<()> {
    let header = Header {
        kid: Some(KID.to_owned()),
        ..Header::new(Algorithm::ES256)
    };
    let token = testbed.issuer.sign(&header, &claims())?;
    for (path, wanted) in [("/vnflcm/v2/vnf_instances", 200), ("/vnfm/v1/secrets", 403)] {
        let payload = ("authorization", format!("Bearer {token}"));
        let mut status = testbed.clients.with_header((payload.0, &payload.1), path)?;
        let began = Instant::now();
        // Earlier refusals may have caused rate limiting.
        while status == 429 && began.elapsed() < TIMEOUT {
            std::thread::park_timeout(Duration::from_millis(100));
            status = testbed.clients.with_header((payload.0, &payload.1), path)?;
        }
        ensure!(
            status == wanted,
            "the valid token gets {status} from {path}"
        );
    }
    Ok(())
}
