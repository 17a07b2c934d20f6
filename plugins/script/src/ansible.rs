//! The files for Ansible: the hosts as an inventory, the request as the variable `vnfm`, a connection plugin that uses
//! the VNFM, and a callback plugin that logs tasks.
//!
//! Every string is tagged `!unsafe`, so that a client's values are never evaluated as templates.

use crate::folder::Folder;
use crate::hosts::{Host, Hosts};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io;
use std::net::IpAddr;
use std::process::Command;
use vnfm_plugin_sdk::SshTarget;

const CONNECTION: &str = include_str!("python/ansible_connection.py");
const CALLBACK: &str = include_str!("python/ansible_callback.py");
const VARS: &str = include_str!("python/ansible_vars.py");

/// Adds the inventory and plugins to `command`, an `ansible-playbook` with its playbook.
pub(crate) fn prepare(command: &mut Command, folder: &Folder, hosts: &Hosts) -> io::Result<()> {
    let (connections, callbacks) = (
        folder.modules().join("connection"),
        folder.modules().join("callback"),
    );
    Folder::write(&connections.join("vnfm.py"), CONNECTION.as_bytes())?;
    Folder::write(&callbacks.join("vnfm.py"), CALLBACK.as_bytes())?;
    let path = folder.home().join("inventory.yaml");
    Folder::write(&path, yaml(&inventory(hosts)?).as_bytes())?;
    command.arg("--inventory").arg(path);
    let plugins = folder.modules().join("vars");
    Folder::write(&plugins.join("vnfm.py"), VARS.as_bytes())?;
    command.env("ANSIBLE_VARS_PLUGINS", plugins);
    command.env("ANSIBLE_CONNECTION_PLUGINS", connections);
    command.env("ANSIBLE_CALLBACK_PLUGINS", callbacks);
    command.env("ANSIBLE_LOCAL_TEMP", folder.home().join("ansible"));
    command.env("ANSIBLE_HOME", folder.home().join(".ansible"));
    command.envs([
        ("ANSIBLE_STDOUT_CALLBACK", "vnfm"),
        ("ANSIBLE_NOCOLOR", "1"),
        ("ANSIBLE_RETRY_FILES_ENABLED", "0"),
        ("ANSIBLE_PIPELINING", "1"),
        ("ANSIBLE_TRANSFORM_INVALID_GROUP_CHARS", "ignore"),
    ]);
    Ok(())
}

/// The inventory: one group per VDU.
fn inventory(hosts: &Hosts) -> io::Result<Value> {
    let mut groups: BTreeMap<&str, serde_json::Map<String, Value>> = BTreeMap::new();
    for host in &hosts.list {
        groups
            .entry(&host.vdu)
            .or_default()
            .insert(host.name.clone(), host_vars(host)?);
    }
    let children: serde_json::Map<String, Value> = groups
        .into_iter()
        .map(|(vdu, hosts)| (vdu.to_owned(), json!({ "hosts": hosts })))
        .collect();
    Ok(json!({"all": {"children": children}}))
}

fn host_vars(host: &Host) -> io::Result<Value> {
    let mut vars = json!({"ansible_connection": "vnfm", "vnfm_vdu": host.vdu});
    if let Ok(target) = &host.target {
        vars["ansible_host"] = target.address.as_str().into();
        vars["ansible_port"] = target.port.into();
        vars["ansible_user"] = target.username.as_str().into();
        if let Some(jump) = &target.jump {
            // For plays with a network that use Ansible's own `ssh`.
            vars["ansible_ssh_common_args"] = format!("-o ProxyJump={}", proxy_jump(jump)?).into();
        }
    }
    Ok(vars)
}

/// A jump host for `ssh -o ProxyJump=`; must be one word, because Ansible splits the options like a shell.
fn proxy_jump(jump: &SshTarget) -> io::Result<String> {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let is_word =
        |text: &str| !text.is_empty() && !text.starts_with('-') && text.chars().all(plain);
    let (user, address) = (&jump.username, &jump.address);
    let address = match address.parse::<IpAddr>() {
        Ok(IpAddr::V6(address)) => format!("[{address}]"),
        _ if is_word(address) => address.clone(),
        _ => return Err(unsafe_for_ssh("address", address)),
    };
    if !is_word(user) {
        return Err(unsafe_for_ssh("username", user));
    }
    Ok(format!("{user}@{address}:{}", jump.port))
}

