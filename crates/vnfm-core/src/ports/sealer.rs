//! The provider of the keys that seal secrets, for keys that must not be stored on the VNFM's own disk.
//!
//! The store does the sealing; this port only fetches its keys. A key is fetched when the database is opened and cached in
//! memory, so the provider may be unavailable while the VNFM runs.

use super::PortError;
use async_trait::async_trait;
use vnfm_types::Secret;

/// A key store apart from the database: OpenStack's Barbican.
///
/// All keys of an installation share one name, so that unused ones can be listed. We never delete a key:
/// a backup may need it.
#[async_trait]
pub trait SecretSealer: Send + Sync {
    /// The `keyType` of records whose key is stored here, such as `barbican_key`.
    fn key_type(&self) -> &'static str;

    /// Stores a key and returns its id.
    ///
    /// # Errors
    ///
    /// If the provider does not respond or refuses. The key may be stored nevertheless: then [`Self::key_ids`] lists it.
    async fn store_key(&self, name: &str, key: &Secret) -> Result<String, PortError>;

    /// A key by its id.
    ///
    /// # Errors
    ///
    /// If the provider does not respond, refuses, or has no such key.
    async fn key(&self, id: &str) -> Result<Secret, PortError>;

    /// The ids of all keys with this name.
    ///
    /// # Errors
    ///
    /// If the provider does not respond or refuses.
    async fn key_ids(&self, name: &str) -> Result<Vec<String>, PortError>;
}
