//! A network of our own, in which nothing leads outside: besides loopback it has an address as a machine has them, and the
//! one at which clouds serve metadata. So what a server must not call is there, and answers.

use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};

/// The machine's own address that is not a loopback one (RFC 5737), and that of metadata services.
pub(crate) const ADDRESSES: &[&str] = &["198.51.100.9", "169.254.169.254"];
/// Says that we are in it.
const IN_NAMESPACE: &str = "VNFM_HOSTILE_NETWORK";

/// Whether we are in a network of our own.
pub(crate) fn is_isolated() -> bool {
    std::env::var_os(IN_NAMESPACE).is_some()
}

/// Begins again in a network of our own; where that cannot be had, this says so and returns.
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
        eprintln!("cannot begin again in a network of our own: {why}");
    }
    let why = match tried {
        Ok(tried) => String::from_utf8_lossy(&tried.stderr).trim().to_owned(),
        Err(why) => why.to_string(),
    };
    eprintln!(
        "NOT TRIED: own addresses that are no loopback ones, and metadata services. There is no network of our own: {why}"
    );
}
