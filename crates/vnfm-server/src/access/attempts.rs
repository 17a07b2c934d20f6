//! Limits before a caller is authenticated: each address has a bucket for refused logins, and each account at each
//! address a delay that doubles with every wrong password. This slows down guessing and flooding without locking
//! anyone out: the right password from another address is accepted at once.

use crate::client_address::Source;
use jiff::{SignedDuration, Timestamp};
use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use vnfm_core::ports::Clock;

/// Allowed refused logins per address: rate and burst.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Allowance {
    /// Average number of attempts per second.
    pub per_second: u32,
    /// Number of attempts that are allowed at once.
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

/// Maximum number of remembered sources, and of accounts at sources.
const MAX_ENTRIES: usize = 10_000;
/// Wrong passwords without a delay.
const FREE_FAILURES: u32 = 3;
/// The longest delay, as doublings of one second.
const MAX_DOUBLINGS: u32 = 6;
/// How long after its last wrong password an account at a source is forgotten.
const FORGET_AFTER: SignedDuration = SignedDuration::from_mins(15);

/// Login attempts that were refused recently, by source.
pub(crate) struct Attempts {
    clock: Arc<dyn Clock>,
    allowance: Allowance,
    sources: Mutex<HashMap<Source, Refusals>>,
    accounts: Mutex<HashMap<([u8; 32], Source), Failures>>,
}

/// The used part of a source's allowance, in thousandths of a login, at a time.
#[derive(Clone, Copy)]
struct Refusals {
    used: u64,
    at: Timestamp,
}

/// Wrong passwords of one account at one source.
#[derive(Clone, Copy)]
struct Failures {
    count: u32,
    at: Timestamp,
}

impl Attempts {
    /// A record without refused logins, as at startup.
    pub(crate) fn new(allowance: Allowance, clock: Arc<dyn Clock>) -> Self {
        Self {
            clock,
            allowance,
            sources: Mutex::default(),
            accounts: Mutex::default(),
        }
    }

    /// Whether the source has allowance left.
    ///
    /// # Errors
    ///
    /// The seconds to wait, if not.
    pub(crate) fn check(&self, source: Source) -> Result<(), u64> {
        let used = self.used(locked(&self.sources).get(&source).copied());
        let limit = u64::from(self.allowance.burst) * 1_000;
        let over = (used + 1_000).saturating_sub(limit);
        if over == 0 {
            return Ok(());
        }
        Err(over.div_ceil(u64::from(self.allowance.per_second.max(1)) * 1_000))
    }

    /// Counts a refused login of a source.
    ///
    /// # Errors
    ///
    /// As [`Self::check`]; it is not counted then.
    pub(crate) fn record_refusal(&self, source: Source) -> Result<(), u64> {
        self.check(source)?;
        let now = self.clock.now();
        let mut sources = locked(&self.sources);
        make_room(&mut sources, |refusals| self.used(Some(*refusals)) > 0);
        let used = self.used(sources.get(&source).copied()) + 1_000;
        sources.insert(source, Refusals { used, at: now });
        Ok(())
    }

    /// The used part of a source's allowance now; zero if the clock was set back.
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
    /// The seconds to wait after too many wrong ones.
    pub(crate) fn check_password_allowed(
        &self,
        account: &[u8; 32],
        source: Source,
    ) -> Result<(), u64> {
        let failures = locked(&self.accounts).get(&(*account, source)).copied();
        let Some(Failures { count, at }) =
            failures.filter(|failures| failures.count >= FREE_FAILURES)
        else {
            return Ok(());
        };
        let delay = SignedDuration::from_secs(1 << (count - FREE_FAILURES).min(MAX_DOUBLINGS));
        let passed = self.clock.now().duration_since(at);
        if passed < SignedDuration::ZERO || passed >= delay {
            return Ok(());
        }
        let left = delay - passed;
        let seconds = u64::try_from(left.as_secs()).unwrap_or_default();
        Err(seconds + u64::from(left.subsec_nanos() > 0))
    }

