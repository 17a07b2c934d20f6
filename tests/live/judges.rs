//! External test tools: schemathesis with our OpenAPI document and the official ones, and Tacker's client. They need no
//! real cloud: the server uses the simulated world.
//!
//! `cargo xtask judge` installs schemathesis and runs them with a chosen number of cases.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::{Value, json};
use tempfile::TempDir;
use vnfm_server::reference;
use vnfm_tests::live::{optional_neighbour, program, sol_data};
use vnfm_tests::programs::{Server, until};
use vnfm_tests::simulator::Simulator;
use vnfm_tests::sources;
use vnfm_tests::testbed::{LONG, Testbed, VIM};

/// Cases per operation, unless `VNFM_JUDGE_CASES` is set.
const CASES: u32 = 12;
/// Time limit of each request, in seconds.
const LONGEST_ANSWER: &str = "10";

/// A server on a simulated world that contains resources of every kind.
struct JudgedServer {
    world: Simulator,
    testbed: Testbed,
}

impl JudgedServer {
    fn new() -> Self {
        let folder = TempDir::new().unwrap();
        let world = Simulator::start(folder.path(), &[]);
        std::fs::write(folder.path().join("server.yaml"), CONFIGURATION).unwrap();
        let testbed = Testbed::new(folder, &world.clouds(), world.ssh_port(), "warn");
        Self { world, testbed }
    }

    /// Instances in both states, operations, a subscription.
    fn furnish(&self) {
        let server = &self.testbed.server;
        self.testbed.onboard("vnf-b-cnf");
        let (_, request) = self.testbed.create_a("vnf-a-k8s-cluster");
        let op = self.testbed.instantiate("vnf-a", &request);
        self.testbed.wait_for_state(&op, "COMPLETED");
        server.ctl(&[
            "vnf",
            "create",
            "--package",
            "Web server",
            "--name",
            "spare",
        ]);
        let callback =
            json!({"callbackUri": format!("{}/notifications", self.world.endpoint("nfvo"))});
        let (status, body) = server.http("POST", "/vnflcm/v2/subscriptions", &callback.to_string());
        assert_eq!(status, 201, "{body}");
    }
}

const CONFIGURATION: &str = "\
notifications: {networks: [127.0.0.0/8], answer_seconds: 2, refused_minutes: 0}
plugins:
  runners: {kubernetes-cluster: in-process}
";

/// The folder with the tools' files.
fn judge_file(name: &str) -> PathBuf {
    sources::root().join("tests/judges").join(name)
}

struct Document<'a> {
    url: &'a str,
    /// Prefix of the paths in its document.
    base: &'a str,
    version: &'a str,
    /// Its paths that the server does not serve.
    without: Vec<String>,
}

/// The command that tests the server with a document.
fn schemathesis(judge: &Path, server: &Server, document: &Document<'_>) -> Command {
    let cases = std::env::var("VNFM_JUDGE_CASES")
        .ok()
        .and_then(|cases| cases.parse().ok());
    let mut command = Command::new(judge);
    command
        .arg("--config-file")
        .arg(judge_file("schemathesis.toml"))
        .args(["run", document.url]);
    let url = format!("{}{}", server.url(), document.base);
    command.args(["--url", &url, "--checks", "all"]);
    let version = format!("Version: {}", document.version);
    let cases = cases.unwrap_or(CASES).to_string();
    command.args(["--header", &version, "--max-examples", &cases]);
    command.args(["--phases", "examples,coverage,fuzzing,stateful"]);
    command.args(["--workers", "1", "--request-timeout", "60"]);
    command.args(["--max-response-time", LONGEST_ANSWER]);
    command.args(["--continue-on-failure", "--no-color"]);
    command.args(["--generation-database", "none"]);
    command.args(["--warnings", "off", "--seed", "1"]);
    let without = document.without.iter();
    command.args(without.flat_map(|path| ["--exclude-path", path.as_str()]));
    command
        .env("SCHEMATHESIS_HOOKS", judge_file("hooks.py"))
        .env("VNFM_JUDGE_SERVER", server.url())
        .env("NO_PROXY", "127.0.0.1")
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .current_dir(server.folder());
    command
}

