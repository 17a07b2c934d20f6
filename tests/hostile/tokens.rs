//! Tokens that lie, and those who answer for them: an issuer whose keys are published by a listener of the machine, and
//! the Keystone of the simulated world. One token is good, so that a server which takes none is noticed.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as PLAIN;
use jsonwebtoken::{Algorithm, EncodingKey, Header, encode};
use rcgen::{KeyPair, PKCS_ECDSA_P256_SHA256, PublicKeyData as _};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::cases::Case;
use crate::payloads;
use crate::testbed::Ground;

/// Who gives the tokens, as they say of themselves.
const ISSUER: &str = "https://issuer.example.com";
const AUDIENCE: &str = "vnfm";
/// The year 2100.
const LATER: u64 = 4_102_444_800;
/// The key's name.
const KID: &str = "first";
/// How long a good token may be put off.
const PATIENCE: Duration = Duration::from_secs(15);
/// Between two bytes of an answer that drips.
const DRIP: Duration = Duration::from_millis(100);

/// What the issuer's keys are answered with.
#[derive(Debug, Clone)]
enum Keys {
    True,
    Endless,
    Dripping,
    Million,
    Text(&'static str),
    Redirect(SocketAddr),
}

/// Somebody who gives tokens, and publishes keys.
pub(crate) struct Issuer {
    address: SocketAddr,
    pair: KeyPair,
    says: Arc<Mutex<Keys>>,
    /// Archives that it gives as well, each below a path of its own.
    archives: Arc<Mutex<Vec<Vec<u8>>>>,
}

impl Issuer {
    /// Listens at a free port, for as long as the process lives.
    ///
    /// # Errors
    /// Where there is none, or no key can be made.
    pub(crate) fn open() -> Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).context("cannot listen")?;
        let address = listener.local_addr()?;
        let pair = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256)?;
        let says = Arc::new(Mutex::new(Keys::True));
        let point = pair.der_bytes().to_vec();
        let (x, y) = (PLAIN.encode(&point[1..33]), PLAIN.encode(&point[33..65]));
        let key = json!({"kty": "EC", "crv": "P-256", "use": "sig", "alg": "ES256", "kid": KID,
            "x": x, "y": y});
        let archives: Arc<Mutex<Vec<_>>> = Arc::default();
        let (books, shelf) = (says.clone(), archives.clone());
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let says = books.lock().unwrap_or_else(PoisonError::into_inner).clone();
                let (key, shelf) = (key.clone(), shelf.clone());
                // Whoever hangs up has heard enough.
                std::thread::spawn(move || drop(answer(stream, (&says, &key), &shelf)));
            }
        });
        Ok(Self {
            address,
            pair,
            says,
            archives,
        })
    }

    /// The address of an archive.
    pub(crate) fn offer(&self, archive: Vec<u8>) -> String {
        let mut archives = self.archives.lock().unwrap_or_else(PoisonError::into_inner);
        archives.push(archive);
        format!("{}{}", self.archives(), archives.len() - 1)
    }

    /// What the addresses of all archives begin with.
    pub(crate) fn archives(&self) -> String {
        format!("http://{}/archives/", self.address)
    }

    /// What the server's configuration says of it.
    pub(crate) fn settings(&self) -> Value {
        json!({"issuer": ISSUER, "audience": [AUDIENCE], "refetch_seconds": 0, "keys_seconds": 0,
            "jwks_url": format!("http://{}/keys", self.address), "tenant_claim": "tenant",
            "rules": [{"gets": {"role": "admin"}}]})
    }

    fn say(&self, keys: Keys) {
        *self.says.lock().unwrap_or_else(PoisonError::into_inner) = keys;
    }

    fn signed(&self, header: &Header, claims: &Value) -> Result<String> {
        let key = EncodingKey::from_ec_der(&self.pair.serialize_der());
        Ok(encode(header, claims, &key)?)
    }
}

