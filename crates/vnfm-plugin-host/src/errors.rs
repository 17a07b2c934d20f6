//! The ways in which a plugin cannot be loaded or its hook fails, named. Each ends one hook.

use serde::Deserialize;
use vnfm_core::ports::ErrorKind::{Broken, Refused, Unavailable};
use vnfm_core::ports::{Code, ErrorKind, PortError};

macro_rules! errors {
    ($($constant:ident $name:literal $kind:ident, $means:literal, $next:literal;)+) => {
        $(pub(crate) const $constant: Code =
            Code { name: $name, kind: $kind, means: $means, next: $next };)+

        /// All error codes of this crate, for `docs/errors.md`.
        pub fn codes() -> Vec<&'static Code> {
            vec![$(&$constant),+]
        }
    };
}

errors! {
    NOT_FOUND "plugin.not-found" Refused,
        "no plugin of that name and version is installed",
        "install it into the plugin folder and allow it, or map the VNFD's spelling to a plugin in the configuration";
    LOCK "plugin.lock-unreadable" Refused,
        "the list of allowed plugins cannot be read",
        "make `plugins.lock` a JSON document as documented";
    NOT_ALLOWED "plugin.not-allowed" Refused,
        "the library does not lie directly in the plugin folder",
        "put the library itself, not a link to it, into the plugin folder and allow it";
    UNSAFE_FOLDER "plugin.unsafe-permissions" Refused,
        "somebody else could change the library or its folder",
        "let the server's user or root own them and take away write permission from group and others";
    UNREADABLE "plugin.unreadable" Refused,
        "the library is missing or cannot be read",
        "install the file again";
    SCRIPT "plugin.script-not-allowed" Refused,
        "the hook is a script of its package, and nobody allowed the package to run its scripts",
        "look at the script, then `vnfmctl plugin allow --package ID`; or set `plugins.scripts.allow` in the configuration";
    HASH "plugin.hash-mismatch" Refused,
        "the library is not the one that was allowed",
        "find out who changed it; allow it again if that was on purpose";
    UNLOADABLE "plugin.unloadable" Refused,
        "the dynamic linker refuses the library",
        "build it for this machine, with all that it needs";
    NEWER_GLIBC "plugin.newer-glibc" Refused,
        "the library needs a newer C library than this machine has",
        "build it on a system as old as the oldest that it is to run on";
    NO_SYMBOL "plugin.missing-symbol" Refused,
        "the library is no MgmtDriver plugin",
        "export the driver with `export_mgmt_driver!` or define `VNFM_MGMT_DRIVER`, and build a cdylib";
    MAGIC "plugin.wrong-magic" Refused,
        "what the library exports is no plugin table",
        "build it with the SDK or with `vnfm_plugin.h`";
    MAJOR "plugin.wrong-major" Refused,
        "the plugin speaks another major version of the plugin ABI",
        "build it again with an SDK of the server's major version";
    SIZE "plugin.short-table" Refused,
        "the plugin's table lacks members that every version has",
        "build it again with the SDK or with `vnfm_plugin.h`";
    ABORTS "plugin.aborts-on-panic" Refused,
        "a panic in the plugin would end the server",
        "build it with `panic = \"unwind\"`";
    DECLARATION "plugin.bad-declaration" Broken,
        "what the plugin says of itself has the wrong shape",
        "report it to whoever wrote the plugin";
    MISNAMED "plugin.misnamed" Refused,
        "the library calls itself otherwise than the list of allowed plugins does",
        "allow the library again";
    CONFIG "plugin.bad-config" Refused,
        "the configuration does not fit the plugin's schema",
        "correct `plugins.<name>.config`; inspecting the plugin shows the schema";
    CREATE "plugin.create-failed" Refused,
        "the plugin refuses to start",
        "correct its configuration";
    CREATE_PANICKED "plugin.create-panicked" Broken,
        "the plugin panicked when it started",
        "report it to whoever wrote the plugin";
    UNDECLARED "plugin.undeclared-hook" Refused,
        "the plugin does not implement the hook",
        "use a version of the plugin that does";
    PANICKED "plugin.panicked" Broken,
        "the hook panicked",
        "report it to whoever wrote the plugin";
    DEADLINE "plugin.deadline" Unavailable,
        "the hook did not end in time and was dropped",
        "see in the operation's log what it waited for, then retry";
    STUCK "plugin.stuck" Unavailable,
        "the hook did not end in time and does not let go of its thread, which is left behind",
        "report it to whoever wrote the plugin; restart the server when many threads are left behind, then retry";
    PROTOCOL "plugin.protocol" Broken,
        "the plugin broke the rules of the plugin ABI",
        "report it to whoever wrote the plugin";
    ANSWER "plugin.bad-answer" Broken,
        "the hook's answer has the wrong shape",
        "report it to whoever wrote the plugin";
    CRASHED "plugin.crashed" Broken,
        "the process of the hook crashed or ended in the middle of it",
        "report it to whoever wrote the plugin, with the last lines; roll back meanwhile";
    LIMIT "plugin.limit" Refused,
        "the process of the hook ran into one of its limits",
        "raise the limit in `plugins.process.limits` if the hook needs as much, then retry; else report it to whoever wrote the plugin";
    KILLED "plugin.killed" Unavailable,
        "the process of the hook was killed by somebody else, as the kernel does where memory is short",
        "look into the kernel's log, see that there is memory, then retry";
    RUNNER "plugin.no-process" Refused,
        "no process can be started for hooks of plugins",
        "correct `plugins.process` in the configuration, or let the plugin run in the server's own process (`plugins.runners`)";
    NOT_APART "plugin.not-apart" Refused,
        "hooks cannot be kept from the server's data and its process on this machine, so none is run",
        "allow what is missing, as `docs/how-to/harden.md` shows for systemd, containers and Kubernetes; `vnfm-server check-config` says what this machine allows";
    RUNTIME "plugin.no-runtime" Broken,
        "the hook was called where there is no runtime or no thread for it",
        "call the engine on a tokio runtime with time enabled";
    FAILED "plugin.hook-failed" Refused,
        "the hook says that it failed",
        "read what it says, mend the cause, then retry, or roll back";
    UNAVAILABLE "plugin.hook-unavailable" Unavailable,
        "the hook says that it failed and may work later",
        "read what it waits for, then retry";
}

