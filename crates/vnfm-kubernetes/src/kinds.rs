//! What the cluster serves, as discovery describes it.

use kube::api::ApiResource;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

/// A kind that the cluster serves or will serve.
#[derive(Debug, Clone)]
pub(crate) struct Kind {
    pub(crate) resource: ApiResource,
    pub(crate) namespaced: bool,
    /// Whether it has the subresource `scale`.
    pub(crate) has_scale: bool,
    pub(crate) verbs: Vec<String>,
}

impl Kind {
    /// Whether the API server supports `verb` for it.
    pub(crate) fn can(&self, verb: &str) -> bool {
        self.verbs.iter().any(|known| known == verb)
    }
}

/// Group versions that an API server serves as long as it runs.
const BUILT_IN: &[&str] = &[
    "v1",
    "apps/v1",
    "autoscaling/v2",
    "batch/v1",
    "networking.k8s.io/v1",
    "policy/v1",
    "rbac.authorization.k8s.io/v1",
];

/// Whether an API server serves this group version as long as it runs.
pub(crate) fn is_built_in(api_version: &str) -> bool {
    BUILT_IN.contains(&api_version)
}

/// Kinds by group version.
#[derive(Default)]
pub(crate) struct Groups(Mutex<BTreeMap<String, Arc<Vec<Kind>>>>);

impl Groups {
    pub(crate) fn get(&self, api_version: &str) -> Option<Arc<Vec<Kind>>> {
        let groups = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        groups.get(api_version).cloned()
    }

    pub(crate) fn insert(&self, api_version: &str, kinds: Arc<Vec<Kind>>) {
        let mut groups = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        groups.insert(api_version.to_owned(), kinds);
    }
}

/// A kind that is served, for tests.
#[cfg(test)]
pub(crate) fn kind_for_test(resource: ApiResource, namespaced: bool) -> Kind {
    Kind {
        resource,
        namespaced,
        has_scale: false,
        verbs: Vec::new(),
    }
}