fn answer(
    mut stream: TcpStream,
    (says, key): (&Keys, &Value),
    shelf: &Mutex<Vec<Vec<u8>>>,
) -> std::io::Result<()> {
    let mut request = [0; 4096];
    let length = stream.read(&mut request)?;
    let request = String::from_utf8_lossy(&request[..length]);
    let wanted = request
        .split_whitespace()
        .nth(1)
        .and_then(|path| path.strip_prefix("/archives/"));
    if let Some(number) = wanted.and_then(|number| number.parse::<usize>().ok()) {
        let shelf = shelf.lock().unwrap_or_else(PoisonError::into_inner);
        let archive = shelf.get(number).cloned().unwrap_or_default();
        drop(shelf);
        let head = "HTTP/1.1 200 OK\r\ncontent-type: application/zip\r\nconnection: close\r\n";
        stream.write_all(format!("{head}content-length: {}\r\n\r\n", archive.len()).as_bytes())?;
        return stream.write_all(&archive);
    }
    let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\n";
    let whole = |body: &str| format!("{head}content-length: {}\r\n\r\n{body}", body.len());
    match says {
        Keys::True => stream.write_all(whole(&json!({"keys": [key]}).to_string()).as_bytes()),
        Keys::Text(text) => stream.write_all(whole(text).as_bytes()),
        Keys::Million => {
            let keys = vec![key.to_string(); 1_000_000].join(",");
            stream.write_all(whole(&format!("{{\"keys\": [{keys}]}}")).as_bytes())
        }
        Keys::Redirect(to) => {
            let head = format!("HTTP/1.1 302 Found\r\nlocation: http://{to}/keys\r\n");
            stream.write_all(format!("{head}content-length: 0\r\n\r\n").as_bytes())
        }
        Keys::Endless => {
            stream.write_all(format!("{head}\r\n{{\"keys\": [\"").as_bytes())?;
            let piece = vec![b'a'; 64 << 10];
            loop {
                stream.write_all(&piece)?;
            }
        }
        Keys::Dripping => {
            stream.write_all(format!("{head}\r\n").as_bytes())?;
            loop {
                stream.write_all(b" ")?;
                std::thread::park_timeout(DRIP);
            }
        }
    }
}

/// The good token's claims.
fn claims() -> Value {
    json!({"iss": ISSUER, "aud": AUDIENCE, "sub": "ida", "tenant": "acme", "exp": LATER})
}

