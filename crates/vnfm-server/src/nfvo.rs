//! The NFVO that grants operations and may be a source of packages: where it is, who we are there, how long it may take.
//! Secrets come from files, which are read again at each request: a renewed certificate, authority or password counts from
//! the next one on, for grants and packages alike. Where one of them cannot be used, the connection stays as it was, and the log says so.

use crate::access::secret;
use crate::config::Tls as Pair;
use crate::supply::{NfvoPackages, Supply};
use anyhow::{Context as _, bail};
use async_trait::async_trait;
use schemars::JsonSchema;
use serde::Deserialize;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use vnfm_core::ports::{self, Clock, GrantOutcome, PortError};
use vnfm_nfvo::{ClientCredentials, Grants, Login, NfvoAddress, PackageSource, Tls};
use vnfm_types::GrantRequest;

/// How long the NFVO may take to answer a request where nothing else is configured.
const ANSWER: u64 = 30;

/// `nfvo` of the configuration.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Nfvo {
    /// What stands before `/grant/v1` and `/vnfpkgm/v2`.
    #[schemars(extend("format" = "http-url"))]
    pub endpoint: String,
    /// User and password with every request.
    pub basic: Option<Basic>,
    /// A token of a token endpoint.
    pub oauth2: Option<Oauth2>,
    /// Our certificate, for an NFVO that wants one.
    pub certificate: Option<Pair>,
    /// PEM file of the authorities that its certificate may be of; those of the machine where absent.
    #[schemars(extend("format" = "file"))]
    pub authorities_file: Option<PathBuf>,
    /// The HTTP proxy that it is reached through; none is taken from the environment.
    #[schemars(extend("format" = "http-url"))]
    pub proxy: Option<String>,
    /// Seconds for a grant, from the first request to the decision; 600 where absent.
    pub grant_seconds: Option<u64>,
    /// Seconds for an answer; 30 where absent.
    pub answer_seconds: Option<u64>,
    /// Makes it a source of VNF packages: what is not here is fetched there.
    pub packages: Option<NfvoPackages>,
}

/// User and password.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Basic {
    /// The user.
    pub user: String,
    /// File that holds the password.
    #[schemars(extend("format" = "file"))]
    pub password_file: PathBuf,
}

/// OAuth 2.0 client credentials.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Oauth2 {
    /// Who gives tokens.
    #[schemars(extend("format" = "http-url"))]
    pub token_endpoint: String,
    /// The client.
    pub client_id: String,
    /// File that holds its password.
    #[schemars(extend("format" = "file"))]
    pub client_password_file: PathBuf,
}

impl Nfvo {
    /// How long an answer may take.
    pub fn answer(&self) -> Duration {
        Duration::from_secs(self.answer_seconds.unwrap_or(ANSWER))
    }

    /// What stands before every path there.
    pub fn root(&self) -> String {
        self.endpoint.trim_end_matches('/').to_owned()
    }

    /// The NFVO, for a server that is at `root` for it; nothing is called yet.
    ///
    /// # Errors
    ///
    /// Where a file cannot be read, or what is configured contradicts itself.
    pub fn connect(&self, root: &str, clock: Arc<dyn Clock>) -> anyhow::Result<Connection> {
        let now = Mutex::new(Arc::new(Spoken::new(self.address(root)?, &clock)?));
        Ok(Connection {
            settings: self.clone(),
            root: root.to_owned(),
            clock,
            now,
        })
    }

