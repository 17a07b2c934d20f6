//! Inventory entries of a cluster and its objects.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering;

use serde_json::{Value, json};

use super::Cluster;
use super::facts::{is_ready, is_terminating};
use super::objects::{Key, Store};
use crate::ledger::{Entry, InventorySource};

impl InventorySource for Cluster {
    fn entries(&self) -> Vec<Entry> {
        let store = self.store();
        let kube_system = Key::new("namespaces", "", "kube-system");
        if store.get(&kube_system).is_none() {
            return Vec::new();
        }
        let mut all = vec![Entry {
            kind: "cluster".into(),
            id: self.name.clone(),
            name: self.name.clone(),
            seeded: self.is_standalone.load(Ordering::SeqCst),
            detail: json!({ "server": self.server() }),
        }];
        let system = self.system_objects(&store);
        for (key, body) in store.all() {
            let uid = body["metadata"]["uid"].as_str().unwrap_or_default();
            let name = if key.namespace.is_empty() {
                key.name.clone()
            } else {
                format!("{}/{}", key.namespace, key.name)
            };
            all.push(Entry {
                kind: format!("object:{}", key.kind),
                id: uid.to_owned(),
                name,
                seeded: system.contains(uid)
                    || self.comes_with_namespace(key)
                    || matches!(key.kind.as_str(), "events" | "nodes"),
                detail: self.detail(key, body),
            });
        }
        all
    }
}

impl Cluster {
    /// Where an object is; of a pod also whether clients of a Service reach it, and of a Service which pods it selects.
    fn detail(&self, key: &Key, body: &Value) -> Value {
        let mut detail = json!({ "cluster": self.name });
        match key.kind.as_str() {
            "pods" => {
                detail["serves"] = json!(is_ready(body) && !is_terminating(body));
                detail["labels"] = body["metadata"]["labels"].clone();
            }
            "services" => detail["selector"] = body["spec"]["selector"].clone(),
            _ => {}
        }
        detail
    }

    /// The UIDs of the seeded objects and of their dependents, two levels deep.
    fn system_objects(&self, store: &Store) -> BTreeSet<String> {
        let seeded = store.all().filter(|(key, _)| self.seeded.contains(*key));
        let mut uids: BTreeSet<String> = seeded
            .map(|(key, body)| {
                let uid = body["metadata"]["uid"].as_str();
                uid.unwrap_or(&key.name).to_owned()
            })
            .collect();
        for _ in 0..2 {
            let owned = store.all().filter(|(_, body)| {
                body["metadata"]["ownerReferences"]
                    .as_array()
                    .into_iter()
                    .flatten()
                    .any(|o| o["uid"].as_str().is_some_and(|uid| uids.contains(uid)))
            });
            let owned: Vec<String> = owned
                .filter_map(|(_, body)| body["metadata"]["uid"].as_str().map(str::to_owned))
                .collect();
            uids.extend(owned);
        }
        uids
    }

    /// Whether it is one of the objects that every namespace gets, in a seeded namespace.
    fn comes_with_namespace(&self, key: &Key) -> bool {
        let object = (key.kind.as_str(), key.name.as_str());
        let created = matches!(
            object,
            ("serviceaccounts", "default") | ("configmaps", "kube-root-ca.crt")
        );
        let namespace = Key::new("namespaces", "", &key.namespace);
        created && self.seeded.contains(&namespace)
    }
}
