//! The configuration file of a program that uses the cloud from inside the cluster, with a login of its own.
//!
//! ```text
//! scoped login ──────────┐
//! outputs of the stack ──┼─► sections and keys ─► cloud.conf or kuryr.conf ─► ${CLOUD_CONFIG} of the manifest
//! the request's sections ┘
//! ```
//! The sections of the request are put over ours. The program marks what it creates on the cloud with the tag of the login,
//! by which the VNFM deletes it at the end: Kuryr by `resource_tags`, which is set here, cloud-provider-openstack and Cinder
//! CSI by `--cluster-name`, which the manifest takes from `${CLOUD_TAG}`.

use crate::outputs::{output_of, text_of};
use crate::params::{AddOn, Cloud, CloudFormat, Scalar};
use std::collections::BTreeMap;
use vnfm_plugin_sdk::prelude::*;
use vnfm_plugin_sdk::{Credential, CredentialRequest, Object};

/// Scalar of a manifest that becomes the file.
const CONFIG: &str = "CLOUD_CONFIG";
/// Scalars of a manifest that become the tag, and the cloud's certificate authorities.
const TAG: &str = "CLOUD_TAG";
const CERTIFICATES: &str = "CLOUD_CERTIFICATES";
/// Where the manifest must mount the cloud's certificate authorities, if it has its own.
const CERTIFICATES_PATH: &str = "/etc/cloud/ca.crt";

/// Whether a manifest may do without this value.
pub(crate) fn is_optional(name: &str) -> bool {
    [TAG, CERTIFICATES].contains(&name)
}

type Sections = BTreeMap<String, BTreeMap<String, String>>;

/// Values for the manifest of an add-on, from a login that is created for it; empty if it uses no cloud.
///
/// # Errors
///
/// `addon-invalid` for an output that the stack does not have, or a value of two lines; the VIM's, if it does not give a login.
pub(crate) async fn values(
    cx: &HookContext,
    addon: &AddOn,
) -> Result<BTreeMap<String, Scalar>, DriverError> {
    let Some(cloud) = &addon.cloud else {
        return Ok(BTreeMap::new());
    };
    let mut wanted = CredentialRequest::new(&addon.name);
    wanted.roles.clone_from(&cloud.roles);
    wanted.access_rules.clone_from(&cloud.access_rules);
    wanted.expires_at.clone_from(&cloud.expires_at);
    let login = cx.credential(&wanted).await?;
    let outputs = if cloud.uses_outputs() {
        cx.outputs().await?
    } else {
        Object::new()
    };
    let text = render(cloud, &login, &outputs).map_err(|problem| {
        let detail = format!("`cloud` of add-on `{}`: {problem}", addon.name);
        DriverError::new("addon-invalid", detail).phase("addons")
    })?;
    let values = [
        (CONFIG, text),
        (TAG, login.tag.clone()),
        (CERTIFICATES, login.trusted_certificates.join("\n")),
    ];
    let values = values.map(|(name, text)| (name.to_owned(), Scalar::Text(text)));
    Ok(values.into())
}

impl Cloud {
    fn uses_outputs(&self) -> bool {
        let mut values = self.sections.values().flat_map(BTreeMap::values);
        values.any(|value| matches!(value, Scalar::Text(text) if output_of(text).is_some()))
    }
}

fn render(cloud: &Cloud, login: &Credential, outputs: &Object) -> Result<String, String> {
    let mut sections = match cloud.format {
        CloudFormat::CloudProviderOpenstack => cloud_conf(login),
        CloudFormat::KuryrKubernetes => kuryr_conf(login),
    };
    for (section, keys) in &cloud.sections {
        let section = sections.entry(section.clone()).or_default();
        for (key, value) in keys {
            section.insert(key.clone(), resolved(value, outputs)?);
        }
    }
    let mut lines = Vec::new();
    for (section, keys) in sections {
        check_plain(&section)?;
        lines.push(format!("[{section}]\n"));
        for (key, value) in keys {
            check_plain(&key)?;
            if value.contains(['\n', '\r']) {
                return Err(format!("`{key}` in `[{section}]` has several lines"));
            }
            lines.push(format!("{key} = {}\n", cloud.format.written(&value)));
        }
    }
    Ok(lines.concat())
}

