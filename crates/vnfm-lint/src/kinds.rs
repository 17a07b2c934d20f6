//! The kinds that Kubernetes serves, by `apiVersion`, and their fields: `kinds.txt`, which a test generates from all
//! versions of Kubernetes that k8s-openapi knows.
//!
//! ```text
//! PodSpec: fields
//! apps/v1 Deployment: fields besides apiVersion, kind and metadata; fields of `spec`, if Kubernetes defines them
//! ```
//! Unlisted groups are accepted, since a cluster may define custom ones.

use std::sync::LazyLock;

/// A kind with its `apiVersion`.
pub(crate) struct Kind {
    pub(crate) api: &'static str,
    pub(crate) name: &'static str,
    /// Its top-level fields in addition to [`COMMON`].
    pub(crate) top: Vec<&'static str>,
    /// The fields of its `spec`; `None` allows any.
    pub(crate) spec: Option<Vec<&'static str>>,
}

/// Top-level fields of every object.
pub(crate) const COMMON: &[&str] = &["apiVersion", "kind", "metadata"];

/// Fields of a pod template.
pub(crate) const TEMPLATE: &[&str] = &["metadata", "spec"];

/// All kinds, sorted by `apiVersion`.
pub(crate) static KINDS: LazyLock<Vec<Kind>> = LazyLock::new(|| {
    let kinds = rows().filter_map(|(row, rest)| {
        let (api, name) = row.split_once(' ')?;
        let (top, spec) = match rest.split_once(';') {
            Some((top, spec)) => (top, Some(words(spec))),
            None => (rest, None),
        };
        let top = words(top);
        Some(Kind {
            api,
            name,
            top,
            spec,
        })
    });
    kinds.collect()
});

pub(crate) static POD: LazyLock<Vec<&str>> = LazyLock::new(|| structure("PodSpec"));
pub(crate) static CONTAINER: LazyLock<Vec<&str>> = LazyLock::new(|| structure("Container"));
pub(crate) static METADATA: LazyLock<Vec<&str>> = LazyLock::new(|| structure("ObjectMeta"));

/// The fields of a structure within objects.
fn structure(name: &str) -> Vec<&'static str> {
    let found = rows().find(|(row, _)| *row == name);
    found.map(|(_, fields)| words(fields)).unwrap_or_default()
}

fn rows() -> impl Iterator<Item = (&'static str, &'static str)> {
    let rows = include_str!("kinds.txt").lines();
    rows.filter_map(|row| row.split_once(':'))
}

fn words(text: &'static str) -> Vec<&'static str> {
    text.split_whitespace().collect()
}

/// Kinds that Kubernetes removed from an `apiVersion`.
pub(crate) const REMOVED: &[(&str, &str)] = &[
    ("networking.k8s.io/v1beta1", "Ingress"),
    ("networking.k8s.io/v1beta1", "IngressClass"),
    ("storage.k8s.io/v1beta1", "StorageClass"),
    ("storage.k8s.io/v1beta1", "CSIDriver"),
    ("storage.k8s.io/v1beta1", "CSINode"),
    ("storage.k8s.io/v1beta1", "VolumeAttachment"),
    (
        "admissionregistration.k8s.io/v1beta1",
        "MutatingWebhookConfiguration",
    ),
    (
        "admissionregistration.k8s.io/v1beta1",
        "ValidatingWebhookConfiguration",
    ),
    ("certificates.k8s.io/v1beta1", "CertificateSigningRequest"),
    ("coordination.k8s.io/v1beta1", "Lease"),
    ("extensions/v1beta1", "Deployment"),
    ("extensions/v1beta1", "DaemonSet"),
    ("extensions/v1beta1", "ReplicaSet"),
    ("extensions/v1beta1", "Ingress"),
    ("extensions/v1beta1", "NetworkPolicy"),
];

/// The group of an `apiVersion`: `apps` for `apps/v1`, empty for `v1`.
pub(crate) fn group(api: &str) -> &str {
    api.split_once('/').map_or("", |(group, _)| group)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_is_in_the_table_once() {
        let mut seen = std::collections::BTreeSet::new();
        for kind in KINDS.iter() {
            assert!(
                seen.insert((kind.api, kind.name)),
                "{} {} twice",
                kind.api,
                kind.name
            );
        }
        for (api, name) in REMOVED {
            assert!(!seen.contains(&(*api, *name)), "{api} {name} is served");
        }
    }

    #[test]
    fn the_table_is_read_with_its_fields() {
        let found = |api, name| {
            KINDS
                .iter()
                .find(|kind| (kind.api, kind.name) == (api, name))
        };
        let deployment = found("apps/v1", "Deployment").unwrap();
        assert_eq!(deployment.top, ["spec", "status"]);
        assert!(deployment.spec.as_ref().unwrap().contains(&"template"));
        let config_map = found("v1", "ConfigMap").unwrap();
        assert_eq!(config_map.top, ["binaryData", "data", "immutable"]);
        assert!(config_map.spec.is_none());
        for (fields, known) in [
            (&POD, "containers"),
            (&CONTAINER, "image"),
            (&METADATA, "name"),
        ] {
            assert!(fields.contains(&known), "{known}");
        }
    }
}