    /// Records whether a password of an account was right.
    pub(crate) fn record(&self, account: [u8; 32], source: Source, is_right: bool) {
        let mut accounts = locked(&self.accounts);
        if is_right {
            accounts.remove(&(account, source));
            return;
        }
        let now = self.clock.now();
        let is_recent = |failures: &Failures| now.duration_since(failures.at) < FORGET_AFTER;
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

/// If the map is full, removes outdated entries; if there are none, any entry.
fn make_room<K: Copy + Eq + Hash, V>(map: &mut HashMap<K, V>, is_current: impl Fn(&V) -> bool) {
    if map.len() < MAX_ENTRIES {
        return;
    }
    map.retain(|_, value| is_current(value));
    if map.len() >= MAX_ENTRIES
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
    use super::{Allowance, Attempts, MAX_ENTRIES, Source};
    use futures::future::BoxFuture;
    use jiff::Timestamp;
    use std::net::IpAddr;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicI64, Ordering};
    use std::time::Duration;
    use vnfm_core::ports::Clock;

    /// A clock that the test advances.
    #[derive(Default)]
    pub(crate) struct ManualClock(pub(crate) AtomicI64);

    impl Clock for ManualClock {
        fn now(&self) -> Timestamp {
            Timestamp::from_second(self.0.load(Ordering::SeqCst)).unwrap()
        }
        fn sleep(&self, _: Duration) -> BoxFuture<'static, ()> {
            Box::pin(std::future::pending())
        }
    }

    fn source(text: &str) -> Source {
        Source::from_address(Some(text.parse::<IpAddr>().unwrap()))
    }

    fn attempts(burst: u32) -> (Arc<ManualClock>, Attempts) {
        let clock = Arc::new(ManualClock::default());
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
    fn only_the_address_with_too_many_refused_logins_waits() {
        let (clock, attempts) = attempts(3);
        let (here, there) = (source("192.0.2.1"), source("192.0.2.2"));
        assert_eq!(
            [(); 4].map(|()| attempts.record_refusal(here)),
            [Ok(()), Ok(()), Ok(()), Err(1)]
        );
        assert_eq!(
            (attempts.check(here), attempts.check(there)),
            (Err(1), Ok(()))
        );
        clock.0.fetch_add(1, Ordering::SeqCst);
        assert_eq!(
            [(); 3].map(|()| attempts.record_refusal(here)),
            [Ok(()), Ok(()), Err(1)]
        );
    }

    #[test]
    fn wrong_passwords_delay_their_address_until_a_right_one() {
        let (clock, attempts) = attempts(100);
        let (here, there, account) = (source("192.0.2.1"), source("192.0.2.2"), [7; 32]);
        for _ in 0..3 {
            assert_eq!(attempts.check_password_allowed(&account, here), Ok(()));
            attempts.record(account, here, false);
        }
        assert_eq!(attempts.check_password_allowed(&account, here), Err(1));
        assert_eq!(
            attempts.check_password_allowed(&account, there),
            Ok(()),
            "other addresses are not locked out"
        );
        assert_eq!(attempts.check_password_allowed(&[8; 32], here), Ok(()));
        clock.0.fetch_add(1, Ordering::SeqCst);
        assert_eq!(attempts.check_password_allowed(&account, here), Ok(()));
        attempts.record(account, here, false);
        assert_eq!(attempts.check_password_allowed(&account, here), Err(2));
        for _ in 0..100 {
            attempts.record(account, here, false);
        }
        assert_eq!(
            attempts.check_password_allowed(&account, here),
            Err(64),
            "the delay is bounded"
        );
        clock.0.fetch_sub(1_000, Ordering::SeqCst);
        assert_eq!(
            attempts.check_password_allowed(&account, here),
            Ok(()),
            "a clock set back"
        );
        attempts.record(account, here, true);
        attempts.record(account, here, false);
        assert_eq!(attempts.check_password_allowed(&account, here), Ok(()));
    }

    #[test]
    fn the_number_of_remembered_attempts_is_bounded() {
        let (_, attempts) = attempts(100);
        for number in 0..u32::try_from(MAX_ENTRIES + 100).unwrap() {
            let mut account = [0; 32];
            account[..4].copy_from_slice(&number.to_le_bytes());
            attempts.record(account, source("192.0.2.1"), false);
            let address = IpAddr::from(number.to_be_bytes());
            let _ = attempts.record_refusal(Source::from_address(Some(address)));
        }
        assert_eq!(super::locked(&attempts.accounts).len(), MAX_ENTRIES);
        assert!(super::locked(&attempts.sources).len() <= MAX_ENTRIES);
    }

    #[test]
    fn a_network_of_ipv6_is_one_source() {
        assert_eq!(source("2001:db8::1"), source("2001:db8::ffff:2"));
        assert_ne!(source("2001:db8::1"), source("2001:db8:0:1::1"));
        assert_eq!(source("::ffff:192.0.2.1"), source("192.0.2.1"));
    }
}
