//! Who keeps the keys that seal secrets, where these shall not lie on the disk of the VNFM's machine.
//!
//! The store seals; here is only where its keys are. A key is asked for when the database is opened and kept in
//! memory, so whoever keeps it may be away while the VNFM works.

use super::PortError;
use async_trait::async_trait;
use vnfm_types::Secret;

/// A place for keys, apart from the database: OpenStack's Barbican.
///
/// Several keys have one name, which is the installation's: so those that nothing needs any more can be named. None is
/// ever deleted by us: a backup may need it.
#[async_trait]
pub trait SecretSealer: Send + Sync {
    /// What a record says of a key that is kept here, such as `barbican_key`.
    fn key_type(&self) -> &'static str;

    /// Keeps a key; the id that it is found by.
    ///
    /// # Errors
    ///
    /// Where it does not answer, or does not let us. It may have been kept all the same: [`Self::kept`] shows it then.
    async fn keep(&self, name: &str, key: &Secret) -> Result<String, PortError>;

    /// A key by its id.
    ///
    /// # Errors
    ///
    /// Where it does not answer, does not let us, or has no such key.
    async fn key(&self, id: &str) -> Result<Secret, PortError>;

    /// The ids of all keys of a name.
    ///
    /// # Errors
    ///
    /// Where it does not answer, or does not let us.
    async fn kept(&self, name: &str) -> Result<Vec<String>, PortError>;
}
