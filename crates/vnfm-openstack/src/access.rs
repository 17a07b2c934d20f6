//! A connection, parsed: after [`Access::try_from`] no code checks for missing members.
//!
//! | where | members |
//! |---|---|
//! | `interfaceInfo` | `endpoint`, `trustedCertificates` (PEM, or DER in base64; one or a list), `skipCertificateVerification`, `skipCertificateHostnameCheck` |
//! | `extra` | `proxy`: an HTTP proxy for all calls to this VIM; `reselectZones`: true to try other zones where no host has room |
//! | `accessInfo` | `username`, `password`, `project`, `projectDomain`, `userDomain`, `projectId`; or `applicationCredentialId`, `applicationCredentialSecret`; `region`, `interface` |
//!
//! A domain is given by name or id: `default` and 32 hexadecimal digits are ids.

use crate::errors::CONNECTION;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use vnfm_core::ports::PortError;
use vnfm_outbound::{Certificate, Client, Destinations, Policy, Trust, Url};
use vnfm_types::{KeyValuePairs, Secret, VimConnectionInfo};

const INTERFACE_MEMBERS: &[&str] = &[
    "endpoint",
    "trustedCertificates",
    "skipCertificateVerification",
    "skipCertificateHostnameCheck",
];
const ACCESS_MEMBERS: &[&str] = &[
    "username",
    "password",
    "project",
    "projectId",
    "projectDomain",
    "userDomain",
    "region",
    "interface",
    "applicationCredentialId",
    "applicationCredentialSecret",
];
const DEFAULT_DOMAIN: &str = "default";

/// The address of a cloud, the certificates to trust and our credentials.
pub(crate) struct Access {
    /// Keystone's URL with its version, without a trailing slash.
    pub(crate) endpoint: String,
    /// The region, if the connection names one.
    pub(crate) region: Option<String>,
    /// `public`, `internal` or `admin`: which endpoints of the catalog to use.
    pub(crate) interface: String,
    credentials: Credentials,
    trust: Trust,
    pub(crate) proxy: Option<String>,
    /// Whether servers may be in other zones than the granted ones if no host there has room.
    pub(crate) reselect_zones: bool,
}

enum Credentials {
    Password {
        user: Value,
        password: Secret,
        project: Value,
    },
    ApplicationCredential {
        id: String,
        secret: Secret,
    },
}

impl TryFrom<&VimConnectionInfo> for Access {
    type Error = PortError;

    fn try_from(info: &VimConnectionInfo) -> Result<Self, PortError> {
        check_members("interfaceInfo", &info.interface_info, INTERFACE_MEMBERS)?;
        check_members("accessInfo", &info.access_info, ACCESS_MEMBERS)?;
        let interface = optional(&info.access_info, "interface")?.unwrap_or("public");
        let interface = interface.trim_end_matches("URL");
        if !["public", "internal", "admin"].contains(&interface) {
            return Err(invalid(format!(
                "`accessInfo.interface` is `{interface}`, not `public`, `internal` or `admin`"
            )));
        }
        Ok(Self {
            endpoint: endpoint(&info.interface_info)?,
            region: optional(&info.access_info, "region")?.map(str::to_owned),
            interface: interface.to_owned(),
            credentials: credentials(&info.access_info)?,
            trust: Trust {
                authorities: trusted_certificates(info.interface_info.get("trustedCertificates"))?,
                skip_verification: flag(
                    ("interfaceInfo", &info.interface_info),
                    "skipCertificateVerification",
                )?,
                skip_hostname: flag(
                    ("interfaceInfo", &info.interface_info),
                    "skipCertificateHostnameCheck",
                )?,
            },
            proxy: proxy(&info.extra)?,
            reselect_zones: flag(("extra", &info.extra), "reselectZones")?,
        })
    }
}

impl Access {
    /// The body of a login request; contains the secret.
    pub(crate) fn login(&self) -> Value {
        match &self.credentials {
            Credentials::Password {
                user,
                password,
                project,
            } => {
                let mut user = user.clone();
                user["password"] = json!(password.reveal());
                json!({"auth": {
                    "identity": {"methods": ["password"], "password": {"user": user}},
                    "scope": {"project": project},
                }})
            }
            Credentials::ApplicationCredential { id, secret } => json!({"auth": {"identity": {
                "methods": ["application_credential"],
                "application_credential": {"id": id, "secret": secret.reveal()},
            }}}),
        }
    }

    /// Heat may refuse to work with one.
    pub(crate) fn is_application_credential(&self) -> bool {
        matches!(self.credentials, Credentials::ApplicationCredential { .. })
    }

