//! Visibility scopes: limit a caller to part of a tenant's data.
//!
//! | resource | visible in a scope that is limited by |
//! |---|---|
//! | instances | vendors: those of a listed vendor; VIMs, namespaces: those that live nowhere yet, or in a listed one |
//! | operations | as their instance; VIMs, namespaces: also the place where the instance lived at that time must be listed |
//! | packages | vendors: those of a listed vendor |
//! | subscriptions, snapshots | those created in an equal scope |
//! | notifications | those about instances that were visible when they were written |
//!
//! A store compiles a scope to a condition, like a [`Filter`](super::Filter).

use crate::ports::{EventScope, InstanceLocation};
use serde::{Deserialize, Serialize};

/// The limits of a caller; an empty list does not limit.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct VisibilityScope {
    /// Ids of the registered VIMs that the caller may see.
    pub vims: Vec<String>,
    /// Names of the Kubernetes namespaces that the caller may see.
    pub namespaces: Vec<String>,
    /// Vendors, as spelled in `vnfProvider`.
    pub vendors: Vec<String>,
}

impl VisibilityScope {
    /// True if nothing is limited.
    pub fn is_unlimited(&self) -> bool {
        self.vims.is_empty() && self.namespaces.is_empty() && self.vendors.is_empty()
    }

    /// Whether events about an instance with these properties are visible.
    pub fn sees(&self, about: &EventScope) -> bool {
        let by_place = match &about.lives {
            _ if self.vims.is_empty() && self.namespaces.is_empty() => true,
            // It is not known where it lived.
            None => false,
            Some(homes) => self.sees_locations(homes),
        };
        by_place && self.is_among_vendors(&about.vnf_provider)
    }

    /// Whether all of these locations are visible.
    pub fn sees_locations(&self, homes: &[InstanceLocation]) -> bool {
        homes.iter().all(|home| {
            let namespace = home.namespace.as_deref().unwrap_or_default();
            self.is_among_vims(&home.vim_id) && is_among(&self.namespaces, namespace)
        })
    }

    /// Whether the VIM with this id is visible.
    pub fn is_among_vims(&self, id: &str) -> bool {
        is_among(&self.vims, id)
    }

    /// Whether products of this vendor are visible.
    pub fn is_among_vendors(&self, vendor: &str) -> bool {
        is_among(&self.vendors, vendor)
    }
}

fn is_among(names: &[String], name: &str) -> bool {
    names.is_empty() || names.iter().any(|one| one == name)
}

#[cfg(test)]
mod tests {
    use super::VisibilityScope;
    use crate::ports::{EventScope, InstanceLocation};

    #[test]
    fn instances_on_other_vims_or_of_other_vendors_are_not_visible() {
        let lives = |vim: &str, namespace: Option<&str>| {
            let namespace = namespace.map(str::to_owned);
            Some(vec![InstanceLocation {
                vim_id: vim.into(),
                namespace,
            }])
        };
        let about = |lives| EventScope {
            vnf_provider: "Acme".into(),
            lives,
            ..EventScope::default()
        };
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        let scope = |vims: &[&str], namespaces: &[&str], vendors: &[&str]| VisibilityScope {
            vims: names(vims),
            namespaces: names(namespaces),
            vendors: names(vendors),
        };
        let here = about(lives("v1", Some("web")));
        assert!(
            VisibilityScope::default().sees(&here) && VisibilityScope::default().is_unlimited()
        );
        assert!(scope(&["v1"], &["web"], &["Acme"]).sees(&here));
        for other in [
            scope(&["v2"], &[], &[]),
            scope(&[], &["db"], &[]),
            scope(&[], &[], &["Other"]),
        ] {
            assert!(!other.sees(&here) && !other.is_unlimited(), "{other:?}");
        }
        assert!(
            scope(&["v1"], &["web"], &[]).sees(&about(Some(Vec::new()))),
            "it lives nowhere"
        );
        assert!(
            !scope(&["v1"], &[], &[]).sees(&about(None)),
            "location unknown"
        );
        assert!(scope(&[], &[], &["Acme"]).sees(&about(None)));
        assert!(
            !scope(&[], &["web"], &[]).sees(&about(lives("v1", None))),
            "in its own namespace"
        );
        assert!(
            !scope(&["v1"], &[], &[]).sees(&about(lives("", None))),
            "inline connection"
        );
    }
}
