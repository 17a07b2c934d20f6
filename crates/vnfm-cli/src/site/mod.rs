//! The machines of an edge site, from the files with which Akraino ICN and Metal3 describe them.
//!
//! | document | recognised by |
//! |---|---|
//! | `nodes.json` of ICN, until 2021 | `nodes` |
//! | values of ICN's chart `deploy/machine` | `machineName` |
//! | Flux release of that chart | `kind: HelmRelease` |
//! | Metal3 | `kind: BareMetalHost`, with its logins and networks in `kind: Secret` |
//! | site information of ICN's BPA: names and roles | `kind: Provisioning` |
//!
//! Documents of other kinds are skipped, since the files of a site describe clusters as well.

mod bmc;

use crate::failure::{Failure, Outcome, local};
use crate::input;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bmc::is_encrypted;
pub use bmc::{Bmc, Switch};
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::PathBuf;
use vnfm_descriptor::raw::{Node, Sink, parse_all};
use vnfm_descriptor::{Limits, Severity, Span};
use vnfm_types::Secret;

/// A machine of a site.
pub struct Machine {
    /// Unique in the site.
    pub name: String,
    /// Where it is described.
    pub at: Span,
    /// How it is switched on and off; `None` if the files do not say.
    pub bmc: Option<Bmc>,
    /// Its fixed address on each network; `None`: the network's DHCP server gives it one.
    pub addresses: BTreeMap<String, Option<IpAddr>>,
    /// What tells it from other machines, such as its role.
    pub labels: BTreeMap<String, String>,
    /// User of its operating system.
    pub user: Option<String>,
    /// That user's password.
    pub password: Option<Secret>,
}

/// The Secrets of all files, by name.
type Secrets<'a> = BTreeMap<&'a str, &'a Node>;

/// Reads the machines of all files, in their order.
///
/// # Errors
///
/// A file cannot be read, is not YAML, lacks a member (with its position), or there is no machine.
pub fn read(files: &[PathBuf]) -> Outcome<Vec<Machine>> {
    let mut documents = Vec::new();
    for file in files {
        let name = file.display().to_string();
        let text = input::text(file).map_err(|e| local(format!("cannot read `{name}`: {e}")))?;
        documents.extend(parsed(&text, &name)?);
    }
    let resources: Vec<&Node> = documents.iter().flat_map(resources).collect();
    let secrets = resources.iter().filter(|one| kind(one) == Some("Secret"));
    let secrets = secrets.filter_map(|one| Some((one.at(&["metadata", "name"])?.as_str()?, *one)));
    let secrets: Secrets<'_> = secrets.collect();
    let mut machines: Vec<Machine> = Vec::new();
    for resource in resources {
        for machine in machines_of(resource, &secrets)? {
            if let Some(first) = machines.iter().find(|one| one.name == machine.name) {
                let what = format!("the machine `{}` is also at {}", machine.name, first.at);
                return Err(wrong(&machine.at, what, "describe each machine once"));
            }
            machines.push(machine);
        }
    }
    if machines.is_empty() {
        return Err(Failure::Hinted {
            message: "the files describe no machine".to_owned(),
            hint: format!("a site has {FORMS}"),
        });
    }
    Ok(machines)
}

const FORMS: &str = "`nodes` (ICN's nodes.json), `machineName` (values of ICN's chart `machine`), or resources \
                     BareMetalHost, HelmRelease or Provisioning";

fn parsed(text: &str, file: &str) -> Outcome<Vec<Node>> {
    let mut sink = Sink::default();
    let documents = parse_all(text, file, &Limits::default(), &mut sink);
    let findings = sink.all();
    let mut errors = findings
        .iter()
        .filter(|finding| finding.severity == Severity::Error);
    match (errors.next(), documents) {
        (None, Some(documents)) => Ok(documents),
        (Some(error), _) => Err(local(error)),
        (None, None) => Err(local(format!("`{file}` is not YAML"))),
    }
}

/// The document, or the items of a list.
fn resources(document: &Node) -> Vec<&Node> {
    if kind(document).is_some_and(|kind| kind.ends_with("List")) {
        let items = document.get("items").map(Node::items).unwrap_or_default();
        return items.iter().collect();
    }
    vec![document]
}

fn kind(document: &Node) -> Option<&str> {
    document.get("kind")?.as_str()
}

