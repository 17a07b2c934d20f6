//! The driver against a real cloud: the scenarios of `tests/it`, and what a simulator cannot show. Needs
//! `VNFM_LIVE_OPENSTACK`, the path of a clouds.yaml.

#[cfg(test)]
#[path = "../it/barbican.rs"]
mod barbican;
#[cfg(test)]
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
mod engine_death;
#[cfg(test)]
#[path = "../it/failed_change_scenarios.rs"]
mod failed_change_scenarios;
#[cfg(test)]
mod heal;
#[cfg(test)]
#[path = "../it/heal_scenarios.rs"]
mod heal_scenarios;
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
mod resize;
#[cfg(test)]
#[path = "../it/resize_scenarios.rs"]
mod resize_scenarios;
#[cfg(test)]
#[path = "../it/scenarios.rs"]
mod scenarios;
#[cfg(test)]
#[path = "../it/support.rs"]
mod support;
#[cfg(test)]
#[path = "../it/volume_scenarios.rs"]
mod volume_scenarios;
#[cfg(test)]
mod volumes;
#[cfg(test)]
#[path = "../it/zone_scenarios.rs"]
mod zone_scenarios;
#[cfg(test)]
mod zones;
