//! The path of the member at which deserialization fails. It needs a crate of its own, so it is the feature `json-paths`:
//! an embedder that reads no requests from text can do without.

use serde::Deserialize;
use serde::de::Deserializer;

/// An error with the path of the member; `.` if the path is not known, or the error concerns the entire value.
pub(super) struct PathError {
    pub(super) path: String,
    pub(super) cause: serde_json::Error,
}

/// Deserializes a value; an error has the path of the member at which it failed.
pub(super) fn deserialize<'de, D, T>(deserializer: D) -> Result<T, PathError>
where
    D: Deserializer<'de, Error = serde_json::Error>,
    T: Deserialize<'de>,
{
    #[cfg(feature = "json-paths")]
    return serde_path_to_error::deserialize(deserializer).map_err(|error| PathError {
        path: error.path().to_string(),
        cause: error.into_inner(),
    });
    #[cfg(not(feature = "json-paths"))]
    T::deserialize(deserializer).map_err(|cause| PathError {
        path: ".".to_owned(),
        cause,
    })
}
