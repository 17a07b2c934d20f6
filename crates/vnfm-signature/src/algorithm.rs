//! Hash and signature algorithms: maps the identifiers of CMS to implementations.
//!
//! | | supported |
//! |---|---|
//! | hash | SHA-256, SHA-384, SHA-512 |
//! | RSA, 2048 to 8192 bits | PKCS #1 v1.5; PSS with any salt, MGF1 with the same hash |
//! | ECDSA | P-256, P-384, P-521 |
//!
//! Weaker algorithms (SHA-1, RSA of 1024 bits) are refused by name.

use crate::fault::Fault;
use aws_lc_rs::digest::{self, Digest};
use aws_lc_rs::signature::{self as lc, RsaPssSaltLength, VerificationAlgorithm};
use cms::cert::x509::spki::{AlgorithmIdentifierOwned, SubjectPublicKeyInfoOwned};
use const_oid::ObjectIdentifier;
use const_oid::db::{DB, rfc5912};
use der::{Decode as _, Encode as _, Sequence};

/// A hash function that signatures may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Hash {
    Sha256,
    Sha384,
    Sha512,
}

impl Hash {
    /// The hash with this identifier.
    pub(crate) fn from_oid(oid: ObjectIdentifier) -> Result<Self, Fault> {
        match oid {
            rfc5912::ID_SHA_256 => Ok(Hash::Sha256),
            rfc5912::ID_SHA_384 => Ok(Hash::Sha384),
            rfc5912::ID_SHA_512 => Ok(Hash::Sha512),
            other => Err(Fault::Hash(oid_name(other))),
        }
    }

    pub(crate) fn oid(self) -> ObjectIdentifier {
        match self {
            Hash::Sha256 => rfc5912::ID_SHA_256,
            Hash::Sha384 => rfc5912::ID_SHA_384,
            Hash::Sha512 => rfc5912::ID_SHA_512,
        }
    }

    pub(crate) fn algorithm(self) -> &'static digest::Algorithm {
        match self {
            Hash::Sha256 => &digest::SHA256,
            Hash::Sha384 => &digest::SHA384,
            Hash::Sha512 => &digest::SHA512,
        }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Hash::Sha256 => "SHA-256",
            Hash::Sha384 => "SHA-384",
            Hash::Sha512 => "SHA-512",
        }
    }
}

/// A signature scheme: key type and padding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scheme {
    Pkcs1,
    /// With the length of the salt in bytes.
    Pss(u16),
    Ecdsa,
}

impl Scheme {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Scheme::Pkcs1 => "RSA",
            Scheme::Pss(_) => "RSA-PSS",
            Scheme::Ecdsa => "ECDSA",
        }
    }
}

/// `RSASSA-PSS-params` (RFC 4055 3.1); absent members mean SHA-1 and a salt of 20 bytes.
#[derive(Debug, Clone, PartialEq, Eq, Sequence)]
pub(crate) struct PssParameters {
    #[asn1(context_specific = "0", tag_mode = "EXPLICIT", optional = "true")]
    pub(crate) hash: Option<AlgorithmIdentifierOwned>,
    #[asn1(context_specific = "1", tag_mode = "EXPLICIT", optional = "true")]
    pub(crate) mask: Option<AlgorithmIdentifierOwned>,
    #[asn1(context_specific = "2", tag_mode = "EXPLICIT", optional = "true")]
    pub(crate) salt: Option<u16>,
    #[asn1(context_specific = "3", tag_mode = "EXPLICIT", optional = "true")]
    pub(crate) trailer: Option<u8>,
}

/// The scheme that a CMS names; its hash must equal `hash`, that of the digest.
pub(crate) fn scheme(named: &AlgorithmIdentifierOwned, hash: Hash) -> Result<Scheme, Fault> {
    use rfc5912::{
        ECDSA_WITH_SHA_256, ECDSA_WITH_SHA_384, ECDSA_WITH_SHA_512, ID_RSASSA_PSS, RSA_ENCRYPTION,
        SHA_256_WITH_RSA_ENCRYPTION, SHA_384_WITH_RSA_ENCRYPTION, SHA_512_WITH_RSA_ENCRYPTION,
    };
    let (scheme, own) = match named.oid {
        RSA_ENCRYPTION => (Scheme::Pkcs1, hash),
        SHA_256_WITH_RSA_ENCRYPTION => (Scheme::Pkcs1, Hash::Sha256),
        SHA_384_WITH_RSA_ENCRYPTION => (Scheme::Pkcs1, Hash::Sha384),
        SHA_512_WITH_RSA_ENCRYPTION => (Scheme::Pkcs1, Hash::Sha512),
        ECDSA_WITH_SHA_256 => (Scheme::Ecdsa, Hash::Sha256),
        ECDSA_WITH_SHA_384 => (Scheme::Ecdsa, Hash::Sha384),
        ECDSA_WITH_SHA_512 => (Scheme::Ecdsa, Hash::Sha512),
        ID_RSASSA_PSS => pss_scheme(named)?,
        other => return Err(Fault::Algorithm(oid_name(other))),
    };
    if own != hash {
        return Err(Fault::Hash(format!(
            "{} for the content, {} for the signature",
            hash.name(),
            own.name()
        )));
    }
    Ok(scheme)
}

