//! Hosts that Ironic switches: the real one, standalone, with BMCs of pyghmi; and one that misbehaves.

use crate::ipmi::{self, IpmiBmc, PYTHON, has_modules};
use crate::support::{SimulatedHosts, Site, owner, sample};
use crate::switched::{self, bed, on_soft_off_and_on, two_that_are_off};
use jiff::SignedDuration;
use serde_json::{Value, json};
use std::net::TcpListener as Port;
use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::process::{Child, Command};
use vnfm_conformance::infra_driver::{OnVim, RULES, TestBed};
use vnfm_core::ports::{ErrorKind, PortError};
use vnfm_outbound::{Client, Destinations, Method, Policy, Trust, read};
use vnfm_types::VimConnectionInfo;

const USER: &str = "vnfm";
const PASSWORD: &str = "secret-of-ironic";
/// `htpasswd -nbBC 4 vnfm secret-of-ironic`
const USERS: &str = "vnfm:$2b$04$Ya/JkoSpMEdWi.RRN03Q.OIdNRpmhIPELKSXMjf5g47/tW53NHgme\n";

/// A running Ironic.
struct Ironic {
    _program: Child,
    folder: TempDir,
    url: String,
}

fn free_port() -> u16 {
    let port = Port::bind("127.0.0.1:0").unwrap();
    port.local_addr().unwrap().port()
}

impl Ironic {
    /// Starts it without nodes; `None`, with a message, if it is not installed.
    async fn start() -> Option<Self> {
        Self::start_with("http_basic").await
    }

    /// As [`Self::start`], with this `auth_strategy`.
    async fn start_with(auth: &str) -> Option<Self> {
        if !has_modules(
            "ironic.cmd.singleprocess, pyghmi.ipmi.bmc",
            "python3-ironic python3-pyghmi",
        ) {
            return None;
        }
        let folder = TempDir::new().unwrap();
        std::fs::write(folder.path().join("users"), USERS).unwrap();
        let log = std::fs::File::create(folder.path().join("log")).unwrap();
        let script = Path::new(env!("CARGO_MANIFEST_DIR"));
        let script = script.join("tests/bare_hosts/standalone_ironic.py");
        let port = free_port();
        let program = Command::new(PYTHON)
            .arg(script)
            .arg(folder.path())
            .args([&port.to_string(), &free_port().to_string(), auth])
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let ironic = Self {
            _program: program,
            folder,
            url: format!("http://127.0.0.1:{port}/v1/nodes"),
        };
        ironic
            .until("it responds", async || {
                ironic.call(Method::GET, "", None).await.is_some()
            })
            .await;
        Some(ironic)
    }

    async fn until(&self, what: &str, holds: impl AsyncFn() -> bool) {
        let mut pace = tokio::time::interval(Duration::from_millis(200));
        for _ in 0..300 {
            pace.tick().await;
            if holds().await {
                return;
            }
        }
        let log = std::fs::read_to_string(self.folder.path().join("log")).unwrap();
        panic!("not within 60 s: {what}\n{log}");
    }

    /// The body of a successful response.
    async fn call(&self, method: Method, path: &str, body: Option<&Value>) -> Option<Value> {
        let (to, trust) = (Destinations::anywhere(), Trust::default());
        let client = Client::trusting(to, Policy::VIM, &trust, None).unwrap();
        let url = format!("{}{path}", self.url);
        let mut request = client.request(method, &url).unwrap();
        request = request.basic_auth(USER, Some(PASSWORD));
        request = request.header("X-OpenStack-Ironic-API-Version", "1.27");
        if let Some(body) = body {
            request = request.json(body);
        }
        let response = request.send().await.ok()?;
        if !response.status().is_success() {
            return None;
        }
        let text = read(response, client.policy()).await.ok()?;
        Some(serde_json::from_slice(&text).unwrap_or_default())
    }

    /// Enrolls the host of a BMC as a node.
    async fn enroll(&self, name: &str, (port, password): (u16, &str)) {
        let driver_info = json!({"ipmi_address": "127.0.0.1", "ipmi_port": port, "ipmi_username": ipmi::USER,
            "ipmi_password": password, "ipmi_cipher_suite": 3});
        let node = json!({"name": name, "driver": "ipmi", "driver_info": driver_info});
        self.call(Method::POST, "", Some(&node)).await.unwrap();
    }

