//! Validates the chain from a signer's certificate to a trusted authority (RFC 5280 6).
//!
//! | checked | by |
//! |---|---|
//! | names, signatures, path length, name constraints, `basicConstraints`, validity, extended key usage | `webpki` |
//! | revocation, by the authorities' lists | `webpki` |
//! | `keyUsage` of signer and authorities; validity and path length constraint of the root | this file |
//! | whether the certificate itself is trusted | this file |
//!
//! Certificates of an authority without a revocation list are not checked for revocation; an expired list is an error.

use crate::certificate::{Certificate, blocks, is_pem};
use crate::fault::Fault;
use crate::signature::Signer;
use rustls_pki_types::{CertificateDer, TrustAnchor, UnixTime};
use std::time::Duration;
use webpki::{
    CertRevocationList, EndEntityCert, Error, ExpirationPolicy, ExtendedKeyUsageValidator,
    KeyPurposeIdIter, OwnedCertRevocationList, RevocationCheckDepth, RevocationOptionsBuilder,
    UnknownStatusPolicy, VerifiedPath,
};

/// The trusted certificates, and the revocation lists.
#[derive(Debug)]
pub struct Trust {
    trusted: Vec<Certificate>,
    revoked: Vec<CertRevocationList<'static>>,
}

impl Trust {
    /// Trusts the certificates of a file (PEM or DER), of authorities or of the vendors themselves; `revocations` is a file
    /// of revocation lists (PEM or DER).
    ///
    /// # Errors
    /// A file contains no certificate or list, or an invalid one.
    pub fn new(certificates: &[u8], revocations: Option<&[u8]>) -> Result<Self, Fault> {
        let trusted = Certificate::read(certificates)?;
        let lists = match revocations {
            None => Vec::new(),
            Some(bytes) if is_pem(bytes) => blocks(bytes, &["X509 CRL"])?,
            Some(bytes) => vec![bytes.to_vec()],
        };
        if revocations.is_some() && lists.is_empty() {
            return Err(Fault::File("the file holds no revocation list".to_owned()));
        }
        let list = |der: &Vec<u8>| {
            OwnedCertRevocationList::from_der(der)
                .map(CertRevocationList::from)
                .map_err(|error| {
                    Fault::File(format!(
                        "a revocation list cannot be read: {}",
                        describe(&error)
                    ))
                })
        };
        Ok(Self {
            trusted,
            revoked: lists.iter().map(list).collect::<Result<_, _>>()?,
        })
    }

    /// Checks that a signer is trusted at the time `at`, in seconds since 1970.
    ///
    /// # Errors
    /// [`Fault::Untrusted`] with the reason, such as a revoked certificate.
    pub fn check(&self, signer: &Signer, at: u64) -> Result<(), Fault> {
        let own = &signer.certificate;
        let untrusted = |why: String| Fault::Untrusted {
            subject: own.subject(),
            why,
        };
        let usage = own.key_usage();
        let usage = usage.map_err(|_| untrusted("its key usage cannot be read".to_owned()))?;
        if usage.is_some_and(|usage| !usage.digital_signature() && !usage.non_repudiation()) {
            return Err(untrusted(
                "its key is not for signatures (keyUsage)".to_owned(),
            ));
        }
        if let Some(why) = own.validity_error(at) {
            return Err(untrusted(why));
        }
        if self.trusted.contains(own) {
            return Ok(());
        }
        self.chain(signer, at).map_err(untrusted)
    }

