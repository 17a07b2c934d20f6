//! What somebody may try before we know who they are. Each address has a bucket of logins that are refused, and each
//! account at each address a pause that doubles with every wrong password. So neither guessing nor flooding gets far,
//! and nobody locks anybody else out: the right password from another address is taken at once.
//!
//! An address of IPv6 counts with its whole /64, which is one customer's.

use jiff::{SignedDuration, Timestamp};
use std::collections::HashMap;
use std::hash::Hash;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use vnfm_core::ports::Clock;

/// How many refused logins one address may have in a second, and how many at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Allowance {
    /// On the average, in a second.
    pub per_second: u32,
    /// At once.
    pub burst: u32,
}

impl Default for Allowance {
    fn default() -> Self {
        Self {
            per_second: 10,
            burst: 100,
        }
    }
}

/// Where somebody asks from: one address, or one network of IPv6.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Source(IpAddr);

impl Source {
    /// Of an address; whoever has none is one source.
    pub fn of(address: Option<IpAddr>) -> Self {
        match address.map(|address| address.to_canonical()) {
            Some(IpAddr::V6(address)) => {
                let network = address.to_bits() & !u128::from(u64::MAX);
                Self(Ipv6Addr::from_bits(network).into())
            }
            Some(address) => Self(address),
            None => Self(Ipv6Addr::UNSPECIFIED.into()),
        }
    }
}

/// How many sources, and how many accounts at sources, are remembered.
const MOST: usize = 10_000;
/// Wrong passwords that cost no pause.
const FREE: u32 = 3;
/// The longest pause, in doublings of a second.
const DOUBLINGS: u32 = 6;
/// How long after its last wrong password an account at a source is forgotten.
const FORGET: SignedDuration = SignedDuration::from_mins(15);

/// What was refused lately.
pub struct Attempts {
    clock: Arc<dyn Clock>,
    allowance: Allowance,
    sources: Mutex<HashMap<Source, Refusals>>,
    accounts: Mutex<HashMap<([u8; 32], Source), Failures>>,
}

/// Of one source: how much of its allowance is used, in thousandths of a login, and when that was so.
#[derive(Clone, Copy)]
struct Refusals {
    used: u64,
    at: Timestamp,
}

/// Of one account at one source.
#[derive(Clone, Copy)]
struct Failures {
    count: u32,
    at: Timestamp,
}

impl Attempts {
    /// Nothing was refused yet.
    pub fn new(allowance: Allowance, clock: Arc<dyn Clock>) -> Self {
        Self {
            clock,
            allowance,
            sources: Mutex::default(),
            accounts: Mutex::default(),
        }
    }

    /// Whether a source may be refused once more.
    ///
    /// # Errors
    ///
    /// The seconds to wait, where it may not.
    pub fn left(&self, source: Source) -> Result<(), u64> {
        let used = self.used(locked(&self.sources).get(&source).copied());
        let most = u64::from(self.allowance.burst) * 1_000;
        let over = (used + 1_000).saturating_sub(most);
        if over == 0 {
            return Ok(());
        }
        Err(over.div_ceil(u64::from(self.allowance.per_second.max(1)) * 1_000))
    }

    /// Notes that a source was refused.
    ///
    /// # Errors
    ///
    /// As [`Self::left`]; it is not noted then.
    pub fn refused(&self, source: Source) -> Result<(), u64> {
        self.left(source)?;
        let now = self.clock.now();
        let mut sources = locked(&self.sources);
        make_room(&mut sources, |refusals| self.used(Some(*refusals)) > 0);
        let used = self.used(sources.get(&source).copied()) + 1_000;
        sources.insert(source, Refusals { used, at: now });
        Ok(())
    }

    /// How much of its allowance a source has used by now. A clock that was put back gives it all of it.
    fn used(&self, refusals: Option<Refusals>) -> u64 {
        let Some(Refusals { used, at }) = refusals else {
            return 0;
        };
        let passed = self.clock.now().duration_since(at);
        let Ok(passed) = u64::try_from(passed.as_millis()) else {
            return 0;
        };
        used.saturating_sub(passed.saturating_mul(self.allowance.per_second.into()))
    }

    /// Whether a password of an account may be tried from a source.
    ///
    /// # Errors
    ///
    /// The seconds to wait, where wrong ones were tried too often.
    pub fn may_try(&self, account: &[u8; 32], source: Source) -> Result<(), u64> {
        let failures = locked(&self.accounts).get(&(*account, source)).copied();
        let Some(Failures { count, at }) = failures.filter(|failures| failures.count >= FREE)
        else {
            return Ok(());
        };
        let pause = SignedDuration::from_secs(1 << (count - FREE).min(DOUBLINGS));
        let passed = self.clock.now().duration_since(at);
        if passed < SignedDuration::ZERO || passed >= pause {
            return Ok(());
        }
        let left = pause - passed;
        let whole = u64::try_from(left.as_secs()).unwrap_or_default();
        Err(whole + u64::from(left.subsec_nanos() > 0))
    }

