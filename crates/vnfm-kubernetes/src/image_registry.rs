//! The registry that a VIM's nodes pull images from, as its connection describes it.
//!
//! ```text
//! interfaceInfo  registry              HOST[:PORT], or https://HOST[:PORT]
//!                registry_prefix       path before the path of each image
//!                registry_ca_cert      PEM; absent: the CAs of the machine
//!                registry_token_hosts  hosts besides its own that issue its tokens
//! accessInfo     registry_username + registry_password
//! ```

use crate::connection::{member_error, text};
use crate::pem;
use serde_json::Value;
use vnfm_core::ports::PortError;
use vnfm_outbound::{Certificate, Trust};
use vnfm_registry::{Access, Login};
use vnfm_types::{KeyValuePairs, Secret, VimConnectionInfo};

/// A registry, and where in it the images of packages are.
#[derive(Debug, Clone)]
pub(crate) struct ImageRegistry {
    pub(crate) access: Access,
    prefix: Option<String>,
}

impl ImageRegistry {
    /// Parses the members of a connection; `None` if it names no registry.
    ///
    /// # Errors
    ///
    /// `Refused`, naming the member that is invalid, or that has no meaning without a registry.
    pub(crate) fn read(info: &VimConnectionInfo) -> Result<Option<Self>, PortError> {
        let interface = &info.interface_info;
        let Some(address) = string(interface, "interfaceInfo", "registry")? else {
            return refuse_without_registry(info).map(|()| None);
        };
        let access = Access::new(address)
            .map_err(|error| member_error("interfaceInfo.registry", error.detail))?;
        let mut access = access
            .trusting(trust(interface)?)
            .with_token_hosts(token_hosts(interface)?);
        if let Some(login) = login(&info.access_info)? {
            access = access.with_login(login);
        }
        let prefix = string(interface, "interfaceInfo", "registry_prefix")?;
        if prefix.is_some_and(|prefix| !is_path(prefix)) {
            let reason = "it is not a path such as `team/vnf`: lower-case letters, digits, `.`, `_`, `-` and `/`";
            return Err(member_error("interfaceInfo.registry_prefix", reason));
        }
        Ok(Some(Self {
            access,
            prefix: prefix.map(str::to_owned),
        }))
    }

    /// The path before that of each image.
    pub(crate) fn prefix(&self) -> Option<&str> {
        self.prefix.as_deref()
    }

    /// The repository for an image with this path.
    pub(crate) fn repository(&self, path: &str) -> String {
        match &self.prefix {
            Some(prefix) => format!("{prefix}/{path}"),
            None => path.to_owned(),
        }
    }
}

fn refuse_without_registry(info: &VimConnectionInfo) -> Result<(), PortError> {
    let lone_in = |section: &'static str, members: &KeyValuePairs| {
        let lone = members.keys().find(|name| name.starts_with("registry_"));
        lone.map(|name| format!("{section}.{name}"))
    };
    let lone = lone_in("interfaceInfo", &info.interface_info);
    match lone.or_else(|| lone_in("accessInfo", &info.access_info)) {
        None => Ok(()),
        Some(member) => Err(member_error(
            &member,
            "it requires `interfaceInfo.registry`",
        )),
    }
}

fn string<'a>(
    members: &'a KeyValuePairs,
    section: &str,
    name: &str,
) -> Result<Option<&'a str>, PortError> {
    match (members.get(name), text(members, &[name])) {
        (None | Some(Value::Null), _) => Ok(None),
        (_, Some(given)) if !given.trim().is_empty() => Ok(Some(given.trim())),
        _ => Err(member_error(
            &format!("{section}.{name}"),
            "it is empty or not a string",
        )),
    }
}

fn trust(interface: &KeyValuePairs) -> Result<Trust, PortError> {
    let Some(given) = string(interface, "interfaceInfo", "registry_ca_cert")? else {
        return Ok(Trust::default());
    };
    let invalid = |reason: String| member_error("interfaceInfo.registry_ca_cert", reason);
    let all = pem::certificates(given).map_err(invalid)?;
    let all = all.iter().map(|der| Certificate::from_der(der));
    let authorities: Result<Vec<_>, _> = all.collect();
    Ok(Trust {
        authorities: authorities.map_err(|_| invalid("it is not X.509".to_owned()))?,
        ..Trust::default()
    })
}

