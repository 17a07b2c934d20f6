//! The driver of bare hosts against simulated hosts, real OpenSSH servers, Redfish services, IPMI and Ironic.

#[cfg(test)]
mod affinity;
#[cfg(test)]
mod bmc;
#[cfg(test)]
mod contract;
#[cfg(test)]
mod hostile;
#[cfg(test)]
mod ipmi;
#[cfg(test)]
mod ironic;
#[cfg(test)]
mod leases;
#[cfg(test)]
mod power;
#[cfg(test)]
mod sshd;
#[cfg(test)]
mod support;
#[cfg(test)]
mod switched;
