//! Starts the processes of a testbed and writes their configuration.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::{Value, json};
use vnfm_tests::planted::Planted;
use vnfm_tests::programs::{self, program};

use crate::http::{PASSWORD, USERS};
use crate::tokens::Issuer;

/// The password of the cloud, which only its Keystone may receive.
pub(crate) const CLOUD_PASSWORD: &str = "planted-password-of-the-cloud-7c30";
/// The password of the NFVO.
pub(crate) const NFVO_PASSWORD: &str = "planted-nfvo-password-2c77";
/// Address space of a server, in bytes: an unbounded response exceeds it within seconds.
const ADDRESSES: u64 = 3 << 30;
/// Address space of the simulated world: a bomb that reaches it ends it, and the case fails.
const SIMULATOR_MEMORY: u64 = 4 << 30;
/// User id of an unprivileged server.
const UNPRIVILEGED_USER: &str = "65534";

/// Limits and options of a server.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Limits {
    pub(crate) descriptors: Option<u64>,
    /// Its processor; the world runs on another one.
    pub(crate) core: Option<usize>,
    /// Run as another user than root.
    pub(crate) unprivileged: bool,
    /// Use an NFVO for grants and packages.
    pub(crate) nfvo: bool,
    /// Size of the disk of the data folder, in MiB.
    pub(crate) disk: Option<u64>,
}

pub(crate) fn start_world(folder: &Path, limits: Limits) -> (Child, String) {
    let mut command = pinned_command("vnfm-sim", limits.core.map(|core| usize::from(core == 0)));
    command
        .arg("--data")
        .arg(folder.join("world"))
        .arg("--cluster");
    programs::start(&mut command, &folder.join("world.log"))
}

/// Listen address of a new server, which no outbound policy allows.
pub(crate) const ANYWHERE: &str = "127.98.0.1:0";

pub(crate) fn start_server(
    folder: &Path,
    limits: Limits,
    read_request: &str,
) -> Result<(Child, String)> {
    let mut command = limited(ADDRESSES);
    if let Some(descriptors) = limits.descriptors {
        command.arg(format!("--nofile={descriptors}:{descriptors}"));
    }
    if let Some(mebibytes) = limits.disk {
        // In a separate mount namespace, so that the disk disappears with the server.
        command.args(["unshare", "--mount", "--propagation", "private", "sh", "-c"]);
        command.arg(format!(
            "mount -t tmpfs -o mode=0700,size={mebibytes}m disk \"$0\" && exec \"$@\""
        ));
        command.arg(folder.join("data"));
    }
    if let Some(core) = limits.core {
        command.args(["taskset", "-c", &core.to_string()]);
    }
    if limits.unprivileged {
        let owner = Command::new("chown")
            .args(["-R", UNPRIVILEGED_USER])
            .arg(folder)
            .status()?;
        ensure!(
            owner.success(),
            "the folder cannot be given to user {UNPRIVILEGED_USER}"
        );
        // Changing the user clears the parent-death signal: set it again.
        command.args([
            "setpriv",
            "--reuid",
            UNPRIVILEGED_USER,
            "--regid",
            UNPRIVILEGED_USER,
            "--clear-groups",
        ]);
        command.args(["--pdeathsig", "KILL"]);
    }
    command
        .arg(program("vnfm-server"))
        .args(["--listen", read_request]);
    command.arg("--data").arg(folder.join("data"));
    command
        .arg("--config")
        .arg(folder.join("server.yaml"))
        .env("TMPDIR", folder);
    begin(&mut command, &folder.join("server.log"))
}

/// Starts a program; the first line that it prints, or an error with its stderr.
fn begin(command: &mut Command, log: &Path) -> Result<(Child, String)> {
    let stderr = std::fs::File::options()
        .create(true)
        .append(true)
        .open(log)?;
    let logged = stderr.metadata()?.len();
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(stderr);
    let mut child = command
        .spawn()
        .with_context(|| format!("cannot start {command:?}"))?;
    let mut line = String::new();
    BufReader::new(child.stdout.take().context("no standard output")?).read_line(&mut line)?;
    if line.trim().is_empty() {
        let status = child.wait()?;
        let stderr = std::fs::read(log)?;
        let stderr = stderr.get(usize::try_from(logged)?..).unwrap_or_default();
        bail!(
            "cannot start it ({status}): {}",
            String::from_utf8_lossy(stderr).trim()
        );
    }
    Ok((child, line.trim().to_owned()))
}

/// Allows the plugin that runs scripts.
pub(crate) fn allow_scripts(folder: &Path) -> Result<()> {
    let mut command = Command::new(program("vnfmctl"));
    command
        .args(["plugin", "allow"])
        .arg(program("libmgmt_script.so"));
    command.arg("--dir").arg(folder.join("data/plugins"));
    let output = command
        .stdin(Stdio::null())
        .output()
        .context("cannot start vnfmctl")?;
    let stderr = String::from_utf8_lossy(&output.stderr);
    ensure!(
        output.status.success(),
        "the plugin for scripts is not allowed: {stderr}"
    );
    Ok(())
}

/// A command on this processor, if given, with limited memory; killed when we end.
pub(crate) fn pinned_command(name: &str, core: Option<usize>) -> Command {
    let mut command = limited(SIMULATOR_MEMORY);
    if let Some(core) = core {
        command.args(["taskset", "-c", &core.to_string()]);
    }
    command.arg(program(name));
    command
}

