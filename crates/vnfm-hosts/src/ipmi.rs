//! A BMC that speaks IPMI 2.0 over LAN (RMCP+), through the program `ipmitool` (docs/adr/0024).
//!
//! Each call is a session of its own: login, one command, end. The program gets an address that was checked, an environment
//! with only the password, and neither input nor files.

use crate::errors::{IPMITOOL, POWER, POWER_REFUSED};
use crate::host_inventory::InventoryHost;
use crate::power_state::{PowerState, Reset};
use crate::power_switch::{IpmiEntry, PowerLogin};
use crate::session::{Session, quoted};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::process::Command;
use tokio::time::timeout;
use vnfm_core::ports::{Code, PortError};
use vnfm_outbound::is_forbidden;

/// Longest time of one call; `ipmitool` gives up after 20 s without an answer.
const CALL_TIMEOUT: Duration = Duration::from_secs(30);
/// Most bytes of each output that are read; a call prints about 100.
const MAX_OUTPUT_LEN: u64 = 64 << 10;
/// What `ipmitool` prints when the BMC refuses, and what that means. Everything else may succeed when it is repeated.
const REFUSALS: &[(&str, &str)] = &[
    ("HMAC is invalid", WRONG_PASSWORD),
    ("invalid integrity check value", WRONG_PASSWORD),
    ("unauthorized", NO_USER),
    ("illegal parameter", NO_USER),
    ("invalid role", NO_USER),
    ("Insufficient privilege", NO_USER),
    ("is not what we requested", UNKNOWN_SUITE),
    ("cipher suite", UNKNOWN_SUITE),
    ("no matching", UNKNOWN_SUITE),
    (" algorithm", UNKNOWN_SUITE),
];
const WRONG_PASSWORD: &str = "the password is wrong";
const NO_USER: &str = "the BMC does not know the user, or denies it the privilege level OPERATOR";
const UNKNOWN_SUITE: &str = "the BMC does not have the `cipherSuite`; 3 and 17 are possible";

/// A BMC, with the login for it.
pub(crate) struct Ipmi<'a> {
    session: Session<'a>,
    host: &'a InventoryHost,
    bmc: &'a IpmiEntry,
    login: &'a PowerLogin,
}

impl<'a> Ipmi<'a> {
    pub(crate) fn new(
        session: Session<'a>,
        host: &'a InventoryHost,
        (bmc, login): (&'a IpmiEntry, &'a PowerLogin),
    ) -> Self {
        Self {
            session,
            host,
            bmc,
            login,
        }
    }

    pub(crate) async fn reset(&self, action: &str, reset: Reset) -> Result<(), PortError> {
        let verb = match reset {
            Reset::On => "on",
            Reset::ForceOff => "off",
            Reset::GracefulShutdown => "soft",
        };
        self.call(action, verb).await.map(drop)
    }

    pub(crate) async fn state(&self, action: &str) -> Result<PowerState, PortError> {
        let output = self.call(action, "status").await?;
        // `-v` may add lines.
        let mut lines = output.lines();
        match lines.find_map(|line| line.strip_prefix("Chassis Power is ")) {
            Some("on") => Ok(PowerState::On),
            Some("off") => Ok(PowerState::Off),
            _ => {
                let what = format!("`ipmitool` prints `{}` as the state", quoted(&output));
                Err(self.error(&POWER_REFUSED, action, what))
            }
        }
    }

    /// Runs `ipmitool chassis power VERB`; returns its standard output.
    async fn call(&self, action: &str, verb: &str) -> Result<String, PortError> {
        let limit = self.session.time_left(CALL_TIMEOUT)?;
        let slot = self
            .session
            .vim
            .acquire_slot(action, Some(self.session.watcher))
            .await;
        let ended = timeout(limit, self.run(action, verb)).await;
        let outcome = ended.unwrap_or_else(|_| {
            let what = format!("it does not answer within {} s", limit.as_secs());
            Err(self.error(&POWER, action, what))
        });
        // A BMC that refuses has answered.
        slot.ended(!outcome.as_ref().is_err_and(PortError::is_unavailable));
        outcome
    }

