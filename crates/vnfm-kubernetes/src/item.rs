//! One object that is deployed, with its position in the package.

use serde_json::Value;

/// One object of a manifest, with its position.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Item {
    pub(crate) api_version: String,
    pub(crate) kind: String,
    pub(crate) name: String,
    /// As in the manifest; `None` if it names none.
    pub(crate) namespace: Option<String>,
    /// The complete manifest, after variables were replaced.
    pub(crate) object: Value,
    /// `file:line` where its document begins.
    pub(crate) location: String,
}

impl Item {
    /// The API group; empty for the core group.
    pub(crate) fn group(&self) -> String {
        self.api_version
            .rsplit_once('/')
            .map_or_else(String::new, |(group, _)| group.to_owned())
    }
}

/// An object of a plan, at `f:1`.
#[cfg(test)]
pub(crate) fn item_for_test(object: Value) -> Item {
    let text = |pointer: &str| {
        object
            .pointer(pointer)
            .and_then(Value::as_str)
            .map(str::to_owned)
    };
    Item {
        api_version: text("/apiVersion").unwrap(),
        kind: text("/kind").unwrap(),
        name: text("/metadata/name").unwrap_or("it".into()),
        namespace: text("/metadata/namespace"),
        location: "f:1".into(),
        object,
    }
}
