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
use crate::ports::{Change, LinkRecord, Links, PortError, StoreError};
use crate::refusal::{self, Refusal, Why};
use crate::tenant_vim::TenantVim;
use vnfm_types::{LinkSpec, LinkState, SharedLink};

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
        let vim = self.requested_vim(tenant, &spec.vim_id).await?;
        vim.id().clone_into(&mut spec.vim_id);
        let links = links_of(&vim)?;
        if !vim.handle.policy().is_open() {
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
        self.finish_link(record, &vim, links).await?;
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
        vim: &TenantVim<'_>,
        links: &dyn Links,
    ) -> Result<(), Refusal> {
        match links.create_link(&vim.call(), &record.link).await {
            Ok(resource_id) => {
                record.link.state = LinkState::Available;
                record.link.resource_id = Some(resource_id);
                let put = Change::PutLink(Box::new(record));
                Ok(self.store().write(None, vec![put]).await?)
            }
            Err(error) => {
                let may_pass = error.is_unavailable();
                if !may_pass && links.delete_link(&vim.call(), &record.link).await.is_ok() {
                    self.remove_link(&record).await?;
                }
                Err(Refusal::of_vim(error))
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
        if let Some(vim) = self.tenant_vim(tenant, &record.link.spec.vim_id).await? {
            let deleted = links_of(&vim)?.delete_link(&vim.call(), &record.link).await;
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
        let refusal = Refusal::of_vim(error);
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
}

fn links_of<'v>(vim: &'v TenantVim<'_>) -> Result<&'v dyn Links, Refusal> {
    vim.driver.links().ok_or_else(|| {
        let kind = vim.handle.vim_type();
        unusable(format!(
            "vimId: VIMs of the type `{kind}` have no shared virtual links"
        ))
    })
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
