//! The testbed of a case: a simulated world and a server with logins, each a process, with these fixtures:
//!
//! ```text
//! tenant   users                                   what it has
//! default  root (operator)                         a Kubernetes cluster, shared
//! acme     ann admin, olga operate, rita read,     an OpenStack cloud, every sample, an instance, its operations,
//!          nina operate in namespace `web`         a subscription
//! other    bob operate, beth admin                 a sample
//! calm     vera admin                              an instance; the victim
//! tiny     tina admin                              small quotas
//! ```

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::{Value, json};
use tempfile::TempDir;
use vnfm_tests::package_image;
use vnfm_tests::planted::Planted;
use vnfm_tests::programs::program;

use crate::canary::Canary;
use crate::catalogue::{Sample, samples};
use crate::http::{Clients, PASSWORD};
use crate::memory::Memory;
use crate::processes::{
    ANYWHERE, CLOUD_PASSWORD, Limits, allow_scripts, configure, planted_secrets, start_server,
    start_world,
};
use crate::tokens::Issuer;
use crate::{lifecycle, neighbours};

/// The processes under test, and what they work with.
pub(crate) struct Testbed {
    pub(crate) clients: Clients,
    pub(crate) memory: Memory,
    pub(crate) canary: Canary,
    pub(crate) issuer: Issuer,
    pub(crate) limits: Limits,
    pub(crate) planted: Planted,
    pub(crate) endpoints: Value,
    pub(crate) fixture: Fixture,
    pub(crate) samples: Vec<(Sample, String)>,
    pub(crate) log_read: u64,
    server: Child,
    world: Child,
    folder: TempDir,
}

/// Resources that exist before each case and must be unchanged after it.
#[derive(Debug, Default)]
pub(crate) struct Fixture {
    /// Ids in the tenant `acme` by path parameter `{…}`.
    pub(crate) ids: BTreeMap<String, String>,
    pub(crate) cloud: String,
    pub(crate) cluster: String,
    /// Resources of others in the world.
    pub(crate) seeded: Vec<String>,
    /// The victim's list of instances.
    pub(crate) calm: Value,
    pub(crate) calm_vnfd: String,
    /// The fingerprints of the server's keys.
    pub(crate) keys: Value,
    /// Last event of the victim that was checked.
    pub(crate) calm_events: u64,
    /// Last event that was checked.
    pub(crate) events: u64,
}

impl Testbed {
    /// Starts the processes and creates the fixtures.
    ///
    /// # Errors
    /// If something does not start, or a request at the beginning is refused.
    pub(crate) fn start(limits: Limits) -> Result<Self> {
        let folder = tempfile::Builder::new().prefix("vnfm-hostile").tempdir()?;
        let (world, line) = start_world(folder.path(), limits);
        let endpoints: Value = serde_json::from_str(&line).context("what `vnfm-sim` says")?;
        let canary = Canary::open()?;
        let issuer = Issuer::open()?;
        configure(folder.path(), (&endpoints, &issuer), limits)?;
        allow_scripts(folder.path())?;
        let (server, line) = start_server(folder.path(), limits, ANYWHERE)?;
        let planted = planted_secrets(folder.path())?;
        let memory = Memory::sample(server.id());
        let mut testbed = Self {
            clients: Clients::new(url(&line)?, planted.clone()),
            memory,
            canary,
            issuer,
            limits,
            planted,
            endpoints,
            fixture: Fixture::default(),
            samples: Vec::new(),
            log_read: 0,
            server,
            world,
            folder,
        };
        testbed.set_up()?;
        Ok(testbed)
    }

    /// Kills the server with SIGKILL.
    ///
    /// # Errors
    /// If it cannot be killed.
    pub(crate) fn kill(&mut self) -> Result<()> {
        self.server.kill()?;
        self.server.wait()?;
        Ok(())
    }

    /// Starts a server on the data folder of the last one.
    ///
    /// # Errors
    /// What it says where it does not start.
    pub(crate) fn begin(&mut self) -> Result<()> {
        let folder = self.folder.path();
        let (server, _) = start_server(folder, self.limits, self.clients.address())?;
        self.server = server;
        self.memory = Memory::sample(self.server.id());
        Ok(())
    }

