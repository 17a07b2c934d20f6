//! Redfish services: one whose systems are simulated hosts, and the real emulator of sushy-tools.

use crate::support::SimulatedHosts;
use std::io::Write as _;
use std::net::TcpListener as Port;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use vnfm_outbound::{Client, Destinations, Method, Policy, Trust, read};

pub(crate) const USER: &str = "admin";
pub(crate) const PASSWORD: &str = "the-password-of-the-bmc";

/// A Redfish service with the hosts as systems, by name.
pub(crate) struct Bmc {
    pub(crate) url: String,
    /// Requests so far: method and path, with the body of a POST.
    pub(crate) calls: Arc<Mutex<Vec<String>>>,
}

impl Bmc {
    pub(crate) async fn start(hosts: Arc<SimulatedHosts>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let calls: Arc<Mutex<Vec<String>>> = Arc::default();
        let seen = calls.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(answer(stream, hosts.clone(), seen.clone()));
            }
        });
        Self { url, calls }
    }

    pub(crate) fn system(&self, name: &str) -> String {
        format!("{}/redfish/v1/Systems/{name}", self.url)
    }
}

/// Answers one request and closes the connection.
async fn answer(mut stream: TcpStream, hosts: Arc<SimulatedHosts>, calls: Arc<Mutex<Vec<String>>>) {
    let mut text = String::new();
    let mut buffer = [0; 4096];
    while let Ok(count @ 1..) = stream.read(&mut buffer).await {
        text.push_str(&String::from_utf8_lossy(&buffer[..count]));
        if text.contains("\r\n\r\n") && (text.starts_with("GET") || text.ends_with('}')) {
            break;
        }
    }
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or_default();
    let line = head
        .lines()
        .next()
        .unwrap_or_default()
        .trim_end_matches(" HTTP/1.1");
    calls
        .lock()
        .unwrap()
        .push(format!("{line} {body}").trim_end().to_owned());
    let name = line.split("/Systems/").nth(1).unwrap_or_default();
    let name = name.split('/').next().unwrap_or_default().to_owned();
    // admin:the-password-of-the-bmc
    let login = "basic ywrtaw46dghllxbhc3n3b3jklw9mlxrozs1ibwm=";
    let (status, reply) = if !head.to_lowercase().contains(login) {
        ("401 Unauthorized", String::new())
    } else if line.starts_with("POST") {
        if body.contains("ForceOff") || body.contains("GracefulShutdown") {
            hosts.world.hosts().power_off(&name);
        } else {
            hosts.world.hosts().power_on(&name).await.unwrap();
        }
        ("204 No Content", String::new())
    } else {
        let on = hosts.world.hosts().running().contains(&name);
        let state = if on { "On" } else { "Off" };
        ("200 OK", format!(r#"{{"PowerState": "{state}"}}"#))
    };
    let length = reply.len();
    let reply = format!(
        "HTTP/1.1 {status}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{reply}"
    );
    let _ = stream.write_all(reply.as_bytes()).await;
}

/// The emulator of sushy-tools with one system.
pub(crate) struct Sushy {
    program: Child,
    pub(crate) system: String,
    _folder: TempDir,
}

impl Drop for Sushy {
    fn drop(&mut self) {
        let _ = self.program.kill();
        let _ = self.program.wait();
    }
}

const SYSTEM: &str = "27946b59-9e44-4fa7-8e91-f3527a1ef094";

fn emulator() -> Option<PathBuf> {
    let path = std::env::var_os("VNFM_LIVE_SUSHY").map(PathBuf::from);
    let search = std::env::var_os("PATH").unwrap_or_default();
    let found = path.into_iter().chain(std::env::split_paths(&search));
    let mut found = found.map(|folder| folder.join("sushy-emulator"));
    found.find(|program| program.exists())
}

impl Sushy {
    /// Starts it with this power state; `None`, with a message, if it is not installed.
    pub(crate) async fn start(power_state: &str) -> Option<Self> {
        let Some(program) = emulator() else {
            let missing = "no `sushy-emulator` (`tests/stack/redfish.sh DIR` installs it; VNFM_LIVE_SUSHY=DIR/bin, unless in PATH)";
            eprintln!("skipped: {missing}");
            let is_required = std::env::var_os("VNFM_REQUIRE_LIVE").is_some();
            assert!(!is_required, "required here: {missing}");
            return None;
        };
        let folder = TempDir::new().unwrap();
        let port = Port::bind("127.0.0.1:0")
            .unwrap()
            .local_addr()
            .unwrap()
            .port();
        let at = folder.path().display();
        let config = format!(
            "SUSHY_EMULATOR_LISTEN_IP = '127.0.0.1'\nSUSHY_EMULATOR_LISTEN_PORT = {port}\n\
             SUSHY_EMULATOR_FAKE_DRIVER = True\nSUSHY_EMULATOR_STATE_DIR = '{at}'\n\
             SUSHY_EMULATOR_FAKE_SYSTEMS = [{{'uuid': '{SYSTEM}', 'name': 'node', 'power_state': '{power_state}', \
             'nics': [{{'mac': '00:5c:52:31:3a:9c', 'ip': '127.0.0.1'}}]}}]\n"
        );
        let file = folder.path().join("sushy.conf");
        std::fs::File::create(&file)
            .unwrap()
            .write_all(config.as_bytes())
            .unwrap();
        let mut command = Command::new(program);
        command.arg("--config").arg(&file).arg("--fake");
        let program = command
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let system = format!("http://127.0.0.1:{port}/redfish/v1/Systems/{SYSTEM}");
        let emulator = Self {
            program,
            system,
            _folder: folder,
        };
        let mut pace = tokio::time::interval(std::time::Duration::from_millis(100));
        for _ in 0..300 {
            pace.tick().await;
            if emulator.power_state().await.is_some() {
                return Some(emulator);
            }
        }
        panic!("the emulator does not respond");
    }

    /// What it says itself.
    pub(crate) async fn power_state(&self) -> Option<String> {
        let client = Client::trusting(
            Destinations::anywhere(),
            Policy::VIM,
            &Trust::default(),
            None,
        );
        let client = client.unwrap();
        let response = client
            .request(Method::GET, &self.system)
            .unwrap()
            .send()
            .await
            .ok()?;
        let text = read(response, client.policy()).await.ok()?;
        let system: serde_json::Value = serde_json::from_slice(&text).ok()?;
        system["PowerState"].as_str().map(ToOwned::to_owned)
    }
}
