//! `InfraDriver` for an inventory of bare hosts: each VNFC has a host of its own, leased as long as the VNFC exists.
//!
//! ```text
//! VimConnectionInfo ── host_inventory  the hosts, with their logins, labels, networks and power switches
//! host ─ SSH ───────── script          reads facts and the lease, and changes the lease atomically
//!                      facts           what a host has: CPUs, memory, disk, interfaces
//!                      lease           whose VNFC a host is
//!                      survey          all hosts of an inventory at the same time
//! VNFD + request ───── requirements    what a VDU needs of a host
//!                      placement       which free host each new VNFC gets, by zones and affinity rules
//!                      members         which leases stay, leave or are missing
//!                      converge        round by round: survey, next action, until nothing is left to do
//!                      release         wipes the hosts of an instance, and returns them
//!                      records         leases as VNFCs with their connection points
//!                      planned         what a change would do
//! BMC or Ironic ────── power           switches hosts on and off, and waits until they are
//!                      power_state     its states, and what changes them
//!                      redfish, ipmi   one call to a BMC
//!                      ironic          one call to Ironic; redfish and ironic send HTTP by power_api
//! ```
//! The lease is a file on the host, so that all VNFMs with the host in an inventory respect it; nothing is cached.

mod converge;
mod driver;
mod errors;
mod facts;
mod host_inventory;
mod host_lease;
mod ipmi;
mod ironic;
mod members;
mod placement;
mod planned;
mod power;
mod power_api;
mod power_state;
mod power_switch;
mod records;
mod redfish;
mod release;
mod requirements;
mod script;
mod session;
mod survey;

pub use driver::BareHosts;
pub use errors::CODES;
