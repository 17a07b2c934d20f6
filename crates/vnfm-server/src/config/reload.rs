//! What a changed configuration changes while the server runs: what is logged, and limits. The rest waits for a
//! restart, and is named.

use super::{Config, schema};
use serde_json::Value;

/// Members that differ, by name.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Differences {
    /// Those that change at once.
    pub now: Vec<String>,
    /// Those that wait for a restart.
    pub at_restart: Vec<String>,
}

/// What the listener is made with.
const OF_THE_LISTENER: &[&str] = &[
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

/// Whether a member changes at once.
fn is_live(name: &str) -> bool {
    name == "log.level" || (name.starts_with("limits.") && !OF_THE_LISTENER.contains(&name))
}

/// What of `new` differs from `old`.
pub fn differences(old: &Config, new: &Config) -> Differences {
    let mut found = Differences::default();
    for member in schema::members() {
        if old.said.pointer(&member.pointer) == new.said.pointer(&member.pointer) {
            continue;
        }
        let which = if is_live(&member.name) {
            &mut found.now
        } else {
            &mut found.at_restart
        };
        which.push(member.name);
    }
    found
}

/// From now on `said` has of what changes at once what `new` says.
pub(super) fn note(said: &mut Value, new: &Value) {
    for member in schema::members()
        .into_iter()
        .filter(|member| is_live(&member.name))
    {
        match new.pointer(&member.pointer) {
            Some(value) => super::source::put(said, &member.name, value.clone()),
            None => super::source::forget(said, &member.name),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{differences, note};
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
    fn limits_and_what_is_logged_change_at_once() {
        let mut old = config("limits: {vim_calls: 3, step_seconds: 9}");
        let text =
            "limits: {vim_calls: 4}\nlog: {level: debug, json: true}\nretention: {log_days: 3}";
        let new = config(text);
        let found = differences(&old, &new);
        assert_eq!(
            found.now,
            ["log.level", "limits.step_seconds", "limits.vim_calls"]
        );
        assert_eq!(found.at_restart, ["log.json", "retention.log_days"]);
        note(&mut old.said, &new.said);
        let left = differences(&old, &new);
        assert_eq!((left.now.len(), left.at_restart), (0, found.at_restart));
    }
}
