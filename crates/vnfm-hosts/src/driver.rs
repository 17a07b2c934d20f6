//! The [`InfraDriver`]: the steps of each method of the port.

use crate::converge::{Change, placed};
use crate::errors::IPMITOOL;
use crate::host_inventory::HostInventory;
use crate::members::Handle;
use crate::placement;
use crate::planned::{plan_change, plan_release};
use crate::power_switch::PowerSwitch;
use crate::records::record;
use crate::release::release;
use crate::requirements::check;
use crate::session::{InventoryKeys, Session};
use crate::survey::Survey;
use async_trait::async_trait;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use vnfm_core::ports::{
    Allocation, Convergence, InfraDriver, OwnedResource, PortError, Power, PowerChange, Recorded,
    Release, ResourceChange, ResourcePlan, Vim, VimCall, VimReport,
};
use vnfm_outbound::Destinations;
use vnfm_ssh::Ssh;
use vnfm_types::{HOSTS, KeyValuePairs, VimConnectionInfo};

/// `kind` of a lease among the resources with our tag.
const LEASE: &str = "VNFM::Hosts::Lease";
/// Where Debian installs `ipmitool`.
const IPMITOOL_PATH: &str = "/usr/bin/ipmitool";

/// The driver of inventories of bare hosts. Needs a tokio runtime.
pub struct BareHosts {
    ssh: Ssh,
    to: Destinations,
    ipmitool: PathBuf,
}

impl BareHosts {
    /// A driver that connects only to hosts and BMCs that `to` allows.
    pub fn new(to: Destinations) -> Self {
        Self {
            ssh: Ssh::new(Arc::new(InventoryKeys::default()), to.clone()),
            to,
            ipmitool: PathBuf::from(IPMITOOL_PATH),
        }
    }

    /// The same driver with another program `ipmitool`, which hosts with `ipmi` need. Default: `/usr/bin/ipmitool`.
    #[must_use]
    pub fn with_ipmitool(mut self, path: impl Into<PathBuf>) -> Self {
        self.ipmitool = path.into();
        self
    }

    fn session<'a>(&'a self, cx: &VimCall<'a>) -> Session<'a> {
        Session {
            watcher: cx.watcher,
            deadline: Some((cx.clock, cx.deadline)),
            ..self.short_session(cx.vim)
        }
    }

    /// Without a deadline of the caller: each host has its own.
    fn short_session<'a>(&'a self, vim: &'a dyn Vim) -> Session<'a> {
        Session {
            ssh: &self.ssh,
            to: &self.to,
            ipmitool: &self.ipmitool,
            vim,
            watcher: &(),
            deadline: None,
        }
    }

    fn change<'a>(
        &'a self,
        cx: &VimCall<'a>,
        wanted: &'a Convergence<'a>,
    ) -> Result<Change<'a>, PortError> {
        check(wanted.target)?;
        self.permit(wanted.target, cx.vim.policy())?;
        Change::new(self.session(cx), cx.ownership, wanted)
    }
}

impl std::fmt::Debug for BareHosts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("BareHosts")
    }
}

