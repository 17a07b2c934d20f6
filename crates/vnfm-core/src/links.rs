//! Shared virtual links as resources: creation, deletion. Operations count their use ([`link_use`](crate::lcm)).
//!
//! ```text
//! create ── record: CREATING ── the VIM creates the network ── record: AVAILABLE, with its resourceId
//!              │  a crash, or a VIM that does not respond: stays so; the same request again continues, a deletion removes it
//!              └─ the VIM refuses: what it has is deleted, then the record
//! delete ── record: DELETING, unless an instance uses it ── the VIM deletes the network ── no record
//!              │  a crash, or a VIM that does not respond: stays so; a deletion continues
//!              └─ the VIM refuses, as a port of somebody else is on the network: record: AVAILABLE
//! ```
//! The record is written before the VIM is called, and the network is tagged with its id: nothing exists that no record or
//! tag explains.

use crate::engine::Engine;
use crate::in_progress::Work;
use crate::ports::Vim as _;
use crate::ports::{
    Change, InfraDriver, LinkRecord, Links, Ownership, PortError, StoreError, VimCall,
};
use crate::refusal::{self, Refusal, Why};
use crate::vims::VimHandle;
use std::sync::Arc;
use std::time::Duration;
use vnfm_types::{LinkSpec, LinkState, SharedLink};

/// Time limit of a creation or deletion at the VIM; a shorter limit of steps applies, too.
const TIMEOUT: Duration = Duration::from_mins(2);
/// Longest name of a link, in bytes.
const MAX_NAME: usize = 255;
const MAX_SUBNETS: usize = 16;
/// In bytes, as JSON.
const MAX_CONFIG: usize = 32 * 1024;

impl Engine {
    /// Creates a shared virtual link, and returns it, and whether it is new: the same request again returns the link that
    /// exists, or continues its interrupted creation.
    ///
    /// # Errors
    ///
    /// `Unprocessable` if the VIM cannot have it; `Conflict` if the name belongs to a link that differs, or another request
    /// works on it; `Unavailable` if the VIM does not respond: then the link stays `CREATING`.
    pub async fn create_link(
        &self,
        tenant: &str,
        mut spec: LinkSpec,
    ) -> Result<(LinkRecord, bool), Refusal> {
        check(&spec).map_err(unusable)?;
        let location = self.link_vim(tenant, &spec.vim_id).await?;
        let location = location.ok_or_else(|| unknown_vim(&spec.vim_id))?;
        location
            .vim
            .registered_id()
            .unwrap_or_default()
            .clone_into(&mut spec.vim_id);
        let links = location.links()?;
        if !location.vim.policy().is_open() {
            let what =
                "the VIM has a policy, or is another tenant's: its owner creates networks there";
            return Err(unusable(format!("vimId: {what}")));
        }
        links.validate_link(&spec).map_err(Refusal::unprocessable)?;
        let _work = self.work_on(tenant, &spec.name)?;
        let (record, is_new) = self.begin_link(tenant, spec).await?;
        if record.link.state == LinkState::Available {
            return Ok((record, false));
        }
        let id = record.link.id.clone();
        self.finish_link(record, &location, links).await?;
        Ok((self.store().link(tenant, &id).await?, is_new))
    }

    /// The record of a link to be created: a new one, or that of the same request.
    async fn begin_link(
        &self,
        tenant: &str,
        spec: LinkSpec,
    ) -> Result<(LinkRecord, bool), Refusal> {
        match self.store().link(tenant, &spec.name).await {
            Err(StoreError::NotFound { .. }) => {}
            found => return same_request(found?, &spec).map(|record| (record, false)),
        }
        let record = LinkRecord {
            tenant: tenant.to_owned(),
            version: 0,
            link: SharedLink {
                id: uuid::Uuid::new_v4().to_string(),
                created_at: self.now(),
                spec,
                ..SharedLink::default()
            },
        };
        let add = Change::AddLink(Box::new(record.clone()));
        self.store().write(None, vec![add]).await?;
        Ok((record, true))
    }

    /// Has the VIM create the network of a link in `CREATING`.
    async fn finish_link(
        &self,
        mut record: LinkRecord,
        location: &LinkVim,
        links: &dyn Links,
    ) -> Result<(), Refusal> {
        let ownership = self.ownership(&record.tenant);
        let cx = self.link_call(location, &ownership);
        match links.create_link(&cx, &record.link).await {
            Ok(resource_id) => {
                record.link.state = LinkState::Available;
                record.link.resource_id = Some(resource_id);
                let put = Change::PutLink(Box::new(record));
                Ok(self.store().write(None, vec![put]).await?)
            }
            Err(error) => {
                let cx = self.link_call(location, &ownership);
                let may_pass = error.is_unavailable();
                if !may_pass && links.delete_link(&cx, &record.link).await.is_ok() {
                    self.remove_link(&record).await?;
                }
                Err(Refusal::unprocessable(error))
            }
        }
    }

