//! `vnfm-sim` as a separate process, which outlives the server; checks read its inventory and call log.

#![expect(clippy::unwrap_used, reason = "tests fail by panicking")]
#![expect(clippy::missing_panics_doc, reason = "tests fail by panicking")]

use std::path::{Path, PathBuf};
use std::process::{Child, Command};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::programs::{program, start};

/// A simulated world, run as a process of its own.
#[derive(Debug)]
pub struct Simulator {
    child: Child,
    endpoints: Value,
}

impl Simulator {
    /// Starts a world with these flags; its files are below `folder`.
    pub fn start(folder: &Path, flags: &[&str]) -> Self {
        let mut command = Command::new(program("vnfm-sim"));
        command.arg("--data").arg(folder.join("world")).args(flags);
        let (child, line) = start(&mut command, &folder.join("world.log"));
        Self {
            child,
            endpoints: serde_json::from_str(&line).unwrap(),
        }
    }

    /// Process id of the simulator.
    pub fn process(&self) -> u32 {
        self.child.id()
    }

    /// Path of the clouds.yaml that it has written.
    pub fn clouds(&self) -> PathBuf {
        self.endpoints["cloudsYaml"].as_str().unwrap().into()
    }

    /// The port at which its hosts' sshd listen.
    pub fn ssh_port(&self) -> u64 {
        self.endpoints["sshPort"].as_u64().unwrap()
    }

    /// An endpoint, as named by `GET /world`.
    pub fn endpoint(&self, name: &str) -> &str {
        self.endpoints[name].as_str().unwrap()
    }

    fn url(&self, page: &str) -> String {
        format!("{}/{page}", self.endpoints["control"].as_str().unwrap())
    }

    /// A page of its control API, as a list.
    pub fn page(&self, page: &str) -> Vec<Value> {
        let mut answer = ureq::get(self.url(page)).call().unwrap();
        answer
            .body_mut()
            .read_json::<Value>()
            .unwrap()
            .as_array()
            .unwrap()
            .clone()
    }

    /// Requests and notifications to the NFVO, and its responses.
    pub fn nfvo(&self) -> Value {
        ureq::get(self.url("nfvo"))
            .call()
            .unwrap()
            .body_mut()
            .read_json()
            .unwrap()
    }

    /// Sets the policy by which the NFVO grants.
    pub fn set_nfvo(&self, policy: &Value) {
        self.act("set-nfvo", &json!({ "policy": policy }));
    }

    /// Every file on every host: host, path and content.
    pub fn files(&self) -> Vec<(String, String, Vec<u8>)> {
        let word = |file: &Value, name: &str| file[name].as_str().unwrap().to_owned();
        let files = self.page("files").into_iter().map(|file| {
            let content = STANDARD.decode(word(&file, "content")).unwrap();
            (word(&file, "host"), word(&file, "path"), content)
        });
        files.collect()
    }

    /// Adds a rule to the fault script.
    pub fn arm(&self, rule: &Value) {
        ureq::post(self.url("faults")).send_json(rule).unwrap();
    }

    /// Clears the script of faults: calls succeed again.
    pub fn disarm(&self) {
        ureq::delete(self.url("faults")).call().unwrap();
    }

    /// Number of calls that matched rules of the fault script.
    pub fn seen(&self) -> u64 {
        self.page("faults")
            .iter()
            .map(|line| line["seen"].as_u64().unwrap())
            .sum()
    }

    /// Performs an action in the world.
    pub fn act(&self, action: &str, with: &Value) {
        let mut body = with.clone();
        body["action"] = json!(action);
        ureq::post(self.url("actions")).send_json(&body).unwrap();
    }

    /// The calls whose name starts with `name` and whose subject contains `part`.
    pub fn calls(&self, name: &str, part: &str) -> Vec<Value> {
        let of_name = |call: &Value| {
            call["call"].as_str().unwrap().starts_with(name)
                && call["subject"].as_str().unwrap().contains(part)
        };
        self.page("calls").into_iter().filter(of_name).collect()
    }

    /// Number of requests to create, change or delete a stack.
    pub fn touched_stacks(&self) -> usize {
        let changes = [
            "stack_create",
            "stack_update",
            "stack_delete",
            "stack_action",
        ];
        changes
            .iter()
            .map(|change| self.calls(&format!("heat.{change}"), "").len())
            .sum()
    }

    /// The hosts on which a command succeeded, once for each time, sorted.
    pub fn hosts_that_ran(&self, command: &str) -> Vec<String> {
        let calls = self.calls("host.exec", &format!(": {command}"));
        let well = calls.iter().filter(|call| call["status"] == 0);
        let mut hosts: Vec<_> = well
            .map(|call| {
                call["subject"]
                    .as_str()
                    .unwrap()
                    .split(':')
                    .next()
                    .unwrap()
                    .to_owned()
            })
            .collect();
        hosts.sort();
        hosts
    }

    /// Asserts that nothing is left behind and no call was invalid.
    pub fn assert_clean(&self) {
        let left = self.page("left-behind");
        assert!(left.is_empty(), "left behind: {left:#?}");
        self.assert_no_violations();
    }

    /// Asserts that no call was invalid.
    pub fn assert_no_violations(&self) {
        let violations = self.page("violations");
        assert!(violations.is_empty(), "violations: {violations:#?}");
    }
}

impl Drop for Simulator {
    fn drop(&mut self) {
        let _ = self.child.kill(); // it may have ended by itself
        let _ = self.child.wait();
    }
}
