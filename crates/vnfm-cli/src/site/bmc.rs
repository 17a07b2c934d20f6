//! Addresses of BMCs as Metal3 spells them, with the protocol as the scheme.

use super::wrong;
use crate::failure::Outcome;
use reqwest::Url;
use vnfm_descriptor::raw::Node;
use vnfm_types::Secret;

/// A BMC, with the login for it.
pub struct Bmc {
    /// Where and how it is called.
    pub switch: Switch,
    /// The user as whom the VNFM logs in to it.
    pub user: String,
    /// The password of that user, from the files of the site.
    pub password: Secret,
    /// Whether its certificate is verified.
    pub is_verified: bool,
}

/// How a machine is switched on and off.
#[derive(Debug, PartialEq, Eq)]
pub enum Switch {
    /// IPMI 2.0 over LAN.
    Ipmi {
        /// Address or name of the BMC.
        address: String,
        /// UDP port on which it answers to IPMI.
        port: u16,
    },
    /// URL of the system at the Redfish service.
    Redfish(String),
}

/// Schemes of Metal3 whose BMCs have a Redfish service; `+http` or `+https` may follow.
const REDFISH: [&str; 7] = [
    "redfish",
    "redfish-virtualmedia",
    "redfish-uefihttp",
    "idrac-redfish",
    "idrac-virtualmedia",
    "ilo5-redfish",
    "ilo5-virtualmedia",
];
/// Port of IPMI over LAN.
const IPMI_PORT: u16 = 623;
const HINT: &str =
    "such as `ipmi://192.0.2.111` or `redfish+https://192.0.2.111/redfish/v1/Systems/1`";

impl Bmc {
    /// The BMC at the address in this node.
    pub(super) fn new(
        address: &Node,
        (user, password): (String, String),
        is_verified: bool,
    ) -> Outcome<Self> {
        let text = address.as_str().unwrap_or_default();
        let switch = if is_encrypted(text) {
            Err("it is encrypted by SOPS".to_owned())
        } else {
            parse(text)
        };
        // The address may have a login in it, which is not printed.
        let switch = switch.map_err(|why| {
            wrong(
                &address.span,
                format!("the address of the BMC cannot be used: {why}"),
                HINT,
            )
        })?;
        Ok(Self {
            switch,
            user,
            password: Secret::from(password),
            is_verified,
        })
    }
}

/// Whether it is a value that SOPS has encrypted.
pub(super) fn is_encrypted(text: &str) -> bool {
    text.starts_with("ENC[")
}

fn parse(text: &str) -> Result<Switch, String> {
    let (scheme, rest) = text.split_once("://").unwrap_or(("ipmi", text));
    let (protocol, transport) = scheme.split_once('+').unwrap_or((scheme, "https"));
    if REDFISH.contains(&protocol) && ["http", "https"].contains(&transport) {
        return redfish(&format!("{transport}://{rest}"));
    }
    // Metal3's name for the BMC of a virtual machine.
    if ["ipmi", "libvirt"].contains(&scheme) {
        return ipmi(&format!("ipmi://{rest}"));
    }
    Err(format!("`{scheme}` is neither IPMI nor Redfish"))
}

fn url(text: &str) -> Result<Url, String> {
    let url = Url::parse(text).map_err(|error| error.to_string())?;
    if !url.username().is_empty() || url.password().is_some() {
        return Err("a login does not belong into it".to_owned());
    }
    Ok(url)
}

fn ipmi(text: &str) -> Result<Switch, String> {
    let url = url(text)?;
    let host = url.host_str().unwrap_or_default();
    if host.is_empty() {
        return Err("it has no host".to_owned());
    }
    Ok(Switch::Ipmi {
        address: host.trim_matches(['[', ']']).to_owned(),
        port: url.port().unwrap_or(IPMI_PORT),
    })
}

fn redfish(text: &str) -> Result<Switch, String> {
    let mut url = url(text)?;
    url.set_query(None);
    url.set_fragment(None);
    if ["", "redfish/v1"].contains(&url.path().trim_matches('/')) {
        return Err("it has no path of a system".to_owned());
    }
    Ok(Switch::Redfish(url.into()))
}

#[cfg(test)]
mod tests {
    use super::{Switch, parse};

    #[test]
    fn the_addresses_of_metal3_are_read() {
        let ipmi = |address: &str, port| Switch::Ipmi {
            address: address.to_owned(),
            port,
        };
        let redfish = |url: &str| Switch::Redfish(url.to_owned());
        for (text, expected) in [
            ("ipmi://10.10.110.12", ipmi("10.10.110.12", 623)),
            ("10.10.110.12", ipmi("10.10.110.12", 623)),
            ("192.168.121.1:6230", ipmi("192.168.121.1", 6230)),
            ("libvirt://192.168.122.1:6233/", ipmi("192.168.122.1", 6233)),
            ("ipmi://bmc?privilegelevel=OPERATOR", ipmi("bmc", 623)),
            ("ipmi://[2001:db8::1]:624", ipmi("2001:db8::1", 624)),
            (
                "redfish://h/redfish/v1/Systems/1",
                redfish("https://h/redfish/v1/Systems/1"),
            ),
            (
                "redfish+http://h:8000/redfish/v1/Systems/1",
                redfish("http://h:8000/redfish/v1/Systems/1"),
            ),
            (
                "idrac-virtualmedia+https://h/redfish/v1/Systems/System.Embedded.1",
                redfish("https://h/redfish/v1/Systems/System.Embedded.1"),
            ),
        ] {
            assert_eq!(parse(text), Ok(expected), "{text}");
        }
    }

    #[test]
    fn what_is_no_address_is_refused_without_its_login() {
        for (text, words) in [
            ("", "host"),
            ("ipmi://", "host"),
            ("idrac://10.0.0.1", "`idrac`"),
            ("redfish+ftp://h/redfish/v1/Systems/1", "redfish+ftp"),
            ("redfish://h", "path of a system"),
            ("redfish://h/redfish/v1/", "path of a system"),
            ("ipmi://root:hunter2@10.0.0.1", "login"),
            ("redfish://root:hunter2@h/redfish/v1/Systems/1", "login"),
            ("ipmi://10.0.0.1:99999", "port"),
        ] {
            let error = parse(text).unwrap_err();
            assert!(
                error.contains(words) && !error.contains("hunter2"),
                "{text}: {error}"
            );
        }
    }
}
