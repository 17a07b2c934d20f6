//! Which instances of a VIM are to be observed, and when.
//!
//! ```text
//! event ── marked ── SETTLE_TIME ── observed ── not again within MIN_INTERVAL
//!             └─ marked already: nothing changes
//! ```
//! Bounded: an instance is marked once, and more than [`MAX_MARKED`] are not marked one by one.

use jiff::{SignedDuration, Timestamp};
use std::collections::{BTreeMap, BTreeSet};

/// From the first event of an instance to its observation, which then covers all events until there.
pub(super) const SETTLE_TIME: SignedDuration = SignedDuration::from_secs(2);
/// The shortest time between two observations of an instance.
pub(super) const MIN_INTERVAL: SignedDuration = SignedDuration::from_secs(15);
/// Instances that are marked one by one; with more, every instance of the VIM is.
pub(super) const MAX_MARKED: usize = 10_000;

/// The instances of one VIM that are to be observed, and when.
#[derive(Default)]
pub(super) struct Marks {
    due: BTreeSet<(Timestamp, String)>,
    marked: BTreeSet<String>,
    /// When instances were observed, within the last [`MIN_INTERVAL`].
    observed: BTreeMap<String, Timestamp>,
}

impl Marks {
    /// Marks an instance; false if there is no room for it.
    pub(super) fn mark(&mut self, id: &str, now: Timestamp) -> bool {
        if self.marked.contains(id) {
            return true;
        }
        let again = self.observed.get(id).map(|at| *at + MIN_INTERVAL);
        let due = (now + SETTLE_TIME).max(again.unwrap_or(now));
        self.marked.len() < MAX_MARKED && self.insert(id, due)
    }

    /// Marks an instance again whose observation did not succeed.
    pub(super) fn mark_later(&mut self, id: &str, due: Timestamp) {
        if !self.marked.contains(id) {
            self.insert(id, due);
        }
    }

    fn insert(&mut self, id: &str, due: Timestamp) -> bool {
        self.due.insert((due, id.to_owned())) && self.marked.insert(id.to_owned())
    }

    /// Replaces all marks by these instances, which are bounded by those that exist.
    pub(super) fn mark_all<'a>(&mut self, ids: impl Iterator<Item = &'a String>, now: Timestamp) {
        self.due.clear();
        self.marked.clear();
        for id in ids {
            let again = self.observed.get(id).map(|at| *at + MIN_INTERVAL);
            self.insert(id, (now + SETTLE_TIME).max(again.unwrap_or(now)));
        }
    }

    /// When the next instance is due; `None`: none is marked.
    pub(super) fn next_due(&self) -> Option<Timestamp> {
        self.due.first().map(|(due, _)| *due)
    }

    /// Takes up to `most` instances that are due.
    pub(super) fn take(&mut self, most: usize, now: Timestamp) -> Vec<String> {
        self.observed.retain(|_, at| *at + MIN_INTERVAL > now);
        let mut taken = Vec::new();
        while taken.len() < most
            && self.next_due().is_some_and(|due| due <= now)
            && let Some((_, id)) = self.due.pop_first()
        {
            self.marked.remove(&id);
            self.observed.insert(id.clone(), now);
            taken.push(id);
        }
        taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::new(second, 0).unwrap()
    }

    #[test]
    fn events_of_an_instance_lead_to_one_observation_in_a_while() {
        let mut marks = Marks::default();
        for second in 0..2 {
            assert!(marks.mark("a", at(second)));
        }
        assert_eq!(marks.next_due(), Some(at(2)));
        assert!(marks.take(10, at(1)).is_empty());
        assert_eq!(marks.take(10, at(2)), ["a"]);
        marks.mark("a", at(3));
        assert_eq!(marks.next_due(), Some(at(17)), "not again within 15 s");
        marks.mark("b", at(3));
        assert_eq!(marks.take(1, at(60)), ["b"]);
        assert_eq!(marks.take(1, at(60)), ["a"]);
        assert_eq!(marks.next_due(), None);
    }

    #[test]
    fn marks_are_bounded() {
        let mut marks = Marks::default();
        let ids = (0..MAX_MARKED).map(|number| number.to_string());
        assert!(ids.into_iter().all(|id| marks.mark(&id, at(0))));
        assert!(marks.mark("1", at(0)), "it is marked already");
        assert!(!marks.mark("one more", at(0)));
        let (a, b) = ("a".to_owned(), "b".to_owned());
        marks.mark_all([&a, &b].into_iter(), at(0));
        assert_eq!(marks.take(MAX_MARKED, at(2)), ["a", "b"]);
        assert_eq!(marks.observed.len(), 2);
        marks.take(1, at(100));
        assert!(marks.observed.is_empty());
    }
}
