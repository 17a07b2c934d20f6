//! Hostile texts and numbers, for templates, shells, YAML, JSON, paths, terminals, databases and counts.

use serde_json::{Value, json};
use vnfm_tests::rng::SeededRng;

/// A secret in a request, which must not be shown again.
pub(crate) const SECRET: &str = "planted-secret-of-a-request-e5a9";
/// The name of an object that a value tries to create.
pub(crate) const INJECTED_NAME: &str = "own-the-cluster";

/// What may stand before a payload.
const BEFORE: &[&str] = &[
    "", "x", "x\n", "\"", "'", "}}", "]", "\r\n", "\\", "#", "- ",
];
/// What may stand after a payload.
const AFTER: &[&str] = &["", "\n#", "\"", "'", "\n---\n", "{", "\0", " ", "\\"];

/// Every payload with every prefix and suffix.
pub(crate) fn all() -> Vec<String> {
    let object = |kind: &str, version: &str, more: &str| {
        format!(
            "\n---\napiVersion: {version}\nkind: {kind}\nmetadata: {{name: {INJECTED_NAME}, namespace: kube-system}}\n{more}\n#"
        )
    };
    let role = "roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: cluster-admin}\nsubjects: []";
    let mut payloads = vec![
        object("ConfigMap", "v1", "data: {a: b}"),
        object("ClusterRoleBinding", "rbac.authorization.k8s.io/v1", role),
        "\n  injected: {kind: yes}".into(),
        "\", \"kind\": \"Secret\", \"x\": \"".into(),
        "$(touch /tmp/hostile)".into(),
        "`id`; reboot".into(),
        "{{ 7 * 7 }}{% for a in b %}".into(),
        "${jndi:ldap://127.99.0.1/a}".into(),
        "$greeting ${namespace} $$".into(),
        "{get_file: /etc/passwd}".into(),
        "!!python/object/apply:os.system [id]".into(),
        "&a [*a, *a]".into(),
        "../../../../etc/passwd".into(),
        "/vnfm/v1/secrets".into(),
        "%2e%2e%2f%00".into(),
        "\u{1b}]0;owned\u{7}\u{1b}[2J".into(),
        "\u{9b}31m\u{85}".into(),
        "\u{202e}txt.exe\u{2066}".into(),
        "e\u{301}\u{200b}\u{feff}".into(),
        "' OR 1=1 --".into(),
        "%_*?".into(),
        "\r\nX-Injected: yes\r\n\r\n".into(),
        "http://127.99.0.1:1/".into(),
        "100000000".into(),
        "-1".into(),
        "1e999".into(),
        "null".into(),
        "NaN".into(),
    ];
    payloads.push("A".repeat(70_000));
    payloads.push("\u{1f600}".repeat(300));
    payloads.push("(".repeat(5000));
    payloads
}

pub(crate) fn text(rng: &mut SeededRng) -> String {
    let core = rng.pick(&all()).clone();
    if rng.below(2) == 0 {
        return core;
    }
    format!("{}{core}{}", rng.pick(BEFORE), rng.pick(AFTER))
}

/// A hostile value of any type.
pub(crate) fn value(rng: &mut SeededRng) -> Value {
    match rng.below(12) {
        0 => json!(100_000_000_u64),
        1 => json!(-1),
        2 => json!(1e300),
        3 => Value::Null,
        4 => json!([]),
        5 => json!({}),
        6 => json!(true),
        7 => nested(60),
        8 => (0..5000).map(|n| json!(n)).collect(),
        _ => json!(text(rng)),
    }
}

fn nested(levels: usize) -> Value {
    (0..levels).fold(json!("deep"), |inner, level| {
        if level % 2 == 0 {
            json!([inner])
        } else {
            json!({ "a": inner })
        }
    })
}

/// A hostile filter, field selector or page marker.
pub(crate) fn query(rng: &mut SeededRng) -> String {
    let deep = "a/".repeat(1 + rng.below(30));
    let clause = format!("(eq,metadata/{deep}b,x)");
    let text: String = text(rng).chars().take(3000).collect();
    let text = encoded(&text);
    match rng.below(9) {
        0 => format!("filter={}", encoded(&clause)),
        1 => format!(
            "filter={}",
            encoded(&vec![clause; 1 + rng.below(40)].join(";"))
        ),
        2 => format!("filter={text}"),
        3 => format!("fields={text}"),
        4 => format!("exclude_fields={text}"),
        5 => format!("nextpage_opaque_marker={text}"),
        6 => format!("filter=(eq,id,{text})"),
        7 => format!("filter=(cont,vnfInstanceName,{text})&all_fields"),
        _ => format!("{text}={text}"),
    }
}

/// Percent-encodes a text for a path or a query.
pub(crate) fn encoded(text: &str) -> String {
    use std::fmt::Write as _;
    let mut all = String::new();
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            all.push(char::from(byte));
        } else {
            let _ = write!(all, "%{byte:02X}"); // a String takes everything
        }
    }
    all
}
