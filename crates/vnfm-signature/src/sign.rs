//! Creates signatures as SOL004 requires: detached, with signed attributes, certificates included or separate.
//!
//! They contain no time, so that RSA gives the same bytes for the same content. Each signature is verified before it is
//! returned, so that a key that does not match the certificate is noticed here and not by a customer.

use crate::algorithm::{Hash, PssParameters, Scheme, verify};
use crate::certificate::{Certificate, is_pem, to_pem};
use crate::fault::Fault;
use aws_lc_rs::digest::{Context, Digest, digest};
use aws_lc_rs::signature::{self as lc, EcdsaKeyPair, RsaKeyPair};
use cms::cert::CertificateChoices;
use cms::cert::x509::attr::Attribute;
use cms::cert::x509::spki::AlgorithmIdentifierOwned;
use cms::content_info::{CmsVersion, ContentInfo};
use cms::signed_data::{
    CertificateSet, EncapsulatedContentInfo, SignedData, SignerInfo, SignerInfos,
};
use const_oid::ObjectIdentifier;
use const_oid::db::{rfc5911, rfc5912};
use der::asn1::{Any, OctetString, SetOfVec};
use der::{Decode as _, Encode};
use std::io::{self, Write};

/// The padding of RSA signatures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Padding {
    /// PKCS #1 v1.5, which every verifier supports.
    #[default]
    Pkcs1,
    /// PSS, with a salt as long as the hash.
    Pss,
}

/// A private key for signing.
pub struct Key {
    pair: Pair,
    hash: Hash,
}

enum Pair {
    Rsa(RsaKeyPair, Padding),
    Ecdsa(EcdsaKeyPair),
}

impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Key([hidden])")
    }
}

impl Key {
    /// Parses a key from PEM or DER: PKCS #8, `RSA PRIVATE KEY` or `EC PRIVATE KEY`; RSA, P-256, P-384 or P-521.
    ///
    /// # Errors
    /// The key is encrypted, of another kind, or RSA of less than 2048 bits.
    pub fn read(bytes: &[u8], padding: Padding) -> Result<Self, Fault> {
        let der = if is_pem(bytes) {
            private(bytes)?
        } else {
            bytes.to_vec()
        };
        if let Ok(pair) = RsaKeyPair::from_pkcs8(&der).or_else(|_| RsaKeyPair::from_der(&der)) {
            return Ok(Self {
                pair: Pair::Rsa(pair, padding),
                hash: Hash::Sha256,
            });
        }
        let curves = [
            (&lc::ECDSA_P256_SHA256_ASN1_SIGNING, Hash::Sha256),
            (&lc::ECDSA_P384_SHA384_ASN1_SIGNING, Hash::Sha384),
            (&lc::ECDSA_P521_SHA512_ASN1_SIGNING, Hash::Sha512),
        ];
        let mut found = curves.iter().filter_map(|(curve, hash)| {
            let pair = EcdsaKeyPair::from_private_key_der(curve, &der).ok()?;
            Some(Self {
                pair: Pair::Ecdsa(pair),
                hash: *hash,
            })
        });
        found.next().ok_or_else(|| {
            Fault::File(
                "the private key is not supported; use RSA of 2048 bits or more, or P-256, P-384, P-521"
                    .to_owned(),
            )
        })
    }

    fn scheme(&self) -> Scheme {
        match &self.pair {
            Pair::Rsa(_, Padding::Pkcs1) => Scheme::Pkcs1,
            Pair::Rsa(_, Padding::Pss) => Scheme::Pss(32),
            Pair::Ecdsa(_) => Scheme::Ecdsa,
        }
    }

    /// The signature algorithm, such as `RSA with SHA-256`.
    pub fn algorithm(&self) -> String {
        crate::algorithm::name(self.scheme(), self.hash)
    }

    fn sign(&self, digest: &Digest) -> Result<Vec<u8>, Fault> {
        let failed = |_| Fault::File("the private key cannot sign".to_owned());
        match &self.pair {
            Pair::Rsa(pair, padding) => {
                let encoding: &'static dyn lc::RsaEncoding = match padding {
                    Padding::Pkcs1 => &lc::RSA_PKCS1_SHA256,
                    Padding::Pss => &lc::RSA_PSS_SHA256,
                };
                let mut signature = vec![0; pair.public_modulus_len()];
                pair.sign_digest(encoding, digest, &mut signature)
                    .map_err(failed)?;
                Ok(signature)
            }
            Pair::Ecdsa(pair) => Ok(pair.sign_digest(digest).map_err(failed)?.as_ref().to_vec()),
        }
    }

    fn identifier(&self) -> Result<AlgorithmIdentifierOwned, der::Error> {
        let plain = |oid| {
            Ok(AlgorithmIdentifierOwned {
                oid,
                parameters: None,
            })
        };
        match self.scheme() {
            Scheme::Pkcs1 => Ok(AlgorithmIdentifierOwned {
                oid: rfc5912::RSA_ENCRYPTION,
                parameters: Some(Any::null()),
            }),
            Scheme::Pss(salt) => pss(self.hash, salt),
            Scheme::Ecdsa => plain(match self.hash {
                Hash::Sha256 => rfc5912::ECDSA_WITH_SHA_256,
                Hash::Sha384 => rfc5912::ECDSA_WITH_SHA_384,
                Hash::Sha512 => rfc5912::ECDSA_WITH_SHA_512,
            }),
        }
    }
}