/// Runs schemathesis, which must pass, and the server must not panic.
fn run_schemathesis(judge: &Path, server: &Server, document: &Document<'_>) {
    let output = schemathesis(judge, server, document).output().unwrap();
    let text = text(&output);
    println!("{text}");
    assert!(
        output.status.success(),
        "{}:\n{text}\nserver:\n{}",
        document.url,
        server.logged()
    );
    let logged = server.logged();
    assert!(!logged.contains("panicked"), "{logged}");
}

fn text(output: &Output) -> String {
    let part = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    part(&output.stdout) + &part(&output.stderr)
}

#[test]
fn schemathesis_passes_with_our_openapi_documents() {
    let Some(judge) = optional_neighbour("VNFM_LIVE_SCHEMATHESIS") else {
        return;
    };
    let judged = JudgedServer::new();
    judged.furnish();
    for (name, version) in [("openapi", "2.3.0"), ("openapi-v1", "1.3.0")] {
        let url = format!("{}/{name}.yaml", judged.testbed.server.url());
        let document = Document {
            url: &url,
            base: "",
            version,
            without: Vec::new(),
        };
        run_schemathesis(&judge, &judged.testbed.server, &document);
    }
}

#[test]
fn schemathesis_passes_with_the_official_openapi_documents() {
    let (Some(judge), Some(sol)) = (optional_neighbour("VNFM_LIVE_SCHEMATHESIS"), sol_data())
    else {
        return;
    };
    let judged = JudgedServer::new();
    judged.furnish();
    for (document, base) in [
        ("vnflcm-v3.7.1.patched.json", "/vnflcm/v2"),
        ("vnfpkgm-sol005-v3.7.1.patched.json", "/vnfpkgm/v2"),
    ] {
        let document = sol.join("openapi-bundled").join(document);
        let (without, url) = (unserved_paths(&document, base), document.to_string_lossy());
        let document = Document {
            url: &url,
            base,
            version: "2.3.0",
            without,
        };
        run_schemathesis(&judge, &judged.testbed.server, &document);
    }
}

/// The paths of a document that are not served, or, as `/api_versions`, differ from
/// it; docs/conformance.md gives the reasons.
fn unserved_paths(document: &Path, base: &str) -> Vec<String> {
    let document: Value = serde_json::from_slice(&std::fs::read(document).unwrap()).unwrap();
    let paths = document["paths"].as_object().unwrap().keys();
    let routes = reference::routes(vnfm_core::lcm::OPERATIONS);
    let is_served = |path: &str| {
        let path = format!("{base}{path}");
        routes.iter().any(|route| route.path == path)
    };
    paths
        .filter(|path| *path == "/api_versions" || !is_served(path))
        .cloned()
        .collect()
}

/// `openstack … vnflcm …` in one of Tacker's two versions.
struct Tacker<'a> {
    server: &'a Server,
    version: &'static str,
}

impl Tacker<'_> {
    fn run(&self, args: &[&str]) -> String {
        let mut command = Command::new(OPENSTACK);
        command.args(["--os-auth-type", "none", "--os-endpoint", self.server.url()]);
        command
            .args(["--os-tacker-api-version", self.version, "vnflcm"])
            .args(args);
        command.env("NO_PROXY", "127.0.0.1").env_remove("OS_CLOUD");
        let output = command.output().unwrap();
        assert!(
            output.status.success(),
            "vnflcm {}: {}",
            args.join(" "),
            text(&output)
        );
        text(&output)
    }

    fn json(&self, args: &[&str]) -> Value {
        let output = self.run(&[args, &["-f", "json"]].concat());
        serde_json::from_str(&output)
            .unwrap_or_else(|_| panic!("vnflcm {}: {output}", args.join(" ")))
    }

    fn state(&self, id: &str) -> Value {
        self.json(&["show", id])["Instantiation State"].take()
    }

    /// Waits for a state through our API, because each call of the client takes seconds.
    fn until(&self, id: &str, state: &str) {
        let path = format!("/vnflcm/v2/vnf_instances/{id}");
        until(&format!("`{id}` is {state}"), LONG, || {
            (self.server.get(&path)["instantiationState"] == state).then_some(())
        });
        assert_eq!(self.state(id), state);
    }
}

