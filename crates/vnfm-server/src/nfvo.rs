//! The NFVO that grants operations and may supply packages: address, login, timeouts. Secrets are in files, which are
//! read again at each request, so a renewed certificate, CA or password applies from the next request on, to grants
//! and packages alike. If a file cannot be used, the connection stays unchanged, and the log has the reason.

use crate::settings_file;
use crate::tls::CertificatePair;
use anyhow::bail;
use async_trait::async_trait;
use schemars::JsonSchema;
use serde::Deserialize;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use vnfm_core::ports::{self, Clock, GrantOutcome, PortError};
use vnfm_nfvo::{ClientCredentials, Grants, Login, NfvoAddress, PackageSource, Tls};
use vnfm_types::GrantRequest;

/// Default timeout for a response of the NFVO, in seconds.
const RESPONSE_SECONDS: u64 = 30;

/// `nfvo` in the configuration: where the NFVO is, and how to log in.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Nfvo {
    /// Base URL of `/grant/v1` and `/vnfpkgm/v2`.
    #[schemars(extend("format" = "http-url"))]
    pub(crate) endpoint: String,
    /// HTTP Basic credentials for every request.
    pub(crate) basic: Option<Basic>,
    /// OAuth 2.0 client credentials for a token endpoint.
    pub(crate) oauth2: Option<Oauth2>,
    /// Client certificate, if the NFVO requires one.
    pub(crate) certificate: Option<CertificatePair>,
    /// PEM file of the CAs for the NFVO's certificate; the system's CAs if absent.
    #[schemars(extend("format" = "file"))]
    pub(crate) authorities_file: Option<PathBuf>,
    /// HTTP proxy for the connection; proxies in the environment are ignored.
    #[schemars(extend("format" = "http-url"))]
    pub(crate) proxy: Option<String>,
    /// Timeout in seconds for a grant, from the first request to the decision. Default: 600.
    pub(crate) grant_seconds: Option<u64>,
    /// Timeout in seconds for a response. Default: 30.
    pub(crate) answer_seconds: Option<u64>,
    /// Makes the NFVO a source of VNF packages: missing packages are fetched there.
    pub(crate) packages: Option<NfvoPackages>,
}

/// `nfvo.packages` in the configuration: the NFVO is a source of VNF packages.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct NfvoPackages {
    /// Tenants that get the NFVO's packages. Default: only `default`.
    pub tenants: Vec<String>,
    /// Whether to subscribe to on-boarding, changes and deletion of packages. Default: true.
    pub subscribe: Option<bool>,
    /// Whether to fetch packages as soon as they are on-boarded there, not only on
    /// demand. Needs `subscribe`. Default: true.
    pub prefetch: Option<bool>,
    /// Seconds that a request for a new instance waits for its package. Default: 60.
    pub wait_seconds: Option<u64>,
    /// Seconds between two checks of the subscription and of the packages' states. Default: 300.
    pub look_seconds: Option<u64>,
}

/// User name and password file.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Basic {
    /// Name of the user at the NFVO.
    pub user: String,
    /// File with the password of that user.
    #[schemars(extend("format" = "file"))]
    pub password_file: PathBuf,
}

/// Login by OAuth 2.0 client credentials.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Oauth2 {
    /// URL of the token endpoint.
    #[schemars(extend("format" = "http-url"))]
    pub token_endpoint: String,
    /// Id of the client at the token endpoint.
    pub client_id: String,
    /// File with the client's password.
    #[schemars(extend("format" = "file"))]
    pub client_password_file: PathBuf,
}

impl Nfvo {
    /// The timeout for a response.
    pub(crate) fn answer(&self) -> Duration {
        Duration::from_secs(self.answer_seconds.unwrap_or(RESPONSE_SECONDS))
    }

    /// The endpoint without a trailing slash.
    pub(crate) fn root(&self) -> String {
        self.endpoint.trim_end_matches('/').to_owned()
    }

