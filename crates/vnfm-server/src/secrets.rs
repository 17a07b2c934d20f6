//! The location of the encryption keys: the key file in the data folder, or Barbican. The database records which one
//! is used; `vnfmctl secrets migrate` changes it. The configuration only has the connection to Barbican.

use crate::settings_file;
use anyhow::Context as _;
use async_trait::async_trait;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use vnfm_core::ports::{Clock, KeyLocation, SealedBy, SealingKeys, SecretSealer, StoreError};
use vnfm_openstack::{Barbican, BarbicanLogin};
use vnfm_types::{OPENSTACK, VimConnectionInfo};

/// Default timeout in seconds for Barbican at startup.
const WAIT_SECONDS: u64 = 60;

/// `secrets` in the configuration: where keys are stored.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Secrets {
    /// The Barbican that stores the encryption key; if absent, the key is in `secrets.key` in the data folder. A new
    /// database uses this location; `vnfmctl secrets migrate` moves the key of an existing one.
    pub barbican: Option<BarbicanSettings>,
}

/// How to reach Barbican, and how to log in.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Barbican")]
pub(crate) struct BarbicanSettings {
    /// Keystone endpoint of the cloud whose catalog has Barbican, with `/v3`.
    #[schemars(extend("format" = "http-url"))]
    pub endpoint: String,
    /// User of this server there, with the role `creator`.
    pub user: String,
    /// Domain of that user, by name or id. Default: `default`.
    pub user_domain: Option<String>,
    /// The project that owns the key.
    pub project: String,
    /// Domain of that project, by name or id. Default: the user's domain.
    pub project_domain: Option<String>,
    /// File with the password; it is read again at each call.
    #[schemars(extend("format" = "file"))]
    pub password_file: PathBuf,
    /// Region of Barbican, if the catalog has several.
    pub region: Option<String>,
    /// Which endpoint of the catalog to use: `public`, `internal` or `admin`. Default: `public`.
    pub interface: Option<String>,
    /// PEM file of the CAs for the cloud's certificates; the system's CAs if absent.
    #[schemars(extend("format" = "file"))]
    pub authorities_file: Option<PathBuf>,
    /// Seconds that the server waits for Barbican at startup. Default: 60.
    pub wait_seconds: Option<u64>,
}

impl Secrets {
    /// The key provider, if one is configured; nothing is called yet.
    ///
    /// # Errors
    ///
    /// If a file cannot be read.
    pub(crate) fn sealer(
        &self,
        clock: &Arc<dyn Clock>,
    ) -> anyhow::Result<Option<Arc<dyn SecretSealer>>> {
        let Some(settings) = self.barbican.clone() else {
            return Ok(None);
        };
        let login: BarbicanLogin =
            Box::new(move || settings.connection().map_err(|error| format!("{error:#}")));
        let barbican = Barbican::new(login, clock.clone())
            .map_err(|error| anyhow::anyhow!("{error}; hint: {}", error.next()))
            .context("cannot use `secrets.barbican` in the configuration")?;
        Ok(Some(Arc::new(barbican)))
    }

    /// How long a start waits for the key provider.
    pub(crate) fn wait(&self) -> Duration {
        let wait = self
            .barbican
            .as_ref()
            .and_then(|barbican| barbican.wait_seconds);
        Duration::from_secs(wait.unwrap_or(WAIT_SECONDS))
    }
}

impl BarbicanSettings {
    fn connection(&self) -> anyhow::Result<VimConnectionInfo> {
        let mut interface = json!({"endpoint": self.endpoint});
        if let Some(path) = &self.authorities_file {
            let pem = settings_file::text(path)?;
            interface["trustedCertificates"] = json!([pem]);
        }
        let mut access = json!({
            "username": self.user,
            "password": settings_file::password(&self.password_file)?.reveal(),
            "project": self.project,
        });
        for (name, given) in [
            ("userDomain", &self.user_domain),
            ("projectDomain", &self.project_domain),
            ("region", &self.region),
            ("interface", &self.interface),
        ] {
            if let Some(given) = given {
                access[name] = json!(given);
            }
        }
        let members = |value: Value| value.as_object().cloned().unwrap_or_default();
        Ok(VimConnectionInfo {
            vim_type: OPENSTACK.to_owned(),
            interface_info: members(interface),
            access_info: members(access),
            ..VimConnectionInfo::default()
        })
    }
}

/// Replaces the key that encrypts secrets.
#[async_trait]
pub trait Rotate: Send + Sync {
    /// Creates a new key, encrypts everything with it and deletes the old key. Returns the number of values.
    ///
    /// # Errors
    ///
    /// If the database or the key location cannot be written.
    async fn rotate(&self) -> Result<u64, StoreError>;

    /// Encrypts everything with a key at another location; resumes an interrupted migration.
    ///
    /// # Errors
    ///
    /// Those of [`Self::rotate`], and those of the target location.
    async fn migrate(&self, to: KeyLocation) -> Result<u64, StoreError>;

    /// Key locations, and how many values each key encrypts.
    ///
    /// # Errors
    ///
    /// If the database does not respond.
    async fn describe(&self) -> Result<Value, StoreError>;
}

/// Replaces the encryption key of the database.
pub(crate) struct Rotation(pub(crate) Arc<dyn SealingKeys>);

#[async_trait]
impl Rotate for Rotation {
    async fn rotate(&self) -> Result<u64, StoreError> {
        self.0.rotate().await
    }
    async fn migrate(&self, to: KeyLocation) -> Result<u64, StoreError> {
        self.0.migrate(to).await
    }
    async fn describe(&self) -> Result<Value, StoreError> {
        shown(&*self.0).await
    }
}

/// The embedder manages the keys.
pub(crate) struct UnsupportedRotation;

#[async_trait]
impl Rotate for UnsupportedRotation {
    async fn rotate(&self) -> Result<u64, StoreError> {
        Err(unsupported())
    }
    async fn migrate(&self, _: KeyLocation) -> Result<u64, StoreError> {
        Err(unsupported())
    }
    async fn describe(&self) -> Result<Value, StoreError> {
        Err(unsupported())
    }
}

fn unsupported() -> StoreError {
    let detail =
        "this server is embedded in another application, which manages the encryption keys";
    StoreError::Unavailable(detail.to_owned())
}

/// The response of `GET /vnfm/v1/secrets`.
///
/// # Errors
///
/// If the database does not respond.
async fn shown(sealing: &dyn SealingKeys) -> Result<Value, StoreError> {
    let keys: Vec<Value> = sealing.sealed_by().await?.into_iter().map(key).collect();
    let location = match sealing.key_location() {
        KeyLocation::File => "file",
        KeyLocation::Sealer => "barbican",
    };
    let mut response = json!({"keyIn": location, "keys": keys});
    match sealing.unused_keys().await {
        Ok(unused) => response["unused"] = json!(unused),
        Err(error) => response["notAsked"] = json!(error.to_string()),
    }
    Ok(response)
}

fn key(sealed: SealedBy) -> Value {
    let mut key = json!({
        "fingerprint": sealed.fingerprint,
        "key_type": sealed.key_type,
        "values": sealed.values,
        "seals": sealed.seals,
    });
    if let Some(id) = sealed.secret_uuid {
        key["secret_uuid"] = json!(id);
    }
    key
}
