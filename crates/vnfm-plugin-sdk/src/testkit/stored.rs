//! The files that a driver stores with the instance: names, sizes and hashes, without content.

use super::values::{refused, text};
use crate::ServiceError;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Descriptions of stored files, by name.
#[derive(Debug, Default)]
pub(super) struct StoredFiles(BTreeMap<String, Value>);

impl StoredFiles {
    /// Serves `file.list`, `file.fetch`, `file.send` or `file.remove`.
    pub(super) fn serve(&mut self, service: &str, request: &Value) -> Result<Value, ServiceError> {
        let name = text(request, "/name").to_owned();
        match service {
            "file.list" => {
                return Ok(json!({ "files": self.0.values().collect::<Vec<_>>() }));
            }
            "file.remove" => {
                self.0.remove(&name);
                return Ok(json!({}));
            }
            "file.fetch" => {
                let (bytes, hash) = (&request["bytes"], text(request, "/sha256"));
                let stored = json!({ "name": name, "bytes": bytes, "sha256": hash });
                self.0.insert(name.clone(), stored);
            }
            _ => {}
        }
        let missing = || refused(service, format!("there is no stored file `{name}`"));
        self.0.get(&name).cloned().ok_or_else(missing)
    }
}