/// The text of a value of the request.
fn resolved(value: &Scalar, outputs: &Object) -> Result<String, String> {
    Ok(match value {
        Scalar::Bool(yes) => yes.to_string(),
        Scalar::Integer(number) => number.to_string(),
        Scalar::Text(text) => match output_of(text) {
            Some(name) => text_of(outputs, name)?,
            None => text.clone(),
        },
    })
}

/// Refuses names that would end a line or a section.
fn check_plain(name: &str) -> Result<(), String> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_. ".contains(c);
    if !name.is_empty() && name.chars().all(plain) {
        return Ok(());
    }
    Err(format!("`{name}` is no name of a section or key"))
}

impl CloudFormat {
    /// A value in the syntax of the file: Git's for cloud-provider-openstack (gcfg), that of oslo.config for Kuryr.
    fn written(self, value: &str) -> String {
        match self {
            Self::CloudProviderOpenstack => {
                format!("\"{}\"", value.replace('\\', "\\\\").replace('"', "\\\""))
            }
            Self::KuryrKubernetes => value.replace('$', "$$"),
        }
    }
}

fn cloud_conf(login: &Credential) -> Sections {
    let mut global = keys([
        ("auth-url", &login.auth_url),
        ("application-credential-id", &login.id),
        ("os-endpoint-type", &login.interface),
    ]);
    let secret = login.secret.reveal().to_owned();
    global.insert("application-credential-secret".to_owned(), secret);
    if let Some(region) = &login.region {
        global.insert("region".to_owned(), region.clone());
    }
    if !login.trusted_certificates.is_empty() {
        global.insert("ca-file".to_owned(), CERTIFICATES_PATH.to_owned());
    }
    [("Global".to_owned(), global)].into()
}

fn kuryr_conf(login: &Credential) -> Sections {
    let auth_type = "v3applicationcredential".to_owned();
    let mut neutron = keys([
        ("auth_type", &auth_type),
        ("auth_url", &login.auth_url),
        ("application_credential_id", &login.id),
        ("endpoint_type", &login.interface),
    ]);
    let secret = login.secret.reveal().to_owned();
    neutron.insert("application_credential_secret".to_owned(), secret);
    if let Some(region) = &login.region {
        neutron.insert("region_name".to_owned(), region.clone());
    }
    if !login.trusted_certificates.is_empty() {
        neutron.insert("cafile".to_owned(), CERTIFICATES_PATH.to_owned());
    }
    let defaults = keys([
        ("project", &login.project_id),
        ("resource_tags", &login.tag),
    ]);
    [
        ("neutron".to_owned(), neutron),
        ("neutron_defaults".to_owned(), defaults),
    ]
    .into()
}

fn keys<const N: usize>(pairs: [(&str, &String); N]) -> BTreeMap<String, String> {
    pairs
        .map(|(key, value)| (key.to_owned(), value.clone()))
        .into()
}

#[cfg(test)]
mod tests {
    use super::render;
    use crate::params::Cloud;
    use serde_json::{Value, from_value, json};
    use vnfm_plugin_sdk::{Credential, Object};

    fn login() -> Credential {
        let login = json!({
            "authUrl": "http://cloud/v3", "region": "RegionOne", "interface": "public", "projectId": "p-1", "id": "c-1",
            "secret": "s-1", "tag": "vnf-1",
        });
        from_value(login).unwrap()
    }

    fn rendered(cloud: Value) -> Result<String, String> {
        let cloud: Cloud = from_value(cloud).unwrap();
        let outputs: Object = from_value(json!({"pods": "subnet-1", "all": ["a"]})).unwrap();
        render(&cloud, &login(), &outputs)
    }

    #[test]
    fn cloud_conf_has_the_login_and_what_the_request_adds() {
        let cloud = json!({"format": "cloud-provider-openstack", "sections": {
            "LoadBalancer": {"subnet-id": "${output.pods}", "use-octavia": true, "lb-method": "a \"b\""}}});
        assert_eq!(
            rendered(cloud).unwrap(),
            "[Global]\napplication-credential-id = \"c-1\"\napplication-credential-secret = \"s-1\"\n\
             auth-url = \"http://cloud/v3\"\nos-endpoint-type = \"public\"\nregion = \"RegionOne\"\n\
             [LoadBalancer]\nlb-method = \"a \\\"b\\\"\"\nsubnet-id = \"subnet-1\"\nuse-octavia = \"true\"\n"
        );
    }

