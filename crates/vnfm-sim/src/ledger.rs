//! The ledger: what exists in the world (inventory), every call that it served, and every violation.
//!
//! The inventory has two inputs: a service that stores its objects itself registers as an [`InventorySource`] and is
//! queried on demand; the others add and remove entries by [`Ledger::add_entry`] and [`Ledger::remove_entry`].
//! Checkers read only the ledger, never what a driver reports about itself.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// An object that exists in the world.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Entry {
    /// `stack`, `server`, `port`, `host`, `cluster`, `object:pods` …
    pub kind: String,
    /// Identifier, unique among the entries of its kind.
    pub id: String,
    /// Display name; several entries may share it.
    pub name: String,
    /// Whether the world started with it, or with the object that it belongs to.
    pub seeded: bool,
    /// Further members, by kind; null if there are none.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub detail: Value,
}

/// A call that the world served.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Call {
    /// Number of the call, counted from 1.
    pub n: u64,
    /// When the request arrived (RFC 3339); equal to `at` if unknown.
    pub since: String,
    /// When the response was sent (RFC 3339).
    pub at: String,
    /// The service: `keystone`, `heat`, `nova`, `kubernetes`, `ssh` …
    pub neighbour: String,
    /// The call's name: `heat.stack_create`, `ssh.run` …
    pub call: String,
    /// The target: a name, an id, a command.
    pub subject: String,
    /// HTTP status, or the exit code of a command; 0 if the connection was cut.
    pub status: i64,
    /// The injected fault, the user or the error message; may be empty.
    pub detail: String,
}

/// The status of a call and an optional remark.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Outcome {
    /// HTTP status, or exit code of a command.
    pub status: i64,
    /// Empty if there is nothing to add.
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

/// A service that lists its objects on demand.
pub trait InventorySource: Send + Sync {
    /// The objects that exist now.
    fn entries(&self) -> Vec<Entry>;
}

/// The inventory, call log and violations of one world.
#[derive(Default)]
pub struct Ledger {
    records: Mutex<Records>,
}

#[derive(Default)]
struct Records {
    entries: BTreeMap<(String, String), Entry>,
    sources: Vec<Weak<dyn InventorySource>>,
    calls: Vec<Call>,
    violations: Vec<String>,
}

impl Ledger {
    /// Starts with no entries, calls or violations.
    pub fn new() -> Arc<Self> {
        Arc::default()
    }

    /// Appends a call to the log.
    pub fn record(&self, neighbour: &str, call: &str, subject: &str, outcome: impl Into<Outcome>) {
        self.record_since(None, (neighbour, call, subject), outcome.into());
    }

    /// As [`Ledger::record`], with the time at which the request arrived.
    pub fn record_since(
        &self,
        since: Option<jiff::Timestamp>,
        (neighbour, call, subject): (&str, &str, &str),
        outcome: Outcome,
    ) {
        let Outcome { status, detail } = outcome;
        let mut records = self.records();
        let n = records.calls.len() as u64 + 1;
        let at = jiff::Timestamp::now();
        let (since, at) = (since.unwrap_or(at).to_string(), at.to_string());
        let (neighbour, call, subject) =
            (neighbour.to_owned(), call.to_owned(), subject.to_owned());
        records.calls.push(Call {
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

    /// Records a request that the world does not model, or that breaks a rule of the real system.
    pub fn record_violation(&self, what: impl Into<String>) {
        let what = what.into();
        tracing::error!(%what, "violation");
        self.records().violations.push(what);
    }

    /// Adds an entry; replaces one of the same kind and id.
    pub fn add_entry(&self, entry: Entry) {
        self.records()
            .entries
            .insert((entry.kind.clone(), entry.id.clone()), entry);
    }

    /// Removes an entry, if it exists.
    pub fn remove_entry(&self, kind: &str, id: &str) {
        self.records()
            .entries
            .remove(&(kind.to_owned(), id.to_owned()));
    }

    /// Registers a source that every read of the inventory queries, as long as it lives.
    pub fn add_source(&self, source: Weak<dyn InventorySource>) {
        self.records().sources.push(source);
    }

    /// The entire inventory, seeded objects included.
    pub fn inventory(&self) -> Vec<Entry> {
        let (mut all, sources) = {
            let records = self.records();
            (
                records.entries.values().cloned().collect::<Vec<_>>(),
                records.sources.clone(),
            )
        };
        all.extend(
            sources
                .iter()
                .filter_map(Weak::upgrade)
                .flat_map(|source| source.entries()),
        );
        all
    }

    /// The inventory without the objects that the world started with.
    pub fn left_behind(&self) -> Vec<Entry> {
        self.inventory()
            .into_iter()
            .filter(|entry| !entry.seeded)
            .collect()
    }

    /// All calls so far, the oldest first.
    pub fn calls(&self) -> Vec<Call> {
        self.records().calls.clone()
    }

    /// The calls with a sequence number above `number`, oldest first.
    pub fn calls_after(&self, number: usize) -> Vec<Call> {
        self.records().calls.iter().skip(number).cloned().collect()
    }

    /// The last calls, at most `count`, oldest first.
    pub fn last_calls(&self, count: usize) -> Vec<Call> {
        let records = self.records();
        let first = records.calls.len().saturating_sub(count);
        records.calls[first..].to_vec()
    }

    /// The calls with this name, oldest first.
    pub fn calls_named(&self, call: &str) -> Vec<Call> {
        self.records()
            .calls
            .iter()
            .filter(|c| c.call == call)
            .cloned()
            .collect()
    }

    /// Requests that the world does not model, and broken rules, oldest first.
    pub fn violations(&self) -> Vec<String> {
        self.records().violations.clone()
    }

    fn records(&self) -> MutexGuard<'_, Records> {
        self.records.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    struct Fixed;

    impl InventorySource for Fixed {
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
    fn seeded_objects_are_not_left_behind() {
        let books = Ledger::new();
        let shelf: Arc<dyn InventorySource> = Arc::new(Fixed);
        books.add_source(Arc::downgrade(&shelf));
        books.add_entry(entry("host", "master", false));
        let left: Vec<_> = books.left_behind().into_iter().map(|e| e.name).collect();
        assert_eq!(left, ["master", "vnf-1"]);
        books.remove_entry("host", "master");
        drop(shelf);
        assert!(books.left_behind().is_empty() && books.inventory().is_empty());
    }

    #[test]
    fn calls_are_numbered_in_order() {
        let books = Ledger::new();
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
        assert_eq!(books.calls_named("heat.stack_create").len(), 1);
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
