//! Hosts that are switched by IPMI: the real `ipmitool` with the BMC of pyghmi, and with hostile ones.

use crate::support::{SimulatedHosts, Site, owner, sample, stopped};
use crate::switched::{bed, on_soft_off_and_on, refusal, two_that_are_off};
use jiff::SignedDuration;
use serde_json::{Value, json};
use std::net::UdpSocket;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command as Program, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};
use vnfm_conformance::infra_driver::{RULES, TestBed};
use vnfm_core::ports::{ErrorKind, InfraDriver as _, Stop};
use vnfm_hosts::BareHosts;
use vnfm_outbound::Destinations;
use vnfm_types::VimConnectionInfo;

pub(crate) const USER: &str = "admin";
pub(crate) const PASSWORD: &str = "secret-of-the-bmc";
const IPMITOOL: &str = "/usr/bin/ipmitool";
/// Debian installs its packages for this one.
pub(crate) const PYTHON: &str = "/usr/bin/python3";

/// A BMC of pyghmi, in a process of its own.
pub(crate) struct IpmiBmc {
    _program: Child,
    pub(crate) port: u16,
    /// What it was requested to do, in order.
    calls: Arc<Mutex<Vec<String>>>,
}

/// Whether the programs are there; if not, says so.
fn is_installed() -> bool {
    has_modules("pyghmi.ipmi.bmc", "python3-pyghmi")
}

/// Whether `ipmitool` and the modules of this Debian package are there; if not, says so.
pub(crate) fn has_modules(modules: &str, package: &str) -> bool {
    let import = Program::new(PYTHON)
        .args(["-c", &format!("import {modules}")])
        .stderr(Stdio::null())
        .status();
    if Path::new(IPMITOOL).exists() && import.is_ok_and(|status| status.success()) {
        return true;
    }
    let missing =
        format!("no `ipmitool`, or no {modules} (Debian: apt-get install ipmitool {package})");
    eprintln!("skipped: {missing}");
    let is_required = std::env::var_os("VNFM_REQUIRE_LIVE").is_some();
    assert!(!is_required, "required here: {missing}");
    false
}

impl IpmiBmc {
    /// The BMC of a simulated host, which does what the BMC is requested.
    pub(crate) async fn start(hosts: &Arc<SimulatedHosts>, name: &str, mode: &str) -> Self {
        let on = hosts.world.hosts().running().iter().any(|one| one == name);
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/bare_hosts/bmc.py");
        let mut program = Command::new(PYTHON)
            .arg(script)
            .args([if on { "on" } else { "off" }, mode])
            .env("BMC_USER", USER)
            .env("BMC_PASSWORD", PASSWORD)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(program.stdout.take().unwrap()).lines();
        let first = lines.next_line().await.unwrap();
        let port = first.expect("the BMC does not start").parse().unwrap();
        let calls: Arc<Mutex<Vec<String>>> = Arc::default();
        let (seen, hosts, name) = (calls.clone(), hosts.clone(), name.to_owned());
        let mode = mode.to_owned();
        tokio::spawn(async move {
            while let Ok(Some(line)) = lines.next_line().await {
                seen.lock().unwrap().push(line.clone());
                match (mode.as_str(), line.as_str()) {
                    ("stuck", _) | ("stubborn", "soft") => {}
                    (_, "on") => hosts.world.hosts().power_on(&name).await.unwrap(),
                    _ => hosts.world.hosts().power_off(&name),
                }
            }
        });
        Self {
            _program: program,
            port,
            calls,
        }
    }

    pub(crate) fn calls(&self) -> Vec<String> {
        self.calls.lock().unwrap().clone()
    }
}

/// A BMC for each host.
pub(crate) async fn bmcs(hosts: &Arc<SimulatedHosts>, mode: &str) -> Vec<IpmiBmc> {
    let starting = hosts.names.iter();
    let starting = starting.map(|name| IpmiBmc::start(hosts, name, mode));
    futures::future::join_all(starting).await
}

/// The member `ipmi` of a host; pyghmi has no other cipher suite.
fn at(port: u16) -> Value {
    json!({"ipmi": {"address": "127.0.0.1", "port": port, "cipherSuite": 3}})
}

fn with_login(info: VimConnectionInfo) -> VimConnectionInfo {
    info.access("ipmiUsername", USER)
        .access("ipmiPassword", PASSWORD)
}