    /// A client that trusts the connection's certificates and calls only addresses that `to` allows.
    pub(crate) fn client(&self, to: Destinations) -> Result<Client, PortError> {
        let client = Client::trusting(to, Policy::VIM, &self.trust, self.proxy.as_deref());
        client.map_err(|reason| invalid(format!("no client can be made: {reason}")))
    }
}

fn endpoint(info: &KeyValuePairs) -> Result<String, PortError> {
    let given = required(info, "interfaceInfo", "endpoint")?.trim_end_matches('/');
    let url = Url::parse(given)
        .map_err(|error| invalid(format!("`interfaceInfo.endpoint` is not a URL: {error}")))?;
    if !matches!(url.scheme(), "http" | "https") || !url.username().is_empty() {
        return Err(invalid(
            "`interfaceInfo.endpoint` is not a plain http or https URL".into(),
        ));
    }
    Ok(if given.ends_with("/v3") {
        given.to_owned()
    } else {
        format!("{given}/v3")
    })
}

/// `extra.proxy`: the HTTP proxy to this VIM. The environment's proxy settings apply to no VIM.
fn proxy(extra: &KeyValuePairs) -> Result<Option<String>, PortError> {
    let Some(given) = optional(extra, "proxy")? else {
        return Ok(None);
    };
    let plain = Url::parse(given)
        .is_ok_and(|url| matches!(url.scheme(), "http" | "https") && url.username().is_empty());
    if !plain {
        return Err(invalid(
            "`extra.proxy` is not an http or https URL without a login".into(),
        ));
    }
    Ok(Some(given.to_owned()))
}

fn credentials(info: &KeyValuePairs) -> Result<Credentials, PortError> {
    if info.contains_key("applicationCredentialId")
        || info.contains_key("applicationCredentialSecret")
    {
        return Ok(Credentials::ApplicationCredential {
            id: required(info, "accessInfo", "applicationCredentialId")?.to_owned(),
            secret: Secret::new(required(info, "accessInfo", "applicationCredentialSecret")?),
        });
    }
    let user = required(info, "accessInfo", "username")?;
    let password = Secret::new(required(info, "accessInfo", "password")?);
    let user_domain = optional(info, "userDomain")?.unwrap_or(DEFAULT_DOMAIN);
    let project = if let Some(id) = optional(info, "projectId")? {
        json!({"id": id})
    } else {
        let name = required(info, "accessInfo", "project")?;
        let project_domain = optional(info, "projectDomain")?.unwrap_or(user_domain);
        json!({"name": name, "domain": domain(project_domain)})
    };
    Ok(Credentials::Password {
        user: json!({"name": user, "domain": domain(user_domain)}),
        password,
        project,
    })
}

fn domain(given: &str) -> Value {
    let is_id = given == DEFAULT_DOMAIN
        || (given.len() == 32 && given.bytes().all(|byte| byte.is_ascii_hexdigit()));
    if is_id {
        json!({"id": given})
    } else {
        json!({"name": given})
    }
}

fn trusted_certificates(given: Option<&Value>) -> Result<Vec<Certificate>, PortError> {
    let texts: Vec<&str> = match given {
        None | Some(Value::Null) => Vec::new(),
        Some(Value::String(text)) if text.trim().is_empty() => Vec::new(),
        Some(Value::String(text)) => vec![text],
        Some(Value::Array(list)) => list.iter().filter_map(Value::as_str).collect(),
        Some(_) => {
            return Err(invalid(
                "`interfaceInfo.trustedCertificates` is neither text nor a list".into(),
            ));
        }
    };
    let mut all = Vec::new();
    for (index, text) in texts.iter().enumerate() {
        let found = certificates(text).ok_or_else(|| {
            invalid(format!(
                "`interfaceInfo.trustedCertificates[{index}]` is neither PEM nor base64 of a certificate"
            ))
        })?;
        all.extend(found);
    }
    Ok(all)
}

fn certificates(text: &str) -> Option<Vec<Certificate>> {
    let bytes = if text.contains("-----BEGIN") {
        text.as_bytes().to_vec()
    } else {
        let text: String = text.split_whitespace().collect();
        STANDARD.decode(text).ok()?
    };
    if bytes.starts_with(b"-----BEGIN") || text.contains("-----BEGIN") {
        let found = Certificate::from_pem_bundle(&bytes).ok()?;
        return (!found.is_empty()).then_some(found);
    }
    Certificate::from_der(&bytes).ok().map(|one| vec![one])
}

fn check_members(member: &str, info: &KeyValuePairs, names: &[&str]) -> Result<(), PortError> {
    let Some(unknown) = info.keys().find(|name| !names.contains(&name.as_str())) else {
        return Ok(());
    };
    Err(invalid(format!(
        "`{member}.{unknown}` is not known; the members are {}",
        names.join(", ")
    )))
}

