//! The built programs as processes: `vnfm-server` on a free port with a data folder of its own, and `vnfmctl`.
//!
//! Started processes are killed on drop.

#![expect(clippy::unwrap_used, reason = "tests fail by panicking")]
#![expect(clippy::missing_panics_doc, reason = "tests fail by panicking")]

use std::fmt::Write as _;
use std::fs::File;
use std::io::{BufRead, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

/// The path of a built program, next to this one or one folder above.
pub fn program(name: &str) -> PathBuf {
    let own = std::env::current_exe().unwrap();
    let folder = own.parent().unwrap();
    let is_below = folder.file_name().is_some_and(|name| name == "deps");
    let found = if is_below {
        folder.parent().unwrap()
    } else {
        folder
    }
    .join(name);
    assert!(
        found.is_file(),
        "`{}` is missing: run `cargo build` first",
        found.display()
    );
    found
}

/// Interval at which [`until`] checks its condition.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Polls until `look` returns something; panics on timeout.
pub fn until<T>(what: &str, timeout: Duration, mut look: impl FnMut() -> Option<T>) -> T {
    let began = Instant::now();
    loop {
        if let Some(seen) = look() {
            return seen;
        }
        assert!(began.elapsed() < timeout, "not within {timeout:?}: {what}");
        std::thread::park_timeout(POLL_INTERVAL);
    }
}

/// Starts a program with its stderr appended to `log`; the process and the first line of its stdout.
pub fn start(command: &mut Command, log: &Path) -> (Child, String) {
    let stderr = File::options().create(true).append(true).open(log).unwrap();
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(stderr);
    let mut child = command.spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap())
        .read_line(&mut line)
        .unwrap();
    if line.trim().is_empty() {
        let _ = child.wait(); // it has closed its output: it ends
        panic!(
            "{command:?} printed nothing; its log:\n{}",
            std::fs::read_to_string(log).unwrap()
        );
    }
    (child, line.trim().to_owned())
}

/// The outcome of a command.
#[derive(Debug)]
pub struct CliOutput {
    /// Exit code of the program.
    pub code: i32,
    /// Everything written to standard output.
    pub stdout: String,
    /// Everything written to standard error.
    pub stderr: String,
}

/// Allows a built plugin in the data folder of a server in `folder`.
pub fn allow_plugin(folder: &Path, library: &str) {
    let allowed = Command::new(program("vnfmctl"))
        .args(["plugin", "allow"])
        .arg(program(library))
        .arg("--dir")
        .arg(folder.join("data/plugins"))
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&allowed.stderr);
    assert!(allowed.status.success(), "{errors}");
}

/// A server and its data folder; it can be killed and started again.
#[derive(Debug)]
pub struct Server {
    child: Option<Child>,
    executable: PathBuf,
    url: String,
    folder: PathBuf,
    log: String,
}

impl Server {
    /// Starts a server in `folder`, with the plugin `kubernetes-cluster` allowed; `log` is its `VNFM_LOG`. Its hooks
    /// run where `VNFM_TEST_RUNNER` says, such as `process`. It takes the configuration that lies there as
    /// `server.yaml`, else one for tests.
    pub fn start(folder: &Path, log: &str) -> Self {
        Self::start_with(
            folder,
            log,
            std::env::var("VNFM_TEST_RUNNER").ok().as_deref(),
        )
    }

    /// The same, with this runner for hooks.
    pub fn start_with(folder: &Path, log: &str, runner: Option<&str>) -> Self {
        allow_plugin(folder, "libkubernetes_cluster.so");
        Self::start_installed(&program("vnfm-server"), folder, log, runner)
    }

