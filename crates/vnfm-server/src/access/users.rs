//! HTTP Basic (RFC 7617): users with passwords of which the configuration has only hashes.
//!
//! A hash is dear to check, on purpose. Who was checked once is remembered by a digest with a key that no other process
//! knows, and at most two passwords are checked at once; so neither clients that send their password with each request
//! nor somebody who tries passwords keep the server from its work.

use super::Refused;
use super::principal::{Gets, Principal};
use anyhow::{Context as _, bail};
use argon2::password_hash::phc::PasswordHash;
use argon2::{Argon2, PasswordHasher as _, PasswordVerifier as _};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use schemars::JsonSchema;
use serde::Deserialize;
use sha2::{Digest as _, Sha256};
use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, PoisonError};
use tokio::sync::Semaphore;
use vnfm_types::Secret;

/// One of `access.users`.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct User {
    /// The name that they log in with.
    pub name: String,
    /// What `vnfm-server hash-password` printed.
    pub password_hash: String,
    /// What they may do.
    pub gets: Gets,
}

/// All of them.
pub struct Users {
    known: BTreeMap<String, (PasswordHash, Principal)>,
    remembered: Mutex<HashMap<String, [u8; 32]>>,
    key: [u8; 16],
    places: Semaphore,
}

/// How many passwords are checked at once.
const AT_ONCE: usize = 2;
/// The shortest password that is hashed.
const SHORTEST: usize = 8;

impl Users {
    /// Those of the configuration.
    ///
    /// # Errors
    ///
    /// Where a name is given twice or has a colon, and where a hash is none.
    pub fn new(users: &[User]) -> anyhow::Result<Self> {
        let mut known = BTreeMap::new();
        for User { name, password_hash, gets } in users {
            if name.is_empty() || name.contains(':') {
                bail!("access.users: `{name}` cannot be a name: it is empty or has a colon");
            }
            let hash = PasswordHash::new(password_hash).ok();
            let hash = hash.filter(|hash| hash.algorithm.as_str().starts_with("argon2"));
            let hash = hash.with_context(|| {
                format!(
                    "access.users: `password_hash` of `{name}` is none; make one with `vnfm-server hash-password`"
                )
            })?;
            let principal = gets.principal(name, "basic", None);
            let principal =
                principal.map_err(|why| anyhow::anyhow!("access.users: `{name}`: {why}"))?;
            if known.insert(name.clone(), (hash, principal)).is_some() {
                bail!("access.users: `{name}` is there twice");
            }
        }
        Ok(Self {
            known,
            remembered: Mutex::default(),
            key: *uuid::Uuid::new_v4().as_bytes(),
            places: Semaphore::new(AT_ONCE),
        })
    }

    /// True where there is none.
    pub fn is_empty(&self) -> bool {
        self.known.is_empty()
    }

    /// Whoever the credentials of `Authorization: Basic` are of.
    pub(super) async fn check(&self, credentials: &str) -> Result<Principal, Refused> {
        let wrong = || Refused::Wrong("the user or the password is wrong".to_owned());
        let (user, password) = read(credentials).ok_or_else(|| {
            Refused::Wrong("`Authorization: Basic` carries no `user:password` in Base64".to_owned())
        })?;
        let digest = self.digest(&user, &password);
        let known = self.known.get(&user);
        if let Some((_, principal)) = known
            && self.remembered().get(&user) == Some(&digest)
        {
            return Ok(principal.clone());
        }
        // For a name that nobody has somebody's hash is checked, so that the time of an answer tells nothing.
        let checked = known.or_else(|| self.known.values().next());
        let Some(hash) = checked.map(|(hash, _)| hash.clone()) else { return Err(wrong()) };
        let place = self.places.acquire().await;
        let checking = tokio::task::spawn_blocking(move || {
            Argon2::default().verify_password(password.reveal().as_bytes(), &hash).is_ok()
        });
        let is_right = checking.await.unwrap_or(false);
        drop(place);
        match known.filter(|_| is_right) {
            Some((_, principal)) => {
                self.remembered().insert(user, digest);
                Ok(principal.clone())
            }
            None => Err(wrong()),
        }
    }

