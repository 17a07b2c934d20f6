//! The VIM registry: logins are tested before they are stored.

use super::Engine;
use crate::overrides::{Overridden, Override};
use crate::ports::{Change, Code, ErrorKind, IssuedKubeconfig, VimRecord, VimReport};
use crate::refusal::{self, Refusal, Why};
use crate::vims::{Candidate, VimHandle, check_login_bound, connection_of, store_report};
use std::ops::RangeInclusive;
use uuid::Uuid;
use vnfm_types::{Secret, Vim, VimConnectionInfo, VimPolicy};

/// Data for registering or updating a VIM.
#[derive(Debug, Clone, Default)]
pub struct VimChange {
    /// Id for a registration (a UUID), to restore a VIM that an instance still refers to.
    pub id: Option<String>,
    /// Unique per tenant; default: the id.
    pub name: Option<String>,
    /// The connection: endpoint and login.
    pub connection: VimConnectionInfo,
    /// Replaces only the password; the rest of `accessInfo` stays.
    pub password: Option<Secret>,
    /// Whether all tenants may use it; `None`: unchanged.
    pub shared: Option<bool>,
    /// Limits on what instances on it may use; `None`: unchanged.
    pub policy: Option<VimPolicy>,
}

impl VimChange {
    /// Registers the VIM at this connection.
    pub fn to(connection: VimConnectionInfo) -> Self {
        Self {
            connection,
            ..Self::default()
        }
    }
}

impl Engine {
    /// Registers a VIM after a successful login.
    ///
    /// # Errors
    ///
    /// If the connection is incomplete, the login is refused, the VIM does not respond, or the name is taken.
    pub async fn register_vim(&self, tenant: &str, new: VimChange) -> Result<Vim, Refusal> {
        let id = match new.id {
            Some(id) if Uuid::parse_str(&id).is_err() => {
                let what = format!("the id `{id}` for the VIM is not a UUID");
                return Err(Refusal::new(Why::Unprocessable, &refusal::BAD_VIM, what));
            }
            Some(id) => id,
            None => Uuid::new_v4().to_string(),
        };
        let name = new.name.unwrap_or_else(|| id.clone());
        let policy = new.policy.map(checked_policy).transpose()?;
        let candidate = Candidate {
            tenant,
            id,
            name,
            connection: new.connection,
            old: None,
        };
        let mut record = candidate.tested(&self.context).await?;
        record.vim.shared = new.shared.unwrap_or_default();
        record.vim.policy = policy.flatten();
        let visible = record.vim.clone();
        self.store()
            .write(None, vec![Change::AddVim(Box::new(record))])
            .await?;
        Ok(visible)
    }

    /// Updates a VIM after a successful login; running operations use it from their next call on. Omitted members stay, except
    /// that every `interfaceInfo` must repeat how the server is trusted, so that a certificate is always checked and a login
    /// is only sent to where it was given for.
    ///
    /// # Errors
    ///
    /// As [`Engine::register_vim`]; also if endpoint, trust or proxy change and the login's secrets are not sent again.
    pub async fn update_vim(
        &self,
        tenant: &str,
        id_or_name: &str,
        change: VimChange,
    ) -> Result<Vim, Refusal> {
        let old = self.own_vim(tenant, id_or_name).await?;
        let policy = change.policy.map(checked_policy).transpose()?;
        let mut connection = connection_of(&old);
        let new = change.connection;
        let mut given = new.access_info.clone();
        if !new.interface_info.is_empty() {
            connection
                .interface_info
                .retain(|name, _| name == "endpoint");
            connection.interface_info.extend(new.interface_info);
        }
        connection.extra.extend(new.extra);
        if !new.access_info.is_empty() {
            connection.access_info = new.access_info;
        }
        if let Some(password) = change.password {
            given.insert("password".to_owned(), password.reveal().into());
            connection
                .access_info
                .insert("password".to_owned(), password.reveal().into());
        }
        check_login_bound(&connection_of(&old), &connection, &given)
            .map_err(|why| Refusal::new(Why::Unprocessable, &LOGIN_NOT_SENT, why))?;
        let candidate = Candidate {
            tenant,
            id: old.vim.id.clone(),
            name: change.name.unwrap_or_else(|| old.vim.name.clone()),
            connection,
            old: Some(&old),
        };
        let mut record = candidate.tested(&self.context).await?;
        record.version = old.version;
        record.vim.shared = change.shared.unwrap_or(old.vim.shared);
        record.vim.policy = policy.unwrap_or(old.vim.policy);
        let visible = record.vim.clone();
        self.store()
            .write(None, vec![Change::PutVim(Box::new(record))])
            .await?;
        Ok(visible)
    }