fn machines_of(document: &Node, secrets: &Secrets<'_>) -> Outcome<Vec<Machine>> {
    let values = document.at(&["spec", "values"]);
    match kind(document) {
        _ if document.is_null() => Ok(Vec::new()),
        Some("BareMetalHost") => Ok(vec![bare_metal_host(document, secrets)?]),
        Some("Provisioning") => provisioning(document),
        Some("HelmRelease") => match values.filter(|values| values.get("machineName").is_some()) {
            Some(values) => Ok(vec![chart(values)?]),
            None => Ok(Vec::new()),
        },
        Some(_) => Ok(Vec::new()),
        None if document.get("machineName").is_some() => Ok(vec![chart(document)?]),
        None => match document.get("nodes") {
            Some(nodes) => nodes.items().iter().map(node).collect(),
            None => Err(wrong(
                &document.span,
                "the document describes no machine",
                &format!("a site has {FORMS}"),
            )),
        },
    }
}

/// An element of `nodes`.
fn node(node: &Node) -> Outcome<Machine> {
    let bmc = node.get("ipmi_driver_info");
    let bmc = bmc.map(|bmc| {
        let login = (text(bmc, &["username"])?, text(bmc, &["password"])?);
        Bmc::new(member(bmc, &["address"])?, login, true)
    });
    let networks = node.get("net");
    Ok(Machine {
        name: text(node, &["name"])?,
        at: node.span.clone(),
        bmc: bmc.transpose()?,
        addresses: networks.map(network_data).transpose()?.unwrap_or_default(),
        labels: BTreeMap::new(),
        user: optional(node, &["os", "username"])?,
        password: optional(node, &["os", "password"])?.map(Secret::from),
    })
}

/// Values of the chart `machine`.
fn chart(values: &Node) -> Outcome<Machine> {
    let login = (
        text(values, &["bmcUsername"])?,
        text(values, &["bmcPassword"])?,
    );
    let is_verified = is_verified(values.get("bmcDisableCertificateVerification"));
    let mut addresses = BTreeMap::new();
    for (form, networks) in values
        .at(&["networkData", "networks"])
        .into_iter()
        .flat_map(Node::named)
    {
        for (name, network) in networks.named() {
            let fixed = network.get("ipAddress").filter(|_| !form.ends_with("DHCP"));
            add(&mut addresses, name, fixed)?;
        }
    }
    Ok(Machine {
        name: text(values, &["machineName"])?,
        at: values.span.clone(),
        bmc: Some(Bmc::new(
            member(values, &["bmcAddress"])?,
            login,
            is_verified,
        )?),
        addresses,
        labels: labels(values.get("machineLabels")),
        user: optional(values, &["userData", "name"])?,
        password: None,
    })
}

fn bare_metal_host(host: &Node, secrets: &Secrets<'_>) -> Outcome<Machine> {
    let bmc = host.at(&["spec", "bmc"]).map(|bmc| {
        let secret = referenced(bmc, &["credentialsName"], secrets)?;
        let login = (
            secret_text(secret, "username")?,
            secret_text(secret, "password")?,
        );
        let is_verified = is_verified(bmc.get("disableCertificateVerification"));
        Bmc::new(member(bmc, &["address"])?, login, is_verified)
    });
    let mut addresses = BTreeMap::new();
    if let Some(reference) = host.at(&["spec", "networkData"]) {
        let secret = referenced(reference, &["name"], secrets)?;
        let content = secret_text(secret, "networkData")?;
        let file = format!("`networkData` of {}", secret.span);
        for data in parsed(&content, &file)? {
            addresses.extend(network_data(&data)?);
        }
    }
    Ok(Machine {
        name: text(host, &["metadata", "name"])?,
        at: host.span.clone(),
        bmc: bmc.transpose()?,
        addresses,
        labels: labels(host.at(&["metadata", "labels"])),
        user: None,
        password: None,
    })
}

/// Names by role; a list of mappings with one entry each.
fn provisioning(document: &Node) -> Outcome<Vec<Machine>> {
    let mut machines = Vec::new();
    for (member, role) in [("masters", "master"), ("workers", "worker")] {
        let listed = document.at(&["spec", member]).map(Node::items);
        for (name, machine) in listed.into_iter().flatten().flat_map(Node::entries) {
            let Some(text) = name.as_str() else {
                let hint = "write `NAME: {mac-address: …}`";
                return Err(wrong(&name.span, "the name of a machine is missing", hint));
            };
            machines.push(Machine {
                name: text.to_owned(),
                at: name.span.clone(),
                bmc: None,
                addresses: BTreeMap::new(),
                labels: roles(role, machine),
                user: None,
                password: None,
            });
        }
    }
    Ok(machines)
}

