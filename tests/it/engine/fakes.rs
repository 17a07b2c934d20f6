//! Fake ports. The VIM and the hooks record their state, and any call can be made to fail by its number.

use async_trait::async_trait;
use futures::StreamExt as _;
use futures::channel::mpsc::UnboundedReceiver;
use futures::future::pending;
use futures::stream::BoxStream;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use tokio::sync::Notify;
use vnfm_core::Deployment;
use vnfm_core::ports::*;
use vnfm_descriptor::Package;
use vnfm_types::*;

pub(crate) const TENANT: &str = "default";
pub(super) const INJECTED: Code = Code {
    name: "test.injected",
    kind: ErrorKind::Unavailable,
    means: "the test injected a failure",
    next: "nothing",
};

pub(super) const BROKEN: Code = Code {
    name: "test.broken",
    kind: ErrorKind::Broken,
    means: "the VIM breaks its API",
    next: "do not inject it",
};

/// The environment of an engine, which outlives it, and the switches of the test.
#[derive(Default)]
pub(crate) struct FakeWorld {
    /// Ids of instances with resources on the VIM.
    pub(crate) resources: Mutex<BTreeSet<String>>,
    /// Resources of each instance, by its id.
    pub(crate) inventories: Mutex<BTreeMap<String, Inventory>>,
    /// States of the VNFCs of each instance, by its id; absent: they run.
    pub(crate) states: Mutex<BTreeMap<String, VnfOperationalState>>,
    /// The VIM can neither stop VNFCs, nor connect them to other links, nor store their state.
    pub(crate) powerless: AtomicBool,
    /// The VIM can only stop all VNFCs of an instance.
    pub(crate) stops_only_all: AtomicBool,
    /// Secrets of the logins on the VIM, by `INSTANCE/NAME`.
    pub(crate) credentials: Mutex<BTreeMap<String, String>>,
    /// The instance of each snapshot on the VIM, by its id.
    pub(crate) stored: Mutex<BTreeMap<String, String>>,
    /// What each hook of a snapshot received about it.
    pub(crate) hook_snapshots: Mutex<Vec<(String, HookSnapshot)>>,
    /// Parameters of each hook call.
    pub(crate) hook_params: Mutex<Vec<(String, Value)>>,
    /// Inputs of each hook call.
    pub(crate) hook_inputs: Mutex<Vec<KeyValuePairs>>,
    /// What each hook of a scaling received about it, with the VNFCs of its inventory.
    pub(crate) hook_scales: Mutex<Vec<(String, HookScale, Vec<String>)>>,
    /// The VIM replaces the first VNFC in passing, as a cluster does that evicts a pod.
    pub(crate) replaces_first: AtomicBool,
    /// VIMs that each `scale_end` registers, by number.
    pub(crate) vims_of_scale_end: AtomicUsize,
    /// What each hook of a start or stop received about it.
    pub(crate) hook_operates: Mutex<Vec<(String, HookOperate)>>,
    /// What each hook of a change of flavour received about it.
    pub(crate) hook_flavours: Mutex<Vec<(String, HookFlavourChange)>>,
    /// What each hook of a change of external connectivity received about it.
    pub(crate) hook_links: Mutex<Vec<(String, HookConnectivity)>>,
    /// Instances that a `…_start` hook has drained, and no later hook has restored.
    pub(crate) drained: Mutex<BTreeSet<String>>,
    /// Every call to the VIM, in order.
    pub(crate) calls: Mutex<Vec<String>>,
    /// Number of the call that fails once, from 1; 0: none.
    pub(crate) fail_call: AtomicUsize,
    /// How often the next calls of a name fail, and with which code.
    pub(crate) failing: Mutex<BTreeMap<&'static str, (usize, &'static Code)>>,
    /// Number of times that it fails because no file descriptor is left.
    pub(crate) descriptor_failures: AtomicUsize,
    /// The failing call takes effect first.
    pub(crate) fail_after_effect: Mutex<bool>,
    /// Calls of this name never return.
    pub(crate) hang_in: Mutex<Option<&'static str>>,
    /// The newest version of the plugin, if not 1.0.0.
    pub(crate) newest_version: Mutex<Option<&'static str>>,
    /// The next call of this name waits for the notification before its effect.
    pub(crate) gate: Mutex<Option<(&'static str, Arc<Notify>)>>,
    /// Number of the call that never returns, from 1; 0: none.
    pub(crate) hang_at_call: AtomicUsize,
    /// Notified when a call hangs.
    pub(crate) hung: Notify,
    /// The VIM cannot be reached.
    pub(crate) vim_unavailable: AtomicBool,
    /// The plugin is not installed.
    pub(crate) plugin_missing: AtomicBool,
    pub(crate) change_declaration: Mutex<Option<fn(&mut Declaration)>>,
    /// An additional host service call of every hook: service and request.
    pub(crate) hook_service_call: Mutex<Option<(&'static str, Value)>>,
    /// Plugin version of each hook call.
    pub(crate) called_versions: Mutex<Vec<String>>,
    /// Only the newest version of the plugin is installed.
    pub(crate) first_plugin_missing: AtomicBool,
    /// The newest version of the plugin cannot be loaded.
    pub(crate) newest_plugin_broken: AtomicBool,
    /// The package cannot be read.
    pub(crate) package_missing: AtomicBool,
    /// Packages other than the one of the engine, by `vnfPkgId`.
    pub(crate) other_packages: Mutex<BTreeMap<String, Arc<Package>>>,
    /// What each hook of a change of package received about it.
    pub(crate) hook_packages: Mutex<Vec<(String, HookPackageChange)>>,
    /// Whether there is an NFVO.
    pub(crate) has_nfvo: AtomicBool,
    /// What the VIM tells about changes outside of operations; `None`: it cannot tell.
    pub(crate) events: Mutex<Option<EventReceiver>>,
    /// Number of observations of each instance.
    pub(crate) observations: Mutex<BTreeMap<String, usize>>,
    /// The last deployment that the VIM created.
    pub(crate) last_deployment: Mutex<Option<Arc<Deployment>>>,
    /// Requests for grants, in order.
    pub(crate) grant_requests: Mutex<Vec<GrantRequest>>,
    /// The next responses of the NFVO; afterwards it grants every request.
    pub(crate) grant_responses: Mutex<VecDeque<Result<GrantOutcome, PortError>>>,
}

/// Receives the events of the VIM.
pub(crate) type EventReceiver =
    Arc<futures::lock::Mutex<UnboundedReceiver<Result<VimEvent, PortError>>>>;

/// The VIM in the registry; its name is `cloud`.
pub(crate) const CLOUD: &str = "5f1d0f0a-0000-4000-8000-00000000c10d";

impl FakeWorld {
    /// An environment with an NFVO.
    pub(crate) fn with_nfvo() -> Arc<Self> {
        Arc::new(Self {
            has_nfvo: AtomicBool::new(true),
            ..Self::default()
        })
    }

    pub(crate) async fn call(
        &self,
        name: &str,
        effect: impl FnOnce(&mut BTreeSet<String>),
    ) -> Result<(), PortError> {
        let number = {
            let mut calls = self.calls.lock().unwrap();
            calls.push(name.to_owned());
            calls.len()
        };
        let hangs = self.hang_in.lock().unwrap().is_some_and(|at| at == name);
        if hangs || self.hang_at_call.load(SeqCst) == number {
            self.hung.notify_one();
            pending::<()>().await;
        }
        let gate = self.gate.lock().unwrap().take_if(|(at, _)| *at == name);
        if let Some((_, opened)) = gate {
            opened.notified().await;
        }
        if self.vim_unavailable.load(SeqCst) && VIM_CALLS.contains(&name) {
            return Err(PortError::new(
                &INJECTED,
                format!("do `{name}`"),
                "the VIM is unavailable",
            ));
        }
        if let Some(code) = self.take_failure(name) {
            let doing = format!("do `{name}`");
            return Err(PortError::new(code, doing, "injected failure"));
        }
        let fails = self.fail_call.load(SeqCst) == number;
        if fails && self.descriptor_failures.load(SeqCst) > 0 {
            if self.descriptor_failures.fetch_sub(1, SeqCst) > 1 {
                self.fail_call.fetch_add(1, SeqCst);
            }
            let none = std::io::Error::from_raw_os_error(24);
            return Err(PortError::new(
                &INJECTED,
                format!("do `{name}`"),
                none.to_string(),
            ));
        }
        let after = *self.fail_after_effect.lock().unwrap();
        if !fails || after {
            effect(&mut self.resources.lock().unwrap());
        }
        if fails {
            Err(PortError::new(
                &INJECTED,
                format!("do `{name}`"),
                "injected failure",
            ))
        } else {
            Ok(())
        }
    }

    /// Lets the next calls of this name fail.
    pub(crate) fn fail(&self, call: &'static str, times: usize, code: &'static Code) {
        self.failing.lock().unwrap().insert(call, (times, code));
    }

    fn take_failure(&self, call: &str) -> Option<&'static Code> {
        let mut failing = self.failing.lock().unwrap();
        let (times, code) = failing.get_mut(call).filter(|(times, _)| *times > 0)?;
        *times -= 1;
        Some(*code)
    }

    pub(crate) fn calls(&self) -> Vec<String> {
        self.calls.lock().unwrap().clone()
    }

    pub(crate) fn resource_ids(&self) -> Vec<String> {
        self.resources.lock().unwrap().iter().cloned().collect()
    }
}

