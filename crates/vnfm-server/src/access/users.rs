//! HTTP Basic (RFC 7617). The configuration holds only password hashes.
//!
//! Checking a hash is expensive on purpose. A successful check is remembered as a digest keyed with a random key of
//! this process. At most two passwords are checked at once, even if their clients have disconnected; a limited number
//! of requests waits, a few of each source, and a client that disconnects leaves the queue. So neither clients that
//! send their password with each request nor an attacker who tries passwords can overload the server. Being too busy
//! to check is never reported as a wrong password.

use super::attempts::Attempts;
use super::login_error::LoginError;
use super::principal::{Principal, RoleGrant};
use crate::client_address::Source;
use anyhow::{Context as _, bail};
use argon2::password_hash::Error as HashError;
use argon2::password_hash::phc::PasswordHash;
use argon2::{Argon2, PasswordHasher as _, PasswordVerifier as _};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use schemars::JsonSchema;
use serde::Deserialize;
use sha2::{Digest as _, Sha256};
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::Semaphore;
use vnfm_types::Secret;

/// An entry of `access.users`: a user with a password.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct User {
    /// The name that the user logs in with.
    pub name: String,
    /// The output of `vnfm-server hash-password`.
    pub password_hash: String,
    /// Tenant, role and limits of this user.
    pub gets: RoleGrant,
}

/// The configured users, with the hashes of their passwords.
pub(crate) struct Users {
    known: BTreeMap<String, (PasswordHash, Principal)>,
    remembered: Mutex<HashMap<String, [u8; 32]>>,
    key: [u8; 16],
    /// Held by the check itself, not by the request, which may be dropped earlier.
    slots: Arc<Semaphore>,
    queue: Arc<Queue>,
}

/// Number of passwords that are checked at once.
const MAX_CHECKS: usize = 2;
/// Maximum number of passwords in check or waiting: in total, and from one source.
const MAX_QUEUED: usize = 64;
const MAX_QUEUED_PER_SOURCE: usize = 16;

/// Checks that run or wait, by source.
#[derive(Default)]
struct Queue(Mutex<HashMap<Source, usize>>);

/// An entry in the queue, until it is dropped.
struct Queued {
    queue: Arc<Queue>,
    source: Source,
}

impl Queue {
    /// Enters the queue; `None` if it is full.
    fn enter(self: &Arc<Self>, source: Source) -> Option<Queued> {
        let mut queue = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let own = queue.get(&source).copied().unwrap_or_default();
        if own >= MAX_QUEUED_PER_SOURCE || queue.values().sum::<usize>() >= MAX_QUEUED {
            return None;
        }
        queue.insert(source, own + 1);
        Some(Queued {
            queue: self.clone(),
            source,
        })
    }
}

impl Drop for Queued {
    fn drop(&mut self) {
        let mut queue = self.queue.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(own) = queue.get_mut(&self.source) {
            *own -= 1;
            if *own == 0 {
                queue.remove(&self.source);
            }
        }
    }
}
/// Minimum length of a password, in characters.
const MIN_PASSWORD_CHARS: usize = 8;

impl Users {
    /// The users of the configuration.
    ///
    /// # Errors
    ///
    /// If a name appears twice or has a colon, or a hash is invalid.
    pub(crate) fn new(users: &[User]) -> anyhow::Result<Self> {
        let mut known = BTreeMap::new();
        for User {
            name,
            password_hash,
            gets,
        } in users
        {
            if name.is_empty() || name.contains(':') {
                bail!(
                    "access.users: invalid name `{name}`: it must not be empty or contain a colon"
                );
            }
            let hash = PasswordHash::new(password_hash).ok();
            let hash = hash.filter(|hash| hash.algorithm.as_str().starts_with("argon2"));
            let hash = hash.with_context(|| {
                format!(
                    "access.users: `password_hash` of `{name}` is not an Argon2 hash; create one with `vnfm-server hash-password`"
                )
            })?;
            let principal = gets.principal(name, "basic", None);
            let principal =
                principal.map_err(|error| anyhow::anyhow!("access.users: `{name}`: {error}"))?;
            if known.insert(name.clone(), (hash, principal)).is_some() {
                bail!("access.users: duplicate name `{name}`");
            }
        }
        Ok(Self {
            known,
            remembered: Mutex::default(),
            key: *uuid::Uuid::new_v4().as_bytes(),
            slots: Arc::new(Semaphore::new(MAX_CHECKS)),
            queue: Arc::default(),
        })
    }

    /// Whether no user is configured.
    pub(crate) fn is_empty(&self) -> bool {
        self.known.is_empty()
    }