    /// Deletes a shared virtual link: first the network, then the record. If the VIM is no longer registered, only the record.
    ///
    /// # Errors
    ///
    /// `Conflict`, with the instances that use it, or if the VIM refuses; `Unavailable` if the VIM does not respond: then the
    /// link stays `DELETING`.
    pub async fn delete_link(&self, tenant: &str, id_or_name: &str) -> Result<(), Refusal> {
        let name = self.store().link(tenant, id_or_name).await?.link.spec.name;
        let _work = self.work_on(tenant, &name)?;
        let mut record = self.store().link(tenant, &name).await?;
        let before = record.link.state;
        record.link.state = LinkState::Deleting;
        if before != LinkState::Deleting {
            let put = Change::PutLink(Box::new(record.clone()));
            self.store().write(None, vec![put]).await?;
            record.version += 1;
        }
        if let Some(location) = self.link_vim(tenant, &record.link.spec.vim_id).await? {
            let ownership = self.ownership(tenant);
            let cx = self.link_call(&location, &ownership);
            let deleted = location.links()?.delete_link(&cx, &record.link).await;
            if let Err(error) = deleted {
                return Err(self.not_deleted(record, error).await?);
            }
        }
        self.remove_link(&record).await
    }

    /// A link that the VIM refuses to delete can be used again.
    async fn not_deleted(
        &self,
        mut record: LinkRecord,
        error: PortError,
    ) -> Result<Refusal, Refusal> {
        if !error.is_unavailable() && record.link.resource_id.is_some() {
            record.link.state = LinkState::Available;
            let put = Change::PutLink(Box::new(record));
            self.store().write(None, vec![put]).await?;
        }
        let refusal = Refusal::unprocessable(error);
        let why = match refusal.why {
            Why::Unprocessable => Why::Conflict,
            other => other,
        };
        Ok(Refusal { why, ..refusal })
    }

    async fn remove_link(&self, record: &LinkRecord) -> Result<(), Refusal> {
        let remove = Change::RemoveLink {
            tenant: record.tenant.clone(),
            id: record.link.id.clone(),
        };
        Ok(self.store().write(None, vec![remove]).await?)
    }

    fn work_on(&self, tenant: &str, name: &str) -> Result<Work, Refusal> {
        let work = self.context.links_in_progress.begin(tenant, name);
        work.ok_or_else(|| {
            let what = format!("another request works on the shared virtual link `{name}`");
            Refusal::new(Why::Conflict, &refusal::LINK_BUSY, what)
        })
    }

    /// The VIM of a link; `None` if it is not registered.
    async fn link_vim(&self, tenant: &str, vim: &str) -> Result<Option<LinkVim>, Refusal> {
        let record = match self.store().vim(tenant, vim).await {
            Err(StoreError::NotFound { .. }) => return Ok(None),
            found => found?,
        };
        let driver = self.context.ports.drivers.driver(&record.vim.vim_type);
        let driver = driver.map_err(Refusal::unprocessable)?;
        let vim = VimHandle::registered(&self.context, &record, tenant, &record.vim.id);
        Ok(Some(LinkVim { vim, driver }))
    }

    fn ownership(&self, tenant: &str) -> Ownership {
        Ownership {
            installation_id: self.store().installation_id().to_owned(),
            tenant: tenant.to_owned(),
            instance_id: String::new(),
            op_id: String::new(),
        }
    }

    fn link_call<'a>(&'a self, location: &'a LinkVim, ownership: &'a Ownership) -> VimCall<'a> {
        let clock = &*self.context.ports.clock;
        let timeout = TIMEOUT.min(self.context.limits().step);
        VimCall {
            vim: &location.vim,
            ownership,
            clock,
            watcher: &(),
            deadline: clock.now().saturating_add(timeout).unwrap_or_default(),
        }
    }
}

/// Where a link is or will be.
struct LinkVim {
    vim: VimHandle,
    driver: Arc<dyn InfraDriver>,
}

impl LinkVim {
    fn links(&self) -> Result<&dyn Links, Refusal> {
        self.driver.links().ok_or_else(|| {
            let kind = self.vim.vim_type();
            unusable(format!(
                "vimId: VIMs of the type `{kind}` have no shared virtual links"
            ))
        })
    }
}

/// The record of an earlier request with the same name, if that request was the same.
fn same_request(record: LinkRecord, spec: &LinkSpec) -> Result<LinkRecord, Refusal> {
    let link = &record.link;
    let (what, id) = ("shared virtual link", spec.name.clone());
    if link.state == LinkState::Deleting {
        let found = link.state.as_str().to_owned();
        return Err(StoreError::WrongState { what, id, found }.into());
    }
    if link.spec != *spec {
        return Err(StoreError::Exists { what, id }.into());
    }
    Ok(record)
}

fn unusable(what: String) -> Refusal {
    Refusal::new(Why::Unprocessable, &refusal::BAD_LINK, what)
}

fn unknown_vim(vim: &str) -> Refusal {
    let what = format!("vimId: VIM `{vim}` is not in the registry");
    Refusal::new(Why::Unprocessable, &refusal::UNKNOWN_VIM, what)
}

/// Checks what does not depend on the VIM. The error names the member.
fn check(spec: &LinkSpec) -> Result<(), String> {
    let name = spec.name.as_str();
    if name.is_empty() || name.len() > MAX_NAME || name.chars().any(char::is_control) {
        return Err(format!(
            "name: 1 to {MAX_NAME} bytes without control characters are allowed"
        ));
    }
    if uuid::Uuid::parse_str(name).is_ok() {
        return Err("name: it must not be a UUID, as links are also found by their ids".to_owned());
    }
    if spec.subnets.len() > MAX_SUBNETS {
        return Err(format!("subnets: at most {MAX_SUBNETS} are allowed"));
    }
    let config = spec.cni_config.as_ref();
    let size = config
        .map(serde_json::to_string)
        .and_then(Result::ok)
        .map_or(0, |text| text.len());
    if size > MAX_CONFIG {
        return Err(format!("cniConfig: at most {MAX_CONFIG} bytes are allowed"));
    }
    Ok(())
}