/// `error.to_string()` and its causes.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text = format!("{text}: {cause_text}");
        }
        source = cause.source();
    }
    text
}

/// A hook's own error, as it crosses the boundary.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct HookFailure {
    code: String,
    detail: String,
    #[serde(default)]
    retryable: bool,
    host: Option<String>,
    phase: Option<String>,
    exit_code: Option<i32>,
    #[serde(default)]
    last_lines: Vec<String>,
}

/// The most characters of what a hook says in a sentence, how many of its last lines are shown, and the most of each.
const LONGEST: usize = 2000;
const LAST_LINES: usize = 12;
const LONGEST_LINE: usize = 240;

/// A text that a terminal and a person can bear: without control characters, and its end where it is a flood.
fn readable(text: &str, most: usize) -> String {
    let plain = |c: char| !c.is_control() || c == '\n';
    let from = text
        .char_indices()
        .rev()
        .filter(|(_, c)| plain(*c))
        .nth(most)
        .map(|(at, _)| at);
    let end: String = text[from.unwrap_or(0)..]
        .chars()
        .filter(|c| plain(*c))
        .collect();
    if from.is_some() {
        format!("… {end}")
    } else {
        end
    }
}

impl HookFailure {
    /// In one text: detail, host, phase, exit code, last lines, as far as they are there.
    pub(crate) fn text(&self) -> String {
        let mut text = String::new();
        if let Some(host) = &self.host {
            text = format!("on `{host}`");
        }
        if let Some(phase) = &self.phase {
            text = format!("{text} in phase `{phase}`");
        }
        if let Some(code) = self.exit_code {
            text = format!("{text}, exit code {code}");
        }
        let text = text.trim_start_matches([',', ' ']);
        let detail = readable(&self.detail, LONGEST);
        let detail = if text.is_empty() {
            detail
        } else {
            format!("{text}: {detail}")
        };
        if self.last_lines.is_empty() {
            return detail;
        }
        let from = self.last_lines.len().saturating_sub(LAST_LINES);
        let lines: Vec<_> = self.last_lines[from..]
            .iter()
            .map(|line| readable(line, LONGEST_LINE))
            .collect();
        format!("{detail}; last lines:\n{}", lines.join("\n"))
    }

    /// As an error of the port.
    pub(crate) fn into_error(self, doing: String) -> PortError {
        let code = if self.retryable {
            &UNAVAILABLE
        } else {
            &FAILED
        };
        let error = PortError::new(code, doing, self.text()).with_code_name(self.code);
        match self.host {
            Some(host) => error.on(host),
            None => error,
        }
    }
}

/// An error of a host service, as it crosses the boundary.
pub(crate) fn service_error(error: &PortError) -> serde_json::Value {
    service_failure(error.kind(), &format!("{error}; hint: {}", error.next()))
}

pub(crate) fn service_failure(kind: ErrorKind, detail: &str) -> serde_json::Value {
    serde_json::json!({ "kind": kind, "detail": detail })
}

#[cfg(test)]
mod tests {
    use super::HookFailure;

    #[test]
    fn a_flood_of_garbage_is_cut_to_its_last_words() {
        let flood = format!(
            "{}\u{1b}[31mthe last word\u{7}\u{0}",
            "\u{8}ü".repeat(500_000)
        );
        let failure = serde_json::json!({"code": "join-failed", "detail": flood, "host": "w1", "exitCode": 9,
            "lastLines": vec![flood.clone(); 40]});
        let text = serde_json::from_value::<HookFailure>(failure)
            .unwrap()
            .text();
        assert!(text.starts_with("on `w1`, exit code 9: … ü"), "{text}");
        assert_eq!(text.matches("the last word").count(), 13, "{text}");
        assert!(
            text.len() < 10_000 && !text.chars().any(|c| c.is_control() && c != '\n'),
            "{text}"
        );
        let short = serde_json::json!({"code": "c", "detail": "no space left\non /dev/sda"});
        let text = serde_json::from_value::<HookFailure>(short).unwrap().text();
        assert_eq!(text, "no space left\non /dev/sda");
    }
}
