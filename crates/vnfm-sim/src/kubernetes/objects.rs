//! The object store of a cluster: kinds, versioned objects, and the change log that watches read.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use serde_json::{Value, json};
use tokio::sync::watch;
use uuid::Uuid;

use super::apply::Owners;
use crate::time::now;

#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::struct_field_names, reason = "`kind` is the word of the API")]
pub(crate) struct Kind {
    pub(crate) group: String,
    pub(crate) version: String,
    pub(crate) kind: String,
    pub(crate) plural: String,
    pub(crate) namespaced: bool,
}

impl Kind {
    /// Group and version in one: `v1`, `apps/v1`.
    pub(crate) fn api_version(&self) -> String {
        if self.group.is_empty() {
            self.version.clone()
        } else {
            format!("{}/{}", self.group, self.version)
        }
    }

    /// `pods`, `deployments.apps`, as in error messages.
    pub(crate) fn qualified(&self) -> String {
        if self.group.is_empty() {
            self.plural.clone()
        } else {
            format!("{}.{}", self.plural, self.group)
        }
    }
}

/// Identifies an object in its cluster.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Key {
    /// Qualified name of the kind: `pods`, `deployments.apps`.
    pub(crate) kind: String,
    pub(crate) namespace: String,
    pub(crate) name: String,
}

impl Key {
    pub(crate) fn new(kind: &str, namespace: &str, name: &str) -> Self {
        Self {
            kind: kind.to_owned(),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        }
    }
}

/// A change, as a watch reports it.
#[derive(Debug, Clone)]
pub(crate) struct Change {
    pub(crate) version: u64,
    pub(crate) kind: String,
    pub(crate) before: Option<Arc<Value>>,
    pub(crate) after: Option<Arc<Value>>,
}

/// An object and its field owners.
#[derive(Debug, Clone, Default)]
pub(crate) struct Stored {
    pub(crate) body: Arc<Value>,
    pub(crate) owners: Owners,
}

pub(crate) struct Store {
    pub(crate) kinds: Vec<Arc<Kind>>,
    objects: BTreeMap<Key, Stored>,
    pub(crate) version: u64,
    log: VecDeque<Change>,
    oldest: u64,
    changed: watch::Sender<u64>,
    addresses: u32,
    /// Addresses without a working kubelet.
    silent: BTreeSet<String>,
    /// Whether images that were missing or crashed work now.
    pub(crate) images_fixed: bool,
    /// The text on volumes and in volume snapshots, by the UID of the claim or of the snapshot.
    pub(crate) disks: BTreeMap<String, String>,
}

const LOG_LENGTH: usize = 20_000;

impl Store {
    /// An empty store with the built-in kinds.
    pub(crate) fn new() -> Self {
        let kind = |&(group, kind, plural, namespaced): &(&str, &str, &str, bool)| {
            let version = if group == "autoscaling" { "v2" } else { "v1" };
            Arc::new(Kind {
                group: group.into(),
                version: version.into(),
                kind: kind.into(),
                plural: plural.into(),
                namespaced,
            })
        };
        Self {
            kinds: KINDS.iter().map(kind).collect(),
            objects: BTreeMap::new(),
            version: 1,
            log: VecDeque::new(),
            oldest: 1,
            changed: watch::Sender::new(1),
            addresses: 0,
            silent: BTreeSet::new(),
            images_fixed: false,
            disks: BTreeMap::new(),
        }
    }

    /// Changes whenever the store does.
    pub(crate) fn subscribe(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }

    /// The kind in an API path.
    pub(crate) fn kind(&self, group: &str, version: &str, plural: &str) -> Option<Arc<Kind>> {
        self.kinds
            .iter()
            .find(|k| k.group == group && k.version == version && k.plural == plural)
            .cloned()
    }

    /// The kind of a manifest.
    pub(crate) fn kind_of(&self, body: &Value) -> Option<Arc<Kind>> {
        self.kinds
            .iter()
            .find(|k| {
                body["apiVersion"] == k.api_version().as_str() && body["kind"] == k.kind.as_str()
            })
            .cloned()
    }

    pub(crate) fn get(&self, key: &Key) -> Option<&Arc<Value>> {
        self.objects.get(key).map(|stored| &stored.body)
    }

    pub(crate) fn stored(&self, key: &Key) -> Option<&Stored> {
        self.objects.get(key)
    }

