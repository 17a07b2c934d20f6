//! What a hook answers: what the engine is to do. The engine applies, journals and undoes it.

use crate::{Object, SCHEMA_VERSION};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// What a hook asks the engine to do.
///
/// ```
/// use vnfm_plugin_sdk::Effects;
///
/// // The end of a termination: what `instantiate_end` registered goes.
/// let effects = Effects::none().unregister_vim("cluster");
/// assert_eq!(effects.unregister_vims, ["cluster"]);
/// assert_eq!(Effects::default(), Effects::none());
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(description = "What a hook asks the engine to do.")]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Effects {
    /// 1.
    pub schema_version: u32,
    /// VIMs to register.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub register_vims: Vec<NewVim>,
    /// VIMs of this instance to unregister, by name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unregister_vims: Vec<String>,
    /// Merged into the instance's metadata.
    #[serde(default, skip_serializing_if = "Object::is_empty")]
    pub metadata: Object,
    /// A sentence for the operator.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

impl Default for Effects {
    fn default() -> Self {
        Self::none()
    }
}

impl Effects {
    /// Nothing to do.
    ///
    /// ```
    /// use vnfm_plugin_sdk::{Effects, NewVim};
    ///
    /// let vim = NewVim::new("cluster", "ETSINFV.KUBERNETES.V_1")
    ///     .interface("endpoint", "https://10.0.0.1:6443")
    ///     .access("bearer_token", "never printed");
    /// let effects = Effects::none().register_vim(vim).metadata("nodes", 3).message("the cluster is there");
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

    /// Registers a VIM; it belongs to the instance.
    #[must_use]
    pub fn register_vim(mut self, vim: NewVim) -> Self {
        self.register_vims.push(vim);
        self
    }

    /// Unregisters a VIM that the instance registered.
    #[must_use]
    pub fn unregister_vim(mut self, name: impl Into<String>) -> Self {
        self.unregister_vims.push(name.into());
        self
    }

    /// Puts a value into the instance's metadata.
    #[must_use]
    pub fn metadata(mut self, key: impl Into<String>, value: impl Into<Value>) -> Self {
        self.metadata.insert(key.into(), value.into());
        self
    }

    /// Tells the operator something.
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
#[derive(Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(description = "A VIM to register, in the shape of SOL003's `VimConnectionInfo`.")]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct NewVim {
    /// Name, unique per tenant.
    pub name: String,
    /// Such as `ETSINFV.KUBERNETES.V_1`.
    pub vim_type: String,
    /// Where and how to reach it.
    #[serde(default)]
    pub interface_info: Object,
    /// Who we are there; sealed by the engine.
    #[serde(default)]
    #[schemars(extend("writeOnly" = true))]
    pub access_info: Object,
    /// What else the VIM's driver should know.
    #[serde(default)]
    pub extra: Object,
}

impl NewVim {
    /// A VIM that is called `name`.
    pub fn new(name: impl Into<String>, vim_type: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            vim_type: vim_type.into(),
            ..Self::default()
        }
    }

    /// Adds to `interfaceInfo`.
    #[must_use]
    pub fn interface(mut self, key: impl Into<String>, value: impl Into<Value>) -> Self {
        self.interface_info.insert(key.into(), value.into());
        self
    }

    /// Adds to `accessInfo`.
    #[must_use]
    pub fn access(mut self, key: impl Into<String>, value: impl Into<Value>) -> Self {
        self.access_info.insert(key.into(), value.into());
        self
    }

    /// Adds to `extra`.
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