    /// Resizes the server's disk, in MiB.
    ///
    /// # Errors
    /// If it has none of its own.
    pub(crate) fn grow_disk(&self, mebibytes: u64) -> Result<()> {
        let mut command = Command::new("nsenter");
        command.args(["--mount", "--target", &self.process().to_string(), "mount"]);
        command
            .args(["-o", &format!("remount,size={mebibytes}m")])
            .arg(self.data());
        let output = command.output().context("cannot start nsenter")?;
        let words = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "the disk does not grow: {words}");
        Ok(())
    }

    /// Registers VIMs, onboards packages, and creates the fixtures.
    fn set_up(&mut self) -> Result<()> {
        self.act(&json!({"action": "set-password", "user": "nfv", "password": CLOUD_PASSWORD}))?;
        // The server must detect bombs itself, before the cloud's quota does.
        for quota in ["instances", "cores", "ram", "network", "port"] {
            self.act(&json!({"action": "set-quota", "quota": quota, "value": -1}))?;
        }
        let clouds = std::fs::read_to_string(self.folder.path().join("world/clouds.yaml"))?;
        let old = self.endpoints["password"].as_str().unwrap_or_default();
        let file = self.folder.path().join("clouds.yaml");
        std::fs::write(&file, clouds.replace(old, CLOUD_PASSWORD))?;
        let cloud = file.to_string_lossy().into_owned();
        self.fixture.cloud = self.register(
            "ann",
            &["--name", "cloud", "--config-file", &cloud, "--cloud", "nfv"],
        )?;
        let cluster =
            package_image::cluster(Path::new(&self.kubeconfig()), self.endpoint("registry"))?;
        let file = self.folder.path().join("cluster.json");
        std::fs::write(&file, serde_json::to_string(&cluster)?)?;
        let file = file.to_string_lossy().into_owned();
        let shared = ["--name", "shared", "--shared", "--config-file", &file];
        self.fixture.cluster = self.register("root", &shared)?;
        for sample in samples()? {
            let vnfd = self.onboard("olga", &sample.archive()?)?;
            if let Ok((_, vnfd)) = vnfd {
                self.samples.push((sample, vnfd));
            }
        }
        ensure!(
            self.samples.len() >= 4,
            "only {} samples can be onboarded",
            self.samples.len()
        );
        self.create_fixtures()?;
        self.fixture.seeded = self.resources(true)?;
        self.fixture.keys = self.clients.page("root", "/vnfm/v1/secrets")?["keys"].clone();
        let events = self.clients.page("vera", "/vnfm/v1/events?after=0")?;
        self.fixture.calm_events = events["next"].as_u64().unwrap_or_default();
        let found = self.clients.found();
        ensure!(found.is_empty(), "before the first case: {found:?}");
        Ok(())
    }

    fn create_fixtures(&mut self) -> Result<()> {
        let (sample, vnfd) = &self.samples[self.samples.len() - 1];
        let archive = sample.archive()?;
        let (package, _) = self
            .onboard("vera", &archive)?
            .map_err(anyhow::Error::msg)?;
        let _ = package;
        self.onboard("bob", &archive)?.map_err(anyhow::Error::msg)?;
        self.fixture.calm_vnfd.clone_from(vnfd);
        self.create("vera", "/vnflcm/v2/vnf_instances", &json!({"vnfdId": vnfd}))?;
        self.fixture.calm = self.clients.page("vera", "/vnflcm/v2/vnf_instances")?;
        let vnfd = vnfd.clone();
        let name = "instance-of-acme";
        let body = json!({"vnfdId": vnfd, "vnfInstanceName": name});
        let instance = self.create("olga", "/vnflcm/v2/vnf_instances", &body)?;
        let callback = format!("{}/notifications", self.endpoint("nfvo"));
        let subscription = self.create(
            "olga",
            "/vnflcm/v2/subscriptions",
            &json!({"callbackUri": callback}),
        )?;
        let package = self.create("olga", "/vnfpkgm/v2/vnf_packages", &json!({}))?;
        let run_operation_pair = self.run_operation_pair()?;
        let ids = [
            ("{vnfLcmOpOccId}", run_operation_pair),
            ("{vnfInstanceId}", instance),
            ("{subscriptionId}", subscription),
            ("{vnfPkgId}", package),
            ("{vimId}", self.fixture.cloud.clone()),
        ];
        self.fixture.ids = ids
            .into_iter()
            .map(|(name, id)| (name.to_owned(), id))
            .collect();
        Ok(())
    }

    /// Id of a completed operation, of an instance that remains.
    fn run_operation_pair(&mut self) -> Result<String> {
        // Not an ASD: those name no resources, and an NFVO refuses such grants.
        let (sample, vnfd) = self.samples.last().context("no sample")?.clone();
        let instance = lifecycle::create(self, "olga", &vnfd)?;
        let mut last = String::new();
        let vim = neighbours::vim_of(self, &sample);
        for name in ["instantiate", "terminate"] {
            let request = sample.request(name, &vim);
            let begun = lifecycle::begin(self, "olga", (&instance, name), &request)?;
            let lifecycle::BeginOutcome::Op(op) = begun else {
                bail!("`{}`: {name} is refused", sample.name)
            };
            let end = lifecycle::wait_for_end(self, "olga", &op, Duration::from_secs(20))?;
            ensure!(
                end["operationState"] == "COMPLETED",
                "`{}`: {name}: {end}",
                sample.name
            );
            last = op;
        }
        Ok(last)
    }

    /// Creates a resource by POST; its id.
    ///
    /// # Errors
    /// If the server refuses the request.
    pub(crate) fn create(&self, user: &str, path: &str, body: &Value) -> Result<String> {
        let answer = self.clients.json(user, ("POST", path), body)?;
        ensure!(
            answer.status == 201,
            "POST {path} as {user}: {} {}",
            answer.status,
            answer.text()
        );
        answer.created_id().context("no Location")
    }

    /// Onboards an archive: package id and `vnfdId`, or why it is refused.
    ///
    /// # Errors
    /// If the server does not answer.
    pub(crate) fn onboard(
        &self,
        user: &str,
        archive: &[u8],
    ) -> Result<std::result::Result<(String, String), String>> {
        let id = self.create(user, "/vnfpkgm/v2/vnf_packages", &json!({}))?;
        let content = format!("/vnfpkgm/v2/vnf_packages/{id}/package_content");
        let put = self
            .clients
            .send(user, ("PUT", &content), Some(("application/zip", archive)))?;
        let page = format!("/vnfpkgm/v2/vnf_packages/{id}");
        let mut state = Value::Null;
        if put.is_success() {
            for _ in 0..500 {
                state = self.clients.page(user, &page)?;
                let now = state["onboardingState"].as_str().unwrap_or_default();
                if now == "ONBOARDED" {
                    let vnfd = state["vnfdId"].as_str().unwrap_or_default().to_owned();
                    return Ok(Ok((id, vnfd)));
                }
                if now == "CREATED" || now == "ERROR" {
                    break;
                }
                std::thread::park_timeout(Duration::from_millis(20));
            }
        }
        let why = format!("{} {} {state}", put.status, put.text());
        let deleted = self.clients.send(user, ("DELETE", &page), None)?;
        ensure!(
            deleted.is_success(),
            "a package that was not taken cannot be deleted: {why}"
        );
        Ok(Err(why))
    }

    /// The kubeconfig of the world's cluster.
    pub(crate) fn kubeconfig(&self) -> String {
        self.folder
            .path()
            .join("world/kubeconfig")
            .to_string_lossy()
            .into_owned()
    }

    /// Registers a VIM; its id.
    ///
    /// # Errors
    /// If the server refuses the VIM.
    pub(crate) fn register(&self, user: &str, words: &[&str]) -> Result<String> {
        let mut all = vec!["-o", "json", "vim", "register"];
        all.extend(words);
        let output = self.vnfmctl(user, &all)?;
        let created: Value = serde_json::from_str(&output).with_context(|| output.clone())?;
        created["id"]
            .as_str()
            .map(str::to_owned)
            .with_context(|| format!("no id: {output}"))
    }

    /// What `vnfmctl` prints for a user.
    ///
    /// # Errors
    /// If it cannot be started or says nothing but an error.
    pub(crate) fn vnfmctl(&self, user: &str, words: &[&str]) -> Result<String> {
        let mut command = Command::new(program("vnfmctl"));
        command.env("VNFM_SERVER", format!("http://{}", self.clients.address()));
        command
            .env("VNFM_USER", user)
            .env("VNFM_PASSWORD", PASSWORD)
            .args(words);
        let output = command
            .stdin(Stdio::null())
            .output()
            .context("cannot start vnfmctl")?;
        let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
        ensure!(
            output.status.success(),
            "vnfmctl {}: {stdout}{}",
            words.join(" "),
            String::from_utf8_lossy(&output.stderr)
        );
        Ok(stdout)
    }

    /// An endpoint of the world.
    pub(crate) fn endpoint(&self, name: &str) -> &str {
        self.endpoints[name].as_str().unwrap_or_default()
    }

    /// A page of the world's control API.
    ///
    /// # Errors
    /// If the world does not answer.
    pub(crate) fn world(&self, page: &str) -> Result<Value> {
        let url = format!("{}/{page}", self.endpoint("control"));
        ureq::get(url)
            .call()?
            .body_mut()
            .with_config()
            .limit(256 << 20)
            .read_json()
            .context("books")
    }

    /// Performs an action in the world.
    ///
    /// # Errors
    /// If the simulated world refuses it.
    pub(crate) fn act(&self, action: &Value) -> Result<()> {
        ureq::post(format!("{}/actions", self.endpoint("control"))).send_json(action)?;
        Ok(())
    }

    /// Adds rules to the fault script.
    ///
    /// # Errors
    /// If the world does not know them.
    pub(crate) fn arm(&self, rules: &Value) -> Result<()> {
        ureq::post(format!("{}/faults", self.endpoint("control"))).send_json(rules)?;
        Ok(())
    }

    /// Clears the script of faults: calls succeed again.
    ///
    /// # Errors
    /// If the world does not answer.
    pub(crate) fn disarm(&self) -> Result<()> {
        ureq::delete(format!("{}/faults", self.endpoint("control"))).call()?;
        Ok(())
    }

    /// Resources in the world: those from the start (`seeded`), or those created since.
    ///
    /// # Errors
    /// If the world does not answer.
    pub(crate) fn resources(&self, seeded: bool) -> Result<Vec<String>> {
        let page = if seeded { "books" } else { "left-behind" };
        let page = self.world(page)?;
        let all = if seeded { &page["stock"] } else { &page };
        let all = all.as_array().into_iter().flatten();
        let mut names: Vec<_> = all
            .filter(|entry| entry["seeded"] == json!(seeded))
            .map(|entry| {
                let word = |name: &str| entry[name].as_str().unwrap_or_default().to_owned();
                format!("{} {}", word("kind"), word("name"))
            })
            .collect();
        names.sort();
        Ok(names)
    }

    /// Calls to the world after the first `after`.
    ///
    /// # Errors
    /// If it does not answer.
    pub(crate) fn calls(&self, after: usize) -> Result<Vec<Value>> {
        let page = self.world(&format!("calls?after={after}"))?;
        Ok(page.as_array().cloned().unwrap_or_default())
    }

    /// Fails if the server has ended, with its status and last log lines.
    ///
    /// # Errors
    /// If it does not run.
    pub(crate) fn check_alive(&mut self) -> Result<()> {
        if let Some(status) = self.world.try_wait()? {
            bail!("the simulated world died ({status}): the server asked too much of it");
        }
        if let Some(status) = self.server.try_wait()? {
            let log = std::fs::read_to_string(self.log()).unwrap_or_default();
            let lines: Vec<_> = log.lines().collect();
            let last = lines[lines.len().saturating_sub(3)..].join(" | ");
            let peak = self.memory.peak() >> 20;
            bail!("the server died ({status}), {peak} MiB at its peak: {last}");
        }
        Ok(())
    }

    pub(crate) fn log(&self) -> PathBuf {
        self.folder.path().join("server.log")
    }

    /// Data folder of the server.
    pub(crate) fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    /// The folder of all processes.
    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Process id of the server.
    pub(crate) fn process(&self) -> u32 {
        self.server.id()
    }
}

/// The URL in the first line that a server prints.
fn url(line: &str) -> Result<&str> {
    let url = line
        .split_whitespace()
        .find(|word| word.starts_with("http"));
    url.with_context(|| format!("no address in `{line}`"))
}

impl Drop for Testbed {
    fn drop(&mut self) {
        for child in [&mut self.server, &mut self.world] {
            let _ = child.kill(); // it may have ended by itself
            let _ = child.wait();
        }
    }
}
