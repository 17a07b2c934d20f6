//! A VIM as drivers get it: the source of its connection, and the slots for calling it.

use crate::context::Context;
use crate::ports::{PortError, SlotCall, Vim, VimLogin, VimRecord, VimSlot, Watcher};
use async_trait::async_trait;
use serde_json::Value;
use vnfm_types::{KeyValuePairs, VimConnectionInfo, VimPolicy};

/// The VIM of an instance: registered, or inline in the request.
pub struct VimHandle {
    context: Context,
    name: String,
    key: String,
    vim_type: String,
    identity: Option<String>,
    policy: VimPolicy,
    /// Its address, as far as it is known: VIMs with the same address share slots.
    address: String,
    source: Source,
}

enum Source {
    Registry {
        tenant: String,
        id: String,
    },
    /// From a request; `vim`: the registered VIM that it is about to update, if any.
    Request {
        tenant: String,
        vim: Option<String>,
        info: Box<VimConnectionInfo>,
    },
}

impl VimHandle {
    /// A registered VIM as tenant `user` uses it: on another tenant's VIM, missing limits have strict defaults.
    pub(crate) fn registered(context: &Context, record: &VimRecord, user: &str, key: &str) -> Self {
        Self {
            context: context.clone(),
            name: record.vim.name.clone(),
            key: key.to_owned(),
            vim_type: record.vim.vim_type.clone(),
            identity: record.vim.identity.clone(),
            policy: policy_for(user, record),
            address: address(&record.vim.interface_info, &record.vim.id),
            source: Source::Registry {
                tenant: record.tenant.clone(),
                id: record.vim.id.clone(),
            },
        }
    }

    pub(super) fn inline(
        context: &Context,
        tenant: &str,
        vim: Option<&str>,
        key: &str,
        connection: VimConnectionInfo,
    ) -> Self {
        Self {
            context: context.clone(),
            name: key.to_owned(),
            key: key.to_owned(),
            vim_type: connection.vim_type.clone(),
            identity: None,
            policy: VimPolicy::OPEN,
            address: address(&connection.interface_info, key),
            source: Source::Request {
                tenant: tenant.to_owned(),
                vim: vim.map(str::to_owned),
                info: Box::new(connection),
            },
        }
    }

    /// Its id in the registry; `None` for an inline connection.
    pub fn registered_id(&self) -> Option<&str> {
        match &self.source {
            Source::Registry { id, .. } => Some(id),
            Source::Request { .. } => None,
        }
    }

    /// The VIM type in its registered spelling.
    pub fn vim_type(&self) -> &str {
        &self.vim_type
    }

    /// Identifies the VIM across all its addresses; `None` if the registry does not know it.
    pub fn identity(&self) -> Option<&str> {
        self.identity.as_deref()
    }

    /// VIMs with the same address share slots.
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
impl Vim for VimHandle {
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
        match &self.source {
            Source::Request { info, .. } => Ok(VimLogin {
                info: (**info).clone(),
                version: 0,
            }),
            Source::Registry { tenant, id } => {
                let record = self.context.store().vim(tenant, id).await?;
                let info = connection_of(&record);
                Ok(VimLogin {
                    info,
                    version: record.version,
                })
            }
        }
    }

    fn exposes_responses(&self) -> bool {
        self.registered_id().is_some()
    }

    fn keeps_unchecked_address(&self, connection: &VimConnectionInfo) -> bool {
        let (tenant, vim) = match &self.source {
            Source::Registry { tenant, id } => (tenant, Some(id.as_str())),
            Source::Request { tenant, vim, .. } => (tenant, vim.as_deref()),
        };
        self.context.store().keeps_address(tenant, vim, connection)
    }

    async fn acquire_slot(&self, doing: &str, watcher: Option<&dyn Watcher>) -> VimSlot {
        let (clock, calls) = (&self.context.ports.clock, &self.context.call_slots);
        let requested_at = clock.now();
        let ticket = calls.request(&self.address);
        let report = |position: usize| {
            let limit = calls.max();
            if let Some(watcher) = watcher {
                let name = &self.name;
                watcher.waiting(&format!(
                    "a free slot at VIM `{name}`: call {position} in the queue, {limit} at a time"
                ));
            }
            true
        };
        ticket.wait_for_slot(&**clock, report).await;
        let vim = self.registered_id().unwrap_or("inline").to_owned();
        let span = tracing::info_span!(
            "vim_call",
            vim,
            doing,
            otel.kind = "client",
            otel.status_code = tracing::field::Empty
        );
        VimSlot::for_call(SlotCall {
            ticket,
            vim,
            observer: self.context.observer.clone(),
            clock: clock.clone(),
            requested_at,
            span,
        })
    }
}

/// The connection of a registered VIM, with its login.
pub(crate) fn connection_of(record: &VimRecord) -> VimConnectionInfo {
    VimConnectionInfo {
        vim_id: Some(record.vim.id.clone()),
        vim_type: record.vim.vim_type.clone(),
        interface_info: record.vim.interface_info.clone(),
        access_info: record.access_info.as_object().cloned().unwrap_or_default(),
        extra: record.vim.extra.clone(),
    }
}
