//! The part of a script's parameters that this plugin reads: the login. All others are for the script.

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::borrow::Cow;
use std::collections::BTreeMap;
use vnfm_plugin_sdk::{Object, Secret};

/// All of `additionalParams`; its schema describes only `login`.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct Params(pub(crate) Object);

impl JsonSchema for Params {
    fn schema_name() -> Cow<'static, str> {
        "Params".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        KnownParams::json_schema(generator)
    }
}

/// The members of `additionalParams` that this plugin reads.
#[derive(JsonSchema)]
#[expect(dead_code, reason = "only its schema is used")]
struct KnownParams {
    /// The login that the VNFM uses for the hosts.
    #[schemars(default)]
    login: Option<Login>,
}

/// The login for the hosts. Absent members are taken from `inputs.login` of the operation in the VNFD.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub(crate) struct Login {
    /// The user to log in as.
    pub(crate) username: Option<String>,
    /// Password of that user, if it logs in with one.
    pub(crate) password: Option<Secret>,
    /// The user's private key in PEM format.
    pub(crate) private_key: Option<Secret>,
    /// The connection point for SSH; if absent, the first one with an address.
    pub(crate) connection_point: Option<String>,
    /// TCP port of the SSH server; 22 if absent.
    pub(crate) port: Option<u16>,
    /// The jump host, for hosts that are not directly reachable.
    pub(crate) jump: Option<Jump>,
    /// Overrides for the hosts of individual VDUs, by VDU id.
    pub(crate) vdus: BTreeMap<String, Value>,
}

/// A jump host, and how to log in to it.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Jump {
    /// IP address or host name.
    pub(crate) address: String,
    /// The user to log in as.
    pub(crate) username: String,
    /// TCP port of the SSH server; 22 if absent.
    #[serde(default)]
    pub(crate) port: Option<u16>,
    /// Password of that user on the jump host.
    #[serde(default)]
    pub(crate) password: Option<Secret>,
    /// The user's private key in PEM format.
    #[serde(default)]
    pub(crate) private_key: Option<Secret>,
}

/// Merges `own` into `base`, recursively for objects; other values are replaced.
pub(crate) fn merge(base: &mut Value, own: &Value) {
    match (base, own) {
        (Value::Object(base), Value::Object(own)) => {
            for (name, value) in own {
                merge(base.entry(name.clone()).or_insert(Value::Null), value);
            }
        }
        (base, own) => *base = own.clone(),
    }
}
