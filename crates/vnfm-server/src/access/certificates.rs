//! TLS client certificates: whoever shows one of a known authority is somebody, by the names in it. The listener checks the
//! chain; here a name becomes a principal.

use super::principal::{Gets, Principal};
use super::{LOGGED, Refused};
use crate::logs::cut;
use schemars::JsonSchema;
use serde::Deserialize;
use std::path::PathBuf;
use std::sync::Arc;
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

/// One rule. It names one kind of name: what one authority checks of one kind it may not check of another.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "CertificateRule")]
pub struct Rule {
    /// A DNS name that the certificate has to have; or its common name, where it has one alone and no DNS name at all.
    pub name: Option<String>,
    /// Its only common name.
    pub common_name: Option<String>,
    /// A DNS name among its subject alternative names.
    pub dns: Option<String>,
    /// A URI among them.
    pub uri: Option<String>,
    /// A mail address among them.
    pub mail: Option<String>,
    /// What it is worth.
    pub gets: Gets,
}

impl Rule {
    /// Checks what the configuration says.
    ///
    /// # Errors
    ///
    /// Where it does not name one name, or its tenant cannot be one.
    pub fn checked(&self) -> Result<(), String> {
        let named = [
            &self.name,
            &self.common_name,
            &self.dns,
            &self.uri,
            &self.mail,
        ];
        if named.into_iter().flatten().count() != 1 {
            return Err(
                "a rule names one of `name`, `common_name`, `dns`, `uri` and `mail`".to_owned(),
            );
        }
        self.gets.checked()
    }

    /// The name by which a certificate fits.
    fn fits(&self, names: &Names) -> Option<&str> {
        let Found {
            common,
            dns,
            uri,
            mail,
        } = &*names.0;
        let only = || {
            if common.len() == 1 {
                common.as_slice()
            } else {
                &[]
            }
        };
        let usual = || {
            if dns.is_empty() {
                only()
            } else {
                dns.as_slice()
            }
        };
        let among = |wanted: &'_ Option<String>, names: &[String]| {
            wanted.as_ref().is_some_and(|wanted| names.contains(wanted))
        };
        [
            (&self.name, among(&self.name, usual())),
            (&self.common_name, among(&self.common_name, only())),
            (&self.dns, among(&self.dns, dns)),
            (&self.uri, among(&self.uri, uri)),
            (&self.mail, among(&self.mail, mail)),
        ]
        .into_iter()
        .find_map(|(name, is_there)| name.as_deref().filter(|_| is_there))
    }
}

/// The names in a client's certificate, of which the chain was checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Names(Arc<Found>);

/// By their kinds.
#[derive(Debug, Default, PartialEq, Eq)]
struct Found {
    common: Vec<String>,
    dns: Vec<String>,
    uri: Vec<String>,
    mail: Vec<String>,
}

impl Names {
    /// Those in a certificate; none where it cannot be read.
    pub fn of(certificate: &[u8]) -> Option<Self> {
        let (_, certificate) = X509Certificate::from_der(certificate).ok()?;
        let common = certificate.subject().iter_common_name();
        let mut found = Found {
            common: common
                .filter_map(|name| name.as_str().ok().map(ToOwned::to_owned))
                .collect(),
            ..Found::default()
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

/// Whoever a certificate is of.
pub(super) fn check(rules: &[Rule], names: &Names) -> Result<Principal, Refused> {
    if let Some((rule, name)) = rules
        .iter()
        .find_map(|rule| Some((rule, rule.fits(names)?)))
    {
        return rule
            .gets
            .principal(name, "certificate", None)
            .map_err(Refused::NoRole);
    }
    let Found {
        common,
        dns,
        uri,
        mail,
    } = &*names.0;
    let all: Vec<_> = [common, dns, uri, mail]
        .into_iter()
        .flatten()
        .map(String::as_str)
        .collect();
    Err(Refused::NoRole(format!(
        "no rule of the configuration fits the certificate of `{}`",
        cut(&all.join("`, `"), LOGGED)
    )))
}

#[cfg(test)]
mod tests {
    use super::{Names, Rule, check};
    use crate::access::Refused;

    fn rule(names: &str) -> Vec<Rule> {
        let yaml = format!("[{{{names}, gets: {{tenant: acme, role: operate}}}}]");
        serde_yaml::from_str(&yaml).unwrap()
    }

    /// The names in a certificate with these.
    fn names(common: &[&str], others: Vec<rcgen::SanType>) -> Names {
        let mut wanted = rcgen::CertificateParams::new(Vec::new()).unwrap();
        wanted.distinguished_name = rcgen::DistinguishedName::new();
        // Under its own name of the type there is one alone.
        let types = [
            rcgen::DnType::CommonName,
            rcgen::DnType::CustomDnType(vec![2, 5, 4, 3]),
        ];
        for (kind, name) in types.into_iter().zip(common) {
            wanted.distinguished_name.push(kind, *name);
        }
        wanted.subject_alt_names = others;
        let key = rcgen::KeyPair::generate().unwrap();
        Names::of(wanted.self_signed(&key).unwrap().der()).unwrap()
    }

    fn dns(name: &str) -> rcgen::SanType {
        rcgen::SanType::DnsName(name.try_into().unwrap())
    }

    fn uri(name: &str) -> rcgen::SanType {
        rcgen::SanType::URI(name.try_into().unwrap())
    }

    #[test]
    fn a_certificate_is_known_by_a_name_of_the_kind_that_the_rule_names() {
        let both = names(
            &["the nfvo"],
            vec![dns("nfvo.example.com"), uri("spiffe://nfvo")],
        );
        for fits in [
            "name: nfvo.example.com",
            "dns: nfvo.example.com",
            "common_name: the nfvo",
            "uri: 'spiffe://nfvo'",
        ] {
            let rule = rule(fits);
            rule[0].checked().unwrap();
            assert!(check(&rule, &both).is_ok(), "{fits}");
        }
        for other in [
            "name: nfvo",
            "name: the nfvo",
            "mail: nfvo.example.com",
            "dns: the nfvo",
        ] {
            let refused = check(&rule(other), &both);
            assert!(matches!(refused, Err(Refused::NoRole(_))), "{other}");
        }
        let alone = names(&["the nfvo"], Vec::new());
        assert_eq!(
            check(&rule("name: the nfvo"), &alone).unwrap().name,
            "the nfvo"
        );
        assert_eq!(Names::of(b"no certificate"), None);
    }

    #[test]
    fn a_uri_and_a_second_common_name_are_not_taken_for_a_dns_name() {
        let nfvo = "nfvo.example.com";
        for forged in [
            names(&["cook"], vec![uri(nfvo)]),
            names(&["cook", nfvo], Vec::new()),
            names(&[nfvo, "cook"], Vec::new()),
            names(&[nfvo], vec![dns("cook.example.com")]),
            names(
                &["cook"],
                vec![rcgen::SanType::Rfc822Name(nfvo.try_into().unwrap())],
            ),
        ] {
            for wanted in ["name", "dns"] {
                let refused = check(&rule(&format!("{wanted}: {nfvo}")), &forged);
                assert!(
                    matches!(refused, Err(Refused::NoRole(_))),
                    "{wanted} {forged:?}"
                );
            }
        }
    }

    #[test]
    fn a_rule_names_one_name() {
        for wrong in ["name: a, dns: b", "dns: a, uri: b"] {
            assert!(rule(wrong)[0].checked().is_err(), "{wrong}");
        }
    }
}