const OPENSTACK: &str = "/usr/bin/openstack";
const PACKAGE: &str = "python3-tackerclient";

/// The lifecycle of one VNF with Tacker's client in this version.
fn story(version: &'static str) {
    let plugin = "/usr/lib/python3/dist-packages/tackerclient/__init__.py";
    if program(OPENSTACK, "python3-openstackclient")
        .and(program(plugin, PACKAGE))
        .is_none()
    {
        return;
    }
    let judged = JudgedServer::new();
    let testbed = &judged.testbed;
    let tacker = Tacker {
        server: &testbed.server,
        version,
    };
    let package = testbed.onboard("vnf-a-k8s-cluster");
    let package = testbed.server.ctl(&["package", "show", &package]);
    let vnfd = package["vnfdId"].as_str().unwrap();
    let made = tacker.json(&[
        "create",
        vnfd,
        "--name",
        "by-tacker",
        "--description",
        "told",
    ]);
    let id = made["ID"].as_str().unwrap().to_owned();
    assert_eq!(made["VNF Instance Name"], "by-tacker", "{made:#}");

    let vim = testbed.server.ctl(&["vim", "show", VIM]);
    let mut request = testbed.request("vnf-a-k8s-cluster", vim["id"].as_str().unwrap());
    if version == "1" {
        to_version_1(&mut request);
    }
    let file = testbed.server.folder().join("request.json");
    std::fs::write(&file, request.to_string()).unwrap();
    let output = tacker.run(&["instantiate", &id, &file.to_string_lossy()]);
    assert!(output.contains("has been accepted"), "{output}");
    tacker.until(&id, "INSTANTIATED");

    let listed = tacker.json(&["list"]);
    assert_eq!(listed[0]["ID"], id.as_str(), "{listed:#}");
    assert_eq!(listed[0]["Instantiation State"], "INSTANTIATED");
    let instance = tacker.run(&["show", &id]);
    assert!(
        instance.contains("vnfcResourceInfo") && instance.contains("ETSINFV.OPENSTACK"),
        "{instance}"
    );
    let ops = tacker.json(&["op", "list"]);
    assert_eq!(ops[0]["Operation"], "INSTANTIATE", "{ops:#}");
    let op = tacker.json(&["op", "show", ops[0]["ID"].as_str().unwrap()]);
    assert_eq!(op["Operation State"], "COMPLETED", "{op:#}");
    assert!(tacker.run(&["versions"]).contains("2.3.0"));

    tacker.run(&["terminate", &id, "--termination-type", "FORCEFUL"]);
    tacker.until(&id, "NOT_INSTANTIATED");
    tacker.run(&["delete", &id]);
    assert_eq!(tacker.json(&["list"]), json!([]));
    judged.world.assert_clean();
}

/// Converts a request of version 2 to version 1.
fn to_version_1(request: &mut Value) {
    let listed = |map: &Value, key: &str| -> Value {
        let entries = map.as_object().unwrap().iter().map(|(id, entry)| {
            let mut entry = entry.clone();
            entry[key] = id.as_str().into();
            entry
        });
        entries.collect()
    };
    request["vimConnectionInfo"] = listed(&request["vimConnectionInfo"], "id");
    for link in request["extVirtualLinks"]
        .as_array_mut()
        .into_iter()
        .flatten()
    {
        for cp in link["extCps"].as_array_mut().unwrap() {
            cp["cpConfig"] = listed(&cp["cpConfig"], "cpInstanceId");
        }
    }
}

#[test]
fn tacker_client_runs_a_vnf_lifecycle_in_api_version_1() {
    story("1");
}

#[test]
fn tacker_client_runs_a_vnf_lifecycle_in_api_version_2() {
    story("2");
}