    /// Logs in to a registered VIM and identifies it.
    ///
    /// # Errors
    ///
    /// If the login is refused or the VIM does not respond.
    pub async fn check_vim(&self, tenant: &str, id_or_name: &str) -> Result<VimReport, Refusal> {
        let record = self.store().vim(tenant, id_or_name).await?;
        let (driver, _) = self
            .context
            .ports
            .drivers
            .for_vim(&record.vim.vim_type)
            .map_err(Refusal::unprocessable)?;
        let vim = VimHandle::registered(&self.context, &record, tenant, &record.vim.id);
        let report = driver.check(&vim).await.map_err(Refusal::of_vim)?;
        store_report(&self.context, tenant, &vim, &report).await?;
        Ok(report)
    }

    /// A kubeconfig with all rights on a cluster that an instance of the tenant has installed, valid for `seconds` (600 to
    /// 86400). The audit log names who requested it.
    ///
    /// # Errors
    ///
    /// `Unprocessable` if `seconds` is out of range, or no instance has installed the VIM; `Conflict` if it is another tenant's.
    pub async fn issue_kubeconfig(
        &self,
        tenant: &str,
        id_or_name: &str,
        (seconds, act): (u32, Override),
    ) -> Result<IssuedKubeconfig, Refusal> {
        if !KUBECONFIG_SECONDS.contains(&seconds) {
            let what = format!("a kubeconfig is valid for 600 to 86400 seconds, not {seconds}");
            return Err(Refusal::new(Why::Unprocessable, &LIFETIME, what));
        }
        let record = self.own_vim(tenant, id_or_name).await?;
        if record.vim.registered_by.is_none() {
            let what = format!("no VNF instance has installed VIM `{}`", record.vim.name);
            return Err(Refusal::new(Why::Unprocessable, &NOT_INSTALLED, what));
        }
        let ports = &self.context.ports;
        let (driver, _) = ports
            .drivers
            .for_vim(&record.vim.vim_type)
            .map_err(Refusal::unprocessable)?;
        // Written first: a login that is in no log must not exist.
        let overridden = Overridden {
            tenant,
            what: "cluster kubeconfig",
            target: &record.vim.id,
            name: Some(record.vim.name.clone()),
        };
        let audit = act.audit(overridden, self.now());
        self.store().write(None, vec![audit]).await?;
        let vim = VimHandle::registered(&self.context, &record, tenant, &record.vim.id);
        let issued = driver.issue_kubeconfig(&vim, seconds).await;
        issued.map_err(Refusal::of_vim)
    }

    /// The tenant's own VIMs, and those that others share.
    ///
    /// # Errors
    ///
    /// If the database does not respond.
    pub async fn vims(&self, tenant: &str) -> Result<Vec<Vim>, Refusal> {
        let all = self.store().vims(tenant).await?;
        Ok(all
            .into_iter()
            .map(|record| visible_to(tenant, record))
            .collect())
    }

    /// One VIM by id or name.
    ///
    /// # Errors
    ///
    /// `NotFound` if the tenant may use no such VIM.
    pub async fn vim(&self, tenant: &str, id_or_name: &str) -> Result<Vim, Refusal> {
        Ok(visible_to(
            tenant,
            self.store().vim(tenant, id_or_name).await?,
        ))
    }

    /// A VIM that the tenant owns.
    async fn own_vim(&self, tenant: &str, id_or_name: &str) -> Result<VimRecord, Refusal> {
        let record = self.store().vim(tenant, id_or_name).await?;
        if record.tenant == tenant {
            return Ok(record);
        }
        let what = format!("VIM `{}` is shared by another tenant", record.vim.name);
        Err(Refusal::new(Why::Conflict, &SHARED, what))
    }

