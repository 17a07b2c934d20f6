//! Text that is never printed.

use serde::{Deserialize, Serialize};

/// A password, key or token. `Debug` shows `[hidden]`. Its JSON Schema is `writeOnly`, which tells the engine what to
/// encrypt and hide. It serializes as plain text: send it only to the host.
///
/// ```
/// use schemars::{JsonSchema, schema_for};
/// use vnfm_plugin_sdk::Secret;
///
/// #[derive(Debug, serde::Deserialize, JsonSchema)]
/// struct Login {
///     password: Secret,
/// }
///
/// let login = Login { password: "hunter2".into() };
/// assert_eq!(format!("{login:?}"), "Login { password: [hidden] }");
/// assert_eq!(login.password.reveal(), "hunter2");
/// assert!(!login.password.is_empty());
/// assert_eq!(schema_for!(Login).to_value()["properties"]["password"]["writeOnly"], true);
/// ```
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Secret(String);

impl Secret {
    /// Wraps a text that must not be printed.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The plain text, for the one call that needs it.
    pub fn reveal(&self) -> &str {
        &self.0
    }

    /// True if the text is empty.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl From<String> for Secret {
    fn from(text: String) -> Self {
        Self(text)
    }
}

impl From<&str> for Secret {
    fn from(text: &str) -> Self {
        Self(text.to_owned())
    }
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("[hidden]")
    }
}

#[cfg(feature = "schemars")]
impl schemars::JsonSchema for Secret {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Secret".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({ "type": "string", "writeOnly": true })
    }

    fn inline_schema() -> bool {
        true
    }
}