/// Names of calls to the VIM.
const VIM_CALLS: [&str; 9] = [
    "check", "prepare", "allocate", "heal", "power", "release", "store", "revert", "discard",
];

/// A VIM of both types that only records resources.
pub(super) struct FakeVim(pub(super) Arc<FakeWorld>);

#[async_trait]
impl InfraDriver for FakeVim {
    fn vim_types(&self) -> &'static [&'static str] {
        &[KUBERNETES, OPENSTACK]
    }
    fn validate(&self, _: &VimConnectionInfo) -> Result<(), PortError> {
        Ok(())
    }
    fn validate_request(&self, _: &Allocation) -> Result<(), PortError> {
        Ok(())
    }
    fn permit(&self, _: &Allocation, _: &vnfm_types::VimPolicy) -> Result<(), PortError> {
        Ok(())
    }
    async fn check(&self, vim: &dyn vnfm_core::ports::Vim) -> Result<VimReport, PortError> {
        self.0.call("check", |_| ()).await?;
        let endpoint = vim
            .connection()
            .await?
            .info
            .interface_info
            .get("endpoint")
            .cloned();
        let identity = endpoint.and_then(|endpoint| endpoint.as_str().map(ToOwned::to_owned));
        Ok(VimReport {
            identity,
            ..VimReport::default()
        })
    }
    async fn preview(&self, _: &VimCall<'_>, _: &Convergence<'_>) -> Result<Value, PortError> {
        self.0
            .call("prepare", |_| ())
            .await
            .map(|()| json!({"image": "i"}))
    }
    async fn converge(
        &self,
        cx: &VimCall<'_>,
        change: &Convergence<'_>,
        preview: &Value,
    ) -> Result<Recorded, PortError> {
        let (call, inventory) = match change.current {
            None => {
                assert_eq!(
                    preview["image"], "i",
                    "what `preview` found has to come back"
                );
                *self.0.last_deployment.lock().unwrap() = Some(change.target.deployment.clone());
                ("allocate", recorded().inventory)
            }
            Some(current) => {
                assert_eq!(current.handle, "h", "what was recorded has to come back");
                ("heal", with_new_ids(&current.inventory, &change.replace))
            }
        };
        let id = cx.ownership.instance_id.clone();
        let (inventories, now) = (&self.0.inventories, inventory.clone());
        let effect = |all: &mut BTreeSet<String>| {
            _ = all.insert(id.clone());
            _ = inventories.lock().unwrap().insert(id, now);
        };
        self.0.call(call, effect).await?;
        Ok(Recorded {
            inventory,
            ..recorded()
        })
    }
    async fn release(
        &self,
        cx: &VimCall<'_>,
        _: &Allocation,
        _: &Release,
    ) -> Result<(), PortError> {
        let id = cx.ownership.instance_id.clone();
        let logins = &self.0.credentials;
        let effect = |all: &mut BTreeSet<String>| {
            _ = all.remove(&id);
            logins
                .lock()
                .unwrap()
                .retain(|key, _| !key.starts_with(&id));
        };
        self.0.call("release", effect).await
    }
    async fn observe(
        &self,
        cx: &VimCall<'_>,
        _: &Allocation,
        _: &Value,
    ) -> Result<Recorded, PortError> {
        let id = &cx.ownership.instance_id;
        *self
            .0
            .observations
            .lock()
            .unwrap()
            .entry(id.clone())
            .or_default() += 1;
        if self.0.vim_unavailable.load(SeqCst) {
            return Err(PortError::new(&INJECTED, "look", "the VIM is unavailable"));
        }
        let gate = self
            .0
            .gate
            .lock()
            .unwrap()
            .take_if(|(at, _)| *at == "observe");
        if let Some((_, opened)) = gate {
            self.0.hung.notify_one();
            opened.notified().await;
        }
        if !self.0.resource_ids().contains(id) {
            return Ok(Recorded::default());
        }
        let inventory = self.0.inventories.lock().unwrap()[id].clone();
        Ok(Recorded {
            inventory,
            ..recorded()
        })
    }
    fn changes_ext_connectivity(&self) -> bool {
        !self.0.powerless.load(SeqCst)
    }
    fn power(&self) -> Option<&dyn Power> {
        (!self.0.powerless.load(SeqCst)).then_some(self)
    }
    fn observes(&self) -> Option<&dyn Observes> {
        let can_tell = self.0.events.lock().unwrap().is_some();
        can_tell.then_some(self)
    }
    fn credentials(&self) -> Option<&dyn Credentials> {
        Some(self)
    }
    fn snapshots(&self) -> Option<&dyn Snapshots> {
        (!self.0.powerless.load(SeqCst)).then_some(self)
    }
    async fn owned(
        &self,
        _: &dyn vnfm_core::ports::Vim,
        _: &str,
    ) -> Result<Vec<OwnedResource>, PortError> {
        if self.0.vim_unavailable.load(SeqCst) {
            return Err(PortError::new(&INJECTED, "look", "the VIM is unavailable"));
        }
        let owned = |id: String| OwnedResource {
            kind: "Thing".into(),
            id: id.clone(),
            name: id.clone(),
            instance_id: Some(id),
            snapshot_id: None,
            link_id: None,
            volume_id: None,
        };
        let stored = self.0.stored.lock().unwrap().clone().into_iter();
        let stored = stored.map(|(id, instance)| OwnedResource {
            kind: "Stored".into(),
            id: id.clone(),
            name: id.clone(),
            instance_id: Some(instance),
            snapshot_id: Some(id),
            link_id: None,
            volume_id: None,
        });
        let all = self.0.resource_ids().into_iter().map(owned);
        Ok(all.chain(stored).collect())
    }
}