    /// Prepares the connection, for a server at `root` from the NFVO's view; nothing is called yet.
    ///
    /// # Errors
    ///
    /// If a file cannot be read, or the settings contradict each other.
    pub fn connect(&self, root: &str, clock: Arc<dyn Clock>) -> anyhow::Result<Connection> {
        let current = Mutex::new(Arc::new(NfvoClient::new(self.address(root)?, &clock)?));
        Ok(Connection {
            settings: self.clone(),
            root: root.to_owned(),
            clock,
            current,
        })
    }

    /// Address and login, with the current content of the files.
    fn address(&self, root: &str) -> anyhow::Result<NfvoAddress> {
        let login = match (&self.basic, &self.oauth2) {
            (Some(_), Some(_)) => bail!("nfvo.basic and nfvo.oauth2 exclude each other"),
            (
                Some(Basic {
                    user,
                    password_file,
                }),
                None,
            ) => Login::Basic {
                user: user.clone(),
                password: settings_file::password(password_file)?,
            },
            (None, Some(oauth2)) => Login::Oauth2(ClientCredentials {
                token_endpoint: oauth2.token_endpoint.clone(),
                client_id: oauth2.client_id.clone(),
                client_password: settings_file::password(&oauth2.client_password_file)?,
            }),
            (None, None) => Login::None,
        };
        Ok(NfvoAddress {
            endpoint: self.endpoint.clone(),
            login,
            tls: tls(self.authorities_file.as_deref(), self.certificate.as_ref())?,
            proxy: self.proxy.clone(),
            root: root.to_owned(),
            time: self.answer(),
        })
    }
}

/// Clients for one certificate and login.
pub(crate) struct NfvoClient {
    address: NfvoAddress,
    grants: Grants,
    /// Client of the NFVO's package management interface.
    pub(crate) packages: PackageSource,
}

impl NfvoClient {
    fn new(address: NfvoAddress, clock: &Arc<dyn Clock>) -> anyhow::Result<Self> {
        let describe = |error: PortError| anyhow::anyhow!("{error}; {}", error.next());
        let grants = Grants::new(address.clone(), clock.clone()).map_err(describe)?;
        let packages = PackageSource::new(address.clone(), clock.clone()).map_err(describe)?;
        Ok(Self {
            address,
            grants,
            packages,
        })
    }
}

/// The connection to the configured NFVO, following changes of its files.
pub struct Connection {
    settings: Nfvo,
    root: String,
    clock: Arc<dyn Clock>,
    current: Mutex<Arc<NfvoClient>>,
}

impl Connection {
    /// The settings of the NFVO as a source of packages; `None` if it is not one.
    pub(crate) fn packages(&self) -> Option<&NfvoPackages> {
        self.settings.packages.as_ref()
    }

    /// The base URL of this server for the NFVO.
    pub(crate) fn root(&self) -> &str {
        &self.root
    }

    pub(crate) fn clock(&self) -> &Arc<dyn Clock> {
        &self.clock
    }

    /// The clients; recreated if a file has changed.
    pub(crate) fn current(&self) -> Arc<NfvoClient> {
        let read = self.settings.address(&self.root);
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        let renewed = match read {
            Ok(address) if address == current.address => return current.clone(),
            Ok(address) => NfvoClient::new(address, &self.clock),
            Err(error) => Err(error),
        };
        match renewed {
            Ok(renewed) => {
                tracing::info!("using a renewed certificate or login for the NFVO");
                *current = Arc::new(renewed);
            }
            Err(error) => {
                let error = format!("{error:#}");
                tracing::warn!(
                    error,
                    "cannot use a file of the NFVO's connection; keeping the previous content"
                );
            }
        }
        current.clone()
    }
}

#[async_trait]
impl ports::Nfvo for Connection {
    async fn request_grant(&self, request: &GrantRequest) -> Result<GrantOutcome, PortError> {
        self.current().grants.request_grant(request).await
    }

    async fn poll_grant(&self, location: &str) -> Result<GrantOutcome, PortError> {
        self.current().grants.poll_grant(location).await
    }
}