/// The role, and the devices of a worker.
fn roles(role: &str, machine: &Node) -> BTreeMap<String, String> {
    let mut labels = BTreeMap::from([("role".to_owned(), role.to_owned())]);
    let devices = machine
        .named()
        .filter(|(name, _)| ["sriov", "qat"].contains(name));
    for (name, value) in devices {
        if let Some(value) = value.as_str() {
            labels.insert(name.to_owned(), value.to_owned());
        }
    }
    labels
}

/// Addresses in the form of OpenStack's `network_data.json`.
fn network_data(data: &Node) -> Outcome<BTreeMap<String, Option<IpAddr>>> {
    let mut addresses = BTreeMap::new();
    for network in data.get("networks").map(Node::items).unwrap_or_default() {
        let is_dhcp = optional(network, &["type"])?.is_some_and(|form| form.contains("dhcp"));
        let fixed = network.get("ip_address").filter(|_| !is_dhcp);
        add(&mut addresses, &text(network, &["id"])?, fixed)?;
    }
    Ok(addresses)
}

/// Adds an address such as `192.0.2.1/24`; the first of a network counts.
fn add(
    addresses: &mut BTreeMap<String, Option<IpAddr>>,
    network: &str,
    fixed: Option<&Node>,
) -> Outcome<()> {
    let known = addresses.entry(network.to_owned()).or_default();
    let Some(node) = fixed.filter(|_| known.is_none()) else {
        return Ok(());
    };
    let text = node.as_str().unwrap_or_default();
    let address = text.split('/').next().and_then(|ip| ip.parse().ok());
    let what = format!("`{text}` is no address of the network `{network}`");
    *known = Some(address.ok_or_else(|| wrong(&node.span, what, "write it as `192.0.2.11/24`"))?);
    Ok(())
}

fn labels(node: Option<&Node>) -> BTreeMap<String, String> {
    let named = node.into_iter().flat_map(Node::named);
    let texts =
        named.filter_map(|(name, value)| Some((name.to_owned(), value.as_str()?.to_owned())));
    texts.collect()
}

fn is_verified(disabled: Option<&Node>) -> bool {
    disabled.and_then(Node::as_bool) != Some(true)
}

/// The Secret that a member names.
fn referenced<'a>(parent: &Node, path: &[&str], secrets: &Secrets<'a>) -> Outcome<&'a Node> {
    let name = text(parent, path)?;
    secrets.get(name.as_str()).copied().ok_or_else(|| {
        let what = format!("the Secret `{name}` is in none of the files");
        wrong(&parent.span, what, "pass the file with the Secret as well")
    })
}

/// A value of a Secret, as Metal3 reads it: without blanks around it.
fn secret_text(secret: &Node, key: &str) -> Outcome<String> {
    if let Some(plain) = optional(secret, &["stringData", key])? {
        return Ok(plain.trim().to_owned());
    }
    let coded = text(secret, &["data", key])?;
    let bytes = STANDARD.decode(coded.trim()).ok();
    let decoded = bytes.and_then(|bytes| String::from_utf8(bytes).ok());
    let what = || format!("`data.{key}` is not text in base64");
    decoded
        .map(|text| text.trim().to_owned())
        .ok_or_else(|| wrong(&secret.span, what(), "encode it with `base64`"))
}

/// The node at the end of a path.
fn member<'a>(parent: &'a Node, path: &[&str]) -> Outcome<&'a Node> {
    parent.at(path).ok_or_else(|| {
        let what = format!("`{}` is missing", path.join("."));
        wrong(&parent.span, what, "add it")
    })
}

/// The text at the end of a path.
fn text(parent: &Node, path: &[&str]) -> Outcome<String> {
    let found = member(parent, path)?;
    let what = || format!("`{}` is {} instead of a text", path.join("."), found.kind());
    let text = found
        .as_str()
        .ok_or_else(|| wrong(&found.span, what(), "correct it"))?;
    if is_encrypted(text) {
        let what = format!("`{}` is encrypted by SOPS", path.join("."));
        return Err(wrong(
            &found.span,
            what,
            "decrypt the file first: `sops --decrypt FILE`",
        ));
    }
    Ok(text.to_owned())
}

fn optional(parent: &Node, path: &[&str]) -> Outcome<Option<String>> {
    parent.at(path).map(|_| text(parent, path)).transpose()
}

/// An error at a position.
fn wrong(at: &Span, what: impl std::fmt::Display, hint: &str) -> Failure {
    Failure::Hinted {
        message: format!("{at}: {what}"),
        hint: hint.to_owned(),
    }
}

#[cfg(test)]
mod tests;