impl Observes for FakeVim {
    fn events<'a>(
        &'a self,
        _: &'a dyn vnfm_core::ports::Vim,
        _: &'a str,
        _: &'a dyn Clock,
    ) -> BoxStream<'a, Result<VimEvent, PortError>> {
        let receiver = self.0.events.lock().unwrap().clone().unwrap();
        let first = futures::stream::once(async { Ok(VimEvent::Missed) });
        let rest = futures::stream::unfold(receiver, |receiver| async {
            let next = receiver.lock().await.next().await;
            Some((next?, receiver))
        });
        first.chain(rest).boxed()
    }
}

#[async_trait]
impl Power for FakeVim {
    fn is_per_vnfc(&self) -> bool {
        !self.0.stops_only_all.load(SeqCst)
    }
    async fn operate(
        &self,
        cx: &VimCall<'_>,
        change: &PowerChange<'_>,
    ) -> Result<Recorded, PortError> {
        let id = cx.ownership.instance_id.clone();
        let (states, state) = (&self.0.states, change.target.deployment.vnf_state);
        let effect = |_: &mut BTreeSet<String>| _ = states.lock().unwrap().insert(id, state);
        self.0.call("power", effect).await?;
        Ok(change.current.clone())
    }
}

#[async_trait]
impl Credentials for FakeVim {
    async fn create_credential(
        &self,
        cx: &VimCall<'_>,
        wanted: &CredentialRequest,
        secret: &Secret,
    ) -> Result<Credential, PortError> {
        let key = format!("{}/{}", cx.ownership.instance_id, wanted.name);
        let secret = secret.reveal().to_owned();
        self.0.credentials.lock().unwrap().insert(key, secret);
        self.0.call("credential", |_| ()).await?;
        Ok(Credential::default())
    }
    async fn revoke_credentials(&self, cx: &VimCall<'_>, kept: &[&str]) -> Result<(), PortError> {
        let prefix = format!("{}/", cx.ownership.instance_id);
        let logins = &self.0.credentials;
        let effect = |_: &mut BTreeSet<String>| {
            let is_kept = |key: &str| {
                key.strip_prefix(&prefix)
                    .is_none_or(|name| kept.contains(&name))
            };
            logins.lock().unwrap().retain(|key, _| is_kept(key));
        };
        self.0.call("revoke", effect).await
    }
}

