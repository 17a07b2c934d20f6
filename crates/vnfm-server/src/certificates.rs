//! Expiry of the configured certificates; read each time, because files are renewed in place.

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use std::path::{Path, PathBuf};

/// The expiry of each readable certificate, in seconds since 1970, with the name of its member.
pub(crate) async fn expiries(certificates: &[(String, PathBuf)]) -> Vec<(String, i64)> {
    let certificates = certificates.to_vec();
    let reading = tokio::task::spawn_blocking(move || {
        let read = |(name, path): (String, PathBuf)| Some((name, earliest_expiry(&path)?));
        certificates.into_iter().filter_map(read).collect()
    });
    reading.await.unwrap_or_default()
}

/// The earliest expiry in a file.
fn earliest_expiry(path: &Path) -> Option<i64> {
    let all = CertificateDer::pem_file_iter(path)
        .ok()?
        .filter_map(Result::ok);
    let expiry = |der: &CertificateDer<'_>| {
        let (_, parsed) = x509_parser::parse_x509_certificate(der).ok()?;
        Some(parsed.validity().not_after.timestamp())
    };
    all.filter_map(|der| expiry(&der)).min()
}
