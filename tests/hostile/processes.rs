//! How the processes of a ground are started, and what they are told at the beginning.

use std::io::Write as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};
use vnfm_tests::planted::Planted;
use vnfm_tests::programs::{self, program};

use crate::http::{PASSWORD, USERS};

/// The password of the cloud, at which nobody but the cloud's Keystone may look.
pub(crate) const CLOUD_PASSWORD: &str = "planted-password-of-the-cloud-7c30";
/// What a server may have of addresses: an answer without end meets it within seconds.
const ADDRESSES: u64 = 3 << 30;
/// What the world may have of them: a bomb that gets through to it ends it, and with it the case.
const WORLD: u64 = 4 << 30;
/// Whom an unprivileged server runs as.
const NOBODY: &str = "65534";

/// What the server is limited to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Limits {
    /// Descriptors.
    pub(crate) descriptors: Option<u64>,
    /// The processor that it alone has; the world has another one.
    pub(crate) core: Option<usize>,
    /// Whether it runs as another user than root.
    pub(crate) unprivileged: bool,
}

pub(crate) fn start_world(folder: &Path, limits: Limits) -> (Child, String) {
    let mut command = pinned("vnfm-sim", limits.core.map(|core| usize::from(core == 0)));
    command.arg("--data").arg(folder.join("world")).arg("--cluster");
    programs::start(&mut command, &folder.join("world.log"))
}

pub(crate) fn start_server(folder: &Path, limits: Limits) -> Result<(Child, String)> {
    let mut command = bound(ADDRESSES);
    if let Some(descriptors) = limits.descriptors {
        command.arg(format!("--nofile={descriptors}:{descriptors}"));
    }
    if let Some(core) = limits.core {
        command.args(["taskset", "-c", &core.to_string()]);
    }
    if limits.unprivileged {
        let owner = Command::new("chown").args(["-R", NOBODY]).arg(folder).status()?;
        ensure!(owner.success(), "the folder cannot be given to user {NOBODY}");
        // Another user forgets whose death is its own: it is said again.
        command.args(["setpriv", "--reuid", NOBODY, "--regid", NOBODY, "--clear-groups"]);
        command.args(["--pdeathsig", "KILL"]);
    }
    // An address that no policy for neighbours names.
    command.arg(program("vnfm-server")).args(["--listen", "127.98.0.1:0"]);
    command.arg("--data").arg(folder.join("data"));
    command.arg("--config").arg(folder.join("server.yaml")).env("TMPDIR", folder);
    Ok(programs::start(&mut command, &folder.join("server.log")))
}

/// Allows the plugin that runs scripts.
pub(crate) fn allow_scripts(folder: &Path) -> Result<()> {
    let mut command = Command::new(program("vnfmctl"));
    command.args(["plugin", "allow"]).arg(program("libmgmt_script.so"));
    command.arg("--dir").arg(folder.join("data/plugins"));
    let output = command.stdin(Stdio::null()).output().context("cannot start vnfmctl")?;
    let words = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "the plugin for scripts is not allowed: {words}");
    Ok(())
}

/// A program on this processor alone, where one is named; it dies with us, and may have so much memory.
pub(crate) fn pinned(name: &str, core: Option<usize>) -> Command {
    let mut command = bound(WORLD);
    if let Some(core) = core {
        command.args(["taskset", "-c", &core.to_string()]);
    }
    command.arg(program(name));
    command
}

/// What runs a program that is killed when we end, however that may be, and that has so many bytes of addresses.
fn bound(addresses: u64) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL", "prlimit", &format!("--as={addresses}")]);
    command
}

/// Writes the server's configuration; members that this server does not know are left out.
pub(crate) fn configure(folder: &Path, endpoints: &Value) -> Result<()> {
    let hash = hash()?;
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
        users.push(json!({"name": name, "password_hash": hash, "gets": gets}));
    }
    let block = &endpoints["addressBlock"];
    let quota = json!({"instances": 500, "operations": 200, "package_bytes": 64 << 20});
    let mut config = json!({
        "limits": {"lease_seconds": 2, "step_seconds": 60, "hook_seconds": 60},
        "notifications": {"networks": ["127.0.0.1/32"], "answer_seconds": 2},
        "plugins": {"scripts": {"allow": "all"}},
        "access": {"users": users, "quota": quota},
    });
    let optional = [
        ("vims", json!({"networks": ["127.0.0.1/32", block]})),
        ("hooks", json!({"networks": ["127.0.0.1/32"]})),
    ];
    for (name, value) in optional {
        let mut more = config.clone();
        more[name] = value;
        write(folder, &more)?;
        if is_known(folder)? {
            config = more;
        }
    }
    write(folder, &config)
}

fn write(folder: &Path, config: &Value) -> Result<()> {
    Ok(std::fs::write(folder.join("server.yaml"), serde_yaml::to_string(config)?)?)
}

fn is_known(folder: &Path) -> Result<bool> {
    let mut command = Command::new(program("vnfm-server"));
    command.arg("check-config").arg(folder.join("server.yaml")).stdin(Stdio::null());
    Ok(command.output().context("cannot start vnfm-server")?.status.success())
}

/// What is to be found nowhere.
pub(crate) fn planted(folder: &Path) -> Result<Planted> {
    let config = std::fs::read_to_string(folder.join("world/kubeconfig"))?;
    let config: Value = serde_yaml::from_str(&config)?;
    let token = config["users"][0]["user"]["token"].as_str().context("no token")?;
    let mut planted = Planted::default();
    planted.add("a user's password", PASSWORD);
    planted.add("the cloud's password", CLOUD_PASSWORD);
    planted.add("the cluster's token", token);
    planted.add("what lies on an inner address", crate::canary::INNER);
    planted.add("a secret of a request", crate::grammar::SECRET);
    Ok(planted)
}

/// The hash of every user's password, made once.
fn hash() -> Result<String> {
    static HASH: OnceLock<String> = OnceLock::new();
    if let Some(hash) = HASH.get() {
        return Ok(hash.clone());
    }
    let mut child = Command::new(program("vnfm-server"))
        .arg("hash-password")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    child.stdin.take().context("no standard input")?.write_all(PASSWORD.as_bytes())?;
    let output = child.wait_with_output()?;
    let hash = String::from_utf8(output.stdout)?.trim().to_owned();
    ensure!(hash.starts_with('$'), "`vnfm-server hash-password` says `{hash}`");
    Ok(HASH.get_or_init(|| hash).clone())
}
