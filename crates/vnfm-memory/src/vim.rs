//! A VIM in memory: VNFCs are rows, created and deleted at once. For tests, examples, and measuring the engine itself.

use async_trait::async_trait;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use vnfm_core::ports::{
    Allocated, Allocation, Clock, Code, ErrorKind, InfraDriver, Inventory, OwnedResource,
    Ownership, PortError, Release, Repair, Vim, VimCall, VimReport,
};
use vnfm_types::{ResourceHandle, VimConnectionInfo, VimPolicy, VnfcResourceInfo};

/// The `vimType` of a [`MemoryVim`].
pub const MEMORY_VIM: &str = "VNFM.MEMORY";

pub(crate) const LOGIN: Code = Code {
    name: "memory.login",
    kind: ErrorKind::Refused,
    means: "the VIM in memory refuses the login",
    next: "set `accessInfo.password` to the one given to `MemoryVim::with_password`",
};
pub(crate) const LACKS: Code = Code {
    name: "memory.lacks",
    kind: ErrorKind::Refused,
    means: "the VNFD has no such flavour or instantiation level",
    next: "use a flavour and a level that the VNFD has",
};

/// The VNFCs of one instance, by id and VDU.
struct Made {
    installation_id: String,
    vnfcs: Vec<(String, String)>,
}

/// The driver and its VIM. Clones share the VIM.
#[derive(Clone, Default)]
pub struct MemoryVim {
    instances: Arc<Mutex<BTreeMap<String, Made>>>,
    password: Option<String>,
    takes: Option<(Arc<dyn Clock>, Duration)>,
}

impl MemoryVim {
    /// Requires logins with this `accessInfo.password`.
    #[must_use]
    pub fn with_password(self, password: &str) -> Self {
        Self {
            password: Some(password.to_owned()),
            ..self
        }
    }

    /// Lets each call take this time.
    #[must_use]
    pub fn with_call_duration(self, time: Duration, clock: Arc<dyn Clock>) -> Self {
        Self {
            takes: Some((clock, time)),
            ..self
        }
    }

    /// Ids of all existing VNFCs.
    pub fn vnfcs(&self) -> Vec<String> {
        let instances = self.instances();
        instances
            .values()
            .flat_map(|made| &made.vnfcs)
            .map(|(id, _)| id.clone())
            .collect()
    }

    fn instances(&self) -> MutexGuard<'_, BTreeMap<String, Made>> {
        self.instances
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a slot and logs in, as each call of a VIM does.
    async fn called(&self, vim: &dyn Vim) -> Result<(), PortError> {
        let turn = vim.acquire_slot("answer", None).await;
        if let Some((clock, time)) = &self.takes {
            clock.sleep(*time).await;
        }
        let login = vim.connection().await?;
        let given = login
            .info
            .access_info
            .get("password")
            .and_then(Value::as_str);
        let is_known = self.password.is_none() || given == self.password.as_deref();
        turn.ended(is_known);
        if is_known {
            return Ok(());
        }
        Err(PortError::new(
            &LOGIN,
            format!("log in at `{}`", vim.name()),
            "the password is wrong",
        ))
    }

    fn inventory_of(&self, vim: &dyn Vim, ownership: &Ownership) -> Allocated {
        let instances = self.instances();
        let its = instances.get(&ownership.instance_id);
        let its = its.filter(|made| made.installation_id == ownership.installation_id);
        let info = |(id, vdu): &(String, String)| VnfcResourceInfo {
            id: id.clone(),
            vdu_id: vdu.clone(),
            compute_resource: ResourceHandle {
                vim_connection_id: Some(vim.connection_id().to_owned()),
                resource_id: id.clone(),
                ..ResourceHandle::default()
            },
            ..VnfcResourceInfo::default()
        };
        let vnfc_resource_info = its
            .into_iter()
            .flat_map(|made| &made.vnfcs)
            .map(info)
            .collect();
        let inventory = Inventory {
            vnfc_resource_info,
            ..Inventory::default()
        };
        Allocated {
            handle: json!(ownership.instance_id),
            inventory,
            ..Allocated::default()
        }
    }
}