/// Each way in which a token lies: its name, its header and claims changed, as JSON merge patches.
fn lies() -> Vec<(String, Value, Value)> {
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
        for text in payloads::cores() {
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
    // What looks like a name is one.
    let is_name = |text: &String| {
        text.chars()
            .all(|one| one.is_ascii_alphanumeric() || one == '-')
    };
    for text in payloads::cores()
        .into_iter()
        .filter(|text| !is_name(text) || text.len() > 100)
    {
        let text: String = text.chars().take(2000).collect();
        add(
            "for a tenant that cannot be",
            json!({}),
            json!({"tenant": text}),
        );
    }
    all
}

/// Each lie of a token, each lie about keys, and tokens that Keystone does not know.
pub(crate) fn cases() -> Vec<Case> {
    let mut all = Vec::new();
    for (name, header, changed) in lies() {
        all.push(Case::new(
            "token",
            format!("a token {name}: {changed}"),
            move |ground, _| {
                let token = forged(&ground.issuer, &header, &changed)?;
                refused(ground, "authorization", &format!("Bearer {token}"))?;
                good(ground)
            },
        ));
    }
    let keys = [
        Keys::Endless,
        Keys::Dripping,
        Keys::Million,
        Keys::Text(""),
        Keys::Text("<html>"),
        Keys::Text("[]"),
        Keys::Text(r#"{"keys": {"a": 1}}"#),
        Keys::Text(r#"{"keys": [{"kty": "oct", "k": "YQ", "kid": "first"}]}"#),
        Keys::Text(r#"{"keys": [{"kty": 7, "kid": []}]}"#),
        Keys::Redirect(([0, 0, 0, 0], 0).into()),
    ];
    for keys in keys {
        all.push(Case::new(
            "token",
            format!("keys: {keys:?}"),
            move |ground, _| {
                let says = match keys {
                    Keys::Redirect(_) => Keys::Redirect(ground.canary.address()),
                    ref keys => keys.clone(),
                };
                ground.issuer.say(says);
                let token = forged(&ground.issuer, &json!({"kid": "unknown"}), &json!({}))?;
                let refusal = refused(ground, "authorization", &format!("Bearer {token}"));
                ground.issuer.say(Keys::True);
                refusal?;
                good(ground)
            },
        ));
    }
    for text in payloads::cores() {
        let shown: String = text.chars().take(40).collect();
        all.push(Case::new(
            "token",
            format!("of Keystone: {shown:?}"),
            move |ground, _| {
                let text: String = text
                    .chars()
                    .filter(|one| (' '..='~').contains(one))
                    .collect();
                refused(ground, "x-auth-token", &text[..text.len().min(4000)])
            },
        ));
    }
    all
}

/// A request with a token that Keystone is to judge.
///
/// # Errors
/// Where it is taken.
pub(crate) fn of_keystone(ground: &Ground) -> Result<()> {
    refused(ground, "x-auth-token", &Uuid::new_v4().simple().to_string())
}

/// A token that is changed before it is signed, and whose header is changed afterwards where nothing signs it so.
fn forged(issuer: &Issuer, header: &Value, changed: &Value) -> Result<String> {
    let mut signed_header = json!({"typ": "JWT", "alg": "ES256", "kid": KID});
    merge(&mut signed_header, header);
    let mut claims = claims();
    merge(&mut claims, changed);
    let part = |value: &Value| PLAIN.encode(value.to_string());
    let said = format!("{}.{}", part(&signed_header), part(&claims));
    let signature = match signed_header["alg"].as_str() {
        Some("none") => String::new(),
        Some("HS256") => {
            let key = EncodingKey::from_secret(issuer.pair.public_key_pem().as_bytes());
            jsonwebtoken::crypto::sign(said.as_bytes(), &key, Algorithm::HS256)?
        }
        _ => {
            let key = EncodingKey::from_ec_der(&issuer.pair.serialize_der());
            jsonwebtoken::crypto::sign(said.as_bytes(), &key, Algorithm::ES256)?
        }
    };
    Ok(format!("{said}.{signature}"))
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

/// A token that is not worth anything; no answer is a success.
fn refused(ground: &Ground, header: &str, token: &str) -> Result<()> {
    for path in ["/vnflcm/v2/vnf_instances", "/vnfm/v1/secrets"] {
        let status = ground.clients.with_header((header, token), path)?;
        ensure!(
            matches!(status, 400 | 401 | 403 | 429 | 503),
            "GET {path} is answered {status}"
        );
    }
    Ok(())
}

/// The good one is taken, and is no operator's.
fn good(ground: &Ground) -> Result<()> {
    let header = Header {
        kid: Some(KID.to_owned()),
        ..Header::new(Algorithm::ES256)
    };
    let token = ground.issuer.signed(&header, &claims())?;
    for (path, wanted) in [("/vnflcm/v2/vnf_instances", 200), ("/vnfm/v1/secrets", 403)] {
        let said = ("authorization", format!("Bearer {token}"));
        let mut status = ground.clients.with_header((said.0, &said.1), path)?;
        let began = Instant::now();
        // Too many of this address were refused just now.
        while status == 429 && began.elapsed() < PATIENCE {
            std::thread::park_timeout(Duration::from_millis(100));
            status = ground.clients.with_header((said.0, &said.1), path)?;
        }
        ensure!(
            status == wanted,
            "the good token is answered {status} at {path}"
        );
    }
    Ok(())
}
