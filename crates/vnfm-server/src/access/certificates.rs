//! TLS client certificates: whoever shows one of a known authority is somebody, by the names in it. The listener checks the
//! chain; here a name becomes a principal.

use super::Refused;
use super::principal::{Gets, Principal};
use axum::http::Request;
use axum_server::accept::Accept;
use axum_server::tls_rustls::RustlsAcceptor;
use futures::future::BoxFuture;
use rustls::pki_types::CertificateDer;
use schemars::JsonSchema;
use serde::Deserialize;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite};
use tower_service::Service;
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::{FromDer as _, X509Certificate};

/// `access.certificates`.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "ClientCertificates")]
pub struct Settings {
    /// PEM file of the authorities that a client's certificate may be of.
    #[schemars(extend("format" = "file"))]
    pub authorities_file: PathBuf,
    /// Whether a client without a certificate is turned away in the handshake; false where absent: it may log in
    /// otherwise.
    #[serde(default)]
    pub required: bool,
    /// What a certificate is worth; the first that fits decides.
    pub rules: Vec<Rule>,
}

/// One rule.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "CertificateRule")]
pub struct Rule {
    /// A name that the certificate has to have: common name, or subject alternative name (DNS, URI, mail).
    pub name: String,
    /// What it is worth.
    pub gets: Gets,
}

/// The names in a client's certificate, of which the chain was checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Names(Arc<[String]>);

impl Names {
    /// Those in a certificate; none where it cannot be read.
    pub fn of(certificate: &[u8]) -> Option<Self> {
        let (_, certificate) = X509Certificate::from_der(certificate).ok()?;
        let mut names: Vec<String> = certificate
            .subject()
            .iter_common_name()
            .filter_map(|name| name.as_str().ok().map(ToOwned::to_owned))
            .collect();
        let others = certificate.subject_alternative_name().ok().flatten();
        for other in others.iter().flat_map(|other| &other.value.general_names) {
            if let GeneralName::DNSName(name)
            | GeneralName::URI(name)
            | GeneralName::RFC822Name(name) = other
            {
                names.push((*name).to_owned());
            }
        }
        Some(Self(names.into()))
    }
}

/// Whoever a certificate is of.
pub(super) fn check(rules: &[Rule], names: &Names) -> Result<Principal, Refused> {
    let shown = || names.0.join("`, `");
    match rules.iter().find(|rule| names.0.contains(&rule.name)) {
        Some(rule) => rule.gets.principal(&rule.name, "certificate", None).map_err(Refused::NoRole),
        None => Err(Refused::NoRole(format!(
            "no rule of the configuration fits the certificate of `{}`",
            shown()
        ))),
    }
}

/// Lets TLS connections in and notes the names in the client's certificate at each of their requests.
#[derive(Clone, Debug)]
pub struct Noting(pub RustlsAcceptor);

impl<I, S> Accept<I, S> for Noting
where
    I: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    S: Send + 'static,
{
    type Stream = <RustlsAcceptor as Accept<I, S>>::Stream;
    type Service = Noted<S>;
    type Future = BoxFuture<'static, io::Result<(Self::Stream, Self::Service)>>;

    fn accept(&self, stream: I, service: S) -> Self::Future {
        let accepting = self.0.accept(stream, service);
        Box::pin(async move {
            let (stream, inner) = accepting.await?;
            let chain = stream.get_ref().1.peer_certificates();
            let first = chain.and_then(<[CertificateDer<'_>]>::first);
            let names = first.and_then(|certificate| Names::of(certificate));
            Ok((stream, Noted { inner, names }))
        })
    }
}

/// A connection's requests, with the names in its certificate.
#[derive(Clone, Debug)]
pub struct Noted<S> {
    inner: S,
    names: Option<Names>,
}

impl<S, B> Service<Request<B>> for Noted<S>
where
    S: Service<Request<B>>,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = S::Future;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, mut request: Request<B>) -> S::Future {
        if let Some(names) = &self.names {
            request.extensions_mut().insert(names.clone());
        }
        self.inner.call(request)
    }
}

#[cfg(test)]
mod tests {
    use super::{Names, Rule, check};
    use crate::access::Refused;

    #[test]
    fn a_certificate_is_known_by_its_common_name_and_its_other_names() {
        let mut wanted =
            rcgen::CertificateParams::new(vec!["nfvo.example.com".to_owned()]).unwrap();
        wanted.distinguished_name.push(rcgen::DnType::CommonName, "the nfvo");
        let key = rcgen::KeyPair::generate().unwrap();
        let certificate = wanted.self_signed(&key).unwrap();
        let names = Names::of(certificate.der()).unwrap();
        let rules = |name: &str| -> Vec<Rule> {
            serde_yaml::from_str(&format!(
                "[{{name: '{name}', gets: {{tenant: acme, role: operate}}}}]"
            ))
            .unwrap()
        };
        for name in ["the nfvo", "nfvo.example.com"] {
            assert_eq!(check(&rules(name), &names).unwrap().name, name);
        }
        assert!(matches!(check(&rules("nfvo"), &names), Err(Refused::NoRole(_))));
        assert_eq!(Names::of(b"no certificate"), None);
    }
}
