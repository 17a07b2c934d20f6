//! Fixtures for the contract of infrastructure drivers, for any VIM.

#![expect(clippy::unwrap_used, reason = "tests fail by panicking")]
#![expect(clippy::missing_panics_doc, reason = "tests fail by panicking")]

use serde_json::Value;
use std::sync::Arc;
use vnfm_core::Deployment;
use vnfm_core::ports::{Allocation, Granted};
use vnfm_descriptor::{Limits, Package};
use vnfm_types::{KUBERNETES, VimConnectionInfo};

use crate::sources::root;

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

/// An instance as two samples describe it, of which the second is the next release of the first.
pub fn releases(samples: [&str; 2]) -> [Allocation; 2] {
    samples.map(|name| {
        let mut what = sample(name, ToOwned::to_owned);
        Arc::make_mut(&mut what.deployment).vnf_pkg_id = name.into();
        what
    })
}

/// An instance whose first external link is on one of two networks.
pub fn links(what: &Allocation, networks: [&str; 2]) -> [Allocation; 2] {
    networks.map(|network| {
        let mut what = what.clone();
        let deployment = Arc::make_mut(&mut what.deployment);
        network.clone_into(&mut deployment.ext_virtual_links[0].resource_id);
        what
    })
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

/// Two connections to the cluster of a kubeconfig: with its credentials, and with wrong ones.
pub fn connections_from_kubeconfig(kubeconfig: &str) -> [VimConnectionInfo; 2] {
    let file: Value = serde_yaml::from_str(kubeconfig).unwrap();
    let at = |pointer: &str| file.pointer(pointer).cloned().unwrap_or_default();
    let cluster = VimConnectionInfo::new(KUBERNETES)
        .interface("endpoint", at("/clusters/0/cluster/server"))
        .interface(
            "ssl_ca_cert",
            at("/clusters/0/cluster/certificate-authority-data"),
        );
    let right = match file.pointer("/users/0/user/token") {
        Some(token) => cluster.clone().access("bearer_token", token.clone()),
        None => cluster
            .clone()
            .access(
                "client_certificate",
                at("/users/0/user/client-certificate-data"),
            )
            .access("client_key", at("/users/0/user/client-key-data")),
    };
    [right, cluster.access("bearer_token", "a wrong token")]
}