    async fn run(&self, action: &str, verb: &str) -> Result<String, PortError> {
        let failed = |what: String| self.error(&POWER, action, what);
        let addresses = self.session.to.resolve(&self.bmc.address).await;
        let addresses = addresses.map_err(|error| {
            let code = if is_forbidden(&error) {
                &POWER_REFUSED
            } else {
                &POWER
            };
            self.error(code, action, format!("`{}`: {error}", self.bmc.address))
        })?;
        let Some(address) = addresses.first() else {
            return Err(failed(format!("`{}` has no address", self.bmc.address)));
        };
        // Ends with this future: `timeout` drops it.
        let mut child = self
            .command(&address.to_string(), verb)
            .spawn()
            .map_err(|error| {
                let what = format!("`{}`: {error}", self.session.ipmitool.display());
                self.error(&IPMITOOL, action, what)
            })?;
        let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
        let (output, message) = tokio::try_join!(read_end(stdout), read_end(stderr))
            .map_err(|error| failed(format!("`ipmitool`: {error}")))?;
        let status = child.wait().await;
        let status = status.map_err(|error| failed(format!("`ipmitool`: {error}")))?;
        if status.success() {
            return Ok(output);
        }
        let (code, what) = explain(&message, status);
        Err(self.error(code, action, what))
    }

    /// `-v` makes `ipmitool` tell a wrong password from a BMC that is silent.
    fn command(&self, address: &str, verb: &str) -> Command {
        let mut command = Command::new(self.session.ipmitool);
        command
            .args(["-v", "-I", "lanplus", "-H", address])
            .args(["-p", &self.bmc.port.to_string()])
            .args(["-C", &self.bmc.cipher_suite.to_string()])
            .args(["-L", "OPERATOR", "-U", &self.login.user, "-E"])
            .args(["chassis", "power", verb])
            .env_clear()
            .env("IPMI_PASSWORD", self.login.password.reveal())
            .current_dir("/")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        command
    }

    fn error(&self, code: &'static Code, action: &str, what: String) -> PortError {
        PortError::new(code, action, what).on(self.host.name())
    }
}

/// Reads to the end, at most [`MAX_OUTPUT_LEN`] bytes: a program that prints more then fails to write.
async fn read_end(from: Option<impl AsyncRead + Unpin>) -> std::io::Result<String> {
    let mut bytes = Vec::new();
    if let Some(from) = from {
        from.take(MAX_OUTPUT_LEN).read_to_end(&mut bytes).await?;
    }
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Why `ipmitool` failed: the code, and its message.
fn explain(message: &str, status: ExitStatus) -> (&'static Code, String) {
    for (words, means) in REFUSALS {
        if let Some(line) = message.lines().find(|line| line.contains(words)) {
            let line = quoted(line.trim_start_matches(['>', ' ']));
            return (&POWER_REFUSED, format!("{means} (`{line}`)"));
        }
    }
    match quoted(message).as_str() {
        "" => (&POWER, format!("`ipmitool`: {status}")),
        last => (&POWER, format!("it does not answer, or refuses (`{last}`)")),
    }
}

#[cfg(test)]
mod tests {
    use super::explain;
    use std::os::unix::process::ExitStatusExt as _;
    use std::process::ExitStatus;

    #[test]
    fn what_ipmitool_prints_is_a_refusal_or_may_pass() {
        for (message, code, words) in [
            (
                "> RAKP 2 HMAC is invalid\nError: Unable to establish IPMI v2 / RMCP+ session\n",
                "hosts.power-refused",
                "password",
            ),
            (
                "RAKP 2 message indicates an error : unauthorized name\nError: x\n",
                "hosts.power-refused",
                "user",
            ),
            (
                "Error in open session response message : invalid role\n",
                "hosts.power-refused",
                "OPERATOR",
            ),
            (
                "Chassis Power Control: Up/On failed: Insufficient privilege level\n",
                "hosts.power-refused",
                "OPERATOR",
            ),
            (
                "Authentication algorithm 0x01 is not what we requested 0x03\n",
                "hosts.power-refused",
                "cipherSuite",
            ),
            (
                "Error in open session response message : no cipher suite match with proposed security algorithms\n",
                "hosts.power-refused",
                "cipherSuite",
            ),
            (
                "Get Auth Capabilities error\nError: Unable to establish IPMI v2 / RMCP+ session\n",
                "hosts.power",
                "Unable",
            ),
            (
                "Error in open session response message : insufficient resources for session\n",
                "hosts.power",
                "resources",
            ),
            ("\u{1b}[31m\n", "hosts.power", "[31m"),
            ("", "hosts.power", "exit status: 1"),
        ] {
            let (found, text) = explain(message, ExitStatus::from_raw(256));
            assert_eq!(found.name, code, "{message}");
            assert!(text.contains(words) && !text.contains('\u{1b}'), "{text}");
        }
    }
}
