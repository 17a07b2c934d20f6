//! The host services for hooks, by name, with the formats of their requests: the only place that defines
//! them. They are implemented elsewhere.

use super::{
    Code, Content, ErrorKind, HookFile, HttpRequest, PortError, RemoteFile, SshCommand, SshTarget,
};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use vnfm_descriptor::Package;
use vnfm_plugin_messages::{CredentialRequest, FileTransfer};

/// A parsed call of a hook.
#[derive(Clone, PartialEq)]
#[non_exhaustive]
pub enum HookCall {
    /// `ssh.run`: runs a command; returns a `CommandOutput`.
    Run(SshTarget, SshCommand),
    /// `ssh.put`: writes a file atomically.
    Put(SshTarget, HookFile),
    /// `ssh.wait`: waits until a login succeeds, for at most this many seconds.
    Wait(SshTarget, u32),
    /// `http`: sends a request, and returns an `HttpResponse`.
    Http(HttpRequest),
    /// `artifact.list`: returns `{"paths": […], "sizes": {path: bytes}}`.
    Artifacts,
    /// `artifact.read` of a path: returns `{"contentBase64": "…"}`.
    Artifact(String),
    /// `progress`: percent and a sentence.
    Progress(u8, String),
    /// `waiting`: the reason, for people who watch the operation.
    Waiting(String),
    /// `checkpoint.get` of a key: returns `{"value": …}`.
    Recall(String),
    /// `checkpoint.put`: a key and its value, which may be a secret.
    Remember(String, Value),
    /// `irreversible` with a reason, in a hook that is not an undo: rules out a rollback of the operation, and returns
    /// once that is stored. A hook calls it before it begins what cannot be undone.
    Irreversible(String),
    /// `sleep`: seconds, 0 to 3600.
    Sleep(f64),
    /// `vim.credential`: creates a login to the VIM for programs inside the VNF, or returns the one of that name.
    Credential(CredentialRequest),
    /// `vim.outputs`: the outputs of the instance's template, by name.
    Outputs,
    /// `file.list`: the files that are stored with the instance; returns `{"files": [StoredFile, …]}`.
    Files,
    /// `file.fetch`: copies a file from a host, and stores it with the instance; returns a `StoredFile`.
    Fetch(SshTarget, FileTransfer),
    /// `file.send`: copies a stored file to a host, with mode 0600.
    Send(SshTarget, FileTransfer),
    /// `file.remove` of a name: removes a stored file.
    RemoveFile(String),
    /// `clock`: the VNFM's time; returns `{"unixMilliseconds": …}`.
    Clock,
    /// `cancelled`: whether the operation is being cancelled; returns `{"cancelled": true|false}`.
    Cancelled,
}

impl std::fmt::Debug for HookCall {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Files and checkpoints may be secrets.
        write!(f, "HookCall({})", self.service())
    }
}

/// Resolves the content of the file of an `ssh.put`; `artifact` reads a file of the package.
///
/// # Errors
///
/// `Refused` if it has no content, two contents, or invalid base64; errors of `artifact`.
pub fn remote_file(
    file: HookFile,
    artifact: impl FnOnce(&str) -> Result<Content, PortError>,
) -> Result<RemoteFile, PortError> {
    let wrong = |what: String| wrong_call("ssh.put", what);
    let content = match (file.content_base64, file.artifact) {
        (Some(text), None) => BASE64
            .decode(text)
            .map_err(|error| wrong(error.to_string()))?
            .into(),
        (None, Some(path)) => artifact(&path)?,
        _ => return Err(wrong("needs one of contentBase64 and artifact".to_owned())),
    };
    Ok(RemoteFile {
        path: file.path,
        mode: file.mode,
        sudo: file.sudo,
        content,
    })
}

/// The longest pause in one call, in seconds.
const MAX_PAUSE: f64 = 3600.0;

