//! A TLS proxy with its own CA in front of a plain HTTP service.

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use std::sync::Arc;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::aws_lc_rs;
use tokio_rustls::rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};

/// The proxy's URL and the CA to trust for it.
pub(crate) struct TlsProxy {
    pub(crate) url: String,
    pub(crate) ca_pem: String,
}

impl TlsProxy {
    /// Forwards to `target` (`http://host:port/path`) for the rest of the test.
    pub(crate) async fn before(target: &str) -> Self {
        let rest = target.strip_prefix("http://").unwrap();
        let (address, path) = rest.split_once('/').unwrap_or((rest, ""));
        let (config, ca_pem) = certificates();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("https://{}/{path}", listener.local_addr().unwrap());
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let address = address.to_owned();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (acceptor, address) = (acceptor.clone(), address.clone());
                tokio::spawn(async move {
                    // A client that does not trust the CA ends the handshake, as a test expects.
                    let Ok(mut client) = acceptor.accept(stream).await else {
                        return;
                    };
                    let mut service = TcpStream::connect(address).await.unwrap();
                    _ = tokio::io::copy_bidirectional(&mut client, &mut service).await;
                });
            }
        });
        Self { url, ca_pem }
    }
}

fn certificates() -> (ServerConfig, String) {
    let ca_key = KeyPair::generate().unwrap();
    let mut ca = CertificateParams::new(Vec::new()).unwrap();
    ca.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let ca_pem = ca.self_signed(&ca_key).unwrap().pem();
    let issuer = Issuer::new(ca, ca_key);
    let key = KeyPair::generate().unwrap();
    let leaf = CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
    let leaf = leaf.signed_by(&key, &issuer).unwrap();
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
    let config = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![leaf.der().clone()], key)
        .unwrap();
    (config, ca_pem)
}
