//! The machine behind a server of the real scenario, from outside: its power, its network, and programs on it.

#![expect(clippy::unwrap_used, reason = "tests fail by panicking")]

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;

use crate::programs::until;
use crate::real::Real;
use crate::sources;
use crate::testbed::LONG;

/// The machine behind a server that the scenario created, from outside.
#[derive(Debug)]
pub struct Host<'a> {
    real: &'a Real,
    name: &'a str,
}

impl<'a> Host<'a> {
    /// The host of this name.
    #[must_use]
    pub fn new(real: &'a Real, name: &'a str) -> Self {
        Self { real, name }
    }

    /// The hypervisor's record: `host` is its folder, which differs from the server's name if that was in use.
    fn record(&self) -> Option<Value> {
        let state = self
            .real
            .clouds
            .with_file_name("hypervisor")
            .join("servers.json");
        let known: BTreeMap<String, Value> =
            serde_json::from_slice(&std::fs::read(state).ok()?).unwrap();
        let is_host = |server: &Value| {
            let (name, id) = (
                server["name"].as_str().unwrap(),
                server["id"].as_str().unwrap(),
            );
            name.eq_ignore_ascii_case(self.name) && !self.real.had_server(name, id)
        };
        known.into_values().find(is_host)
    }

    /// Sends a command for it to the hypervisor: `power-off`, `power-on`.
    ///
    /// # Panics
    /// If the hypervisor refuses it.
    pub fn command(&self, verb: &str) {
        let script = sources::root().join("tests/stack/openstack/hypervisor.py");
        let home = self.real.clouds.parent().unwrap();
        let record = self
            .record()
            .unwrap_or_else(|| panic!("no host `{}`", self.name));
        let mut command = Command::new("python3");
        command
            .arg(script)
            .args([verb, record["id"].as_str().unwrap()]);
        let output = command.env("OPENSTACK_HOME", home).output().unwrap();
        assert!(output.status.success(), "{verb}: {output:?}");
    }

    /// Its first process; none while it is off.
    ///
    /// # Panics
    /// If the hypervisor's records cannot be read.
    #[must_use]
    pub fn pid(&self) -> Option<String> {
        let folder = self
            .real
            .hosts
            .join(self.record()?["host"].as_str().unwrap());
        let pid = std::fs::read_to_string(folder.join("pid")).ok()?;
        Some(pid.trim().to_owned()).filter(|pid| Path::new("/proc").join(pid).exists())
    }

    /// Its root folder, as seen from this machine.
    ///
    /// # Panics
    /// If it is off.
    #[must_use]
    pub fn root(&self) -> PathBuf {
        let pid = self
            .pid()
            .unwrap_or_else(|| panic!("`{}` is off", self.name));
        Path::new("/proc").join(pid).join("root")
    }

    /// Runs a script on the host, alongside its own programs.
    ///
    /// # Panics
    /// If it is off, or the script fails.
    pub fn inside(&self, script: &str) -> String {
        self.run_script_with_input(script, "")
    }

    /// The same, with standard input.
    ///
    /// # Panics
    /// If it is off, or the script fails.
    pub fn run_script_with_input(&self, script: &str, input: &str) -> String {
        let pid = self
            .pid()
            .unwrap_or_else(|| panic!("`{}` is off", self.name));
        let mut command = Command::new("nsenter");
        let script = ["-t", &pid, "-m", "-n", "-p", "-u", "sh", "-c", script];
        let output = fed(command.args(script), input);
        assert!(output.status.success(), "`{command:?}`: {output:?}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Whether a program with this command line runs on it.
    ///
    /// # Panics
    /// If it is off.
    #[must_use]
    pub fn is_running(&self, pattern: &str) -> bool {
        self.pid().is_some_and(|pid| {
            let mut command = Command::new("nsenter");
            let look = command
                .args(["-t", &pid, "-m", "-p", "pgrep", "-f", pattern])
                .output();
            look.unwrap().status.success()
        })
    }

    /// Waits until a program with this command line runs on it.
    ///
    /// # Panics
    /// If none runs in time.
    pub fn wait_until_running(&self, pattern: &str) {
        let what = format!("`{pattern}` on `{}`", self.name);
        until(&what, LONG, || self.is_running(pattern).then_some(()));
    }

    /// Waits until a program with this command line runs on it, and stops it there.
    ///
    /// # Panics
    /// If none runs in time.
    pub fn freeze(&self, pattern: &str) {
        self.wait_until_running(pattern);
        self.inside(&format!("pkill -STOP -f '{pattern}'"));
    }

    /// Removes its address; a process on the host, which the outage does not affect, restores it.
    ///
    /// # Panics
    /// If it is off.
    pub fn cut_network(&self, seconds: u32) {
        self.inside(&format!(
            "ip link set eth0 down; \
             (sleep {seconds}; ip link set eth0 up; ip route replace default via 10.77.0.254) >/dev/null 2>&1 &"
        ));
    }

    /// Whether its interface is up.
    ///
    /// # Panics
    /// If it is off.
    #[must_use]
    pub fn has_network(&self) -> bool {
        self.inside("cat /sys/class/net/eth0/operstate")
            .starts_with("up")
    }

    /// Kills the SSH sessions, but not the listener; returns their number.
    ///
    /// # Panics
    /// If it is off.
    #[must_use]
    pub fn kill_sessions(&self) -> usize {
        let kill = "for p in $(pgrep -f '^sshd: ubuntu'); do kill -9 $p && echo $p; done; true";
        self.inside(kill).lines().count()
    }
}

/// Runs a program with this input.
///
/// # Panics
/// If it cannot be started, or reads no input.
pub fn fed(command: &mut Command, input: &str) -> Output {
    let command = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child
        .stdin
        .take()
        .unwrap()
        .write_all(input.as_bytes())
        .unwrap();
    child.wait_with_output().unwrap()
}
