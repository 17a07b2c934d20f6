//! Differences between SOL003 V2.6.1 (`vnflcm/v1`) and V3.7.1 (`vnflcm/v2`), and conversion in both directions. Everything
//! behind the interface uses V3.7.1; only this file knows both.
//!
//! | where | `v1` | `v2` |
//! |---|---|---|
//! | any `vimConnectionInfo` | a list, each entry with its `id` | a map by that id |
//! | `vimConnectionInfoDeleteIds` of a modification | ids to remove | a null in the map |
//! | `cpConfig` in `extVirtualLinks[].extCps[]` | a list, each with an optional `cpInstanceId` | a map by key |
//! | `VnfInstance` | has `vnfPkgId` | does not |
//! | `instantiatedVnfInfo` | | `maxScaleLevels`, `extCpInfo[].cpConfigId`, `extVirtualLinkInfo[].currentVnfExtCpData` |
//! | `VnfLcmOpOcc` | | `warnings`, `modificationsTriggeredByVnfPkgChange` |
//! | tasks on instances | | `change_vnfpkg`, `create_snapshot`, `revert_to_snapshot` |
//! | subscriptions and notifications | always `FULL`, without saying so | `verbosity` |

use serde_json::{Map, Value};

/// A major version of the VNF LCM interface.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ApiVersion {
    /// SOL003 V2.6.1, served under `/vnflcm/v1`.
    V1,
    /// SOL003 V3.3.1 to V3.7.1, served under `/vnflcm/v2`.
    #[default]
    V2,
}

impl ApiVersion {
    /// The first path segments of its URIs.
    pub fn prefix(self) -> &'static str {
        match self {
            Self::V1 => "/vnflcm/v1",
            Self::V2 => "/vnflcm/v2",
        }
    }

    /// The latest supported version of the interface, for the `Version` header.
    pub fn newest(self) -> &'static str {
        match self {
            Self::V1 => "1.3.0",
            Self::V2 => "2.3.0",
        }
    }

    /// The version of a path; any path outside `/vnflcm/v1` counts as `v2`.
    pub fn of_path(path: &str) -> Self {
        let rest = path.strip_prefix(Self::V1.prefix());
        let is_v1 = rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
        if is_v1 { Self::V1 } else { Self::V2 }
    }
}

/// Whether V2.6.1 has a task on instances: later versions added some.
pub fn has_task(task: &str) -> bool {
    !matches!(
        task,
        "change_vnfpkg" | "create_snapshot" | "revert_to_snapshot"
    )
}

/// Converts any request body from `v1` to `v2`.
///
/// # Errors
///
/// The member that does not have the form of `v1`.
pub fn request(body: &mut Map<String, Value>) -> Result<(), String> {
    if body.contains_key("vnfPkgId") {
        return Err("`vnfPkgId`: the package of an instance cannot change".to_owned());
    }
    let mut connections = match body.remove("vimConnectionInfo") {
        None => None,
        Some(list) => Some(by_id(list, "vimConnectionInfo")?),
    };
    if let Some(removed) = body.remove("vimConnectionInfoDeleteIds") {
        let ids: Vec<String> = serde_json::from_value(removed)
            .map_err(|_| "`vimConnectionInfoDeleteIds` must be a list of identifiers".to_owned())?;
        let connections = connections.get_or_insert_default();
        for id in ids {
            connections.entry(id).or_insert(Value::Null);
        }
    }
    if let Some(connections) = connections {
        body.insert("vimConnectionInfo".to_owned(), connections.into());
    }
    let links = body
        .get_mut("extVirtualLinks")
        .and_then(Value::as_array_mut);
    for (number, link) in links.into_iter().flatten().enumerate() {
        let cps = link.get_mut("extCps").and_then(Value::as_array_mut);
        for (cp_number, cp) in cps.into_iter().flatten().enumerate() {
            let path = format!("extVirtualLinks[{number}].extCps[{cp_number}].cpConfig");
            cp_config(cp, &path)?;
        }
    }
    Ok(())
}

/// Converts a list to a map by the `id` of its entries.
fn by_id(list: Value, path: &str) -> Result<Map<String, Value>, String> {
    let Value::Array(entries) = list else {
        return Err(format!(
            "`{path}`: version 1 requires a list of entries with an `id`"
        ));
    };
    let mut map = Map::new();
    for (number, mut entry) in entries.into_iter().enumerate() {
        let id = entry.as_object_mut().and_then(|entry| entry.remove("id"));
        let Some(Value::String(id)) = id else {
            return Err(format!("`{path}[{number}].id` is missing or not a string"));
        };
        if map.insert(id.clone(), entry).is_some() {
            return Err(format!("`{path}[{number}].id`: `{id}` is listed twice"));
        }
    }
    Ok(map)
}

