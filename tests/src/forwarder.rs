//! Forwards for a load balancer of the cloud, whose Octavia has no data plane: an HAProxy with the load balancer's address on the
//! hosts' network.
//!
//! Its configuration is what Octavia's API lists: listener, members and health monitor; a change there reloads it. The address has
//! a lifetime, and HAProxy ends with the thread that follows Octavia: a killed test leaves neither.

#![expect(clippy::unwrap_used, reason = "tests fail by panicking")]
#![expect(clippy::missing_panics_doc, reason = "tests fail by panicking")]

use std::fmt::Write as _;
use std::process::{Child, Command};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;

use crate::cloud::Cloud;

/// How often Octavia is asked.
const INTERVAL: Duration = Duration::from_secs(1);
/// Seconds for which the address stays unless it is renewed.
const LIFETIME: &str = "60";

/// A load balancer with one listener and one pool, as Octavia shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Balancer {
    /// The load balancer itself.
    pub shown: Value,
    /// Its listener.
    pub listener: Value,
    /// Its pool.
    pub pool: Value,
    /// The monitor of the pool.
    pub monitor: Value,
    /// The members of the pool, by address.
    pub members: Vec<Value>,
}

impl Balancer {
    /// The project's only load balancer; `None` until it has listener, pool, monitor and a member.
    pub fn find(cloud: &Cloud) -> Option<Self> {
        let list = |path: &str, key: &str| {
            let path = format!("/v2.0/lbaas/{path}");
            cloud.list("load-balancer", &path, key)
        };
        let only = |key: &str| {
            let mut all = list(key, key);
            assert!(all.len() <= 1, "{all:#?}");
            all.pop()
        };
        let pool = only("pools")?;
        let members = format!("pools/{}/members", pool["id"].as_str()?);
        let mut members = list(&members, "members");
        members.sort_by_key(|member| member["address"].to_string());
        members.first()?;
        Some(Self {
            shown: only("loadbalancers")?,
            listener: only("listeners")?,
            monitor: only("healthmonitors")?,
            pool,
            members,
        })
    }

    /// The address at which it serves.
    pub fn address(&self) -> &str {
        self.shown["vip_address"].as_str().unwrap()
    }

    /// HAProxy's configuration.
    fn configuration(&self) -> String {
        let (listener, monitor) = (&self.listener, &self.monitor);
        let word = |value: &Value| value.as_str().unwrap().to_owned();
        let mut text = format!(
            "global\n    hard-stop-after 10s\n\
             defaults\n    mode tcp\n    timeout connect {}ms\n    timeout client {}ms\n    timeout server {}ms\n    \
             option redispatch 1\n\
             frontend listener\n    bind {}:{}\n    default_backend pool\n\
             backend pool\n    balance roundrobin\n    timeout check {}s\n    option httpchk {} {}\n    \
             http-check expect status {}\n    \
             default-server check check-ssl verify none inter {}s rise {} fall {} on-marked-down shutdown-sessions\n",
            listener["timeout_member_connect"],
            listener["timeout_client_data"],
            listener["timeout_member_data"],
            self.address(),
            listener["protocol_port"],
            monitor["timeout"],
            word(&monitor["http_method"]),
            word(&monitor["url_path"]),
            word(&monitor["expected_codes"]),
            monitor["delay"],
            monitor["max_retries"],
            monitor["max_retries_down"],
        );
        for member in &self.members {
            let (id, address) = (word(&member["id"]), word(&member["address"]));
            writeln!(
                text,
                "    server {id} {address}:{}",
                member["protocol_port"]
            )
            .unwrap();
        }
        text
    }
}

/// Forwards until it is dropped.
#[derive(Debug)]
pub struct Forwarder {
    stop: Sender<()>,
    thread: Option<JoinHandle<()>>,
}

impl Forwarder {
    /// Starts to forward for this load balancer.
    pub fn follow(cloud: Cloud, balancer: &Balancer) -> Self {
        let (stop, stopped) = channel();
        let proxy = Proxy::new(balancer.address());
        let thread = std::thread::spawn(move || proxy.run(&cloud, &stopped));
        Self {
            stop,
            thread: Some(thread),
        }
    }
}

impl Drop for Forwarder {
    fn drop(&mut self) {
        let _ = self.stop.send(()); // it has panicked
        let ended = self.thread.take().map(JoinHandle::join);
        let failed = ended.is_some_and(|ended| ended.is_err());
        assert!(!failed || std::thread::panicking(), "the forwarder failed");
    }
}

/// HAProxy, its address, and what it was configured from.
#[derive(Debug)]
struct Proxy {
    address: String,
    interface: String,
    folder: TempDir,
    /// The last one serves; the others end when their connections have, after 10 s at the latest.
    processes: Vec<Child>,
    served: Option<Balancer>,
}

impl Proxy {
    fn new(address: &str) -> Self {
        let route = ["-o", "route", "get", address];
        let route = Command::new("ip").args(route).output().unwrap();
        let route = String::from_utf8(route.stdout).unwrap();
        let mut words = route.split_whitespace();
        let interface = words.by_ref().find(|word| *word == "dev");
        let interface = interface.and_then(|_| words.next());
        Self {
            address: address.to_owned(),
            interface: interface.unwrap().to_owned(),
            folder: tempfile::tempdir().unwrap(),
            processes: Vec::new(),
            served: None,
        }
    }

    fn run(mut self, cloud: &Cloud, stopped: &Receiver<()>) {
        loop {
            self.hold_address();
            if let Some(now) = Balancer::find(cloud)
                && self.served.as_ref() != Some(&now)
            {
                self.reload(&now);
                self.served = Some(now);
            }
            if stopped.recv_timeout(INTERVAL) != Err(RecvTimeoutError::Timeout) {
                return;
            }
        }
    }

    fn hold_address(&self) {
        let address = format!("{}/32", self.address);
        let lifetime = ["valid_lft", LIFETIME, "preferred_lft", LIFETIME];
        let mut command = Command::new("ip");
        command.args(["address", "replace", &address, "dev", &self.interface]);
        assert!(command.args(lifetime).status().unwrap().success());
    }

    /// Starts HAProxy with what Octavia shows, which ends the former one.
    fn reload(&mut self, balancer: &Balancer) {
        let path = self.folder.path().join("haproxy.cfg");
        std::fs::write(&path, balancer.configuration()).unwrap();
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL", "haproxy", "-db", "-f"]);
        command.arg(&path);
        if let Some(former) = self.processes.last() {
            command.args(["-sf", &former.id().to_string()]);
        }
        self.processes.push(command.spawn().unwrap());
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        for process in &mut self.processes {
            let _ = process.kill(); // it has ended
            let _ = process.wait();
        }
        let address = format!("{}/32", self.address);
        let remove = ["address", "delete", &address, "dev", &self.interface];
        let _ = Command::new("ip").args(remove).status(); // its lifetime has ended
    }
}
