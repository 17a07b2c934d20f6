//! The JSON Schema of the configuration, made from its types, and the members that it has.
//!
//! Three formats of our own say what a text has to be: `socket-address`, `networks` and the like are checked by
//! [`validator`]; `file` is a file that has to be there and readable.

use super::Written;
use jsonschema::Validator;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde_json::{Map, Value};
use std::borrow::Cow;
use std::net::SocketAddr;
use tracing_subscriber::EnvFilter;
use vnfm_descriptor::escaped;
use vnfm_nfvo::Networks;

/// A network in the schema.
pub(super) struct Network;

impl JsonSchema for Network {
    fn inline_schema() -> bool {
        true
    }
    fn schema_name() -> Cow<'static, str> {
        "Network".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "string", "format": "network"})
    }
}

/// A network that may be called, or the word `default`.
pub(super) struct Destination;

impl JsonSchema for Destination {
    fn inline_schema() -> bool {
        true
    }
    fn schema_name() -> Cow<'static, str> {
        "Destination".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "string", "format": "destination"})
    }
}

/// A member of the configuration that holds a value, or a table or list that is given as a whole.
#[derive(Debug, Clone)]
pub struct Member {
    /// Its place, such as `limits.step_seconds`.
    pub name: String,
    /// The same as a JSON pointer.
    pub pointer: String,
    /// The environment variable that overrides it.
    pub variable: String,
    /// What it may be.
    pub schema: Value,
}

impl Member {
    /// Its type, for people.
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

    /// What it is for.
    pub fn means(&self) -> &str {
        self.schema["description"].as_str().unwrap_or_default()
    }
}

/// The schema of the configuration file.
pub fn schema() -> Value {
    let mut schema = schemars::schema_for!(Written).to_value();
    tidy(&mut schema);
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
    let followed = followed(all, at);
    if let Some(properties) = followed["properties"].as_object() {
        for (name, schema) in properties {
            path.push(name.clone());
            collect(all, schema, path, found);
            path.pop();
        }
        return;
    }
    let mut schema = followed.clone();
    if let Some(told) = at.get("description") {
        schema["description"] = told.clone(); // the member's own words before those of its type
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

/// A schema where its reference leads.
fn followed<'a>(all: &'a Value, at: &'a Value) -> &'a Value {
    let target = at["$ref"]
        .as_str()
        .and_then(|place| all.pointer(place.trim_start_matches('#')));
    target.unwrap_or(at)
}

/// The schema of the part at a JSON pointer; null where there is none.
pub(super) fn at<'a>(all: &'a Value, pointer: &str) -> &'a Value {
    pointer.split('/').skip(1).fold(all, |at, part| {
        let of = &at["properties"][part];
        let entry = if at["type"] == "array" {
            &at["items"]
        } else {
            &at["additionalProperties"]
        };
        followed(all, if of.is_null() { entry } else { of })
    })
}

/// What checks a configuration.
///
/// # Errors
///
/// Where the schema itself is none: a bug.
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
        .with_format("log-filter", |text: &str| EnvFilter::try_new(text).is_ok())
        .with_format("http-url", |text: &str| is_http(text))
        .should_validate_formats(true);
    options
        .build(&schema())
        .map_err(|error| anyhow::anyhow!("the schema is wrong: {error}"))
}

/// What a text has to be where it is not of its format.
pub(super) fn wanted(format: &str, found: &str) -> String {
    match format {
        "file" => {
            let why = std::fs::File::open(found).err();
            let why = why.map_or_else(|| "it is there by now".to_owned(), |why| why.to_string());
            format!("cannot read `{found}`: {why}")
        }
        "destination" => {
            format!("expected a network such as `10.0.0.0/8`, or `default`, found `{found}`")
        }
        "socket-address" => {
            format!("expected an address and a port such as `127.0.0.1:9890`, found `{found}`")
        }
        "network" => format!("expected a network such as `10.0.0.0/8`, found `{found}`"),
        "log-filter" => {
            format!("expected what is logged, such as `info` or `vnfm_core=debug`, found `{found}`")
        }
        "http-url" => {
            format!(
                "expected a URL such as `https://vnfm.example.com` without a login, found `{}`",
                hidden(found)
            )
        }
        other => format!("expected {other}, found `{found}`"),
    }
}

/// A URL without what stands before an @, which may be a password.
fn hidden(url: &str) -> &str {
    url.rsplit('@').next().unwrap_or(url)
}

fn is_http(text: &str) -> bool {
    let Ok(uri) = text.parse::<axum::http::Uri>() else {
        return false;
    };
    let plain = uri
        .authority()
        .is_some_and(|authority| !authority.as_str().contains('@'));
    plain && matches!(uri.scheme_str(), Some("http" | "https"))
}

/// Takes out what the types say twice: a member that may be absent may not be null as well.
fn tidy(schema: &mut Value) {
    match schema {
        Value::Array(items) => items.iter_mut().for_each(tidy),
        Value::Object(members) => {
            absent_is_not_null(members);
            members.values_mut().for_each(tidy);
        }
        _ => {}
    }
}

fn absent_is_not_null(members: &mut Map<String, Value>) {
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