fn token_hosts(interface: &KeyValuePairs) -> Result<Vec<String>, PortError> {
    let Some(given) = interface.get("registry_token_hosts") else {
        return Ok(Vec::new());
    };
    let names = given.as_array().and_then(|all| {
        let names = all.iter().map(|one| one.as_str().map(str::to_owned));
        names.collect::<Option<Vec<_>>>()
    });
    names.ok_or_else(|| {
        let reason = "it is not a list of host names";
        member_error("interfaceInfo.registry_token_hosts", reason)
    })
}

fn login(access: &KeyValuePairs) -> Result<Option<Login>, PortError> {
    let user = string(access, "accessInfo", "registry_username")?;
    let password = string(access, "accessInfo", "registry_password")?;
    match (user, password) {
        (None, None) => Ok(None),
        (Some(user), Some(_)) if user.contains(':') => Err(member_error(
            "accessInfo.registry_username",
            "it contains a colon",
        )),
        (Some(user), Some(password)) => Ok(Some(Login {
            user: user.to_owned(),
            password: Secret::new(password),
        })),
        (Some(_), None) => Err(member_error(
            "accessInfo.registry_password",
            "it is required with `registry_username`",
        )),
        (None, Some(_)) => Err(member_error(
            "accessInfo.registry_username",
            "it is required with `registry_password`",
        )),
    }
}

fn is_path(path: &str) -> bool {
    let is_part = |part: &str| {
        let ends = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
        part.starts_with(ends)
            && part.ends_with(ends)
            && part.chars().all(|c| ends(c) || "._-".contains(c))
    };
    path.split('/').all(is_part)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn read(interface: &Value, access: &Value) -> Result<Option<ImageRegistry>, PortError> {
        let object = |value: &Value| value.as_object().cloned().unwrap_or_default();
        ImageRegistry::read(&VimConnectionInfo {
            interface_info: object(interface),
            access_info: object(access),
            ..VimConnectionInfo::default()
        })
    }

    #[test]
    fn a_registry_has_a_prefix_and_a_login_that_is_not_shown() {
        let none = read(&json!({}), &json!({})).unwrap();
        assert!(none.is_none());
        let interface = json!({"registry": "r.example:5000", "registry_prefix": "team/vnf"});
        let login = json!({"registry_username": "u", "registry_password": "hunter2"});
        let registry = read(&interface, &login).unwrap().unwrap();
        assert_eq!(registry.repository("acme/web"), "team/vnf/acme/web");
        assert!(!format!("{registry:?}").contains("hunter2"));
    }

    #[test]
    fn the_member_that_makes_a_registry_unusable_is_named() {
        let rows = [
            (
                json!({"registry": "r/path"}),
                json!({}),
                "interfaceInfo.registry",
            ),
            (
                json!({"registry": "http://r.example"}),
                json!({}),
                "interfaceInfo.registry",
            ),
            (json!({"registry": 7}), json!({}), "interfaceInfo.registry"),
            (
                json!({"registry": "r", "registry_prefix": "/a"}),
                json!({}),
                "interfaceInfo.registry_prefix",
            ),
            (
                json!({"registry": "r", "registry_prefix": "../a"}),
                json!({}),
                "interfaceInfo.registry_prefix",
            ),
            (
                json!({"registry": "r", "registry_ca_cert": "hunter2"}),
                json!({}),
                "interfaceInfo.registry_ca_cert",
            ),
            (
                json!({"registry": "r", "registry_token_hosts": "a"}),
                json!({}),
                "interfaceInfo.registry_token_hosts",
            ),
            (
                json!({"registry": "r"}),
                json!({"registry_username": "u"}),
                "accessInfo.registry_password",
            ),
            (
                json!({"registry": "r"}),
                json!({"registry_password": "hunter2"}),
                "accessInfo.registry_username",
            ),
            (
                json!({}),
                json!({"registry_password": "hunter2"}),
                "accessInfo.registry_password",
            ),
            (
                json!({"registry_prefix": "a"}),
                json!({}),
                "interfaceInfo.registry_prefix",
            ),
        ];
        for (interface, access, member) in rows {
            let error = read(&interface, &access).expect_err(member);
            assert_eq!(error.resource(), Some(member));
            let shown = format!("{error} {error:?}");
            assert!(!shown.contains("hunter2"), "{shown}");
        }
    }
}
