//! Names of objects: which are valid, and how a name is encoded in the path of a request.
//!
//! | name | rule |
//! |---|---|
//! | objects of Kubernetes itself, custom resources of `*.k8s.io` | RFC 1123 subdomain |
//! | Namespaces and Services | RFC 1123 label |
//! | roles, bindings, signing requests, IP addresses, objects of other groups | path segment: not empty, `.` or `..`; no `/` or `%` |
//! | namespaces of objects, versions, plurals | RFC 1123 label |
//! | keys of labels and annotations | qualified name: `[SUBDOMAIN/]NAME` |
//!
//! <https://kubernetes.io/docs/concepts/overview/working-with-objects/names/>. [`check`] refuses a plan before anything
//! is created. Names that earlier versions recorded unchecked never fail a request: [`crate::identifiers::segment`] encodes them, and an
//! object with an invalid name ([`Target::can_exist`]) counts as absent.

use crate::catalog::Target;
use crate::errors::MANIFEST;
use crate::identifiers::{
    is_api_version, is_label, is_label_value, is_qualified, is_segment, is_subdomain,
};
use crate::item::Item;
use crate::manifests::Plan;
use serde_json::Value;
use vnfm_core::ports::PortError;

/// Characters of an invalid name that an error quotes.
const MAX_QUOTED_CHARS: usize = 80;

/// What the name of an object may look like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rule {
    Label,
    Subdomain,
    Segment,
}

impl Rule {
    fn from_item(item: &Item) -> Self {
        match (item.group().as_str(), item.kind.as_str()) {
            ("", "Namespace" | "Service") => Self::Label,
            ("rbac.authorization.k8s.io" | "certificates.k8s.io", _)
            | ("networking.k8s.io", "IPAddress") => Self::Segment,
            ("" | "apps" | "autoscaling" | "batch" | "policy", _) => Self::Subdomain,
            (group, _) if group.ends_with(".k8s.io") => Self::Subdomain,
            _ => Self::Segment,
        }
    }

    fn allows(self, name: &str) -> bool {
        match self {
            Self::Label => is_label(name),
            Self::Subdomain => is_subdomain(name),
            Self::Segment => is_segment(name),
        }
    }

    /// The rule as text for an error.
    const fn description(self) -> &'static str {
        match self {
            Self::Label => {
                "at most 63 lower-case letters, digits and `-`, a letter or digit at both ends"
            }
            Self::Subdomain => {
                "at most 253 lower-case letters, digits, `-` and `.`, a letter or digit at both ends of each part"
            }
            Self::Segment => "at most 253 characters without `/` and `%`, and neither `.` nor `..`",
        }
    }
}

/// Refuses a plan with an invalid name.
///
/// # Errors
///
/// `Refused`, naming file, object and rule.
pub(crate) fn check(plan: &Plan) -> Result<(), PortError> {
    plan.items().try_for_each(|item| {
        let wrong = version_error(item)
            .or_else(|| name_error(item))
            .or_else(|| key_error(item))
            .or_else(|| definition_error(item));
        wrong.map_or(Ok(()), |wrong| Err(manifest_error(item, &wrong)))
    })
}

fn manifest_error(item: &Item, wrong: &str) -> PortError {
    let object = format!("{} `{}`", quoted(&item.kind), quoted(&item.name));
    let action = format!("use {object} (`{}`) of the package", item.location);
    PortError::new(&MANIFEST, action, wrong).on(object)
}

fn version_error(item: &Item) -> Option<String> {
    (!is_api_version(&item.api_version)).then(|| {
        format!(
            "`apiVersion: {}` is not of the form `GROUP/VERSION`",
            quoted(&item.api_version)
        )
    })
}

fn name_error(item: &Item) -> Option<String> {
    let rule = Rule::from_item(item);
    if !rule.allows(&item.name) {
        let (name, words) = (quoted(&item.name), rule.description());
        return Some(format!("`metadata.name` cannot be `{name}`: {words}"));
    }
    let namespace = item.namespace.as_deref().filter(|name| !is_label(name))?;
    let (name, words) = (quoted(namespace), Rule::Label.description());
    Some(format!("`metadata.namespace` cannot be `{name}`: {words}"))
}