#[async_trait]
impl Snapshots for FakeVim {
    async fn check_source(&self, _: &VimCall<'_>, _: &SnapshotSource<'_>) -> Result<(), PortError> {
        self.0.call("prepare", |_| ()).await
    }
    async fn create(
        &self,
        cx: &VimCall<'_>,
        source: &SnapshotSource<'_>,
    ) -> Result<StoredSnapshot, PortError> {
        let (stored, instance) = (&self.0.stored, cx.ownership.instance_id.clone());
        let effect = |_: &mut BTreeSet<String>| {
            stored
                .lock()
                .unwrap()
                .insert(source.id.to_owned(), instance);
        };
        self.0.call("store", effect).await?;
        let vnfcs = source.current.inventory.vnfc_resource_info.iter();
        let vnfc = |vnfc: &VnfcResourceInfo| VnfcSnapshotInfo {
            id: vnfc.id.clone(),
            vnfc_instance_id: vnfc.id.clone(),
            ..VnfcSnapshotInfo::default()
        };
        Ok(StoredSnapshot {
            handle: json!("stored"),
            vnfcs: vnfcs.map(vnfc).collect(),
        })
    }
    async fn revert(
        &self,
        cx: &VimCall<'_>,
        reversion: &Reversion<'_>,
    ) -> Result<Recorded, PortError> {
        assert_eq!(reversion.stored.handle, "stored");
        let (id, state) = (
            cx.ownership.instance_id.clone(),
            reversion.target.deployment.vnf_state,
        );
        let states = &self.0.states;
        let effect = |_: &mut BTreeSet<String>| _ = states.lock().unwrap().insert(id, state);
        self.0.call("revert", effect).await?;
        Ok(reversion.current.clone())
    }
    async fn delete(&self, _: &VimCall<'_>, id: &str, _: &Value) -> Result<(), PortError> {
        let stored = &self.0.stored;
        let effect = |_: &mut BTreeSet<String>| _ = stored.lock().unwrap().remove(id);
        self.0.call("discard", effect).await
    }
    async fn plan_create(
        &self,
        _: &VimCall<'_>,
        _: &SnapshotSource<'_>,
    ) -> Result<ResourcePlan, PortError> {
        Ok(ResourcePlan::unknown("what a snapshot stores"))
    }
    async fn plan_revert(
        &self,
        _: &VimCall<'_>,
        reversion: &Reversion<'_>,
    ) -> Result<ResourcePlan, PortError> {
        self.0.call("prepare", |_| ()).await?;
        assert!(self.0.stored.lock().unwrap().contains_key(reversion.id));
        Ok(ResourcePlan::unknown("what a snapshot restores"))
    }
}

