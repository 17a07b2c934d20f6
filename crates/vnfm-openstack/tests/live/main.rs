//! The driver against a real cloud: the stories of `tests/it`, and what only the real one does. Needs
//! `VNFM_LIVE_OPENSTACK`, the path of a clouds.yaml.

#[cfg(test)]
#[path = "../it/barbican.rs"]
mod barbican;
#[cfg(test)]
#[path = "../it/credential.rs"]
mod credential;
#[cfg(test)]
mod engine_death;
#[cfg(test)]
#[path = "../it/hands.rs"]
mod hands;
#[cfg(test)]
mod healing;
#[cfg(test)]
#[path = "../it/heals.rs"]
mod heals;
#[cfg(test)]
mod keys;
#[cfg(test)]
#[path = "../it/proxy.rs"]
mod proxy;
#[cfg(test)]
mod real;
#[cfg(test)]
#[path = "../it/stories.rs"]
mod stories;
#[cfg(test)]
#[path = "../it/support.rs"]
mod support;
