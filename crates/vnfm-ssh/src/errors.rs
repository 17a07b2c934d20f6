//! Error codes of SSH, and functions that create the errors. No text here ever contains a credential.

use std::time::Duration;
use vnfm_core::ports::{Code, ErrorKind, PortError, SshTarget};

/// The address must not be called.
pub(crate) const ADDRESS: Code = Code {
    name: "ssh.address",
    kind: ErrorKind::Refused,
    means: "the host has an address that this server must not connect to",
    next: "name the address in `hooks.networks` of the server's configuration if hooks are to reach it, then retry",
};
/// No SSH server responds at the address.
pub(crate) const UNREACHABLE: Code = Code {
    name: "ssh.unreachable",
    kind: ErrorKind::Unavailable,
    means: "no SSH server responds at the address",
    next: "check that the server runs, that its address is correct and that security groups allow port 22",
};
/// The host refuses the login.
pub(crate) const LOGIN_REFUSED: Code = Code {
    name: "ssh.login-refused",
    kind: ErrorKind::Refused,
    means: "the host accepts neither the password nor the key",
    next: "check user name, password and private key in the parameters of the request",
};
/// The private key is invalid or encrypted.
pub(crate) const BAD_KEY: Code = Code {
    name: "ssh.bad-private-key",
    kind: ErrorKind::Refused,
    means: "the private key cannot be read",
    next: "give an unencrypted key in OpenSSH or PKCS#8 PEM form",
};
/// The host key is not the pinned one.
pub(crate) const HOST_KEY_CHANGED: Code = Code {
    name: "ssh.host-key-changed",
    kind: ErrorKind::Refused,
    means: "the host presents a different key than the pinned one",
    next: "if the server was rebuilt on purpose, remove its pinned key (`vnfmctl hostkey list`, `vnfmctl hostkey forget ID`) and retry; otherwise another host responds at its address: find out which",
};
/// The connection broke during a command or transfer.
pub(crate) const LOST: Code = Code {
    name: "ssh.connection-lost",
    kind: ErrorKind::Unavailable,
    means: "the connection broke while a command ran; the command may have completed",
    next: "retry: a long-running command continues on the host and is picked up again",
};
/// The command took too long.
pub(crate) const TOO_SLOW: Code = Code {
    name: "ssh.deadline",
    kind: ErrorKind::Unavailable,
    means: "the host did not finish in time",
    next: "check the host's load, then retry",
};
/// The host did not write a file.
pub(crate) const NOT_WRITTEN: Code = Code {
    name: "ssh.not-written",
    kind: ErrorKind::Refused,
    means: "the host could not write the file",
    next: "check the path, the free space, and that the user may use `sudo` without a password",
};
/// A file was not copied between a host and the local disk.
pub(crate) const NOT_COPIED: Code = Code {
    name: "ssh.not-copied",
    kind: ErrorKind::Unavailable,
    means: "a file was not copied completely between the host and the disk of the VNFM",
    next: "check the free space on both sides, and that the file is not changed meanwhile, then retry",
};
/// The host accepts the login but runs no commands.
pub(crate) const NO_COMMANDS: Code = Code {
    name: "ssh.no-commands",
    kind: ErrorKind::Refused,
    means: "the host accepts the login but runs no commands",
    next: "check the user's login shell and forced commands on the host",
};

/// All error codes of this crate, for `docs/errors.md`.
pub const CODES: &[&Code] = &[
    &ADDRESS,
    &UNREACHABLE,
    &LOGIN_REFUSED,
    &BAD_KEY,
    &HOST_KEY_CHANGED,
    &LOST,
    &TOO_SLOW,
    &NOT_WRITTEN,
    &NOT_COPIED,
    &NO_COMMANDS,
];

/// The error `code` of a login to `target`.
pub(crate) fn login_error(
    code: &'static Code,
    target: &SshTarget,
    detail: impl Into<String>,
) -> PortError {
    let action = format!(
        "log in to `{}:{}` as `{}`",
        target.address, target.port, target.username
    );
    PortError::new(code, action, detail).on(target.server_id.clone())
}

/// The error if `action` did not complete within `limit`.
pub(crate) fn deadline_error(action: &str, limit: Duration) -> PortError {
    PortError::new(
        &TOO_SLOW,
        action,
        format!("not completed after {} s", limit.as_secs_f32()),
    )
}
