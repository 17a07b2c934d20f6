//! Keeps secrets out of what is shown: in JSON by member, in text by value.
//!
//! A member is secret if its schema marks it `writeOnly`, or if its name is a well-known one.

use serde_json::Value;

/// The text that replaces a secret.
pub const HIDDEN: &str = "[hidden]";

const WELL_KNOWN: &[&str] = &[
    "password",
    "passwd",
    "secret",
    "token",
    "private_key",
    "privatekey",
    "client_key",
    "clientkey",
    "certificate_key",
    "certificatekey",
    "applicationcredentialsecret",
    "application_credential_secret",
];

/// True if a member of this name is secret without being declared so: `password`, `root_password`, `bearer_token`, …
pub fn is_secret_name(name: &str) -> bool {
    let ends_with = |known: &&str| {
        let end = name
            .len()
            .checked_sub(known.len())
            .and_then(|start| name.as_bytes().get(start..));
        end.is_some_and(|end| end.eq_ignore_ascii_case(known.as_bytes()))
    };
    name.eq_ignore_ascii_case("accessinfo") || WELL_KNOWN.iter().any(ends_with)
}

/// `value` with every secret replaced by [`HIDDEN`]; the secrets are added to `found`.
pub fn redact(value: &Value, schema: Option<&Value>, found: &mut Redactor) -> Value {
    let root = schema;
    walk(value, schema, root, found)
}

fn walk(
    value: &Value,
    schema: Option<&Value>,
    root: Option<&Value>,
    found: &mut Redactor,
) -> Value {
    let schema = schema.and_then(|s| resolve(s, root));
    match value {
        Value::Object(members) => Value::Object(
            members
                .iter()
                .map(|(name, member)| {
                    let member_schema = schema
                        .and_then(|s| s.get("properties"))
                        .and_then(|p| p.get(name));
                    let hidden = is_secret_name(name) || member_schema.is_some_and(is_write_only);
                    let redacted = if hidden && !member.is_null() {
                        found.add(member);
                        Value::String(HIDDEN.into())
                    } else {
                        walk(member, member_schema, root, found)
                    };
                    (name.clone(), redacted)
                })
                .collect(),
        ),
        Value::Array(items) => {
            let member_schema = schema.and_then(|s| s.get("items"));
            Value::Array(
                items
                    .iter()
                    .map(|item| walk(item, member_schema, root, found))
                    .collect(),
            )
        }
        other => other.clone(),
    }
}

fn resolve<'a>(schema: &'a Value, root: Option<&'a Value>) -> Option<&'a Value> {
    if let Some(path) = schema.get("$ref").and_then(Value::as_str) {
        return root.and_then(|r| r.pointer(path.strip_prefix('#')?));
    }
    let inner = ["anyOf", "oneOf", "allOf"]
        .iter()
        .find_map(|key| schema.get(*key)?.as_array());
    match inner {
        Some(choices) => choices
            .iter()
            .find_map(|choice| resolve(choice, root))
            .or(Some(schema)),
        None => Some(schema),
    }
}

fn is_write_only(schema: &Value) -> bool {
    schema
        .get("writeOnly")
        .and_then(Value::as_bool)
        .unwrap_or(false)
}

/// Replaces known secrets in text.
#[derive(Clone, Default)]
pub struct Redactor {
    secrets: Vec<String>,
}

impl std::fmt::Debug for Redactor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Redactor({})", self.secrets.len())
    }
}

const MIN_SECRET_LEN: usize = 4;

impl Redactor {
    /// Registers every string in `value` as a secret.
    pub fn add(&mut self, value: &Value) {
        match value {
            Value::String(text) => self.add_text(text),
            Value::Array(items) => items.iter().for_each(|item| self.add(item)),
            Value::Object(members) => members.values().for_each(|member| self.add(member)),
            _ => {}
        }
    }

    /// Registers every member of `value` with a secret name.
    pub fn add_well_known(&mut self, value: &Value) {
        match value {
            Value::Array(items) => items.iter().for_each(|item| self.add_well_known(item)),
            Value::Object(members) => members.iter().for_each(|(name, member)| {
                if is_secret_name(name) {
                    self.add(member);
                } else {
                    self.add_well_known(member);
                }
            }),
            _ => {}
        }
    }

