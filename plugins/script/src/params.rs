//! What a script's request may hold that is ours to read: how to log in. All else is the script's.

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::borrow::Cow;
use std::collections::BTreeMap;
use vnfm_plugin_sdk::{Object, Secret};

/// `additionalParams`, whole; its schema knows `login`.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct Params(pub(crate) Object);

impl JsonSchema for Params {
    fn schema_name() -> Cow<'static, str> {
        "Params".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        Known::json_schema(generator)
    }
}

/// What of `additionalParams` has a meaning here.
#[derive(JsonSchema)]
#[expect(dead_code, reason = "only its schema is used")]
struct Known {
    /// How the VNFM logs in to the hosts.
    #[schemars(default)]
    login: Option<Login>,
}

/// How to log in to the hosts. Members that are absent are taken from the operation's `inputs.login` in the VNFD.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub(crate) struct Login {
    /// Who.
    pub(crate) username: Option<String>,
    /// Their password.
    pub(crate) password: Option<Secret>,
    /// Their private key, PEM.
    pub(crate) private_key: Option<Secret>,
    /// The connection point that the hosts are reached by; the first with an address where absent.
    pub(crate) connection_point: Option<String>,
    /// TCP port; 22 where absent.
    pub(crate) port: Option<u16>,
    /// The host to go through.
    pub(crate) jump: Option<Jump>,
    /// What is different for the hosts of a VDU, by its id.
    pub(crate) vdus: BTreeMap<String, Value>,
}

/// A host to go through.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Jump {
    /// IP address or name.
    pub(crate) address: String,
    /// Who.
    pub(crate) username: String,
    /// TCP port; 22 where absent.
    #[serde(default)]
    pub(crate) port: Option<u16>,
    /// Their password.
    #[serde(default)]
    pub(crate) password: Option<Secret>,
    /// Their private key, PEM.
    #[serde(default)]
    pub(crate) private_key: Option<Secret>,
}

/// Puts `own` over `base`, member by member, objects deeper.
pub(crate) fn over(base: &mut Value, own: &Value) {
    match (base, own) {
        (Value::Object(base), Value::Object(own)) => {
            for (name, value) in own {
                over(base.entry(name.clone()).or_insert(Value::Null), value);
            }
        }
        (base, own) => *base = own.clone(),
    }
}
