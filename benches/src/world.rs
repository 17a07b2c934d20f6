//! The measured system: the released server, and the simulated world in a separate process.
//!
//! CPU time and resident memory of a process are read from `/proc`; data about operations comes over the API of the server.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use futures::StreamExt as _;
use reqwest::{Client, Response, StatusCode};
use serde_json::{Value, json};
use tempfile::TempDir;

/// Time limit for everything here.
pub const LONG: Duration = Duration::from_mins(2);
/// The path of the instances.
pub const INSTANCES: &str = "/vnflcm/v2/vnf_instances";
const PACKAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/one-server");
/// `vnfdId` of the VNFD in that package.
const VNFD: &str = "0d3f3d5e-52a5-4f0b-9a0e-6d5c1d3b7f10";

/// A process that is killed on drop.
pub struct Running(pub Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill(); // it may have ended by itself
        let _ = self.0.wait();
    }
}

impl Running {
    /// Starts a program; returns it and its first line of output.
    ///
    /// # Errors
    /// If it does not start, or exits before printing a line.
    pub fn start(command: &mut Command) -> Result<(Self, String)> {
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        let child = command
            .spawn()
            .with_context(|| format!("cannot start {command:?}"))?;
        let mut running = Self(child);
        let mut line = String::new();
        let out = running
            .0
            .stdout
            .take()
            .context("the program has no output")?;
        BufReader::new(out)
            .read_line(&mut line)
            .context("cannot read its first line")?;
        ensure!(!line.trim().is_empty(), "{command:?} exited without output");
        Ok((running, line.trim().to_owned()))
    }

    /// CPU seconds that it has used, in user and kernel mode.
    ///
    /// # Errors
    /// If the process has exited.
    pub fn cpu_seconds(&self) -> Result<f64> {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.0.id()))?;
        let after = stat
            .rsplit(')')
            .next()
            .context("`stat` has an unexpected format")?;
        let ticks: Vec<u32> = after
            .split_whitespace()
            .skip(11) // from the state on: utime and stime are fields 14 and 15
            .take(2)
            .map(str::parse)
            .collect::<Result<_, _>>()?;
        Ok(f64::from(ticks.iter().sum::<u32>()) / 100.0) // USER_HZ is 100 on every Linux
    }

    /// Its resident memory in MiB.
    ///
    /// # Errors
    /// If the process has exited.
    pub fn resident(&self) -> Result<f64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.0.id()))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kib = line.and_then(|value| value.split_whitespace().next()?.parse::<u32>().ok());
        Ok(f64::from(kib.context("`status` contains no memory size")?) / 1024.0)
    }
}

/// The simulated world, a server that uses it, and clients for both.
pub struct World {
    /// The server that is measured.
    pub server: Running,
    /// Any client of the server.
    pub client: Client,
    url: String,
    programs: PathBuf,
    folder: TempDir,
    endpoints: Value,
    /// Id of the network of the servers.
    pub network: String,
    /// Id of the other network of the cloud.
    pub other_network: String,
    vim: Value,
    _sim: Running,
}

impl World {
    /// Starts both, onboards the package with one server, and registers the cloud; `flags` are for the world.
    ///
    /// # Errors
    /// If something does not start or is refused.
    pub async fn start(programs: &Path, flags: &[&str]) -> Result<Self> {
        let folder = tempfile::tempdir().context("cannot create a temporary folder")?;
        let mut sim = Command::new(programs.join("vnfm-sim"));
        let (sim, line) = Running::start(
            sim.arg("--data")
                .arg(folder.path().join("world"))
                .args(flags),
        )?;
        let endpoints: Value =
            serde_json::from_str(&line).context("the first line of the world is not JSON")?;
        let client = Client::builder().no_proxy().build()?;
        let network = network(&client, &endpoints, "nfv-net").await?;
        let other_network = self::network(&client, &endpoints, "provider").await?;
        let (server, url) = serve(programs, folder.path())?;
        let programs = programs.to_owned();
        let vim = Value::Null;
        let mut world = Self {
            server,
            client,
            url,
            programs,
            folder,
            endpoints,
            network,
            other_network,
            vim,
            _sim: sim,
        };
        let clouds = world.endpoints["cloudsYaml"]
            .as_str()
            .unwrap_or_default()
            .to_owned();
        world.ctl(&["package", "onboard", PACKAGE])?;
        let register = [
            "vim",
            "register",
            "--name",
            "cloud",
            "--config-file",
            &clouds,
        ];
        world.vim = world.ctl(&[&register[..], &["--cloud", "nfv"]].concat())?["id"].clone();
        Ok(world)
    }

    /// Registers the Kubernetes cluster of a world with `--cluster` as a VIM; returns its id.
    ///
    /// # Errors
    /// If it has none, or the server refuses it.
    pub fn register_cluster(&self) -> Result<Value> {
        let file = self.endpoints["kubeconfig"].as_str();
        let file = file.context("the world has no cluster")?;
        let register = [
            "vim",
            "register",
            "--name",
            "cluster",
            "--config-file",
            file,
        ];
        Ok(self.ctl(&register)?["id"].clone())
    }