    fn add_text(&mut self, text: &str) {
        for part in text.lines().filter(|line| line.len() >= MIN_SECRET_LEN) {
            if !self.secrets.iter().any(|known| known == part) {
                self.secrets.push(part.to_owned());
            }
        }
        self.secrets
            .sort_by_key(|secret| std::cmp::Reverse(secret.len()));
    }

    /// Registers the secrets of `other`, too.
    pub fn extend(&mut self, other: &Self) {
        other
            .secrets
            .iter()
            .for_each(|secret| self.add_text(secret));
    }

    /// `text` with every known secret replaced by [`HIDDEN`], and everything that looks like a token: a JWT,
    /// or a kubeadm bootstrap token.
    pub fn clean(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for secret in &self.secrets {
            hide(&mut text, secret);
        }
        let ends_word = |c: char| !c.is_ascii_alphanumeric() && !matches!(c, '.' | '_' | '-');
        let words = text.split(ends_word).map(|word| word.trim_matches('.'));
        let tokens: Vec<_> = words
            .filter(|word| is_token(word))
            .map(ToOwned::to_owned)
            .collect();
        for token in &tokens {
            hide(&mut text, token);
        }
        text
    }
}

fn hide(text: &mut String, secret: &str) {
    if text.contains(secret) {
        *text = text.replace(secret, HIDDEN);
    }
}

/// A JWT (`eyJ….….…`), or 6 and 16 letters and digits separated by a dot.
fn is_token(word: &str) -> bool {
    let mut parts = word.split('.');
    let plain = |part: &str| {
        part.bytes()
            .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit())
    };
    match (parts.next(), parts.next(), parts.next(), parts.next()) {
        (Some(id), Some(secret), None, None) => {
            id.len() == 6 && secret.len() == 16 && plain(id) && plain(secret)
        }
        (Some(header), Some(payload), Some(_), None) => {
            header.starts_with("eyJ") && payload.starts_with("eyJ")
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::{Redactor, redact};
    use serde_json::json;

    #[test]
    fn secrets_are_hidden_by_name_and_by_schema_at_any_depth() {
        let schema = json!({"properties": {"a": {"$ref": "#/$defs/A"}},
            "$defs": {"A": {"properties": {"pin": {"writeOnly": true}}}}});
        let value =
            json!({"a": {"pin": "12345", "name": "n"}, "list": [{"ssh_password": "hunter2"}]});
        let mut found = Redactor::default();
        let redacted = redact(&value, Some(&schema), &mut found);
        assert_eq!(
            redacted,
            json!({"a": {"pin": "[hidden]", "name": "n"}, "list": [{"ssh_password": "[hidden]"}]})
        );
        assert_eq!(
            found.clean("pw hunter2, pin 12345"),
            "pw [hidden], pin [hidden]"
        );
    }

    #[test]
    fn tokens_are_hidden_without_being_registered() {
        let text =
            "kubeadm join --token abcdef.0123456789abcdef; Bearer eyJhbGci.eyJpc3M.c2ln, v1.36.2";
        let redacted = "kubeadm join --token [hidden]; Bearer [hidden], v1.36.2";
        assert_eq!(Redactor::default().clean(text), redacted);
        let text = "--token=abcdef.0123456789abcdef, or token abcdef.0123456789abcdef. --jwt=eyJhbGci.eyJpc3M.c2ln.";
        let redacted = "--token=[hidden], or token [hidden]. --jwt=[hidden].";
        assert_eq!(Redactor::default().clean(text), redacted);
    }

    #[test]
    fn secrets_are_found_by_name_at_any_depth() {
        let mut found = Redactor::default();
        found.add_well_known(&json!({"list": [{"SSH_Password": "hunter2"}], "accessInfo": {"user": "root"}, "key": "plain"}));
        assert_eq!(found.clean("hunter2 root plain"), "[hidden] [hidden] plain");
    }

    #[test]
    fn a_multi_line_key_is_hidden_line_by_line() {
        let mut found = Redactor::default();
        found.add(&json!("-----BEGIN KEY-----\nAAAABBBB\n-----END KEY-----"));
        assert_eq!(found.clean("x AAAABBBB y"), "x [hidden] y");
    }
}
