//! What a modification may change, and how it is merged (RFC 7396): VIM connections, extensions, configurable properties.
//!
//! The login of a registered VIM is changed in the registry (`vim update` affects every instance). An inline connection is
//! sealed with the deployment and is changed there. An instance with resources stays on its VIM.

use crate::context::Context;
use crate::deployment::Deployment;
use crate::ports::{InstanceRecord, Schemas, StoreError};
use crate::refusal::{self, Refusal, Why};
use crate::vims::{self, check_login_bound, without_access_info};
use serde_json::{Map, Value};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use vnfm_types::{
    InstantiationState, KeyValuePairs, VimConnectionInfo, VnfInfoModificationRequest,
};

/// Merges a patch (RFC 7396); `None` is the patch `null`, which removes all values.
pub fn merge_patch(values: &mut KeyValuePairs, patch: Option<&KeyValuePairs>) {
    let Some(patch) = patch else {
        return values.clear();
    };
    for (name, new) in patch {
        match new {
            Value::Null => drop(values.remove(name)),
            Value::Object(inner) => {
                let mut old = match values.remove(name) {
                    Some(Value::Object(old)) => old,
                    _ => Map::new(),
                };
                merge_patch(&mut old, Some(inner));
                values.insert(name.clone(), Value::Object(old));
            }
            other => drop(values.insert(name.clone(), other.clone())),
        }
    }
}

/// The VIM connections of an instance: those of its deployment, with secrets, and all as shown.
pub(crate) struct Connections {
    instantiated: bool,
    deployment: Option<Deployment>,
    visible: BTreeMap<String, Box<VimConnectionInfo>>,
    /// Keys that the patch contains.
    patched_keys: BTreeSet<String>,
}

impl Connections {
    pub(crate) fn from_instance(instance: &InstanceRecord) -> Self {
        Self {
            instantiated: instance.vnf.instantiation_state == InstantiationState::Instantiated,
            deployment: instance.deployment.as_deref().cloned(),
            visible: instance.vnf.vim_connection_info.clone(),
            patched_keys: BTreeSet::new(),
        }
    }

    /// Applies a patch, key by key.
    ///
    /// # Errors
    ///
    /// What cannot be changed, and why.
    pub(crate) fn patched(mut self, patch: Option<&KeyValuePairs>) -> Result<Self, String> {
        let everything = || {
            self.visible
                .keys()
                .map(|key| (key.clone(), Value::Null))
                .collect()
        };
        let patch = patch.cloned().unwrap_or_else(everything);
        for (key, patch) in patch {
            self.patch_one(&key, &patch)
                .map_err(|why| format!("vimConnectionInfo.{key}: {why}"))?;
            self.patched_keys.insert(key);
        }
        Ok(self)
    }

    fn patch_one(&mut self, key: &str, patch: &Value) -> Result<(), String> {
        let deployed = self.deployed(key).cloned();
        let Some(patch) = patch.as_object() else {
            return match (patch, deployed) {
                (Value::Null, None) => {
                    self.visible.remove(key);
                    Ok(())
                }
                (Value::Null, Some(_)) => {
                    Err("resources of the instance are on that VIM".to_owned())
                }
                _ => Err("it must be an object, or null to remove it".to_owned()),
            };
        };
        let old = deployed
            .as_ref()
            .or_else(|| self.visible.get(key).map(|visible| &**visible));
        let new = Box::new(merge_connection(old, patch)?);
        let is_inline = deployed.as_ref().is_some_and(is_inline);
        if let Some(old) = &deployed
            && (old.vim_id != new.vim_id || old.vim_type != new.vim_type)
        {
            let why =
                "the instance has resources on that VIM: neither vimId nor vimType can change";
            return Err(why.to_owned());
        }
        let is_of_registry = |member: &&str| patch.get(*member).is_some_and(|new| !new.is_null());
        if !is_inline && ["accessInfo", "interfaceInfo"].iter().any(is_of_registry) {
            let why = "logins are stored in the registry: `vnfmctl vim register`, `vnfmctl vim update`; name the VIM by \
                       its vimId here";
            return Err(why.to_owned());
        }
        if deployed.is_none() && new.vim_id.is_none() {
            return Err("name a VIM of the registry by its vimId".to_owned());
        }
        if let Some(old) = deployed.as_ref().filter(|_| is_inline) {
            let given = patch.get("accessInfo").and_then(Value::as_object);
            check_login_bound(old, &new, &given.cloned().unwrap_or_default())?;
        }
        let mut visible = new.clone();
        visible.access_info.clear();
        self.visible.insert(key.to_owned(), visible);
        if let (Some(deployment), Some(_)) = (&mut self.deployment, deployed) {
            deployment.vim_connection_info.insert(key.to_owned(), new);
        }
        Ok(())
    }

