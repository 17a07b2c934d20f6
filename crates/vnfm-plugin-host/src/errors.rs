//! Error codes of loading a plugin and running a hook. Each error fails one hook.

use vnfm_core::ports::ErrorKind::{Broken, Refused, Unavailable};
use vnfm_core::ports::{Code, ErrorKind, PortError};
use vnfm_plugin_messages::{Failure, ServiceError};

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
        "install it in the plugin folder and allow it, or map the VNFD's name to a plugin in `plugins.implementations`";
    LOCK "plugin.lock-unreadable" Refused,
        "the list of allowed plugins cannot be read",
        "correct `plugins.lock`, or delete it and allow the plugins again";
    NOT_ALLOWED "plugin.not-allowed" Refused,
        "the library is not directly in the plugin folder",
        "copy the library itself, not a link to it, into the plugin folder and allow it";
    UNSAFE_FOLDER "plugin.unsafe-permissions" Refused,
        "another user could change the library or its folder",
        "make root or the server's user the owner, and remove write permission for group and others";
    UNREADABLE "plugin.unreadable" Refused,
        "the library is missing or cannot be read",
        "install the file again";
    SCRIPT "plugin.script-not-allowed" Refused,
        "the hook is a script in the VNF package, and the package is not allowed to run scripts",
        "review the script, then run `vnfmctl plugin allow --package ID`, or set `plugins.scripts.allow` in the configuration";
    HASH "plugin.hash-mismatch" Refused,
        "the library differs from the one that was allowed",
        "find out who changed it; if the change was intended, allow it again";
    UNLOADABLE "plugin.unloadable" Refused,
        "the dynamic linker cannot load the library",
        "build it for this architecture, and install the libraries it depends on";
    NEWER_GLIBC "plugin.newer-glibc" Refused,
        "the library needs a newer glibc than this machine has",
        "build it on a system at least as old as the oldest one it must run on";
    NO_SYMBOL "plugin.missing-symbol" Refused,
        "the library is not a MgmtDriver plugin",
        "export the driver with `export_mgmt_driver!` or define `VNFM_MGMT_DRIVER`, and build a cdylib";
    MAGIC "plugin.wrong-magic" Refused,
        "the exported symbol is not a plugin table",
        "build it with the SDK or with `vnfm_plugin.h`";
    MAJOR "plugin.wrong-major" Refused,
        "the plugin uses another major version of the plugin ABI",
        "rebuild it with an SDK of the server's major version";
    SIZE "plugin.short-table" Refused,
        "the plugin table is too short for any version of the ABI",
        "rebuild it with the SDK or with `vnfm_plugin.h`";
    ABORTS "plugin.aborts-on-panic" Refused,
        "a panic in the plugin would abort the server",
        "build it with `panic = \"unwind\"`";
    DECLARATION "plugin.bad-declaration" Broken,
        "the plugin's declaration is malformed",
        "report it to the plugin's author";
    MISNAMED "plugin.misnamed" Refused,
        "the plugin's name or version differs from its entry in `plugins.lock`",
        "allow the library again";
    CONFIG "plugin.bad-config" Refused,
        "the configuration does not match the plugin's schema",
        "correct `plugins.config.<name>`; `vnfmctl plugin inspect` shows the schema";
    CREATE "plugin.create-failed" Refused,
        "the plugin refuses to start",
        "correct its configuration";
    CREATE_PANICKED "plugin.create-panicked" Broken,
        "the plugin panicked when it started",
        "report it to the plugin's author";
    UNDECLARED "plugin.undeclared-hook" Refused,
        "the plugin does not implement the hook",
        "use a version of the plugin that does";
    PANICKED "plugin.panicked" Broken,
        "the hook panicked",
        "report it to the plugin's author";
    DEADLINE "plugin.deadline" Unavailable,
        "the hook did not finish before its deadline and was stopped",
        "check the operation's log for what it was waiting for, then retry";
    STUCK "plugin.stuck" Unavailable,
        "the hook did not finish before its deadline and still blocks its thread, which is abandoned",
        "report it to the plugin's author; restart the server if many threads are abandoned, then retry";
    PROTOCOL "plugin.protocol" Broken,
        "the plugin violated the plugin ABI",
        "report it to the plugin's author";
    ANSWER "plugin.bad-answer" Broken,
        "the hook's result is malformed",
        "report it to the plugin's author";
    CRASHED "plugin.crashed" Broken,
        "the hook's process crashed or exited before the hook finished",
        "report it to the plugin's author with the last lines; roll back in the meantime";
    LIMIT "plugin.limit" Refused,
        "the hook's process exceeded a resource limit",
        "raise the limit in `plugins.process.limits` if the hook needs more, then retry; otherwise report it to the plugin's author";
    KILLED "plugin.killed" Unavailable,
        "the hook's process was killed from outside, for example by the kernel when memory ran out",
        "check the kernel log and the available memory, then retry";
    RUNNER "plugin.no-process" Refused,
        "no process can be started for plugin hooks",
        "correct `plugins.process` in the configuration, or run the plugin in the server's process (`plugins.runners`)";
    NOT_APART "plugin.not-apart" Refused,
        "this machine cannot isolate hooks from the server's data and process, so no hook runs",
        "allow what is missing, as `docs/how-to/harden.md` shows for systemd, containers and Kubernetes; `vnfm-server check-config` prints what this machine allows";
    RUNTIME "plugin.no-runtime" Broken,
        "the hook was called outside a tokio runtime, or no thread could be started",
        "call the engine on a tokio runtime with time enabled";
    FAILED "plugin.hook-failed" Refused,
        "the hook reported a failure",
        "read the message, fix the cause, then retry or roll back";
    UNAVAILABLE "plugin.hook-unavailable" Unavailable,
        "the hook reported a failure that a retry may resolve",
        "read the message for what it is waiting for, then retry";
}

