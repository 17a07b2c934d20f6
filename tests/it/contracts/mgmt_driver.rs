//! The plugin host with the template, and a plain Rust object, meet the contract of `MgmtDriver`s; a driver that breaks
//! a rule is detected.

use async_trait::async_trait;
use serde_json::{Value, json};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use vnfm::{StaticPlugins, SystemClock};
use vnfm_conformance::check;
use vnfm_conformance::mgmt_driver::{RULES, TestBed};
use vnfm_core::ports::*;
use vnfm_plugin_host::{Config, PluginHost};

/// Drivers, and simulated hosts that store the last uploaded file.
struct Bed<D> {
    drivers: D,
    name: &'static str,
    hook: &'static str,
    file: Mutex<String>,
}

impl<D: MgmtDrivers> Bed<D> {
    fn with(drivers: D, name: &'static str, hook: &'static str) -> Arc<dyn TestBed>
    where
        D: 'static,
    {
        Arc::new(Self {
            drivers,
            name,
            hook,
            file: Mutex::default(),
        })
    }
}

#[async_trait]
impl<D: MgmtDrivers> TestBed for Bed<D> {
    fn drivers(&self) -> &dyn MgmtDrivers {
        &self.drivers
    }
    fn named(&self) -> HookDriverRef<'_> {
        self.name.into()
    }
    fn request(&self) -> HookRequest {
        let deadline = jiff::Timestamp::now() + Duration::from_mins(5);
        let address = |last: u8| {
            json!([{"layerProtocol": "IP_OVER_ETHERNET", "ipOverEthernet": {"ipAddresses": [
                {"type": "IPV4", "addresses": [format!("10.0.0.{last}")]}]}}])
        };
        let vnfc = |n: u8| {
            json!({"id": format!("vnfc-{n}"), "vduId": "VDU1", "computeResource": {"resourceId": format!("server-{n}")},
                "metadata": {"name": format!("web-{n}")},
                "vnfcCpInfo": [{"id": format!("cp-{n}"), "cpdId": "CP1", "cpProtocolInfo": address(n)}]})
        };
        let request = json!({
            "schemaVersion": 1, "operation": "INSTANTIATE", "hook": self.hook,
            "instance": {"id": "i-1", "vnfdId": "d-1", "vnfProvider": "p", "vnfProductName": "n",
                "vnfSoftwareVersion": "1", "vnfdVersion": "1", "metadata": {}},
            "inventory": {"vnfcResourceInfo": [vnfc(1), vnfc(2)]},
            "additionalParams": {"sshCp": "CP1", "username": "ubuntu", "password": "planted-password", "text": "hello"},
            "inputs": {}, "vims": [], "artifacts": [], "deadline": deadline, "attempt": 1,
        });
        serde_json::from_value(request).unwrap()
    }
    async fn answer(&self, service: &str, _: Value) -> Result<Value, PortError> {
        Ok(match service {
            "ssh.put" => {
                "hello".clone_into(&mut self.file.lock().unwrap());
                json!({})
            }
            "ssh.run" => {
                let stdout = self.file.lock().unwrap().clone();
                json!({"exitCode": 0, "stdout": stdout, "stderr": "", "truncated": false})
            }
            _ => json!({}),
        })
    }
    fn secrets(&self) -> Vec<String> {
        vec!["planted-password".to_owned()]
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn plugin_host_meets_the_contract() {
    let fresh = || async {
        let host = PluginHost::new(Config::default(), Arc::new(SystemClock));
        host.register(vnfm_plugin_sdk::static_driver::<mgmt_template::Template>())
            .unwrap();
        Bed::with(host, "mgmt-template", "instantiate_end")
    };
    check(RULES, fresh).await.unwrap();
}

/// How a driver is broken.
#[derive(Clone, Copy, PartialEq)]
enum Flaw {
    None,
    /// Each run returns different effects.
    UnstableEffects,
    /// It accepts hooks that it does not declare.
    AcceptsAnyHook,
    /// It logs its secrets.
    LogsSecrets,
    /// After a failed call, the next run skips the work and its effects.
    SkipsAfterFailure,
    /// It declares a version that is not one.
    InvalidVersion,
    /// The second undo fails.
    UndoesOnce,
}

/// A plain Rust object that greets a host, and can undo it.
struct Greeting(Declaration, Flaw, Mutex<u64>);

impl Greeting {
    fn with(flaw: Flaw) -> StaticPlugins {
        let hook = HookDeclaration {
            undo: true,
            ..HookDeclaration::default()
        };
        let version = if flaw == Flaw::InvalidVersion {
            "new"
        } else {
            "1.0.0"
        };
        StaticPlugins::default().with(Self(
            Declaration {
                name: "greeting".into(),
                version: version.into(),
                hooks: [("instantiate_start".to_owned(), hook)].into(),
                config_schema: None,
            },
            flaw,
            Mutex::default(),
        ))
    }
}

const WRONG: Code = Code {
    name: "test.wrong",
    kind: ErrorKind::Refused,
    means: "the driver refuses this",
    next: "call another hook",
};

#[async_trait]
impl MgmtDriver for Greeting {
    fn declaration(&self) -> &Declaration {
        &self.0
    }
    async fn call(
        &self,
        request: HookRequest,
        host: Arc<dyn HookHost>,
    ) -> Result<Effects, PortError> {
        let Self(declaration, flaw, calls) = self;
        let number = {
            let mut number = calls.lock().unwrap();
            *number += 1;
            *number
        };
        if !declaration.hooks.contains_key(&request.hook) && *flaw != Flaw::AcceptsAnyHook {
            return Err(PortError::new(
                &WRONG,
                format!("run `{}`", request.hook),
                "not declared",
            ));
        }
        if *flaw == Flaw::LogsSecrets {
            host.log("info", &format!("{:?}", request.additional_params));
        }
        if *flaw == Flaw::UndoesOnce && request.undo && number > 2 {
            return Err(PortError::new(&WRONG, "undo", "already undone"));
        }
        let known = host.call("checkpoint.get", json!({"key": "tried"})).await?["value"].clone();
        if *flaw == Flaw::SkipsAfterFailure && !known.is_null() {
            return Ok(Effects::none());
        }
        host.call("checkpoint.put", json!({"key": "tried", "value": true}))
            .await?;
        let target = json!({"serverId": "server-1", "address": "10.0.0.1", "username": "ubuntu"});
        let run = json!({"host": target, "command": "true", "deadlineSeconds": 5});
        host.call("ssh.run", run).await?;
        let output = if *flaw == Flaw::UnstableEffects {
            json!(number)
        } else {
            json!("hello")
        };
        Ok(Effects::none().metadata("said", output))
    }
}

fn greeting(flaw: Flaw) -> std::future::Ready<Arc<dyn TestBed>> {
    std::future::ready(Bed::with(
        Greeting::with(flaw),
        "greeting",
        "instantiate_start",
    ))
}

#[tokio::test(flavor = "multi_thread")]
async fn contract_accepts_a_plain_mgmt_driver_and_detects_broken_ones() {
    check(RULES, || greeting(Flaw::None)).await.unwrap();
    for (flaw, rule) in [
        (
            Flaw::UnstableEffects,
            "a_repeated_hook_has_the_same_effects",
        ),
        (Flaw::AcceptsAnyHook, "an_undeclared_hook_is_refused"),
        (Flaw::LogsSecrets, "no_secret_is_revealed"),
        (
            Flaw::SkipsAfterFailure,
            "a_hook_recovers_from_a_failed_call",
        ),
        (
            Flaw::SkipsAfterFailure,
            "a_hook_recovers_from_being_dropped",
        ),
        (Flaw::InvalidVersion, "a_declaration_is_complete"),
        (Flaw::UndoesOnce, "a_hook_with_undo_can_be_undone"),
    ] {
        let broken = check(RULES, || greeting(flaw)).await.unwrap_err();
        assert!(
            broken.names().contains(&rule),
            "`{rule}` was not broken: {broken}"
        );
    }
}
