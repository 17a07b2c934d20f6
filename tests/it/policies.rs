//! The policy of a VIM: what its schema takes, the programs take, and what the how-to shows both take.

use serde_json::{Value, json};
use vnfm_tests::sources::root;
use vnfm_types::VimPolicy;

fn misfits(policy: &Value) -> Vec<String> {
    let schema = std::fs::read_to_string(root().join("schemas/vim-policy.schema.json")).unwrap();
    vnfm::schema_violations(&serde_json::from_str(&schema).unwrap(), policy, "policy").unwrap()
}

fn is_taken(policy: &Value) -> bool {
    let read = serde_json::from_value::<Option<VimPolicy>>(policy.clone());
    read.is_ok_and(|policy| policy.unwrap_or_default().checked().is_ok())
}

#[test]
fn policy_schema_and_parser_accept_the_same_documents() {
    for (policy, fits) in [
        (json!(null), true),
        (json!({}), true),
        (
            serde_json::to_value(VimPolicy::for_borrowers()).unwrap(),
            true,
        ),
        (
            json!({"namespaces": ["OWN", "team-*", "a"], "podSecurity": "privileged"}),
            true,
        ),
        (
            json!({"kinds": {"allow": ["BUILTIN"], "deny": ["core/Secret"]}, "serviceAccounts": "any"}),
            true,
        ),
        (
            json!({"limits": {"objects": 1, "pods": 2, "servers": 3}, "externalIps": true}),
            true,
        ),
        (
            json!({"impersonate": "system:serviceaccount:tenants:{tenant}", "remoteFiles": false}),
            true,
        ),
        (json!({"namespaces": ["Web"]}), false),
        (json!({"namespaces": "web"}), false),
        (json!({"namespace": ["web"]}), false),
        (json!({"podSecurity": "restricted"}), false),
        (json!({"limits": {"pods": -1}}), false),
        (json!({"limits": {"pod": 1}}), false),
        (json!({"impersonate": "admin"}), false),
        (json!({"kinds": ["Pod"]}), false),
    ] {
        assert_eq!(misfits(&policy).is_empty(), fits, "schema: {policy}");
        assert_eq!(is_taken(&policy), fits, "programs: {policy}");
    }
}

#[test]
fn policy_members_and_example_are_documented() {
    let page = std::fs::read_to_string(root().join("docs/how-to/limit-a-vim.md")).unwrap();
    let example = page
        .split("```yaml\n")
        .nth(1)
        .unwrap()
        .split("```")
        .next()
        .unwrap();
    let example: Value = serde_yaml::from_str(example).unwrap();
    assert!(
        misfits(&example).is_empty() && is_taken(&example),
        "{example:#}"
    );
    let schema = std::fs::read_to_string(root().join("schemas/vim-policy.schema.json")).unwrap();
    let schema: Value = serde_json::from_str(&schema).unwrap();
    for member in schema["properties"].as_object().unwrap().keys() {
        assert!(page.contains(&format!("| `{member}` |")), "{member}");
    }
}