    /// Checks that the VIMs named in the patch are registered, and replaces names and types in the patch
    /// by those of the registry.
    ///
    /// # Errors
    ///
    /// `Unprocessable` for a VIM that is not registered, or is of another type.
    pub(crate) async fn check_registered(
        &self,
        context: &Context,
        tenant: &str,
        patch: &mut KeyValuePairs,
    ) -> Result<(), Refusal> {
        let drivers = &context.ports.drivers;
        let spelling = |vim_type: &str| {
            drivers
                .driver(vim_type)
                .ok()
                .map(|driver| driver.vim_types()[0])
        };
        for key in &self.patched_keys {
            let Some(vim) = self.visible.get(key) else {
                continue;
            };
            let Some(id) = &vim.vim_id else { continue };
            let record = match context.store().vim(tenant, id).await {
                Err(StoreError::NotFound { .. }) => {
                    let what =
                        format!("vimConnectionInfo.{key}.vimId `{id}` is not in the registry");
                    return Err(Refusal::new(
                        Why::Unprocessable,
                        &refusal::UNKNOWN_VIM,
                        what,
                    ));
                }
                found => found?.vim,
            };
            let (requested, registered) = (&vim.vim_type, &record.vim_type);
            if !requested.is_empty() && spelling(requested) != spelling(registered) {
                let what = format!(
                    "vimConnectionInfo.{key}.vimType is `{requested}`, but VIM `{id}` is of type `{registered}`"
                );
                return Err(Refusal::new(Why::Unprocessable, &refusal::BAD_VIM, what));
            }
            if let (Some(Value::Object(patch)), None) = (patch.get_mut(key), self.deployed(key)) {
                patch.insert("vimId".to_owned(), record.id.into());
                patch.insert("vimType".to_owned(), record.vim_type.into());
            }
        }
        Ok(())
    }

    /// The connection with this key in the deployment, while the instance has resources on it.
    fn deployed(&self, key: &str) -> Option<&VimConnectionInfo> {
        let deployment = self.deployment.as_ref().filter(|_| self.instantiated)?;
        deployment
            .vim_connection_info
            .get(key)
            .map(|connection| &**connection)
    }

    /// The VIM connections of the deployment, if the patch changes how its VIM is reached; `None` if not, or
    /// if the VIM is registered.
    pub(crate) fn changed_connections(&self) -> Option<&vims::Connections> {
        let deployment = self.deployment.as_ref().filter(|_| self.instantiated)?;
        let mut connections = deployment.vim_connection_info.iter();
        let is_changed =
            connections.any(|(key, vim)| self.patched_keys.contains(key) && is_inline(vim));
        is_changed.then_some(&deployment.vim_connection_info)
    }

    /// Stores the shown and the sealed connections in the instance record.
    pub(crate) fn store_into(self, record: &mut InstanceRecord) {
        record.vnf.vim_connection_info = without_access_info(&self.visible);
        if self.instantiated {
            record.deployment = self.deployment.map(Arc::new);
        }
    }
}

/// Whether a connection is used as given, not looked up in the registry.
fn is_inline(connection: &VimConnectionInfo) -> bool {
    connection.vim_id.is_none() || !connection.access_info.is_empty()
}

fn merge_connection(
    old: Option<&VimConnectionInfo>,
    patch: &KeyValuePairs,
) -> Result<VimConnectionInfo, String> {
    let old = old
        .map(serde_json::to_value)
        .transpose()
        .map_err(|error| error.to_string())?;
    let mut values = old
        .and_then(|old| old.as_object().cloned())
        .unwrap_or_default();
    merge_patch(&mut values, Some(patch));
    serde_json::from_value(Value::Object(values)).map_err(|error| error.to_string())
}