    /// Has the node managed, with which Ironic reads its power state.
    async fn manage(&self, name: &str) {
        let path = format!("/{name}/states/provision");
        let manage = json!({"target": "manage"});
        self.call(Method::PUT, &path, Some(&manage)).await.unwrap();
        let is_managed = async || {
            let node = self.call(Method::GET, &format!("/{name}"), None).await;
            node.is_some_and(|node| node["provision_state"] == json!("manageable"))
        };
        self.until(&format!("`{name}` is manageable"), is_managed)
            .await;
    }

    /// BMCs of these hosts as nodes, and the inventory.
    async fn with_nodes(&self, hosts: &Arc<SimulatedHosts>) -> (Vec<IpmiBmc>, VimConnectionInfo) {
        self.with_bmcs(hosts, "honest").await
    }

    /// As [`Self::with_nodes`], with BMCs in this mode.
    async fn with_bmcs(
        &self,
        hosts: &Arc<SimulatedHosts>,
        mode: &str,
    ) -> (Vec<IpmiBmc>, VimConnectionInfo) {
        let bmcs = ipmi::bmcs(hosts, mode).await;
        for (name, bmc) in hosts.names.iter().zip(&bmcs) {
            self.enroll(name, (bmc.port, ipmi::PASSWORD)).await;
            self.manage(name).await;
        }
        (bmcs, self.inventory(hosts))
    }

    fn inventory(&self, hosts: &SimulatedHosts) -> VimConnectionInfo {
        with_login(hosts.inventory(|name| json!({"ironic": format!("{}/{name}", self.url)})))
    }
}

