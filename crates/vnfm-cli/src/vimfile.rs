//! Reads files with the endpoint and credentials of a VIM into a [`VimConnectionInfo`].
//!
//! | file | recognised by |
//! |---|---|
//! | clouds.yaml (OpenStack SDK) | `clouds` |
//! | kubeconfig | `kind: Config` or `clusters` |
//! | `VimConnectionInfo` of SOL003, for any type of VIM | `vimType` |
//! | Tacker VIM file, for both types | `auth_url`; `type: openstack` or `type: kubernetes` |

use crate::client::{Outcome, local};
use crate::input;
use serde::Deserialize as _;
use serde_json::{Map, Value, json};
use std::path::Path;
use vnfm_types::{KUBERNETES, OPENSTACK, VimConnectionInfo};

/// The result of reading a file.
pub struct VimFile {
    /// Endpoint, credentials and VIM type.
    pub connection: VimConnectionInfo,
    /// Warnings for the operator who registers the VIM.
    pub warnings: Vec<String>,
}

/// Reads a file; `entry` selects one of several clouds or contexts.
///
/// # Errors
///
/// If it cannot be read, has no known format, or lacks a member (the message names it).
pub fn read(file: &Path, entry: Option<&str>) -> Outcome<VimFile> {
    let name = file.display();
    let text = input::text(file).map_err(|e| local(format!("cannot read `{name}`: {e}")))?;
    let text = text.trim_start_matches('\u{feff}');
    let value: Value = serde_yaml::from_str(text)
        .map_err(|e| local(format!("`{name}` is not valid YAML: {e}")))?;
    let folder = file.parent().unwrap_or(Path::new("."));
    let read = if value.get("vimType").is_some() {
        connection_info(&value)
    } else if value.get("clouds").is_some() {
        cloud(&value["clouds"], entry, folder)
    } else if value["kind"] == "Config" || value.get("clusters").is_some() {
        kubeconfig(&value, entry, folder)
    } else if value.get("auth_url").is_some() {
        tacker(&value)
    } else {
        Err(
            "unknown format: expected a clouds.yaml, a kubeconfig, or a VIM file with `auth_url` or `vimType`"
                .into(),
        )
    };
    read.map_err(|cause| local(format!("`{name}`: {cause}")))
}

type Parsed<T> = Result<T, String>;

/// A `VimConnectionInfo` as SOL003 spells it. The parser's message could quote a secret.
fn connection_info(file: &Value) -> Parsed<VimFile> {
    let connection = VimConnectionInfo::deserialize(file)
        .map_err(|_| "`interfaceInfo`, `accessInfo` or `extra` is not a mapping".to_owned())?;
    let warnings = match connection.interface_info.get("skipCertificateVerification") {
        Some(Value::Bool(true)) => vec![UNVERIFIED.to_owned()],
        _ => Vec::new(),
    };
    Ok(VimFile {
        connection,
        warnings,
    })
}

/// An entry of clouds.yaml, as the OpenStack SDK documents it.
fn cloud(clouds: &Value, entry: Option<&str>, folder: &Path) -> Parsed<VimFile> {
    let all = clouds.as_object().ok_or("`clouds` is not a mapping")?;
    let (name, cloud) = select(all, entry, "--cloud")?;
    let auth = &cloud["auth"];
    let path = |member: &str| format!("clouds.{name}.auth.{member}");
    let mut interface = Map::new();
    interface.insert(
        "endpoint".into(),
        required(auth, "auth_url", &path("auth_url"))?,
    );
    if let Some(file) = cloud["cacert"].as_str() {
        interface.insert(
            "trustedCertificates".into(),
            json!([contents(folder, file)?]),
        );
    }
    let mut warnings = Vec::new();
    if cloud["verify"] == false {
        interface.insert("skipCertificateVerification".into(), json!(true));
        warnings.push(UNVERIFIED.to_owned());
    }
    let mut access = cloud_login(auth);
    if !access.contains_key("password") && !access.contains_key("applicationCredentialSecret") {
        return Err(format!(
            "{} is missing, and there is no application credential",
            path("password")
        ));
    }
    access.extend(members(
        cloud,
        &[("region_name", "region"), ("interface", "interface")],
    ));
    let connection = VimConnectionInfo {
        vim_type: OPENSTACK.into(),
        interface_info: interface,
        access_info: access,
        ..VimConnectionInfo::default()
    };
    Ok(VimFile {
        connection,
        warnings,
    })
}

