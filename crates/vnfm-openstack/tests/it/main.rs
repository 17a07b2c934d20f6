//! The driver against a simulated cloud; `tests/live` runs the same scenarios on a real one.

#[cfg(test)]
mod balancer_scenarios;
#[cfg(test)]
mod balancers;
#[cfg(test)]
mod barbican;
#[cfg(test)]
mod cloud_user;
#[cfg(test)]
#[expect(dead_code, reason = "the real cloud uses the rest")]
mod credential;
#[cfg(test)]
mod credential_scenarios;
#[cfg(test)]
mod credentials;
#[cfg(test)]
mod failed_change_scenarios;
#[cfg(test)]
mod heal;
#[cfg(test)]
mod heal_faults;
#[cfg(test)]
mod heal_scenarios;
#[cfg(test)]
mod images;
#[cfg(test)]
mod keys;
#[cfg(test)]
mod link_scenarios;
#[cfg(test)]
mod links;
#[cfg(test)]
mod proxy;
#[cfg(test)]
mod resize;
#[cfg(test)]
mod resize_scenarios;
#[cfg(test)]
mod scenarios;
#[cfg(test)]
mod simulated;
#[cfg(test)]
mod snapshots;
#[cfg(test)]
#[expect(dead_code, reason = "the real cloud uses the rest")]
mod support;
#[cfg(test)]
mod volume_scenarios;
#[cfg(test)]
mod volumes;
#[cfg(test)]
mod zone_scenarios;
#[cfg(test)]
mod zones;
