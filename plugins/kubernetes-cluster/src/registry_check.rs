//! Refuses a registry whose names could leave their place: a path on the hosts, or a line of a configuration file.

use crate::node::bad;
use crate::params::SiteRegistry;
use vnfm_plugin_sdk::prelude::*;

/// Refuses what would be something else than a name in a path or a configuration file.
///
/// # Errors
///
/// `bad-parameters`, naming the member.
pub(crate) fn check(registry: &SiteRegistry) -> Result<(), DriverError> {
    let (address, prefix) = (&registry.address, registry.prefix.as_deref());
    if !is_address(address) {
        return Err(bad(format!(
            "`registry.address` is `{address}`, not `HOST` or `HOST:PORT`"
        )));
    }
    if prefix.is_some_and(|prefix| !is_path(prefix)) {
        return Err(bad(no_path("registry.prefix")));
    }
    for (mirrored, path) in &registry.mirrors {
        if !is_address(mirrored) || mirrored == address {
            return Err(bad(format!(
                "`registry.mirrors` has `{mirrored}`, which is not another registry such as `registry.k8s.io`"
            )));
        }
        if !path.is_empty() && !is_path(path) {
            return Err(bad(no_path(&format!("registry.mirrors.{mirrored}"))));
        }
    }
    if registry.username.is_some() != registry.password.is_some() {
        return Err(bad(
            "`registry.username` and `registry.password` belong together".into(),
        ));
    }
    Ok(())
}

fn no_path(member: &str) -> String {
    format!(
        "`{member}` is not a path such as `team/vnf`: lower-case letters, digits, `.`, `_`, `-` and `/`"
    )
}

fn is_address(text: &str) -> bool {
    let (host, port) = match text.rsplit_once(':') {
        Some((host, port)) if !port.contains(']') => (host, Some(port)),
        _ => (text, None),
    };
    let of_host = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '[' | ']' | ':');
    let is_host = !host.is_empty() && host.chars().all(of_host) && !host.starts_with(['.', '-']);
    let is_bare = !host.contains(':') || (host.starts_with('[') && host.ends_with(']'));
    is_host && is_bare && port.is_none_or(|port| port.parse::<u16>().is_ok())
}

fn is_path(text: &str) -> bool {
    let fits =
        |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '.' | '_' | '-');
    let is_part = |part: &str| {
        part.starts_with(|c: char| c.is_ascii_alphanumeric()) && part.chars().all(fits)
    };
    text.split('/').all(is_part)
}

#[cfg(test)]
mod tests {
    use super::check;
    use crate::params::SiteRegistry;
    use serde_json::json;

    fn registry(change: &serde_json::Value) -> SiteRegistry {
        let mut all = json!({ "address": "registry.site.example:5000" });
        let members = all.as_object_mut().unwrap();
        members.extend(change.as_object().unwrap().clone());
        serde_json::from_value(all).unwrap()
    }

    #[test]
    fn names_that_could_leave_their_place_are_refused() {
        for (change, member) in [
            (json!({ "address": "https://r" }), "registry.address"),
            (json!({ "address": "r:x" }), "registry.address"),
            (json!({ "address": "../r" }), "registry.address"),
            (json!({ "address": "r\"]" }), "registry.address"),
            (json!({ "address": "1::2" }), "registry.address"),
            (json!({ "address": "" }), "registry.address"),
            (json!({ "prefix": "/a" }), "registry.prefix"),
            (json!({ "prefix": "a/../b" }), "registry.prefix"),
            (json!({ "mirrors": { "a/b": "" } }), "registry.mirrors"),
            (
                json!({ "mirrors": { "registry.site.example:5000": "" } }),
                "registry.mirrors",
            ),
            (json!({ "mirrors": { "r": "A" } }), "registry.mirrors.r"),
            (json!({ "username": "u" }), "registry.password"),
        ] {
            let refused = check(&registry(&change)).unwrap_err().to_string();
            assert!(
                refused.contains(&format!("`{member}`")),
                "{change}: {refused}"
            );
        }
        for address in ["localhost", "10.0.0.1:5000", "[2001:db8::1]:5000", "[::1]"] {
            check(&registry(&json!({ "address": address }))).unwrap();
        }
        let all = json!({ "prefix": "team/vnf", "mirrors": { "registry.k8s.io": "", "docker.io": "hub" } });
        check(&registry(&all)).unwrap();
    }
}
