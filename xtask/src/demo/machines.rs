//! The machines behind VNF-A's servers, from outside: their power, programs on them, and a client on one of them.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::JoinHandle;

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Map, Value};

use crate::{paths, process, stack};

/// Requests a page ten times a second, and prints a line about each.
const CLIENT: &str = r#"while :; do
    if why=$(curl -sSf -m 5 -o /dev/null "http://$0/" 2>&1); then echo served; else echo "$(date +%T) $why"; fi
    sleep 0.1
done"#;
/// Failures that the error quotes.
const MAX_QUOTED: usize = 5;

/// The hosts that the hypervisor of the real cloud runs.
pub(crate) struct Machines {
    openstack: PathBuf,
    hosts: PathBuf,
}

impl Machines {
    /// Those of `cargo xtask stack up`.
    pub(crate) fn find() -> Self {
        Self {
            openstack: stack::Part::Openstack.state(),
            hosts: stack::Part::Hosts.state(),
        }
    }

    /// The hypervisor's record of a server, by the server's name.
    fn record(&self, name: &str) -> Result<Value> {
        let file = self.openstack.join("hypervisor/servers.json");
        let text =
            std::fs::read(&file).with_context(|| format!("cannot read `{}`", file.display()))?;
        let known: Map<String, Value> = serde_json::from_slice(&text)
            .with_context(|| format!("`{}` is not JSON", file.display()))?;
        let is_named = |server: &Value| {
            let known = server["name"].as_str();
            known.is_some_and(|known| known.eq_ignore_ascii_case(name))
        };
        let mut found = known.into_iter().map(|(_, server)| server).filter(is_named);
        match (found.next(), found.next()) {
            (Some(server), None) => Ok(server),
            (None, _) => bail!("the hypervisor has no server `{name}`"),
            _ => bail!("the hypervisor has several servers `{name}`"),
        }
    }

    /// The first process of a host.
    fn pid(&self, name: &str) -> Result<String> {
        let record = self.record(name)?;
        let host = record["host"].as_str().unwrap_or_default();
        let file = self.hosts.join(host).join("pid");
        let pid = std::fs::read_to_string(&file)
            .with_context(|| format!("the host of `{name}` is off"))?;
        Ok(pid.trim().to_owned())
    }

    /// Runs a script on a host; returns its output.
    ///
    /// # Errors
    /// If the host is off or the script fails, as for the rest.
    pub(crate) fn inside(&self, name: &str, script: &str) -> Result<String> {
        let pid = self.pid(name)?;
        let words = ["-t", &pid, "-m", "-n", "-p", "-u", "sh", "-c", script];
        let output = Command::new("nsenter").args(words).output();
        let output = output.context("cannot start `nsenter`")?;
        ensure!(
            output.status.success(),
            "`{script}` failed on `{name}`: {}",
            String::from_utf8_lossy(&output.stderr).trim()
        );
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// Switches a host off as a power cut does; Nova still shows it as ACTIVE.
    pub(crate) fn power_off(&self, name: &str) -> Result<()> {
        let record = self.record(name)?;
        let id = record["id"].as_str().unwrap_or_default();
        let mut command = Command::new("python3");
        command
            .arg(paths::root().join("tests/stack/openstack/hypervisor.py"))
            .args(["power-off", id])
            .env("OPENSTACK_HOME", &self.openstack);
        process::run(&format!("power off {name}"), &mut command).map(drop)
    }

    /// Gives a host the images in this folder, which it would pull from a registry, and what an installation of Debian
    /// archives needs: the hosts share the machine's programs, and have no records of what is installed.
    pub(crate) fn import(&self, name: &str, images: &Path) -> Result<()> {
        let root = Path::new("/proc").join(self.pid(name)?).join("root");
        let folder = root.join("var/tmp/images");
        std::fs::create_dir_all(&folder)?;
        for image in std::fs::read_dir(images)? {
            let path = image?.path();
            if path.extension().is_some_and(|end| end == "tar") {
                let file = path.file_name().unwrap_or_default();
                std::fs::copy(&path, folder.join(file))?;
            }
        }
        let script = "set -e
            for tar in /var/tmp/images/*.tar; do ctr -n k8s.io images import $tar >/dev/null; done; rm -r /var/tmp/images
            mkdir -p /var/lib/dpkg/info /var/lib/dpkg/updates /var/lib/dpkg/triggers; touch /var/lib/dpkg/status";
        self.inside(name, script).map(drop)
    }
}

/// A client on one of the hosts that requests a page all the time; it ends on drop.
pub(crate) struct Client {
    child: Child,
    counted: Option<JoinHandle<(u64, Vec<String>)>>,
}

impl Client {
    /// Starts it.
    ///
    /// # Errors
    /// If the host is off.
    pub(crate) fn start(machines: &Machines, host: &str, address: &str) -> Result<Self> {
        let pid = machines.pid(host)?;
        let mut command = Command::new("nsenter");
        command.args(["-t", &pid, "-n", "sh", "-c", CLIENT, address]);
        command.env("no_proxy", "*").stdin(Stdio::null());
        process::own_group(command.stdout(Stdio::piped()));
        let mut child = command.spawn().context("cannot start `nsenter`")?;
        let lines = BufReader::new(child.stdout.take().context("the client has no output")?);
        let counted = std::thread::spawn(move || {
            let (mut served, mut failed) = (0, Vec::new());
            for line in lines.lines().map_while(Result::ok) {
                // kube-proxy needs a moment for a new Service: failures count from the first response on
                match line.as_str() {
                    "served" => served += 1,
                    _ if served > 0 => failed.push(line),
                    _ => {}
                }
            }
            (served, failed)
        });
        Ok(Self {
            child,
            counted: Some(counted),
        })
    }

    /// Ends it; a sentence about what it has seen.
    ///
    /// # Errors
    /// If a request failed, or none was served.
    pub(crate) fn end(mut self) -> Result<String> {
        process::end(&mut self.child);
        let counted = self.counted.take().map(JoinHandle::join);
        let Some(Ok((served, failed))) = counted else {
            bail!("the client's output could not be counted");
        };
        let quoted = failed.iter().take(MAX_QUOTED).cloned().collect::<Vec<_>>();
        ensure!(
            failed.is_empty(),
            "{} of {} requests failed: {}",
            failed.len(),
            failed.len() as u64 + served,
            quoted.join("; ")
        );
        ensure!(served > 0, "no request was served");
        Ok(format!("{served} requests served, 0 failed"))
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        if self.counted.is_some() {
            process::end(&mut self.child);
        }
    }
}