/// A command that is killed when we end, with this much address space in bytes.
fn limited(addresses: u64) -> Command {
    let mut command = Command::new("setpriv");
    command.args([
        "--pdeathsig",
        "KILL",
        "prlimit",
        &format!("--as={addresses}"),
    ]);
    command
}

/// Writes the server's configuration, without members that the server does not know.
pub(crate) fn configure(
    folder: &Path,
    (endpoints, issuer): (&Value, &Issuer),
    limits: Limits,
) -> Result<()> {
    let password_hash = password_hash()?;
    let mut users = Vec::new();
    for (name, tenant) in USERS {
        let role = match *name {
            "olga" | "nina" | "bob" => "operate",
            "rita" => "read",
            _ => "admin",
        };
        let mut gets = json!({"tenant": tenant, "role": role});
        if *name == "nina" {
            gets["namespaces"] = json!(["web"]);
        }
        users.push(json!({"name": name, "password_hash": password_hash, "gets": gets}));
    }
    let block = &endpoints["addressBlock"];
    let quota = json!({"instances": 500, "operations": 200, "package_bytes": 64 << 20});
    let mut config = json!({
        "limits": {"lease_seconds": 2, "step_seconds": 60, "hook_seconds": 60},
        "notifications": {"networks": ["default", "127.0.0.1/32"], "answer_seconds": 2},
        "plugins": {"scripts": {"allow": "all"}},
        "packages": {"external": [issuer.archives()]},
        "access": {"users": users, "quota": quota, "tenants": crate::quotas::tenants(),
            "oauth2": [issuer.settings()], "keystone": keystone(folder, endpoints)?},
    });
    if limits.nfvo {
        config["nfvo"] = nfvo(folder, endpoints)?;
    }
    let optional = [
        (
            "vims",
            json!({"networks": ["default", "127.0.0.1/32", block]}),
        ),
        ("hooks", json!({"networks": ["default", "127.0.0.1/32"]})),
    ];
    for (name, value) in optional {
        let mut more = config.clone();
        more[name] = value;
        write(folder, &more)?;
        if is_valid_config(folder)? {
            config = more;
        }
    }
    write(folder, &config)
}

/// Logins by the cloud's Keystone.
fn keystone(folder: &Path, endpoints: &Value) -> Result<Value> {
    let file = folder.join("keystone-password");
    std::fs::write(&file, CLOUD_PASSWORD)?;
    Ok(
        json!({"endpoint": endpoints["authUrl"], "user": "nfv", "project": "nfv",
        "password_file": file, "cache_seconds": 0,
        "rules": [{"project": "nfv", "gets": {"tenant": "acme", "role": "read"}}]}),
    )
}

/// The world's NFVO: grants for every tenant, packages for `acme`.
fn nfvo(folder: &Path, endpoints: &Value) -> Result<Value> {
    let file = folder.join("nfvo-password");
    std::fs::write(&file, NFVO_PASSWORD)?;
    let endpoint = endpoints["nfvo"].as_str().context("no NFVO")?;
    let login = json!({"token_endpoint": format!("{endpoint}/token"), "client_id": "vnfm",
        "client_password_file": file});
    Ok(
        json!({"endpoint": endpoint, "oauth2": login, "answer_seconds": 2, "grant_seconds": 5,
        "packages": {"tenants": ["acme"], "wait_seconds": 2, "look_seconds": 1}}),
    )
}

fn write(folder: &Path, config: &Value) -> Result<()> {
    Ok(std::fs::write(
        folder.join("server.yaml"),
        serde_yaml::to_string(config)?,
    )?)
}

fn is_valid_config(folder: &Path) -> Result<bool> {
    let mut command = Command::new(program("vnfm-server"));
    command
        .arg("check-config")
        .arg(folder.join("server.yaml"))
        .stdin(Stdio::null());
    Ok(command
        .output()
        .context("cannot start vnfm-server")?
        .status
        .success())
}

/// The secrets that must not leak.
pub(crate) fn planted_secrets(folder: &Path) -> Result<Planted> {
    let config = std::fs::read_to_string(folder.join("world/kubeconfig"))?;
    let config: Value = serde_yaml::from_str(&config)?;
    let token = config["users"][0]["user"]["token"]
        .as_str()
        .context("no token")?;
    let mut planted = Planted::default();
    planted.add("a user's password", PASSWORD);
    planted.add("the cloud's password", CLOUD_PASSWORD);
    planted.add("the cluster's token", token);
    planted.add("the NFVO's password", NFVO_PASSWORD);
    planted.add("the registry's password", vnfm::sim::registry::PASSWORD);
    planted.add("a token of the registry", vnfm::sim::registry::TOKEN);
    planted.add(
        "what lies on an inner address",
        crate::canary::CANARY_SECRET,
    );
    planted.add("a secret of a request", crate::payloads::SECRET);
    Ok(planted)
}

/// The hash of every user's password, computed once.
fn password_hash() -> Result<String> {
    static HASH: OnceLock<String> = OnceLock::new();
    if let Some(password_hash) = HASH.get() {
        return Ok(password_hash.clone());
    }
    let mut child = Command::new(program("vnfm-server"))
        .arg("hash-password")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    child
        .stdin
        .take()
        .context("no standard input")?
        .write_all(PASSWORD.as_bytes())?;
    let output = child.wait_with_output()?;
    let password_hash = String::from_utf8(output.stdout)?.trim().to_owned();
    ensure!(
        password_hash.starts_with('$'),
        "`vnfm-server hash-password` says `{password_hash}`"
    );
    Ok(HASH.get_or_init(|| password_hash).clone())
}
