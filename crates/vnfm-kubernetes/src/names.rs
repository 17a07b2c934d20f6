//! What of a manifest becomes part of a request's path: its API version, kind, namespace and name. Only what stays one
//! segment of a path gets there, so that no name leads a call to another object, or makes one that nothing can delete.

use serde_json::Value;

/// The longest name of an object.
const LONGEST: usize = 253;

/// Why an object cannot be called about by what it says of itself; `None` where it can.
pub(crate) fn unfit(object: &Value) -> Option<String> {
    let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str);
    let version = text("/apiVersion").unwrap_or_default();
    let plain = |part: &str, more: &str| {
        !part.is_empty()
            && part.chars().all(|one| one.is_ascii_alphanumeric() || more.contains(one))
    };
    if version.split('/').count() > 2 || !version.split('/').all(is_domain) {
        return Some(format!("`apiVersion` cannot be `{version}`"));
    }
    let kind = text("/kind").unwrap_or_default();
    if !plain(kind, "") {
        return Some(format!("`kind` cannot be `{kind}`"));
    }
    if let Some(namespace) = text("/metadata/namespace").filter(|name| !name.is_empty())
        && !is_label(namespace)
    {
        return Some(format!(
            "`metadata.namespace` cannot be `{namespace}`: lower-case letters, digits and `-`, at most 63"
        ));
    }
    let name = text("/metadata/name").unwrap_or_default();
    // Roles have names such as `system:node`.
    let fits = name.len() <= LONGEST && plain(name, "-._:@") && !matches!(name, "." | "..");
    (!fits).then(|| {
        format!(
            "`metadata.name` cannot be `{name}`: letters, digits, `-`, `.` and `:`, at most {LONGEST}"
        )
    })
}

fn is_domain(text: &str) -> bool {
    let inner = |one: char| one.is_ascii_alphanumeric() || one == '-' || one == '.';
    !text.is_empty() && text.chars().all(inner) && !text.starts_with('.')
}

/// Whether a namespace can have this name.
pub(crate) fn is_label(name: &str) -> bool {
    let inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    (1..=63).contains(&name.len())
        && name.chars().all(inner)
        && !name.starts_with('-')
        && !name.ends_with('-')
}

#[cfg(test)]
mod tests {
    use super::{is_label, unfit};
    use serde_json::json;

    #[test]
    fn names_of_namespaces() {
        for (name, fits) in [
            ("a", true),
            ("vnf-1", true),
            ("", false),
            ("A", false),
            ("-a", false),
            ("a-", false),
            ("a.b", false),
        ] {
            assert_eq!(is_label(name), fits, "{name}");
        }
        assert!(is_label(&"a".repeat(63)) && !is_label(&"a".repeat(64)));
    }

    #[test]
    fn nothing_that_an_object_says_of_itself_leads_a_call_elsewhere() {
        let object = json!({"apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"name": "web-1.a", "namespace": "web"}});
        assert_eq!(unfit(&object), None);
        let mut role = object.clone();
        role["metadata"]["name"] = json!("system:node");
        assert_eq!(unfit(&role), None);
        let elsewhere = [
            "x&a [*a, *a]{",
            "../../kube-system/secrets/a",
            "..",
            "a/b",
            "a?dryRun=All",
            "a#",
            "a%2fb",
            "a b",
            "\u{e9}",
            "a\r\nX: y",
            "",
        ];
        for pointer in ["/apiVersion", "/kind", "/metadata/name", "/metadata/namespace"] {
            let is_optional = pointer == "/metadata/namespace";
            for text in elsewhere {
                // A group with a version has one slash of its own.
                let fits =
                    (is_optional && text.is_empty()) || (pointer == "/apiVersion" && text == "a/b");
                let mut other = object.clone();
                *other.pointer_mut(pointer).unwrap() = json!(text);
                let why = unfit(&other);
                assert_eq!(why.is_none(), fits, "{pointer}: {text:?}: {why:?}");
            }
        }
        let mut long = object.clone();
        long["metadata"]["name"] = json!("a".repeat(254));
        assert!(unfit(&long).is_some());
    }
}
