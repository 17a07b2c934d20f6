//! Fixtures for the contract of infrastructure drivers, for any VIM.

#![expect(clippy::unwrap_used, reason = "tests fail by panicking")]
#![expect(clippy::missing_panics_doc, reason = "tests fail by panicking")]

use async_trait::async_trait;
use serde_json::Value;
use std::sync::Arc;
use vnfm::SystemClock;
use vnfm_conformance::infra_driver::TestBed;
use vnfm_core::Deployment;
use vnfm_core::ports::{Allocation, Clock, Granted, InfraDriver};
use vnfm_descriptor::{Limits, Package};
use vnfm_types::VimConnectionInfo;

use crate::sources::root;

/// Lists every resource on a VIM, bypassing the driver.
pub type ListResources = Box<dyn Fn() -> Vec<String> + Send + Sync>;

/// A driver and its VIM.
pub struct On<D> {
    /// The driver that the contract tests.
    pub driver: D,
    /// A valid connection, as JSON.
    pub login: Value,
    /// The same connection with wrong credentials.
    pub wrong: Value,
    /// An allocation that the driver can create.
    pub what: Allocation,
    /// An allocation that the driver cannot create.
    pub impossible: Allocation,
    /// An instance in two sizes: see [`sizes`].
    pub sizes: Option<[Allocation; 2]>,
    /// The resources on the VIM.
    pub list_resources: ListResources,
    /// Maximum number of points at which a call is interrupted, for slow VIMs.
    pub max_interruptions: Option<usize>,
}

fn connection(value: &Value) -> VimConnectionInfo {
    serde_json::from_value(value.clone()).unwrap()
}

#[async_trait]
impl<D: InfraDriver> TestBed for On<D> {
    fn driver(&self) -> &dyn InfraDriver {
        &self.driver
    }
    fn clock(&self) -> Arc<dyn Clock> {
        Arc::new(SystemClock)
    }
    fn login(&self) -> VimConnectionInfo {
        connection(&self.login)
    }
    fn wrong_login(&self) -> Option<VimConnectionInfo> {
        Some(connection(&self.wrong))
    }
    fn what(&self) -> Allocation {
        self.what.clone()
    }
    fn infeasible_allocation(&self) -> Option<Allocation> {
        Some(self.impossible.clone())
    }
    fn sizes(&self) -> Option<[Allocation; 2]> {
        self.sizes.clone()
    }
    fn removes_last_vnfcs(&self) -> bool {
        !self.driver.vim_types().contains(&vnfm_types::KUBERNETES)
    }
    async fn resources(&self) -> Vec<String> {
        (self.list_resources)()
    }
    fn max_interruptions(&self) -> usize {
        self.max_interruptions
            .unwrap_or(vnfm_conformance::infra_driver::MAX_INTERRUPTIONS)
    }
}

/// The allocation that a sample requests.
pub fn sample(name: &str, fill: impl Fn(&str) -> String) -> Allocation {
    let folder = root().join("vnfd-samples").join(name);
    let package = Package::open(&folder, &Limits::default()).unwrap();
    let request = std::fs::read_to_string(folder.join("requests/instantiate.json")).unwrap();
    let request = serde_json::from_str(&fill(&request)).unwrap();
    let what = Allocation::requested("package", Arc::new(package), request).unwrap();
    Allocation {
        instance_name: Some("one".into()),
        ..what
    }
}

/// An instance as `what` says, and with one more VNFC of a VDU.
pub fn sizes(what: &Allocation, vdu: &str) -> [Allocation; 2] {
    let mut larger = what.clone();
    let deployment = Arc::make_mut(&mut larger.deployment);
    *deployment.vdu_instances.get_mut(vdu).unwrap() += 1;
    [what.clone(), larger]
}

/// The same allocation with an unknown image for `owner`, as granted by an NFVO.
#[must_use]
pub fn with_image(what: &Allocation, owner: &str) -> Allocation {
    let images = [(owner.to_owned(), "no-such-image".to_owned())].into();
    let placement = Granted {
        images,
        ..Granted::default()
    };
    let deployment = Deployment {
        placement,
        ..Deployment::clone(&what.deployment)
    };
    Allocation {
        deployment: Arc::new(deployment),
        ..what.clone()
    }
}

/// The VDU with the first image of the flavour `simple`.
pub fn first_vdu_with_image(what: &Allocation) -> String {
    let mut images = what.package.vnfd().flavours["simple"].images();
    images.next().unwrap().0.to_owned()
}

/// Two connections to the cluster of a kubeconfig, as JSON: with its credentials, and with wrong ones.
pub fn connection_from_kubeconfig(kubeconfig: &str) -> (Value, Value) {
    let file: Value = serde_yaml::from_str(kubeconfig).unwrap();
    let at = |pointer: &str| file.pointer(pointer).cloned().unwrap_or_default();
    let interface = serde_json::json!({"endpoint": at("/clusters/0/cluster/server"),
        "ssl_ca_cert": at("/clusters/0/cluster/certificate-authority-data")});
    let access = match file.pointer("/users/0/user/token") {
        Some(token) => serde_json::json!({"bearer_token": token}),
        None => {
            serde_json::json!({"client_certificate": at("/users/0/user/client-certificate-data"),
            "client_key": at("/users/0/user/client-key-data")})
        }
    };
    let login = |access: &Value| serde_json::json!({"vimType": vnfm_types::KUBERNETES, "interfaceInfo": interface, "accessInfo": access});
    (
        login(&access),
        login(&serde_json::json!({"bearer_token": "a wrong token"})),
    )
}