    /// Where it is and who we are there, as the files say now.
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
                password: secret(password_file)?,
            },
            (None, Some(oauth2)) => Login::Oauth2(ClientCredentials {
                token_endpoint: oauth2.token_endpoint.clone(),
                client_id: oauth2.client_id.clone(),
                client_password: secret(&oauth2.client_password_file)?,
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

/// The NFVO by one certificate and login.
pub(crate) struct Spoken {
    address: NfvoAddress,
    grants: Grants,
    /// Its packages.
    pub(crate) packages: PackageSource,
}

impl Spoken {
    fn new(address: NfvoAddress, clock: &Arc<dyn Clock>) -> anyhow::Result<Self> {
        let wrong = |error: PortError| anyhow::anyhow!("{error}; {}", error.next());
        let grants = Grants::new(address.clone(), clock.clone()).map_err(wrong)?;
        let packages = PackageSource::new(address.clone(), clock.clone()).map_err(wrong)?;
        Ok(Self {
            address,
            grants,
            packages,
        })
    }
}

/// The NFVO as it is configured, with what its files hold.
pub struct Connection {
    settings: Nfvo,
    root: String,
    clock: Arc<dyn Clock>,
    now: Mutex<Arc<Spoken>>,
}

impl Connection {
    /// The same NFVO as a source of packages, where it is one; nothing is called yet.
    pub fn supply(self: &Arc<Self>) -> Option<Supply> {
        let packages = self.settings.packages.as_ref()?;
        Some(Supply::new(
            self.clone(),
            packages,
            &self.root,
            self.clock.clone(),
        ))
    }

    /// The connection, made anew where a file has changed.
    pub(crate) fn current(&self) -> Arc<Spoken> {
        let read = self.settings.address(&self.root);
        let mut now = self.now.lock().unwrap_or_else(PoisonError::into_inner);
        let renewed = match read {
            Ok(address) if address == now.address => return now.clone(),
            Ok(address) => Spoken::new(address, &self.clock),
            Err(error) => Err(error),
        };
        match renewed {
            Ok(renewed) => {
                tracing::info!("the NFVO is called with a renewed certificate or login");
                *now = Arc::new(renewed);
            }
            Err(error) => {
                let error = format!("{error:#}");
                tracing::warn!(
                    error,
                    "a file of the NFVO's connection cannot be used; it stays as it was"
                );
            }
        }
        now.clone()
    }
}

#[async_trait]
impl ports::Nfvo for Connection {
    async fn request_grant(&self, request: &GrantRequest) -> Result<GrantOutcome, PortError> {
        self.current().grants.request_grant(request).await
    }

    async fn poll_grant(&self, place: &str) -> Result<GrantOutcome, PortError> {
        self.current().grants.poll_grant(place).await
    }
}

/// How TLS is spoken with a neighbour.
///
/// # Errors
///
/// Where a file cannot be read.
pub fn tls(authorities: Option<&Path>, certificate: Option<&Pair>) -> anyhow::Result<Tls> {
    let bytes = |path: &Path| {
        std::fs::read(path).with_context(|| format!("cannot read `{}`", path.display()))
    };
    let pair = |pair: &Pair| {
        let mut pem = bytes(&pair.cert)?;
        pem.push(b'\n');
        pem.extend(bytes(&pair.key)?);
        anyhow::Ok(pem)
    };
    Ok(Tls {
        authorities: authorities.map(bytes).transpose()?.unwrap_or_default(),
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
        let made = nfvo.connect("http://vnfm.example.com", Arc::new(SystemClock));
        made.map(drop).map_err(|error| format!("{error:#}"))
    }

    #[test]
    fn what_its_files_hold_counts_from_the_next_request_on() {
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
                "it stays as it was"
            );
        }
        std::fs::remove_file(file("key")).unwrap();
        assert!(Arc::ptr_eq(&second, &connection.current()));
        renew();
        assert!(!Arc::ptr_eq(&second, &connection.current()));
    }

    #[test]
    fn what_is_wrong_with_it_is_said_at_the_start() {
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
        for well in [String::new(), basic(&password), token.clone()] {
            connect(&format!("{endpoint}{well}")).unwrap();
        }
        for (yaml, says) in [
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
            (format!("{endpoint}authorities_file: {password}"), "no PEM"),
            (
                format!("{endpoint}certificate: {{cert: {password}, key: {password}}}"),
                "no PEM",
            ),
        ] {
            let error = connect(&yaml).unwrap_err();
            assert!(error.contains(says), "{yaml}: {error}");
            assert!(!error.contains("hunter2"), "{error}");
        }
    }
}