    fn digest(&self, user: &str, password: &Secret) -> [u8; 32] {
        let mut hasher = Sha256::new();
        for part in [&self.key[..], user.as_bytes(), b":", password.reveal().as_bytes()] {
            hasher.update(part);
        }
        hasher.finalize().into()
    }

    fn remembered(&self) -> std::sync::MutexGuard<'_, HashMap<String, [u8; 32]>> {
        self.remembered.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// User and password out of the header.
fn read(credentials: &str) -> Option<(String, Secret)> {
    let text = STANDARD.decode(credentials.trim()).ok()?;
    let text = String::from_utf8(text).ok()?;
    let (user, password) = text.split_once(':')?;
    Some((user.to_owned(), Secret::new(password)))
}

/// The hash of a password, for `password_hash` of the configuration.
///
/// # Errors
///
/// Where the password is shorter than 8 characters.
pub fn hash_password(password: &Secret) -> anyhow::Result<String> {
    if password.reveal().chars().count() < SHORTEST {
        bail!("the password is shorter than {SHORTEST} characters");
    }
    let salt = uuid::Uuid::new_v4();
    let hashed: Result<PasswordHash, _> =
        Argon2::default().hash_password_with_salt(password.reveal().as_bytes(), salt.as_bytes());
    match hashed {
        Ok(hash) => Ok(hash.to_string()),
        Err(error) => bail!("cannot hash the password: {error}"),
    }
}

#[cfg(test)]
mod tests {
    use super::{STANDARD, User, Users, hash_password};
    use crate::access::Refused;
    use base64::Engine as _;
    use vnfm_types::Secret;

    fn users(yaml: &str) -> anyhow::Result<Users> {
        Users::new(&serde_yaml::from_str::<Vec<User>>(yaml).unwrap())
    }

    #[tokio::test]
    async fn whoever_has_the_password_gets_in_again_and_again_and_nobody_else() {
        let hash = hash_password(&Secret::new("correct horse")).unwrap();
        let users = users(&format!(
            "[{{name: alice, password_hash: '{hash}', gets: {{tenant: acme, role: operate}}}}]"
        ));
        let users = users.unwrap();
        let login = |user: &str, password: &str| STANDARD.encode(format!("{user}:{password}"));
        for _ in 0..2 {
            let alice = users.check(&login("alice", "correct horse")).await.unwrap();
            assert_eq!((alice.name.as_str(), alice.tenant.as_str()), ("alice", "acme"));
            for wrong in [
                login("alice", "correct horsf"),
                login("alice", ""),
                login("bob", "correct horse"),
                "no base64".to_owned(),
                STANDARD.encode("alice"),
            ] {
                assert!(matches!(users.check(&wrong).await, Err(Refused::Wrong(_))), "{wrong}");
            }
        }
    }

    #[test]
    fn what_cannot_be_is_said_at_the_start() {
        let hash = hash_password(&Secret::new("correct horse")).unwrap();
        let one = |name: &str, hash: &str| {
            format!("{{name: '{name}', password_hash: '{hash}', gets: {{role: read}}}}")
        };
        for (yaml, says) in [
            (format!("[{}]", one("a", "correct horse")), "hash-password"),
            (format!("[{}]", one("a:b", &hash)), "colon"),
            (format!("[{}, {}]", one("a", &hash), one("a", &hash)), "twice"),
        ] {
            let error = users(&yaml).err().unwrap().to_string();
            assert!(error.contains(says), "{error}");
            assert!(!error.contains("correct horse"), "{error}");
        }
        let short = hash_password(&Secret::new("short")).unwrap_err().to_string();
        assert!(short.contains("8 characters"), "{short}");
    }
}
