//! What this process is working on, by name: at most one request works on each.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

/// The names that are being worked on.
#[derive(Default)]
pub(crate) struct InProgress(Mutex<BTreeSet<(String, String)>>);

/// The work on one name; ends when it is dropped.
pub(crate) struct Work {
    all: Arc<InProgress>,
    name: (String, String),
}

impl InProgress {
    /// Begins to work on a tenant's `name`; `None` if another request does.
    pub(crate) fn begin(self: &Arc<Self>, tenant: &str, name: &str) -> Option<Work> {
        let name = (tenant.to_owned(), name.to_owned());
        let is_new = self
            .0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(name.clone());
        let all = self.clone();
        is_new.then(|| Work { all, name })
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        let mut all = self.all.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.remove(&self.name);
    }
}

#[cfg(test)]
mod tests {
    use super::InProgress;
    use std::sync::Arc;

    #[test]
    fn one_request_at_a_time_works_on_a_name() {
        let all = Arc::new(InProgress::default());
        let first = all.begin("a", "x");
        assert!(first.is_some() && all.begin("a", "x").is_none());
        assert!(all.begin("b", "x").is_some(), "another tenant's is another");
        drop(first);
        assert!(all.begin("a", "x").is_some());
    }
}