    /// Kuryr's CNI modes need kernels with Open vSwitch or VLANs: their settings are compared, and are not run.
    #[test]
    fn kuryr_conf_of_nested_vlan_has_the_trunk_settings() {
        let cloud = json!({"format": "kuryr-kubernetes", "sections": {
            "kubernetes": {"pod_vif_driver": "nested-vlan", "enabled_handlers": "vif,kuryrport,service,endpoints,kuryrloadbalancer"},
            "pod_vif_nested": {"worker_nodes_subnets": "${output.pods}"},
            "binding": {"link_iface": "ens3", "driver": "kuryr.lib.binding.drivers.vlan"},
            "neutron_defaults": {"pod_subnet": "${output.pods}", "ovs_bridge": "br-int"}}});
        assert_eq!(
            rendered(cloud).unwrap(),
            "[binding]\ndriver = kuryr.lib.binding.drivers.vlan\nlink_iface = ens3\n\
             [kubernetes]\nenabled_handlers = vif,kuryrport,service,endpoints,kuryrloadbalancer\npod_vif_driver = nested-vlan\n\
             [neutron]\napplication_credential_id = c-1\napplication_credential_secret = s-1\nauth_type = v3applicationcredential\n\
             auth_url = http://cloud/v3\nendpoint_type = public\nregion_name = RegionOne\n\
             [neutron_defaults]\novs_bridge = br-int\npod_subnet = subnet-1\nproject = p-1\nresource_tags = vnf-1\n\
             [pod_vif_nested]\nworker_nodes_subnets = subnet-1\n"
        );
    }

    #[test]
    fn kuryr_conf_of_neutron_vif_has_the_bridge_of_open_vswitch() {
        let cloud = json!({"format": "kuryr-kubernetes", "sections": {
            "kubernetes": {"pod_vif_driver": "neutron-vif", "vif_pool_driver": "neutron",
                "enabled_handlers": "vif,kuryrport,service,endpoints,kuryrloadbalancer"},
            "vif_pool": {"ports_pool_min": 5},
            "neutron_defaults": {"pod_subnet": "${output.pods}", "pod_security_groups": "group-1", "ovs_bridge": "br-int"}}});
        assert_eq!(
            rendered(cloud).unwrap(),
            "[kubernetes]\nenabled_handlers = vif,kuryrport,service,endpoints,kuryrloadbalancer\npod_vif_driver = neutron-vif\n\
             vif_pool_driver = neutron\n\
             [neutron]\napplication_credential_id = c-1\napplication_credential_secret = s-1\nauth_type = v3applicationcredential\n\
             auth_url = http://cloud/v3\nendpoint_type = public\nregion_name = RegionOne\n\
             [neutron_defaults]\novs_bridge = br-int\npod_security_groups = group-1\npod_subnet = subnet-1\nproject = p-1\n\
             resource_tags = vnf-1\n\
             [vif_pool]\nports_pool_min = 5\n"
        );
    }

    #[test]
    fn no_value_becomes_a_line_or_a_section() {
        let refused = |section: &str, key: &str, value: &str| {
            let sections = json!({section: {key: value}});
            let cloud = json!({"format": "kuryr-kubernetes", "sections": sections});
            rendered(cloud).unwrap_err()
        };
        assert!(refused("DEFAULT", "debug", "a\n[neutron]").contains("several lines"));
        assert!(refused("DEFAULT]\n[x", "debug", "a").contains("is no name"));
        assert!(refused("DEFAULT", "debug = 1\nx", "a").contains("is no name"));
        let missing = refused("neutron_defaults", "pod_subnet", "${output.pod}");
        assert!(
            missing.contains("no output `pod`") && missing.contains("pods"),
            "{missing}"
        );
        let list = refused("neutron_defaults", "pod_subnet", "${output.all}");
        assert!(list.contains("one value"), "{list}");
    }
}
