//! The plan as it meets the cluster: objects of known kinds, and the state of the namespace.

use crate::catalog::Target;
use crate::item::Item;

/// An object of the plan whose kind was found on the cluster.
#[derive(Debug, Clone)]
pub(crate) struct ResolvedObject {
    pub(crate) item: Item,
    pub(crate) target: Target,
    pub(crate) watchable: bool,
    /// Whether its kind has the subresource `scale`.
    pub(crate) has_scale: bool,
    /// The autoscaler that decides its number of pods, which the object then has as it is.
    pub(crate) autoscaler: Option<String>,
}

/// Whether the VNF's namespace exists, and who created it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NamespaceState {
    Absent,
    /// This instance created the namespace and deletes it.
    Ours,
    /// Existed before, or we may not read it.
    Shared,
}
