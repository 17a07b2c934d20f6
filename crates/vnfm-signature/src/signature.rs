//! Detached CMS signatures (RFC 5652): parsing, and verification against the content.
//!
//! ```text
//! Signature::read ─► verifier() ─► write the content ─► finish(certificates) ─► Signer
//!                                  (any length,          for each signer: hash, attributes, certificate, key
//!                                   constant memory)
//! ```
//! All signers of a signature must match. [`crate::Trust`] checks afterwards whether they are trusted.

use crate::algorithm::{self, Hash};
use crate::certificate::{Certificate, blocks, is_pem};
use crate::fault::{Fault, MAX_SIGNATURE_LEN, MAX_SIGNERS};
use aws_lc_rs::digest::{Context, Digest, digest};
use cms::content_info::ContentInfo;
use cms::signed_data::{SignedData, SignerIdentifier, SignerInfo};
use const_oid::ObjectIdentifier;
use const_oid::db::rfc5911;
use der::asn1::{Any, OctetString, SetOfVec};
use der::{Decode as _, Encode as _, EncodingRules};
use std::io::{self, Write};

const LABELS: &[&str] = &["CMS", "PKCS7", "PKCS #7 SIGNED DATA"];

/// A parsed CMS signature, not yet verified.
#[derive(Debug, Clone)]
pub struct Signature {
    signers: Vec<SignerInfo>,
    content: ObjectIdentifier,
    certificates: Vec<Certificate>,
}

/// A signer whose signature was verified.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Signer {
    /// The certificate of the key that signed.
    pub certificate: Certificate,
    /// The algorithm, such as `RSA-PSS with SHA-256`.
    pub algorithm: String,
    /// Certificates supplied with it, which may lead to an authority.
    pub(crate) others: Vec<Certificate>,
}

impl Signature {
    /// Parses a signature: PEM, DER, or BER of indefinite length.
    ///
    /// # Errors
    /// It is not a detached signature, or exceeds a limit.
    pub fn read(bytes: &[u8]) -> Result<Self, Fault> {
        if bytes.len() > MAX_SIGNATURE_LEN {
            return Err(Fault::TooLarge(bytes.len()));
        }
        let mut found = if is_pem(bytes) {
            blocks(bytes, LABELS).map_err(|error| Fault::NotCms(error.to_string()))?
        } else {
            vec![bytes.to_vec()]
        };
        let Some(der) = found.pop().filter(|_| found.is_empty()) else {
            let many = if found.is_empty() {
                "no PEM block `CMS`"
            } else {
                "several PEM blocks"
            };
            return Err(Fault::NotCms(many.to_owned()));
        };
        let signed = match signed_data(&der, EncodingRules::Der) {
            Ok(signed) => signed?,
            Err(_) => signed_data(&der, EncodingRules::Ber)
                .map_err(|error| Fault::NotCms(error.to_string()))??,
        };
        Self::from_signed_data(signed)
    }

    fn from_signed_data(signed: SignedData) -> Result<Self, Fault> {
        if signed.encap_content_info.econtent.is_some() {
            return Err(Fault::Attached);
        }
        let signers = signed.signer_infos.0.into_vec();
        match signers.len() {
            0 => return Err(Fault::NoSigner),
            many if many > MAX_SIGNERS => return Err(Fault::TooManySigners(many)),
            _ => {}
        }
        let certificates = signed.certificates.iter().flat_map(|all| all.0.iter());
        Ok(Self {
            signers,
            content: signed.encap_content_info.econtent_type,
            certificates: certificates.filter_map(Certificate::from_cms).collect(),
        })
    }

    /// A writer for the content, which then verifies the signature.
    ///
    /// # Errors
    /// A hash is weak or unknown.
    pub fn verifier(&self) -> Result<Verifier<'_>, Fault> {
        let mut hashes: Vec<(Hash, Context)> = Vec::new();
        for signer in &self.signers {
            let hash = Hash::from_oid(signer.digest_alg.oid)?;
            if hashes.iter().all(|(known, _)| *known != hash) {
                hashes.push((hash, Context::new(hash.algorithm())));
            }
        }
        Ok(Verifier {
            signature: self,
            hashes,
        })
    }

    /// Verifies the signature of content in memory.
    ///
    /// # Errors
    /// Those of [`Verifier::finish`], such as changed content.
    pub fn verify(&self, content: &[u8], extra: &[Certificate]) -> Result<Vec<Signer>, Fault> {
        let mut verifier = self.verifier()?;
        verifier.update(content);
        verifier.finish(extra)
    }
}

fn signed_data(der: &[u8], rules: EncodingRules) -> Result<Result<SignedData, Fault>, der::Error> {
    let info = if rules == EncodingRules::Der {
        ContentInfo::from_der(der)?
    } else {
        ContentInfo::from_ber(der)?
    };
    if info.content_type != rfc5911::ID_SIGNED_DATA {
        return Ok(Err(Fault::NotSigned(algorithm::oid_name(
            info.content_type,
        ))));
    }
    let content = der::asn1::AnyRef::from(&info.content);
    content.decode_as_encoding::<SignedData>(rules).map(Ok)
}