fn required<'a>(info: &'a KeyValuePairs, member: &str, name: &str) -> Result<&'a str, PortError> {
    match optional(info, name)? {
        Some(text) if !text.is_empty() => Ok(text),
        _ => Err(invalid(format!("`{member}.{name}` is missing"))),
    }
}

fn optional<'a>(info: &'a KeyValuePairs, name: &str) -> Result<Option<&'a str>, PortError> {
    match info.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(_) => Err(invalid(format!("`{name}` is not text"))),
    }
}

fn flag((member, info): (&str, &KeyValuePairs), name: &str) -> Result<bool, PortError> {
    match info.get(name) {
        None | Some(Value::Null) => Ok(false),
        Some(Value::Bool(flag)) => Ok(*flag),
        Some(_) => Err(invalid(format!(
            "`{member}.{name}` is neither true nor false"
        ))),
    }
}

fn invalid(detail: String) -> PortError {
    PortError::new(&CONNECTION, "use the VIM's connection", detail)
}

#[cfg(test)]
impl Access {
    pub(crate) fn for_test(region: Option<&str>, interface: &str) -> Self {
        Self {
            endpoint: "http://cloud:5000/v3".into(),
            region: region.map(str::to_owned),
            interface: interface.to_owned(),
            credentials: Credentials::ApplicationCredential {
                id: "id".into(),
                secret: Secret::new("secret"),
            },
            trust: Trust::default(),
            proxy: None,
            reselect_zones: false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn connection(interface: &Value, access: &Value) -> VimConnectionInfo {
        VimConnectionInfo {
            vim_type: vnfm_types::OPENSTACK.into(),
            interface_info: interface.as_object().unwrap().clone(),
            access_info: access.as_object().unwrap().clone(),
            ..VimConnectionInfo::default()
        }
    }

    fn parse(interface: &Value, access: &Value) -> Result<Access, PortError> {
        Access::try_from(&connection(interface, access))
    }

    #[test]
    fn a_password_login_is_scoped_to_the_project() {
        let access = parse(
            &json!({"endpoint": "http://cloud:5000/"}),
            &json!({"username": "nfv", "password": "pw", "project": "nfv", "userDomain": "Default", "projectDomain": "default"}),
        )
        .unwrap();
        assert_eq!(access.endpoint, "http://cloud:5000/v3");
        assert_eq!(access.interface, "public");
        assert_eq!(
            access.login(),
            json!({"auth": {
                "identity": {"methods": ["password"], "password": {"user": {"name": "nfv", "domain": {"name": "Default"}, "password": "pw"}}},
                "scope": {"project": {"name": "nfv", "domain": {"id": "default"}}},
            }})
        );
    }

    #[test]
    fn an_application_credential_has_no_scope() {
        let access = parse(
            &json!({"endpoint": "http://cloud/identity/v3"}),
            &json!({"applicationCredentialId": "id", "applicationCredentialSecret": "pw"}),
        )
        .unwrap();
        assert!(access.is_application_credential());
        assert!(access.login().pointer("/auth/scope").is_none());
    }

    #[test]
    fn what_is_missing_or_unknown_is_named_and_no_secret_shown() {
        let interface = json!({"endpoint": "http://c"});
        let table = [
            (json!({}), json!({"username": "u"}), "accessInfo.username"),
            (
                interface.clone(),
                json!({"password": "hunter2"}),
                "accessInfo.username",
            ),
            (
                interface.clone(),
                json!({"username": "u", "password": "hunter2"}),
                "accessInfo.project",
            ),
            (
                interface.clone(),
                json!({"user": "u", "password": "hunter2"}),
                "accessInfo.user",
            ),
            (
                json!({"endpoint": "cloud:5000"}),
                json!({"username": "u", "password": "hunter2", "project": "p"}),
                "interfaceInfo.endpoint",
            ),
            (
                json!({"endpoint": "http://c", "trustedCertificates": ["?"]}),
                json!({"username": "u", "password": "hunter2", "project": "p"}),
                "trustedCertificates[0]",
            ),
            (
                interface.clone(),
                json!({"username": "u", "password": 7, "project": "p"}),
                "`password` is not text",
            ),
            (
                interface,
                json!({"username": "u", "password": "hunter2", "project": "p", "interface": "secret"}),
                "accessInfo.interface",
            ),
        ];
        for (index, (interface, access, named)) in table.into_iter().enumerate() {
            let error = parse(&interface, &access).err().unwrap();
            let expected = if index == 0 {
                "interfaceInfo.endpoint"
            } else {
                named
            };
            assert!(error.to_string().contains(expected), "{error}");
            assert!(!format!("{error:?}").contains("hunter2"));
        }
    }
}