/// Checks that modified extensions, configurable properties and (if declared) metadata have the type declared in the VNFD.
///
/// # Errors
///
/// `Unprocessable`, naming the undeclared or mistyped attribute.
pub(crate) async fn check_declared(
    context: &Context,
    instance: &InstanceRecord,
    request: &VnfInfoModificationRequest,
) -> Result<(), Refusal> {
    let vnf = &instance.vnf;
    let requested_changes = [
        ("extensions", &vnf.extensions, &request.extensions),
        (
            "vnfConfigurableProperties",
            &vnf.vnf_configurable_properties,
            &request.vnf_configurable_properties,
        ),
        ("metadata", &vnf.metadata, &request.metadata),
    ];
    let requested_changes = requested_changes
        .into_iter()
        .filter_map(|(name, old, patch)| Some((name, old, patch.as_ref()?.as_ref()?)));
    for (name, old, patch) in requested_changes.filter(|(_, _, patch)| !patch.is_empty()) {
        let packages = &context.ports.packages;
        let package = packages
            .package(&instance.tenant, &instance.vnf_pkg_id)
            .await;
        let package = match package {
            Err(_) if name == "metadata" => continue,
            package => package.map_err(Refusal::unprocessable)?,
        };
        let flavours = package.vnfd().flavours.iter().filter(|(id, _)| {
            vnf.instantiated_vnf_info
                .as_ref()
                .is_none_or(|info| info.flavour_id == **id)
        });
        let mut after = old.clone();
        merge_patch(&mut after, Some(patch));
        after.retain(|key, _| patch.contains_key(key));
        let schemas = &*context.ports.schemas;
        let declared = flavours.map(|(_, flavour)| flavour.modifiable_types.get(name));
        let is_free = name == "metadata";
        let outcomes: Vec<_> = declared
            .map(|schema| check_types(schemas, schema, &after, is_free))
            .collect();
        // Before instantiation it suffices that one flavour accepts it.
        if let Some(Err(why)) = outcomes.first()
            && outcomes.iter().all(Result::is_err)
        {
            let what = format!("{name}: {why}");
            return Err(Refusal::new(Why::Unprocessable, &refusal::UNDECLARED, what));
        }
    }
    Ok(())
}

