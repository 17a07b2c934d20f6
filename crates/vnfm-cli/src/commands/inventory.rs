//! `vnfmctl vim inventory`: the file of an inventory of bare hosts, from the files of a site.

use crate::args::Inventory;
use crate::failure::{Failure, Outcome, local};
use crate::input;
use crate::output::{Output, tell};
use crate::site::{self, Bmc, Machine, Switch};
use serde_json::{Map, Value, json};
use std::io::Write as _;
use std::path::Path;
use vnfm_types::{HOSTS, VimConnectionInfo};

pub(super) fn write(output: Output, args: &Inventory) -> Outcome<()> {
    let machines = site::read(&args.files)?;
    let known = |name: &str| machines.iter().any(|machine| machine.name == name);
    if let Some((name, _)) = args.addresses.iter().find(|(name, _)| !known(name)) {
        return Err(local(format!(
            "--address: the files have no machine `{name}`"
        )));
    }
    let connection = connection(&machines, args)?;
    create(&args.out, &connection)?;
    warn(&machines);
    let names: Vec<_> = machines.iter().map(|machine| &machine.name).collect();
    let path = args.out.display();
    output.done(
        &format!(
            "wrote `{path}` with {} hosts: check it, and register it with `vnfmctl vim register --name NAME --config-file {path}`",
            names.len()
        ),
        &json!({"path": args.out, "hosts": names}),
    )
}

fn connection(machines: &[Machine], args: &Inventory) -> Outcome<VimConnectionInfo> {
    let mut access = Map::new();
    if let Some(user) = &args.user {
        access.insert("username".into(), json!(user));
    }
    if let Some(file) = &args.key_file {
        let key = input::text(file)
            .map_err(|error| local(format!("cannot read `{}`: {error}", file.display())))?;
        access.insert("privateKey".into(), json!(key));
    }
    let (mut hosts, mut logins) = (Vec::new(), Map::new());
    for machine in machines {
        hosts.push(host(machine, args)?);
        logins.insert(machine.name.clone(), login(machine, args)?);
    }
    logins.retain(|_, login| login.as_object().is_some_and(|login| !login.is_empty()));
    if !logins.is_empty() {
        access.insert("hosts".into(), Value::Object(logins));
    }
    let mut interface = Map::new();
    interface.insert("wipeCommand".into(), json!(args.wipe_command));
    if bmcs(machines).any(|bmc| !bmc.is_verified) {
        interface.insert("skipCertificateVerification".into(), json!(true));
    }
    interface.insert("hosts".into(), Value::Array(hosts));
    Ok(VimConnectionInfo {
        vim_type: HOSTS.into(),
        interface_info: interface,
        access_info: access,
        ..VimConnectionInfo::default()
    })
}

fn bmcs(machines: &[Machine]) -> impl Iterator<Item = &Bmc> {
    machines.iter().filter_map(|machine| machine.bmc.as_ref())
}

/// An element of `interfaceInfo.hosts`.
fn host(machine: &Machine, args: &Inventory) -> Outcome<Value> {
    let mut host = json!({"name": machine.name, "address": address(machine, args)?});
    let fixed = machine.addresses.iter();
    let fixed = fixed.filter_map(|(network, address)| Some((network.clone(), json!((*address)?))));
    let fixed: Map<String, Value> = fixed.collect();
    if !fixed.is_empty() {
        host["addresses"] = Value::Object(fixed);
    }
    if !machine.labels.is_empty() {
        host["labels"] = json!(machine.labels);
    }
    match machine.bmc.as_ref().map(|bmc| &bmc.switch) {
        Some(Switch::Ipmi { address, port }) => {
            host["ipmi"] = json!({"address": address, "port": port});
        }
        Some(Switch::Redfish(url)) => host["redfish"] = json!(url),
        None => {}
    }
    Ok(host)
}