/// CP configurations get their CP instance as key, or their position in the list if there is none.
fn cp_config(cp: &mut Value, path: &str) -> Result<(), String> {
    let Some(list) = cp.get_mut("cpConfig") else {
        return Ok(());
    };
    let Value::Array(entries) = list.take() else {
        return Err(format!("`{path}`: version 1 requires a list"));
    };
    let mut map = Map::new();
    for (number, mut entry) in entries.into_iter().enumerate() {
        let id = entry
            .as_object_mut()
            .and_then(|entry| entry.remove("cpInstanceId"));
        let key = match id {
            None => number.to_string(),
            Some(Value::String(id)) => id,
            Some(_) => return Err(format!("`{path}[{number}].cpInstanceId` is not a string")),
        };
        if map.insert(key.clone(), entry).is_some() {
            return Err(format!("`{path}[{number}]`: `{key}` is listed twice"));
        }
    }
    *list = map.into();
    Ok(())
}

/// Converts a `VnfInstance` from `v2` to `v1`.
pub fn vnf_instance(shown: &mut Value, vnf_pkg_id: &str) {
    shown["vnfPkgId"] = vnf_pkg_id.into();
    connections(shown);
    let Some(info) = shown.get_mut("instantiatedVnfInfo") else {
        return;
    };
    without(info, "maxScaleLevels");
    each(info, "extCpInfo", |cp| without(cp, "cpConfigId"));
    each(info, "extVirtualLinkInfo", |link| {
        without(link, "currentVnfExtCpData");
    });
}

/// Converts a `VnfLcmOpOcc` from `v2` to `v1`.
pub fn vnf_lcm_op_occ(shown: &mut Value) {
    without(shown, "warnings");
    without(shown, "modificationsTriggeredByVnfPkgChange");
    changes(shown);
    let Some(request) = shown.get_mut("operationParams") else {
        return;
    };
    connections(request);
    each(request, "extVirtualLinks", |link| {
        each(link, "extCps", cp_configs);
    });
}

/// Converts an `LccnSubscription` from `v2` to `v1`. `SHORT`, which `v1` does not know, stays visible.
pub fn subscription(shown: &mut Value) {
    if shown["verbosity"] == "FULL" {
        without(shown, "verbosity");
    }
}

/// Converts a notification from `v2` to `v1`.
pub fn notification(body: &mut Value) {
    without(body, "verbosity");
    without(body, "modificationsTriggeredByVnfPkgChange");
    changes(body);
}

/// Converts the members that describe changes.
fn changes(shown: &mut Value) {
    if let Some(changed) = shown.get_mut("changedInfo") {
        connections(changed);
    }
    each(shown, "changedExtConnectivity", |link| {
        without(link, "currentVnfExtCpData");
    });
}

/// Converts the map of connections to a list, without removed ones.
fn connections(of: &mut Value) {
    let Some(Value::Object(map)) = take_map(of, "vimConnectionInfo") else {
        return;
    };
    let list = map.into_iter().filter_map(|(id, connection)| {
        let Value::Object(connection) = connection else {
            return None;
        };
        let mut entry = Map::from_iter([("id".to_owned(), id.into())]);
        entry.extend(connection);
        Some(Value::Object(entry))
    });
    of["vimConnectionInfo"] = list.collect();
}

fn cp_configs(cp: &mut Value) {
    let Some(Value::Object(map)) = take_map(cp, "cpConfig") else {
        return;
    };
    let list = map.into_iter().filter_map(|(key, config)| {
        let Value::Object(mut config) = config else {
            return None;
        };
        if key.parse::<usize>().is_err() {
            config.insert("cpInstanceId".to_owned(), key.into());
        }
        Some(Value::Object(config))
    });
    cp["cpConfig"] = list.collect();
}

/// Takes a member out of `of` if it is a map.
fn take_map(of: &mut Value, member: &str) -> Option<Value> {
    of.get_mut(member)
        .filter(|map| map.is_object())
        .map(Value::take)
}

fn without(of: &mut Value, member: &str) {
    if let Some(of) = of.as_object_mut() {
        of.remove(member);
    }
}

fn each(of: &mut Value, list: &str, act: impl FnMut(&mut Value)) {
    of.get_mut(list)
        .and_then(Value::as_array_mut)
        .into_iter()
        .flatten()
        .for_each(act);
}

#[cfg(test)]
mod tests {
    use super::{ApiVersion, notification, request, subscription, vnf_instance, vnf_lcm_op_occ};
    use serde_json::{Value, json};

    #[test]
    fn a_path_determines_the_api_version() {
        for (path, edition) in [
            ("/vnflcm/v1/vnf_instances", ApiVersion::V1),
            ("/vnflcm/v1", ApiVersion::V1),
            ("/vnflcm/v10/vnf_instances", ApiVersion::V2),
            ("/vnflcm/v2/vnf_instances", ApiVersion::V2),
            ("/vnfm/v1/vims", ApiVersion::V2),
        ] {
            assert_eq!(ApiVersion::of_path(path), edition, "{path}");
        }
    }

