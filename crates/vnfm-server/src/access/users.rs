//! HTTP Basic (RFC 7617): users with passwords of which the configuration has only hashes.
//!
//! A hash is dear to check, on purpose. Who was checked once is remembered by a digest with a key that no other process
//! knows. At most two passwords are checked at once, whether or not those who sent them are still there; some more
//! wait, of each source a few, and whoever leaves waits no longer. So neither clients that send their password with each
//! request nor somebody who tries passwords keep the server from its work. Being too busy to look is never "wrong".

use super::Refused;
use super::attempts::{Attempts, Source};
use super::principal::{Gets, Principal};
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
    /// Held by the check itself, not by the request that wants it.
    places: Arc<Semaphore>,
    queue: Arc<Queue>,
}

/// How many passwords are checked at once.
const AT_ONCE: usize = 2;
/// How many are checked or wait, and how many of them are from one source.
const QUEUED: usize = 64;
const QUEUED_OF_ONE: usize = 16;

/// Who is checked, or waits for it.
#[derive(Default)]
struct Queue(Mutex<HashMap<Source, usize>>);

/// A place in the queue; free once this is dropped.
struct Queued {
    queue: Arc<Queue>,
    source: Source,
}

impl Queue {
    /// A place, if there is one.
    fn enter(self: &Arc<Self>, source: Source) -> Option<Queued> {
        let mut queue = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let own = queue.get(&source).copied().unwrap_or_default();
        if own >= QUEUED_OF_ONE || queue.values().sum::<usize>() >= QUEUED {
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
        for User {
            name,
            password_hash,
            gets,
        } in users
        {
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
            places: Arc::new(Semaphore::new(AT_ONCE)),
            queue: Arc::default(),
        })
    }

    /// True where there is none.
    pub fn is_empty(&self) -> bool {
        self.known.is_empty()
    }

    /// Whoever the credentials of `Authorization: Basic` are of, as they come from `source`.
    pub(super) async fn check(
        &self,
        credentials: &str,
        (source, attempts): (Source, &Attempts),
    ) -> Result<Principal, Refused> {
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
        let account = self.digest(&user, &Secret::new(""));
        attempts.left(source).map_err(Refused::TooOften)?;
        attempts
            .may_try(&account, source)
            .map_err(Refused::TooOften)?;
        // For a name that nobody has somebody's hash is checked, so that the time of an answer tells nothing.
        let checked = known.or_else(|| self.known.values().next());
        let Some(hash) = checked.map(|(hash, _)| hash.clone()) else {
            return Err(wrong());
        };
        let is_right = self.is_right(hash, password, source).await?;
        let known = known.filter(|_| is_right);
        attempts.tried(account, source, known.is_some());
        match known {
            Some((_, principal)) => {
                self.remembered().insert(user, digest);
                Ok(principal.clone())
            }
            None => Err(wrong()),
        }
    }

    /// Whether a password is the one of a hash, once it is its turn. The check goes on, and takes its place, when nobody
    /// waits for it any more.
    async fn is_right(
        &self,
        hash: PasswordHash,
        password: Secret,
        source: Source,
    ) -> Result<bool, Refused> {
        let busy = |what: &str| Refused::Unavailable(format!("{what}; try again"));
        let queued = self.queue.enter(source);
        let queued = queued.ok_or_else(|| busy("too many passwords are being checked"))?;
        let place = self.places.clone().acquire_owned().await;
        let place = place.map_err(|_| busy("passwords are not checked any more"))?;
        let checking = tokio::task::spawn_blocking(move || {
            let _held = (queued, place);
            Argon2::default().verify_password(password.reveal().as_bytes(), &hash)
        });
        match checking.await {
            Ok(Ok(())) => Ok(true),
            Ok(Err(HashError::PasswordInvalid)) => Ok(false),
            Ok(Err(error)) => {
                tracing::error!(%error, "a password cannot be checked");
                Err(busy("the password cannot be checked"))
            }
            Err(error) => {
                tracing::error!(%error, "the check of a password ended badly");
                Err(busy("the password cannot be checked"))
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
    use super::{AT_ONCE, QUEUED_OF_ONE, STANDARD, User, Users, hash_password};
    use crate::access::Refused;
    use crate::access::attempts::tests::Moved;
    use crate::access::attempts::{Allowance, Attempts, Source};
    use base64::Engine as _;
    use futures::future::FutureExt as _;
    use std::sync::Arc;
    use vnfm_types::Secret;

    fn attempts() -> Attempts {
        Attempts::new(Allowance::default(), Arc::new(Moved::default()))
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
        Source::of(Some([192, 0, 2, last].into()))
    }

    fn users(yaml: &str) -> anyhow::Result<Users> {
        Users::new(&serde_yaml::from_str::<Vec<User>>(yaml).unwrap())
    }

    #[tokio::test]
    async fn whoever_has_the_password_gets_in_again_and_again_and_nobody_else() {
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
                    matches!(users.check(&wrong, at).await, Err(Refused::Wrong(_))),
                    "{wrong}"
                );
            }
        }
    }