/// Where a machine is reached: the command line comes first.
fn address(machine: &Machine, args: &Inventory) -> Outcome<String> {
    let name = &machine.name;
    if let Some((_, address)) = args.addresses.iter().find(|(machine, _)| machine == name) {
        return Ok(address.clone());
    }
    let network = &args.network;
    if let Some(Some(address)) = machine.addresses.get(network) {
        return Ok(address.to_string());
    }
    let networks = machine.addresses.iter();
    let fixed = networks.filter(|(_, address)| address.is_some());
    let fixed: Vec<_> = fixed.map(|(network, _)| format!("`{network}`")).collect();
    let others = match fixed.as_slice() {
        [] => "none".to_owned(),
        fixed => fixed.join(", "),
    };
    Err(Failure::Hinted {
        message: format!(
            "{}: the machine `{name}` has no fixed address on the network `{network}`",
            machine.at
        ),
        hint: format!(
            "pass `--address {name}=ADDRESS`, or `--network` with a network on which it has one: {others}"
        ),
    })
}

/// The member of `accessInfo.hosts`; the command line's login replaces that of the files.
fn login(machine: &Machine, args: &Inventory) -> Outcome<Value> {
    let mut login = Map::new();
    if let Some(user) = machine.user.as_ref().filter(|_| args.user.is_none()) {
        login.insert("username".into(), json!(user));
    }
    if let Some(password) = machine
        .password
        .as_ref()
        .filter(|_| args.key_file.is_none())
    {
        login.insert("password".into(), json!(password.reveal()));
    }
    let missing = if args.user.is_none() && machine.user.is_none() {
        Some("user: pass `--user`")
    } else if args.key_file.is_none() && machine.password.is_none() {
        Some("password: pass `--key-file`")
    } else {
        None
    };
    if let Some(missing) = missing {
        let what = format!(
            "{}: the machine `{}` has no {missing}",
            machine.at, machine.name
        );
        return Err(local(what));
    }
    let members = match &machine.bmc {
        Some(bmc) => match bmc.switch {
            Switch::Ipmi { .. } => Some((bmc, ["ipmiUsername", "ipmiPassword"])),
            Switch::Redfish(_) => Some((bmc, ["redfishUsername", "redfishPassword"])),
        },
        None => None,
    };
    if let Some((bmc, [user, password])) = members {
        login.insert(user.into(), json!(bmc.user));
        login.insert(password.into(), json!(bmc.password.reveal()));
    }
    Ok(Value::Object(login))
}

/// Writes a new file that only its owner can read.
fn create(path: &Path, connection: &VimConnectionInfo) -> Outcome<()> {
    let failed = |error: &dyn std::fmt::Display| Failure::Hinted {
        message: format!("cannot write `{}`: {error}", path.display()),
        hint: "name a new file with `--out`, in a folder that you may write to".to_owned(),
    };
    let text = serde_yaml::to_string(connection).map_err(|error| failed(&error))?;
    let folder = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty());
    // A temporary file is readable only by its owner.
    let mut part = tempfile::NamedTempFile::new_in(folder.unwrap_or(Path::new(".")))
        .map_err(|error| failed(&error))?;
    part.write_all(text.as_bytes())
        .map_err(|error| failed(&error))?;
    part.persist_noclobber(path)
        .map_err(|error| failed(&error.error))?;
    Ok(())
}

fn warn(machines: &[Machine]) {
    if bmcs(machines).any(|bmc| !bmc.is_verified) {
        tell(
            "warning: `skipCertificateVerification` is set, for all hosts: an impostor of a BMC could steal its login",
        );
    }
    let unswitched = machines.iter().filter(|machine| machine.bmc.is_none());
    let unswitched: Vec<_> = unswitched.map(|machine| machine.name.as_str()).collect();
    if !unswitched.is_empty() {
        tell(&format!(
            "warning: the files have no BMC for {}: these hosts are never switched on or off",
            unswitched.join(", ")
        ));
    }
}
