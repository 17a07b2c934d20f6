//! The VIM registry: logins are checked before they are kept, instances hold an id and never a credential, and a
//! cluster that a hook made appears here as an effect of the operation.

mod any;
mod login;

pub(crate) use any::AnyVim;
pub(crate) use login::stays_where_it_belongs;

use crate::acts::Act;
use crate::engine::Engine;
use crate::lcm::Op;
use crate::ports::{
    Change, Code, ErrorKind, InfraDriver, InstanceRecord, NewVim, PortError, SecretConnection,
    SecretJson, StoreError, VimRecord, VimReport,
};
use crate::refusal::{self, Refusal, Why};
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;
use uuid::Uuid;
use vnfm_types::{KeyValuePairs, Secret, Vim, VimConnectionInfo, VimPolicy};

/// What a VIM is registered or updated with.
#[derive(Debug, Clone, Default)]
pub struct VimChange {
    /// The id that it gets, where an instance points to one that is gone: a UUID. Only for a registration.
    pub id: Option<String>,
    /// Name, unique per tenant.
    pub name: Option<String>,
    /// Where and who.
    pub connection: SecretConnection,
    /// A new password alone; the rest of `accessInfo` stays.
    pub password: Option<Secret>,
    /// Whether every tenant may use it; as it was where absent.
    pub shared: Option<bool>,
    /// What instances on it may be made of; as it was where absent.
    pub policy: Option<VimPolicy>,
}

impl VimChange {
    /// A registration of the VIM that this leads to.
    pub fn to(connection: VimConnectionInfo) -> Self {
        Self {
            connection: SecretConnection(connection),
            ..Self::default()
        }
    }
}

impl Engine {
    /// Registers a VIM after a login worked.
    ///
    /// # Errors
    ///
    /// Where the connection is incomplete, the login is refused, nobody answers, or the name is taken.
    pub async fn register_vim(&self, tenant: &str, new: VimChange) -> Result<Vim, Refusal> {
        let id = match new.id {
            Some(id) if Uuid::parse_str(&id).is_err() => {
                let what = format!("the id `{id}` that the VIM is to get is no UUID");
                return Err(Refusal::new(Why::Unprocessable, &refusal::BAD_VIM, what));
            }
            Some(id) => id,
            None => Uuid::new_v4().to_string(),
        };
        let name = new.name.unwrap_or_else(|| id.clone());
        let policy = new.policy.map(sound).transpose()?;
        let mut record = self
            .checked(tenant, (id, name), new.connection.0, None)
            .await?;
        record.vim.shared = new.shared.unwrap_or_default();
        record.vim.policy = policy.flatten();
        let shown = record.vim.clone();
        self.store()
            .write(None, vec![Change::AddVim(Box::new(record))])
            .await?;
        Ok(shown)
    }

    /// Changes a VIM after a login worked; operations in flight use it from their next call on. Members that
    /// `change` leaves out stay; but how the server is trusted is said anew with every `interfaceInfo`, so that a
    /// certificate that is brought is looked at, and a login goes nowhere but where it was given for.
    ///
    /// # Errors
    ///
    /// As [`Engine::register_vim`]; and where endpoint, trust or proxy change without the login's secrets anew.
    pub async fn update_vim(
        &self,
        tenant: &str,
        id_or_name: &str,
        change: VimChange,
    ) -> Result<Vim, Refusal> {
        let old = self.own_vim(tenant, id_or_name).await?;
        let policy = change.policy.map(sound).transpose()?;
        let mut connection = connection_of(&old);
        let new = change.connection.0;
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
        stays_where_it_belongs(&connection_of(&old), &connection, &given)
            .map_err(|why| Refusal::new(Why::Unprocessable, &LOGIN_ELSEWHERE, why))?;
        let key = (
            old.vim.id.clone(),
            change.name.unwrap_or_else(|| old.vim.name.clone()),
        );
        let mut record = self.checked(tenant, key, connection, Some(&old)).await?;
        record.version = old.version;
        record.vim.shared = change.shared.unwrap_or(old.vim.shared);
        record.vim.policy = policy.unwrap_or(old.vim.policy);
        let shown = record.vim.clone();
        self.store()
            .write(None, vec![Change::PutVim(Box::new(record))])
            .await?;
        Ok(shown)
    }

    /// Logs in to a registered VIM and says what was found.
    ///
    /// # Errors
    ///
    /// Where the login is refused or nobody answers.
    pub async fn check_vim(&self, tenant: &str, id_or_name: &str) -> Result<VimReport, Refusal> {
        let record = self.store().vim(tenant, id_or_name).await?;
        let (driver, _) = self
            .parts
            .drivers
            .of(&record.vim.vim_type)
            .map_err(Refusal::unprocessable)?;
        let vim = AnyVim::registered(self, &record, (tenant, &record.vim.id));
        let report = driver.check(&vim).await.map_err(Refusal::unprocessable)?;
        remember(self, tenant, &vim, &report).await?;
        Ok(report)
    }

