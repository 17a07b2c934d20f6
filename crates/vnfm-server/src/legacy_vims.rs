//! VIMs at addresses that the configuration does not allow, which keep them because they were in use before addresses
//! were checked. The log tells the operator which setting to add.

use crate::config::{Config, Purpose};
use std::fmt;
use vnfm_outbound::{Destinations, Url};
use vnfm_store::UncheckedAddress;

/// A VIM at an address that is not allowed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LegacyVim {
    address: UncheckedAddress,
    host: String,
}

impl fmt::Display for LegacyVim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let UncheckedAddress {
            tenant,
            vim_id,
            endpoint,
            ..
        } = &self.address;
        let host = &self.host;
        match vim_id.as_str() {
            "" => write!(
                f,
                "instances of tenant `{tenant}` with their own connection to `{endpoint}`"
            )?,
            id => write!(f, "VIM `{id}` of tenant `{tenant}` at `{endpoint}`")?,
        }
        write!(
            f,
            ": `{host}` is not an allowed address for VIMs; it keeps working until its endpoint or proxy \
             changes. To allow it permanently, set `vims.networks: [default, {host}]` (with the IP address if this is a name)"
        )
    }
}

/// The VIMs whose endpoint or proxy is not allowed by `to`, without resolving names.
pub(crate) fn disallowed(all: Vec<UncheckedAddress>, to: &Destinations) -> Vec<LegacyVim> {
    let mut legacy: Vec<_> = all
        .into_iter()
        .filter_map(|address| {
            let urls = [&address.endpoint, &address.proxy];
            let url = urls
                .into_iter()
                .find(|url| Url::parse(url).is_ok() && to.check(url).is_err())?;
            let host = host(url)?;
            Some(LegacyVim { address, host })
        })
        .collect();
    legacy.sort_by_key(ToString::to_string);
    legacy
}

/// Logs a warning for each such VIM, with names resolved.
pub(crate) async fn warn(all: Vec<UncheckedAddress>, to: Destinations) {
    let mut legacy = disallowed(all.clone(), &to);
    for address in all {
        for url in [&address.endpoint, &address.proxy] {
            let Some(host) = host(url) else { continue };
            let forbidden = to
                .resolve(&host)
                .await
                .is_err_and(|error| vnfm_outbound::is_forbidden(&error));
            let vim = LegacyVim {
                address: address.clone(),
                host,
            };
            if forbidden && !legacy.iter().any(|known| known.address == vim.address) {
                legacy.push(vim);
            }
        }
    }
    for vim in legacy {
        tracing::warn!("{vim}");
    }
}

/// Notes of `check-config` about the database in the data folder; none if it cannot be read.
pub(crate) fn in_database(config: &Config) -> Vec<String> {
    let Ok(to) = config.destinations(Purpose::Vims) else {
        return Vec::new();
    };
    match vnfm_store::unchecked_addresses_of_database(&config.data.join("vnfm.db")) {
        Ok(all) => disallowed(all, &to)
            .iter()
            .map(ToString::to_string)
            .collect(),
        Err(error) => {
            vec![format!(
                "{error}; cannot list VIMs at addresses that are not allowed"
            )]
        }
    }
}

fn host(url: &str) -> Option<String> {
    Some(
        Url::parse(url)
            .ok()?
            .host_str()?
            .trim_matches(['[', ']'])
            .to_owned(),
    )
}
