//! A stored login belongs to where it was given for: endpoint, trust and proxy. Where one of these changes, the login has
//! to be given anew, so that nobody who may change a connection gets the secret in it sent to themselves.

use serde_json::{Map, Value};
use std::collections::BTreeSet;
use vnfm_types::VimConnectionInfo;

/// Members of `extra` that say what is used of a VIM, and not how it is reached.
const NOT_ON_THE_WAY: [&str; 2] = ["namespace", "project_name"];
/// Parts of the names of members of `accessInfo` that say who logs in, and are no secret.
const WHO: [&str; 5] = ["user", "domain", "project", "region", "tenant"];

/// Refuses a connection that leads elsewhere than `old` with a secret of its login; `given` is what of `accessInfo` the
/// request brings.
///
/// # Errors
///
/// What changed, and what is to be sent with it.
pub(crate) fn stays_where_it_belongs(
    old: &VimConnectionInfo,
    new: &VimConnectionInfo,
    given: &Map<String, Value>,
) -> Result<(), String> {
    let changed = changed(old, new);
    if changed.is_empty() {
        return Ok(());
    }
    let is_kept = |(name, value): &(&String, &Value)| {
        !WHO.iter().any(|who| name.contains(who))
            && !given.contains_key(*name)
            && new.access_info.get(*name) == Some(*value)
    };
    let kept = old.access_info.iter().filter(is_kept);
    let kept: Vec<_> = kept.map(|(name, _)| format!("`{name}`")).collect();
    if kept.is_empty() {
        return Ok(());
    }
    let changed: Vec<_> = changed
        .into_iter()
        .map(|name| format!("`{name}`"))
        .collect();
    Err(format!(
        "the stored login was given for another way to the VIM: {} changes; send `accessInfo` with {} anew",
        changed.join(", "),
        kept.join(", ")
    ))
}

/// The members by which another server, or the same one otherwise, is reached.
fn changed(old: &VimConnectionInfo, new: &VimConnectionInfo) -> BTreeSet<String> {
    let differ = |(place, old, new): (&str, &Map<String, Value>, &Map<String, Value>)| {
        let names: BTreeSet<_> = old.keys().chain(new.keys()).cloned().collect();
        let other = names
            .into_iter()
            .filter(|name| old.get(name) != new.get(name));
        let is_way = |name: &String| place != "extra" || !NOT_ON_THE_WAY.contains(&name.as_str());
        other
            .filter(is_way)
            .map(|name| format!("{place}.{name}"))
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
    use super::stays_where_it_belongs;
    use serde_json::{Value, json};
    use vnfm_types::VimConnectionInfo;

    fn connection(value: Value) -> VimConnectionInfo {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn a_secret_goes_with_the_way_that_it_was_given_for() {
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
            let why = stays_where_it_belongs(&old, &new, &nothing).unwrap_err();
            assert!(why.contains(says) && why.contains("`password`"), "{why}");
            let half = json!({"password": "p"});
            let why = stays_where_it_belongs(&old, &new, half.as_object().unwrap()).unwrap_err();
            assert!(
                why.contains("`bearer_token`") && !why.contains("`password`"),
                "{why}"
            );
            let whole = json!({"password": "p", "bearer_token": "t"});
            assert_eq!(
                stays_where_it_belongs(&old, &new, whole.as_object().unwrap()),
                Ok(())
            );
            let mut without = new;
            without.access_info.clear();
            assert_eq!(stays_where_it_belongs(&old, &without, &nothing), Ok(()));
        }
        let mut elsewhere = old.clone();
        elsewhere.extra.insert("namespace".into(), json!("other"));
        assert_eq!(
            stays_where_it_belongs(&old, &elsewhere, &serde_json::Map::new()),
            Ok(())
        );
    }
}