    /// All VIMs: those of the tenant, and those that others share.
    ///
    /// # Errors
    ///
    /// Where the database does not answer.
    pub async fn vims(&self, tenant: &str) -> Result<Vec<Vim>, Refusal> {
        let all = self.store().vims(tenant).await?;
        Ok(all
            .into_iter()
            .map(|record| seen_by(tenant, record))
            .collect())
    }

    /// One VIM, by id or name.
    ///
    /// # Errors
    ///
    /// `NotFound`.
    pub async fn vim(&self, tenant: &str, id_or_name: &str) -> Result<Vim, Refusal> {
        Ok(seen_by(tenant, self.store().vim(tenant, id_or_name).await?))
    }

    /// A VIM that the tenant may change.
    async fn own_vim(&self, tenant: &str, id_or_name: &str) -> Result<VimRecord, Refusal> {
        let record = self.store().vim(tenant, id_or_name).await?;
        if record.tenant == tenant {
            return Ok(record);
        }
        let what = format!(
            "VIM `{}` is another tenant's, which shares it",
            record.vim.name
        );
        Err(Refusal::new(Why::Conflict, &SHARED, what))
    }

    /// Takes a VIM out of the registry; with an act that has a reason also where instances live on it. They go on
    /// pointing to its id: registering a VIM under that id again, or abandoning them, are their ways on.
    ///
    /// # Errors
    ///
    /// `Conflict` with their names where instances live on it; `Unprocessable` where the act has no reason.
    pub async fn delete_vim(
        &self,
        tenant: &str,
        id_or_name: &str,
        force: Option<Act>,
    ) -> Result<(), Refusal> {
        let force = force.map(Act::with_reason).transpose()?;
        let Vim { id, name, .. } = self.own_vim(tenant, id_or_name).await?.vim;
        let audit = force
            .as_ref()
            .map(|act| act.audit(self, tenant, "vim delete --force", (&id, Some(name))));
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

    /// Registers, under another name, the cluster that an instance's hook made; its secret does not leave the server.
    ///
    /// # Errors
    ///
    /// Where the instance registered none, or several and `vim` names none of them.
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
        let connection = SecretConnection(connection_of(record));
        let new = VimChange {
            name: Some(name),
            connection,
            ..VimChange::default()
        };
        self.register_vim(tenant, new).await
    }

    /// The record of a connection, once its login worked.
    async fn checked(
        &self,
        tenant: &str,
        (id, name): (String, String),
        mut connection: VimConnectionInfo,
        old: Option<&VimRecord>,
    ) -> Result<VimRecord, Refusal> {
        let drivers = &self.parts.drivers;
        let (driver, spelling) = drivers
            .of(&connection.vim_type)
            .map_err(Refusal::unprocessable)?;
        spelling.clone_into(&mut connection.vim_type);
        driver
            .validate(&connection)
            .map_err(Refusal::unprocessable)?;
        let before = old.map(|old| old.vim.id.as_str());
        let vim = AnyVim::inline(self, (tenant, before), &name, connection.clone());
        let report = driver.check(&vim).await.map_err(Refusal::unprocessable)?;
        let now = self.parts.clock.now();
        Ok(VimRecord {
            tenant: tenant.to_owned(),
            version: 0,
            vim: Vim {
                id,
                name,
                vim_type: connection.vim_type,
                interface_info: connection.interface_info,
                extra: connection.extra,
                registered_by: old.and_then(|old| old.vim.registered_by.clone()),
                identity: report.identity,
                shared: old.is_some_and(|old| old.vim.shared),
                policy: old.and_then(|old| old.vim.policy.clone()),
                expires_at: report.expires_at,
                key_type: None,
                secret_uuid: None,
                created_at: old.map_or(now, |old| old.vim.created_at),
                updated_at: now,
            },
            access_info: SecretJson::from(Value::Object(connection.access_info)),
        })
    }
}

/// A policy that can be kept; none where it says nothing.
fn sound(policy: VimPolicy) -> Result<Option<Box<VimPolicy>>, Refusal> {
    let bad = |what: String| Refusal::new(Why::Unprocessable, &BAD_POLICY, what);
    policy.checked().map_err(bad)?;
    Ok((!policy.is_open()).then(|| Box::new(policy)))
}

/// A VIM as a tenant sees it: of one that another tenant shares, not which instance registered it.
fn seen_by(tenant: &str, record: VimRecord) -> Vim {
    let registered_by = record.vim.registered_by.filter(|_| record.tenant == tenant);
    Vim {
        registered_by,
        ..record.vim
    }
}

