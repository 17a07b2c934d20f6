//! What SOL003 V2.6.1 (`vnflcm/v1`) spells otherwise than V3.7.1 (`vnflcm/v2`), and the way between the two. Everything
//! behind the interface speaks V3.7.1; this is the only place that knows of both.
//!
//! | where | `v1` | `v2` |
//! |---|---|---|
//! | `vimConnectionInfo`, wherever it stands | a list, each with its `id` | a map by that id |
//! | `vimConnectionInfoDeleteIds` of a modification | ids to take away | a null in the map |
//! | `cpConfig` in `extVirtualLinks[].extCps[]` | a list, each with `cpInstanceId` or none | a map by key |
//! | `VnfInstance` | has `vnfPkgId` | has it not |
//! | `instantiatedVnfInfo` | | `maxScaleLevels`, `extCpInfo[].cpConfigId`, `extVirtualLinkInfo[].currentVnfExtCpData` |
//! | `VnfLcmOpOcc` | | `warnings` |
//! | subscriptions and notifications | `FULL`, and do not say so | `verbosity` |

use serde_json::{Map, Value};

/// A major version of the VNF LCM interface.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Edition {
    /// SOL003 V2.6.1.
    V1,
    /// SOL003 V3.3.1 to V3.7.1.
    #[default]
    V2,
}

impl Edition {
    /// What stands before every path.
    pub fn prefix(self) -> &'static str {
        match self {
            Self::V1 => "/vnflcm/v1",
            Self::V2 => "/vnflcm/v2",
        }
    }

    /// The newest version of the interface that it has, as the header `Version` says it.
    pub fn newest(self) -> &'static str {
        match self {
            Self::V1 => "1.3.0",
            Self::V2 => "2.3.0",
        }
    }

    /// The one that a path is of; everything that is not of `v1` is as of now.
    pub fn of_path(path: &str) -> Self {
        let rest = path.strip_prefix(Self::V1.prefix());
        let is_v1 = rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
        if is_v1 { Self::V1 } else { Self::V2 }
    }
}

/// A request body of `v1`, whichever it is, as one of `v2`.
///
/// # Errors
///
/// With the member that is not of the form that `v1` has.
pub fn request(body: &mut Map<String, Value>) -> Result<(), String> {
    if body.contains_key("vnfPkgId") {
        return Err("`vnfPkgId`: an instance stays with its package".to_owned());
    }
    let mut connections = match body.remove("vimConnectionInfo") {
        None => None,
        Some(listed) => Some(by_id(listed, "vimConnectionInfo")?),
    };
    if let Some(gone) = body.remove("vimConnectionInfoDeleteIds") {
        let ids: Vec<String> = serde_json::from_value(gone)
            .map_err(|_| "`vimConnectionInfoDeleteIds` is a list of identifiers".to_owned())?;
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
            let place = format!("extVirtualLinks[{number}].extCps[{cp_number}].cpConfig");
            cp_config(cp, &place)?;
        }
    }
    Ok(())
}

/// A list as a map by the `id` of its entries.
fn by_id(listed: Value, place: &str) -> Result<Map<String, Value>, String> {
    let Value::Array(entries) = listed else {
        return Err(format!(
            "`{place}`: version 1 has a list here, each entry with its `id`"
        ));
    };
    let mut map = Map::new();
    for (number, mut entry) in entries.into_iter().enumerate() {
        let id = entry.as_object_mut().and_then(|entry| entry.remove("id"));
        let Some(Value::String(id)) = id else {
            return Err(format!("`{place}[{number}].id` is missing, or is no text"));
        };
        if map.insert(id.clone(), entry).is_some() {
            return Err(format!("`{place}[{number}].id`: `{id}` is there twice"));
        }
    }
    Ok(map)
}

/// Configurations of a CP get the instance that they are of as their key, and where there is none their number.
fn cp_config(cp: &mut Value, place: &str) -> Result<(), String> {
    let Some(listed) = cp.get_mut("cpConfig") else {
        return Ok(());
    };
    let Value::Array(entries) = listed.take() else {
        return Err(format!("`{place}`: version 1 has a list here"));
    };
    let mut map = Map::new();
    for (number, mut entry) in entries.into_iter().enumerate() {
        let id = entry
            .as_object_mut()
            .and_then(|entry| entry.remove("cpInstanceId"));
        let key = match id {
            None => number.to_string(),
            Some(Value::String(id)) => id,
            Some(_) => return Err(format!("`{place}[{number}].cpInstanceId` is no text")),
        };
        if map.insert(key.clone(), entry).is_some() {
            return Err(format!("`{place}[{number}]`: `{key}` is there twice"));
        }
    }
    *listed = map.into();
    Ok(())
}

/// A `VnfInstance` of `v2` as `v1` shows it.
pub fn vnf_instance(shown: &mut Value, vnf_pkg_id: &str) {
    shown["vnfPkgId"] = vnf_pkg_id.into();
    connections(shown);
    let Some(info) = shown.get_mut("instantiatedVnfInfo") else {
        return;
    };
    without(info, "maxScaleLevels");
    each(info, "extCpInfo", |cp| without(cp, "cpConfigId"));
    each(info, "extVirtualLinkInfo", |link| {
        without(link, "currentVnfExtCpData")
    });
}

/// A `VnfLcmOpOcc` of `v2` as `v1` shows it.
pub fn vnf_lcm_op_occ(shown: &mut Value) {
    without(shown, "warnings");
    changes(shown);
    let Some(request) = shown.get_mut("operationParams") else {
        return;
    };
    connections(request);
    each(request, "extVirtualLinks", |link| {
        each(link, "extCps", cp_configs)
    });
}