    /// Starts this program in `folder`, with the plugins that it has already.
    pub fn start_installed(
        executable: &Path,
        folder: &Path,
        log: &str,
        runner: Option<&str>,
    ) -> Self {
        let mut server = Self {
            child: None,
            executable: executable.to_owned(),
            url: String::new(),
            folder: folder.to_owned(),
            log: log.to_owned(),
        };
        let file = folder.join("server.yaml");
        if !file.exists() {
            let runner = runner.unwrap_or("in-process");
            std::fs::write(file, CONFIGURATION.replace("@RUNNER@", runner)).unwrap();
        }
        server.begin();
        server
    }

    /// Starts the process on the existing data folder, at a free port.
    pub fn begin(&mut self) {
        let mut command = Command::new(&self.executable);
        command
            .args(["--listen", "127.0.0.1:0", "--data"])
            .arg(self.folder.join("data"));
        command
            .arg("--config")
            .arg(self.folder.join("server.yaml"))
            .env("VNFM_LOG", &self.log);
        // Temporary files are searched for secrets with the rest.
        command.env("TMPDIR", &self.folder);
        let (child, line) = start(&mut command, &self.log_file());
        self.child = Some(child);
        let url = line
            .split_whitespace()
            .find(|word| word.starts_with("http"));
        url.unwrap_or_else(|| panic!("no address in `{line}`"))
            .clone_into(&mut self.url);
    }

    /// Its process id; 0 if it does not run.
    pub fn id(&self) -> u32 {
        self.child.as_ref().map_or(0, Child::id)
    }

    /// The ids of its living child processes: those of its hooks, and one spare process of each plugin.
    pub fn hook_processes(&self) -> Vec<String> {
        let own = self.id().to_string();
        let processes = std::fs::read_dir("/proc").unwrap().flatten();
        let is_child = |process: &std::fs::DirEntry| {
            let stat = std::fs::read_to_string(process.path().join("stat")).unwrap_or_default();
            let after_name = stat.rsplit(')').next().unwrap_or_default();
            let fields: Vec<_> = after_name.split_whitespace().collect();
            fields.len() > 1 && fields[0] != "Z" && fields[1] == own
        };
        let children = processes.filter(is_child);
        children
            .map(|process| process.file_name().to_string_lossy().into_owned())
            .collect()
    }

