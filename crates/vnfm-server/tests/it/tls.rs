//! TLS: certificates that are replaced while the server runs, and client certificates.

use crate::process::{Server, command, started};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use reqwest::{Certificate, Client, Identity, StatusCode};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Time limit for the use of a new certificate; the server checks every two seconds.
const PATIENCE: Duration = Duration::from_secs(30);

/// A certificate authority with this name.
fn authority(name: &str) -> CertifiedIssuer<'static, KeyPair> {
    let mut wanted = CertificateParams::new(Vec::new()).unwrap();
    wanted.distinguished_name.push(DnType::CommonName, name);
    wanted.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    CertifiedIssuer::self_signed(wanted, KeyPair::generate().unwrap()).unwrap()
}

/// A certificate that it issues for a name, and its key, as PEM.
fn certificate(of: &CertifiedIssuer<'static, KeyPair>, name: &str) -> (String, String) {
    let mut wanted = CertificateParams::new(vec![name.to_owned()]).unwrap();
    wanted.distinguished_name.push(DnType::CommonName, name);
    let key = KeyPair::generate().unwrap();
    (
        wanted.signed_by(&key, of).unwrap().pem(),
        key.serialize_pem(),
    )
}

struct Site {
    folder: TempDir,
}

impl Site {
    fn new() -> Self {
        Self {
            folder: tempfile::tempdir().unwrap(),
        }
    }

    fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    }

    /// Starts a server with the certificate in `cert.pem`.
    fn serve(&self, access: &str) -> Server {
        let config = self.file("vnfm.yaml", access);
        let at = |name: &str| self.folder.path().join(name);
        let mut command = command(&at("data"));
        command.arg("--config").arg(config);
        command
            .arg("--tls-cert")
            .arg(at("cert.pem"))
            .arg("--tls-key")
            .arg(at("key.pem"));
        started(&mut command)
    }
}

/// A client that trusts an authority and sends a client certificate.
fn client(trusted: &str, certificate: Option<&(String, String)>) -> Client {
    let trusted = Certificate::from_pem(trusted.as_bytes()).unwrap();
    let mut builder = Client::builder().no_proxy().tls_certs_only([trusted]);
    if let Some((cert, key)) = certificate {
        builder =
            builder.identity(Identity::from_pem(format!("{cert}\n{key}").as_bytes()).unwrap());
    }
    builder.build().unwrap()
}

async fn health(client: &Client, server: &Server) -> Result<StatusCode, reqwest::Error> {
    let response = client
        .get(format!("{}/vnfm/v1/health", server.url))
        .send()
        .await?;
    let status = response.status();
    // A connection is reused only after its response was read.
    response.bytes().await?;
    Ok(status)
}

/// Waits until a client that trusts only this authority gets a response.
async fn used(trusted: &str, server: &Server) {
    let begun = Instant::now();
    while health(&client(trusted, None), server).await.is_err() {
        assert!(
            begun.elapsed() < PATIENCE,
            "the new certificate is not used"
        );
        tokio::task::yield_now().await;
    }
}

fn put(site: &Site, (cert, key): &(String, String)) {
    site.file("cert.pem", cert);
    site.file("key.pem", key);
}

#[tokio::test]
async fn a_renewed_certificate_is_loaded_and_open_connections_continue() {
    let (old, new) = (authority("old"), authority("new"));
    let site = Site::new();
    put(&site, &certificate(&old, "127.0.0.1"));
    let server = site.serve("{}");
    let held = client(&old.pem(), None);
    assert_eq!(health(&held, &server).await.unwrap(), 200);
    // Without the matching key a new certificate is ignored, and the old one stays.
    let (cert, key) = certificate(&new, "127.0.0.1");
    site.file("cert.pem", &cert);
    assert_eq!(
        health(&client(&old.pem(), None), &server).await.unwrap(),
        200
    );
    site.file("key.pem", &key);
    used(&new.pem(), &server).await;
    assert!(
        health(&client(&old.pem(), None), &server).await.is_err(),
        "the old certificate is not used any more"
    );
    // Clients that trust only the old one cannot connect any more, so this uses the open connection.
    assert_eq!(health(&held, &server).await.unwrap(), 200);
}

fn access(site: &Site, clients: &str, required: bool) -> String {
    let file = site.file("clients.pem", clients);
    format!(
        "access:
  certificates:
    authorities_file: {}
    required: {required}
    rules:
    - {{name: nfvo.example.com, gets: {{tenant: acme, role: operate}}}}",
        Path::new(&file).display()
    )
}

#[tokio::test]
async fn a_client_is_identified_by_a_certificate_of_a_trusted_authority() {
    let (ours, theirs, strange) = (authority("ours"), authority("theirs"), authority("strange"));
    let site = Site::new();
    put(&site, &certificate(&ours, "127.0.0.1"));
    let server = site.serve(&access(&site, &theirs.pem(), false));
    let nfvo = certificate(&theirs, "nfvo.example.com");
    let showing = |certificate| client(&ours.pem(), certificate);
    assert_eq!(health(&showing(Some(&nfvo)), &server).await.unwrap(), 200);
    assert_eq!(health(&showing(None), &server).await.unwrap(), 401);
    let cook = certificate(&theirs, "cook.example.com");
    assert_eq!(health(&showing(Some(&cook)), &server).await.unwrap(), 403);
    let forged = certificate(&strange, "nfvo.example.com");
    assert!(
        health(&showing(Some(&forged)), &server).await.is_err(),
        "the handshake fails"
    );
}

#[tokio::test]
async fn a_required_client_certificate_is_checked_before_the_login() {
    let (ours, theirs) = (authority("ours"), authority("theirs"));
    let site = Site::new();
    put(&site, &certificate(&ours, "127.0.0.1"));
    let server = site.serve(&access(&site, &theirs.pem(), true));
    assert!(health(&client(&ours.pem(), None), &server).await.is_err());
    let nfvo = certificate(&theirs, "nfvo.example.com");
    assert_eq!(
        health(&client(&ours.pem(), Some(&nfvo)), &server)
            .await
            .unwrap(),
        200
    );
}