/// Hashes content and verifies its signature.
pub struct Verifier<'a> {
    signature: &'a Signature,
    hashes: Vec<(Hash, Context)>,
}

impl Verifier<'_> {
    fn update(&mut self, bytes: &[u8]) {
        self.hashes
            .iter_mut()
            .for_each(|(_, context)| context.update(bytes));
    }

    /// Verifies the signature of what was written; `extra` are certificates from outside the signature.
    ///
    /// # Errors
    /// The content was changed, a certificate is missing, or an algorithm is not supported.
    pub fn finish(self, extra: &[Certificate]) -> Result<Vec<Signer>, Fault> {
        let Self { signature, hashes } = self;
        let digests: Vec<(Hash, Digest)> = hashes
            .into_iter()
            .map(|(hash, context)| (hash, context.finish()))
            .collect();
        let known: Vec<Certificate> = signature
            .certificates
            .iter()
            .chain(extra)
            .cloned()
            .collect();
        let one = |signer: &SignerInfo| {
            let hash = Hash::from_oid(signer.digest_alg.oid)?;
            let content = digests.iter().find(|(known, _)| *known == hash);
            let (_, content) = content.ok_or(Fault::Content)?;
            verify_signer(signer, signature.content, (hash, content), &known)
        };
        signature.signers.iter().map(one).collect()
    }
}

impl Write for Verifier<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.update(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Verifies that one signer signed the content.
fn verify_signer(
    signer: &SignerInfo,
    content_type: ObjectIdentifier,
    (hash, content): (Hash, &Digest),
    known: &[Certificate],
) -> Result<Signer, Fault> {
    let scheme = algorithm::scheme(&signer.signature_algorithm, hash)?;
    let certificate = known
        .iter()
        .find(|certificate| certificate.matches(&signer.sid));
    let certificate = certificate.ok_or_else(|| Fault::NoCertificate(signer_name(&signer.sid)))?;
    let signed = signed_digest(signer, content_type, (hash, content))?;
    let key = certificate
        .parsed
        .tbs_certificate()
        .subject_public_key_info();
    if !algorithm::verify(key, (scheme, hash), &signed, signer.signature.as_bytes())? {
        return Err(Fault::Signature(certificate.subject()));
    }
    let others = known
        .iter()
        .filter(|other| *other != certificate)
        .cloned()
        .collect();
    let algorithm = algorithm::name(scheme, hash);
    Ok(Signer {
        certificate: certificate.clone(),
        algorithm,
        others,
    })
}

/// The digest that the key signed: of the content, or of attributes that contain the content's (RFC 5652 5.4).
fn signed_digest(
    signer: &SignerInfo,
    content_type: ObjectIdentifier,
    (hash, content): (Hash, &Digest),
) -> Result<Digest, Fault> {
    let Some(attributes) = &signer.signed_attrs else {
        if content_type != rfc5911::ID_DATA {
            return Err(Fault::Attributes(
                "they are absent, and the content is not plain data",
            ));
        }
        return Ok(*content);
    };
    let one = |oid: ObjectIdentifier| -> Option<&Any> {
        let mut found = attributes.iter().filter(|attribute| attribute.oid == oid);
        let only = found.next().filter(|_| found.next().is_none())?;
        only.values.get(0).filter(|_| only.values.len() == 1)
    };
    let stated = one(rfc5911::ID_CONTENT_TYPE).and_then(|value| value.decode_as().ok());
    if stated != Some(content_type) {
        return Err(Fault::Attributes("the content type is absent or wrong"));
    }
    let stated = one(rfc5911::ID_MESSAGE_DIGEST);
    let stated: Option<OctetString> = stated.and_then(|value| value.decode_as().ok());
    let stated = stated.ok_or(Fault::Attributes("the hash of the content is absent"))?;
    if stated.as_bytes() != content.as_ref() {
        return Err(Fault::Content);
    }
    // The DER of the set is signed, whatever the encoding of the signature itself.
    let sorted = SetOfVec::try_from(attributes.iter().cloned().collect::<Vec<_>>());
    let der = sorted.and_then(|set| set.to_der());
    let der = der.map_err(|_| Fault::Attributes("they cannot be encoded as DER"))?;
    Ok(digest(hash.algorithm(), &der))
}

fn signer_name(signer: &SignerIdentifier) -> String {
    match signer {
        SignerIdentifier::IssuerAndSerialNumber(one) => {
            format!("{} of {}", one.serial_number, one.issuer)
        }
        SignerIdentifier::SubjectKeyIdentifier(key) => hex::encode(key.0.as_bytes()),
    }
}
