//! The NFVO's CA, its server certificate, and the one client certificate that it accepts.

use std::sync::Arc;

use anyhow::anyhow;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair,
};
use rustls::pki_types::PrivateKeyDer;
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use tokio_rustls::TlsAcceptor;

/// The certificates that a client needs.
pub(super) struct Certificates {
    /// Certificate of the authority, in PEM form.
    pub(super) authority: String,
    /// Client certificate and key, PEM.
    pub(super) client: String,
}

/// A new CA, and a TLS acceptor that requires its client certificates.
pub(super) fn create() -> anyhow::Result<(Certificates, TlsAcceptor)> {
    let mut ca = named("nfvo", Vec::new())?;
    ca.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let ca_key = KeyPair::generate()?;
    let ca_certificate = ca.self_signed(&ca_key)?;
    let issuer = Issuer::new(ca, ca_key);
    let mut client = named("vnfm", Vec::new())?;
    client.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    let client_key = KeyPair::generate()?;
    let client = client.signed_by(&client_key, &issuer)?;
    let server_key = KeyPair::generate()?;
    let names = vec!["127.0.0.1".to_owned(), "localhost".to_owned()];
    let server = named("nfvo", names)?.signed_by(&server_key, &issuer)?;
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut roots = RootCertStore::empty();
    roots.add(ca_certificate.der().clone())?;
    let clients = WebPkiClientVerifier::builder_with_provider(roots.into(), provider.clone());
    let private = PrivateKeyDer::try_from(server_key.serialize_der())
        .map_err(|why| anyhow!("cannot read the key just made: {why}"))?;
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_client_cert_verifier(clients.build()?)
        .with_single_cert(vec![server.der().clone()], private)?;
    let certificates = Certificates {
        authority: ca_certificate.pem(),
        client: format!("{}{}", client.pem(), client_key.serialize_pem()),
    };
    Ok((certificates, TlsAcceptor::from(Arc::new(config))))
}

fn named(name: &str, alternatives: Vec<String>) -> anyhow::Result<CertificateParams> {
    let mut certificate = CertificateParams::new(alternatives)?;
    certificate.distinguished_name = DistinguishedName::new();
    certificate
        .distinguished_name
        .push(DnType::CommonName, name);
    Ok(certificate)
}
