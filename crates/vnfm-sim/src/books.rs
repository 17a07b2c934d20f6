//! The books: what exists in the world, every call that it served, and what it was asked that it does not know.
//!
//! Two ways lead into the stock list: whoever keeps things in a structure of his own puts it up as a
//! [`Shelf`] and is asked when somebody looks; whoever does not, enters things by [`Books::enter`]
//! and [`Books::strike`]. Checkers read only this: a driver's own word does not count.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// One thing that exists in the world.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Entry {
    /// What it is: `stack`, `server`, `port`, `host`, `cluster`, `object` …
    pub kind: String,
    /// Its id, unique among its kind.
    pub id: String,
    /// Its name for people.
    pub name: String,
    /// Whether it was there from the beginning (or belongs to what was).
    pub seeded: bool,
    /// What else is worth knowing.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub detail: Value,
}

/// One call that the world served.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Call {
    /// Its number, from 1.
    pub n: u64,
    /// When it came in; when it was answered, where that is not known.
    pub since: String,
    /// When it was answered.
    pub at: String,
    /// Who answered: `keystone`, `heat`, `nova`, `kubernetes`, `ssh` …
    pub neighbour: String,
    /// What was asked: `heat.stack_create`, `ssh.run` …
    pub call: String,
    /// On what: a name, an id, a command.
    pub subject: String,
    /// HTTP status, or the exit code of a command; 0 where the connection was cut.
    pub status: i64,
    /// The fault that was played, the user, the error: whatever helps to read the log.
    pub detail: String,
}

/// How a call ended: a status and, optionally, a remark.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Outcome {
    /// HTTP status or exit code.
    pub status: i64,
    /// A remark.
    pub detail: String,
}

impl From<u16> for Outcome {
    fn from(status: u16) -> Self {
        Self {
            status: i64::from(status),
            detail: String::new(),
        }
    }
}

impl From<i64> for Outcome {
    fn from(status: i64) -> Self {
        Self {
            status,
            detail: String::new(),
        }
    }
}

impl<S: Into<String>> From<(i64, S)> for Outcome {
    fn from((status, detail): (i64, S)) -> Self {
        Self {
            status,
            detail: detail.into(),
        }
    }
}

/// Somebody who keeps things and says on demand what there is.
pub trait Shelf: Send + Sync {
    /// Everything that exists on this shelf now.
    fn entries(&self) -> Vec<Entry>;
}

/// The books of one world.
#[derive(Default)]
pub struct Books {
    pages: Mutex<Pages>,
}

#[derive(Default)]
struct Pages {
    entries: BTreeMap<(String, String), Entry>,
    shelves: Vec<Weak<dyn Shelf>>,
    calls: Vec<Call>,
    violations: Vec<String>,
}

impl Books {
    /// Empty books.
    pub fn new() -> Arc<Self> {
        Arc::default()
    }

    /// Writes down a call that was served.
    pub fn record(&self, neighbour: &str, call: &str, subject: &str, outcome: impl Into<Outcome>) {
        self.record_since(None, (neighbour, call, subject), outcome.into());
    }

    /// The same, of a call that came in at a known time.
    pub fn record_since(
        &self,
        since: Option<jiff::Timestamp>,
        (neighbour, call, subject): (&str, &str, &str),
        outcome: Outcome,
    ) {
        let Outcome { status, detail } = outcome;
        let mut pages = self.pages();
        let n = pages.calls.len() as u64 + 1;
        let at = jiff::Timestamp::now();
        let (since, at) = (since.unwrap_or(at).to_string(), at.to_string());
        let (neighbour, call, subject) =
            (neighbour.to_owned(), call.to_owned(), subject.to_owned());
        pages.calls.push(Call {
            n,
            since,
            at,
            neighbour,
            call,
            subject,
            status,
            detail,
        });
    }

    /// Writes down that the world was asked what it does not model, or that a rule of the real one was broken.
    pub fn violation(&self, what: impl Into<String>) {
        let what = what.into();
        tracing::error!(%what, "violation");
        self.pages().violations.push(what);
    }

