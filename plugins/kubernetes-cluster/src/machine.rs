//! Runs commands and uploads files on one host, and runs long steps that survive a lost connection.

use crate::plan::{Node, Plan};
use crate::secrets::redact;
use std::collections::BTreeMap;
use std::time::Duration;
use vnfm_plugin_sdk::messages::{FileTransfer, StoredFile};
use vnfm_plugin_sdk::prelude::*;

/// Our folder on a host; a reboot clears it.
pub(crate) const FOLDER: &str = "/run/vnfm";
/// The folder of large files on a host, which may not fit into its memory.
pub(crate) const LARGE_FILES: &str = "/var/lib/vnfm/files";
const RUNNER: &str = "/run/vnfm/vnfm-step";
/// Run through `sh`, because `/run` is mounted `noexec` on many images.
const RUN: &str = "sh /run/vnfm/vnfm-step";
const RUNNER_TEXT: &str = include_str!("vnfm-step.sh");

/// How long a new host may take until a login works.
const BOOT_TIMEOUT: Duration = Duration::from_mins(10);
/// How long a host that was set up earlier may take until a login works.
const KNOWN_HOST_TIMEOUT: Duration = Duration::from_mins(1);
/// How long to wait for a host that may be off.
const PROBE_TIMEOUT: Duration = Duration::from_secs(5);
/// How long a short command may take.
const COMMAND_TIMEOUT: Duration = Duration::from_mins(2);
/// How long one call waits for the end of a step.
const WATCH_TIMEOUT: Duration = Duration::from_secs(20);
/// How much longer than that the SSH command may take.
const CONNECTION_GRACE: Duration = Duration::from_secs(20);
/// How often in a row a host may be unreachable while a step runs on it: network plugins and restarts interrupt networks.
const MAX_UNREACHABLE: u32 = 30;
/// The pause before such a host is tried again.
const UNREACHABLE_PAUSE: Duration = Duration::from_secs(1);

/// State of a step on a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StepState {
    /// It was never started, or the host was rebooted since.
    Absent,
    Running,
    /// It was killed, and left no exit code.
    Lost,
    /// It exited with this code.
    Done(i32),
}

/// Facts about a host, as `vnfm-step facts` prints them.
#[derive(Debug, Clone, Default)]
pub(crate) struct Facts(BTreeMap<String, String>);

impl Facts {
    fn read(text: &str) -> Self {
        let pairs = text.lines().filter_map(|line| line.split_once('='));
        Self(
            pairs
                .map(|(name, value)| (name.to_owned(), value.trim().to_owned()))
                .collect(),
        )
    }

    fn value(&self, name: &str) -> &str {
        self.0.get(name).map_or("", String::as_str)
    }

    /// Whether the fact `name` has the value `yes`.
    pub(crate) fn is(&self, name: &str) -> bool {
        self.value(name) == "yes"
    }

    /// Programs that are not installed.
    pub(crate) fn missing(&self) -> Vec<&str> {
        self.value("missing").split_whitespace().collect()
    }

    /// Programs that serve the address of a control plane and are not installed.
    pub(crate) fn missing_for_endpoint(&self) -> Vec<&str> {
        self.value("endpoint_missing").split_whitespace().collect()
    }

    /// kubeadm's version, such as `v1.36.2`.
    pub(crate) fn kubeadm(&self) -> &str {
        self.value("kubeadm")
    }

    /// Whether the host is completely set up as a node of a cluster.
    pub(crate) fn has_joined(&self) -> bool {
        self.is("kubelet") && !self.is("bootstrap") && !self.is("unfinished")
    }

    /// Whether the host is a control-plane node whose components run, as far as its files tell.
    pub(crate) fn has_control_plane(&self) -> bool {
        self.is("admin") && !self.is("etcd_stopped")
    }

    /// Whether the host has any remains of a cluster.
    pub(crate) fn has_traces(&self) -> bool {
        self.has_parts_of_cluster() || self.is("unfinished")
    }

    /// Whether the host has files of a cluster.
    pub(crate) fn has_parts_of_cluster(&self) -> bool {
        ["admin", "kubelet", "bootstrap", "ca"]
            .iter()
            .any(|name| self.is(name))
    }

    /// The VNF instance that last made the host a node.
    pub(crate) fn owner(&self) -> &str {
        self.value("owner")
    }
}

/// A host with its SSH connection.
#[derive(Debug, Clone)]
pub(crate) struct Machine<'a> {
    pub(crate) cx: &'a HookContext,
    pub(crate) plan: &'a Plan,
    pub(crate) node: &'a Node,
    ssh: Ssh,
}

impl<'a> Machine<'a> {
    pub(crate) fn new(cx: &'a HookContext, plan: &'a Plan, node: &'a Node) -> Self {
        Self {
            cx,
            plan,
            node,
            ssh: cx.ssh(node.ssh.clone()),
        }
    }