/// The error's message with its causes, which are skipped if already part of it.
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

/// How much of a hook's error is shown: characters of its detail, number of last lines, characters of each line.
const MAX_DETAIL_LEN: usize = 2000;
const MAX_LAST_LINES: usize = 12;
const MAX_LINE_LEN: usize = 240;

/// `text` without control characters; if it is longer than `max_chars`, only its end.
fn readable(text: &str, max_chars: usize) -> String {
    let plain = |c: char| !c.is_control() || c == '\n';
    let from = text
        .char_indices()
        .rev()
        .filter(|(_, c)| plain(*c))
        .nth(max_chars)
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

/// Host, phase, exit code, detail and last lines of a hook's error in one text; absent members are left out.
pub(crate) fn failure_text(failure: &Failure) -> String {
    let mut text = String::new();
    if let Some(host) = &failure.host {
        text = format!("on `{host}`");
    }
    if let Some(phase) = &failure.phase {
        text = format!("{text} in phase `{phase}`");
    }
    if let Some(code) = failure.exit_code {
        text = format!("{text}, exit code {code}");
    }
    let text = text.trim_start_matches([',', ' ']);
    let detail = readable(&failure.detail, MAX_DETAIL_LEN);
    let detail = if text.is_empty() {
        detail
    } else {
        format!("{text}: {detail}")
    };
    if failure.last_lines.is_empty() {
        return detail;
    }
    let from = failure.last_lines.len().saturating_sub(MAX_LAST_LINES);
    let lines: Vec<_> = failure.last_lines[from..]
        .iter()
        .map(|line| readable(line, MAX_LINE_LEN))
        .collect();
    format!("{detail}; last lines:\n{}", lines.join("\n"))
}

/// The error of the hook that failed with `failure`.
pub(crate) fn failure_error(failure: Failure, action: String) -> PortError {
    let code = if failure.retryable {
        &UNAVAILABLE
    } else {
        &FAILED
    };
    let error = PortError::new(code, action, failure_text(&failure)).with_code_name(failure.code);
    match failure.host {
        Some(host) => error.on(host),
        None => error,
    }
}

/// An error of a host service, as plugins receive it.
pub(crate) fn service_error(error: &PortError) -> Vec<u8> {
    service_failure(error.kind(), &format!("{error}; hint: {}", error.next()))
}

/// A serialized error of a service.
pub(crate) fn service_failure(kind: ErrorKind, detail: &str) -> Vec<u8> {
    // A string and a kind always serialize.
    serde_json::to_vec(&ServiceError::new("", kind.into(), detail)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::failure_text;

    #[test]
    fn long_and_unprintable_errors_are_cut_to_their_end() {
        let flood = format!(
            "{}\u{1b}[31mthe last word\u{7}\u{0}",
            "\u{8}ü".repeat(500_000)
        );
        let failure = serde_json::json!({"code": "join-failed", "detail": flood, "host": "w1", "exitCode": 9,
            "lastLines": vec![flood.clone(); 40]});
        let text = failure_text(&serde_json::from_value(failure).unwrap());
        assert!(text.starts_with("on `w1`, exit code 9: … ü"), "{text}");
        assert_eq!(text.matches("the last word").count(), 13, "{text}");
        assert!(
            text.len() < 10_000 && !text.chars().any(|c| c.is_control() && c != '\n'),
            "{text}"
        );
        let short = serde_json::json!({"code": "c", "detail": "no space left\non /dev/sda"});
        let text = failure_text(&serde_json::from_value(short).unwrap());
        assert_eq!(text, "no space left\non /dev/sda");
    }
}