    /// Returns the principal for credentials of `Authorization: Basic` that came from `source`.
    pub(super) async fn check(
        &self,
        credentials: &str,
        (source, attempts): (Source, &Attempts),
    ) -> Result<Principal, LoginError> {
        let wrong = || LoginError::BadCredentials("wrong user or password".to_owned());
        let (user, password) = read(credentials).ok_or_else(|| {
            LoginError::BadCredentials(
                "`Authorization: Basic` must be `user:password` in Base64".to_owned(),
            )
        })?;
        let digest = self.digest(&user, &password);
        let known = self.known.get(&user);
        if let Some((_, principal)) = known
            && self.remembered().get(&user) == Some(&digest)
        {
            return Ok(principal.clone());
        }
        let account = self.digest(&user, &Secret::new(""));
        attempts
            .check(source)
            .map_err(LoginError::TooManyAttempts)?;
        attempts
            .check_password_allowed(&account, source)
            .map_err(LoginError::TooManyAttempts)?;
        // For an unknown user, another user's hash is checked, so that the response time reveals nothing.
        let checked = known.or_else(|| self.known.values().next());
        let Some(hash) = checked.map(|(hash, _)| hash.clone()) else {
            return Err(wrong());
        };
        let is_right = self.is_right(hash, password, source).await?;
        let known = known.filter(|_| is_right);
        attempts.record(account, source, known.is_some());
        match known {
            Some((_, principal)) => {
                self.remembered().insert(user, digest);
                Ok(principal.clone())
            }
            None => Err(wrong()),
        }
    }

    /// Checks a password against a hash when a slot is free. A started check runs to its end and keeps its slot even
    /// if the client has disconnected.
    async fn is_right(
        &self,
        hash: PasswordHash,
        password: Secret,
        source: Source,
    ) -> Result<bool, LoginError> {
        let busy = |what: &str| LoginError::Unavailable(format!("{what}; try again"));
        let queued = self.queue.enter(source);
        let queued = queued.ok_or_else(|| busy("too many password checks"))?;
        let slot = self.slots.clone().acquire_owned().await;
        let slot = slot.map_err(|_| busy("the server is shutting down"))?;
        let checking = tokio::task::spawn_blocking(move || {
            let _held = (queued, slot);
            Argon2::default().verify_password(password.reveal().as_bytes(), &hash)
        });
        match checking.await {
            Ok(Ok(())) => Ok(true),
            Ok(Err(HashError::PasswordInvalid)) => Ok(false),
            Ok(Err(error)) => {
                tracing::error!(%error, "cannot check a password");
                Err(busy("cannot check the password"))
            }
            Err(error) => {
                tracing::error!(%error, "a password check panicked");
                Err(busy("cannot check the password"))
            }
        }
    }

    fn digest(&self, user: &str, password: &Secret) -> [u8; 32] {
        let mut hasher = Sha256::new();
        for part in [
            &self.key[..],
            user.as_bytes(),
            b":",
            password.reveal().as_bytes(),
        ] {
            hasher.update(part);
        }
        hasher.finalize().into()
    }

