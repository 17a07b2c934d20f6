//! The driver against the simulated cluster, by the same tests as against a real one: what it cannot tell apart,
//! the simulation has right. And what only a simulation does on demand: faults.

#[cfg(test)]
#[path = "../live/deploy.rs"]
mod deploy;
#[cfg(test)]
mod faults;
#[cfg(test)]
#[path = "../live/heal.rs"]
mod heal;
#[cfg(test)]
mod hostile;
#[cfg(test)]
mod named;
#[cfg(test)]
#[path = "../live/policy.rs"]
mod policy;
#[cfg(test)]
#[path = "../live/remove.rs"]
mod remove;
#[cfg(test)]
#[path = "../live/support.rs"]
mod support;

#[cfg(test)]
use faults::cluster;