fn unsafe_for_ssh(member: &str, value: &str) -> io::Error {
    let detail = format!(
        "`login.jump.{member}` is {value:?}, but may contain only letters, digits, `-`, `_` and `.`"
    );
    io::Error::new(io::ErrorKind::InvalidInput, detail)
}

/// `value` as YAML, with strings that Ansible does not evaluate as templates.
fn yaml(value: &Value) -> String {
    let mut text = String::new();
    // Writing to a `String` cannot fail.
    let _ = write_yaml(&mut text, value);
    text.push('\n');
    text
}

fn write_yaml(text: &mut String, value: &Value) -> std::fmt::Result {
    match value {
        Value::Null => write!(text, "null"),
        Value::Bool(value) => write!(text, "{value}"),
        Value::Number(number) => {
            let number = number.to_string();
            // YAML 1.1 parses `1e9` as a string.
            let with_point = !number.contains('e') || number.contains('.');
            write!(
                text,
                "{}",
                if with_point {
                    number
                } else {
                    number.replace('e', ".0e")
                }
            )
        }
        Value::String(value) => {
            write!(text, "!unsafe ")?;
            quote(text, value)
        }
        Value::Array(items) => {
            write!(text, "[")?;
            for (nth, item) in items.iter().enumerate() {
                write!(text, "{}", if nth == 0 { "" } else { ", " })?;
                write_yaml(text, item)?;
            }
            write!(text, "]")
        }
        Value::Object(members) => {
            write!(text, "{{")?;
            for (nth, (name, member)) in members.iter().enumerate() {
                // With the syntax `? key : value`, a key may have any length.
                write!(text, "{}? ", if nth == 0 { "" } else { ", " })?;
                quote(text, name)?;
                write!(text, " : ")?;
                write_yaml(text, member)?;
            }
            write!(text, "}}")
        }
    }
}

/// Writes a double-quoted string with everything except printable ASCII escaped.
fn quote(text: &mut String, value: &str) -> std::fmt::Result {
    write!(text, "\"")?;
    for c in value.chars() {
        match c {
            '"' | '\\' => write!(text, "\\{c}")?,
            ' '..='~' => text.push(c),
            _ => write!(text, "\\U{:08X}", u32::from(c))?,
        }
    }
    write!(text, "\"")
}

#[cfg(test)]
mod tests {
    use super::{proxy_jump, yaml};
    use serde_json::json;
    use vnfm_plugin_sdk::SshTarget;

    #[test]
    fn a_jump_host_must_be_one_safe_word() {
        let to = |address: &str, user: &str| proxy_jump(&SshTarget::new("jump", address, user));
        assert_eq!(to("192.0.2.1", "ubuntu").unwrap(), "ubuntu@192.0.2.1:22");
        assert_eq!(to("2001:db8::1", "u_1").unwrap(), "u_1@[2001:db8::1]:22");
        for (address, user) in [
            ("h", "x -o ProxyCommand=id"),
            ("h -o ProxyCommand=id", "x"),
            ("h", "-oProxyCommand=id"),
            ("-h", "x"),
            ("h,evil", "x"),
            ("h", "x@y"),
            ("h", "%h"),
            ("h", "a'b"),
            ("h\n", "x"),
            ("", "x"),
        ] {
            let refused = to(address, user).unwrap_err().to_string();
            assert!(refused.contains("login.jump."), "{refused}");
        }
    }

    #[test]
    fn strings_are_never_templates() {
        let evil = "{{ lookup('pipe', 'id') }}\n\"x\": \u{7f}é😀\\";
        let text =
            yaml(&json!({"additionalParams": {"a \"b\"": evil, "n": [1, true, null, 1.5e300]}}));
        assert_eq!(text.matches("!unsafe ").count(), 1, "{text}");
        assert!(text.is_ascii() && text.lines().count() == 1, "{text}");
        assert!(text.contains(r"\U0000000A\"), "{text}");
        assert!(
            yaml(&json!(1e300)).contains('.'),
            "YAML 1.1 requires a point in floats"
        );
    }
}
