//! What the driver keeps of a VNF snapshot: each claim, and the `VolumeSnapshot` with its data.

use crate::catalog::Target;
use crate::claims::ClaimRecipe;
use crate::client::Session;
use crate::driver::unserializable;
use crate::labels;
use kube::api::{DynamicObject, PostParams};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use vnfm_core::ports::PortError;

/// The driver's own data of a VNF snapshot.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct StoredClaims {
    pub(crate) claims: Vec<StoredClaim>,
}

/// A claim, and the `VolumeSnapshot` of it in the same namespace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct StoredClaim {
    pub(crate) claim: ClaimRecipe,
    pub(crate) volume_snapshot: String,
}

impl StoredClaims {
    /// The data of a complete snapshot.
    ///
    /// # Errors
    ///
    /// `Broken` if it is not that of this driver.
    pub(crate) fn read(handle: &Value) -> Result<Self, PortError> {
        if handle.is_null() {
            return Ok(Self::default());
        }
        serde_json::from_value(handle.clone()).map_err(|error| unserializable(&error))
    }
}

/// Whether the data of a `VolumeSnapshot` can be used.
pub(crate) fn is_ready(snapshot: &DynamicObject) -> bool {
    snapshot.data.pointer("/status/readyToUse") == Some(&Value::Bool(true))
}

/// Creates an object on the cluster; one that exists is not changed.
///
/// # Errors
///
/// The API server's error; `CONFLICT` if it exists.
pub(crate) async fn create(
    session: &Session<'_>,
    target: &Target,
    object: Value,
) -> Result<(), PortError> {
    let object: DynamicObject =
        serde_json::from_value(object).map_err(|error| unserializable(&error))?;
    let object = &object;
    let how = &PostParams {
        field_manager: Some(labels::FIELD_MANAGER.to_owned()),
        ..PostParams::default()
    };
    let created = session
        .call(&format!("create {target}"), |client| async move {
            target.api(client).create(how, object).await
        })
        .await;
    created
        .map(drop)
        .map_err(|error| error.on(target.to_string()))
}
