//! One host: commands, files, and steps that outlive the connection.

use crate::plan::{Node, Plan};
use crate::words::redact;
use std::collections::BTreeMap;
use std::time::Duration;
use vnfm_plugin_sdk::prelude::*;

/// Where everything of ours lies on a host; gone after a reboot.
pub(crate) const FOLDER: &str = "/run/vnfm";
const RUNNER: &str = "/run/vnfm/vnfm-step";
/// How it is run: `/run` is mounted `noexec` on many images.
const RUN: &str = "sh /run/vnfm/vnfm-step";
const RUNNER_TEXT: &str = include_str!("vnfm-step.sh");

/// How long a host may take until a login works.
const BOOT: Duration = Duration::from_mins(10);
/// How long a host that was set up long ago may take.
const THERE: Duration = Duration::from_mins(1);
/// How long a host that may be off has for an answer.
const KNOCK: Duration = Duration::from_secs(5);
/// How long a short command may take.
const SHORT: Duration = Duration::from_mins(2);
/// How long one look at a running step lasts; it ends with the step.
const LOOK: Duration = Duration::from_secs(20);
/// How much longer the connection may take than the look.
const GRACE: Duration = Duration::from_secs(20);
/// How often in a row a host may be out of reach while a step runs on it: network plugins and restarts shake networks.
const SHAKY: u32 = 30;

/// How a step is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    /// It was never begun, or the host was restarted since.
    Absent,
    /// It runs.
    Running,
    /// It was killed.
    Lost,
    /// It ended with this exit code.
    Done(i32),
}

/// What a host is like.
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

    /// Whether `name` is `yes`.
    pub(crate) fn is(&self, name: &str) -> bool {
        self.value(name) == "yes"
    }

    /// The programs that are not there.
    pub(crate) fn missing(&self) -> Vec<&str> {
        self.value("missing").split_whitespace().collect()
    }

    /// kubeadm's version, such as `v1.36.2`.
    pub(crate) fn kubeadm(&self) -> &str {
        self.value("kubeadm")
    }

    /// Whether the host is a node of a cluster, all of it.
    pub(crate) fn has_joined(&self) -> bool {
        self.is("kubelet") && !self.is("bootstrap")
    }

    /// Whether something of a cluster lies on it.
    pub(crate) fn has_traces(&self) -> bool {
        ["admin", "kubelet", "bootstrap", "ca"]
            .iter()
            .any(|name| self.is(name))
    }
}

