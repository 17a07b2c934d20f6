//! How neighbours that know who somebody is are asked: no proxy of the environment, no redirects, little time.

use anyhow::Context as _;
use reqwest::redirect::Policy;
use reqwest::{Certificate, Client};
use std::path::Path;
use std::time::Duration;

/// How long one may take to answer.
const ANSWER: Duration = Duration::from_secs(10);

/// A client that trusts the authorities in a PEM file; those of the machine where there is none.
///
/// # Errors
///
/// Where the file cannot be read or has no certificate.
pub fn client(authorities: Option<&Path>) -> anyhow::Result<Client> {
    let mut builder = Client::builder().no_proxy().redirect(Policy::none()).timeout(ANSWER);
    if let Some(path) = authorities {
        let pem =
            std::fs::read(path).with_context(|| format!("cannot read `{}`", path.display()))?;
        let trusted = Certificate::from_pem_bundle(&pem).ok().filter(|trusted| !trusted.is_empty());
        let trusted =
            trusted.with_context(|| format!("`{}` has no certificate", path.display()))?;
        builder = builder.tls_certs_only(trusted);
    }
    builder.build().context("cannot make a client")
}