fn key_error(item: &Item) -> Option<String> {
    let members = |name: &str| {
        item.object
            .get("metadata")?
            .get(name)?
            .as_object()
            .map(|all| all.iter().collect::<Vec<_>>())
    };
    for member in ["labels", "annotations"] {
        // The prefix of an annotation key is case-insensitive.
        let lower = |key: &str| {
            if member == "labels" {
                key.to_owned()
            } else {
                key.to_lowercase()
            }
        };
        let mut keys = members(member).into_iter().flatten().map(|(key, _)| key);
        if let Some(key) = keys.find(|key| !is_qualified(&lower(key))) {
            return Some(format!(
                "`metadata.{member}` cannot have the key `{}`: at most 63 letters, digits, `-`, `_` and `.`, a letter or \
                 digit at both ends, with or without `SUBDOMAIN/` before them",
                quoted(key)
            ));
        }
    }
    let labels = members("labels").into_iter().flatten();
    let mut texts = labels.filter_map(|(key, value)| Some((key, value.as_str()?)));
    let (key, value) = texts.find(|(_, value)| !value.is_empty() && !is_label_value(value))?;
    Some(format!(
        "label `{key}` cannot be `{}`: at most 63 letters, digits, `-`, `_` and `.`, a letter or digit at both ends",
        quoted(value)
    ))
}

/// Checks the names by which a `CustomResourceDefinition` extends the paths of the API.
fn definition_error(item: &Item) -> Option<String> {
    if item.group() != "apiextensions.k8s.io" || item.kind != "CustomResourceDefinition" {
        return None;
    }
    let text = |pointer: &str| item.object.pointer(pointer).and_then(Value::as_str);
    let versions = item
        .object
        .pointer("/spec/versions")
        .and_then(Value::as_array);
    let versions = versions
        .into_iter()
        .flatten()
        .filter_map(|one| one.get("name")?.as_str());
    let group = text("/spec/group").filter(|group| !is_subdomain(group));
    let plural = text("/spec/names/plural").filter(|plural| !is_label(plural));
    let mut versions = versions.filter(|version| !is_label(version));
    let (member, value, rule) = group
        .map(|group| ("spec.group", group, Rule::Subdomain))
        .or_else(|| plural.map(|plural| ("spec.names.plural", plural, Rule::Label)))
        .or_else(|| {
            versions
                .next()
                .map(|one| ("spec.versions[].name", one, Rule::Label))
        })?;
    Some(format!(
        "`{member}` cannot be `{}`: {}",
        quoted(value),
        rule.description()
    ))
}

impl Target {
    /// False if a name is invalid, so that no cluster can store the object.
    pub(crate) fn can_exist(&self) -> bool {
        is_segment(&self.name)
            && self.namespace.as_deref().is_none_or(is_label)
            && is_label(&self.resource.plural)
            && is_api_version(&self.resource.api_version)
    }
}

/// Escapes and truncates foreign text for an error.
fn quoted(text: &str) -> String {
    let mut quoted: String = text.escape_debug().take(MAX_QUOTED_CHARS).collect();
    if text.escape_debug().nth(MAX_QUOTED_CHARS).is_some() {
        quoted.push('…');
    }
    quoted
}

#[cfg(test)]
mod tests {
    use super::{check, is_segment, is_subdomain};
    use crate::catalog::{Target, core};
    use crate::identifiers::segment;
    use crate::item::item_for_test;
    use crate::manifests::Plan;
    use serde_json::{Value, json};

    fn refusal(object: Value) -> Option<String> {
        let plan = Plan {
            namespace: "mine".into(),
            is_named: true,
            stages: vec![vec![item_for_test(object)]],
            ..Plan::default()
        };
        check(&plan).err().map(|error| {
            assert_eq!(error.name(), "kubernetes.manifest-invalid");
            assert!(error.to_string().contains("f:1"), "{error}");
            error.to_string()
        })
    }

    fn named(api: &str, kind: &str, name: &str) -> Value {
        json!({"apiVersion": api, "kind": kind, "metadata": {"name": name}})
    }

    #[test]
    fn an_invalid_name_is_refused_by_object_and_rule() {
        for (api, kind, name) in [
            ("v1", "ConfigMap", "{{ 7 * 7 }}{% x %}"),
            ("v1", "ConfigMap", "a/../../secrets/b"),
            ("v1", "ConfigMap", "Web"),
            ("v1", "ConfigMap", "a..b"),
            ("apps/v1", "Deployment", "a_b"),
            ("v1", "Namespace", "a.b"),
            ("v1", "Service", "a.b"),
            ("gateway.networking.k8s.io/v1", "Gateway", "a b"),
            ("example.com/v1", "Thing", ".."),
            ("example.com/v1", "Thing", "a%2fb"),
            ("rbac.authorization.k8s.io/v1", "Role", "a/b"),
        ] {
            let refusal = refusal(named(api, kind, name)).unwrap_or_default();
            assert!(
                refusal.contains(&format!("{kind} `{name}`")),
                "{kind} {name}: {refusal:?}"
            );
            assert!(refusal.contains("`metadata.name` cannot be"), "{refusal}");
        }
        let long = refusal(named("v1", "ConfigMap", &"a".repeat(100_000))).unwrap();
        assert!(long.len() < 1000, "{long}");
    }