    /// Kills the server with SIGKILL and starts it again; returns the time until it listens.
    ///
    /// # Errors
    /// If it does not start.
    pub fn crash_and_start(&mut self) -> Result<Duration> {
        self.server.0.kill()?;
        self.server.0.wait()?;
        let began = Instant::now();
        (self.server, self.url) = serve(&self.programs, self.folder.path())?;
        Ok(began.elapsed())
    }

    /// Stops the server, calls a function with its data folder, and starts it again with this configuration.
    ///
    /// # Errors
    /// If it does not start, or the function fails.
    pub fn without_server<T>(
        &mut self,
        config: &str,
        act: impl FnOnce(&Path) -> Result<T>,
    ) -> Result<T> {
        self.server.0.kill()?;
        self.server.0.wait()?;
        let done = act(&self.folder.path().join("data"))?;
        let file = self.folder.path().join("vnfm.yaml");
        std::fs::write(&file, config)
            .with_context(|| format!("cannot write `{}`", file.display()))?;
        (self.server, self.url) = serve(&self.programs, self.folder.path())?;
        Ok(done)
    }

    /// Stops the server and the world; returns the data folder of the server, which is deleted on drop.
    ///
    /// # Errors
    /// If the server cannot be ended.
    pub fn stopped(mut self) -> Result<(PathBuf, TempDir)> {
        self.server.0.kill()?;
        self.server.0.wait()?;
        Ok((self.folder.path().join("data"), self.folder))
    }

    /// Runs a command of `vnfmctl`, which must succeed; returns its output.
    ///
    /// # Errors
    /// With the error output of the command.
    pub fn ctl(&self, words: &[&str]) -> Result<Value> {
        let mut command = Command::new(self.programs.join("vnfmctl"));
        let output = command
            .args(["-o", "json", "--server", &self.url])
            .args(words)
            .output()?;
        let stderr = String::from_utf8_lossy(&output.stderr);
        ensure!(
            output.status.success(),
            "`vnfmctl {}`: {stderr}",
            words.join(" ")
        );
        Ok(serde_json::from_slice(&output.stdout).unwrap_or_default())
    }

    /// URL of this path on the server.
    pub fn at(&self, path: &str) -> String {
        format!("{}{path}", self.url)
    }

    /// Sends a POST, whose status must be `wanted`.
    ///
    /// # Errors
    /// With the response if it is another.
    pub async fn post(&self, path: &str, body: &Value, wanted: StatusCode) -> Result<Response> {
        let request = self
            .client
            .post(self.at(path))
            .header("Version", "2.0.0")
            .json(body);
        let answer = request.send().await?;
        let status = answer.status();
        if status != wanted {
            anyhow::bail!(
                "POST {path}: {status}: {}",
                answer.text().await.unwrap_or_default()
            );
        }
        Ok(answer)
    }

    /// Sends a merge patch, which must be accepted.
    async fn patch(&self, path: &str, body: &Value) -> Result<Response> {
        let request = self.client.patch(self.at(path)).header("Version", "2.0.0");
        let request = request
            .header("content-type", "application/merge-patch+json")
            .body(body.to_string());
        let answer = request.send().await?;
        let status = answer.status();
        if status != StatusCode::ACCEPTED {
            let text = answer.text().await.unwrap_or_default();
            anyhow::bail!("PATCH {path}: {status}: {text}");
        }
        Ok(answer)
    }

    /// Reads a full page of the server.
    ///
    /// # Errors
    /// If the resource does not exist.
    pub async fn get(&self, path: &str) -> Result<Value> {
        let request = self.client.get(self.at(path)).header("Version", "2.0.0");
        Ok(request.send().await?.error_for_status()?.json().await?)
    }

    /// Reads a page of the control API of the simulated world.
    ///
    /// # Errors
    /// If the list does not exist.
    pub async fn book(&self, page: &str) -> Result<Vec<Value>> {
        let control = self.endpoints["control"].as_str().unwrap_or_default();
        Ok(self
            .client
            .get(format!("{control}/{page}"))
            .send()
            .await?
            .json()
            .await?)
    }

    /// Creates an instance; returns its id.
    ///
    /// # Errors
    /// If the server refuses the request.
    pub async fn create(&self) -> Result<String> {
        self.create_of(VNFD).await
    }

    /// Creates an instance of the VNFD with this id; returns its id.
    ///
    /// # Errors
    /// If the server refuses the request.
    pub async fn create_of(&self, vnfd: &str) -> Result<String> {
        let body = json!({"vnfdId": vnfd, "vnfInstanceName": "bench"});
        let answer = self.post(INSTANCES, &body, StatusCode::CREATED).await?;
        let made: Value = answer.json().await?;
        Ok(made["id"]
            .as_str()
            .context("the instance has no id")?
            .to_owned())
    }

    /// Starts a task on an instance; returns the id of the operation.
    ///
    /// # Errors
    /// If the server refuses the request.
    pub async fn begin(&self, instance: &str, task: &str) -> Result<String> {
        let body = match task {
            "instantiate" => self.instantiation("simple"),
            "terminate" => json!({"terminationType": "FORCEFUL"}),
            _ => json!({}),
        };
        self.begin_with(instance, Some(task), &body).await
    }

