//! The ways in which SSH fails, named, and the constructors for them. No text here ever holds a credential.

use std::time::Duration;
use vnfm_core::ports::{Code, ErrorKind, PortError, SshTarget};

/// The address must not be called.
pub(crate) const ADDRESS: Code = Code {
    name: "ssh.address",
    kind: ErrorKind::Refused,
    means: "the host is at an address that this server must not log in to",
    next: "name the address in `hooks.networks` of the server's configuration if hooks are to reach it, then retry",
};
/// No SSH server answers.
pub(crate) const UNREACHABLE: Code = Code {
    name: "ssh.unreachable",
    kind: ErrorKind::Unavailable,
    means: "no SSH server answers at the address",
    next: "check that the server runs, that its address is right and that security groups let port 22 through",
};
/// The server does not let us in.
pub(crate) const LOGIN_REFUSED: Code = Code {
    name: "ssh.login-refused",
    kind: ErrorKind::Refused,
    means: "the host knows neither the password nor the key",
    next: "check user name, password and private key in the parameters of the request",
};
/// The parameters hold nothing to log in with.
pub(crate) const BAD_KEY: Code = Code {
    name: "ssh.bad-private-key",
    kind: ErrorKind::Refused,
    means: "the private key cannot be read",
    next: "give an unencrypted key in OpenSSH or PKCS#8 PEM form",
};
/// Another key than the pinned one.
pub(crate) const HOST_KEY_CHANGED: Code = Code {
    name: "ssh.host-key-changed",
    kind: ErrorKind::Refused,
    means: "the host shows another key than the one that is pinned to it",
    next: "if the server was rebuilt on purpose, forget its pinned key (`vnfmctl hostkey list`, `vnfmctl hostkey forget ID`) and retry; else somebody else answers at its address: find out who",
};
/// The connection broke.
pub(crate) const LOST: Code = Code {
    name: "ssh.connection-lost",
    kind: ErrorKind::Unavailable,
    means: "the connection broke while a command ran; it may have run to its end",
    next: "retry: what runs long on the host goes on there and is picked up again",
};
/// The command took too long.
pub(crate) const TOO_SLOW: Code = Code {
    name: "ssh.deadline",
    kind: ErrorKind::Unavailable,
    means: "the host did not finish in time",
    next: "look at the host's load, then retry",
};
/// The host did not write a file.
pub(crate) const NOT_WRITTEN: Code = Code {
    name: "ssh.not-written",
    kind: ErrorKind::Refused,
    means: "the host could not write the file",
    next: "check the path, the free space, and that the user may use `sudo` without a password",
};
/// The host runs no commands.
pub(crate) const NO_COMMANDS: Code = Code {
    name: "ssh.no-commands",
    kind: ErrorKind::Refused,
    means: "the host lets us in but runs no commands",
    next: "check the user's login shell and forced commands on the host",
};

/// Every code of this crate, for `docs/errors.md`.
pub const CODES: &[&Code] = &[
    &ADDRESS,
    &UNREACHABLE,
    &LOGIN_REFUSED,
    &BAD_KEY,
    &HOST_KEY_CHANGED,
    &LOST,
    &TOO_SLOW,
    &NOT_WRITTEN,
    &NO_COMMANDS,
];

/// `code` while logging in to `target`.
pub(crate) fn login(
    code: &'static Code,
    target: &SshTarget,
    detail: impl Into<String>,
) -> PortError {
    let doing = format!(
        "log in to `{}:{}` as `{}`",
        target.address, target.port, target.username
    );
    PortError::new(code, doing, detail).on(target.server_id.clone())
}

/// What was to be done did not end within `limit`.
pub(crate) fn too_slow(doing: &str, limit: Duration) -> PortError {
    PortError::new(
        &TOO_SLOW,
        doing,
        format!("not done after {} s", limit.as_secs_f32()),
    )
}
