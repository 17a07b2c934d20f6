//! The result of a hook: changes that the engine makes, journals and, on rollback, undoes.

use crate::{Object, SCHEMA_VERSION};
#[cfg(feature = "schemars")]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The result of a hook: changes that the engine makes on its behalf.
///
/// ```
/// use vnfm_plugin_sdk::Effects;
///
/// // `terminate_end` unregisters what `instantiate_end` registered.
/// let effects = Effects::none().unregister_vim("cluster");
/// assert_eq!(effects.unregister_vims, ["cluster"]);
/// assert_eq!(Effects::default(), Effects::none());
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(JsonSchema))]
#[cfg_attr(
    feature = "schemars",
    schemars(description = "The result of a hook: changes that the engine makes on its behalf.")
)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Effects {
    /// Version of the message format: 1.
    pub schema_version: u32,
    /// VIMs to register, in the tenant of the instance.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub register_vims: Vec<NewVim>,
    /// VIMs of this instance to unregister, by name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unregister_vims: Vec<String>,
    /// Entries to merge into the instance's metadata.
    #[serde(default, skip_serializing_if = "Object::is_empty")]
    pub metadata: Object,
    /// A sentence for the operator, shown with the operation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

impl Default for Effects {
    fn default() -> Self {
        Self::none()
    }
}

impl Effects {
    /// The members of its JSON that this version knows.
    ///
    /// ```
    /// assert!(vnfm_plugin_sdk::Effects::MEMBERS.contains(&"registerVims"));
    /// ```
    pub const MEMBERS: [&'static str; 5] = [
        "schemaVersion",
        "registerVims",
        "unregisterVims",
        "metadata",
        "message",
    ];

    /// The result of a hook that changes nothing in the engine.
    ///
    /// ```
    /// use vnfm_plugin_sdk::{Effects, NewVim};
    ///
    /// let vim = NewVim::new("cluster", "ETSINFV.KUBERNETES.V_1")
    ///     .interface("endpoint", "https://10.0.0.1:6443")
    ///     .access("bearer_token", "never printed");
    /// let effects = Effects::none().register_vim(vim).metadata("nodes", 3).message("the cluster is ready");
    /// assert!(!format!("{effects:?}").contains("never printed"));
    /// ```
    pub fn none() -> Self {
        Self {
            schema_version: SCHEMA_VERSION,
            register_vims: Vec::new(),
            unregister_vims: Vec::new(),
            metadata: Object::new(),
            message: None,
        }
    }

    /// Registers a VIM that belongs to this instance.
    #[must_use]
    pub fn register_vim(mut self, vim: NewVim) -> Self {
        self.register_vims.push(vim);
        self
    }

    /// Unregisters a VIM that this instance registered, by name.
    #[must_use]
    pub fn unregister_vim(mut self, name: impl Into<String>) -> Self {
        self.unregister_vims.push(name.into());
        self
    }

    /// Sets an entry of the instance's metadata.
    #[must_use]
    pub fn metadata(mut self, key: impl Into<String>, value: impl Into<Value>) -> Self {
        self.metadata.insert(key.into(), value.into());
        self
    }

    /// Sets the message for the operator.
    #[must_use]
    pub fn message(mut self, message: impl Into<String>) -> Self {
        self.message = Some(message.into());
        self
    }
}

/// A VIM to register, in the shape of SOL003's `VimConnectionInfo`.
///
/// ```
/// use vnfm_plugin_sdk::NewVim;
///
/// let vim = NewVim::new("cluster", "ETSINFV.KUBERNETES.V_1")
///     .interface("endpoint", "https://10.0.0.1:6443")
///     .access("bearer_token", "never printed")
///     .extra("site", "north");
/// assert_eq!((vim.extra["site"].as_str(), vim.interface_info.len()), (Some("north"), 1));
/// ```
#[derive(Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(JsonSchema))]
#[cfg_attr(
    feature = "schemars",
    schemars(description = "A VIM to register, in the shape of SOL003's `VimConnectionInfo`.")
)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct NewVim {
    /// Name of the VIM, unique within the tenant.
    pub name: String,
    /// VIM type, such as `ETSINFV.KUBERNETES.V_1`.
    pub vim_type: String,
    /// How to reach the VIM: endpoint, certificate authority.
    #[serde(default)]
    pub interface_info: Object,
    /// Credentials; the engine encrypts them.
    #[serde(default)]
    #[cfg_attr(feature = "schemars", schemars(extend("writeOnly" = true)))]
    pub access_info: Object,
    /// Further settings of the VIM's driver.
    #[serde(default)]
    pub extra: Object,
}

impl NewVim {
    /// A VIM without interface and access information yet.
    pub fn new(name: impl Into<String>, vim_type: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            vim_type: vim_type.into(),
            ..Self::default()
        }
    }

    /// Sets a member of `interfaceInfo`.
    #[must_use]
    pub fn interface(mut self, key: impl Into<String>, value: impl Into<Value>) -> Self {
        self.interface_info.insert(key.into(), value.into());
        self
    }

    /// Sets a member of `accessInfo`.
    #[must_use]
    pub fn access(mut self, key: impl Into<String>, value: impl Into<Value>) -> Self {
        self.access_info.insert(key.into(), value.into());
        self
    }

    /// Sets a member of `extra`.
    #[must_use]
    pub fn extra(mut self, key: impl Into<String>, value: impl Into<Value>) -> Self {
        self.extra.insert(key.into(), value.into());
        self
    }
}

impl std::fmt::Debug for NewVim {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "NewVim(`{}`, {}, access [hidden])",
            self.name, self.vim_type
        )
    }
}

#[cfg(test)]
mod tests {
    use super::{Effects, NewVim};

    #[test]
    fn the_members_are_those_of_the_json() {
        let effects = Effects::none()
            .register_vim(NewVim::new("a", "kubernetes"))
            .unregister_vim("b")
            .metadata("c", 1)
            .message("d");
        let json = serde_json::to_value(&effects).unwrap();
        let members: Vec<_> = json.as_object().unwrap().keys().collect();
        assert_eq!(members, Effects::MEMBERS);
    }
}