/// The inventory with a new id for each VNFC to replace.
fn with_new_ids(inventory: &Inventory, replace: &Replacement) -> Inventory {
    let mut inventory = inventory.clone();
    for vnfc in &mut inventory.vnfc_resource_info {
        if replace.vnfcs.contains(&vnfc.id) {
            vnfc.id += "+";
        }
    }
    inventory
}

/// The resources of every instance.
fn recorded() -> Recorded {
    let vnfc = |id: &str| VnfcResourceInfo {
        id: id.into(),
        vdu_id: "v".into(),
        ..Default::default()
    };
    let vnfc_resource_info = vec![vnfc("c1"), vnfc("c2")];
    let inventory = Inventory {
        vnfc_resource_info,
        ..Inventory::default()
    };
    Recorded {
        handle: json!("h"),
        inventory,
        ..Recorded::default()
    }
}

pub(super) struct FakeNfvo(pub(super) Arc<FakeWorld>);

/// A grant of everything requested.
pub(crate) fn granted(request: &GrantRequest) -> Grant {
    let approve = |all: &[ResourceDefinition]| {
        let info = |one: &ResourceDefinition| GrantInfo {
            resource_definition_id: one.id.clone(),
            ..GrantInfo::default()
        };
        all.iter().map(info).collect()
    };
    Grant {
        id: format!("grant-of-{}", request.vnf_lcm_op_occ_id),
        vnf_instance_id: request.vnf_instance_id.clone(),
        vnf_lcm_op_occ_id: request.vnf_lcm_op_occ_id.clone(),
        add_resources: approve(&request.add_resources),
        remove_resources: approve(&request.remove_resources),
        update_resources: approve(&request.update_resources),
        ..Grant::default()
    }
}

