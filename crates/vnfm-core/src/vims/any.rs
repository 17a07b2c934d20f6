//! A VIM as drivers are handed it: where its connection comes from, and whose turn it is to call it.

use super::connection_of;
use crate::engine::Engine;
use crate::ports::{PortError, SecretConnection, Turn, Vim, VimLogin, VimRecord, Watcher};
use async_trait::async_trait;
use serde_json::Value;
use vnfm_types::{KeyValuePairs, VimConnectionInfo, VimPolicy};

/// A VIM of an instance: in the registry, or as the request brought it.
pub struct AnyVim {
    engine: Engine,
    name: String,
    key: String,
    vim_type: String,
    identity: Option<String>,
    policy: VimPolicy,
    /// Where it is, as far as that is known: those with the same share their turns.
    address: String,
    from: From,
}

enum From {
    Registry {
        tenant: String,
        id: String,
    },
    /// As a request brought it; `vim`: of which VIM of the registry it is to be the connection.
    Request {
        tenant: String,
        vim: Option<String>,
        info: Box<SecretConnection>,
    },
}

impl AnyVim {
    /// The VIM of a record, as the tenant `user` uses it: on another tenant's, what its policy leaves out is limited.
    pub(crate) fn registered(
        engine: &Engine,
        record: &VimRecord,
        (user, key): (&str, &str),
    ) -> Self {
        Self {
            engine: engine.clone(),
            name: record.vim.name.clone(),
            key: key.to_owned(),
            vim_type: record.vim.vim_type.clone(),
            identity: record.vim.identity.clone(),
            policy: policy_for(user, record),
            address: address(&record.vim.interface_info, &record.vim.id),
            from: From::Registry {
                tenant: record.tenant.clone(),
                id: record.vim.id.clone(),
            },
        }
    }

    pub(super) fn inline(
        engine: &Engine,
        (tenant, vim): (&str, Option<&str>),
        key: &str,
        connection: VimConnectionInfo,
    ) -> Self {
        Self {
            engine: engine.clone(),
            name: key.to_owned(),
            key: key.to_owned(),
            vim_type: connection.vim_type.clone(),
            identity: None,
            policy: VimPolicy::OPEN,
            address: address(&connection.interface_info, key),
            from: From::Request {
                tenant: tenant.to_owned(),
                vim: vim.map(str::to_owned),
                info: Box::new(SecretConnection(connection)),
            },
        }
    }

    /// Its id in the registry, if it is there.
    pub fn registered_id(&self) -> Option<&str> {
        match &self.from {
            From::Registry { id, .. } => Some(id),
            From::Request { .. } => None,
        }
    }

    /// Which kind of VIM it is, in the registered spelling.
    pub fn vim_type(&self) -> &str {
        &self.vim_type
    }

    /// What identifies it behind all its addresses, as far as the registry knows.
    pub fn identity(&self) -> Option<&str> {
        self.identity.as_deref()
    }

    /// Where it is: those with the same address share their turns.
    pub(crate) fn address(&self) -> &str {
        &self.address
    }
}

fn policy_for(user: &str, record: &VimRecord) -> VimPolicy {
    let own = record.vim.policy.as_deref().cloned().unwrap_or_default();
    if record.tenant == user {
        own
    } else {
        own.over(VimPolicy::for_borrowers())
    }
}

fn address(interface: &KeyValuePairs, otherwise: &str) -> String {
    let endpoint = interface
        .get("endpoint")
        .and_then(Value::as_str)
        .unwrap_or(otherwise);
    endpoint.trim_end_matches('/').to_ascii_lowercase()
}

#[async_trait]
impl Vim for AnyVim {
    fn name(&self) -> &str {
        &self.name
    }

    fn connection_id(&self) -> &str {
        &self.key
    }

    fn policy(&self) -> &VimPolicy {
        &self.policy
    }

    async fn connection(&self) -> Result<VimLogin, PortError> {
        match &self.from {
            From::Request { info, .. } => Ok(VimLogin {
                info: (**info).clone(),
                version: 0,
            }),
            From::Registry { tenant, id } => {
                let record = self.engine.store().vim(tenant, id).await?;
                let info = SecretConnection(connection_of(&record));
                Ok(VimLogin {
                    info,
                    version: record.version,
                })
            }
        }
    }

    fn shows_answers(&self) -> bool {
        self.registered_id().is_some()
    }

    fn keeps_address(&self, connection: &VimConnectionInfo) -> bool {
        let (tenant, vim) = match &self.from {
            From::Registry { tenant, id } => (tenant, Some(id.as_str())),
            From::Request { tenant, vim, .. } => (tenant, vim.as_deref()),
        };
        self.engine.store().keeps_address(tenant, vim, connection)
    }

    async fn turn(&self, doing: &str, watcher: Option<&dyn Watcher>) -> Turn {
        let (clock, calls) = (&self.engine.parts.clock, &self.engine.calls);
        let asked = clock.now();
        let ticket = calls.stand(&self.address);
        let told = |place: usize| {
            let limit = calls.limited_to();
            if let Some(watcher) = watcher {
                let name = &self.name;
                watcher.waiting(&format!(
                    "its turn at VIM `{name}`: call {place} in line; it gets {limit} at a time"
                ));
            }
            true
        };
        ticket.called(&**clock, told).await;
        let vim = self.registered_id().unwrap_or("inline").to_owned();
        let span = tracing::info_span!(
            "vim_call",
            vim,
            doing,
            otel.kind = "client",
            otel.status_code = tracing::field::Empty
        );
        Turn::new(
            ticket,
            vim,
            self.engine.observer.clone(),
            (clock.clone(), asked),
            span,
        )
    }
}