fn connection_of(record: &VimRecord) -> VimConnectionInfo {
    VimConnectionInfo {
        vim_id: Some(record.vim.id.clone()),
        vim_type: record.vim.vim_type.clone(),
        interface_info: record.vim.interface_info.clone(),
        access_info: record.access_info.as_object().cloned().unwrap_or_default(),
        extra: record.vim.extra.clone(),
    }
}

/// The VIM connections of a request or an instance, by their key.
pub(crate) type Connections = BTreeMap<String, Box<VimConnectionInfo>>;

/// The one VIM that `connections` name, and its driver.
///
/// # Errors
///
/// If they name none, several, an unknown one, or one of another type than they say.
pub(crate) async fn of_connections(
    engine: &Engine,
    tenant: &str,
    connections: &Connections,
) -> Result<(AnyVim, Arc<dyn InfraDriver>), Refusal> {
    let bad = |what: String| Refusal::new(Why::Unprocessable, &refusal::BAD_VIM, what);
    let mut named = connections.iter();
    let (Some((key, given)), None) = (named.next(), named.next()) else {
        let what = "vimConnectionInfo has to name exactly one VIM, and names";
        return Err(bad(format!("{what} {}", connections.len())));
    };
    let drivers = &engine.parts.drivers;
    let place = format!("vimConnectionInfo.{key}");
    let Some(id) = given
        .vim_id
        .as_deref()
        .filter(|_| given.access_info.is_empty())
    else {
        let (driver, spelling) = drivers
            .of(&given.vim_type)
            .map_err(Refusal::unprocessable)?;
        let mut connection = VimConnectionInfo::clone(given);
        spelling.clone_into(&mut connection.vim_type);
        driver
            .validate(&connection)
            .map_err(Refusal::unprocessable)?;
        return Ok((
            AnyVim::inline(engine, (tenant, None), key, connection),
            driver.clone(),
        ));
    };
    let record = match engine.store().vim(tenant, id).await {
        Err(StoreError::NotFound { .. }) => {
            let what = format!("{place}.vimId `{id}` is not in the registry");
            return Err(Refusal::new(
                Why::Unprocessable,
                &refusal::UNKNOWN_VIM,
                what,
            ));
        }
        found => found?,
    };
    let (driver, spelling) = drivers
        .of(&record.vim.vim_type)
        .map_err(Refusal::unprocessable)?;
    if !given.vim_type.is_empty()
        && drivers
            .of(&given.vim_type)
            .ok()
            .is_none_or(|d| d.1 != spelling)
    {
        let (said, is) = (&given.vim_type, &record.vim.vim_type);
        return Err(bad(format!(
            "{place}.vimType is `{said}`, but VIM `{id}` is of type `{is}`"
        )));
    }
    Ok((
        AnyVim::registered(engine, &record, (tenant, key)),
        driver.clone(),
    ))
}

/// Makes `connections` name `vim` by its id and its type: a name can change, and a client that reads the instance need
/// not know our registry.
pub(crate) fn by_id(connections: &mut Connections, vim: &AnyVim) {
    let Some(id) = vim.registered_id() else {
        return;
    };
    for connection in connections.values_mut() {
        connection.vim_id = Some(id.to_owned());
        if connection.vim_type.is_empty() {
            vim.vim_type().clone_into(&mut connection.vim_type);
        }
    }
}

/// The VIM that an instance lives on is still in the registry.
///
/// # Errors
///
/// `Unprocessable`, with the two ways on, where it was taken out.
pub(crate) async fn still_registered(
    engine: &Engine,
    instance: &InstanceRecord,
) -> Result<(), Refusal> {
    let Some(deployment) = &instance.deployment else {
        return Ok(());
    };
    match of_connections(engine, &instance.tenant, &deployment.vim_connection_info).await {
        Err(refusal) if refusal.code == &refusal::UNKNOWN_VIM => Err(refusal.hint(WAYS_BACK)),
        _ => Ok(()),
    }
}

/// What to do where an instance points to a VIM that is gone.
const WAYS_BACK: &str = "register the VIM under that id again: `vnfmctl vim register --id ID …`; if it is gone for good: \
                         `vnfmctl vnf abandon VNF --reason TEXT`";

/// A refusal, met in the middle of an operation.
pub(crate) fn as_port_error(refusal: Refusal) -> PortError {
    if let Some(source) = refusal.source {
        return *source;
    }
    let gone = refusal.code == &refusal::UNKNOWN_VIM;
    let error = PortError::new(refusal.code, "find the VIM of the instance", refusal.detail);
    if gone { error.hint(WAYS_BACK) } else { error }
}

