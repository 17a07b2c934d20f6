//! From a signer's certificate to an authority that somebody trusts (RFC 5280 6).
//!
//! | looked at | by |
//! |---|---|
//! | names, signatures, length of the chain, name constraints, `basicConstraints`, validity, extended key usage | `webpki` |
//! | revocation, by lists of the authorities | `webpki` |
//! | `keyUsage` of signer and authorities; validity of the root, and the length of a chain that it allows | here |
//! | the certificate itself is among the trusted ones | here |
//!
//! An authority without a revocation list revokes nothing; a list that is out of date refuses what it speaks of.

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

/// The certificates that are trusted, and what was revoked.
#[derive(Debug)]
pub struct Trust {
    trusted: Vec<Certificate>,
    revoked: Vec<CertRevocationList<'static>>,
}

impl Trust {
    /// Trusts the certificates of a file (PEM or DER), of authorities or of vendors themselves; `revocations` is a
    /// file of revocation lists (PEM or DER).
    ///
    /// # Errors
    /// One of the files holds nothing, or what cannot be read.
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
                        reason(&error)
                    ))
                })
        };
        Ok(Self {
            trusted,
            revoked: lists.iter().map(list).collect::<Result<_, _>>()?,
        })
    }

    /// Whether a signer is trusted at the time `at`, in seconds since 1970.
    ///
    /// # Errors
    /// Why not.
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
        if let Some(why) = own.out_of_time(at) {
            return Err(untrusted(why));
        }
        if self.trusted.contains(own) {
            return Ok(());
        }
        self.chain(signer, at).map_err(untrusted)
    }

    /// Builds a chain to one of the authorities.
    fn chain(&self, signer: &Signer, at: u64) -> Result<(), String> {
        let fit = |trusted: &&Certificate| unfit(trusted, at).is_none();
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
        let own = EndEntityCert::try_from(&own).map_err(|error| reason(&error))?;
        let lists: Vec<&CertRevocationList<'_>> = self.revoked.iter().collect();
        let revocation = RevocationOptionsBuilder::new(&lists).ok().map(|options| {
            options
                .with_depth(RevocationCheckDepth::Chain)
                .with_status_policy(UnknownStatusPolicy::Allow)
                .with_expiration_policy(ExpirationPolicy::Enforce)
                .build()
        });
        let time = UnixTime::since_unix_epoch(Duration::from_secs(at));
        let whole = |path: &VerifiedPath<'_>| signs(path).and_then(|()| self.reaches(path));
        let built = own.verify_for_usage(
            webpki::ALL_VERIFICATION_ALGS,
            &anchors,
            &between,
            time,
            Purpose,
            revocation,
            Some(&whole),
        );
        built.map(drop).map_err(|error| match error {
            Error::UnknownIssuer => self.nobody(signer, at),
            other => reason(&other),
        })
    }

    /// No more authorities stand below the root than it allows: `webpki` asks those between alone.
    fn reaches(&self, path: &VerifiedPath<'_>) -> Result<(), Error> {
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

    /// Why no authority was found.
    fn nobody(&self, signer: &Signer, at: u64) -> String {
        let others = signer.others.iter().map(Certificate::issuer);
        let wanted: Vec<String> = others.chain([signer.certificate.issuer()]).collect();
        let unfit = self.trusted.iter().find_map(|one| {
            let why = unfit(one, at).filter(|_| wanted.contains(&one.subject()))?;
            Some(format!("; `{}` is trusted, but {why}", one.subject()))
        });
        let issuer = signer.certificate.issuer();
        let unfit = unfit.unwrap_or_default();
        format!("no chain leads from its issuer `{issuer}` to an authority that is trusted{unfit}")
    }
}

/// Why a trusted certificate cannot vouch for others.
fn unfit(trusted: &Certificate, at: u64) -> Option<String> {
    if !trusted.is_authority() {
        return Some("it is no authority (basicConstraints)".to_owned());
    }
    match trusted.key_usage() {
        Ok(usage) if usage.is_none_or(|usage| usage.key_cert_sign()) => trusted.out_of_time(at),
        _ => Some("its key is not for certificates (keyUsage)".to_owned()),
    }
}

/// Every authority between may sign certificates: `webpki` does not look at their key usage.
fn signs(path: &VerifiedPath<'_>) -> Result<(), Error> {
    for between in path.intermediate_certificates() {
        let read = Certificate::read(&between.der()).map_err(|_| Error::BadDer)?;
        let usage = read.first().and_then(|one| one.key_usage().ok());
        if usage.is_none_or(|usage| usage.is_some_and(|usage| !usage.key_cert_sign())) {
            return Err(Error::EndEntityUsedAsCa);
        }
    }
    Ok(())
}

/// For which purposes a certificate may sign packages (RFC 5280 4.2.1.12), where it names any.
struct Purpose;

const ANY: &[usize] = &[2, 5, 29, 37, 0];
const CODE_SIGNING: &[usize] = &[1, 3, 6, 1, 5, 5, 7, 3, 3];
const EMAIL_PROTECTION: &[usize] = &[1, 3, 6, 1, 5, 5, 7, 3, 4];

impl ExtendedKeyUsageValidator for Purpose {
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

/// In words.
fn reason(error: &Error) -> String {
    let known = match error {
        Error::CertExpired { .. } => "an authority of its chain is no longer valid",
        Error::CertNotValidYet { .. } => "an authority of its chain is not valid yet",
        Error::CertRevoked => "it was revoked, or an authority of its chain was",
        Error::CrlExpired { .. } => "the revocation list of its issuer is out of date",
        Error::InvalidCrlSignatureForPublicKey => "a revocation list is not its issuer's",
        Error::IssuerNotCrlSigner => "its issuer may not revoke (keyUsage)",
        Error::UnsupportedCrlVersion => "it is of version 1; version 2 is read",
        Error::CaUsedAsEndEntity => {
            "it is an authority's own, and not among the certificates that are trusted"
        }
        Error::EndEntityUsedAsCa => "a certificate of its chain is no authority's",
        Error::EmptyEkuExtension => {
            "it is not for signing: its extended key usage names neither codeSigning nor emailProtection"
        }
        Error::PathLenConstraintViolated => "its chain is longer than an authority allows",
        Error::NameConstraintViolation => "an authority of its chain may not vouch for its name",
        Error::InvalidSignatureForPublicKey => "a signature of its chain does not fit",
        other => return format!("{other}"),
    };
    known.to_owned()
}
