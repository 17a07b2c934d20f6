//! HTTP client for identity services. Their addresses come from the operator, so every address is allowed.

use crate::settings_file;
use std::path::Path;
use vnfm_outbound::{Client, Destinations, Policy, Tls};

/// A client that trusts the CAs in a PEM file, or the system's CAs without one.
///
/// # Errors
///
/// If the file cannot be read or has no certificate.
pub(crate) fn client(authorities: Option<&Path>) -> anyhow::Result<Client> {
    let mut tls = Tls::default();
    if let Some(path) = authorities {
        tls.authorities = settings_file::bytes(path)?;
        if tls.authorities.is_empty() {
            anyhow::bail!("`{}` has no certificate", path.display());
        }
    }
    let client = Client::new(Destinations::anywhere(), Policy::IDENTITY, &tls, None);
    let prefix = authorities
        .map(|path| format!("`{}`: ", path.display()))
        .unwrap_or_default();
    client.map_err(|error| anyhow::anyhow!("cannot create an HTTP client: {prefix}{error}"))
}