/// Checks values against the declared types; unless free, every value must be declared.
pub(crate) fn check_types(
    schemas: &dyn Schemas,
    schema: Option<&Value>,
    values: &KeyValuePairs,
    is_free: bool,
) -> Result<(), String> {
    let nothing = Map::new();
    let properties = schema.and_then(|schema| schema["properties"].as_object());
    let properties = properties.unwrap_or(&nothing);
    for (name, value) in values {
        let Some(schema) = properties.get(name) else {
            if is_free {
                continue;
            }
            if properties.is_empty() {
                return Err(format!(
                    "the VNFD does not declare `{name}`; it declares none"
                ));
            }
            let known: Vec<_> = properties.keys().map(String::as_str).collect();
            return Err(format!(
                "the VNFD does not declare `{name}`; it declares {}",
                known.join(", ")
            ));
        };
        if let Some(misfit) = schemas.violations(schema, value, name)?.into_iter().next() {
            return Err(misfit);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{Connections, check_types, merge_patch};
    use crate::deployment::Deployment;
    use crate::ports::InstanceRecord;
    use serde_json::{Value, json};
    use std::sync::Arc;
    use vnfm_schema::schema_violations;
    use vnfm_types::{InstantiationState, KeyValuePairs};

    fn object(value: &Value) -> KeyValuePairs {
        value.as_object().unwrap().clone()
    }

    #[test]
    fn a_patch_is_merged_according_to_rfc_7396() {
        for (values, patch, wanted) in [
            (json!({"a": "b"}), json!({"a": "c"}), json!({"a": "c"})),
            (
                json!({"a": "b"}),
                json!({"b": "c"}),
                json!({"a": "b", "b": "c"}),
            ),
            (
                json!({"a": "b", "b": "c"}),
                json!({"a": null}),
                json!({"b": "c"}),
            ),
            (json!({"a": ["b"]}), json!({"a": "c"}), json!({"a": "c"})),
            (
                json!({"a": {"b": "c"}}),
                json!({"a": {"b": "d", "c": null}}),
                json!({"a": {"b": "d"}}),
            ),
            (
                json!({}),
                json!({"a": {"bb": {"ccc": null}}}),
                json!({"a": {"bb": {}}}),
            ),
            (
                json!({"a": [1, 2]}),
                json!({"a": {"b": 1}}),
                json!({"a": {"b": 1}}),
            ),
        ] {
            let mut values = object(&values);
            merge_patch(&mut values, Some(&object(&patch)));
            assert_eq!(Value::Object(values), wanted, "{patch}");
        }
        let mut values = object(&json!({"a": 1}));
        merge_patch(&mut values, None);
        assert!(values.is_empty());
    }

    fn instance(connection: &Value) -> InstanceRecord {
        let mut record = InstanceRecord::default();
        let request = json!({"flavourId": "f", "vimConnectionInfo": {"vim1": connection},
            "additionalParams": {"own": 1}});
        let request = serde_json::from_value(request).unwrap();
        record.deployment = Some(Arc::new(Deployment::requested("p", request)));
        record.vnf.instantiation_state = InstantiationState::Instantiated;
        let mut visible: vnfm_types::VimConnectionInfo =
            serde_json::from_value(connection.clone()).unwrap();
        visible.access_info.clear();
        record
            .vnf
            .vim_connection_info
            .insert("vim1".into(), Box::new(visible));
        record
    }

    fn patched(record: &InstanceRecord, patch: &Value) -> Result<InstanceRecord, String> {
        let connections = Connections::from_instance(record).patched(Some(&object(patch)))?;
        let mut record = record.clone();
        connections.store_into(&mut record);
        Ok(record)
    }

    #[test]
    fn an_inline_login_is_changed_in_the_sealed_deployment() {
        let inline = json!({"vimType": "t", "interfaceInfo": {"endpoint": "e"}, "accessInfo": {"user": "u", "password": "p"}});
        let record = instance(&inline);
        let patch =
            json!({"vim1": {"accessInfo": {"password": "q"}, "interfaceInfo": {"endpoint": "f"}}});
        let after = patched(&record, &patch).unwrap();
        let deployment = after.deployment.as_ref().unwrap();
        let sealed = Value::Object(deployment.vim_connection_info["vim1"].access_info.clone());
        assert_eq!(sealed, json!({"user": "u", "password": "q"}));
        assert_eq!(deployment.additional_params["own"], 1);
        let visible = &after.vnf.vim_connection_info["vim1"];
        assert!(visible.access_info.is_empty());
        assert_eq!(visible.interface_info["endpoint"], "f");
        let changed = Connections::from_instance(&record)
            .patched(Some(&object(&patch)))
            .unwrap();
        assert!(changed.changed_connections().is_some());
    }

    #[test]
    fn an_instance_with_resources_stays_on_its_vim() {
        let registered = instance(&json!({"vimId": "v", "vimType": "t"}));
        for (patch, why) in [
            (
                json!({"vim1": null}),
                "resources of the instance are on that VIM",
            ),
            (
                json!({"vim1": {"vimId": "w"}}),
                "neither vimId nor vimType can change",
            ),
            (
                json!({"vim1": {"vimType": "u"}}),
                "neither vimId nor vimType can change",
            ),
            (
                json!({"vim1": {"accessInfo": {"password": "p"}}}),
                "stored in the registry",
            ),
            (
                json!({"vim1": {"interfaceInfo": {"endpoint": "e"}}}),
                "stored in the registry",
            ),
            (json!({"vim1": 7}), "it must be an object, or null"),
            (
                json!({"vim2": {"vimType": "t"}}),
                "name a VIM of the registry",
            ),
            (
                json!({"vim2": {"vimId": "w", "accessInfo": {"a": 1}}}),
                "stored in the registry",
            ),
        ] {
            let error = patched(&registered, &patch).unwrap_err();
            assert!(error.contains(why), "{patch}: {error}");
        }
        let more = patched(
            &registered,
            &json!({"vim2": {"vimId": "w"}, "vim1": {"extra": {"a": 1}}}),
        )
        .unwrap();
        assert_eq!(
            more.vnf.vim_connection_info["vim2"].vim_id.as_deref(),
            Some("w")
        );
        assert_eq!(more.vnf.vim_connection_info["vim1"].extra["a"], 1);
        let same_connection = Connections::from_instance(&registered);
        let same_connection =
            same_connection.patched(Some(&object(&json!({"vim1": {"extra": {"a": 1}}}))));
        assert!(
            same_connection.unwrap().changed_connections().is_none(),
            "the registry's"
        );
        let fewer = patched(&more, &json!({"vim2": null})).unwrap();
        assert!(!fewer.vnf.vim_connection_info.contains_key("vim2"));
    }

    #[test]
    fn values_must_match_their_declaration_in_the_vnfd() {
        let schema = json!({"properties": {"n": {"type": "integer"}}});
        assert_eq!(
            check_types(
                &schema_violations,
                Some(&schema),
                &object(&json!({"n": 1})),
                false
            ),
            Ok(())
        );
        let error = check_types(
            &schema_violations,
            Some(&schema),
            &object(&json!({"n": "x"})),
            false,
        )
        .unwrap_err();
        assert!(error.starts_with("n: the value is not"), "{error}");
        let error = check_types(
            &schema_violations,
            Some(&schema),
            &object(&json!({"m": 1})),
            false,
        )
        .unwrap_err();
        assert_eq!(error, "the VNFD does not declare `m`; it declares n");
        assert!(
            check_types(&schema_violations, None, &object(&json!({"m": 1})), false)
                .unwrap_err()
                .contains("it declares none")
        );
        assert_eq!(
            check_types(
                &schema_violations,
                Some(&schema),
                &object(&json!({"m": 1, "n": 2})),
                true
            ),
            Ok(())
        );
        let error = check_types(
            &schema_violations,
            Some(&schema),
            &object(&json!({"m": 1, "n": "x"})),
            true,
        )
        .unwrap_err();
        assert!(error.starts_with("n: the value is not"), "{error}");
    }
}