    /// Whether a login works within [`PROBE_TIMEOUT`].
    pub(crate) async fn answers(&self) -> bool {
        match self.ssh.wait(PROBE_TIMEOUT).await {
            Ok(()) => true,
            Err(error) => {
                self.cx.info(&format!(
                    "`{}` does not respond: {}",
                    self.node.name, error.detail
                ));
                false
            }
        }
    }

    /// Waits for a login to a new host and uploads the step runner.
    pub(crate) async fn reach(&self) -> Result<(), DriverError> {
        self.reach_within(BOOT_TIMEOUT).await
    }

    /// Like [`Machine::reach`], for a host that was set up earlier.
    pub(crate) async fn reach_known(&self) -> Result<(), DriverError> {
        self.reach_within(KNOWN_HOST_TIMEOUT).await
    }

    async fn reach_within(&self, limit: Duration) -> Result<(), DriverError> {
        self.ssh
            .wait(limit)
            .await
            .map_err(|error| error.phase("preflight"))?;
        self.put(Upload::new(RUNNER, RUNNER_TEXT).mode("0700"), "preflight")
            .await
    }

    /// Reads the facts about the host.
    pub(crate) async fn facts(&self) -> Result<Facts, DriverError> {
        let output = self.run("preflight", &format!("{RUN} facts")).await?;
        Ok(Facts::read(&output.stdout))
    }

    /// Whether a host that was set up earlier is completely a node of a cluster.
    pub(crate) async fn has_joined(&self) -> Result<bool, DriverError> {
        self.reach_known().await?;
        Ok(self.facts().await?.has_joined())
    }

    /// Uploads a file as root.
    pub(crate) async fn put(&self, file: Upload, phase: &str) -> Result<(), DriverError> {
        self.ssh
            .put(file.sudo())
            .await
            .map_err(|error| error.phase(phase))
    }

    /// Copies a file, read as root, to the files that the VNFM stores with the instance.
    pub(crate) async fn fetch(&self, file: FileTransfer) -> Result<StoredFile, ServiceError> {
        self.ssh.fetch(&file.sudo()).await
    }

    /// Copies a stored file to the host, as root.
    pub(crate) async fn send(&self, file: FileTransfer) -> Result<StoredFile, ServiceError> {
        self.ssh.send(&file.sudo()).await
    }

    /// Runs a short command as root; fails if its exit code is not 0.
    pub(crate) async fn run(&self, phase: &str, line: &str) -> Result<Output, DriverError> {
        self.run_with_input(phase, line, Secret::default()).await
    }

    /// Like [`Machine::run`], with standard input.
    pub(crate) async fn run_with_input(
        &self,
        phase: &str,
        line: &str,
        input: Secret,
    ) -> Result<Output, DriverError> {
        let output = self.try_run(phase, line, input).await?;
        if output.ok() {
            return Ok(output);
        }
        let output_text = if output.stderr.trim().is_empty() {
            &output.stdout
        } else {
            &output.stderr
        };
        Err(self.failure(phase, output.exit_code, output_text))
    }

    /// Runs a short command as root, and returns its output whatever its exit code.
    pub(crate) async fn try_run(
        &self,
        phase: &str,
        line: &str,
        input: Secret,
    ) -> Result<Output, DriverError> {
        let command = Command::new(line)
            .sudo()
            .stdin(input)
            .timeout(COMMAND_TIMEOUT);
        self.ssh
            .run(command)
            .await
            .map_err(|error| self.unreachable(phase, error))
    }

    /// The state of step `name`, without waiting.
    pub(crate) async fn state(&self, name: &str) -> Result<StepState, DriverError> {
        self.watch(name, Duration::ZERO)
            .await
            .map_err(|error| self.unreachable(name, error))
    }

    /// Starts `argv` as step `name` and waits for its end; fails if its exit code is not 0.
    pub(crate) async fn step(&self, name: &str, argv: &str) -> Result<(), DriverError> {
        self.begin(name, ("", None), argv).await?;
        self.finish(name).await
    }

    /// Like [`Machine::step`], with a file that contains a secret: it is deleted from the host when the step ends, however it
    /// ends.
    pub(crate) async fn step_with(
        &self,
        name: &str,
        file: (&str, &str),
        argv: &str,
    ) -> Result<(), DriverError> {
        let (path, text) = file;
        self.begin(name, (path, Some(text)), argv).await?;
        self.finish(name).await
    }

    /// Like [`Machine::step`], with files whose quoted paths these are: they are deleted from the host when the step ends,
    /// however it ends.
    pub(crate) async fn step_on(
        &self,
        name: &str,
        paths: &[String],
        argv: &str,
    ) -> Result<(), DriverError> {
        self.begin(name, (&paths.join(" "), None), argv).await?;
        self.finish(name).await
    }

    /// Starts a step, after the end of another command that an operation that was given up has left in it.
    async fn begin(
        &self,
        name: &str,
        (files, text): (&str, Option<&str>),
        argv: &str,
    ) -> Result<(), DriverError> {
        let line = format!(
            "{RUN} start {} {name} {files} -- {argv}",
            self.plan.instance
        );
        loop {
            if let Some(text) = text {
                self.put(Upload::new(files, text), name).await?;
            }
            if self.run(name, &line).await?.stdout.trim() != "other" {
                return Ok(());
            }
            match self.finish(name).await {
                Err(error) if !error.code.starts_with(name) => return Err(error),
                _ => {}
            }
        }
    }