    /// Notes whether the password of an account was right.
    pub fn tried(&self, account: [u8; 32], source: Source, is_right: bool) {
        let mut accounts = locked(&self.accounts);
        if is_right {
            accounts.remove(&(account, source));
            return;
        }
        let now = self.clock.now();
        let is_recent = |failures: &Failures| now.duration_since(failures.at) < FORGET;
        make_room(&mut accounts, is_recent);
        let before = accounts
            .get(&(account, source))
            .filter(|failures| is_recent(failures));
        let count = before
            .map_or(0, |failures| failures.count)
            .saturating_add(1);
        accounts.insert((account, source), Failures { count, at: now });
    }
}

/// Forgets what is over where there is no room; where nothing is, one that is there makes room.
fn make_room<K: Copy + Eq + Hash, V>(map: &mut HashMap<K, V>, is_of_use: impl Fn(&V) -> bool) {
    if map.len() < MOST {
        return;
    }
    map.retain(|_, value| is_of_use(value));
    if map.len() >= MOST
        && let Some(any) = map.keys().next().copied()
    {
        map.remove(&any);
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
pub(super) mod tests {
    use super::{Allowance, Attempts, MOST, Source};
    use futures::future::BoxFuture;
    use jiff::Timestamp;
    use std::net::IpAddr;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicI64, Ordering};
    use std::time::Duration;
    use vnfm_core::ports::Clock;

    /// A clock that a test moves on.
    #[derive(Default)]
    pub(crate) struct Moved(pub(crate) AtomicI64);

    impl Clock for Moved {
        fn now(&self) -> Timestamp {
            Timestamp::from_second(self.0.load(Ordering::SeqCst)).unwrap()
        }
        fn sleep(&self, _: Duration) -> BoxFuture<'static, ()> {
            Box::pin(std::future::pending())
        }
    }

    fn source(text: &str) -> Source {
        Source::of(Some(text.parse::<IpAddr>().unwrap()))
    }

    fn attempts(burst: u32) -> (Arc<Moved>, Attempts) {
        let clock = Arc::new(Moved::default());
        (
            clock.clone(),
            Attempts::new(
                Allowance {
                    per_second: 2,
                    burst,
                },
                clock,
            ),
        )
    }

    #[test]
    fn an_address_that_is_refused_too_often_waits_and_no_other() {
        let (clock, attempts) = attempts(3);
        let (here, there) = (source("192.0.2.1"), source("192.0.2.2"));
        assert_eq!(
            [(); 4].map(|()| attempts.refused(here)),
            [Ok(()), Ok(()), Ok(()), Err(1)]
        );
        assert_eq!(
            (attempts.left(here), attempts.left(there)),
            (Err(1), Ok(()))
        );
        clock.0.fetch_add(1, Ordering::SeqCst);
        assert_eq!(
            [(); 3].map(|()| attempts.refused(here)),
            [Ok(()), Ok(()), Err(1)]
        );
    }

    #[test]
    fn wrong_passwords_cost_a_pause_at_that_address_and_a_right_one_ends_it() {
        let (clock, attempts) = attempts(100);
        let (here, there, account) = (source("192.0.2.1"), source("192.0.2.2"), [7; 32]);
        for _ in 0..3 {
            assert_eq!(attempts.may_try(&account, here), Ok(()));
            attempts.tried(account, here, false);
        }
        assert_eq!(attempts.may_try(&account, here), Err(1));
        assert_eq!(
            attempts.may_try(&account, there),
            Ok(()),
            "nobody is locked out"
        );
        assert_eq!(attempts.may_try(&[8; 32], here), Ok(()));
        clock.0.fetch_add(1, Ordering::SeqCst);
        assert_eq!(attempts.may_try(&account, here), Ok(()));
        attempts.tried(account, here, false);
        assert_eq!(attempts.may_try(&account, here), Err(2));
        for _ in 0..100 {
            attempts.tried(account, here, false);
        }
        assert_eq!(
            attempts.may_try(&account, here),
            Err(64),
            "it does not grow for ever"
        );
        clock.0.fetch_sub(1_000, Ordering::SeqCst);
        assert_eq!(
            attempts.may_try(&account, here),
            Ok(()),
            "a clock that was put back"
        );
        attempts.tried(account, here, true);
        attempts.tried(account, here, false);
        assert_eq!(attempts.may_try(&account, here), Ok(()));
    }

    #[test]
    fn what_is_remembered_has_a_bound() {
        let (_, attempts) = attempts(100);
        for number in 0..u32::try_from(MOST + 100).unwrap() {
            let mut account = [0; 32];
            account[..4].copy_from_slice(&number.to_le_bytes());
            attempts.tried(account, source("192.0.2.1"), false);
            let address = IpAddr::from(number.to_be_bytes());
            let _ = attempts.refused(Source::of(Some(address)));
        }
        assert_eq!(super::locked(&attempts.accounts).len(), MOST);
        assert!(super::locked(&attempts.sources).len() <= MOST);
    }

    #[test]
    fn a_network_of_ipv6_is_one_source() {
        assert_eq!(source("2001:db8::1"), source("2001:db8::ffff:2"));
        assert_ne!(source("2001:db8::1"), source("2001:db8:0:1::1"));
        assert_eq!(source("::ffff:192.0.2.1"), source("192.0.2.1"));
    }
}
