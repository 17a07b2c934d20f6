//! VIMs at addresses that this configuration does not allow, and that keep them because they were in use before addresses
//! were checked. Whoever runs the server is told, with the setting to write.

use crate::config::{Config, Purpose};
use std::fmt;
use vnfm_outbound::{Destinations, Url};
use vnfm_store::KeptAddress;

/// One of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Told {
    address: KeptAddress,
    host: String,
}

impl fmt::Display for Told {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let KeptAddress {
            tenant,
            vim_id,
            endpoint,
            ..
        } = &self.address;
        let host = &self.host;
        match vim_id.as_str() {
            "" => write!(
                f,
                "instances of tenant `{tenant}` with a connection of their own at `{endpoint}`"
            )?,
            id => write!(f, "VIM `{id}` of tenant `{tenant}` at `{endpoint}`")?,
        }
        write!(
            f,
            ": `{host}` is not among the addresses that VIMs may have; it goes on as before until its endpoint or proxy \
             changes. To allow it for good, write `vims.networks: [default, {host}]` (an address, where that is a name)"
        )
    }
}

/// Those of `all` whose endpoint or proxy `to` refuses, as far as that is seen without resolving names.
pub fn refused(all: Vec<KeptAddress>, to: &Destinations) -> Vec<Told> {
    let mut told: Vec<_> = all
        .into_iter()
        .filter_map(|address| {
            let places = [&address.endpoint, &address.proxy];
            let refused = places
                .into_iter()
                .find(|url| Url::parse(url).is_ok() && to.check(url).is_err())?;
            let host = host(refused)?;
            Some(Told { address, host })
        })
        .collect();
    told.sort_by_key(ToString::to_string);
    told
}

/// Says so in the log, names resolved.
pub(crate) async fn tell(all: Vec<KeptAddress>, to: Destinations) {
    let mut told = refused(all.clone(), &to);
    for address in all {
        for url in [&address.endpoint, &address.proxy] {
            let Some(host) = host(url) else { continue };
            let forbidden = to
                .resolve(&host)
                .await
                .is_err_and(|error| vnfm_outbound::is_forbidden(&error));
            let one = Told {
                address: address.clone(),
                host,
            };
            if forbidden && !told.iter().any(|known| known.address == one.address) {
                told.push(one);
            }
        }
    }
    for one in told {
        tracing::warn!("{one}");
    }
}

/// What `check-config` says of the database in the data folder; nothing where it cannot be read.
pub fn in_data_of(config: &Config) -> Vec<String> {
    let Ok(to) = config.destinations(Purpose::Vims) else {
        return Vec::new();
    };
    match vnfm_store::kept_addresses_of_database(&config.data.join("vnfm.db")) {
        Ok(all) => refused(all, &to).iter().map(ToString::to_string).collect(),
        Err(error) => {
            vec![format!(
                "{error}; VIMs at addresses that are not allowed cannot be listed"
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
