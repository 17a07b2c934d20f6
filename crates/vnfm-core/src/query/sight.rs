//! What somebody sees of what a tenant has, where that is not all of it.
//!
//! | of what | seen by somebody who is narrowed to |
//! |---|---|
//! | instances | vendors: of one of them; VIMs, namespaces: that live nowhere yet, or in one of them |
//! | operations | those of the instances that are seen; VIMs, namespaces: where the instance lived in one of them then, too |
//! | packages | vendors: of one of them |
//! | subscriptions | those that were made by somebody who is narrowed in the same way |
//! | notifications | those of instances that were seen when they were written |
//!
//! A store compiles it to a condition, as it does with a [`Filter`](super::Filter).

use crate::ports::{About, Home};
use serde::{Deserialize, Serialize};

/// What somebody is narrowed to; an empty list does not narrow.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Sight {
    /// Ids of VIMs.
    pub vims: Vec<String>,
    /// Namespaces of Kubernetes.
    pub namespaces: Vec<String>,
    /// Vendors, as `vnfProvider` spells them.
    pub vendors: Vec<String>,
}

impl Sight {
    /// True where nothing is narrowed.
    pub fn is_whole(&self) -> bool {
        self.vims.is_empty() && self.namespaces.is_empty() && self.vendors.is_empty()
    }

    /// Whether something of an instance is seen that was as `about` says.
    pub fn sees(&self, about: &About) -> bool {
        let by_place = match &about.lives {
            _ if self.vims.is_empty() && self.namespaces.is_empty() => true,
            // It is not known where it lived.
            None => false,
            Some(homes) => self.sees_all(homes),
        };
        by_place && self.is_among_vendors(&about.vnf_provider)
    }

    /// Whether every one of these places is seen.
    pub fn sees_all(&self, homes: &[Home]) -> bool {
        homes.iter().all(|home| {
            let namespace = home.namespace.as_deref().unwrap_or_default();
            self.is_among_vims(&home.vim_id) && is_among(&self.namespaces, namespace)
        })
    }

    /// Whether a VIM is seen, by its id.
    pub fn is_among_vims(&self, id: &str) -> bool {
        is_among(&self.vims, id)
    }

    /// Whether what a vendor made is seen.
    pub fn is_among_vendors(&self, vendor: &str) -> bool {
        is_among(&self.vendors, vendor)
    }
}

fn is_among(names: &[String], name: &str) -> bool {
    names.is_empty() || names.iter().any(|one| one == name)
}

#[cfg(test)]
mod tests {
    use super::Sight;
    use crate::ports::{About, Home};

    #[test]
    fn what_lives_elsewhere_or_is_of_somebody_else_is_not_seen() {
        let lives = |vim: &str, namespace: Option<&str>| {
            let namespace = namespace.map(str::to_owned);
            Some(vec![Home {
                vim_id: vim.into(),
                namespace,
            }])
        };
        let about = |lives| About {
            vnf_provider: "Acme".into(),
            lives,
            ..About::default()
        };
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        let of = |vims: &[&str], namespaces: &[&str], vendors: &[&str]| Sight {
            vims: names(vims),
            namespaces: names(namespaces),
            vendors: names(vendors),
        };
        let here = about(lives("v1", Some("web")));
        assert!(Sight::default().sees(&here) && Sight::default().is_whole());
        assert!(of(&["v1"], &["web"], &["Acme"]).sees(&here));
        for other in [
            of(&["v2"], &[], &[]),
            of(&[], &["db"], &[]),
            of(&[], &[], &["Other"]),
        ] {
            assert!(!other.sees(&here) && !other.is_whole(), "{other:?}");
        }
        assert!(
            of(&["v1"], &["web"], &[]).sees(&about(Some(Vec::new()))),
            "it lives nowhere"
        );
        assert!(
            !of(&["v1"], &[], &[]).sees(&about(None)),
            "nobody knows where"
        );
        assert!(of(&[], &[], &["Acme"]).sees(&about(None)));
        assert!(
            !of(&[], &["web"], &[]).sees(&about(lives("v1", None))),
            "in one of its own"
        );
        assert!(
            !of(&["v1"], &[], &[]).sees(&about(lives("", None))),
            "with a login of its own"
        );
    }
}
