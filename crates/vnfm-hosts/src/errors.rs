//! Error codes of the driver.

use vnfm_core::ports::{Code, ErrorKind};

/// The connection lacks a member, or has an invalid one.
pub(crate) const CONNECTION: Code = Code {
    name: "hosts.connection-incomplete",
    kind: ErrorKind::Refused,
    means: "the inventory of hosts lacks a member, or has an invalid one",
    next: "correct the member that the message names; docs/how-to/bare-hosts.md has all of them",
};
/// The connection came with a request.
pub(crate) const NOT_REGISTERED: Code = Code {
    name: "hosts.not-registered",
    kind: ErrorKind::Refused,
    means: "the inventory of hosts came with a request",
    next: "register the inventory with `vnfmctl vim register`, and name its `vimId` in the request",
};
/// Package or request need what bare hosts do not have.
pub(crate) const UNSUPPORTED: Code = Code {
    name: "hosts.unsupported",
    kind: ErrorKind::Refused,
    means: "the VNFD or the request needs something that bare hosts do not have",
    next: "remove what the message names from the VNFD or the request, or use another VIM",
};
/// No free host satisfies the VDU.
pub(crate) const NO_HOST: Code = Code {
    name: "hosts.none-free",
    kind: ErrorKind::Refused,
    means: "the inventory has no free host that satisfies the VDU",
    next: "add a host to the inventory, or terminate a VNF; the message has the reason for each host",
};
/// A host does not respond.
pub(crate) const UNRESPONSIVE: Code = Code {
    name: "hosts.unresponsive",
    kind: ErrorKind::Unavailable,
    means: "a host of the VNF, or every host that could serve it, does not respond",
    next: "switch the host on and retry; heal the VNFC to move it to another host; a host that never returns is removed from the inventory",
};
/// The host's output cannot be used.
pub(crate) const OUTPUT: Code = Code {
    name: "hosts.output",
    kind: ErrorKind::Refused,
    means: "a host reports invalid facts about itself, or too many of them",
    next: "log in to the host and compare what `nproc`, `/proc/meminfo`, `df`, `uname` and `/sys/class/net` contain",
};
/// The script failed on the host.
pub(crate) const COMMAND: Code = Code {
    name: "hosts.command",
    kind: ErrorKind::Refused,
    means: "a host could not read its facts, or read or write its lease",
    next: "check that the user may use `sudo` without a password, that the lease folder is writable, and that `flock` (util-linux) is installed",
};
/// The operator's wipe command failed.
pub(crate) const WIPE: Code = Code {
    name: "hosts.wipe",
    kind: ErrorKind::Refused,
    means: "the wipe command of the inventory failed on a host, which therefore keeps its lease",
    next: "correct the command or the host, then retry",
};
/// The BMC or Ironic does not respond, or the host has not the requested power state.
pub(crate) const POWER: Code = Code {
    name: "hosts.power",
    kind: ErrorKind::Unavailable,
    means: "the BMC of a host or Ironic does not respond, or the host does not change its power state",
    next: "check the address of the BMC or Ironic, and the state of the host or node, then retry",
};
/// The BMC or Ironic refuses.
pub(crate) const POWER_REFUSED: Code = Code {
    name: "hosts.power-refused",
    kind: ErrorKind::Refused,
    means: "the BMC of a host or Ironic refuses the login or the request, or its address must not be called",
    next: "check address and login in the inventory, the URL of the system (Redfish) or node (Ironic), and `cipherSuite` (IPMI)",
};
/// The host has no power switch.
pub(crate) const NO_SWITCH: Code = Code {
    name: "hosts.no-switch",
    kind: ErrorKind::Refused,
    means: "a VNFC cannot be stopped because the inventory has no power switch for its host",
    next: "add `redfish`, `ipmi` or `ironic` to the host in the inventory, then retry",
};
/// The program is missing.
pub(crate) const IPMITOOL: Code = Code {
    name: "hosts.no-ipmitool",
    kind: ErrorKind::Refused,
    means: "the inventory has hosts with `ipmi`, and the program `ipmitool` cannot be started",
    next: "install it on the server (`apt-get install ipmitool`), or set `ipmitool.binary` in the server's configuration, then retry",
};
/// The deadline has passed.
pub(crate) const DEADLINE: Code = Code {
    name: "hosts.deadline",
    kind: ErrorKind::Unavailable,
    means: "the hosts did not reach the requested state in time",
    next: "retry: the operation continues where it stopped",
};

/// All error codes of this crate, for `docs/errors.md`.
pub const CODES: &[&Code] = &[
    &CONNECTION,
    &NOT_REGISTERED,
    &UNSUPPORTED,
    &NO_HOST,
    &UNRESPONSIVE,
    &OUTPUT,
    &COMMAND,
    &WIPE,
    &POWER,
    &POWER_REFUSED,
    &NO_SWITCH,
    &IPMITOOL,
    &DEADLINE,
];
