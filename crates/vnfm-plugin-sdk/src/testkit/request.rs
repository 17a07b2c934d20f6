//! Builds the request of a hook.

use crate::messages::request::HookRequest;
use crate::{DriverError, Object, SCHEMA_VERSION};
use serde_json::{Value, json};

/// The request of a hook, ready to be filled; everything has a value that makes sense.
pub fn request(hook: &str) -> TestRequest {
    let operation = hook
        .split_once('_')
        .map_or(hook, |(operation, _)| operation);
    TestRequest {
        config: json!({}),
        json: json!({
            "schemaVersion": SCHEMA_VERSION,
            "operation": operation.to_uppercase(),
            "hook": hook,
            "instance": {
                "id": "0c9a1c2e-7b1f-4e55-8d57-3a0b7f0a0001",
                "vnfInstanceName": "test",
                "vnfdId": "vnfd-test",
                "vnfProvider": "Company",
                "vnfProductName": "Product",
                "vnfSoftwareVersion": "1.0",
                "vnfdVersion": "1.0",
                "metadata": {},
            },
            "inventory": { "vnfcResourceInfo": [] },
            "additionalParams": {},
            "inputs": {},
            "vims": [],
            "artifacts": [],
            "deadline": "2100-01-01T00:00:00Z",
            "attempt": 1,
        }),
    }
}

/// See [`request`].
///
/// ```
/// use vnfm_plugin_sdk::serde_json::json;
/// use vnfm_plugin_sdk::testkit::{TestRequest, request};
///
/// let made: TestRequest = request("instantiate_end").inputs(json!({"size": 3})).metadata("site", json!("north"));
/// let again = TestRequest::recorded(made.json().clone());
/// assert_eq!(again.json()["inputs"]["size"], 3);
/// ```
#[derive(Clone)]
#[must_use]
pub struct TestRequest {
    json: Value,
    config: Value,
}

impl std::fmt::Debug for TestRequest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "TestRequest({})", self.json["hook"])
    }
}

impl TestRequest {
    /// A request that is there already as JSON, such as one that a VNFM sent.
    pub fn recorded(json: Value) -> Self {
        Self {
            json,
            config: json!({}),
        }
    }

    /// Adds a VNFC of `vdu`, whose server is called `name` and has these addresses by connection point.
    pub fn vnfc(mut self, vdu: &str, name: &str, addresses: &[(&str, &str)]) -> Self {
        let cps: Vec<Value> = addresses
            .iter()
            .map(|(cp, address)| cp_info(name, cp, address))
            .collect();
        self.push(
            "/inventory/vnfcResourceInfo",
            json!({
                "id": format!("vnfc-{name}"),
                "vduId": vdu,
                "computeResource": {
                    "vimConnectionId": "vim",
                    "resourceId": format!("server-{name}"),
                    "vimLevelResourceType": "OS::Nova::Server",
                },
                "vnfcCpInfo": cps,
                "metadata": { "name": name },
            }),
        );
        self
    }

    /// Sets `additionalParams`.
    pub fn params(mut self, params: Value) -> Self {
        self.json["additionalParams"] = params;
        self
    }

    /// Sets `inputs`.
    pub fn inputs(mut self, inputs: Value) -> Self {
        self.json["inputs"] = inputs;
        self
    }

    /// Adds an artifact of the VNFD.
    pub fn artifact(mut self, name: &str, path: &str, type_: &str) -> Self {
        self.push(
            "/artifacts",
            json!({ "name": name, "path": path, "type": type_ }),
        );
        self
    }

    /// Adds a VIM that the instance registered.
    pub fn vim(mut self, id: &str, name: &str, vim_type: &str) -> Self {
        self.push(
            "/vims",
            json!({ "id": id, "name": name, "vimType": vim_type }),
        );
        self
    }

    /// Adds a live VNF instance on a VIM that the instance registered.
    pub fn dependent(mut self, id: &str, name: &str) -> Self {
        if self.json["dependents"].is_null() {
            self.json["dependents"] = json!([]);
        }
        self.push("/dependents", json!({ "id": id, "vnfInstanceName": name }));
        self
    }

    /// Says that these VNFCs are healed: by the names of their servers, as they are in the inventory now.
    pub fn heal(mut self, names: &[&str]) -> Self {
        let all = self.json["inventory"]["vnfcResourceInfo"]
            .as_array()
            .cloned();
        let mut vnfcs = all.unwrap_or_default();
        vnfcs.retain(|vnfc| names.iter().any(|name| vnfc["metadata"]["name"] == *name));
        self.json["heal"] = json!({ "vnfcs": vnfcs, "all": false });
        self
    }

    /// Puts a value into the instance's metadata.
    pub fn metadata(mut self, key: &str, value: Value) -> Self {
        self.json["instance"]["metadata"][key] = value;
        self
    }

    /// Says that this is not the first attempt.
    pub fn attempt(mut self, attempt: u32) -> Self {
        self.json["attempt"] = attempt.into();
        self
    }

    /// Asks for the opposite of the hook, as a rollback does.
    pub fn undo(mut self) -> Self {
        self.json["undo"] = true.into();
        self
    }

    /// Configures the driver; `{}` where nothing is said.
    pub fn config(mut self, config: Value) -> Self {
        self.config = config;
        self
    }

    /// The message, as the engine would write it.
    pub fn json(&self) -> &Value {
        &self.json
    }

    pub(crate) fn parts(self) -> (Result<HookRequest, DriverError>, Value) {
        let request = serde_json::from_value(self.json)
            .map_err(|error| DriverError::new("bad-request", error.to_string()));
        (request, self.config)
    }

    fn push(&mut self, place: &str, value: Value) {
        if let Some(Value::Array(list)) = self.json.pointer_mut(place) {
            list.push(value);
        }
    }
}

fn cp_info(name: &str, cp: &str, address: &str) -> Value {
    let kind = if address.contains(':') {
        "IPV6"
    } else {
        "IPV4"
    };
    let mut metadata = Object::new();
    metadata.insert("name".into(), format!("{name}-{cp}").into());
    json!({
        "id": format!("{name}-{cp}"),
        "cpdId": cp,
        "cpProtocolInfo": [{
            "layerProtocol": "IP_OVER_ETHERNET",
            "ipOverEthernet": { "ipAddresses": [{ "type": kind, "addresses": [address] }] },
        }],
        "metadata": metadata,
    })
}