    #[test]
    fn a_valid_name_is_accepted() {
        for (api, kind, name) in [
            ("v1", "ConfigMap", "kube-root-ca.crt"),
            ("v1", "Service", "web"),
            ("rbac.authorization.k8s.io/v1", "ClusterRole", "system:web"),
            ("networking.k8s.io/v1", "IPAddress", "2001:db8::1"),
            ("apiregistration.k8s.io/v1", "APIService", "v1.example.com"),
            ("example.com/v1", "Thing", "Thing{1}"),
        ] {
            assert_eq!(refusal(named(api, kind, name)), None, "{kind} {name}");
        }
    }

    #[test]
    fn versions_namespaces_keys_and_definitions_are_checked() {
        let with =
            |metadata: Value| json!({"apiVersion": "v1", "kind": "Secret", "metadata": metadata});
        let definition = |spec: Value| {
            json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
                "metadata": {"name": "things.example.com"}, "spec": spec})
        };
        for (object, member) in [
            (
                named("{{ 1 }}/v1", "Thing", "a"),
                "`apiVersion: {{ 1 }}/v1`",
            ),
            (
                named("v1/../../x", "Thing", "a"),
                "`apiVersion: v1/../../x`",
            ),
            (
                with(json!({"name": "a", "namespace": "{% x %}"})),
                "`metadata.namespace` cannot be",
            ),
            (
                with(json!({"name": "a", "labels": {"{{ k }}": "v"}})),
                "`metadata.labels` cannot have",
            ),
            (
                with(json!({"name": "a", "labels": {"k": "{{ v }}"}})),
                "label `k` cannot be",
            ),
            (
                with(json!({"name": "a", "annotations": {"a/b/c": "v"}})),
                "`metadata.annotations`",
            ),
            (
                definition(json!({"group": "{{ g }}"})),
                "`spec.group` cannot be",
            ),
            (
                definition(json!({"names": {"plural": "a/b"}})),
                "`spec.names.plural` cannot be",
            ),
            (
                definition(json!({"versions": [{"name": "v1"}, {"name": "v 2"}]})),
                "`spec.versions[].name`",
            ),
        ] {
            let refusal = refusal(object.clone()).unwrap_or_default();
            assert!(refusal.contains(member), "{object}: {refusal:?}");
        }
        let fine = with(
            json!({"name": "a", "namespace": "b", "annotations": {"example.com/note": "{{ any }}"},
            "labels": {"app.kubernetes.io/name": "Web_1", "tier": ""}}),
        );
        assert_eq!(refusal(fine), None);
    }

    #[test]
    fn any_name_is_encoded_as_one_path_segment() {
        for (name, written) in [
            ("web-0", "web-0"),
            ("system:web", "system:web"),
            ("{{ 7 * 7 }}", "%7B%7B%207%20*%207%20%7D%7D"),
            ("a/../b?c#d%", "a%2F..%2Fb%3Fc%23d%25"),
            ("ü\n", "%C3%BC%0A"),
        ] {
            assert_eq!(segment(name), written);
            http::Uri::try_from(format!("/api/v1/{}", segment(name))).unwrap();
        }
    }

    #[test]
    fn an_object_with_an_invalid_name_cannot_exist() {
        let target = |plural: &str, namespace: &str, name: &str| Target {
            resource: core("Thing", plural),
            namespace: Some(namespace.to_owned()),
            name: name.to_owned(),
        };
        assert!(target("things", "a", "b").can_exist());
        for wrong in [
            target("things", "a", "{% x %}"),
            target("things", "{{a}}", "b"),
            target("a/b", "a", "b"),
        ] {
            assert!(!wrong.can_exist(), "{wrong:?}");
        }
        assert!(is_segment(&"a".repeat(253)) && !is_segment(&"a".repeat(254)));
        assert!(is_subdomain("a.b-c.0") && !is_subdomain("") && !is_subdomain("a."));
    }
}