    /// Removes a VIM from the registry; with an override that has a reason, even if instances live on it. They still refer to
    /// its id: either register a VIM with that id again, or abandon them.
    ///
    /// # Errors
    ///
    /// `Conflict`, naming the instances that live on it; `Unprocessable` if the override has no reason.
    pub async fn delete_vim(
        &self,
        tenant: &str,
        id_or_name: &str,
        force: Option<Override>,
    ) -> Result<(), Refusal> {
        let force = force.map(Override::with_reason).transpose()?;
        let Vim { id, name, .. } = self.own_vim(tenant, id_or_name).await?.vim;
        let overridden = Overridden {
            tenant,
            what: "vim delete --force",
            target: &id,
            name: Some(name),
        };
        let audit = force.as_ref().map(|act| act.audit(overridden, self.now()));
        let change = Change::RemoveVim {
            tenant: tenant.to_owned(),
            id,
            force: force.is_some(),
        };
        Ok(self
            .store()
            .write(None, [Some(change), audit].into_iter().flatten().collect())
            .await?)
    }

    /// Registers the cluster that an instance's hook created under another name; its secret does not leave the server.
    ///
    /// # Errors
    ///
    /// If the instance registered none.
    pub async fn register_vim_of(
        &self,
        tenant: &str,
        instance_id: &str,
        name: String,
    ) -> Result<Vim, Refusal> {
        self.store().instance(tenant, instance_id).await?;
        let all = self.store().vims(tenant).await?;
        let of_instance = |r: &&VimRecord| {
            r.tenant == tenant && r.vim.registered_by.as_deref() == Some(instance_id)
        };
        let Some(record) = all.iter().find(of_instance) else {
            let what = format!("VNF instance `{instance_id}` has registered no VIM");
            return Err(Refusal::new(Why::Conflict, &refusal::UNKNOWN_VIM, what));
        };
        let new = VimChange {
            name: Some(name),
            ..VimChange::to(connection_of(record))
        };
        self.register_vim(tenant, new).await
    }
}

/// Checks a policy; `None` if it sets no limit.
fn checked_policy(policy: VimPolicy) -> Result<Option<Box<VimPolicy>>, Refusal> {
    let bad = |what: String| Refusal::new(Why::Unprocessable, &BAD_POLICY, what);
    policy.checked().map_err(bad)?;
    Ok((!policy.is_open()).then(|| Box::new(policy)))
}

/// A VIM as a tenant sees it: if another tenant shares it, without the instance that registered it.
fn visible_to(tenant: &str, record: VimRecord) -> Vim {
    let registered_by = record.vim.registered_by.filter(|_| record.tenant == tenant);
    Vim {
        registered_by,
        ..record.vim
    }
}

/// How long a kubeconfig may be valid, in seconds; API servers issue no token for less.
const KUBECONFIG_SECONDS: RangeInclusive<u32> = 600..=86_400;

const LIFETIME: Code = Code {
    name: "vim.kubeconfig-lifetime",
    kind: ErrorKind::Refused,
    means: "a kubeconfig was requested for less than ten minutes or more than a day",
    next: "request it for 600 to 86400 seconds",
};

const NOT_INSTALLED: Code = Code {
    name: "vim.not-installed",
    kind: ErrorKind::Refused,
    means: "a kubeconfig was requested of a VIM that no VNF instance has installed",
    next: "ask those who run the cluster for a login",
};

const SHARED: Code = Code {
    name: "vim.shared",
    kind: ErrorKind::Refused,
    means: "the VIM is shared by another tenant; only its owner can change it",
    next: "ask its owner, or register it for your tenant under another name",
};

const BAD_POLICY: Code = Code {
    name: "vim.policy-invalid",
    kind: ErrorKind::Refused,
    means: "the policy of the VIM has an invalid member",
    next: "correct the member that the message names; `docs/how-to/limit-a-vim.md` lists all of them",
};

const LOGIN_NOT_SENT: Code = Code {
    name: "vim.login-elsewhere",
    kind: ErrorKind::Refused,
    means: "endpoint, trust or proxy of the VIM change, but the stored login was given for the old ones",
    next: "send `accessInfo` with the complete login in the same request",
};

pub(crate) const CODES: &[&Code] = &[
    &LIFETIME,
    &NOT_INSTALLED,
    &SHARED,
    &BAD_POLICY,
    &LOGIN_NOT_SENT,
];