/// The inventory of hosts with these BMCs.
fn inventory(hosts: &SimulatedHosts, ports: &[u16]) -> VimConnectionInfo {
    let port = |name: &str| {
        let position = hosts.names.iter().position(|one| one == name).unwrap();
        ports[position % ports.len()]
    };
    with_login(hosts.inventory(|name| at(port(name))))
}

fn ports(bmcs: &[IpmiBmc]) -> Vec<u16> {
    bmcs.iter().map(|bmc| bmc.port).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn hosts_are_switched_on_shut_down_and_switched_on_again() {
    if !is_installed() {
        return;
    }
    let hosts = two_that_are_off().await;
    let bmcs = bmcs(&hosts, "honest").await;
    let site = Site::new(inventory(&hosts, &ports(&bmcs)));
    let log = on_soft_off_and_on(&hosts, &site).await;
    for bmc in &bmcs {
        assert_eq!(bmc.calls(), ["on", "soft", "on"]);
    }
    assert!(log.contains("by IPMI") && !log.contains(PASSWORD), "{log}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_that_does_not_shut_down_is_switched_off() {
    if !is_installed() {
        return;
    }
    let hosts = two_that_are_off().await;
    let bmcs = bmcs(&hosts, "stubborn").await;
    let site = Site::new(inventory(&hosts, &ports(&bmcs)));
    on_soft_off_and_on(&hosts, &site).await;
    for bmc in &bmcs {
        assert_eq!(bmc.calls(), ["on", "soft", "off", "on"]);
    }
}

/// The rules about starting and stopping, as for Redfish.
#[tokio::test(flavor = "multi_thread")]
async fn the_driver_meets_the_contract_with_ipmi() {
    if !is_installed() {
        return;
    }
    let rules = RULES
        .iter()
        .filter(|rule| crate::contract::POWER_RULES.contains(&rule.name));
    for rule in rules {
        let hosts = Arc::new(SimulatedHosts::start(4).await);
        let bmcs = bmcs(&hosts, "honest").await;
        let info = inventory(&hosts, &ports(&bmcs));
        let bed: Arc<dyn TestBed> = Arc::new(bed(hosts, info));
        let outcome = rule.holds(bed).await;
        outcome.unwrap_or_else(|why| panic!("`{}`: {}: {why}", rule.name, rule.says()));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_password_and_an_unknown_cipher_suite_are_refused() {
    if !is_installed() {
        return;
    }
    let hosts = Arc::new(SimulatedHosts::start(2).await);
    let bmc = IpmiBmc::start(&hosts, "node-1", "honest").await;
    let wrong = inventory(&hosts, &[bmc.port]).access("ipmiPassword", "a-wrong-one");
    let error = refusal(&hosts, Site::new(wrong), PASSWORD).await;
    let text = format!("{error} {error:?}");
    assert_eq!(
        (error.kind(), error.name()),
        (ErrorKind::Refused, "hosts.power-refused"),
        "{text}"
    );
    assert!(
        text.contains("password") && !text.contains("a-wrong-one"),
        "{text}"
    );
    let info = with_login(
        hosts.inventory(|_| json!({"ipmi": {"address": "127.0.0.1", "port": bmc.port}})),
    );
    let error = refusal(&hosts, Site::new(info), PASSWORD).await;
    assert_eq!(error.name(), "hosts.power-refused", "{error}");
    assert!(error.to_string().contains("`cipherSuite`"), "{error}");
    assert!(bmc.calls().is_empty(), "nothing was switched");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bmc_that_never_answers_or_floods_is_given_up_in_time() {
    if !is_installed() {
        return;
    }
    let hosts = SimulatedHosts::start(2).await;
    hosts.world.hosts().power_off("node-1");
    for floods in [false, true] {
        let socket = Arc::new(UdpSocket::bind("127.0.0.1:0").unwrap());
        let port = socket.local_addr().unwrap().port();
        let (answering, ended) = (socket.clone(), Arc::new(Mutex::new(false)));
        let (ends, mut packet) = (ended.clone(), [0; 1024]);
        socket
            .set_read_timeout(Some(Duration::from_millis(100)))
            .unwrap();
        let flood = std::thread::spawn(move || {
            while !*ends.lock().unwrap() {
                let Ok((_, from)) = answering.recv_from(&mut packet) else {
                    continue;
                };
                for _ in 0..if floods { 20_000 } else { 0 } {
                    let _ = answering.send_to(&[0x06, 0, 0xff, 0x07, 0x06, 0xff, 0xff], from);
                }
            }
        });
        let mut site = Site::new(inventory(&hosts, &[port]));
        site.timeout = SignedDuration::from_secs(8);
        let begun = Instant::now();
        let error = site.create(&owner(), &sample()).await.unwrap_err();
        *ended.lock().unwrap() = true;
        flood.join().unwrap();
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
        assert_eq!(error.name(), "hosts.power", "{error}");
        assert!(
            begun.elapsed() < Duration::from_secs(20),
            "{:?}",
            begun.elapsed()
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bmc_that_lies_does_not_make_a_stopped_vnfc() {
    if !is_installed() {
        return;
    }
    let hosts = Arc::new(SimulatedHosts::start(2).await);
    let bmcs = bmcs(&hosts, "stuck").await;
    let mut site = Site::new(inventory(&hosts, &ports(&bmcs)));
    let (owner, what) = (owner(), sample());
    let record = site.create(&owner, &what).await.unwrap();
    site.timeout = SignedDuration::from_secs(12);
    let error = site
        .operate(&owner, (&stopped(&what), &record), Stop::Forceful)
        .await
        .unwrap_err();
    assert_eq!(
        (error.kind(), error.name()),
        (ErrorKind::Unavailable, "hosts.power"),
        "{error}"
    );
    assert!(error.to_string().contains("the host is `On`"), "{error}");
}

/// A program in place of `ipmitool`.
fn program(script: &str) -> (TempDir, PathBuf) {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("ipmitool");
    std::fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).unwrap();
    (folder, path)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_that_floods_hangs_or_prints_nonsense_is_an_error() {
    let hosts = SimulatedHosts::start(2).await;
    hosts.world.hosts().power_off("node-1");
    for (script, name) in [
        ("exec yes", "hosts.power"),
        ("exec sleep 600", "hosts.power"),
        (
            "printf 'Chassis Power is \\033[31mon\\n'",
            "hosts.power-refused",
        ),
        ("exit 0", "hosts.power-refused"),
    ] {
        let (_folder, path) = program(script);
        let mut site = Site::new(inventory(&hosts, &[623]));
        site.driver = BareHosts::new(Destinations::anywhere()).with_ipmitool(path);
        site.timeout = SignedDuration::from_secs(8);
        let error = site.create(&owner(), &sample()).await.unwrap_err();
        let text = error.to_string();
        assert_eq!(error.name(), name, "{script}: {text}");
        assert!(text.len() < 1_000 && !text.contains('\u{1b}'), "{text}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_password_is_in_no_argument() {
    let hosts = SimulatedHosts::start(2).await;
    hosts.world.hosts().power_off("node-1");
    let (folder, path) = program(
        "echo \"$@\" >\"${0%/*}/arguments\"; env >\"${0%/*}/environment\"; echo 'Chassis Power is neither'",
    );
    let mut site = Site::new(inventory(&hosts, &[6230]));
    site.driver = BareHosts::new(Destinations::anywhere()).with_ipmitool(path);
    site.create(&owner(), &sample()).await.unwrap_err();
    let read = |name: &str| std::fs::read_to_string(folder.path().join(name)).unwrap();
    let (arguments, environment) = (read("arguments"), read("environment"));
    assert_eq!(
        arguments.trim(),
        "-v -I lanplus -H 127.0.0.1 -p 6230 -C 3 -L OPERATOR -U admin -E chassis power status"
    );
    let names = environment
        .lines()
        .filter_map(|line| line.split('=').next());
    let names: Vec<_> = names
        .filter(|name| !["PWD", "_", "SHLVL", "OLDPWD"].contains(name))
        .collect();
    assert_eq!(names, ["IPMI_PASSWORD"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn without_the_program_an_inventory_with_ipmi_is_refused() {
    let hosts = SimulatedHosts::start(2).await;
    let info = inventory(&hosts, &[623]);
    let driver = || BareHosts::new(Destinations::anywhere()).with_ipmitool("/nowhere/ipmitool");
    let error = driver().validate(&info).unwrap_err();
    assert_eq!(
        (error.kind(), error.name()),
        (ErrorKind::Refused, "hosts.no-ipmitool")
    );
    assert!(error.to_string().contains("/nowhere/ipmitool"), "{error}");
    driver().validate(&hosts.inventory(|_| json!({}))).unwrap();
    hosts.world.hosts().power_off("node-1");
    let mut site = Site::new(info);
    site.driver = driver();
    let error = site.create(&owner(), &sample()).await.unwrap_err();
    assert_eq!(error.name(), "hosts.no-ipmitool", "{error}");
}
