//! The clients of all clusters. Steps and operations share them, and with them their connections: a new one costs a TLS
//! handshake.

use crate::connection::{Connection, Trust};
use crate::kinds::Groups;
use kube::Client;
use std::sync::{Arc, Mutex, PoisonError};
use vnfm_core::ports::{PortError, Vim};
use vnfm_outbound::Destinations;
use vnfm_types::VimConnectionInfo;

/// Maximum number of clients; then the oldest is dropped.
const MAX_CLIENTS: usize = 64;

/// A client, and what its VIM's connection says besides.
#[derive(Clone)]
pub(crate) struct Cluster {
    pub(crate) client: Client,
    pub(crate) namespace: Option<String>,
    /// Whether the API server's certificate is verified.
    pub(crate) verified: bool,
    /// Kinds that stay the same as long as the API server runs.
    pub(crate) built_in_kinds: Arc<Groups>,
}

/// Clients by all that determines them.
pub(crate) struct Clients {
    /// Addresses that clusters and proxies may have.
    to: Destinations,
    known: Mutex<Vec<(Key, Cluster)>>,
}

#[derive(PartialEq)]
struct Key {
    info: VimConnectionInfo,
    /// The user to impersonate.
    user: Option<String>,
    keeps_address: bool,
}

impl Clients {
    pub(crate) fn new(to: Destinations) -> Self {
        Self {
            to,
            known: Mutex::default(),
        }
    }

    /// The client for `info`, a connection of `vim`, that impersonates `user`.
    ///
    /// # Errors
    ///
    /// The connection is invalid, or its address must not be called.
    pub(crate) fn get(
        &self,
        vim: &dyn Vim,
        info: VimConnectionInfo,
        user: Option<&str>,
    ) -> Result<Cluster, PortError> {
        let key = Key {
            keeps_address: vim.keeps_unchecked_address(&info),
            user: user.map(str::to_owned),
            info,
        };
        let known = || self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, cluster)) = known().iter().find(|(other, _)| *other == key) {
            return Ok(cluster.clone());
        }
        let cluster = self.create(&key).map_err(|error| error.on(vim.name()))?;
        let mut known = known();
        if known.len() >= MAX_CLIENTS {
            known.remove(0);
        }
        known.push((key, cluster.clone()));
        Ok(cluster)
    }

    /// The parsed connection, and where it may lead.
    ///
    /// # Errors
    ///
    /// The connection is invalid.
    pub(crate) fn read(
        &self,
        info: &VimConnectionInfo,
        keeps_address: bool,
    ) -> Result<(Connection, Destinations), PortError> {
        let connection = Connection::read(info)?;
        let mut to = self.to.clone();
        if keeps_address {
            let proxy = connection.proxy.iter().map(ToString::to_string);
            to = proxy.fold(
                to.and_host_of(&connection.endpoint.to_string()),
                |to, proxy| to.and_host_of(&proxy),
            );
        }
        Ok((connection, to))
    }

    fn create(&self, key: &Key) -> Result<Cluster, PortError> {
        let (connection, to) = self.read(&key.info, key.keeps_address)?;
        Ok(Cluster {
            client: connection.client(to, key.user.as_deref())?,
            verified: connection.trust != Trust::Unverified,
            namespace: connection.namespace,
            built_in_kinds: Arc::default(),
        })
    }
}
