//! The public keys of a token issuer (JWKS, RFC 7517), from a URL or a file.
//!
//! Known keys are used without waiting. An unknown key triggers a reload, but at most once per configured interval,
//! however many tokens name unknown keys. If a reload fails, the known keys stay valid.

use super::login_error::LoginError;
use crate::settings_file;
use anyhow::Context as _;
use jiff::{SignedDuration, Timestamp};
use jsonwebtoken::jwk::{Jwk, JwkSet, PublicKeyUse};
use jsonwebtoken::{Algorithm, DecodingKey};
use std::path::PathBuf;
use std::sync::{Arc, PoisonError, RwLock};
use tokio::task::spawn_blocking;
use vnfm_core::ports::Clock;
use vnfm_outbound::{Client, Method, Url, read};

/// Where keys are read from.
pub(crate) enum Source {
    /// The HTTP client, and the URL to fetch the keys from.
    Url(Box<(Client, Url)>),
    /// Path of a JWKS file.
    File(PathBuf),
}

/// The keys of one issuer.
pub(crate) struct Keys {
    source: Source,
    /// Minimum time between two attempts to read the keys for an unknown key.
    refetch_interval: SignedDuration,
    /// How long keys are used before they are read again.
    lifetime: SignedDuration,
    clock: Arc<dyn Clock>,
    known: RwLock<Known>,
    last_attempt: tokio::sync::Mutex<Option<Timestamp>>,
}

#[derive(Clone, Default)]
struct Known {
    set: Arc<Vec<Jwk>>,
    read: Option<Timestamp>,
}

impl Keys {
    /// Keys of `source`; nothing is read yet.
    pub(crate) fn new(
        source: Source,
        (refetch_interval, lifetime): (SignedDuration, SignedDuration),
        clock: Arc<dyn Clock>,
    ) -> Self {
        let (known, last_attempt) = (RwLock::default(), tokio::sync::Mutex::default());
        Self {
            source,
            refetch_interval,
            lifetime,
            clock,
            known,
            last_attempt,
        }
    }

    /// The key for a token's key id and algorithm.
    pub(super) async fn key(
        &self,
        kid: Option<&str>,
        algorithm: Algorithm,
    ) -> Result<DecodingKey, LoginError> {
        let known = self.known();
        let is_fresh = |known: &Known| {
            known
                .read
                .is_some_and(|read| self.clock.now().duration_since(read) < self.lifetime)
        };
        if let Some(key) = find(&known.set, kid, algorithm).filter(|_| is_fresh(&known)) {
            return usable(key);
        }
        let mut last_attempt = self.last_attempt.lock().await;
        let before = self.known();
        let now = self.clock.now();
        let mut failed = None;
        // Another request may have read them while this one waited.
        let is_known = find(&before.set, kid, algorithm).is_some() && is_fresh(&before);
        if !is_known
            && last_attempt.is_none_or(|last| now.duration_since(last) >= self.refetch_interval)
        {
            *last_attempt = Some(now);
            match self.read().await {
                Ok(set) => self.set_known(Known {
                    set: Arc::new(set),
                    read: Some(now),
                }),
                Err(error) => {
                    tracing::warn!(
                        error = format!("{error:#}"),
                        "cannot read the issuer's keys"
                    );
                    failed = Some(error);
                }
            }
        }
        let known = self.known();
        match (find(&known.set, kid, algorithm), failed) {
            (Some(key), _) => usable(key),
            (None, Some(_)) => Err(LoginError::Unavailable(
                "cannot read the issuer's keys; see the server's log".to_owned(),
            )),
            (None, None) => Err(LoginError::BadCredentials(format!(
                "the token is signed with the key `{}`, which its issuer does not publish for {algorithm:?}",
                kid.unwrap_or("unnamed")
            ))),
        }
    }

    async fn read(&self) -> anyhow::Result<Vec<Jwk>> {
        let bytes = match &self.source {
            Source::File(path) => {
                let path = path.clone();
                spawn_blocking(move || settings_file::bytes(&path)).await??
            }
            Source::Url(from) => {
                let (http, url) = &**from;
                fetch(http, url)
                    .await
                    .with_context(|| format!("cannot read `{url}`"))?
            }
        };
        let set: JwkSet = serde_json::from_slice(&bytes).context("not a JSON Web Key Set")?;
        Ok(set.keys)
    }

    fn known(&self) -> Known {
        self.known
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    fn set_known(&self, known: Known) {
        *self.known.write().unwrap_or_else(PoisonError::into_inner) = known;
    }
}

async fn fetch(http: &Client, url: &Url) -> anyhow::Result<Vec<u8>> {
    let response = http
        .request(Method::GET, url.as_str())?
        .send()
        .await?
        .error_for_status()?;
    Ok(read(response, http.policy()).await?.into())
}

/// The key with that id; without an id, the only key that fits.
fn find<'a>(set: &'a [Jwk], kid: Option<&str>, algorithm: Algorithm) -> Option<&'a Jwk> {
    let matches = |key: &&Jwk| {
        let common = &key.common;
        let named = kid.is_none_or(|kid| common.key_id.as_deref() == Some(kid));
        let signs = common
            .public_key_use
            .as_ref()
            .is_none_or(|of| *of == PublicKeyUse::Signature);
        let declared = common.key_algorithm;
        named
            && signs
            && declared.is_none_or(|of| Algorithm::try_from(of).is_ok_and(|of| of == algorithm))
    };
    let mut found = set.iter().filter(matches);
    match (found.next(), found.next()) {
        (Some(_), Some(_)) if kid.is_none() => None,
        (first, _) => first,
    }
}

fn usable(key: &Jwk) -> Result<DecodingKey, LoginError> {
    DecodingKey::from_jwk(key).map_err(|error| {
        LoginError::BadCredentials(format!("cannot use the issuer's key: {error}"))
    })
}
