//! Where the keys lie that seal secrets: the key file in the data folder, or Barbican. Which of both holds the database
//! knows; `vnfmctl secrets migrate` changes it. The configuration only says how Barbican is reached.

use crate::access::secret;
use anyhow::Context as _;
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use vnfm_core::ports::{Clock, ErrorKind, SecretSealer, StoreError};
use vnfm_openstack::{Barbican, BarbicanLogin};
use vnfm_store::{KeyLocation, SecretKeys, SqliteStore};
use vnfm_types::{OPENSTACK, VimConnectionInfo};

/// The key file in the data folder.
const KEY_FILE: &str = "secrets.key";
/// Seconds for which a start waits for Barbican where nothing else is configured.
const WAIT: u64 = 60;
/// How long a start waits before it asks again.
const PAUSE: Duration = Duration::from_secs(2);

/// `secrets` of the configuration.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Secrets {
    /// The Barbican that keeps the key which seals secrets; where absent, the key lies in `secrets.key` in the data folder.
    /// A new database gets its key there; one that is there already changes with `vnfmctl secrets migrate`.
    pub barbican: Option<BarbicanSettings>,
}

/// How Barbican is reached.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Barbican")]
pub struct BarbicanSettings {
    /// The Keystone of the cloud whose catalog has it, with `/v3`.
    #[schemars(extend("format" = "http-url"))]
    pub endpoint: String,
    /// Who we are there: a user with the role `creator`.
    pub user: String,
    /// The domain of that user, by name or id; `default` where absent.
    pub user_domain: Option<String>,
    /// The project whose secret the key is.
    pub project: String,
    /// The domain of that project, by name or id; the user's where absent.
    pub project_domain: Option<String>,
    /// File that holds the password; it is read again at each call.
    #[schemars(extend("format" = "file"))]
    pub password_file: PathBuf,
    /// The region whose Barbican it is, where the catalog has several.
    pub region: Option<String>,
    /// Which endpoint of the catalog is used: `public`, `internal` or `admin`; `public` where absent.
    pub interface: Option<String>,
    /// PEM file of the authorities that the cloud's certificates may be of; those of the machine where absent.
    #[schemars(extend("format" = "file"))]
    pub authorities_file: Option<PathBuf>,
    /// Seconds for which a start waits for it to answer; 60 where absent.
    pub wait_seconds: Option<u64>,
}

impl Secrets {
    /// Whoever keeps keys, if somebody is configured; nothing is called yet.
    ///
    /// # Errors
    ///
    /// Where a file cannot be read.
    pub fn sealer(&self, clock: &Arc<dyn Clock>) -> anyhow::Result<Option<Arc<dyn SecretSealer>>> {
        let Some(settings) = self.barbican.clone() else {
            return Ok(None);
        };
        let login: BarbicanLogin =
            Box::new(move || settings.connection().map_err(|error| format!("{error:#}")));
        let barbican = Barbican::new(login, clock.clone())
            .map_err(|error| anyhow::anyhow!("{error}; hint: {}", error.next()))
            .context("cannot use `secrets.barbican` of the configuration")?;
        Ok(Some(Arc::new(barbican)))
    }

    fn wait(&self) -> Duration {
        let wait = self
            .barbican
            .as_ref()
            .and_then(|barbican| barbican.wait_seconds);
        Duration::from_secs(wait.unwrap_or(WAIT))
    }
}

impl BarbicanSettings {
    fn connection(&self) -> anyhow::Result<VimConnectionInfo> {
        let mut interface = json!({"endpoint": self.endpoint});
        if let Some(path) = &self.authorities_file {
            let pem = std::fs::read_to_string(path)
                .with_context(|| format!("cannot read `{}`", path.display()))?;
            interface["trustedCertificates"] = json!([pem]);
        }
        let mut access = json!({
            "username": self.user,
            "password": secret(&self.password_file)?.reveal(),
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

/// Opens the database of a data folder with its keys, wherever they lie; waits a while for Barbican.
///
/// # Errors
///
/// Where the database or the key file cannot be used, or Barbican does not answer for as long as is configured.
pub async fn open(
    data: &Path,
    secrets: &Secrets,
    clock: &Arc<dyn Clock>,
) -> anyhow::Result<SqliteStore> {
    let (database, file) = (data.join("vnfm.db"), data.join(KEY_FILE));
    vnfm_store::check_files(data).context("cannot use the data folder")?;
    let sealer = secrets.sealer(clock)?;
    let until = clock
        .now()
        .saturating_add(secrets.wait())
        .unwrap_or(Timestamp::MAX);
    loop {
        let keys = match &sealer {
            Some(sealer) => SecretKeys::with(&file, sealer.clone()),
            None => SecretKeys::open(&file),
        };
        let opened = SqliteStore::open(&database, keys.context("cannot use the key file")?).await;
        match opened {
            Err(StoreError::Keys {
                kind: ErrorKind::Unavailable,
                detail,
            }) if clock.now() < until => {
                tracing::warn!("{detail}; the start waits for it");
                clock.sleep(PAUSE).await;
            }
            opened => {
                let store =
                    opened.with_context(|| format!("cannot use `{}`", database.display()))?;
                if sealer.is_some() && store.key_place() == KeyLocation::File {
                    tracing::warn!(
                        "Barbican is configured, and secrets are sealed with the key file: `vnfmctl secrets migrate --to \
                         barbican` brings the key there"
                    );
                }
                return Ok(store);
            }
        }
    }
}

/// What `GET /vnfm/v1/secrets` shows of a store.
///
/// # Errors
///
/// Where the database does not answer.
pub async fn shown(store: &SqliteStore) -> Result<Value, StoreError> {
    let keys: Vec<Value> = store.sealed_by().await?.into_iter().map(key).collect();
    let to = match store.key_place() {
        KeyLocation::File => "file",
        KeyLocation::Sealer => "barbican",
    };
    let mut shown = json!({"keyIn": to, "keys": keys});
    match store.unused_keys().await {
        Ok(unused) => shown["unused"] = json!(unused),
        Err(error) => shown["notAsked"] = json!(error.to_string()),
    }
    Ok(shown)
}

fn key(sealed: vnfm_store::SealedBy) -> Value {
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