    /// Enters a thing; an earlier one of the same kind and id is replaced.
    pub fn enter(&self, entry: Entry) {
        self.pages()
            .entries
            .insert((entry.kind.clone(), entry.id.clone()), entry);
    }

    /// Strikes a thing out; nothing happens if it is not there.
    pub fn strike(&self, kind: &str, id: &str) {
        self.pages()
            .entries
            .remove(&(kind.to_owned(), id.to_owned()));
    }

    /// Puts up a shelf, which is asked whenever somebody looks at the stock.
    pub fn shelve(&self, shelf: Weak<dyn Shelf>) {
        self.pages().shelves.push(shelf);
    }

    /// Everything that exists.
    pub fn stock(&self) -> Vec<Entry> {
        let (mut all, shelves) = {
            let pages = self.pages();
            (
                pages.entries.values().cloned().collect::<Vec<_>>(),
                pages.shelves.clone(),
            )
        };
        all.extend(
            shelves
                .iter()
                .filter_map(Weak::upgrade)
                .flat_map(|shelf| shelf.entries()),
        );
        all
    }

    /// Everything that exists and was not there from the beginning.
    pub fn left_behind(&self) -> Vec<Entry> {
        self.stock()
            .into_iter()
            .filter(|entry| !entry.seeded)
            .collect()
    }

    /// Every call so far, in order.
    pub fn calls(&self) -> Vec<Call> {
        self.pages().calls.clone()
    }

    /// The calls whose number is above `number`, in order.
    pub fn calls_after(&self, number: usize) -> Vec<Call> {
        self.pages().calls.iter().skip(number).cloned().collect()
    }

    /// The calls of one name, in order.
    pub fn calls_of(&self, call: &str) -> Vec<Call> {
        self.pages()
            .calls
            .iter()
            .filter(|c| c.call == call)
            .cloned()
            .collect()
    }

    /// What the world was asked and does not know, and which rules were broken.
    pub fn violations(&self) -> Vec<String> {
        self.pages().violations.clone()
    }

    fn pages(&self) -> MutexGuard<'_, Pages> {
        self.pages.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    struct Fixed;

    impl Shelf for Fixed {
        fn entries(&self) -> Vec<Entry> {
            vec![
                entry("network", "provider", true),
                entry("stack", "vnf-1", false),
            ]
        }
    }

    fn entry(kind: &str, name: &str, seeded: bool) -> Entry {
        Entry {
            kind: kind.into(),
            id: name.into(),
            name: name.into(),
            seeded,
            detail: json!(null),
        }
    }

    #[test]
    fn what_was_seeded_is_not_left_behind() {
        let books = Books::new();
        let shelf: Arc<dyn Shelf> = Arc::new(Fixed);
        books.shelve(Arc::downgrade(&shelf));
        books.enter(entry("host", "master", false));
        let left: Vec<_> = books.left_behind().into_iter().map(|e| e.name).collect();
        assert_eq!(left, ["master", "vnf-1"]);
        books.strike("host", "master");
        drop(shelf);
        assert!(books.left_behind().is_empty() && books.stock().is_empty());
    }

    #[test]
    fn calls_are_numbered_in_order() {
        let books = Books::new();
        books.record("ssh", "ssh.run", "uname -a", (1, "no such host"));
        books.record("heat", "heat.stack_create", "vnf-1", 201_u16);
        assert_eq!(
            books
                .calls()
                .iter()
                .map(|c| (c.n, c.status))
                .collect::<Vec<_>>(),
            [(1, 1), (2, 201)]
        );
        assert_eq!(books.calls_of("heat.stack_create").len(), 1);
        let numbers = |after| {
            books
                .calls_after(after)
                .iter()
                .map(|c| c.n)
                .collect::<Vec<_>>()
        };
        assert_eq!(
            (numbers(0), numbers(1), numbers(9)),
            (vec![1, 2], vec![2], vec![])
        );
    }
}