/// A host at work.
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

    /// Whether a login works now; a host that is off says nothing.
    pub(crate) async fn answers(&self) -> bool {
        match self.ssh.wait(KNOCK).await {
            Ok(()) => true,
            Err(error) => {
                self.cx.info(&format!(
                    "`{}` does not answer: {}",
                    self.node.name, error.detail
                ));
                false
            }
        }
    }

    /// Waits for a login and puts the runner in place.
    pub(crate) async fn reach(&self) -> Result<(), DriverError> {
        self.reach_within(BOOT).await
    }

    /// The same with a host that should be there.
    pub(crate) async fn find(&self) -> Result<(), DriverError> {
        self.reach_within(THERE).await
    }

    async fn reach_within(&self, limit: Duration) -> Result<(), DriverError> {
        self.ssh
            .wait(limit)
            .await
            .map_err(|error| error.phase("preflight"))?;
        self.put(Upload::new(RUNNER, RUNNER_TEXT).mode("0700"), "preflight")
            .await
    }

    /// What the host is like now.
    pub(crate) async fn facts(&self) -> Result<Facts, DriverError> {
        let output = self.run("preflight", &format!("{RUN} facts")).await?;
        Ok(Facts::read(&output.stdout))
    }

    /// Puts a file in place as root.
    pub(crate) async fn put(&self, file: Upload, phase: &str) -> Result<(), DriverError> {
        self.ssh
            .put(file.sudo())
            .await
            .map_err(|error| error.phase(phase))
    }

    /// Runs a short command of `phase` as root; it must end with 0.
    pub(crate) async fn run(&self, phase: &str, line: &str) -> Result<Output, DriverError> {
        self.feed(phase, line, Secret::default()).await
    }

    /// The same, with something to read.
    pub(crate) async fn feed(
        &self,
        phase: &str,
        line: &str,
        input: Secret,
    ) -> Result<Output, DriverError> {
        let output = self.look(phase, line, input).await?;
        if output.ok() {
            return Ok(output);
        }
        let said = if output.stderr.trim().is_empty() {
            &output.stdout
        } else {
            &output.stderr
        };
        Err(self.failure(phase, output.exit_code, said))
    }

    /// The same, whatever its exit code is.
    pub(crate) async fn look(
        &self,
        phase: &str,
        line: &str,
        input: Secret,
    ) -> Result<Output, DriverError> {
        let command = Command::new(line).sudo().stdin(input).timeout(SHORT);
        self.ssh
            .run(command)
            .await
            .map_err(|error| self.unreachable(phase, error))
    }

    /// How the step `name` is, at once.
    pub(crate) async fn state(&self, name: &str) -> Result<State, DriverError> {
        self.watch(name, Duration::ZERO)
            .await
            .map_err(|error| self.unreachable(name, error))
    }

    /// Begins `argv` as step `name` and waits for its end, which must be 0.
    pub(crate) async fn step(&self, name: &str, argv: &str) -> Result<(), DriverError> {
        self.step_with(name, "", argv).await
    }

    /// The same; `file`, which holds a secret, is gone from the host when the step has ended, however it ends.
    pub(crate) async fn step_with(
        &self,
        name: &str,
        file: &str,
        argv: &str,
    ) -> Result<(), DriverError> {
        let line = format!("{RUN} start {} {name} {file} -- {argv}", self.plan.instance);
        self.run(name, &line).await?;
        self.finish(name).await
    }

    /// Waits for the end of a step that runs.
    pub(crate) async fn finish(&self, name: &str) -> Result<(), DriverError> {
        let mut out_of_reach = 0;
        loop {
            match self.watch(name, LOOK).await {
                Ok(State::Done(0)) => return Ok(()),
                Ok(State::Done(code)) => {
                    let said = self.run(name, &format!("{RUN} log {name}")).await?;
                    return Err(self.failure(name, code, &said.stdout));
                }
                Ok(State::Running) => out_of_reach = 0,
                Ok(State::Lost | State::Absent) => {
                    let detail =
                        format!("step `{name}` was killed on the host, or the host was restarted");
                    let error = DriverError::new(format!("{name}-lost"), detail).retryable();
                    return Err(error.host(&self.node.name).phase(name));
                }
                Err(error) => {
                    out_of_reach += 1;
                    if error.kind != vnfm_plugin_sdk::ErrorKind::Unavailable || out_of_reach > SHAKY
                    {
                        return Err(self.unreachable(name, error));
                    }
                    self.cx.sleep(Duration::from_secs(1)).await?;
                }
            }
            self.cx
                .waiting(&format!("`{name}` on `{}`", self.node.name))
                .await;
            self.cx.check_cancelled().await?;
        }
    }

    /// What a step wrote to standard output.
    pub(crate) async fn output_of(&self, name: &str) -> Result<String, DriverError> {
        Ok(self.run(name, &format!("{RUN} out {name}")).await?.stdout)
    }

    async fn watch(&self, name: &str, seconds: Duration) -> Result<State, ServiceError> {
        let line = format!("{RUN} wait {name} {}", seconds.as_secs());
        let output = self
            .ssh
            .run(Command::new(line).sudo().timeout(seconds + GRACE))
            .await?;
        let mut words = output.stdout.split_whitespace();
        Ok(match (words.next(), words.next()) {
            (Some("running"), _) => State::Running,
            (Some("lost"), _) => State::Lost,
            (Some("done"), Some(code)) => State::Done(code.parse().unwrap_or(255)),
            // The runner itself goes with a restart.
            _ => State::Absent,
        })
    }

    fn unreachable(&self, phase: &str, error: ServiceError) -> DriverError {
        DriverError::from(error).host(&self.node.name).phase(phase)
    }

    /// The error of something that ended with another code than 0, without secrets.
    pub(crate) fn failure(&self, phase: &str, code: i32, said: &str) -> DriverError {
        let clean = redact(said, self.plan.secrets());
        let last = clean
            .lines()
            .rev()
            .map(str::trim)
            .find(|line| !line.is_empty());
        // The exit code has a member of its own.
        let detail = last.unwrap_or("it said nothing");
        DriverError::new(format!("{phase}-failed"), detail)
            .retryable()
            .host(&self.node.name)
            .phase(phase)
            .exit_code(code)
            .last_lines(&clean)
    }

    /// An error that somebody has to do something about.
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

/// A word for the shell.
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
    fn facts_are_read_as_the_runner_prints_them() {
        let facts =
            Facts::read("missing=kubeadm kubectl\nkubeadm=v1.36.2\nkubelet=yes\nbootstrap=no\n");
        assert_eq!(facts.missing(), ["kubeadm", "kubectl"]);
        assert_eq!(facts.kubeadm(), "v1.36.2");
        assert!(facts.has_joined() && facts.has_traces());
        assert!(!Facts::read("kubelet=yes\nbootstrap=yes\n").has_joined());
        assert!(!Facts::read("ca=no\n").has_traces());
    }

    #[test]
    fn words_survive_the_shell() {
        assert_eq!(quote("/run/a-b_c.deb"), "/run/a-b_c.deb");
        assert_eq!(quote("it's"), r"'it'\''s'");
        assert_eq!(quote(""), "''");
    }
}
