//! A client for neighbours that know who somebody is. The operator wrote their addresses, so they may lie anywhere.

use anyhow::Context as _;
use std::path::Path;
use vnfm_outbound::{Client, Destinations, Policy, Tls};

/// A client that trusts the authorities in a PEM file; those of the machine where there is none.
///
/// # Errors
///
/// Where the file cannot be read or has no certificate.
pub fn client(authorities: Option<&Path>) -> anyhow::Result<Client> {
    let mut tls = Tls::default();
    if let Some(path) = authorities {
        tls.authorities =
            std::fs::read(path).with_context(|| format!("cannot read `{}`", path.display()))?;
        if tls.authorities.is_empty() {
            anyhow::bail!("`{}` has no certificate", path.display());
        }
    }
    let made = Client::new(Destinations::anywhere(), Policy::IDENTITY, &tls, None);
    let at = authorities
        .map(|path| format!("`{}`: ", path.display()))
        .unwrap_or_default();
    made.map_err(|why| anyhow::anyhow!("cannot make a client: {at}{why}"))
}
