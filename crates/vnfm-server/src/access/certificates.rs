//! TLS client certificates: the listener verifies the chain; here a name in the certificate selects the principal.

use super::login_error::LoginError;
use super::principal::{Principal, RoleGrant};
use crate::client_certificate::{Names, NamesByKind};
use crate::log_text::{MAX_LOGGED_CHARS, cut};
use schemars::JsonSchema;
use serde::Deserialize;
use std::path::PathBuf;

/// `access.certificates`: which client certificates log in, and as whom.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "ClientCertificates")]
pub(crate) struct Settings {
    /// PEM file of the CAs for client certificates.
    #[schemars(extend("format" = "file"))]
    pub authorities_file: PathBuf,
    /// Whether the handshake refuses clients without a certificate. Default: false; they may use another login method.
    #[serde(default)]
    pub required: bool,
    /// Rules for roles; the first match decides.
    pub rules: Vec<Rule>,
}

/// A rule matches one kind of name: a CA that verifies one kind may not verify another.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "CertificateRule")]
pub(crate) struct Rule {
    /// A DNS name that the certificate must have; or its common name, if that is its only one and it has no DNS name.
    pub name: Option<String>,
    /// The only common name that is accepted.
    pub common_name: Option<String>,
    /// A DNS name among the subject alternative names.
    pub dns: Option<String>,
    /// A URI among the subject alternative names.
    pub uri: Option<String>,
    /// A mail address among the subject alternative names.
    pub mail: Option<String>,
    /// Tenant, role and limits of the caller.
    pub gets: RoleGrant,
}

impl Rule {
    /// Validates the rule, and names what is wrong.
    ///
    /// # Errors
    ///
    /// If it does not name exactly one name, or the tenant name is invalid.
    pub(crate) fn checked(&self) -> Result<(), String> {
        let named = [
            &self.name,
            &self.common_name,
            &self.dns,
            &self.uri,
            &self.mail,
        ];
        if named.into_iter().flatten().count() != 1 {
            return Err(
                "a rule must name exactly one of `name`, `common_name`, `dns`, `uri` and `mail`"
                    .to_owned(),
            );
        }
        self.gets.checked()
    }

    /// The name by which a certificate matches.
    fn matching_name(&self, names: &Names) -> Option<&str> {
        let NamesByKind {
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
        let default = || {
            if dns.is_empty() {
                only()
            } else {
                dns.as_slice()
            }
        };
        let among = |expected: &'_ Option<String>, names: &[String]| {
            expected
                .as_ref()
                .is_some_and(|expected| names.contains(expected))
        };
        [
            (&self.name, among(&self.name, default())),
            (&self.common_name, among(&self.common_name, only())),
            (&self.dns, among(&self.dns, dns)),
            (&self.uri, among(&self.uri, uri)),
            (&self.mail, among(&self.mail, mail)),
        ]
        .into_iter()
        .find_map(|(name, is_present)| name.as_deref().filter(|_| is_present))
    }
}

/// Returns the principal for a certificate.
pub(super) fn check(rules: &[Rule], names: &Names) -> Result<Principal, LoginError> {
    if let Some((rule, name)) = rules
        .iter()
        .find_map(|rule| Some((rule, rule.matching_name(names)?)))
    {
        return rule
            .gets
            .principal(name, "certificate", None)
            .map_err(LoginError::NoRole);
    }
    let NamesByKind {
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
    Err(LoginError::NoRole(format!(
        "no rule in the configuration matches the certificate of `{}`",
        cut(&all.join("`, `"), MAX_LOGGED_CHARS)
    )))
}

#[cfg(test)]
mod tests {
    use super::{Names, Rule, check};
    use crate::access::login_error::LoginError;

    fn rule(names: &str) -> Vec<Rule> {
        let yaml = format!("[{{{names}, gets: {{tenant: acme, role: operate}}}}]");
        serde_yaml::from_str(&yaml).unwrap()
    }

    /// The names of a certificate created with these.
    fn names(common: &[&str], others: Vec<rcgen::SanType>) -> Names {
        let mut wanted = rcgen::CertificateParams::new(Vec::new()).unwrap();
        wanted.distinguished_name = rcgen::DistinguishedName::new();
        // rcgen keeps only one value per known type, so the second name uses the type's OID.
        let types = [
            rcgen::DnType::CommonName,
            rcgen::DnType::CustomDnType(vec![2, 5, 4, 3]),
        ];
        for (kind, name) in types.into_iter().zip(common) {
            wanted.distinguished_name.push(kind, *name);
        }
        wanted.subject_alt_names = others;
        let key = rcgen::KeyPair::generate().unwrap();
        Names::parse(wanted.self_signed(&key).unwrap().der()).unwrap()
    }

    fn dns(name: &str) -> rcgen::SanType {
        rcgen::SanType::DnsName(name.try_into().unwrap())
    }

    fn uri(name: &str) -> rcgen::SanType {
        rcgen::SanType::URI(name.try_into().unwrap())
    }

    #[test]
    fn a_rule_matches_a_name_of_its_kind() {
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
            assert!(matches!(refused, Err(LoginError::NoRole(_))), "{other}");
        }
        let alone = names(&["the nfvo"], Vec::new());
        assert_eq!(
            check(&rule("name: the nfvo"), &alone).unwrap().name,
            "the nfvo"
        );
        assert_eq!(Names::parse(b"no certificate"), None);
    }

    #[test]
    fn a_uri_or_a_second_common_name_does_not_match_as_dns_name() {
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
                    matches!(refused, Err(LoginError::NoRole(_))),
                    "{wanted} {forged:?}"
                );
            }
        }
    }

    #[test]
    fn a_rule_names_exactly_one_name() {
        for wrong in ["name: a, dns: b", "dns: a, uri: b"] {
            assert!(rule(wrong)[0].checked().is_err(), "{wrong}");
        }
    }
}
