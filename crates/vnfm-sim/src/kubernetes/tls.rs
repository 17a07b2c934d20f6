//! A cluster's CA and server certificate.

use std::net::IpAddr;
use std::sync::Arc;

use anyhow::anyhow;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, IsCa, Issuer, KeyPair,
};
use rustls::ServerConfig;
use rustls::pki_types::PrivateKeyDer;
use tokio_rustls::TlsAcceptor;

/// A new CA (PEM), and a TLS acceptor with a certificate for the address.
pub(super) fn certificates(address: IpAddr) -> anyhow::Result<(String, TlsAcceptor)> {
    let mut ca = CertificateParams::new(Vec::new())?;
    ca.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    ca.distinguished_name = DistinguishedName::new();
    ca.distinguished_name.push(DnType::CommonName, "kubernetes");
    let ca_key = KeyPair::generate()?;
    let ca_pem = ca.self_signed(&ca_key)?.pem();
    let issuer = Issuer::new(ca, ca_key);
    let mut leaf = CertificateParams::new(vec![
        address.to_string(),
        "kubernetes".into(),
        "kubernetes.default.svc".into(),
        "localhost".into(),
    ])?;
    leaf.distinguished_name = DistinguishedName::new();
    leaf.distinguished_name
        .push(DnType::CommonName, "kube-apiserver");
    let key = KeyPair::generate()?;
    let certificate = leaf.signed_by(&key, &issuer)?;
    let private = PrivateKeyDer::try_from(key.serialize_der())
        .map_err(|why| anyhow!("cannot read the key just made: {why}"))?;
    let config = ServerConfig::builder_with_provider(Arc::new(
        rustls::crypto::aws_lc_rs::default_provider(),
    ))
    .with_safe_default_protocol_versions()?
    .with_no_client_auth()
    .with_single_cert(vec![certificate.der().clone()], private)?;
    Ok((ca_pem, TlsAcceptor::from(Arc::new(config))))
}