    /// A request converted to `v2`, and the result converted back.
    fn round_trip(given: &Value) -> (Value, Value) {
        let mut body = given.clone();
        request(body.as_object_mut().unwrap()).unwrap();
        let mut shown = json!({"operationParams": body});
        vnf_lcm_op_occ(&mut shown);
        (body, shown["operationParams"].take())
    }

    #[test]
    fn lists_become_maps_and_back() {
        let given = json!({
            "flavourId": "f",
            "vimConnectionInfo": [{"id": "a", "vimId": "1", "vimType": "t"}, {"id": "b", "vimType": "t"}],
            "extVirtualLinks": [{"id": "l", "resourceId": "n", "extCps": [
                {"cpdId": "c", "cpConfig": [{"linkPortId": "p"}, {"cpInstanceId": "i"}]}, {"cpdId": "d"}]}],
        });
        let (body, shown) = round_trip(&given);
        assert_eq!(
            body["vimConnectionInfo"],
            json!({"a": {"vimId": "1", "vimType": "t"}, "b": {"vimType": "t"}})
        );
        assert_eq!(
            body["extVirtualLinks"][0]["extCps"],
            json!([{"cpdId": "c", "cpConfig": {"0": {"linkPortId": "p"}, "i": {}}}, {"cpdId": "d"}])
        );
        assert_eq!(shown, given);
        let empty = json!({"flavourId": "f", "vimConnectionInfo": []});
        assert_eq!(round_trip(&empty).1, empty);
    }

    #[test]
    fn a_modification_removes_connections_by_id() {
        let given = json!({"vimConnectionInfo": [{"id": "a", "vimId": "1"}], "vimConnectionInfoDeleteIds": ["a", "b"]});
        let (body, shown) = round_trip(&given);
        assert_eq!(
            body,
            json!({"vimConnectionInfo": {"a": {"vimId": "1"}, "b": null}})
        );
        assert_eq!(shown["vimConnectionInfo"], given["vimConnectionInfo"]);
    }

    #[test]
    fn malformed_members_are_named() {
        let link = |config: Value| json!({"extVirtualLinks": [{"extCps": [{"cpConfig": config}]}]});
        for (given, text) in [
            (
                json!({"vimConnectionInfo": {"vim1": {}}}),
                "`vimConnectionInfo`: version 1 requires a list",
            ),
            (
                json!({"vimConnectionInfo": [{"vimId": "v"}]}),
                "`vimConnectionInfo[0].id` is missing",
            ),
            (
                json!({"vimConnectionInfo": [{"id": "v"}, 7]}),
                "`vimConnectionInfo[1].id` is missing",
            ),
            (
                json!({"vimConnectionInfo": [{"id": "v"}, {"id": "v"}]}),
                "`v` is listed twice",
            ),
            (
                json!({"vimConnectionInfoDeleteIds": "v"}),
                "must be a list of identifiers",
            ),
            (json!({"vnfPkgId": "p"}), "`vnfPkgId`"),
            (
                link(json!({})),
                "`extVirtualLinks[0].extCps[0].cpConfig`: version 1 requires a list",
            ),
            (
                link(json!([{"cpInstanceId": 7}])),
                "cpConfig[0].cpInstanceId` is not a string",
            ),
            (
                link(json!([{}, {"cpInstanceId": "0"}])),
                "`0` is listed twice",
            ),
        ] {
            let error = request(given.clone().as_object_mut().unwrap()).unwrap_err();
            assert!(error.contains(text), "{given}: {error}");
        }
    }

    #[test]
    fn members_unknown_to_v1_are_omitted() {
        let mut shown = json!({
            "id": "i", "vimConnectionInfo": {"v": {"vimType": "t"}},
            "instantiatedVnfInfo": {"flavourId": "f", "maxScaleLevels": [], "extCpInfo": [{"id": "c", "cpConfigId": "k"}],
                "extVirtualLinkInfo": [{"id": "l", "currentVnfExtCpData": []}]},
        });
        vnf_instance(&mut shown, "p");
        let expected = json!({
            "id": "i", "vnfPkgId": "p", "vimConnectionInfo": [{"id": "v", "vimType": "t"}],
            "instantiatedVnfInfo": {"flavourId": "f", "extCpInfo": [{"id": "c"}], "extVirtualLinkInfo": [{"id": "l"}]},
        });
        assert_eq!(shown, expected);
        let mut error = json!({"verbosity": "FULL", "changedInfo": {"vimConnectionInfo": {"v": {"vimId": "1"}}}});
        notification(&mut error);
        assert_eq!(
            error,
            json!({"changedInfo": {"vimConnectionInfo": [{"id": "v", "vimId": "1"}]}})
        );
        let mut all = [json!({"verbosity": "FULL"}), json!({"verbosity": "SHORT"})];
        all.iter_mut().for_each(subscription);
        assert_eq!(all, [json!({}), json!({"verbosity": "SHORT"})]);
    }
}
