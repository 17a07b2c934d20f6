//! The driver of bare hosts against simulated hosts, real OpenSSH servers and Redfish services.

mod bmc;
mod contract;
mod hostile;
mod leases;
mod power;
mod sshd;
mod support;