    /// The objects of a kind in one namespace, or in all if it is empty.
    pub(crate) fn list<'a>(
        &'a self,
        kind: &str,
        namespace: &str,
    ) -> impl Iterator<Item = (&'a Key, &'a Arc<Value>)> + use<'a> {
        let start = Key::new(kind, namespace, "");
        let (kind, namespace) = (kind.to_owned(), namespace.to_owned());
        self.objects
            .range(start..)
            .take_while(move |(key, _)| {
                key.kind == kind && (namespace.is_empty() || key.namespace == namespace)
            })
            .map(|(key, stored)| (key, &stored.body))
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = (&Key, &Arc<Value>)> {
        self.objects.iter().map(|(key, stored)| (key, &stored.body))
    }

    /// Writes an object with the server's metadata (UID, times, version) and notifies the watches.
    pub(crate) fn put(&mut self, key: &Key, mut body: Value, owners: Owners) -> Arc<Value> {
        let before = self.objects.get(key).map(|stored| Arc::clone(&stored.body));
        let (uid, created) = match &before {
            Some(old) => (
                old["metadata"]["uid"].clone(),
                old["metadata"]["creationTimestamp"].clone(),
            ),
            None => (json!(Uuid::new_v4().to_string()), json!(now())),
        };
        self.version += 1;
        let managed = owners.managed_fields(body["apiVersion"].as_str().unwrap_or_default());
        let meta = &mut body["metadata"];
        meta["name"] = json!(key.name);
        if !key.namespace.is_empty() {
            meta["namespace"] = json!(key.namespace);
        }
        (meta["uid"], meta["creationTimestamp"]) = (uid, created);
        meta["resourceVersion"] = json!(self.version.to_string());
        if owners.is_empty() {
            meta.as_object_mut()
                .map(|meta| meta.remove("managedFields"));
        } else {
            meta["managedFields"] = managed;
        }
        let after = Arc::new(body);
        self.objects.insert(
            key.clone(),
            Stored {
                body: Arc::clone(&after),
                owners,
            },
        );
        self.notify(Change {
            version: self.version,
            kind: key.kind.clone(),
            before,
            after: Some(Arc::clone(&after)),
        });
        after
    }

    /// Writes an object if `change` changes it; field owners stay the same.
    pub(crate) fn update(&mut self, key: &Key, change: impl FnOnce(&mut Value)) {
        let Some(stored) = self.objects.get(key).cloned() else {
            return;
        };
        let mut body = (*stored.body).clone();
        change(&mut body);
        if body != *stored.body {
            self.put(key, body, stored.owners);
        }
    }

    /// Removes an object immediately, and notifies the watches.
    pub(crate) fn remove(&mut self, key: &Key) -> Option<Arc<Value>> {
        let before = self.objects.remove(key)?.body;
        self.version += 1;
        let mut last = (*before).clone();
        last["metadata"]["resourceVersion"] = json!(self.version.to_string());
        let last = Arc::new(last);
        self.notify(Change {
            version: self.version,
            kind: key.kind.clone(),
            before: Some(Arc::clone(&last)),
            after: None,
        });
        if key.kind == "customresourcedefinitions.apiextensions.k8s.io" {
            self.unregister_kind(&before);
        }
        Some(last)
    }

    /// Deletes as the API does: immediately, or only by a mark if finalizers or a kubelet have to act first.
    pub(crate) fn delete(
        &mut self,
        key: &Key,
        foreground: bool,
        now_gone: bool,
    ) -> Option<Arc<Value>> {
        let body = Arc::clone(self.get(key)?);
        let graceful = key.kind == "pods" && !now_gone;
        let waits = key.kind == "namespaces" || graceful || foreground || has_finalizers(&body);
        if !waits {
            return self.remove(key);
        }
        self.update(key, |body| {
            let meta = &mut body["metadata"];
            if meta["deletionTimestamp"].is_null() {
                meta["deletionTimestamp"] = json!(now());
                let grace = if graceful {
                    body["spec"]["terminationGracePeriodSeconds"]
                        .as_i64()
                        .unwrap_or(30)
                } else {
                    0
                };
                body["metadata"]["deletionGracePeriodSeconds"] = json!(grace);
            }
            if foreground && let Some(list) = array(&mut body["metadata"]["finalizers"]) {
                list.push(json!("foregroundDeletion"));
            }
            if key.kind == "namespaces" {
                body["status"] = json!({ "phase": "Terminating" });
            }
        });
        self.get(key).cloned()
    }

    /// The changes of a kind after a version; none if the log no longer holds them.
    pub(crate) fn since(&self, kind: &str, version: u64) -> Option<Vec<Change>> {
        if version + 1 < self.oldest {
            return None;
        }
        let first = self.log.partition_point(|change| change.version <= version);
        Some(
            self.log
                .iter()
                .skip(first)
                .filter(|change| change.kind == kind)
                .cloned()
                .collect(),
        )
    }

    /// Drops the change log, as etcd's compaction does.
    pub(crate) fn compact(&mut self) {
        self.log.clear();
        self.version += 1;
        self.oldest = self.version;
    }

    /// Whether there is no working kubelet at an address.
    pub(crate) fn is_silent(&self, address: &str) -> bool {
        self.silent.contains(address)
    }

    /// Sets whether the kubelet at an address works, and wakes the controllers.
    pub(crate) fn set_silent(&mut self, address: &str, silent: bool) {
        let changed = if silent {
            self.silent.insert(address.to_owned())
        } else {
            self.silent.remove(address)
        };
        if changed {
            self.changed.send_replace(self.version);
        }
    }

    /// Makes all images work, and wakes the controllers.
    pub(crate) fn fix_images(&mut self) {
        self.images_fixed = true;
        self.changed.send_replace(self.version);
    }

    /// Allocates the next cluster IP.
    pub(crate) fn next_address(&mut self) -> String {
        self.addresses += 1;
        format!(
            "10.96.{}.{}",
            self.addresses / 250,
            self.addresses % 250 + 2
        )
    }

    /// Registers the kind of a custom resource definition.
    pub(crate) fn register_kind(&mut self, definition: &Value) {
        let spec = &definition["spec"];
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        for version in spec["versions"].as_array().into_iter().flatten() {
            let kind = Kind {
                group: text(&spec["group"]),
                version: text(&version["name"]),
                kind: text(&spec["names"]["kind"]),
                plural: text(&spec["names"]["plural"]),
                namespaced: spec["scope"] == "Namespaced",
            };
            if !self.kinds.iter().any(|known| **known == kind) {
                self.kinds.push(Arc::new(kind));
            }
        }
    }

    fn unregister_kind(&mut self, definition: &Value) {
        let (group, plural) = (
            definition["spec"]["group"].clone(),
            definition["spec"]["names"]["plural"].clone(),
        );
        let qualified = format!(
            "{}.{}",
            plural.as_str().unwrap_or_default(),
            group.as_str().unwrap_or_default()
        );
        let doomed: Vec<Key> = self
            .objects
            .keys()
            .filter(|key| key.kind == qualified)
            .cloned()
            .collect();
        for key in doomed {
            self.remove(&key);
        }
        self.kinds.retain(|kind| kind.qualified() != qualified);
    }

    fn notify(&mut self, change: Change) {
        let version = change.version;
        self.log.push_back(change);
        if self.log.len() > LOG_LENGTH {
            self.oldest = self
                .log
                .pop_front()
                .map_or(version, |change| change.version + 1);
        }
        self.changed.send_replace(version);
    }
}