impl HookCall {
    /// Parses a call of `service`.
    ///
    /// # Errors
    ///
    /// `Refused` if the service does not exist, or the request is malformed.
    pub fn parse(service: &str, request: Value) -> Result<Self, PortError> {
        Ok(match service {
            "ssh.run" => shaped::<Run>(service, request).map(|r| Self::Run(r.host, r.command))?,
            "ssh.put" => shaped::<Put>(service, request).map(|r| Self::Put(r.host, r.file))?,
            "ssh.wait" => {
                shaped::<Wait>(service, request).map(|r| Self::Wait(r.host, r.deadline_seconds))?
            }
            "http" => Self::Http(shaped(service, request)?),
            "artifact.list" => Self::Artifacts,
            "artifact.read" => Self::Artifact(shaped::<Path>(service, request)?.path),
            "progress" => {
                shaped::<Percent>(service, request).map(|r| Self::Progress(r.percent, r.message))?
            }
            "waiting" => Self::Waiting(shaped::<Reason>(service, request)?.what),
            "checkpoint.get" => Self::Recall(shaped::<Key>(service, request)?.key),
            "checkpoint.put" => {
                shaped::<Key>(service, request).map(|r| Self::Remember(r.key, r.value))?
            }
            "irreversible" => Self::Irreversible(shaped::<Because>(service, request)?.reason),
            "sleep" => Self::Sleep(
                shaped::<Pause>(service, request)?
                    .seconds
                    .clamp(0.0, MAX_PAUSE),
            ),
            "vim.credential" => Self::Credential(shaped(service, request)?),
            "vim.outputs" => Self::Outputs,
            "file.list" => Self::Files,
            "file.fetch" => {
                shaped::<Transfer>(service, request).map(|r| Self::Fetch(r.host, r.file))?
            }
            "file.send" => {
                shaped::<Transfer>(service, request).map(|r| Self::Send(r.host, r.file))?
            }
            "file.remove" => Self::RemoveFile(shaped::<Named>(service, request)?.name),
            "clock" => Self::Clock,
            "cancelled" => Self::Cancelled,
            other => {
                let what = format!("unknown host service `{other}`");
                return Err(PortError::new(&SERVICE, "serve a hook", what));
            }
        })
    }

    /// Name of the called service.
    pub fn service(&self) -> &'static str {
        match self {
            Self::Run(..) => "ssh.run",
            Self::Put(..) => "ssh.put",
            Self::Wait(..) => "ssh.wait",
            Self::Http(_) => "http",
            Self::Artifacts => "artifact.list",
            Self::Artifact(_) => "artifact.read",
            Self::Progress(..) => "progress",
            Self::Waiting(_) => "waiting",
            Self::Recall(_) => "checkpoint.get",
            Self::Remember(..) => "checkpoint.put",
            Self::Irreversible(_) => "irreversible",
            Self::Sleep(_) => "sleep",
            Self::Credential(_) => "vim.credential",
            Self::Outputs => "vim.outputs",
            Self::Files => "file.list",
            Self::Fetch(..) => "file.fetch",
            Self::Send(..) => "file.send",
            Self::RemoveFile(_) => "file.remove",
            Self::Clock => "clock",
            Self::Cancelled => "cancelled",
        }
    }

    /// The host that it addresses, if any.
    pub fn target(&self) -> Option<&SshTarget> {
        match self {
            Self::Run(target, _)
            | Self::Put(target, _)
            | Self::Wait(target, _)
            | Self::Fetch(target, _)
            | Self::Send(target, _) => Some(target),
            _ => None,
        }
    }
}

/// Lists the files of a package: the response to [`HookCall::Artifacts`].
pub fn files_of(package: &Package) -> Value {
    let paths: Vec<_> = package.paths().collect();
    let size = |path: &&str| Some(((*path).to_owned(), Value::from(package.size(path).ok()?)));
    let sizes: serde_json::Map<_, _> = paths.iter().filter_map(size).collect();
    json!({"paths": paths, "sizes": sizes})
}

#[derive(Deserialize)]
struct Run {
    host: SshTarget,
    #[serde(flatten)]
    command: SshCommand,
}

#[derive(Deserialize)]
struct Put {
    host: SshTarget,
    #[serde(flatten)]
    file: HookFile,
}

#[derive(Deserialize)]
struct Transfer {
    host: SshTarget,
    #[serde(flatten)]
    file: FileTransfer,
}

