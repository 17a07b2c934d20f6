//! The public keys of whoever signs tokens (JWKS, RFC 7517), from a URL or a file.
//!
//! A key that is known is never waited for. One that is not known makes the set be read once more, but not more often than
//! the configuration says, however many tokens name unknown keys. Where reading fails, the keys that are known stay good.

use super::Refused;
use anyhow::Context as _;
use jiff::{SignedDuration, Timestamp};
use jsonwebtoken::jwk::{Jwk, JwkSet, PublicKeyUse};
use jsonwebtoken::{Algorithm, DecodingKey};
use std::path::PathBuf;
use std::sync::{Arc, PoisonError, RwLock};
use vnfm_core::ports::Clock;
use vnfm_outbound::{Client, Method, Url, read};

/// Where keys come from.
pub enum Source {
    /// Over HTTP.
    Url(Box<(Client, Url)>),
    /// From a file.
    File(PathBuf),
}

/// The keys of one issuer.
pub struct Keys {
    source: Source,
    /// How long after an attempt to read them the next one is made for an unknown key.
    pause: SignedDuration,
    /// How long keys are taken for good without looking.
    keep: SignedDuration,
    clock: Arc<dyn Clock>,
    known: RwLock<Known>,
    tried: tokio::sync::Mutex<Option<Timestamp>>,
}

#[derive(Clone, Default)]
struct Known {
    set: Arc<Vec<Jwk>>,
    read: Option<Timestamp>,
}

impl Keys {
    /// Keys of `source`, of which nothing is read yet.
    pub fn new(
        source: Source,
        (pause, keep): (SignedDuration, SignedDuration),
        clock: Arc<dyn Clock>,
    ) -> Self {
        let (known, tried) = (RwLock::default(), tokio::sync::Mutex::default());
        Self {
            source,
            pause,
            keep,
            clock,
            known,
            tried,
        }
    }

    /// The key that a token names.
    pub(super) async fn key(
        &self,
        kid: Option<&str>,
        algorithm: Algorithm,
    ) -> Result<DecodingKey, Refused> {
        let known = self.known();
        let is_fresh = |known: &Known| {
            known
                .read
                .is_some_and(|read| self.clock.now().duration_since(read) < self.keep)
        };
        if let Some(key) = find(&known.set, kid, algorithm).filter(|_| is_fresh(&known)) {
            return usable(key);
        }
        let mut tried = self.tried.lock().await;
        let before = self.known();
        let now = self.clock.now();
        let mut failed = None;
        // Somebody else may have read them while we waited.
        let is_there = find(&before.set, kid, algorithm).is_some() && is_fresh(&before);
        if !is_there && tried.is_none_or(|tried| now.duration_since(tried) >= self.pause) {
            *tried = Some(now);
            match self.read().await {
                Ok(set) => self.keep(Known {
                    set: Arc::new(set),
                    read: Some(now),
                }),
                Err(error) => {
                    tracing::warn!(
                        error = format!("{error:#}"),
                        "cannot read the keys of tokens"
                    );
                    failed = Some(error);
                }
            }
        }
        let known = self.known();
        match (find(&known.set, kid, algorithm), failed) {
            (Some(key), _) => usable(key),
            (None, Some(_)) => Err(Refused::Unavailable(
                "the keys that tokens are signed with cannot be read; the server's log says why"
                    .to_owned(),
            )),
            (None, None) => Err(Refused::Wrong(format!(
                "the token is signed with the key `{}`, which its issuer does not publish for {algorithm:?}",
                kid.unwrap_or("without a name")
            ))),
        }
    }

    async fn read(&self) -> anyhow::Result<Vec<Jwk>> {
        let bytes = match &self.source {
            Source::File(path) => tokio::fs::read(path)
                .await
                .with_context(|| format!("cannot read `{}`", path.display()))?,
            Source::Url(from) => {
                let (http, url) = &**from;
                fetch(http, url)
                    .await
                    .with_context(|| format!("cannot read `{url}`"))?
            }
        };
        let set: JwkSet = serde_json::from_slice(&bytes).context("it is no set of keys (JWKS)")?;
        Ok(set.keys)
    }

    fn known(&self) -> Known {
        self.known
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    fn keep(&self, known: Known) {
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

/// The key of that name; without a name the only one that fits.
fn find<'a>(set: &'a [Jwk], kid: Option<&str>, algorithm: Algorithm) -> Option<&'a Jwk> {
    let fits = |key: &&Jwk| {
        let common = &key.common;
        let named = kid.is_none_or(|kid| common.key_id.as_deref() == Some(kid));
        let signs = common
            .public_key_use
            .as_ref()
            .is_none_or(|of| *of == PublicKeyUse::Signature);
        let of = common.key_algorithm;
        named
            && signs
            && of.is_none_or(|of| Algorithm::try_from(of).is_ok_and(|of| of == algorithm))
    };
    let mut found = set.iter().filter(fits);
    match (found.next(), found.next()) {
        (Some(_), Some(_)) if kid.is_none() => None,
        (first, _) => first,
    }
}

fn usable(key: &Jwk) -> Result<DecodingKey, Refused> {
    DecodingKey::from_jwk(key)
        .map_err(|error| Refused::Wrong(format!("the issuer's key cannot be used: {error}")))
}