/// Writes what a check found into the registry.
pub(crate) async fn remember(
    engine: &Engine,
    tenant: &str,
    vim: &AnyVim,
    report: &VimReport,
) -> Result<(), StoreError> {
    let Some(id) = vim.registered_id() else {
        return Ok(());
    };
    let mut record = engine.store().vim(tenant, id).await?;
    let known = (&record.vim.identity, record.vim.expires_at);
    if known == (&report.identity, report.expires_at) {
        return Ok(());
    }
    record.vim.identity.clone_from(&report.identity);
    record.vim.expires_at = report.expires_at;
    match engine
        .store()
        .write(None, vec![Change::PutVim(Box::new(record))])
        .await
    {
        // Somebody else wrote it; the next check remembers.
        Err(StoreError::Changed { .. }) => Ok(()),
        outcome => outcome,
    }
}

/// Registers a VIM that a hook of `op` made, or brings it up to date where an interrupted attempt did. Its id
/// is UUIDv5(instance id, its name). Returns it as the instance shows it.
pub(crate) async fn register_for(
    op: &Op,
    new: NewVim,
) -> Result<Box<VimConnectionInfo>, PortError> {
    let instance_id = &op.instance.vnf.id;
    let id = vim_id(instance_id, &new.name);
    let connection = VimConnectionInfo {
        vim_id: Some(id.clone()),
        vim_type: new.vim_type,
        interface_info: new.interface_info,
        access_info: new.access_info,
        extra: new.extra,
    };
    let key = (id.clone(), new.name);
    let mut record = op
        .engine
        .checked(op.tenant(), key, connection, None)
        .await
        .map_err(as_port_error)?;
    record.vim.registered_by = Some(instance_id.clone());
    let shown = Box::new(VimConnectionInfo {
        vim_id: Some(id.clone()),
        vim_type: record.vim.vim_type.clone(),
        interface_info: record.vim.interface_info.clone(),
        access_info: KeyValuePairs::new(),
        extra: record.vim.extra.clone(),
    });
    let store = op.engine.store();
    let change = match store.vim(op.tenant(), &id).await {
        Ok(old) => {
            record.version = old.version;
            record.vim.shared = old.vim.shared;
            record.vim.policy = old.vim.policy;
            Change::PutVim(Box::new(record))
        }
        Err(StoreError::NotFound { .. }) => Change::AddVim(Box::new(record)),
        Err(error) => return Err(error.into()),
    };
    store.write(Some(&op.fence), vec![change]).await?;
    Ok(shown)
}

/// The id of the VIM `name` that a hook of an instance registers.
pub(crate) fn vim_id(instance_id: &str, name: &str) -> String {
    let namespace = Uuid::parse_str(instance_id).unwrap_or(Uuid::NAMESPACE_OID);
    Uuid::new_v5(&namespace, name.as_bytes()).to_string()
}

/// Takes every VIM that the instance of `op` registered out of the registry.
pub(crate) async fn unregister_all_of(op: &Op) -> Result<(), PortError> {
    unregister(op, |_| true).await
}

/// Takes the VIMs of these names that the instance of `op` registered out of the registry.
pub(crate) async fn unregister_of(op: &Op, names: &[String]) -> Result<(), PortError> {
    unregister(op, |name| names.iter().any(|gone| gone == name)).await
}

async fn unregister(op: &Op, goes: impl Fn(&str) -> bool) -> Result<(), PortError> {
    let store = op.engine.store();
    let owner = Some(op.instance.vnf.id.as_str());
    let mut gone = store.vims(op.tenant()).await?;
    gone.retain(|record| record.vim.registered_by.as_deref() == owner && goes(&record.vim.name));
    let changes: Vec<_> = gone
        .into_iter()
        .map(|record| Change::RemoveVim {
            tenant: op.tenant().to_owned(),
            id: record.vim.id,
            force: false,
        })
        .collect();
    if changes.is_empty() {
        return Ok(());
    }
    Ok(store.write(Some(&op.fence), changes).await?)
}

/// The VIM belongs to another tenant.
const SHARED: Code = Code {
    name: "vim.shared",
    kind: ErrorKind::Refused,
    means: "the VIM is another tenant's, which shares it: only its owner changes it",
    next: "ask its owner, or register it for your tenant under another name",
};

/// A policy that says what cannot be.
const BAD_POLICY: Code = Code {
    name: "vim.policy-invalid",
    kind: ErrorKind::Refused,
    means: "the policy of the VIM has a member that cannot be meant",
    next: "correct the member that is named; `docs/how-to/limit-a-vim.md` has all of them",
};

/// A stored login would be sent elsewhere.
const LOGIN_ELSEWHERE: Code = Code {
    name: "vim.login-elsewhere",
    kind: ErrorKind::Refused,
    means: "endpoint, trust or proxy of the VIM change, and the stored login was given for the old ones",
    next: "send `accessInfo` with the whole login in the same request",
};

pub(crate) const CODES: &[&Code] = &[&SHARED, &BAD_POLICY, &LOGIN_ELSEWHERE];
