//! The simulated world as a separate process, used through its control API only.

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};
use std::path::Path;
use std::time::Duration;
use ureq::Agent;
use vnfm_tests::simulator::Simulator;

use crate::clock::Latest;
use crate::plan::{Fault, Plan};

/// Limit for a call: if the world does not respond, the case ends instead of hanging.
const CALL_TIMEOUT: Duration = Duration::from_secs(30);

/// Client of the control API; clones share connections.
#[derive(Clone)]
pub(crate) struct Control {
    agent: Agent,
    url: String,
    process: u32,
    latest: Latest,
}

impl Control {
    /// A client for the control API at this address, of the process with this id.
    pub(crate) fn at(url: &str, process: u32) -> Self {
        let agent = Agent::config_builder()
            .http_status_as_error(true)
            .proxy(None);
        let agent = agent.timeout_global(Some(CALL_TIMEOUT)).build().into();
        Self {
            agent,
            url: url.to_owned(),
            process,
            latest: Latest::default(),
        }
    }

    /// URL of the world's control API.
    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// The latest time of any process at the site.
    pub(crate) fn latest(&self) -> &Latest {
        &self.latest
    }

    /// Process id of the world.
    pub(crate) fn process(&self) -> u32 {
        self.process
    }

    /// An endpoint, as named by `GET /world`.
    pub(crate) fn endpoint(&self, name: &str) -> Result<String> {
        let mut answer = self.agent.get(format!("{}/world", self.url)).call()?;
        let world: Value = answer.body_mut().read_json()?;
        let found = world[name]
            .as_str()
            .with_context(|| format!("the world has no `{name}`"))?;
        Ok(found.to_owned())
    }

    /// A page of the control API, as a list.
    pub(crate) fn page(&self, page: &str) -> Result<Vec<Value>> {
        let url = format!("{}/{page}", self.url);
        let mut answer = self
            .agent
            .get(&url)
            .call()
            .with_context(|| format!("GET {url}"))?;
        let page: Value = answer.body_mut().with_config().limit(1 << 28).read_json()?;
        Ok(page.as_array().cloned().unwrap_or_default())
    }

    /// The calls after the first `seen` ones.
    pub(crate) fn calls_after(&self, seen: u64) -> Result<Vec<Value>> {
        self.page(&format!("calls?after={seen}"))
    }

    /// Number of calls so far: all of them would be tens of megabytes after some thousand cases.
    pub(crate) fn calls_until_now(&self) -> Result<u64> {
        let last = self.page("calls?last=1")?;
        Ok(last
            .first()
            .and_then(|call| call["n"].as_u64())
            .unwrap_or(0))
    }

    /// Clears the script of faults: calls succeed again.
    pub(crate) fn disarm(&self) -> Result<()> {
        self.agent.delete(format!("{}/faults", self.url)).call()?;
        Ok(())
    }

    /// Adds a rule to the fault script.
    pub(crate) fn arm(&self, rule: &Value) -> Result<()> {
        self.agent
            .post(format!("{}/faults", self.url))
            .send_json(rule)?;
        Ok(())
    }

    /// Adds the fault of `plan` for the instance `id`.
    pub(crate) fn arm_plan(&self, plan: &Plan, id: &str) -> Result<()> {
        let address = &plan.address;
        let odd = address.nth % 2 == 1;
        let fault = match plan.fault {
            Fault::ErrorBefore if odd => json!({"status": 500}),
            Fault::ErrorBefore => json!({"drop": "before"}),
            Fault::ErrorAfter if odd => json!({"errorAfterEffect": 500}),
            Fault::ErrorAfter => json!({"drop": "after"}),
            Fault::NoAnswer | Fault::KilledBefore => json!({"hang": true}),
            Fault::ClockJumps => json!({"delayMs": 30}),
            Fault::Dropped | Fault::KilledAfter => json!({"hangAfterEffect": true}),
        };
        let mut rule = json!({"call": address.call, "nth": address.nth, "fault": fault});
        if let Some(subject) = &address.subject {
            rule["subject"] = json!(subject.replace("{id}", id));
        }
        self.arm(&rule)
    }

    /// Whether a rule of the fault script has struck.
    pub(crate) fn has_struck(&self) -> Result<bool> {
        let struck = |line: &Value| line["seen"].as_u64() >= line["rule"]["nth"].as_u64();
        Ok(self.page("faults")?.iter().any(struck))
    }

    /// Performs an action in the world.
    pub(crate) fn act(&self, action: &Value) -> Result<()> {
        self.agent
            .post(format!("{}/actions", self.url))
            .send_json(action)?;
        Ok(())
    }
}

/// A world that runs until dropped.
pub(crate) struct World {
    running: Simulator,
    control: Control,
}

impl World {
    /// Starts a world without delays and with a standalone cluster; its files are below `folder`.
    pub(crate) fn start(folder: &Path) -> Result<Self> {
        let running = Simulator::start(folder, &["--cluster"]);
        let control = Control::at(running.endpoint("control"), running.process());
        ensure!(
            control.page("violations")?.is_empty(),
            "a new world has violations"
        );
        Ok(Self { running, control })
    }

    pub(crate) fn control(&self) -> &Control {
        &self.control
    }

    /// An endpoint, as named by `GET /world`.
    pub(crate) fn endpoint(&self, name: &str) -> &str {
        self.running.endpoint(name)
    }

    /// SSH port of its hosts.
    pub(crate) fn ssh_port(&self) -> u64 {
        self.running.ssh_port()
    }
}
