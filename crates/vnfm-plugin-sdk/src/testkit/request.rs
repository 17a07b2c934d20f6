//! Builds hook requests for tests.

use crate::messages::request::HookRequest;
use crate::{DriverError, Object, SCHEMA_VERSION};
use serde_json::{Value, json};

/// A request of the hook `hook` with plausible defaults: no VNFCs, no parameters, the first attempt.
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

/// A hook request and a plugin configuration, built by [`request`].
///
/// ```
/// use vnfm_plugin_sdk::serde_json::json;
/// use vnfm_plugin_sdk::testkit::{TestRequest, request};
///
/// let built: TestRequest = request("instantiate_end").inputs(json!({"size": 3})).metadata("site", json!("north"));
/// let recorded = TestRequest::recorded(built.json().clone());
/// assert_eq!(recorded.json()["inputs"]["size"], 3);
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
    /// A request from existing JSON, such as one recorded from a VNFM.
    pub fn recorded(json: Value) -> Self {
        Self {
            json,
            config: json!({}),
        }
    }

    /// Adds a VNFC of `vdu` whose server is named `name`. `addresses` are pairs of connection point and IP address.
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

    /// Sets the VDUs of the deployment flavour. If none are set, any VDU without a VNFC counts as scaled to zero.
    ///
    /// ```
    /// use vnfm_plugin_sdk::HookRequest;
    /// use vnfm_plugin_sdk::serde_json::from_value;
    /// use vnfm_plugin_sdk::testkit::request;
    ///
    /// let built = request("instantiate_end").vdus(&["web", "db"]);
    /// let request: HookRequest = from_value(built.json().clone()).unwrap();
    /// assert!(request.vnfcs_of("db").unwrap().is_empty());
    /// assert_eq!(request.vnfcs_of("dbb").unwrap_err().code, "no-such-vdu");
    /// ```
    pub fn vdus(mut self, vdus: &[&str]) -> Self {
        self.json["instance"]["vdus"] = json!(vdus);
        self
    }

    /// Sets `additionalParams`; the default is `{}`.
    pub fn params(mut self, params: Value) -> Self {
        self.json["additionalParams"] = params;
        self
    }

    /// Sets `inputs` of the operation; the default is `{}`.
    pub fn inputs(mut self, inputs: Value) -> Self {
        self.json["inputs"] = inputs;
        self
    }

    /// Adds an artifact that the VNFD names.
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

    /// Adds a VNF instance that runs on a VIM registered by this instance.
    pub fn dependent(mut self, id: &str, name: &str) -> Self {
        if self.json["dependents"].is_null() {
            self.json["dependents"] = json!([]);
        }
        self.push("/dependents", json!({ "id": id, "vnfInstanceName": name }));
        self
    }

    /// Makes this a heal of the VNFCs whose servers have these names. Add the VNFCs first.
    pub fn heal(mut self, names: &[&str]) -> Self {
        let inventory = self.json["inventory"]["vnfcResourceInfo"]
            .as_array()
            .cloned();
        let mut vnfcs = inventory.unwrap_or_default();
        vnfcs.retain(|vnfc| names.iter().any(|name| vnfc["metadata"]["name"] == *name));
        self.json["heal"] = json!({ "vnfcs": vnfcs, "all": false });
        self
    }

    /// Sets an entry of the instance's metadata.
    pub fn metadata(mut self, key: &str, value: Value) -> Self {
        self.json["instance"]["metadata"][key] = value;
        self
    }

    /// Sets the number of the attempt; the default is 1.
    pub fn attempt(mut self, attempt: u32) -> Self {
        self.json["attempt"] = attempt.into();
        self
    }

    /// Calls the undo handler instead of the hook, as a rollback does.
    pub fn undo(mut self) -> Self {
        self.json["undo"] = true.into();
        self
    }

    /// Sets the plugin's configuration; the default is `{}`.
    pub fn config(mut self, config: Value) -> Self {
        self.config = config;
        self
    }

    /// The request as JSON, in the form that the engine sends.
    pub fn json(&self) -> &Value {
        &self.json
    }

    pub(crate) fn parts(self) -> (Result<HookRequest, DriverError>, Value) {
        let request = serde_json::from_value(self.json)
            .map_err(|error| DriverError::new("bad-request", error.to_string()));
        (request, self.config)
    }

    fn push(&mut self, pointer: &str, value: Value) {
        if let Some(Value::Array(list)) = self.json.pointer_mut(pointer) {
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