    /// Kills the process with SIGKILL, as a crash does.
    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }

    /// Sends SIGTERM; the exit status and how long the shutdown took.
    pub fn terminate(&mut self) -> (ExitStatus, Duration) {
        let mut child = self.child.take().unwrap();
        let (sent, id) = (Instant::now(), child.id().to_string());
        assert!(
            Command::new("kill")
                .args(["-TERM", &id])
                .status()
                .unwrap()
                .success()
        );
        (child.wait().unwrap(), sent.elapsed())
    }

    /// Runs another command of the server's program on the same data folder.
    pub fn run_server_command(&self, args: &[&str]) -> CliOutput {
        let mut command = Command::new(program("vnfm-server"));
        command
            .arg("--data")
            .arg(self.folder.join("data"))
            .args(args);
        let output = command.output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let code = output.status.code().unwrap_or(-1);
        CliOutput {
            code,
            stdout: text(&output.stdout),
            stderr: text(&output.stderr),
        }
    }

    /// Base URL of the server.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Its log, over all restarts.
    pub fn logged(&self) -> String {
        std::fs::read_to_string(self.log_file()).unwrap_or_default()
    }

    /// Data folder of the server.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The file with its log.
    pub fn log_file(&self) -> PathBuf {
        self.folder.join("server.log")
    }

    /// Sends a request; status and body.
    pub fn http(&self, method: &str, path: &str, body: &str) -> (u16, Value) {
        self.send((method, path), body, None)
    }

    /// Sends a request without a body, with an additional header.
    pub fn http_as(&self, method: &str, path: &str, header: (&str, &str)) -> (u16, Value) {
        self.send((method, path), "", Some(header))
    }

    fn send(
        &self,
        (method, path): (&str, &str),
        body: &str,
        header: Option<(&str, &str)>,
    ) -> (u16, Value) {
        let agent: ureq::Agent = ureq::Agent::config_builder()
            .http_status_as_error(false)
            .proxy(None)
            .build()
            .into();
        let mut request = ureq::http::Request::builder()
            .method(method)
            .uri(format!("{}{path}", self.url))
            .header("content-type", "application/json")
            .header("version", "2.3.0");
        if let Some((name, value)) = header {
            request = request.header(name, value);
        }
        let request = request.body(body.to_owned()).unwrap();
        let mut answer = agent.run(request).unwrap();
        let text = answer.body_mut().read_to_string().unwrap();
        let body = serde_json::from_str(&text).unwrap_or(Value::String(text));
        (answer.status().as_u16(), body)
    }

    /// Gets a page, which must exist.
    pub fn get(&self, path: &str) -> Value {
        let (status, body) = self.http("GET", path, "");
        assert_eq!(status, 200, "GET {path}: {body}");
        body
    }

    /// Runs `vnfmctl` against the server.
    pub fn run(&self, args: &[&str]) -> CliOutput {
        self.run_with_input(args, "")
    }

    /// The same, with standard input.
    pub fn run_with_input(&self, args: &[&str], input: &str) -> CliOutput {
        let mut command = Command::new(program("vnfmctl"));
        command.args(["--server", &self.url]).args(args);
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        child
            .stdin
            .take()
            .unwrap()
            .write_all(input.as_bytes())
            .unwrap();
        let output = child.wait_with_output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let code = output.status.code().unwrap_or(-1);
        let output = CliOutput {
            code,
            stdout: text(&output.stdout),
            stderr: text(&output.stderr),
        };
        self.record(args, &output);
        output
    }

    /// Appends the output to `vnfmctl.log`, which is searched for secrets.
    fn record(&self, args: &[&str], output: &CliOutput) {
        let mut text = String::new();
        writeln!(
            text,
            "$ vnfmctl {}\n{}{}",
            args.join(" "),
            output.stdout,
            output.stderr
        )
        .unwrap();
        let file = self.folder.join("vnfmctl.log");
        let mut file = File::options()
            .create(true)
            .append(true)
            .open(file)
            .unwrap();
        file.write_all(text.as_bytes()).unwrap();
    }

    /// Runs a command that must succeed; its JSON output.
    pub fn ctl(&self, args: &[&str]) -> Value {
        let output = self.run(&[&["-o", "json"], args].concat());
        assert_eq!(
            output.code,
            0,
            "`vnfmctl {}`: {}{}",
            args.join(" "),
            output.stderr,
            self.log_tail()
        );
        serde_json::from_str(&output.stdout).unwrap_or(Value::Null)
    }

    /// Runs a command that the server must refuse; its stderr.
    pub fn refused(&self, args: &[&str]) -> String {
        let output = self.run(args);
        assert_eq!(output.code, 3, "`vnfmctl {}`: {output:?}", args.join(" "));
        output.stderr
    }

    /// Waits until an operation is not running; its progress.
    pub fn ended(&self, op: &str, timeout: Duration) -> Value {
        let path = format!("/vnfm/v1/op_occs/{op}/progress");
        let driven = ["STARTING", "PROCESSING", "ROLLING_BACK"];
        until(&format!("the end of operation `{op}`"), timeout, || {
            let now = self.get(&path);
            let is_driven = driven.contains(&now["operationState"].as_str().unwrap());
            (!is_driven).then_some(now)
        })
    }

    fn log_tail(&self) -> String {
        let log = self.logged();
        let lines: Vec<_> = log.lines().collect();
        format!(
            "\nserver:\n{}",
            lines[lines.len().saturating_sub(12)..].join("\n")
        )
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill(); // it may have ended by itself
            let _ = child.wait();
        }
    }
}

/// Short leases, so that crashes are detected quickly.
const CONFIGURATION: &str = "\
limits: {lease_seconds: 2}
plugins:
  implementations: {mgmt-drivers-kubernetes: kubernetes-cluster}
  runners: {kubernetes-cluster: @RUNNER@}
";
