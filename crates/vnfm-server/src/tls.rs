//! The server's certificate, and the authorities of its clients' certificates, as they lie in their files. The files are
//! looked at again and again: what is new and good is used for the connections that come from then on, and those that
//! there are go on. What is not good, such as a certificate whose key is still to come, is told and tried again once it
//! has changed.

use anyhow::{Context as _, bail};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use std::convert::Infallible;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;
use vnfm_core::ports::Clock;

/// How long after a look at the files the next one comes.
const LOOK_AGAIN: Duration = Duration::from_secs(2);
/// What is spoken, the newest first.
const PROTOCOLS: &[&[u8]] = &[b"h2", b"http/1.1"];

/// Where everything lies; all PEM.
#[derive(Debug, Clone)]
pub struct Files {
    /// The chain.
    pub cert: PathBuf,
    /// Its private key.
    pub key: PathBuf,
    /// The authorities of clients, and whether each client has to show a certificate.
    pub clients: Option<(PathBuf, bool)>,
}

/// What new connections get, which may change at any time.
#[derive(Clone)]
pub struct Certificate(Arc<RwLock<Arc<ServerConfig>>>);

impl Certificate {
    fn new(config: ServerConfig) -> Self {
        Self(Arc::new(RwLock::new(Arc::new(config))))
    }

    /// As it is now.
    pub fn current(&self) -> Arc<ServerConfig> {
        self.0
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    fn replace(&self, config: ServerConfig) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(config);
    }
}

/// What was read of them.
pub struct Read {
    /// What the listener uses.
    pub config: Certificate,
    contents: Vec<Vec<u8>>,
}

impl Files {
    /// Reads them all.
    ///
    /// # Errors
    ///
    /// Where one cannot be read, or they do not fit together: said with its name.
    pub fn read(&self) -> anyhow::Result<Read> {
        let contents = self.contents()?;
        let config = Certificate::new(self.config(&contents)?);
        Ok(Read { config, contents })
    }

    /// The bytes of each file, in the order of the members.
    fn contents(&self) -> anyhow::Result<Vec<Vec<u8>>> {
        let clients = self.clients.iter().map(|(file, _)| file);
        let read = |file: &PathBuf| {
            std::fs::read(file).with_context(|| format!("cannot read `{}`", file.display()))
        };
        [&self.cert, &self.key]
            .into_iter()
            .chain(clients)
            .map(read)
            .collect()
    }

    fn config(&self, contents: &[Vec<u8>]) -> anyhow::Result<ServerConfig> {
        let [cert, key, clients @ ..] = contents else {
            bail!("there is no certificate")
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
                let checking = WebPkiClientVerifier::builder(Arc::new(roots));
                let checking = if *required {
                    checking
                } else {
                    checking.allow_unauthenticated()
                };
                let checking = checking.build();
                let checking =
                    checking.with_context(|| format!("cannot use `{}`", file.display()))?;
                ServerConfig::builder().with_client_cert_verifier(checking)
            }
            _ => ServerConfig::builder().with_no_client_auth(),
        };
        let mut config = builder.with_single_cert(chain, key).with_context(|| {
            let (cert, key) = (self.cert.display(), self.key.display());
            format!("cannot use the certificate `{cert}` with `{key}`")
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

/// Uses what is new in the files, for ever.
pub async fn watch(files: Files, read: Read, clock: Arc<dyn Clock>) -> Infallible {
    let Read {
        config,
        contents: mut seen,
    } = read;
    loop {
        clock.sleep(LOOK_AGAIN).await;
        let looking = files.clone();
        let contents = tokio::task::spawn_blocking(move || looking.contents()).await;
        // One that is just being replaced is there again at the next look.
        let Ok(Ok(contents)) = contents else { continue };
        if contents == seen {
            continue;
        }
        match files.config(&contents) {
            Ok(new) => {
                config.replace(new);
                tracing::info!(cert = %files.cert.display(), "new connections get the new certificate");
            }
            Err(error) => {
                let error = format!("{error:#}");
                tracing::warn!(
                    error,
                    "the certificate has changed and cannot be used; the one before stays"
                );
            }
        }
        seen = contents;
    }
}