/// The user or application credential of a cloud's `auth`, with its project and domains.
fn cloud_login(auth: &Value) -> Map<String, Value> {
    let mut access = members(
        auth,
        &[
            ("username", "username"),
            ("password", "password"),
            ("project_name", "project"),
            ("project_id", "projectId"),
            ("application_credential_id", "applicationCredentialId"),
            (
                "application_credential_secret",
                "applicationCredentialSecret",
            ),
        ],
    );
    for (ours, names) in [
        ("userDomain", ["user_domain_name", "user_domain_id"]),
        (
            "projectDomain",
            ["project_domain_name", "project_domain_id"],
        ),
    ] {
        if let Some(domain) = names.iter().find_map(|name| auth[*name].as_str()) {
            access.insert(ours.into(), json!(domain));
        }
    }
    access
}

/// A context of a kubeconfig; files that it refers to are read, but credential plugins are not run.
fn kubeconfig(config: &Value, entry: Option<&str>, folder: &Path) -> Parsed<VimFile> {
    let context = entry.or_else(|| config["current-context"].as_str());
    let context = context.ok_or("it has no `current-context`; choose a context with --cloud")?;
    let context = named(config, "contexts", context)?["context"].clone();
    let cluster = context["cluster"]
        .as_str()
        .ok_or("the context names no cluster")?;
    let cluster = &named(config, "clusters", cluster)?["cluster"];
    let user = context["user"]
        .as_str()
        .ok_or("the context names no user")?;
    let user = &named(config, "users", user)?["user"];
    let mut interface = Map::new();
    interface.insert(
        "endpoint".into(),
        required(cluster, "server", "cluster.server")?,
    );
    let mut warnings = Vec::new();
    if cluster["insecure-skip-tls-verify"] == true {
        interface.insert("skipCertificateVerification".into(), json!(true));
        warnings.push(UNVERIFIED.to_owned());
    } else if let Some(pem) = material(cluster, "certificate-authority", folder)? {
        interface.insert("ssl_ca_cert".into(), json!(pem));
    }
    if let Some(name) = cluster["tls-server-name"].as_str() {
        interface.insert("tls_server_name".into(), json!(name));
    }
    let extra = context["namespace"]
        .as_str()
        .map(|namespace| json!({"namespace": namespace}));
    let connection = VimConnectionInfo {
        vim_type: KUBERNETES.into(),
        interface_info: interface,
        access_info: kubernetes_user(user, folder)?,
        extra: extra
            .and_then(|extra| extra.as_object().cloned())
            .unwrap_or_default(),
        ..VimConnectionInfo::default()
    };
    Ok(VimFile {
        connection,
        warnings,
    })
}

fn kubernetes_user(user: &Value, folder: &Path) -> Parsed<Map<String, Value>> {
    let mut access = Map::new();
    if let Some(token) = user["token"].as_str() {
        access.insert("bearer_token".into(), json!(token));
    } else if let Some(file) = user["tokenFile"].as_str() {
        access.insert("bearer_token".into(), json!(contents(folder, file)?.trim()));
    } else if let (Some(certificate), Some(key)) = (
        material(user, "client-certificate", folder)?,
        material(user, "client-key", folder)?,
    ) {
        access.insert("client_certificate".into(), json!(certificate));
        access.insert("client_key".into(), json!(key));
    } else if user.get("exec").is_some() || user.get("auth-provider").is_some() {
        return Err(
            "the user logs in by running a program, which the server cannot do; use a service account token: \
             `kubectl create token`"
                .into(),
        );
    } else {
        return Err("the user has neither a token nor a client certificate with its key".into());
    }
    Ok(access)
}

/// A VIM file in the format of Tacker's `vim-config.yaml`.
fn tacker(file: &Value) -> Parsed<VimFile> {
    match file["type"].as_str() {
        Some("openstack") | None => tacker_openstack(file),
        Some("kubernetes") => tacker_kubernetes(file),
        Some(other) => Err(format!(
            "`type: {other}` is neither openstack nor kubernetes"
        )),
    }
}

fn tacker_openstack(file: &Value) -> Parsed<VimFile> {
    let endpoint = required(file, "auth_url", "auth_url")?;
    let mut warnings = Vec::new();
    let mut interface = Map::new();
    interface.insert("endpoint".into(), endpoint);
    if matches!(&file["cert_verify"], Value::Bool(false)) || file["cert_verify"] == "False" {
        interface.insert("skipCertificateVerification".into(), json!(true));
        warnings.push(UNVERIFIED.to_owned());
    }
    for member in ["username", "password", "project_name"] {
        required(file, member, member)?;
    }
    let access = members(
        file,
        &[
            ("username", "username"),
            ("password", "password"),
            ("project_name", "project"),
            ("project_domain_name", "projectDomain"),
            ("user_domain_name", "userDomain"),
            ("region", "region"),
        ],
    );
    let connection = VimConnectionInfo {
        vim_type: OPENSTACK.into(),
        interface_info: interface,
        access_info: access,
        ..VimConnectionInfo::default()
    };
    Ok(VimFile {
        connection,
        warnings,
    })
}