#[async_trait]
impl Nfvo for FakeNfvo {
    async fn request_grant(&self, request: &GrantRequest) -> Result<GrantOutcome, PortError> {
        self.0.grant_requests.lock().unwrap().push(request.clone());
        self.0.call("grant", |_| ()).await?;
        let next = self.0.grant_responses.lock().unwrap().pop_front();
        next.unwrap_or_else(|| Ok(GrantOutcome::Granted(Box::new(granted(request)))))
    }

    async fn poll_grant(&self, fixture: &str) -> Result<GrantOutcome, PortError> {
        self.0.call("look", |_| ()).await?;
        let next = self.0.grant_responses.lock().unwrap().pop_front();
        let request = self.0.grant_requests.lock().unwrap().last().cloned();
        let granted = || Ok(GrantOutcome::Granted(Box::new(granted(&request.unwrap()))));
        assert_eq!(fixture, "place", "the location of the 202 response");
        next.unwrap_or_else(granted)
    }
}

pub(super) struct FakePackages(pub(super) Arc<FakeWorld>, pub(super) Arc<Package>);

#[async_trait]
impl Packages for FakePackages {
    async fn package(&self, _: &str, id: &str) -> Result<Arc<Package>, PortError> {
        if self.0.package_missing.load(SeqCst) {
            return Err(PortError::new(
                &INJECTED,
                "read the package",
                "its file is gone",
            ));
        }
        let others = self.0.other_packages.lock().unwrap();
        Ok(others.get(id).unwrap_or(&self.1).clone())
    }
}