    /// Builds and verifies a chain to one of the trusted authorities.
    fn chain(&self, signer: &Signer, at: u64) -> Result<(), String> {
        let fit = |trusted: &&Certificate| authority_error(trusted, at).is_none();
        let roots: Vec<CertificateDer<'_>> = self
            .trusted
            .iter()
            .filter(fit)
            .map(|one| CertificateDer::from(one.der()))
            .collect();
        let anchors: Vec<TrustAnchor<'_>> = roots
            .iter()
            .filter_map(|root| webpki::anchor_from_trusted_cert(root).ok())
            .collect();
        let between: Vec<CertificateDer<'_>> = signer
            .others
            .iter()
            .map(|one| CertificateDer::from(one.der()))
            .collect();
        let own = CertificateDer::from(signer.certificate.der());
        let own = EndEntityCert::try_from(&own).map_err(|error| describe(&error))?;
        let lists: Vec<&CertRevocationList<'_>> = self.revoked.iter().collect();
        let revocation = RevocationOptionsBuilder::new(&lists).ok().map(|options| {
            options
                .with_depth(RevocationCheckDepth::Chain)
                .with_status_policy(UnknownStatusPolicy::Allow)
                .with_expiration_policy(ExpirationPolicy::Enforce)
                .build()
        });
        let time = UnixTime::since_unix_epoch(Duration::from_secs(at));
        let path_check = |path: &VerifiedPath<'_>| {
            check_key_usages(path).and_then(|()| self.check_root_path_length(path))
        };
        let built = own.verify_for_usage(
            webpki::ALL_VERIFICATION_ALGS,
            &anchors,
            &between,
            time,
            SigningPurpose,
            revocation,
            Some(&path_check),
        );
        built.map(drop).map_err(|error| match error {
            Error::UnknownIssuer => self.no_chain_reason(signer, at),
            other => describe(&other),
        })
    }

    /// Checks the root's path length constraint: `webpki` checks only those of the intermediates.
    fn check_root_path_length(&self, path: &VerifiedPath<'_>) -> Result<(), Error> {
        let between = path.intermediate_certificates().count();
        let is_root = |one: &&Certificate| {
            let der = CertificateDer::from(one.der());
            webpki::anchor_from_trusted_cert(&der).is_ok_and(|anchor| anchor == *path.anchor())
        };
        let mut roots = self.trusted.iter().filter(is_root);
        let far = |root: &Certificate| {
            root.path_length()
                .is_some_and(|most| between > usize::from(most))
        };
        if roots.any(far) {
            Err(Error::PathLenConstraintViolated)
        } else {
            Ok(())
        }
    }

    /// The reason why no chain was found; names a trusted but unsuitable issuer.
    fn no_chain_reason(&self, signer: &Signer, at: u64) -> String {
        let others = signer.others.iter().map(Certificate::issuer);
        let wanted: Vec<String> = others.chain([signer.certificate.issuer()]).collect();
        let unfit = self.trusted.iter().find_map(|one| {
            let why = authority_error(one, at).filter(|_| wanted.contains(&one.subject()))?;
            Some(format!("; `{}` is trusted, but {why}", one.subject()))
        });
        let issuer = signer.certificate.issuer();
        let unfit = unfit.unwrap_or_default();
        format!("no chain leads from its issuer `{issuer}` to a trusted authority{unfit}")
    }
}

/// Why a trusted certificate may not issue others; `None` if it may.
fn authority_error(trusted: &Certificate, at: u64) -> Option<String> {
    if !trusted.is_authority() {
        return Some("it is not an authority (basicConstraints)".to_owned());
    }
    match trusted.key_usage() {
        Ok(usage) if usage.is_none_or(|usage| usage.key_cert_sign()) => trusted.validity_error(at),
        _ => Some("its key is not for certificates (keyUsage)".to_owned()),
    }
}

/// Checks that every intermediate may sign certificates: `webpki` does not check their key usage.
fn check_key_usages(path: &VerifiedPath<'_>) -> Result<(), Error> {
    for between in path.intermediate_certificates() {
        let read = Certificate::read(&between.der()).map_err(|_| Error::BadDer)?;
        let usage = read.first().and_then(|one| one.key_usage().ok());
        if usage.is_none_or(|usage| usage.is_some_and(|usage| !usage.key_cert_sign())) {
            return Err(Error::EndEntityUsedAsCa);
        }
    }
    Ok(())
}

/// The extended key usages that may sign packages (RFC 5280 4.2.1.12); a certificate without any may sign too.
struct SigningPurpose;

const ANY: &[usize] = &[2, 5, 29, 37, 0];
const CODE_SIGNING: &[usize] = &[1, 3, 6, 1, 5, 5, 7, 3, 3];
const EMAIL_PROTECTION: &[usize] = &[1, 3, 6, 1, 5, 5, 7, 3, 4];

impl ExtendedKeyUsageValidator for SigningPurpose {
    fn validate(&self, named: KeyPurposeIdIter<'_, '_>) -> Result<(), Error> {
        let mut restricted = false;
        for purpose in named {
            let purpose = purpose?.to_decoded_oid();
            if [ANY, CODE_SIGNING, EMAIL_PROTECTION].contains(&purpose.as_slice()) {
                return Ok(());
            }
            restricted = true;
        }
        if restricted {
            Err(Error::EmptyEkuExtension)
        } else {
            Ok(())
        }
    }
}

/// The error as text that names the problem with the certificate.
fn describe(error: &Error) -> String {
    let known = match error {
        Error::CertExpired { .. } => "an authority of its chain is no longer valid",
        Error::CertNotValidYet { .. } => "an authority of its chain is not valid yet",
        Error::CertRevoked => "it was revoked, or an authority of its chain was",
        Error::CrlExpired { .. } => "the revocation list of its issuer is out of date",
        Error::InvalidCrlSignatureForPublicKey => "a revocation list was not signed by its issuer",
        Error::IssuerNotCrlSigner => "its issuer may not revoke (keyUsage)",
        Error::UnsupportedCrlVersion => "a revocation list has version 1; version 2 is required",
        Error::CaUsedAsEndEntity => "it is an authority's own certificate and not a trusted one",
        Error::EndEntityUsedAsCa => "a certificate of its chain is not an authority's",
        Error::EmptyEkuExtension => {
            "it is not for signing: its extended key usage names neither codeSigning nor emailProtection"
        }
        Error::PathLenConstraintViolated => "its chain is longer than an authority allows",
        Error::NameConstraintViolation => "an authority of its chain may not certify its name",
        Error::InvalidSignatureForPublicKey => "a signature in its chain is invalid",
        other => return format!("{other}"),
    };
    known.to_owned()
}
