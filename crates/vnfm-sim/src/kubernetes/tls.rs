//! A cluster's CA and server certificate, and the rotation of both.

use anyhow::anyhow;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, IsCa, Issuer, KeyPair,
};
use rustls::ServerConfig;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use std::net::IpAddr;
use std::sync::{Arc, PoisonError, RwLock};
use tokio_rustls::TlsAcceptor;

/// A CA that can sign.
struct Authority {
    pem: String,
    issuer: Issuer<'static, KeyPair>,
    /// Its certificate by the CA before it.
    cross: Option<CertificateDer<'static>>,
}

impl Authority {
    fn new(name: &str, before: Option<&Authority>) -> anyhow::Result<Self> {
        let mut ca = CertificateParams::new(Vec::new())?;
        ca.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        ca.distinguished_name = DistinguishedName::new();
        ca.distinguished_name.push(DnType::CommonName, name);
        let key = KeyPair::generate()?;
        let cross = before.map(|before| ca.signed_by(&key, &before.issuer));
        let cross = cross.transpose()?.map(|cross| cross.der().clone());
        let pem = ca.self_signed(&key)?.pem();
        let issuer = Issuer::new(ca, key);
        Ok(Self { pem, issuer, cross })
    }

    /// A certificate of the API server at this address, with its key.
    fn server(&self, address: IpAddr) -> anyhow::Result<CertifiedKey> {
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
        let certificate = leaf.signed_by(&key, &self.issuer)?;
        let private = PrivateKeyDer::try_from(key.serialize_der())
            .map_err(|why| anyhow!("cannot read the key just made: {why}"))?;
        let own = certificate.der().clone();
        let chain = [own].into_iter().chain(self.cross.clone()).collect();
        let provider = rustls::crypto::aws_lc_rs::default_provider();
        Ok(CertifiedKey::from_der(chain, private, &provider)?)
    }
}

/// The certificate that the API server shows.
#[derive(Debug)]
struct Served(RwLock<Arc<CertifiedKey>>);

impl ResolvesServerCert for Served {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let served = self.0.read().unwrap_or_else(PoisonError::into_inner);
        Some(Arc::clone(&served))
    }
}

/// A cluster's CA, perhaps the next one, and what the API server shows.
pub(super) struct Pki {
    address: IpAddr,
    current: Authority,
    next: Option<Authority>,
    served: Arc<Served>,
}

impl Pki {
    /// A new CA, and a TLS acceptor with a certificate for the address.
    pub(super) fn new(address: IpAddr) -> anyhow::Result<(Self, TlsAcceptor)> {
        let current = Authority::new("kubernetes", None)?;
        let certificate = Arc::new(current.server(address)?);
        let served = Arc::new(Served(RwLock::new(certificate)));
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_cert_resolver(served.clone());
        let pki = Self {
            address,
            current,
            next: None,
            served,
        };
        Ok((pki, TlsAcceptor::from(Arc::new(config))))
    }

    /// The certificate of the CA that signs, PEM.
    pub(super) fn ca_pem(&self) -> &str {
        &self.current.pem
    }

    /// The certificate of the next CA, which is made at the first call, PEM.
    pub(super) fn next_pem(&mut self) -> anyhow::Result<String> {
        if self.next.is_none() {
            let name = format!("kubernetes-{}", uuid::Uuid::new_v4().simple());
            self.next = Some(Authority::new(&name, Some(&self.current))?);
        }
        Ok(self
            .next
            .as_ref()
            .map_or_else(String::new, |next| next.pem.clone()))
    }

    /// From now on the next CA signs; without one, nothing changes.
    pub(super) fn switch(&mut self) -> anyhow::Result<()> {
        if let Some(next) = self.next.take() {
            let certificate = Arc::new(next.server(self.address)?);
            let mut served = self
                .served
                .0
                .write()
                .unwrap_or_else(PoisonError::into_inner);
            *served = certificate;
            self.current = next;
        }
        Ok(())
    }
}
