//! The names in a client's certificate: the listener reads them, a rule of the configuration maps them to a principal.

use std::sync::Arc;
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::{FromDer as _, X509Certificate};

/// The names in a client's certificate whose chain was verified.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Names(pub(crate) Arc<NamesByKind>);

/// The names, by their place in the certificate.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct NamesByKind {
    pub(crate) common: Vec<String>,
    pub(crate) dns: Vec<String>,
    pub(crate) uri: Vec<String>,
    pub(crate) mail: Vec<String>,
}

impl Names {
    /// Extracts the names; `None` if the certificate cannot be parsed.
    pub(crate) fn parse(certificate: &[u8]) -> Option<Self> {
        let (_, certificate) = X509Certificate::from_der(certificate).ok()?;
        let common = certificate.subject().iter_common_name();
        let mut found = NamesByKind {
            common: common
                .filter_map(|name| name.as_str().ok().map(ToOwned::to_owned))
                .collect(),
            ..NamesByKind::default()
        };
        let others = certificate.subject_alternative_name().ok().flatten();
        for other in others.iter().flat_map(|other| &other.value.general_names) {
            match other {
                GeneralName::DNSName(name) => found.dns.push((*name).to_owned()),
                GeneralName::URI(name) => found.uri.push((*name).to_owned()),
                GeneralName::RFC822Name(name) => found.mail.push((*name).to_owned()),
                _ => {}
            }
        }
        Some(Self(found.into()))
    }
}