fn pss(hash: Hash, salt: u16) -> Result<AlgorithmIdentifierOwned, der::Error> {
    let inner = AlgorithmIdentifierOwned {
        oid: hash.oid(),
        parameters: Some(Any::null()),
    };
    let mask = AlgorithmIdentifierOwned {
        oid: rfc5912::ID_MGF_1,
        parameters: Some(any(&inner)?),
    };
    let parameters = PssParameters {
        hash: Some(inner),
        mask: Some(mask),
        salt: Some(salt),
        trailer: None,
    };
    Ok(AlgorithmIdentifierOwned {
        oid: rfc5912::ID_RSASSA_PSS,
        parameters: Some(any(&parameters)?),
    })
}

/// The first private key of a PEM file.
fn private(bytes: &[u8]) -> Result<Vec<u8>, Fault> {
    const LABELS: &[&str] = &["PRIVATE KEY", "RSA PRIVATE KEY", "EC PRIVATE KEY"];
    let all = pem::parse_many(bytes)
        .map_err(|error| Fault::File(format!("the private key's PEM cannot be read: {error}")))?;
    let encrypted = all.iter().any(|block| {
        block.tag() == "ENCRYPTED PRIVATE KEY" || block.headers().get("Proc-Type").is_some()
    });
    if encrypted {
        return Err(Fault::File(
            "the private key is encrypted; `openssl pkey -in KEY -out PLAIN` decrypts it"
                .to_owned(),
        ));
    }
    let key = all.into_iter().find(|block| LABELS.contains(&block.tag()));
    let key = key.ok_or_else(|| Fault::File("the file holds no private key".to_owned()))?;
    Ok(key.into_contents())
}

/// Signs the content that is written to it.
pub struct Signing<'a> {
    key: &'a Key,
    chain: &'a [Certificate],
    context: Context,
}

impl<'a> Signing<'a> {
    /// Signs with a key; `chain` starts with its certificate and leads to an authority.
    pub fn new(key: &'a Key, chain: &'a [Certificate]) -> Self {
        Self {
            key,
            chain,
            context: Context::new(key.hash.algorithm()),
        }
    }

    /// Returns the signature as DER; it includes the certificates if `with_chain`.
    ///
    /// # Errors
    /// The key does not match the certificate, or cannot sign.
    pub fn finish(self, with_chain: bool) -> Result<Vec<u8>, Fault> {
        let Self {
            key,
            chain,
            context,
        } = self;
        let own = chain
            .first()
            .ok_or_else(|| Fault::File("signing requires a certificate".to_owned()))?;
        let content = context.finish();
        let written =
            |error: der::Error| Fault::File(format!("the signature cannot be encoded: {error}"));
        let attributes = attributes(content.as_ref()).map_err(written)?;
        let signed = digest(key.hash.algorithm(), &attributes.to_der().map_err(written)?);
        let signature = key.sign(&signed)?;
        let public = own.parsed.tbs_certificate().subject_public_key_info();
        if !verify(public, (key.scheme(), key.hash), &signed, &signature)? {
            let what = format!(
                "the private key does not match the certificate `{}`",
                own.subject()
            );
            return Err(Fault::File(what));
        }
        let signer = SignerInfo {
            version: CmsVersion::V1,
            sid: own.identifier(),
            digest_alg: AlgorithmIdentifierOwned {
                oid: key.hash.oid(),
                parameters: None,
            },
            signed_attrs: Some(attributes),
            signature_algorithm: key.identifier().map_err(written)?,
            signature: OctetString::new(signature).map_err(written)?,
            unsigned_attrs: None,
        };
        wrapped(signer, if with_chain { chain } else { &[] }).map_err(written)
    }
}

impl Write for Signing<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.context.update(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The signed attributes: the content's type and hash.
fn attributes(content: &[u8]) -> Result<SetOfVec<Attribute>, der::Error> {
    let one = |oid, value: Any| -> Result<Attribute, der::Error> {
        Ok(Attribute {
            oid,
            values: SetOfVec::try_from(vec![value])?,
        })
    };
    SetOfVec::try_from(vec![
        one(rfc5911::ID_CONTENT_TYPE, any(&rfc5911::ID_DATA)?)?,
        one(
            rfc5911::ID_MESSAGE_DIGEST,
            any(&OctetString::new(content)?)?,
        )?,
    ])
}

fn wrapped(signer: SignerInfo, chain: &[Certificate]) -> Result<Vec<u8>, der::Error> {
    let all: Vec<CertificateChoices> = chain
        .iter()
        .map(|one| CertificateChoices::Certificate(one.parsed.clone()))
        .collect();
    let certificates = if all.is_empty() {
        None
    } else {
        Some(CertificateSet(SetOfVec::try_from(all)?))
    };
    let data: ObjectIdentifier = rfc5911::ID_DATA;
    let signed = SignedData {
        version: CmsVersion::V1,
        digest_algorithms: SetOfVec::try_from(vec![signer.digest_alg.clone()])?,
        encap_content_info: EncapsulatedContentInfo {
            econtent_type: data,
            econtent: None,
        },
        certificates,
        crls: None,
        signer_infos: SignerInfos(SetOfVec::try_from(vec![signer])?),
    };
    ContentInfo {
        content_type: rfc5911::ID_SIGNED_DATA,
        content: any(&signed)?,
    }
    .to_der()
}

fn any(value: &impl Encode) -> Result<Any, der::Error> {
    Any::from_der(&value.to_der()?)
}

/// Encodes a signature as PEM with the label `CMS`.
pub fn signature_pem(der: &[u8]) -> String {
    to_pem("CMS", der)
}