fn with_login(info: VimConnectionInfo) -> VimConnectionInfo {
    info.access("ironicUsername", USER)
        .access("ironicPassword", PASSWORD)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_real_ironic_switches_hosts_on_shuts_them_down_and_switches_them_on_again() {
    let Some(ironic) = Ironic::start().await else {
        return;
    };
    let hosts = two_that_are_off().await;
    let (bmcs, info) = ironic.with_nodes(&hosts).await;
    let site = Site::new(info);
    let log = on_soft_off_and_on(&hosts, &site).await;
    for bmc in &bmcs {
        assert_eq!(bmc.calls(), ["on", "soft", "on"]);
    }
    assert!(
        log.contains("by Ironic") && !log.contains(PASSWORD),
        "{log}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_that_does_not_shut_down_is_switched_off_by_a_real_ironic() {
    let Some(ironic) = Ironic::start().await else {
        return;
    };
    let hosts = two_that_are_off().await;
    let (bmcs, info) = ironic.with_bmcs(&hosts, "stubborn").await;
    on_soft_off_and_on(&hosts, &Site::new(info)).await;
    for bmc in &bmcs {
        assert_eq!(bmc.calls(), ["on", "soft", "off", "on"]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_real_ironic_without_logins_switches_a_host_on() {
    let Some(ironic) = Ironic::start_with("noauth").await else {
        return;
    };
    let hosts = two_that_are_off().await;
    let (bmcs, _) = ironic.with_nodes(&hosts).await;
    let info = hosts.inventory(|name| json!({"ironic": format!("{}/{name}", ironic.url)}));
    Site::new(info).create(&owner(), &sample()).await.unwrap();
    for bmc in &bmcs {
        assert_eq!(bmc.calls(), ["on"]);
    }
}

/// The hardest of the rules about starting and stopping: Ironic has locked the node when the next call comes.
#[tokio::test(flavor = "multi_thread")]
async fn a_stop_that_was_interrupted_is_completed_or_reversed_by_a_real_ironic() {
    let Some(ironic) = Ironic::start().await else {
        return;
    };
    let name = "an_interrupted_stop_is_completed_or_reversed";
    let rule = RULES.iter().find(|rule| rule.name == name).unwrap();
    let hosts = Arc::new(SimulatedHosts::start(2).await);
    let (_bmcs, info) = ironic.with_nodes(&hosts).await;
    let bed: Arc<dyn TestBed> = Arc::new(OnVim {
        // Each takes seconds in which the BMC and Ironic wait.
        max_interruptions: 5,
        ..bed(hosts, info)
    });
    let outcome = rule.holds(bed).await;
    outcome.unwrap_or_else(|why| panic!("{}: {why}", rule.says()));
}

/// [`switched::refusal`] within 40 s.
async fn refusal(hosts: &SimulatedHosts, info: VimConnectionInfo) -> PortError {
    let mut site = Site::new(info);
    site.timeout = SignedDuration::from_secs(40);
    switched::refusal(hosts, site, PASSWORD).await
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_real_ironic_refuses_is_an_error_with_its_reason() {
    let Some(ironic) = Ironic::start().await else {
        return;
    };
    let hosts = Arc::new(SimulatedHosts::start(2).await);
    let bmc = IpmiBmc::start(&hosts, "node-1", "honest").await;
    let info = || ironic.inventory(&hosts);
    let wrong = info().access("ironicPassword", "a-wrong-one");
    let error = refusal(&hosts, wrong).await;
    assert_eq!(error.name(), "hosts.power-refused", "{error}");
    assert!(error.to_string().contains("401"), "{error}");
    let error = refusal(&hosts, info()).await;
    assert_eq!(error.name(), "hosts.power-refused", "{error}");
    assert!(error.to_string().contains("404"), "{error}");
    ironic.enroll("node-1", (bmc.port, ipmi::PASSWORD)).await;
    let error = refusal(&hosts, info()).await;
    assert_eq!(error.name(), "hosts.power-refused", "{error}");
    assert!(error.to_string().contains("manage"), "{error}");
}

/// Its BMC gets another login after Ironic has read the state.
#[tokio::test(flavor = "multi_thread")]
async fn a_change_that_fails_in_a_real_ironic_ends_with_its_last_error() {
    let Some(ironic) = Ironic::start().await else {
        return;
    };
    let hosts = Arc::new(SimulatedHosts::start(2).await);
    hosts.world.hosts().power_off("node-1");
    let (_bmcs, info) = ironic.with_nodes(&hosts).await;
    let patch = json!([{"op": "add", "path": "/driver_info/ipmi_password", "value": "another"}]);
    ironic
        .call(Method::PATCH, "/node-1", Some(&patch))
        .await
        .unwrap();
    let error = refusal(&hosts, info).await;
    assert_eq!(
        (error.kind(), error.name()),
        (ErrorKind::Unavailable, "hosts.power"),
        "{error}"
    );
    assert!(error.to_string().contains("Ironic: Failed to"), "{error}");
}

/// An Ironic that answers every request with this response.
async fn answering(status: &'static str, body: String) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/v1/nodes/node-1", listener.local_addr().unwrap());
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let length = body.len();
            let response = format!(
                "HTTP/1.1 {status}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"
            );
            tokio::spawn(async move {
                let _ = stream.read(&mut [0; 4096]).await;
                let _ = stream.write_all(response.as_bytes()).await;
            });
        }
    });
    url
}

#[tokio::test(flavor = "multi_thread")]
async fn an_ironic_that_misbehaves_is_an_error_without_the_password() {
    let hosts = SimulatedHosts::start(2).await;
    let off = |more: Value| {
        let mut node =
            json!({"power_state": "power off", "target_power_state": null, "last_error": null});
        node.as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        node.to_string()
    };
    let echo = format!("\u{1b}[31mlogged in with {PASSWORD}");
    for (status, body, name, words) in [
        ("200 OK", "[]".to_owned(), "hosts.power-refused", "no node"),
        ("200 OK", " ".repeat(2 << 20), "hosts.power", ""),
        (
            "200 OK",
            off(json!({"power_state": "\u{1b}[31merror"})),
            "hosts.power",
            "[31merror",
        ),
        (
            "200 OK",
            off(json!({"last_error": echo})),
            "hosts.power",
            "logged in with …",
        ),
        (
            "200 OK",
            off(json!({"target_power_state": "power on"})),
            "hosts.power",
            "PoweringOn",
        ),
        (
            "302 Found\r\nLocation: http://127.0.0.1:1/",
            String::new(),
            "hosts.power-refused",
            "302",
        ),
        ("409 Conflict", String::new(), "hosts.power", "409"),
        (
            "503 Service Unavailable",
            String::new(),
            "hosts.power",
            "503",
        ),
    ] {
        let url = answering(status, body).await;
        let info = with_login(hosts.inventory(|_| json!({"ironic": url})));
        hosts.world.hosts().power_off("node-1");
        let mut site = Site::new(info);
        site.timeout = SignedDuration::from_secs(8);
        let error = site.create(&owner(), &sample()).await.unwrap_err();
        let text = format!("{error} {error:?}");
        assert_eq!(error.name(), name, "{status}: {text}");
        assert!(text.contains(words), "{status}: {text}");
        assert!(
            !text.contains(PASSWORD) && !text.contains('\u{1b}'),
            "{text}"
        );
        assert!(text.len() < 2_000, "{text}");
    }
}
