//! The server's certificate and the CA for client certificates. Their files are polled: new valid content applies to
//! new connections, while existing ones continue. Invalid content, such as a certificate whose key has not been
//! written yet, is logged, and tried again when it changes.

use crate::settings_file;
use anyhow::{Context as _, bail};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use schemars::JsonSchema;
use serde::Deserialize;
use std::convert::Infallible;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;
use vnfm_core::ports::Clock;

/// Interval between two polls of the files.
const POLL_INTERVAL: Duration = Duration::from_secs(2);
/// ALPN protocols, in order of preference.
const PROTOCOLS: &[&[u8]] = &[b"h2", b"http/1.1"];

/// A certificate and its key.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Tls")]
pub(crate) struct CertificatePair {
    /// File with the certificate chain, PEM.
    #[schemars(extend("format" = "file"))]
    pub cert: PathBuf,
    /// Private key of the certificate, PEM.
    #[schemars(extend("format" = "file"))]
    pub key: PathBuf,
}

/// Paths of the files, all PEM.
#[derive(Debug, Clone)]
pub(crate) struct Files {
    /// File with the certificate chain, PEM.
    pub cert: PathBuf,
    /// File with the private key, PEM.
    pub key: PathBuf,
    /// CAs for client certificates, and whether every client must present one.
    pub clients: Option<(PathBuf, bool)>,
}

/// The TLS settings for new connections; may change at any time.
#[derive(Clone)]
pub(crate) struct Certificate(Arc<RwLock<Arc<ServerConfig>>>);

impl Certificate {
    fn new(config: ServerConfig) -> Self {
        Self(Arc::new(RwLock::new(Arc::new(config))))
    }

    /// The settings for new connections, after the last reload.
    pub(crate) fn current(&self) -> Arc<ServerConfig> {
        self.0
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    fn replace(&self, config: ServerConfig) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(config);
    }
}

/// The files, loaded and parsed.
pub(crate) struct Loaded {
    /// The settings for the listener.
    pub config: Certificate,
    contents: Vec<Vec<u8>>,
}

impl Files {
    /// Reads and validates the files.
    ///
    /// # Errors
    ///
    /// If a file cannot be read, or they do not match; the error names the file.
    pub(crate) fn read(&self) -> anyhow::Result<Loaded> {
        let contents = self.contents()?;
        let config = Certificate::new(self.config(&contents)?);
        Ok(Loaded { config, contents })
    }

    /// The bytes of each file, in the order of the members.
    fn contents(&self) -> anyhow::Result<Vec<Vec<u8>>> {
        let clients = self.clients.iter().map(|(file, _)| file);
        let files = [&self.cert, &self.key].into_iter().chain(clients);
        files.map(|file| settings_file::bytes(file)).collect()
    }

    fn config(&self, contents: &[Vec<u8>]) -> anyhow::Result<ServerConfig> {
        let [cert, key, clients @ ..] = contents else {
            bail!("no certificate")
        };
        let chain = certificates(&self.cert, cert)?;
        let key = PrivateKeyDer::from_pem_slice(key)
            .with_context(|| format!("`{}` has no private key", self.key.display()))?;
        let builder = match (&self.clients, clients) {
            (Some((file, required)), [pem, ..]) => {
                let mut roots = RootCertStore::empty();
                for authority in certificates(file, pem)? {
                    roots
                        .add(authority)
                        .with_context(|| format!("cannot use `{}`", file.display()))?;
                }
                let verifier = WebPkiClientVerifier::builder(Arc::new(roots));
                let verifier = if *required {
                    verifier
                } else {
                    verifier.allow_unauthenticated()
                };
                let verifier = verifier.build();
                let verifier =
                    verifier.with_context(|| format!("cannot use `{}`", file.display()))?;
                ServerConfig::builder().with_client_cert_verifier(verifier)
            }
            _ => ServerConfig::builder().with_no_client_auth(),
        };
        let mut config = builder.with_single_cert(chain, key).with_context(|| {
            let (cert, key) = (self.cert.display(), self.key.display());
            format!("`{cert}` and `{key}` do not match")
        })?;
        config.alpn_protocols = PROTOCOLS.iter().map(|protocol| protocol.to_vec()).collect();
        Ok(config)
    }
}

fn certificates(file: &Path, pem: &[u8]) -> anyhow::Result<Vec<CertificateDer<'static>>> {
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    let found = found.ok().filter(|found| !found.is_empty());
    found.with_context(|| format!("`{}` has no certificate", file.display()))
}

/// Polls the files and applies changes.
pub(crate) async fn watch(files: Files, loaded: Loaded, clock: Arc<dyn Clock>) -> Infallible {
    let Loaded {
        config,
        contents: mut seen,
    } = loaded;
    loop {
        clock.sleep(POLL_INTERVAL).await;
        let polled = files.clone();
        let contents = tokio::task::spawn_blocking(move || polled.contents()).await;
        // A file that is being replaced is complete at the next poll.
        let Ok(Ok(contents)) = contents else { continue };
        if contents == seen {
            continue;
        }
        match files.config(&contents) {
            Ok(new) => {
                config.replace(new);
                tracing::info!(cert = %files.cert.display(), "new connections use the new certificate");
            }
            Err(error) => {
                let error = format!("{error:#}");
                tracing::warn!(
                    error,
                    "cannot use the changed certificate; keeping the previous one"
                );
            }
        }
        seen = contents;
    }
}
