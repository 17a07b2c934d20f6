//! Certificates, from PEM or DER files with one or several.

use crate::fault::Fault;
use cms::cert::{CertificateChoices, IssuerAndSerialNumber};
use cms::signed_data::SignerIdentifier;
use der::{Decode as _, Encode as _};
use x509_cert::ext::pkix::{BasicConstraints, KeyUsage, SubjectKeyIdentifier};

/// Maximum size of a certificate file in bytes.
const MAX_FILE_LEN: usize = 1 << 20;

/// A certificate (RFC 5280), parsed but not verified.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Certificate {
    der: Vec<u8>,
    pub(crate) parsed: x509_cert::Certificate,
}

impl Certificate {
    /// Parses the certificates of a PEM or DER file; ignores other PEM blocks.
    ///
    /// # Errors
    /// The file contains no certificate, or an invalid one.
    pub fn read(bytes: &[u8]) -> Result<Vec<Self>, Fault> {
        if bytes.len() > MAX_FILE_LEN {
            return Err(Fault::File(format!(
                "a certificate file has {} bytes; at most {MAX_FILE_LEN} are allowed",
                bytes.len()
            )));
        }
        let all: Vec<Self> = if is_pem(bytes) {
            blocks(
                bytes,
                &["CERTIFICATE", "TRUSTED CERTIFICATE", "X509 CERTIFICATE"],
            )?
            .iter()
            .map(|der| Self::from_der(der))
            .collect::<Result<_, _>>()?
        } else {
            vec![Self::from_der(bytes)?]
        };
        if all.is_empty() {
            return Err(Fault::File("the file holds no certificate".to_owned()));
        }
        Ok(all)
    }

    fn from_der(der: &[u8]) -> Result<Self, Fault> {
        let parsed = x509_cert::Certificate::from_der(der)
            .map_err(|error| Fault::File(format!("a certificate cannot be read: {error}")))?;
        Ok(Self {
            der: der.to_vec(),
            parsed,
        })
    }

    /// A certificate from a CMS; `None` for forms other than X.509.
    pub(crate) fn from_cms(choice: &CertificateChoices) -> Option<Self> {
        let CertificateChoices::Certificate(parsed) = choice else {
            return None;
        };
        Some(Self {
            der: parsed.to_der().ok()?,
            parsed: parsed.clone(),
        })
    }

    /// The certificate in its DER encoding.
    pub fn der(&self) -> &[u8] {
        &self.der
    }

    /// The certificate as one PEM block.
    pub fn to_pem(&self) -> String {
        to_pem("CERTIFICATE", &self.der)
    }

    /// Its subject, such as `CN=Vendor,O=Example`.
    pub fn subject(&self) -> String {
        self.parsed.tbs_certificate().subject().to_string()
    }

    /// The subject of the authority that issued it.
    pub fn issuer(&self) -> String {
        self.parsed.tbs_certificate().issuer().to_string()
    }

    /// The last second of its validity, since 1970.
    pub fn not_after(&self) -> u64 {
        self.parsed
            .tbs_certificate()
            .validity()
            .not_after
            .to_unix_duration()
            .as_secs()
    }

    /// Why it is not valid at `at`, in seconds since 1970; `None` if it is.
    pub(crate) fn validity_error(&self, at: u64) -> Option<String> {
        let validity = self.parsed.tbs_certificate().validity();
        let (from, to) = (validity.not_before, validity.not_after);
        if at < from.to_unix_duration().as_secs() {
            Some(format!("it is not valid before {from}"))
        } else if at > to.to_unix_duration().as_secs() {
            Some(format!("it was valid until {to}"))
        } else {
            None
        }
    }

    /// The permitted uses of its key; `None` if unrestricted.
    pub(crate) fn key_usage(&self) -> Result<Option<KeyUsage>, der::Error> {
        let found = self.parsed.tbs_certificate().get_extension::<KeyUsage>()?;
        Ok(found.map(|(_, usage)| usage))
    }

    /// Whether `basicConstraints` marks it as an authority.
    pub(crate) fn is_authority(&self) -> bool {
        let found = self
            .parsed
            .tbs_certificate()
            .get_extension::<BasicConstraints>();
        matches!(found, Ok(Some((_, BasicConstraints { ca: true, .. }))))
    }

    /// How many intermediates it allows between itself and a signer; `None` if unlimited.
    pub(crate) fn path_length(&self) -> Option<u8> {
        let found = self
            .parsed
            .tbs_certificate()
            .get_extension::<BasicConstraints>();
        found
            .ok()
            .flatten()
            .and_then(|(_, constraints)| constraints.path_len_constraint)
    }

    /// Whether a CMS identifies its signer by this certificate.
    pub(crate) fn matches(&self, signer: &SignerIdentifier) -> bool {
        let own = self.parsed.tbs_certificate();
        match signer {
            SignerIdentifier::IssuerAndSerialNumber(wanted) => {
                wanted.issuer == *own.issuer() && wanted.serial_number == *own.serial_number()
            }
            SignerIdentifier::SubjectKeyIdentifier(wanted) => {
                let found = own.get_extension::<SubjectKeyIdentifier>();
                matches!(found, Ok(Some((_, found))) if found == *wanted)
            }
        }
    }

    /// Identifies this certificate in a CMS, by issuer and serial number.
    pub(crate) fn identifier(&self) -> SignerIdentifier {
        let own = self.parsed.tbs_certificate();
        SignerIdentifier::IssuerAndSerialNumber(IssuerAndSerialNumber {
            issuer: own.issuer().clone(),
            serial_number: own.serial_number().clone(),
        })
    }
}

/// Whether the bytes contain a PEM block.
pub(crate) fn is_pem(bytes: &[u8]) -> bool {
    const MARK: &[u8] = b"-----BEGIN ";
    bytes.windows(MARK.len()).any(|window| window == MARK)
}

/// Decodes the PEM blocks with one of `labels`.
pub(crate) fn blocks(bytes: &[u8], labels: &[&str]) -> Result<Vec<Vec<u8>>, Fault> {
    let all = pem::parse_many(bytes)
        .map_err(|error| Fault::File(format!("the PEM cannot be read: {error}")))?;
    let wanted = all
        .into_iter()
        .filter(|block| labels.contains(&block.tag()));
    Ok(wanted.map(pem::Pem::into_contents).collect())
}

/// Encodes as PEM with LF line ends.
pub(crate) fn to_pem(label: &str, der: &[u8]) -> String {
    let config = pem::EncodeConfig::new().set_line_ending(pem::LineEnding::LF);
    pem::encode_config(&pem::Pem::new(label, der), config)
}