    /// Removes everything of a cluster from the host.
    pub(crate) async fn reset(&self) -> Result<(), DriverError> {
        self.step("reset", "kubeadm reset -f").await
    }

    /// Waits for the end of a running step.
    pub(crate) async fn finish(&self, name: &str) -> Result<(), DriverError> {
        let mut out_of_reach = 0;
        loop {
            // The host itself waits for the step.
            let mut pause = Duration::ZERO;
            match self.watch(name, WATCH_TIMEOUT).await {
                Ok(StepState::Done(0)) => return Ok(()),
                Ok(StepState::Done(code)) => {
                    let output_text = self.run(name, &format!("{RUN} log {name}")).await?;
                    return Err(self.failure(name, code, &output_text.stdout));
                }
                Ok(StepState::Running) => out_of_reach = 0,
                Ok(StepState::Lost | StepState::Absent) => {
                    let detail =
                        format!("step `{name}` was killed on the host, or the host was restarted");
                    let error = DriverError::new(format!("{name}-lost"), detail).retryable();
                    return Err(error.host(&self.node.name).phase(name));
                }
                Err(error) => {
                    out_of_reach += 1;
                    if error.kind != vnfm_plugin_sdk::ErrorKind::Unavailable
                        || out_of_reach > MAX_UNREACHABLE
                    {
                        return Err(self.unreachable(name, error));
                    }
                    pause = UNREACHABLE_PAUSE;
                }
            }
            let reason = format!("`{name}` on `{}`", self.node.name);
            self.cx.pause(&reason, pause).await?;
        }
    }

    /// Forgets that a step has ended, so that it runs again.
    pub(crate) async fn forget(&self, name: &str) -> Result<(), DriverError> {
        let line = format!("{RUN} forget {name}");
        self.run(name, &line).await.map(|_| ())
    }

    /// The standard output of a step.
    pub(crate) async fn step_output(&self, name: &str) -> Result<String, DriverError> {
        Ok(self.run(name, &format!("{RUN} out {name}")).await?.stdout)
    }

    async fn watch(&self, name: &str, seconds: Duration) -> Result<StepState, ServiceError> {
        let line = format!("{RUN} wait {name} {}", seconds.as_secs());
        let output = self
            .ssh
            .run(
                Command::new(line)
                    .sudo()
                    .timeout(seconds + CONNECTION_GRACE),
            )
            .await?;
        let mut secrets = output.stdout.split_whitespace();
        Ok(match (secrets.next(), secrets.next()) {
            (Some("running"), _) => StepState::Running,
            (Some("lost"), _) => StepState::Lost,
            (Some("done"), Some(code)) => StepState::Done(code.parse().unwrap_or(255)),
            // After a reboot, the runner itself is missing.
            _ => StepState::Absent,
        })
    }

    fn unreachable(&self, phase: &str, error: ServiceError) -> DriverError {
        DriverError::from(error).host(&self.node.name).phase(phase)
    }

    /// The error of a failed command, with secrets hidden.
    pub(crate) fn failure(&self, phase: &str, code: i32, output_text: &str) -> DriverError {
        let clean = redact(output_text, self.plan.secrets());
        let last = clean
            .lines()
            .rev()
            .map(str::trim)
            .find(|line| !line.is_empty());
        // The exit code has its own member.
        let detail = last.unwrap_or("it printed nothing");
        DriverError::new(format!("{phase}-failed"), detail)
            .retryable()
            .host(&self.node.name)
            .phase(phase)
            .exit_code(code)
            .last_lines(&clean)
    }

    /// An error that a retry does not resolve.
    pub(crate) fn refusal(
        &self,
        code: &str,
        phase: &str,
        detail: impl Into<String>,
    ) -> DriverError {
        DriverError::new(code, detail)
            .host(&self.node.name)
            .phase(phase)
    }
}

/// Quotes a word for the shell, if necessary.
pub(crate) fn quote(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-:=,+@".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::{Facts, quote};

    #[test]
    fn facts_are_parsed() {
        let facts =
            Facts::read("missing=kubeadm kubectl\nkubeadm=v1.36.2\nkubelet=yes\nbootstrap=no\n");
        assert_eq!(facts.missing(), ["kubeadm", "kubectl"]);
        assert_eq!(facts.kubeadm(), "v1.36.2");
        assert!(facts.has_joined() && facts.has_traces());
        assert!(!Facts::read("kubelet=yes\nbootstrap=yes\n").has_joined());
        assert!(!Facts::read("ca=no\n").has_traces());
    }

    #[test]
    fn words_are_quoted_for_the_shell() {
        assert_eq!(quote("/run/a-b_c.deb"), "/run/a-b_c.deb");
        assert_eq!(quote("it's"), r"'it'\''s'");
        assert_eq!(quote(""), "''");
    }
}