#[async_trait]
impl InfraDriver for BareHosts {
    fn vim_types(&self) -> &'static [&'static str] {
        &[HOSTS]
    }

    fn validate(&self, connection: &VimConnectionInfo) -> Result<(), PortError> {
        let inventory = HostInventory::try_from(connection)?;
        let mut hosts = inventory.hosts.iter();
        let needing = hosts.find(|host| matches!(host.switch, Some(PowerSwitch::Ipmi(..))));
        let Some(host) = needing.filter(|_| !self.ipmitool.is_file()) else {
            return Ok(());
        };
        let action = format!("switch the host `{}` by IPMI", host.name());
        let what = format!("there is no program `{}`", self.ipmitool.display());
        Err(PortError::new(&IPMITOOL, action, what).on(host.name()))
    }

    fn validate_request(&self, allocation: &Allocation) -> Result<(), PortError> {
        check(allocation)
    }

    async fn check(&self, vim: &dyn Vim) -> Result<VimReport, PortError> {
        let survey = Survey::read(&self.short_session(vim)).await?;
        survey.require_answer()?;
        let mut silent = survey.silent();
        if let Some((_, error)) = silent.find(|(_, error)| !error.is_unavailable()) {
            return Err(error.clone());
        }
        let silent: Vec<_> = survey.silent().map(|(host, _)| host.name()).collect();
        let mut detail = KeyValuePairs::new();
        detail.insert("hosts".into(), json!(survey.hosts.len()));
        detail.insert("free".into(), json!(survey.free().count()));
        if !silent.is_empty() {
            detail.insert("unresponsive".into(), json!(silent));
        }
        Ok(VimReport {
            detail,
            ..VimReport::default()
        })
    }

    async fn preview(
        &self,
        cx: &VimCall<'_>,
        change: &Convergence<'_>,
    ) -> Result<Value, PortError> {
        let change = self.change(cx, change)?;
        let survey = Survey::read(&change.session).await?;
        let members = change.members(&survey);
        let new = change.new_vnfcs(&members);
        let free: Vec<_> = survey.free().collect();
        let fits = placement::place(change.flavour, &new, placed(&survey, &members), &free);
        // Hosts that leave, or are off, may serve as well: `converge` finds out.
        let own = survey
            .leases_of(cx.ownership)
            .any(|(_, lease, _)| lease.returning);
        let may_fit =
            own || !members.leaving.is_empty() || !change.dormant(&survey, &members).is_empty();
        match fits {
            None if !may_fit => Err(change.no_host(&survey, &members, &BTreeSet::new())),
            _ => Ok(Value::Null),
        }
    }

    async fn plan(
        &self,
        cx: &VimCall<'_>,
        change: &ResourceChange<'_>,
    ) -> Result<ResourcePlan, PortError> {
        let survey = Survey::read(&self.session(cx)).await?;
        survey.require_answer()?;
        match change {
            ResourceChange::Release { current, .. } => {
                let handle = Handle::read(&current.handle);
                Ok(plan_release(&survey, cx.ownership, &handle))
            }
            ResourceChange::Converge(wanted) => {
                let change = self.change(cx, wanted)?;
                let members = change.members(&survey);
                Ok(plan_change(&change, members))
            }
        }
    }

    async fn converge(
        &self,
        cx: &VimCall<'_>,
        change: &Convergence<'_>,
        _: &Value,
    ) -> Result<Recorded, PortError> {
        let change = self.change(cx, change)?;
        let (survey, handle) = change.make().await?;
        let what = (change.wanted.target, cx.vim.connection_id());
        record(&survey, cx.ownership, what, &handle)
    }

    fn power(&self) -> Option<&dyn Power> {
        Some(self)
    }

    async fn release(
        &self,
        cx: &VimCall<'_>,
        _: &Allocation,
        how: &Release,
    ) -> Result<(), PortError> {
        let handle = Handle::read(&how.handle);
        release(&self.session(cx), cx.ownership, &handle).await
    }

    async fn observe(
        &self,
        cx: &VimCall<'_>,
        what: &Allocation,
        handle: &Value,
    ) -> Result<Recorded, PortError> {
        let survey = Survey::read(&self.session(cx)).await?;
        survey.require_answer()?;
        let handle = Handle::read(handle);
        let what = (what, cx.vim.connection_id());
        record(&survey, cx.ownership, what, &handle)
    }

    async fn owned(
        &self,
        vim: &dyn Vim,
        installation_id: &str,
    ) -> Result<Vec<OwnedResource>, PortError> {
        let survey = Survey::read(&self.short_session(vim)).await?;
        survey.require_answer()?;
        let ours = survey
            .leases()
            .filter(|(_, lease, _)| lease.installation_id == installation_id);
        let owned = ours.map(|(host, lease, _)| OwnedResource {
            kind: LEASE.to_owned(),
            id: lease.vnfc.clone(),
            name: host.name().to_owned(),
            instance_id: Some(lease.instance_id.clone()),
            snapshot_id: None,
            link_id: None,
            volume_id: None,
        });
        Ok(owned.collect())
    }

    async fn host_keys(&self, vim: &dyn Vim, server_id: &str) -> Result<Vec<String>, PortError> {
        let inventory = HostInventory::try_from(&vim.connection().await?.info)?;
        let hosts = inventory.hosts.into_iter();
        let mut host = hosts.filter(|host| host.name() == server_id);
        Ok(host
            .find_map(|host| host.entry.host_key)
            .into_iter()
            .collect())
    }
}

#[async_trait]
impl Power for BareHosts {
    fn is_per_vnfc(&self) -> bool {
        true
    }

    async fn operate(
        &self,
        cx: &VimCall<'_>,
        change: &PowerChange<'_>,
    ) -> Result<Recorded, PortError> {
        let wanted = Convergence::update(change.current, change.target);
        let change = Change {
            stop: change.stop,
            ..self.change(cx, &wanted)?
        };
        let (survey, handle) = change.make().await?;
        let what = (wanted.target, cx.vim.connection_id());
        record(&survey, cx.ownership, what, &handle)
    }
}