/// The VDUs of the flavour, each as often as its level says.
fn vdus_to_create(what: &Allocation) -> Result<Vec<String>, PortError> {
    let lacks = |what: String| PortError::new(&LACKS, "plan the instance", what);
    let id = &what.deployment.flavour_id;
    let flavour = what.package.vnfd().flavours.get(id.as_str());
    let flavour = flavour.ok_or_else(|| lacks(format!("the VNFD has no flavour `{id}`")))?;
    let each = |vdu: &String| {
        (0..what.deployment.instances_of(vdu))
            .map(|_| vdu.clone())
            .collect()
    };
    Ok(flavour.vdus.keys().flat_map::<Vec<_>, _>(each).collect())
}

fn vnfc(vdu: String) -> (String, String) {
    (uuid::Uuid::new_v4().to_string(), vdu)
}

#[async_trait]
impl InfraDriver for MemoryVim {
    fn vim_types(&self) -> &'static [&'static str] {
        &[MEMORY_VIM]
    }

    fn validate(&self, _: &VimConnectionInfo) -> Result<(), PortError> {
        Ok(())
    }

    fn validate_request(&self, what: &Allocation) -> Result<(), PortError> {
        vdus_to_create(what).map(drop)
    }

    /// Its resources have no properties that a policy could restrict.
    fn permit(&self, _: &Allocation, _: &VimPolicy) -> Result<(), PortError> {
        Ok(())
    }

    async fn check(&self, vim: &dyn Vim) -> Result<VimReport, PortError> {
        self.called(vim).await.map(|()| VimReport::default())
    }

    async fn prepare(&self, cx: &VimCall<'_>, what: &Allocation) -> Result<Value, PortError> {
        self.called(cx.vim).await?;
        vdus_to_create(what).map(|_| Value::Null)
    }

    async fn allocate(
        &self,
        cx: &VimCall<'_>,
        what: &Allocation,
        _: &Value,
    ) -> Result<Allocated, PortError> {
        self.called(cx.vim).await?;
        let (vdus_to_create, whose) = (vdus_to_create(what)?, cx.ownership);
        self.instances()
            .entry(whose.instance_id.clone())
            .or_insert_with(|| Made {
                installation_id: whose.installation_id.clone(),
                vnfcs: vdus_to_create.into_iter().map(vnfc).collect(),
            });
        Ok(self.inventory_of(cx.vim, whose))
    }

    async fn release(
        &self,
        cx: &VimCall<'_>,
        _: &Allocation,
        _: &Release,
    ) -> Result<(), PortError> {
        self.called(cx.vim).await?;
        let whose = cx.ownership;
        let is_its = |made: &Made| made.installation_id == whose.installation_id;
        let mut instances = self.instances();
        if instances.get(&whose.instance_id).is_some_and(is_its) {
            instances.remove(&whose.instance_id);
        }
        Ok(())
    }

    async fn heal(
        &self,
        cx: &VimCall<'_>,
        _: &Allocation,
        repair: &Repair,
    ) -> Result<Allocated, PortError> {
        self.called(cx.vim).await?;
        if let Some(made) = self.instances().get_mut(&cx.ownership.instance_id) {
            for one in &mut made.vnfcs {
                // A VNFC without its old id was replaced by an earlier call.
                if repair.vnfcs.contains(&one.0) {
                    *one = vnfc(one.1.clone());
                }
            }
        }
        Ok(self.inventory_of(cx.vim, cx.ownership))
    }

    async fn observe(
        &self,
        cx: &VimCall<'_>,
        _: &Allocation,
        _: &Value,
    ) -> Result<Allocated, PortError> {
        self.called(cx.vim).await?;
        Ok(self.inventory_of(cx.vim, cx.ownership))
    }

    async fn owned(
        &self,
        vim: &dyn Vim,
        installation_id: &str,
    ) -> Result<Vec<OwnedResource>, PortError> {
        self.called(vim).await?;
        let instances = self.instances();
        let ours = instances
            .iter()
            .filter(|(_, made)| made.installation_id == installation_id);
        let each = ours.flat_map(|(instance_id, made)| {
            made.vnfcs.iter().map(move |(id, vdu)| OwnedResource {
                kind: "Vnfc".to_owned(),
                id: id.clone(),
                name: vdu.clone(),
                instance_id: Some(instance_id.clone()),
            })
        });
        Ok(each.collect())
    }
}