    /// The request to instantiate a flavour of servers on the cloud.
    pub fn instantiation(&self, flavour: &str) -> Value {
        json!({
            "flavourId": flavour,
            "vimConnectionInfo": {"vim1": {"vimId": self.vim}},
            "extVirtualLinks": [self.link(&self.network)],
        })
    }

    /// The external link on this network.
    pub fn link(&self, network: &str) -> Value {
        let cp = json!({"cpdId": "out", "cpConfig": {"c": {}}});
        json!({"id": "external", "resourceId": network, "extCps": [cp]})
    }

    /// Starts a task with this request, or without a task the modification of the instance; returns the operation's id.
    ///
    /// # Errors
    /// If the server refuses the request.
    pub async fn begin_with(
        &self,
        instance: &str,
        task: Option<&str>,
        body: &Value,
    ) -> Result<String> {
        let instance = format!("{INSTANCES}/{instance}");
        let answer = match task {
            Some(task) => {
                let path = format!("{instance}/{task}");
                self.post(&path, body, StatusCode::ACCEPTED).await?
            }
            None => self.patch(&instance, body).await?,
        };
        let place = answer
            .headers()
            .get("location")
            .context("202 without Location")?;
        Ok(place
            .to_str()?
            .rsplit('/')
            .next()
            .unwrap_or_default()
            .to_owned())
    }

    /// Waits for the end of an operation, which must be COMPLETED.
    ///
    /// # Errors
    /// If it ends in another state.
    pub async fn completed(&self, op: &str) -> Result<()> {
        let path = self.at(&format!("/vnfm/v1/op_occs/{op}/events"));
        let mut events = self
            .client
            .get(path)
            .send()
            .await?
            .error_for_status()?
            .bytes_stream();
        let mut heard = String::new();
        while let Some(part) = events.next().await {
            heard.push_str(&String::from_utf8_lossy(&part?));
        }
        let last = heard.rsplit("data:").next().unwrap_or_default().trim();
        let progress: Value = serde_json::from_str(last).context("an event is not JSON")?;
        let state = &progress["operationState"];
        ensure!(
            state == "COMPLETED",
            "operation `{op}` is {state}: {}",
            progress["error"]
        );
        Ok(())
    }

    /// Duration of an operation by the timestamps of the server: from its start to its last state, in milliseconds.
    ///
    /// # Errors
    /// If the record is missing.
    pub async fn took(&self, op: &str) -> Result<f64> {
        let record = self
            .get(&format!("/vnflcm/v2/vnf_lcm_op_occs/{op}"))
            .await?;
        let stamp = |name: &str| -> Result<jiff::Timestamp> {
            Ok(record[name]
                .as_str()
                .context("the timestamp is missing")?
                .parse()?)
        };
        let took = stamp("stateEnteredTime")?.duration_since(stamp("startTime")?);
        Ok(took.as_secs_f64() * 1000.0)
    }
}

/// Starts the server on its folder; returns it with its URL.
fn serve(programs: &Path, folder: &Path) -> Result<(Running, String)> {
    let mut command = Command::new(programs.join("vnfm-server"));
    command
        .args(["--listen", "127.0.0.1:0", "--data"])
        .arg(folder.join("data"));
    command.env("VNFM_LOG", "warn");
    let config = folder.join("vnfm.yaml");
    if config.exists() {
        command.arg("--config").arg(config);
    }
    let (server, line) = Running::start(&mut command)?;
    let url = line
        .split_whitespace()
        .find(|word| word.starts_with("http"));
    Ok((
        server,
        url.with_context(|| format!("no address in `{line}`"))?
            .to_owned(),
    ))
}

/// Id of a network of the simulated cloud; `nfv-net` has addresses for 65 000 servers.
async fn network(client: &Client, endpoints: &Value, name: &str) -> Result<String> {
    let text = |name: &str| endpoints[name].as_str().unwrap_or_default().to_owned();
    let (user, password) = (text("user"), text("password"));
    let domain = json!({"name": "Default"});
    let body = json!({"auth": {
        "identity": {"methods": ["password"], "password": {"user": {
            "name": user, "password": password, "domain": domain,
        }}},
        "scope": {"project": {"name": user, "domain": domain}},
    }});
    let login = client
        .post(format!("{}/auth/tokens", text("authUrl")))
        .json(&body)
        .send()
        .await?;
    let login = login.error_for_status().context("cannot log in")?;
    let token = login
        .headers()
        .get("x-subject-token")
        .context("no token")?
        .clone();
    let path = format!("{}/v2.0/networks?name={name}", text("neutron"));
    let networks: Value = client
        .get(path)
        .header("x-auth-token", token)
        .send()
        .await?
        .json()
        .await?;
    Ok(networks["networks"][0]["id"]
        .as_str()
        .context("no network")?
        .to_owned())
}

/// A runtime for clients, with two threads.
///
/// # Errors
/// If it does not start.
pub fn runtime() -> Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .context("cannot start a runtime")
}