    /// Requests whose clients hang up as soon as they were sent. The one thread that could check is held meanwhile.
    #[test]
    fn clients_that_hang_up_leave_no_more_checks_behind_than_are_made_at_once() {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .max_blocking_threads(1)
            .build();
        runtime.unwrap().block_on(async {
            let (users, attempts) = (alice(), attempts());
            let (go_on, held) = std::sync::mpsc::channel::<()>();
            let holding = tokio::task::spawn_blocking(move || held.recv());
            let wrong = login("alice", "wrong horse");
            for number in 0..100 {
                let check = users.check(&wrong, (address(number), &attempts));
                assert!(check.now_or_never().is_none(), "it waits for its check");
            }
            assert_eq!(
                users.places.available_permits(),
                0,
                "two checks are to come, whoever left"
            );
            let left = users.queue.0.lock().unwrap().values().sum::<usize>();
            assert_eq!(left, AT_ONCE, "nobody else waits");
            go_on.send(()).unwrap();
            holding.await.unwrap().unwrap();
            let right = login("alice", "correct horse");
            assert!(users.check(&right, (address(1), &attempts)).await.is_ok());
        });
    }

    #[tokio::test]
    async fn being_too_busy_is_not_a_wrong_password_and_hits_the_busy_address_alone() {
        let (users, attempts) = (alice(), attempts());
        let held = users.places.clone().acquire_many_owned(2).await.unwrap();
        let right = login("alice", "correct horse");
        let check = |last| users.check(&right, (address(last), &attempts));
        let mut waiting: Vec<_> = (0..QUEUED_OF_ONE).map(|_| Box::pin(check(1))).collect();
        for one in &mut waiting {
            assert!(one.now_or_never().is_none());
        }
        assert!(matches!(check(1).await, Err(Refused::Unavailable(_))));
        let mut other = Box::pin(check(2));
        assert!(
            (&mut other).now_or_never().is_none(),
            "another address has its place"
        );
        waiting.clear();
        drop(held);
        assert_eq!(other.await.unwrap().name, "alice");
    }

    #[tokio::test]
    async fn who_tries_passwords_waits_and_the_right_one_from_elsewhere_is_taken() {
        let (users, attempts) = (alice(), attempts());
        let wrong = login("alice", "wrong horse");
        let mut outcomes = Vec::new();
        for _ in 0..5 {
            outcomes.push(users.check(&wrong, (address(1), &attempts)).await);
        }
        let slowed = |outcome: &Result<_, Refused>| matches!(outcome, Err(Refused::TooOften(_)));
        assert_eq!(
            outcomes.iter().map(slowed).collect::<Vec<_>>(),
            [false, false, false, true, true]
        );
        let right = login("alice", "correct horse");
        assert!(slowed(&users.check(&right, (address(1), &attempts)).await));
        assert!(users.check(&right, (address(2), &attempts)).await.is_ok());
        assert!(
            users.check(&right, (address(1), &attempts)).await.is_ok(),
            "it is known by now"
        );
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
            (
                format!("[{}, {}]", one("a", &hash), one("a", &hash)),
                "twice",
            ),
        ] {
            let error = users(&yaml).err().unwrap().to_string();
            assert!(error.contains(says), "{error}");
            assert!(!error.contains("correct horse"), "{error}");
        }
        let short = hash_password(&Secret::new("short"))
            .unwrap_err()
            .to_string();
        assert!(short.contains("8 characters"), "{short}");
    }
}