fn pss_scheme(named: &AlgorithmIdentifierOwned) -> Result<(Scheme, Hash), Fault> {
    let wrong = |problem: &str| Fault::Algorithm(format!("RSA-PSS {problem}"));
    let given = named
        .parameters
        .as_ref()
        .ok_or_else(|| wrong("without parameters"))?;
    let given: PssParameters = given
        .decode_as()
        .map_err(|_| wrong("with invalid parameters"))?;
    let hash = given.hash.as_ref().ok_or_else(|| wrong("with SHA-1"))?;
    let hash = Hash::from_oid(hash.oid)?;
    let mask = given
        .mask
        .as_ref()
        .filter(|mask| mask.oid == rfc5912::ID_MGF_1);
    let inner = mask.and_then(|mask| mask.parameters.as_ref()?.to_der().ok());
    let inner = inner.and_then(|der| AlgorithmIdentifierOwned::from_der(&der).ok());
    if inner.is_none_or(|inner| inner.oid != hash.oid()) {
        return Err(wrong("with a mask other than MGF1 of the same hash"));
    }
    if given.trailer.is_some_and(|trailer| trailer != 1) {
        return Err(wrong("with an unknown trailer"));
    }
    Ok((Scheme::Pss(given.salt.unwrap_or(20)), hash))
}

/// Whether `signature` is a valid signature of `digest` by the key.
pub(crate) fn verify(
    key: &SubjectPublicKeyInfoOwned,
    (scheme, hash): (Scheme, Hash),
    digest: &Digest,
    signature: &[u8],
) -> Result<bool, Fault> {
    let bytes = key.subject_public_key.raw_bytes();
    let is_rsa = matches!(
        key.algorithm.oid,
        rfc5912::RSA_ENCRYPTION | rfc5912::ID_RSASSA_PSS
    );
    let fits = |algorithm: &dyn VerificationAlgorithm| {
        algorithm
            .verify_digest_sig(bytes, digest, signature)
            .is_ok()
    };
    Ok(match scheme {
        Scheme::Pkcs1 if is_rsa => fits(match hash {
            Hash::Sha256 => &lc::RSA_PKCS1_2048_8192_SHA256,
            Hash::Sha384 => &lc::RSA_PKCS1_2048_8192_SHA384,
            Hash::Sha512 => &lc::RSA_PKCS1_2048_8192_SHA512,
        }),
        Scheme::Pss(salt) if is_rsa => {
            let algorithm = match hash {
                Hash::Sha256 => lc::RSA_PSS_2048_8192_SHA256,
                Hash::Sha384 => lc::RSA_PSS_2048_8192_SHA384,
                Hash::Sha512 => lc::RSA_PSS_2048_8192_SHA512,
            };
            fits(&algorithm.with_pss_salt_length(RsaPssSaltLength::Custom(salt)))
        }
        Scheme::Ecdsa if key.algorithm.oid == rfc5912::ID_EC_PUBLIC_KEY => {
            fits(ecdsa_algorithm(key, hash)?)
        }
        _ => {
            let combination = format!(
                "{} with a key of {}",
                scheme.name(),
                oid_name(key.algorithm.oid)
            );
            return Err(Fault::Algorithm(combination));
        }
    })
}

fn ecdsa_algorithm(
    key: &SubjectPublicKeyInfoOwned,
    hash: Hash,
) -> Result<&'static dyn VerificationAlgorithm, Fault> {
    let parameters = key.algorithm.parameters.as_ref();
    let curve = parameters.and_then(|curve| curve.decode_as::<ObjectIdentifier>().ok());
    let curve = curve.ok_or_else(|| Fault::Algorithm("ECDSA on an unnamed curve".to_owned()))?;
    Ok(match (curve, hash) {
        (rfc5912::SECP_256_R_1, Hash::Sha256) => &lc::ECDSA_P256_SHA256_ASN1,
        (rfc5912::SECP_256_R_1, Hash::Sha384) => &lc::ECDSA_P256_SHA384_ASN1,
        (rfc5912::SECP_256_R_1, Hash::Sha512) => &lc::ECDSA_P256_SHA512_ASN1,
        (rfc5912::SECP_384_R_1, Hash::Sha256) => &lc::ECDSA_P384_SHA256_ASN1,
        (rfc5912::SECP_384_R_1, Hash::Sha384) => &lc::ECDSA_P384_SHA384_ASN1,
        (rfc5912::SECP_384_R_1, Hash::Sha512) => &lc::ECDSA_P384_SHA512_ASN1,
        (rfc5912::SECP_521_R_1, Hash::Sha256) => &lc::ECDSA_P521_SHA256_ASN1,
        (rfc5912::SECP_521_R_1, Hash::Sha384) => &lc::ECDSA_P521_SHA384_ASN1,
        (rfc5912::SECP_521_R_1, Hash::Sha512) => &lc::ECDSA_P521_SHA512_ASN1,
        (other, _) => return Err(Fault::Algorithm(format!("ECDSA on {}", oid_name(other)))),
    })
}

/// The name of an identifier, or its numbers if unknown.
pub(crate) fn oid_name(oid: ObjectIdentifier) -> String {
    DB.by_oid(&oid)
        .map_or_else(|| oid.to_string(), str::to_owned)
}

/// The scheme and hash, such as `ECDSA with SHA-256`.
pub(crate) fn name(scheme: Scheme, hash: Hash) -> String {
    format!("{} with {}", scheme.name(), hash.name())
}
