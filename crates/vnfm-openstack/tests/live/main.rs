//! The driver against a real cloud: scenarios of `tests/it`, and what a simulator cannot show. Needs
//! `VNFM_LIVE_OPENSTACK`, the path of a clouds.yaml. `tests/long` runs the scenarios that take longest.

#[cfg(test)]
#[path = "../it/balancer_scenarios.rs"]
mod balancer_scenarios;
#[cfg(test)]
#[path = "../it/barbican.rs"]
mod barbican;
#[cfg(test)]
mod bed;
#[cfg(test)]
#[expect(dead_code, reason = "the other tier runs the rest")]
#[path = "../it/cloud_user.rs"]
mod cloud_user;
#[cfg(test)]
#[path = "../it/credential.rs"]
mod credential;
#[cfg(test)]
#[path = "../it/credential_scenarios.rs"]
mod credential_scenarios;
#[cfg(test)]
mod credentials;
#[cfg(test)]
mod keys;
#[cfg(test)]
#[path = "../it/link_scenarios.rs"]
mod link_scenarios;
#[cfg(test)]
mod links;
#[cfg(test)]
#[path = "../it/proxy.rs"]
mod proxy;
#[cfg(test)]
mod real_cloud;
#[cfg(test)]
#[expect(dead_code, reason = "the other tier runs the rest")]
#[path = "../it/scenarios.rs"]
mod scenarios;
#[cfg(test)]
#[expect(dead_code, reason = "the other tier runs the rest")]
#[path = "../it/support.rs"]
mod support;
#[cfg(test)]
#[path = "../it/volume_scenarios.rs"]
mod volume_scenarios;
#[cfg(test)]
mod volumes;
