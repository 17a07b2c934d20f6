//! The JSON Schema of the configuration, generated from its types, and the list of its members.
//!
//! Custom string formats: `socket-address`, `network`, `destination`, `log-filter` and `http-url` are checked by
//! [`validator`]; `file` must exist and be readable.

use super::file::ConfigFile;
use jsonschema::Validator;
use serde_json::{Map, Value};
use std::net::SocketAddr;
use tracing_subscriber::EnvFilter;
use vnfm_descriptor::{escaped, nearest};
use vnfm_nfvo::Networks;

/// A member of the configuration that holds a single value, or a table or list that is set as one.
#[derive(Debug, Clone)]
pub struct Member {
    /// Dotted name, such as `limits.step_seconds`.
    pub name: String,
    /// The name as a JSON pointer.
    pub pointer: String,
    /// The environment variable that overrides the member.
    pub variable: String,
    /// The JSON Schema of its value.
    pub schema: Value,
}

impl Member {
    /// The type of its value, for readers of the documentation.
    pub fn kind(&self) -> &str {
        let format = self.schema["format"].as_str().unwrap_or_default();
        match (format, self.schema["type"].as_str()) {
            ("file", _) => "file",
            ("socket-address", _) => "address:port",
            (_, Some("array")) => "list",
            (_, Some("object")) => "table",
            (_, Some("integer")) => "number",
            (_, Some("boolean")) => "true or false",
            _ => "text",
        }
    }

    /// Its description in the schema.
    pub fn description(&self) -> &str {
        self.schema["description"].as_str().unwrap_or_default()
    }
}

/// The schema of the configuration file.
pub fn schema() -> Value {
    let mut schema = schemars::schema_for!(ConfigFile).to_value();
    drop_null_alternatives(&mut schema);
    schema
}

/// All members, in the order of the schema.
pub fn members() -> Vec<Member> {
    let schema = schema();
    let mut found = Vec::new();
    collect(&schema, &schema, &mut Vec::new(), &mut found);
    found
}

fn collect(all: &Value, at: &Value, path: &mut Vec<String>, found: &mut Vec<Member>) {
    let followed = resolve(all, at);
    if let Some(properties) = followed["properties"].as_object() {
        for (name, schema) in properties {
            path.push(name.clone());
            collect(all, schema, path, found);
            path.pop();
        }
        return;
    }
    let mut schema = followed.clone();
    if let Some(description) = at.get("description") {
        schema["description"] = description.clone(); // the member's own description wins over its type's
    }
    let pointer = path
        .iter()
        .fold(String::new(), |above, part| above + "/" + &escaped(part));
    let variable = format!("VNFM_{}", path.join("_").to_uppercase());
    found.push(Member {
        name: path.join("."),
        pointer,
        variable,
        schema,
    });
}

/// Follows a `$ref`, if there is one.
fn resolve<'a>(all: &'a Value, at: &'a Value) -> &'a Value {
    let target = at["$ref"]
        .as_str()
        .and_then(|target| all.pointer(target.trim_start_matches('#')));
    target.unwrap_or(at)
}

/// The schema of the member at a JSON pointer; null if there is none.
pub(super) fn at<'a>(all: &'a Value, pointer: &str) -> &'a Value {
    pointer.split('/').skip(1).fold(all, |at, part| {
        let property = &at["properties"][part];
        let entry = if at["type"] == "array" {
            &at["items"]
        } else {
            &at["additionalProperties"]
        };
        resolve(all, if property.is_null() { entry } else { property })
    })
}

/// Compiles the schema that validates a configuration.
///
/// # Errors
///
/// If the schema itself is invalid: a bug.
pub(super) fn validator() -> anyhow::Result<Validator> {
    let options = jsonschema::options()
        .with_format("file", |path: &str| std::fs::File::open(path).is_ok())
        .with_format("socket-address", |text: &str| {
            text.parse::<SocketAddr>().is_ok()
        })
        .with_format("network", |text: &str| {
            Networks::listed(&[text.to_owned()]).is_ok()
        })
        .with_format("destination", |text: &str| {
            Networks::parse(&[text.to_owned()]).is_ok()
        })
        .with_format("log-filter", is_log_filter)
        .with_format("http-url", |text: &str| is_http(text))
        .should_validate_formats(true);
    options
        .build(&schema())
        .map_err(|error| anyhow::anyhow!("invalid schema: {error}"))
}

/// The message for a string that does not match its format.
pub(super) fn expected(format: &str, found: &str) -> String {
    match format {
        "file" => {
            let error = std::fs::File::open(found).err();
            let reason = error.map_or_else(
                || "it is readable by now".to_owned(),
                |error| error.to_string(),
            );
            format!("cannot read `{found}`: {reason}")
        }
        "destination" => {
            format!("expected a network such as `10.0.0.0/8`, or `default`, found `{found}`")
        }
        "socket-address" => {
            format!("expected an address and a port such as `127.0.0.1:9890`, found `{found}`")
        }
        "network" => format!("expected a network such as `10.0.0.0/8`, found `{found}`"),
        "log-filter" => {
            format!("expected a log filter such as `info` or `vnfm_core=debug`, found `{found}`")
        }
        "http-url" => {
            format!(
                "expected a URL such as `https://vnfm.example.com` without credentials, found `{}`",
                without_userinfo(found)
            )
        }
        other => format!("expected {other}, found `{found}`"),
    }
}

/// The URL without its userinfo, which may contain a password.
fn without_userinfo(url: &str) -> &str {
    url.rsplit('@').next().unwrap_or(url)
}

/// The levels of a log filter.
const LEVELS: &[&str] = &["trace", "debug", "info", "warn", "error", "off"];

/// Whether a log filter is valid, and none of its targets is a misspelt level: `inf` would log nothing but a target `inf`.
fn is_log_filter(text: &str) -> bool {
    let is_misspelt = |directive: &str| {
        let word = directive.trim().to_ascii_lowercase();
        !LEVELS.contains(&word.as_str()) && nearest(&word, LEVELS.iter().copied()).is_some()
    };
    EnvFilter::try_new(text).is_ok() && !text.split(',').any(is_misspelt)
}

fn is_http(text: &str) -> bool {
    let Ok(uri) = text.parse::<axum::http::Uri>() else {
        return false;
    };
    let no_userinfo = uri
        .authority()
        .is_some_and(|authority| !authority.as_str().contains('@'));
    no_userinfo && matches!(uri.scheme_str(), Some("http" | "https"))
}

/// Removes null as an alternative everywhere: an optional member may be absent, but not null.
fn drop_null_alternatives(schema: &mut Value) {
    match schema {
        Value::Array(items) => items.iter_mut().for_each(drop_null_alternatives),
        Value::Object(members) => {
            drop_null(members);
            members.values_mut().for_each(drop_null_alternatives);
        }
        _ => {}
    }
}

fn drop_null(members: &mut Map<String, Value>) {
    if members.get("default").is_some_and(Value::is_null) {
        members.remove("default");
    }
    if let Some(Value::Array(types)) = members.get_mut("type") {
        types.retain(|one| one != "null");
        if let [one] = types.as_slice() {
            let one = one.clone();
            members.insert("type".to_owned(), one);
        }
    }
    let Some(Value::Array(choices)) = members.get_mut("anyOf") else {
        return;
    };
    choices.retain(|one| one["type"] != "null");
    if let [Value::Object(one)] = choices.as_slice() {
        let one = one.clone();
        members.remove("anyOf");
        members.extend(one);
    }
}
