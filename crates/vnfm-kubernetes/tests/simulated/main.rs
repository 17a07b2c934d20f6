//! The driver against the simulated cluster, with the same tests as against a real one, which validates the simulation;
//! and with faults that only a simulation can inject.

#[cfg(test)]
mod attachments;
#[cfg(test)]
mod broken_events;
#[cfg(test)]
#[path = "../live/capabilities.rs"]
mod capabilities;
#[cfg(test)]
mod cluster_api;
#[cfg(test)]
#[path = "../live/deploy.rs"]
mod deploy;
#[cfg(test)]
#[path = "../live/empty_volume_scenarios.rs"]
mod empty_volume_scenarios;
#[cfg(test)]
mod empty_volumes;
#[cfg(test)]
mod faults;
#[cfg(test)]
#[path = "../live/heal.rs"]
mod heal;
#[cfg(test)]
#[path = "../live/images.rs"]
mod images;
#[cfg(test)]
mod invalid_manifests;
#[cfg(test)]
#[path = "../live/kubevirt.rs"]
mod kubevirt;
#[cfg(test)]
#[path = "../live/links.rs"]
mod links;
#[cfg(test)]
#[path = "../live/machines.rs"]
mod machines;
#[cfg(test)]
mod named;
#[cfg(test)]
#[path = "../live/networks.rs"]
mod networks;
#[cfg(test)]
#[path = "../live/pending_claims.rs"]
mod pending_claims;
#[cfg(test)]
#[path = "../live/pod_events.rs"]
mod pod_events;
#[cfg(test)]
#[path = "../live/policy.rs"]
mod policy;
#[cfg(test)]
mod registries;
#[cfg(test)]
#[path = "../live/remove.rs"]
mod remove;
#[cfg(test)]
mod rendered;
#[cfg(test)]
#[path = "../live/requested.rs"]
mod requested;
#[cfg(test)]
#[path = "../live/retained_volumes.rs"]
mod retained_volumes;
#[cfg(test)]
#[path = "../../../vnfm-registry/tests/it/running.rs"]
mod running;
#[cfg(test)]
#[path = "../live/scale.rs"]
mod scale;
#[cfg(test)]
#[path = "../live/snapshots.rs"]
mod snapshots;
#[cfg(test)]
#[path = "../live/support.rs"]
mod support;
#[cfg(test)]
#[path = "../live/tosca_only.rs"]
mod tosca_only;
#[cfg(test)]
mod unreadable;
#[cfg(test)]
mod volumes;

#[cfg(test)]
use faults::cluster;

/// Whether a deleted `hostPath` volume is deleted on the disk: a simulated cluster has none.
#[cfg(test)]
const HAS_DISKS: bool = false;
