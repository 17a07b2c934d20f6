//! Settings that change while the server runs: the log filter, limits and `on_failure`. Other changes need
//! a restart; they are reported.

use super::{schema, source};
use serde_json::Value;

/// Names of the members that differ.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Differences {
    /// Members whose new value applies at once.
    pub now: Vec<String>,
    /// Applied at the next start.
    pub at_restart: Vec<String>,
}

/// Limits that apply only when the listener starts.
const LISTENER_LIMITS: &[&str] = &[
    "limits.connections",
    "limits.connections_per_address",
    "limits.header_seconds",
    "limits.body_seconds",
    "limits.body_bytes",
    "limits.idle_seconds",
    "limits.http2_streams",
    "limits.wrong_logins_per_second",
    "limits.wrong_logins_burst",
];

/// Whether changes of a member apply at once.
fn is_live(name: &str) -> bool {
    name == "log.level"
        || name.starts_with("on_failure.")
        || (name.starts_with("limits.") && !LISTENER_LIMITS.contains(&name))
}

/// Compares two configurations, each as one value.
pub(super) fn differences(old: &Value, new: &Value) -> Differences {
    let mut found = Differences::default();
    for member in schema::members() {
        if old.pointer(&member.pointer) == new.pointer(&member.pointer) {
            continue;
        }
        let list = if is_live(&member.name) {
            &mut found.now
        } else {
            &mut found.at_restart
        };
        list.push(member.name);
    }
    found
}

/// Copies the members that apply at once from `new` into `current`.
pub(super) fn apply_live(current: &mut Value, new: &Value) {
    for member in schema::members()
        .into_iter()
        .filter(|member| is_live(&member.name))
    {
        match new.pointer(&member.pointer) {
            Some(value) => source::put(current, &member.name, value.clone()),
            None => source::remove(current, &member.name),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{apply_live, differences};
    use crate::config::{Config, Flags};
    use clap::Parser as _;

    fn config(text: &str) -> Config {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        let path = file.path().to_str().unwrap();
        Config::load(Flags::parse_from([
            "vnfm-server",
            "--data",
            "d",
            "--config",
            path,
        ]))
        .unwrap()
    }

    #[test]
    fn limits_and_the_log_filter_change_at_once() {
        let mut old = config("limits: {vim_calls: 3, step_seconds: 9}");
        let text =
            "limits: {vim_calls: 4}\nlog: {level: debug, json: true}\nretention: {log_days: 3}";
        let new = config(text);
        let found = differences(&old.source, &new.source);
        assert_eq!(
            found.now,
            ["log.level", "limits.step_seconds", "limits.vim_calls"]
        );
        assert_eq!(found.at_restart, ["log.json", "retention.log_days"]);
        apply_live(&mut old.source, &new.source);
        let remaining = differences(&old.source, &new.source);
        assert_eq!(
            (remaining.now.len(), remaining.at_restart),
            (0, found.at_restart)
        );
    }
}
