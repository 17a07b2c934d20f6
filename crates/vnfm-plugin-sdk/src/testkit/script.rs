//! The scripted responses of simulated hosts.

use crate::error::{ErrorKind, ServiceError};
use crate::http::HttpResponse;
use crate::ssh::Output;
use serde_json::{Value, json};

/// The response of a simulated host to a command.
///
/// ```
/// use vnfm_plugin_sdk::testkit::{Reply, TestHost, block_on};
/// use vnfm_plugin_sdk::{ErrorKind, SshTarget};
///
/// let replies = [Reply::unreachable(), Reply::login_refused(), Reply::exit(1, "busy"), Reply::ok("done")];
/// let host = TestHost::new().ssh_each("10.0.0.1", "install", replies);
/// let ssh = host.context().ssh(SshTarget::new("server-1", "10.0.0.1", "ubuntu"));
/// let run = || block_on(ssh.run("install"));
/// assert_eq!(run().unwrap_err().kind, ErrorKind::Unavailable);
/// assert_eq!(run().unwrap_err().kind, ErrorKind::Refused);
/// assert_eq!(run().unwrap().stderr, "busy");
/// assert_eq!(run().unwrap().stdout, "done");
/// ```
#[derive(Debug, Clone)]
pub struct Reply(Result<Output, (ErrorKind, String)>);

impl Reply {
    /// Exit code 0 with this standard output.
    pub fn ok(stdout: impl Into<String>) -> Self {
        Self(Ok(Output::new(0, stdout, "")))
    }

    /// This exit code with this standard error.
    pub fn exit(exit_code: i32, stderr: impl Into<String>) -> Self {
        Self(Ok(Output::new(exit_code, "", stderr)))
    }

    /// The host is unreachable: [`ErrorKind::Unavailable`].
    pub fn unreachable() -> Self {
        Self(Err((ErrorKind::Unavailable, "no route to host".into())))
    }

    /// The host rejects the login: [`ErrorKind::Refused`].
    pub fn login_refused() -> Self {
        Self(Err((
            ErrorKind::Refused,
            "the host accepts neither the password nor the key".into(),
        )))
    }
}

#[derive(Debug, Default)]
pub(super) struct Script {
    commands: Vec<CommandRule>,
    urls: Vec<(String, String, HttpResponse)>,
}

#[derive(Debug)]
struct CommandRule {
    address: String,
    substring: String,
    replies: Vec<Reply>,
    calls: usize,
}

impl Script {
    pub(super) fn add_command(&mut self, address: &str, substring: &str, replies: Vec<Reply>) {
        let rule = CommandRule {
            address: address.into(),
            substring: substring.into(),
            replies,
            calls: 0,
        };
        self.commands.push(rule);
    }

    pub(super) fn add_url(&mut self, method: &str, url: &str, response: HttpResponse) {
        self.urls.push((method.into(), url.into(), response));
    }

    /// The reply of the newest rule that matches; `None` if none does.
    pub(super) fn command(
        &mut self,
        address: &str,
        line: &str,
    ) -> Option<Result<Value, ServiceError>> {
        let matches = |rule: &&mut CommandRule| {
            (rule.address == "*" || rule.address == address) && line.contains(&rule.substring)
        };
        let rule = self.commands.iter_mut().rev().find(matches)?;
        let last = rule.replies.len().checked_sub(1)?;
        let reply = rule.replies[rule.calls.min(last)].clone();
        rule.calls += 1;
        Some(match reply.0 {
            Ok(output) => Ok(json!(output)),
            Err((kind, detail)) => Err(ServiceError::new("ssh.run", kind, detail)),
        })
    }

    pub(super) fn url(&self, method: &str, url: &str) -> Result<Value, ServiceError> {
        let matches = |(m, prefix, _): &&(String, String, HttpResponse)| {
            m == method && url.starts_with(prefix.as_str())
        };
        match self.urls.iter().rev().find(matches) {
            Some((_, _, response)) => Ok(json!(response)),
            None => Err(ServiceError::new(
                "http",
                ErrorKind::Unavailable,
                format!("no rule matches `{method} {url}`"),
            )),
        }
    }
}
