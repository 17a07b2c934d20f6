//! The trace of `plugin run` on standard error, without secrets.

use crate::output::tell;
use serde_json::{Value, json};
use vnfm::{HIDDEN, Redactor, redact};

/// Members that hold credentials under names that the redaction of parameters does not know.
const CREDENTIALS: &[&str] = &[
    "authorization",
    "proxy-authorization",
    "cookie",
    "set-cookie",
];

/// Prints what the hook and its host do.
pub(super) struct Trace {
    secrets: Redactor,
    /// With `--verbose`: prints every message as JSON.
    is_verbose: bool,
}

impl Trace {
    /// A trace that hides `secrets`, besides what looks like one.
    pub(super) fn new(secrets: Redactor, is_verbose: bool) -> Self {
        Self {
            secrets,
            is_verbose,
        }
    }

    /// Prints a line, without secrets.
    pub(super) fn tell(&self, line: &str) {
        tell(&self.clean(line));
    }

    /// `text` without secrets.
    pub(super) fn clean(&self, text: &str) -> String {
        self.secrets.clean(text)
    }

    /// Prints a message as JSON on one line, if `--verbose` is given.
    pub(super) fn message(&self, label: &str, message: &Value) {
        if self.is_verbose {
            let shown = self.shown(&redact(message, None, &mut Redactor::default()));
            tell(&format!("{label} {shown}"));
        }
    }

    /// The message with secrets hidden and the content of files replaced by its length.
    fn shown(&self, message: &Value) -> Value {
        match message {
            // Not the serialized message: a secret with a quote reads differently there.
            Value::String(text) => self.clean(text).into(),
            Value::Array(items) => items.iter().map(|item| self.shown(item)).collect(),
            Value::Object(members) => members
                .iter()
                .map(|(name, member)| (name.clone(), self.member(name, member)))
                .collect(),
            plain => plain.clone(),
        }
    }

    fn member(&self, name: &str, member: &Value) -> Value {
        match member {
            Value::String(content) if name.ends_with("Base64") => {
                format!("({} characters)", content.len()).into()
            }
            Value::String(_)
                if CREDENTIALS
                    .iter()
                    .any(|known| known.eq_ignore_ascii_case(name)) =>
            {
                HIDDEN.into()
            }
            other => self.shown(other),
        }
    }
}

/// A call or its answer as it may be shown: what a hook remembers in a checkpoint may be a secret.
pub(super) fn without_checkpoint(service: &str, message: &Value) -> Value {
    let mut message = message.clone();
    if service.starts_with("checkpoint.") && message["value"] != Value::Null {
        message["value"] = json!(HIDDEN);
    }
    message
}

#[cfg(test)]
mod tests {
    use super::{Trace, without_checkpoint};
    use serde_json::json;
    use vnfm::Redactor;

    #[test]
    fn secrets_are_hidden_wherever_they_are() {
        let mut secrets = Redactor::default();
        secrets.add(&json!("pa\"ss"));
        let trace = Trace::new(secrets, true);
        let message = json!({
            "command": "login pa\"ss", "password": "x", "headers": {"Authorization": "Basic eA=="},
            "contentBase64": "c2VjcmV0", "lines": ["pa\"ss", 7],
        });
        let redacted = vnfm::redact(&message, None, &mut Redactor::default());
        assert_eq!(
            trace.shown(&redacted),
            json!({
                "command": "login [hidden]", "password": "[hidden]", "headers": {"Authorization": "[hidden]"},
                "contentBase64": "(8 characters)", "lines": ["[hidden]", 7],
            })
        );
        let checkpoint = json!({"key": "token", "value": {"a": 1}});
        assert_eq!(
            without_checkpoint("checkpoint.put", &checkpoint),
            json!({"key": "token", "value": "[hidden]"})
        );
        assert_eq!(
            without_checkpoint("checkpoint.get", &json!({"value": null}))["value"],
            json!(null)
        );
    }
}