fn tacker_kubernetes(file: &Value) -> Parsed<VimFile> {
    if file.get("bearer_token").is_none()
        && (file.get("username").is_some() || file.get("password").is_some())
    {
        return Err(
            "Kubernetes removed basic authentication (username, password) in version 1.19; use `bearer_token` from \
             `kubectl create token`"
                .into(),
        );
    }
    let mut interface = Map::new();
    interface.insert("endpoint".into(), required(file, "auth_url", "auth_url")?);
    let mut warnings = Vec::new();
    match file["ssl_ca_cert"].as_str() {
        Some(pem) if pem.trim() != "None" => {
            interface.insert("ssl_ca_cert".into(), json!(unfold(pem)));
        }
        _ => {
            interface.insert("skipCertificateVerification".into(), json!(true));
            warnings.push(UNVERIFIED.to_owned());
        }
    }
    let token = required(file, "bearer_token", "bearer_token")?;
    let access = Map::from_iter([("bearer_token".to_owned(), token)]);
    let namespace = file["project_name"].as_str().unwrap_or("default");
    let connection = VimConnectionInfo {
        vim_type: KUBERNETES.into(),
        interface_info: interface,
        access_info: access,
        extra: Map::from_iter([("namespace".to_owned(), json!(namespace))]),
        ..VimConnectionInfo::default()
    };
    Ok(VimFile {
        connection,
        warnings,
    })
}

/// Restores the line breaks of a PEM that YAML folded into spaces.
fn unfold(pem: &str) -> String {
    if pem.trim().contains('\n') {
        return pem.to_owned();
    }
    let mut lines = Vec::new();
    for part in pem
        .split("-----")
        .map(str::trim)
        .filter(|part| !part.is_empty())
    {
        if part.starts_with("BEGIN ") || part.starts_with("END ") {
            lines.push(format!("-----{part}-----"));
        } else {
            lines.extend(part.split_whitespace().map(ToOwned::to_owned));
        }
    }
    lines.join("\n") + "\n"
}

fn select<'a>(
    all: &'a Map<String, Value>,
    entry: Option<&str>,
    flag: &str,
) -> Parsed<(&'a str, &'a Value)> {
    let names = || {
        all.keys()
            .map(String::as_str)
            .collect::<Vec<_>>()
            .join(", ")
    };
    let found = match entry {
        Some(entry) => all.get_key_value(entry),
        None if all.len() == 1 => all.iter().next(),
        None => {
            return Err(format!(
                "it has several entries; choose one with {flag}: {}",
                names()
            ));
        }
    };
    found
        .map(|(name, value)| (name.as_str(), value))
        .ok_or_else(|| {
            format!(
                "it has no entry `{}`; it has: {}",
                entry.unwrap_or_default(),
                names()
            )
        })
}

fn named<'a>(config: &'a Value, list: &str, name: &str) -> Parsed<&'a Value> {
    let entries = config[list]
        .as_array()
        .map(Vec::as_slice)
        .unwrap_or_default();
    entries
        .iter()
        .find(|entry| entry["name"] == name)
        .ok_or_else(|| format!("`{list}` has no entry named `{name}`"))
}

fn required(parent: &Value, member: &str, path: &str) -> Parsed<Value> {
    match parent.get(member) {
        Some(Value::String(text)) if !text.is_empty() => Ok(json!(text)),
        Some(_) => Err(format!("`{path}` must be a non-empty string")),
        None => Err(format!("`{path}` is missing")),
    }
}

fn members(parent: &Value, names: &[(&str, &str)]) -> Map<String, Value> {
    let found = names.iter().filter_map(|(theirs, ours)| {
        parent[*theirs]
            .as_str()
            .map(|text| ((*ours).to_owned(), json!(text)))
    });
    found.collect()
}

