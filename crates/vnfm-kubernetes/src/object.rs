//! Calls for one object: look at it, merge a change into it.

use crate::catalog::Target;
use crate::client::Session;
use crate::identifiers::segment;
use crate::labels::FIELD_MANAGER;
use kube::api::{DynamicObject, Patch, PatchParams};
use kube::core::ObjectMeta;
use serde_json::Value;
use vnfm_core::ports::PortError;

/// The object; `None` if it does not exist.
///
/// # Errors
///
/// The call failed; a missing object is not an error.
pub(crate) async fn find(
    session: &Session<'_>,
    target: &Target,
) -> Result<Option<DynamicObject>, PortError> {
    if !target.can_exist() {
        return Ok(None);
    }
    let (action, name) = (format!("look at {target}"), &segment(&target.name));
    let found = session
        .find(&action, |client| async move {
            target.api(client).get(name).await
        })
        .await;
    found.map_err(|error| error.on(target.to_string()))
}

/// Merges `change` into an object.
///
/// # Errors
///
/// The API server rejected the patch, or the call failed.
pub(crate) async fn merge(
    session: &Session<'_>,
    target: &Target,
    action: &str,
    change: &Value,
) -> Result<(), PortError> {
    let how = &PatchParams {
        field_manager: Some(FIELD_MANAGER.to_owned()),
        ..PatchParams::default()
    };
    let (name, change) = (&segment(&target.name), &Patch::Merge(change));
    session
        .call(action, |client| async move {
            target.api(client).patch(name, how, change).await
        })
        .await
        .map(drop)
}

/// The metadata of an object; `None` if it does not exist.
///
/// # Errors
///
/// The call failed; a missing object is not an error.
pub(crate) async fn find_metadata(
    session: &Session<'_>,
    target: &Target,
) -> Result<Option<ObjectMeta>, PortError> {
    if !target.can_exist() {
        return Ok(None);
    }
    let (action, name) = (format!("look at {target}"), &segment(&target.name));
    let found = session
        .find(&action, |client| async move {
            target.metadata(client).get(name).await
        })
        .await;
    Ok(found
        .map_err(|error| error.on(target.to_string()))?
        .map(|object| object.metadata))
}
