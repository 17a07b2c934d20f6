//! What takes longest on a real cloud: heals, other sizes, zones, and a Heat engine that dies. Needs `VNFM_LIVE_OPENSTACK`,
//! the path of a clouds.yaml.

#[cfg(test)]
#[path = "../live/bed.rs"]
mod bed;
#[cfg(test)]
#[path = "../it/cloud_user.rs"]
mod cloud_user;
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
mod real_cloud;
#[cfg(test)]
mod resize;
#[cfg(test)]
#[path = "../it/resize_scenarios.rs"]
mod resize_scenarios;
#[cfg(test)]
#[expect(dead_code, reason = "the other tier runs the rest")]
#[path = "../it/scenarios.rs"]
mod scenarios;
#[cfg(test)]
#[path = "../it/support.rs"]
mod support;
#[cfg(test)]
#[path = "../it/zone_scenarios.rs"]
mod zone_scenarios;
#[cfg(test)]
mod zones;