/// TLS settings for outgoing connections.
///
/// # Errors
///
/// If a file cannot be read.
pub(crate) fn tls(
    authorities: Option<&Path>,
    certificate: Option<&CertificatePair>,
) -> anyhow::Result<Tls> {
    let pair = |pair: &CertificatePair| {
        let mut pem = settings_file::bytes(&pair.cert)?;
        pem.push(b'\n');
        pem.extend(settings_file::bytes(&pair.key)?);
        anyhow::Ok(pem)
    };
    let authorities = authorities.map(settings_file::bytes).transpose()?;
    Ok(Tls {
        authorities: authorities.unwrap_or_default(),
        certificate: certificate.map(pair).transpose()?,
    })
}

#[cfg(test)]
mod tests {
    use super::Nfvo;
    use std::sync::Arc;
    use vnfm::SystemClock;

    fn connect(yaml: &str) -> Result<(), String> {
        let nfvo: Nfvo = serde_yaml::from_str(yaml).map_err(|error| error.to_string())?;
        let connection = nfvo.connect("http://vnfm.example.com", Arc::new(SystemClock));
        connection.map(drop).map_err(|error| format!("{error:#}"))
    }

    #[test]
    fn changed_files_apply_from_the_next_request_on() {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str| folder.path().join(name);
        let renew = || {
            let pair = rcgen::generate_simple_self_signed(vec!["vnfm.example.com".into()]).unwrap();
            std::fs::write(file("cert"), pair.cert.pem()).unwrap();
            std::fs::write(file("key"), pair.signing_key.serialize_pem()).unwrap();
        };
        renew();
        let at = folder.path().display();
        let yaml = format!(
            "endpoint: https://nfvo.example.com\ncertificate: {{cert: {at}/cert, key: {at}/key}}"
        );
        let nfvo: Nfvo = serde_yaml::from_str(&yaml).unwrap();
        let connection = nfvo
            .connect("http://vnfm.example.com", Arc::new(SystemClock))
            .unwrap();
        let first = connection.current();
        assert!(
            Arc::ptr_eq(&first, &connection.current()),
            "nothing has changed"
        );
        renew();
        let second = connection.current();
        assert!(!Arc::ptr_eq(&first, &second));
        for broken in ["no PEM at all", ""] {
            std::fs::write(file("cert"), broken).unwrap();
            assert!(
                Arc::ptr_eq(&second, &connection.current()),
                "the previous clients stay"
            );
        }
        std::fs::remove_file(file("key")).unwrap();
        assert!(Arc::ptr_eq(&second, &connection.current()));
        renew();
        assert!(!Arc::ptr_eq(&second, &connection.current()));
    }

    #[test]
    fn invalid_settings_are_reported_at_startup() {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str, text: &str| {
            let path = folder.path().join(name);
            std::fs::write(&path, text).unwrap();
            path.display().to_string()
        };
        let (password, empty) = (file("password", "hunter2\n"), file("empty", "\n"));
        let basic = |file: &str| format!("basic: {{user: u, password_file: {file}}}");
        let token = format!(
            "oauth2: {{token_endpoint: 'http://a/token', client_id: c, client_password_file: {password}}}"
        );
        let endpoint = "endpoint: http://nfvo.example.com/\n";
        for valid in [String::new(), basic(&password), token.clone()] {
            connect(&format!("{endpoint}{valid}")).unwrap();
        }
        for (yaml, expected) in [
            ("endpoint: nfvo.example.com".to_owned(), "no URL"),
            (
                "endpoint: ftp://nfvo.example.com".to_owned(),
                "neither http nor https",
            ),
            (
                "endpoint: http://u:hunter2@nfvo.example.com".to_owned(),
                "does not belong into",
            ),
            (basic(&password), "endpoint"),
            (format!("{endpoint}password: x"), "password"),
            (
                format!("{endpoint}{}\n{token}", basic(&password)),
                "exclude each other",
            ),
            (format!("{endpoint}{}", basic(&empty)), "is empty"),
            (format!("{endpoint}{}", basic("/nowhere")), "/nowhere"),
            (
                format!("{endpoint}authorities_file: {password}"),
                "not valid PEM",
            ),
            (
                format!("{endpoint}certificate: {{cert: {password}, key: {password}}}"),
                "not valid PEM",
            ),
        ] {
            let error = connect(&yaml).unwrap_err();
            assert!(error.contains(expected), "{yaml}: {error}");
            assert!(!error.contains("hunter2"), "{error}");
        }
    }
}
