//! Fake `MgmtDriver`s, whose hooks record what they did.

use super::fakes::{FakeWorld, INJECTED};
use async_trait::async_trait;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use vnfm_core::ports::*;
use vnfm_types::*;

/// A MgmtDriver with all hooks: the cluster `https://<instance>` is registered at the end of an instantiation, with
/// another token at the end of a heal, and unregistered at the end of a termination. What a `…_start` hook takes out
/// of service, its undo or the `…_end` hook restores.
pub(super) struct FakeMgmtDriver(pub(super) Arc<FakeWorld>, pub(super) Declaration);

#[async_trait]
impl MgmtDriver for FakeMgmtDriver {
    fn declaration(&self) -> &Declaration {
        &self.1
    }
    async fn call(
        &self,
        request: HookRequest,
        host: Arc<dyn HookHost>,
    ) -> Result<Effects, PortError> {
        host.call("checkpoint.put", json!({"key": "k", "value": "v"}))
            .await?;
        self.0
            .called_versions
            .lock()
            .unwrap()
            .push(self.1.version.clone());
        let service_call = self.0.hook_service_call.lock().unwrap().clone();
        if let Some((service, request)) = service_call {
            host.call(service, request).await?;
        }
        let stored = host.call("checkpoint.get", json!({"key": "k"})).await?;
        assert_eq!(stored["value"], "v");
        let params = Value::Object(request.additional_params.clone());
        self.0
            .hook_params
            .lock()
            .unwrap()
            .push((request.hook.clone(), params));
        note_change(&self.0, &request);
        let inputs = request.inputs.clone();
        self.0.hook_inputs.lock().unwrap().push(inputs);
        let id = request.instance.id.clone();
        let prefix = if request.undo { "undo " } else { "" };
        let drains = request.hook.ends_with("_start") && !request.undo;
        let drained = &self.0.drained;
        let mark_drained = |_: &mut BTreeSet<String>| {
            let mut drained = drained.lock().unwrap();
            _ = if drains {
                drained.insert(id)
            } else {
                drained.remove(&id)
            };
        };
        self.0
            .call(&format!("{prefix}{}", request.hook), mark_drained)
            .await?;
        let vims = self.0.vims_of_scale_end.load(SeqCst);
        Ok(effects_of(&request, vims))
    }
}

/// Notes what the hook learns about the change that the operation makes.
fn note_change(world: &FakeWorld, request: &HookRequest) {
    if let Some(scale) = request.scale.clone() {
        let vnfcs = request.inventory.vnfc_resource_info.iter();
        let vnfcs = vnfcs.map(|vnfc| vnfc.id.clone()).collect();
        let mut scales = world.hook_scales.lock().unwrap();
        scales.push((request.hook.clone(), scale, vnfcs));
    }
    if let Some(operate) = request.operate.clone() {
        let mut operates = world.hook_operates.lock().unwrap();
        operates.push((request.hook.clone(), operate));
    }
    if let Some(change) = request.change_flavour.clone() {
        let mut changes = world.hook_flavours.lock().unwrap();
        changes.push((request.hook.clone(), change));
    }
    if let Some(snapshot) = request.snapshot.clone() {
        let mut snapshots = world.hook_snapshots.lock().unwrap();
        snapshots.push((request.hook.clone(), snapshot));
    }
    if let Some(change) = request.change_external_connectivity.clone() {
        let mut changes = world.hook_links.lock().unwrap();
        changes.push((request.hook.clone(), change));
    }
    if let Some(change) = request.change_current_package.clone() {
        let mut changes = world.hook_packages.lock().unwrap();
        changes.push((request.hook.clone(), change));
    }
}

/// Instantiation and heal register the cluster, each with its own token; termination unregisters it. `scale_end` registers
/// as many others.
fn effects_of(request: &HookRequest, of_scale_end: usize) -> Effects {
    let name = format!("cluster-{}", request.instance.id);
    let effects = Effects::none();
    let token = match request.hook.as_str() {
        _ if request.undo => return effects,
        "instantiate_end" => "planted-token",
        "heal_end" => "planted-token-after-heal",
        "terminate_end" => {
            return effects.unregister_vim(name);
        }
        "scale_end" => {
            let others = (0..of_scale_end).map(|number| {
                NewVim::new(format!("{name}-{number}"), KUBERNETES)
                    .interface(
                        "endpoint",
                        format!("https://{number}.{}", request.instance.id),
                    )
                    .access("bearer_token", "planted-token")
            });
            return others.fold(effects, Effects::register_vim);
        }
        _ => return effects,
    };
    let endpoint = format!("https://{}", request.instance.id);
    let vim = NewVim::new(name, KUBERNETES)
        .interface("endpoint", endpoint)
        .access("bearer_token", token);
    effects.register_vim(vim)
}

pub(super) struct FakePlugins(pub(super) Arc<FakeWorld>, pub(super) Arc<FakeMgmtDriver>);

impl MgmtDrivers for FakePlugins {
    fn resolve(&self, wanted: &HookDriverRef<'_>) -> Result<Arc<dyn MgmtDriver>, PortError> {
        if self.0.plugin_missing.load(SeqCst) {
            return Err(PortError::new(
                &INJECTED,
                "find the plugin",
                "there is none",
            ));
        }
        let FakeMgmtDriver(world, declaration) = &*self.1;
        let newest = world
            .newest_version
            .lock()
            .unwrap()
            .unwrap_or(&declaration.version)
            .to_owned();
        // The first version is installed alongside the newest until it is removed.
        let first = format!("fake@{}", declaration.version);
        let first = match wanted.version {
            DriverVersion::Newest => wanted.plugin == Some(&first),
            DriverVersion::Deployed(name) => name == first,
            DriverVersion::Exact(began) => began.versioned_name() == first,
        };
        let first = first && !world.first_plugin_missing.load(SeqCst);
        if !first && world.newest_plugin_broken.load(SeqCst) {
            return Err(PortError::new(
                &INJECTED,
                "load the plugin",
                "the newest is broken",
            ));
        }
        let version = if first {
            declaration.version.clone()
        } else {
            newest
        };
        let mut declaration = Declaration {
            version,
            ..declaration.clone()
        };
        if let Some(change) = *world.change_declaration.lock().unwrap() {
            change(&mut declaration);
        }
        wanted.checked(Ok(Arc::new(FakeMgmtDriver(world.clone(), declaration))))
    }
    fn list(&self) -> Vec<Declaration> {
        vec![self.1.1.clone()]
    }
}