#[derive(Deserialize)]
struct Named {
    name: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Wait {
    host: SshTarget,
    deadline_seconds: u32,
}

#[derive(Deserialize)]
struct Path {
    path: String,
}

#[derive(Deserialize)]
struct Percent {
    percent: u8,
    message: String,
}

#[derive(Deserialize)]
struct Reason {
    #[serde(rename = "for")]
    what: String,
}

#[derive(Deserialize)]
struct Key {
    key: String,
    #[serde(default)]
    value: Value,
}

#[derive(Deserialize)]
struct Because {
    reason: String,
}

#[derive(Deserialize)]
struct Pause {
    seconds: f64,
}

fn shaped<T: DeserializeOwned>(service: &str, request: Value) -> Result<T, PortError> {
    serde_json::from_value(request).map_err(|error| wrong_call(service, error.to_string()))
}

/// The error for a malformed call of `service`.
pub fn wrong_call(service: &str, what: impl Into<String>) -> PortError {
    PortError::new(&SERVICE, format!("serve `{service}` to a hook"), what)
}

pub(crate) const SERVICE: Code = Code {
    name: "hook.service",
    kind: ErrorKind::Refused,
    means: "a hook called an unknown host service, or called one with a malformed request",
    next: "report it to the author of the plugin",
};

#[cfg(test)]
mod tests {
    use super::HookCall;
    use crate::ports::{HookFile, HttpRequest, SshCommand, SshTarget};
    use serde_json::json;
    use std::time::Duration;

    #[test]
    fn a_call_is_parsed_or_refused_by_name() {
        let host = json!({"serverId": "s", "address": "10.0.0.1", "username": "u"});
        let run = json!({"host": host, "command": "true", "deadlineSeconds": 5});
        let HookCall::Run(target, command) = HookCall::parse("ssh.run", run).unwrap() else {
            panic!("not a command")
        };
        assert_eq!((target.port, command.deadline_seconds), (22, 5));
        let put = HookCall::parse(
            "ssh.put",
            json!({"host": host, "path": "/a", "artifact": "b"}),
        );
        let HookCall::Put(_, file) = put.unwrap() else {
            panic!("not a file")
        };
        assert_eq!(
            (file.mode.as_str(), file.artifact.as_deref()),
            ("0600", Some("b"))
        );
        let sleep = HookCall::parse("sleep", json!({"seconds": 1e9})).unwrap();
        assert_eq!(sleep, HookCall::Sleep(3600.0));
        let ruled_out = HookCall::parse("irreversible", json!({"reason": "r"})).unwrap();
        assert_eq!(ruled_out, HookCall::Irreversible("r".into()));
        assert_eq!(ruled_out.service(), "irreversible");
        for (service, request, word) in [
            ("ssh.walk", json!({}), "unknown host service `ssh.walk`"),
            ("irreversible", json!({}), "reason"),
            ("sleep", json!({}), "seconds"),
        ] {
            let error = HookCall::parse(service, request).unwrap_err();
            assert_eq!(error.name(), "hook.service");
            assert!(error.to_string().contains(word), "{error}");
        }
    }

    /// Released plugins send these texts.
    #[test]
    fn the_json_of_calls_stays_that_of_the_released_versions() {
        let jump = SshTarget::new("j", "192.0.2.1", "u").private_key("PEM");
        let target = SshTarget::new("s", "10.0.0.1", "u")
            .password("p")
            .jump(jump);
        let mut file = HookFile::new("/a");
        file.artifact = Some("b".into());
        let request = HttpRequest::new("PUT", "https://h/").header("a", "b");
        let half = Duration::from_millis(1500);
        let request = request.body("c").ca("PEM").timeout(half);
        for (sent, text) in [
            (
                serde_json::to_string(&target),
                r#"{"serverId":"s","address":"10.0.0.1","port":22,"username":"u","password":"p","jump":{"serverId":"j","address":"192.0.2.1","port":22,"username":"u","privateKey":"PEM"}}"#,
            ),
            (
                serde_json::to_string(&SshCommand::new("id")),
                r#"{"command":"id","sudo":false,"deadlineSeconds":300}"#,
            ),
            (
                serde_json::to_string(&SshCommand::new("id").stdin("x").sudo().timeout(half)),
                r#"{"command":"id","stdin":"x","sudo":true,"deadlineSeconds":2}"#,
            ),
            (
                serde_json::to_string(&file),
                r#"{"path":"/a","mode":"0600","sudo":false,"artifact":"b"}"#,
            ),
            (
                serde_json::to_string(&request),
                r#"{"method":"PUT","url":"https://h/","headers":{"a":"b"},"body":"c","caPem":"PEM","deadlineSeconds":2}"#,
            ),
        ] {
            assert_eq!(sent.unwrap(), text);
        }
        let least = json!({"method": "GET", "url": "u", "body": null, "deadlineSeconds": null});
        let HookCall::Http(request) = HookCall::parse("http", least).unwrap() else {
            panic!("not a request")
        };
        assert_eq!(request.deadline(), Duration::from_mins(1));
    }
}
