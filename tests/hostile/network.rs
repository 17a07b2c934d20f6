//! An isolated network namespace. Besides loopback it has an ordinary host address and that of cloud metadata services,
//! so that what a server must not call exists and responds.

use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};

/// An ordinary host address (RFC 5737), and that of metadata services.
pub(crate) const ADDRESSES: &[&str] = &["198.51.100.9", "169.254.169.254"];
/// Variable that is set inside the namespace.
const IN_NAMESPACE: &str = "VNFM_HOSTILE_NETWORK";

/// Whether we run in the namespace.
pub(crate) fn is_isolated() -> bool {
    std::env::var_os(IN_NAMESPACE).is_some()
}

/// Restarts this program in the namespace; if that is not possible, prints a warning and returns.
pub(crate) fn isolate() {
    if is_isolated() {
        return;
    }
    let mut script = "ip link set lo up".to_owned();
    for address in ADDRESSES {
        script = format!("{script} && ip address add {address}/32 dev lo");
    }
    let unshare = || {
        let mut command = Command::new("unshare");
        command.args(["--net", "--", "sh", "-c"]);
        command
    };
    let tried = unshare().arg(&script).stdin(Stdio::null()).output();
    if tried.as_ref().is_ok_and(|tried| tried.status.success()) {
        let Ok(program) = std::env::current_exe() else {
            return;
        };
        let mut command = unshare();
        command
            .arg(format!("{script} && exec \"$0\" \"$@\""))
            .arg(program);
        let why = command
            .args(std::env::args_os().skip(1))
            .env(IN_NAMESPACE, "1")
            .exec();
        eprintln!("cannot restart in a network namespace: {why}");
    }
    let why = match tried {
        Ok(tried) => String::from_utf8_lossy(&tried.stderr).trim().to_owned(),
        Err(why) => why.to_string(),
    };
    eprintln!(
        "NOT TRIED: host addresses other than loopback, and metadata services. No network namespace: {why}"
    );
}