    fn remembered(&self) -> std::sync::MutexGuard<'_, HashMap<String, [u8; 32]>> {
        self.remembered
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

/// Decodes the header into user and password.
fn read(credentials: &str) -> Option<(String, Secret)> {
    let text = STANDARD.decode(credentials.trim()).ok()?;
    let text = String::from_utf8(text).ok()?;
    let (user, password) = text.split_once(':')?;
    Some((user.to_owned(), Secret::new(password)))
}

/// Hashes a password, for `password_hash` in the configuration.
///
/// # Errors
///
/// If the password is shorter than 8 characters.
pub fn hash_password(password: &Secret) -> anyhow::Result<String> {
    if password.reveal().chars().count() < MIN_PASSWORD_CHARS {
        bail!("the password is shorter than {MIN_PASSWORD_CHARS} characters");
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
    use super::{MAX_CHECKS, MAX_QUEUED_PER_SOURCE, STANDARD, User, Users, hash_password};
    use crate::access::attempts::tests::ManualClock;
    use crate::access::attempts::{Allowance, Attempts};
    use crate::access::login_error::LoginError;
    use crate::client_address::Source;
    use base64::Engine as _;
    use futures::future::FutureExt as _;
    use std::sync::Arc;
    use vnfm_types::Secret;

    fn attempts() -> Attempts {
        Attempts::new(Allowance::default(), Arc::new(ManualClock::default()))
    }

    fn alice() -> Users {
        let hash = hash_password(&Secret::new("correct horse")).unwrap();
        users(&format!(
            "[{{name: alice, password_hash: '{hash}', gets: {{tenant: acme, role: operate}}}}]"
        ))
        .unwrap()
    }

    fn login(user: &str, password: &str) -> String {
        STANDARD.encode(format!("{user}:{password}"))
    }

    fn address(last: u8) -> Source {
        Source::from_address(Some([192, 0, 2, last].into()))
    }

    fn users(yaml: &str) -> anyhow::Result<Users> {
        Users::new(&serde_yaml::from_str::<Vec<User>>(yaml).unwrap())
    }

    #[tokio::test]
    async fn only_the_right_password_logs_in_repeatedly() {
        let users = alice();
        for _ in 0..2 {
            let at = (address(1), &attempts());
            let alice = users
                .check(&login("alice", "correct horse"), at)
                .await
                .unwrap();
            assert_eq!(
                (alice.name.as_str(), alice.tenant.as_str()),
                ("alice", "acme")
            );
            for wrong in [
                login("alice", "correct horsf"),
                login("alice", ""),
                login("bob", "correct horse"),
                "no base64".to_owned(),
                STANDARD.encode("alice"),
            ] {
                assert!(
                    matches!(
                        users.check(&wrong, at).await,
                        Err(LoginError::BadCredentials(_))
                    ),
                    "{wrong}"
                );
            }
        }
    }

    /// Clients that disconnect right after sending. The only blocking thread is busy meanwhile.
    #[test]
    fn disconnected_clients_leave_at_most_the_concurrent_checks_behind() {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .max_blocking_threads(1)
            .build();
        runtime.unwrap().block_on(async {
            let (users, attempts) = (alice(), attempts());
            let (resume, blocked) = std::sync::mpsc::channel::<()>();
            let blocking = tokio::task::spawn_blocking(move || blocked.recv());
            let wrong = login("alice", "wrong horse");
            for number in 0..100 {
                let check = users.check(&wrong, (address(number), &attempts));
                assert!(check.now_or_never().is_none(), "the check is pending");
            }
            assert_eq!(users.slots.available_permits(), 0, "two checks still run");
            let remaining = users.queue.0.lock().unwrap().values().sum::<usize>();
            assert_eq!(remaining, MAX_CHECKS, "no other request waits");
            resume.send(()).unwrap();
            blocking.await.unwrap().unwrap();
            let right = login("alice", "correct horse");
            assert!(users.check(&right, (address(1), &attempts)).await.is_ok());
        });
    }

    #[tokio::test]
    async fn a_full_queue_is_unavailable_and_only_for_the_busy_address() {
        let (users, attempts) = (alice(), attempts());
        let held = users.slots.clone().acquire_many_owned(2).await.unwrap();
        let right = login("alice", "correct horse");
        let check = |last| users.check(&right, (address(last), &attempts));
        let mut waiting: Vec<_> = (0..MAX_QUEUED_PER_SOURCE)
            .map(|_| Box::pin(check(1)))
            .collect();
        for one in &mut waiting {
            assert!(one.now_or_never().is_none());
        }
        assert!(matches!(check(1).await, Err(LoginError::Unavailable(_))));
        let mut other = Box::pin(check(2));
        assert!(
            (&mut other).now_or_never().is_none(),
            "another address may wait"
        );
        waiting.clear();
        drop(held);
        assert_eq!(other.await.unwrap().name, "alice");
    }

    #[tokio::test]
    async fn wrong_passwords_slow_down_only_their_own_address() {
        let (users, attempts) = (alice(), attempts());
        let wrong = login("alice", "wrong horse");
        let mut outcomes = Vec::new();
        for _ in 0..5 {
            outcomes.push(users.check(&wrong, (address(1), &attempts)).await);
        }
        let slowed = |outcome: &Result<_, LoginError>| {
            matches!(outcome, Err(LoginError::TooManyAttempts(_)))
        };
        assert_eq!(
            outcomes.iter().map(slowed).collect::<Vec<_>>(),
            [false, false, false, true, true]
        );
        let right = login("alice", "correct horse");
        assert!(slowed(&users.check(&right, (address(1), &attempts)).await));
        assert!(users.check(&right, (address(2), &attempts)).await.is_ok());
        assert!(
            users.check(&right, (address(1), &attempts)).await.is_ok(),
            "it is remembered"
        );
    }

    #[test]
    fn invalid_users_are_reported_at_startup() {
        let hash = hash_password(&Secret::new("correct horse")).unwrap();
        let one = |name: &str, hash: &str| {
            format!("{{name: '{name}', password_hash: '{hash}', gets: {{role: read}}}}")
        };
        for (yaml, expected) in [
            (format!("[{}]", one("a", "correct horse")), "hash-password"),
            (format!("[{}]", one("a:b", &hash)), "colon"),
            (
                format!("[{}, {}]", one("a", &hash), one("a", &hash)),
                "duplicate",
            ),
        ] {
            let error = users(&yaml).err().unwrap().to_string();
            assert!(error.contains(expected), "{error}");
            assert!(!error.contains("correct horse"), "{error}");
        }
        let short = hash_password(&Secret::new("short"))
            .unwrap_err()
            .to_string();
        assert!(short.contains("8 characters"), "{short}");
    }
}
