//! A stored login is bound to endpoint, trust and proxy. If one of these changes, the login must be sent again, so that
//! no user who may change a connection can redirect the secret in it to themselves.

use serde_json::{Map, Value};
use std::collections::BTreeSet;
use vnfm_types::VimConnectionInfo;

/// Members of `extra` that select something within a VIM, and do not affect how it is reached.
const NOT_CONNECTION: [&str; 2] = ["namespace", "project_name"];
/// Members of `accessInfo` whose name contains one of these identify the user and are not secret.
const IDENTITY: [&str; 5] = ["user", "domain", "project", "region", "tenant"];

/// Refuses to use a stored secret with a connection that leads elsewhere than `old`; `given` are the members
/// of `accessInfo` in the request.
///
/// # Errors
///
/// What changed, and what must be sent with it.
pub(crate) fn check_login_bound(
    old: &VimConnectionInfo,
    new: &VimConnectionInfo,
    given: &Map<String, Value>,
) -> Result<(), String> {
    let changed = changed_members(old, new);
    if changed.is_empty() {
        return Ok(());
    }
    let is_missing = |(name, value): &(&String, &Value)| {
        !IDENTITY.iter().any(|who| name.contains(who))
            && !given.contains_key(*name)
            && new.access_info.get(*name) == Some(*value)
    };
    let missing = old.access_info.iter().filter(is_missing);
    let missing: Vec<_> = missing.map(|(name, _)| format!("`{name}`")).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let changed: Vec<_> = changed
        .into_iter()
        .map(|name| format!("`{name}`"))
        .collect();
    Err(format!(
        "the stored login was given for another connection: {} changed; send `accessInfo` with {} again",
        changed.join(", "),
        missing.join(", ")
    ))
}

/// The members that change which server is reached, or how.
fn changed_members(old: &VimConnectionInfo, new: &VimConnectionInfo) -> BTreeSet<String> {
    let differ = |(group, old, new): (&str, &Map<String, Value>, &Map<String, Value>)| {
        let names: BTreeSet<_> = old.keys().chain(new.keys()).cloned().collect();
        let other = names
            .into_iter()
            .filter(|name| old.get(name) != new.get(name));
        let is_way = |name: &String| group != "extra" || !NOT_CONNECTION.contains(&name.as_str());
        other
            .filter(is_way)
            .map(|name| format!("{group}.{name}"))
            .collect::<Vec<_>>()
    };
    [
        ("interfaceInfo", &old.interface_info, &new.interface_info),
        ("extra", &old.extra, &new.extra),
    ]
    .into_iter()
    .flat_map(differ)
    .collect()
}

#[cfg(test)]
mod tests {
    use super::check_login_bound;
    use serde_json::{Value, json};
    use vnfm_types::VimConnectionInfo;

    fn connection(value: Value) -> VimConnectionInfo {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn a_stored_secret_is_bound_to_the_connection_it_was_given_for() {
        let old = connection(json!({"vimType": "t",
            "interfaceInfo": {"endpoint": "https://a", "ssl_ca_cert": "PEM"},
            "accessInfo": {"username": "u", "password": "p", "bearer_token": "t"},
            "extra": {"namespace": "n"}}));
        let interface = |more: Value| {
            let mut new = old.clone();
            new.interface_info = more.as_object().unwrap().clone();
            new
        };
        let mut proxied = old.clone();
        proxied.extra.insert("proxy".into(), json!("http://b:3128"));
        for (new, says) in [
            (
                interface(json!({"endpoint": "https://b", "ssl_ca_cert": "PEM"})),
                "interfaceInfo.endpoint",
            ),
            (
                interface(json!({"endpoint": "https://a"})),
                "interfaceInfo.ssl_ca_cert",
            ),
            (
                interface(json!({"endpoint": "https://a", "ssl_ca_cert": "PEM",
                    "skipCertificateVerification": true})),
                "interfaceInfo.skipCertificateVerification",
            ),
            (proxied.clone(), "extra.proxy"),
        ] {
            let nothing = serde_json::Map::new();
            let why = check_login_bound(&old, &new, &nothing).unwrap_err();
            assert!(why.contains(says) && why.contains("`password`"), "{why}");
            let partial = json!({"password": "p"});
            let why = check_login_bound(&old, &new, partial.as_object().unwrap()).unwrap_err();
            assert!(
                why.contains("`bearer_token`") && !why.contains("`password`"),
                "{why}"
            );
            let complete = json!({"password": "p", "bearer_token": "t"});
            assert_eq!(
                check_login_bound(&old, &new, complete.as_object().unwrap()),
                Ok(())
            );
            let mut without = new;
            without.access_info.clear();
            assert_eq!(check_login_bound(&old, &without, &nothing), Ok(()));
        }
        let mut elsewhere = old.clone();
        elsewhere.extra.insert("namespace".into(), json!("other"));
        assert_eq!(
            check_login_bound(&old, &elsewhere, &serde_json::Map::new()),
            Ok(())
        );
    }
}