pub(crate) fn has_finalizers(body: &Value) -> bool {
    body["metadata"]["finalizers"]
        .as_array()
        .is_some_and(|list| !list.is_empty())
}

/// A member as a list, created if absent.
pub(crate) fn array(value: &mut Value) -> Option<&mut Vec<Value>> {
    if value.is_null() {
        *value = json!([]);
    }
    value.as_array_mut()
}

const RBAC: &str = "rbac.authorization.k8s.io";
const STORAGE: &str = "storage.k8s.io";

/// Group, kind, plural, whether it is namespaced.
const KINDS: [(&str, &str, &str, bool); 35] = [
    ("", "Namespace", "namespaces", false),
    ("", "ConfigMap", "configmaps", true),
    ("", "Secret", "secrets", true),
    ("", "Service", "services", true),
    ("", "ServiceAccount", "serviceaccounts", true),
    ("", "Pod", "pods", true),
    ("", "Node", "nodes", false),
    ("", "PersistentVolume", "persistentvolumes", false),
    ("", "PersistentVolumeClaim", "persistentvolumeclaims", true),
    ("", "Event", "events", true),
    ("", "Endpoints", "endpoints", true),
    ("", "LimitRange", "limitranges", true),
    ("", "ResourceQuota", "resourcequotas", true),
    ("", "ReplicationController", "replicationcontrollers", true),
    ("apps", "Deployment", "deployments", true),
    ("apps", "ReplicaSet", "replicasets", true),
    ("apps", "StatefulSet", "statefulsets", true),
    ("apps", "DaemonSet", "daemonsets", true),
    ("batch", "Job", "jobs", true),
    ("batch", "CronJob", "cronjobs", true),
    (RBAC, "Role", "roles", true),
    (RBAC, "RoleBinding", "rolebindings", true),
    (RBAC, "ClusterRole", "clusterroles", false),
    (RBAC, "ClusterRoleBinding", "clusterrolebindings", false),
    ("networking.k8s.io", "Ingress", "ingresses", true),
    ("networking.k8s.io", "IngressClass", "ingressclasses", false),
    (
        "networking.k8s.io",
        "NetworkPolicy",
        "networkpolicies",
        true,
    ),
    (
        "autoscaling",
        "HorizontalPodAutoscaler",
        "horizontalpodautoscalers",
        true,
    ),
    (
        "policy",
        "PodDisruptionBudget",
        "poddisruptionbudgets",
        true,
    ),
    (
        "admissionregistration.k8s.io",
        "ValidatingWebhookConfiguration",
        "validatingwebhookconfigurations",
        false,
    ),
    (STORAGE, "StorageClass", "storageclasses", false),
    (
        "scheduling.k8s.io",
        "PriorityClass",
        "priorityclasses",
        false,
    ),
    ("coordination.k8s.io", "Lease", "leases", true),
    (
        "apiextensions.k8s.io",
        "CustomResourceDefinition",
        "customresourcedefinitions",
        false,
    ),
    ("apiregistration.k8s.io", "APIService", "apiservices", false),
];
