//! A copy of a cluster's objects, and the return to it.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::Cluster;
use super::apply::Owners;
use super::objects::Key;

impl Cluster {
    /// All objects, each with its kind, namespace and name.
    pub(crate) fn snapshot(&self) -> Value {
        let store = self.store();
        let one = |(key, body): (&Key, &std::sync::Arc<Value>)| {
            json!([key.kind, key.namespace, key.name, **body])
        };
        store.all().map(one).collect()
    }

    /// Makes the objects those of a snapshot.
    pub(crate) fn restore(&self, snapshot: &Value) {
        let mut store = self.store();
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let all = snapshot.as_array().into_iter().flatten();
        let all = all.map(|one| {
            (
                Key::new(&text(&one[0]), &text(&one[1]), &text(&one[2])),
                one[3].clone(),
            )
        });
        let all: Vec<_> = all.collect();
        let known: BTreeSet<_> = all.iter().map(|(key, _)| key.clone()).collect();
        let new: Vec<_> = store
            .all()
            .map(|(key, _)| key.clone())
            .filter(|key| !known.contains(key))
            .collect();
        for key in new {
            store.remove(&key);
        }
        for (key, body) in all {
            store.put(&key, body, Owners::default());
        }
    }
}