/// The content of `<name>-data` (base64), or of the file that `<name>` refers to.
fn material(parent: &Value, name: &str, folder: &Path) -> Parsed<Option<String>> {
    if let Some(data) = parent[format!("{name}-data")].as_str() {
        let bytes = decode(data).ok_or_else(|| format!("`{name}-data` is not base64"))?;
        return String::from_utf8(bytes)
            .map(Some)
            .map_err(|_| format!("`{name}-data` is not PEM"));
    }
    parent[name]
        .as_str()
        .map(|file| contents(folder, file))
        .transpose()
}

fn decode(text: &str) -> Option<Vec<u8>> {
    use base64::Engine as _;
    base64::engine::general_purpose::STANDARD
        .decode(text.trim())
        .ok()
}

fn contents(folder: &Path, file: &str) -> Parsed<String> {
    let path = folder.join(file);
    input::text(&path).map_err(|e| format!("cannot read `{}`: {e}", path.display()))
}

const UNVERIFIED: &str =
    "the VIM's certificate is not verified: an impostor could steal the credentials";

#[cfg(test)]
mod tests {
    use super::read;
    use serde_json::json;
    use std::io::Write as _;
    use vnfm_types::{KUBERNETES, OPENSTACK};

    fn file(text: &str) -> tempfile::NamedTempFile {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(text.as_bytes()).unwrap();
        file
    }

    #[test]
    fn an_entry_of_clouds_yaml_is_converted() {
        let file = file(
            "clouds:\n  a:\n    auth: {auth_url: 'http://h/v3', username: u, password: p, project_name: n, \
             user_domain_id: default, project_domain_name: D}\n    region_name: R\n  b: {auth: {}}\n",
        );
        let connection = read(file.path(), Some("a")).unwrap().connection;
        assert_eq!(connection.vim_type, OPENSTACK);
        assert_eq!(connection.interface_info["endpoint"], "http://h/v3");
        let expected = json!({"username": "u", "password": "p", "project": "n", "userDomain": "default",
            "projectDomain": "D", "region": "R"});
        assert_eq!(serde_json::Value::Object(connection.access_info), expected);
        let error = read(file.path(), None).err().unwrap().to_string();
        assert!(error.ends_with("choose one with --cloud: a, b"), "{error}");
        let error = read(file.path(), Some("b")).err().unwrap().to_string();
        assert!(
            error.contains("`clouds.b.auth.auth_url` is missing"),
            "{error}"
        );
    }

    #[test]
    fn the_lines_of_a_folded_certificate_are_restored() {
        let file = file(
            "auth_url: \"https://192.0.2.1:6443\"\nbearer_token: \"t\"\nssl_ca_cert: \"-----BEGIN CERTIFICATE-----\n\
             AAAA\nBBBB\n-----END CERTIFICATE-----\"\nproject_name: \"ns\"\ntype: \"kubernetes\"\n",
        );
        let connection = read(file.path(), None).unwrap().connection;
        let pem = "-----BEGIN CERTIFICATE-----\nAAAA\nBBBB\n-----END CERTIFICATE-----\n";
        assert_eq!(connection.interface_info["ssl_ca_cert"], pem);
        assert_eq!(
            (connection.vim_type.as_str(), &connection.extra["namespace"]),
            (KUBERNETES, &json!("ns"))
        );
    }

    #[test]
    fn a_missing_certificate_is_a_warning_and_basic_auth_is_rejected() {
        let insecure =
            file("auth_url: https://h\nbearer_token: t\nssl_ca_cert: None\ntype: kubernetes\n");
        let connection = read(insecure.path(), None).unwrap();
        assert_eq!(
            connection.connection.interface_info["skipCertificateVerification"],
            true
        );
        assert_eq!(connection.warnings.len(), 1);
        let basic = file("auth_url: https://h\nusername: u\npassword: hunter2\ntype: kubernetes\n");
        let error = read(basic.path(), None).err().unwrap().to_string();
        assert!(
            error.contains("1.19") && !error.contains("hunter2"),
            "{error}"
        );
    }

    #[test]
    fn a_kubeconfig_with_a_client_certificate_is_converted() {
        let file = file(
            "kind: Config\ncurrent-context: c\ncontexts: [{name: c, context: {cluster: k, user: u}}]\n\
             clusters: [{name: k, cluster: {server: 'https://h:1', certificate-authority-data: UEVN}}]\n\
             users: [{name: u, user: {client-certificate-data: Q0VSVA==, client-key-data: S0VZ}}]\n",
        );
        let connection = read(file.path(), None).unwrap().connection;
        assert_eq!(connection.interface_info["ssl_ca_cert"], "PEM");
        assert_eq!(connection.access_info["client_key"], "KEY");
    }
}
