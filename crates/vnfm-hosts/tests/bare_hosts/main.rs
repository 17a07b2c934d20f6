//! The driver of bare hosts against simulated hosts, real OpenSSH servers, Redfish services and IPMI.

#[cfg(test)]
mod bmc;
#[cfg(test)]
mod contract;
#[cfg(test)]
mod hostile;
#[cfg(test)]
mod ipmi;
#[cfg(test)]
mod leases;
#[cfg(test)]
mod power;
#[cfg(test)]
mod sshd;
#[cfg(test)]
mod support;