/// An `LccnSubscription` of `v2` as `v1` shows it. One that wants less than everything says so, which `v1` does not know.
pub fn subscription(shown: &mut Value) {
    if shown["verbosity"] == "FULL" {
        without(shown, "verbosity");
    }
}

/// A notification of `v2` as `v1` has it.
pub fn notification(body: &mut Value) {
    without(body, "verbosity");
    changes(body);
}

/// What is said of changes of an operation.
fn changes(shown: &mut Value) {
    if let Some(changed) = shown.get_mut("changedInfo") {
        connections(changed);
    }
    each(shown, "changedExtConnectivity", |link| {
        without(link, "currentVnfExtCpData")
    });
}

/// The map of connections as a list; what was taken away is in no list.
fn connections(of: &mut Value) {
    let Some(Value::Object(map)) = taken(of, "vimConnectionInfo") else {
        return;
    };
    let listed = map.into_iter().filter_map(|(id, connection)| {
        let Value::Object(connection) = connection else {
            return None;
        };
        let mut entry = Map::from_iter([("id".to_owned(), id.into())]);
        entry.extend(connection);
        Some(Value::Object(entry))
    });
    of["vimConnectionInfo"] = listed.collect();
}

fn cp_configs(cp: &mut Value) {
    let Some(Value::Object(map)) = taken(cp, "cpConfig") else {
        return;
    };
    let listed = map.into_iter().filter_map(|(key, config)| {
        let Value::Object(mut config) = config else {
            return None;
        };
        if key.parse::<usize>().is_err() {
            config.insert("cpInstanceId".to_owned(), key.into());
        }
        Some(Value::Object(config))
    });
    cp["cpConfig"] = listed.collect();
}

/// A member that is a map, out of where it is.
fn taken(of: &mut Value, member: &str) -> Option<Value> {
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
    use super::{Edition, notification, request, subscription, vnf_instance, vnf_lcm_op_occ};
    use serde_json::{Value, json};

    #[test]
    fn a_path_says_which_edition_it_is_of() {
        for (path, edition) in [
            ("/vnflcm/v1/vnf_instances", Edition::V1),
            ("/vnflcm/v1", Edition::V1),
            ("/vnflcm/v10/vnf_instances", Edition::V2),
            ("/vnflcm/v2/vnf_instances", Edition::V2),
            ("/vnfm/v1/vims", Edition::V2),
        ] {
            assert_eq!(Edition::of_path(path), edition, "{path}");
        }
    }

    /// What becomes of a request, and what is shown of it again.
    fn there_and_back(given: &Value) -> (Value, Value) {
        let mut body = given.clone();
        request(body.as_object_mut().unwrap()).unwrap();
        let mut shown = json!({"operationParams": body});
        vnf_lcm_op_occ(&mut shown);
        (body, shown["operationParams"].take())
    }

    #[test]
    fn lists_become_maps_and_lists_again() {
        let given = json!({
            "flavourId": "f",
            "vimConnectionInfo": [{"id": "a", "vimId": "1", "vimType": "t"}, {"id": "b", "vimType": "t"}],
            "extVirtualLinks": [{"id": "l", "resourceId": "n", "extCps": [
                {"cpdId": "c", "cpConfig": [{"linkPortId": "p"}, {"cpInstanceId": "i"}]}, {"cpdId": "d"}]}],
        });
        let (body, shown) = there_and_back(&given);
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
        assert_eq!(there_and_back(&empty).1, empty);
    }

    #[test]
    fn a_modification_takes_connections_away_by_id() {
        let given = json!({"vimConnectionInfo": [{"id": "a", "vimId": "1"}], "vimConnectionInfoDeleteIds": ["a", "b"]});
        let (body, shown) = there_and_back(&given);
        assert_eq!(
            body,
            json!({"vimConnectionInfo": {"a": {"vimId": "1"}, "b": null}})
        );
        assert_eq!(shown["vimConnectionInfo"], given["vimConnectionInfo"]);
    }

    #[test]
    fn what_is_of_another_form_is_named() {
        let link = |config: Value| json!({"extVirtualLinks": [{"extCps": [{"cpConfig": config}]}]});
        for (given, says) in [
            (
                json!({"vimConnectionInfo": {"vim1": {}}}),
                "`vimConnectionInfo`: version 1 has a list",
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
                "`v` is there twice",
            ),
            (
                json!({"vimConnectionInfoDeleteIds": "v"}),
                "is a list of identifiers",
            ),
            (json!({"vnfPkgId": "p"}), "`vnfPkgId`"),
            (
                link(json!({})),
                "`extVirtualLinks[0].extCps[0].cpConfig`: version 1 has a list here",
            ),
            (
                link(json!([{"cpInstanceId": 7}])),
                "cpConfig[0].cpInstanceId` is no text",
            ),
            (
                link(json!([{}, {"cpInstanceId": "0"}])),
                "`0` is there twice",
            ),
        ] {
            let told = request(given.clone().as_object_mut().unwrap()).unwrap_err();
            assert!(told.contains(says), "{given}: {told}");
        }
    }

    #[test]
    fn what_v1_has_not_is_left_out() {
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
        let mut told = json!({"verbosity": "FULL", "changedInfo": {"vimConnectionInfo": {"v": {"vimId": "1"}}}});
        notification(&mut told);
        assert_eq!(
            told,
            json!({"changedInfo": {"vimConnectionInfo": [{"id": "v", "vimId": "1"}]}})
        );
        let mut all = [json!({"verbosity": "FULL"}), json!({"verbosity": "SHORT"})];
        all.iter_mut().for_each(subscription);
        assert_eq!(all, [json!({}), json!({"verbosity": "SHORT"})]);
    }
}
