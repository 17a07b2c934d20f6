//! Calls to the hosts of one VIM: a slot and a time limit for each, and the pinned host keys.

use crate::errors::{COMMAND, DEADLINE, NOT_REGISTERED, OUTPUT, UNRESPONSIVE, WIPE};
use crate::host_inventory::{HostInventory, InventoryHost};
use crate::host_lease::Leased;
use crate::script::{self, HostState, MAX_OUTPUT_LEN, read_lease, read_state};
use async_trait::async_trait;
use jiff::Timestamp;
use std::path::Path;
use std::time::Duration;
use vnfm_core::ports::{Clock, CommandOutput, PinnedTarget, PortError, SshCommand, Vim, Watcher};
use vnfm_outbound::Destinations;
use vnfm_ssh::{HostKeys, RememberedHostKeys, Ssh};

/// Longest time that a host may take to read or change its lease, including the login.
const SCRIPT_TIMEOUT: Duration = Duration::from_secs(20);
/// Longest time that a host may take to be wiped.
const WIPE_TIMEOUT: Duration = Duration::from_hours(1);
/// Longest time that a host may take to boot.
const BOOT_TIMEOUT: Duration = Duration::from_mins(20);
/// Most characters that are quoted of a host's error message.
const MAX_QUOTED_LEN: usize = 200;

/// The hosts of one VIM, during one call of the driver.
#[derive(Clone, Copy)]
pub(crate) struct Session<'a> {
    pub(crate) ssh: &'a Ssh,
    pub(crate) to: &'a Destinations,
    /// Path of the program.
    pub(crate) ipmitool: &'a Path,
    pub(crate) vim: &'a dyn Vim,
    pub(crate) watcher: &'a dyn Watcher,
    /// `None`: the caller has no deadline, and each host has its own.
    pub(crate) deadline: Option<(&'a dyn Clock, Timestamp)>,
}

impl Session<'_> {
    /// The inventory as it is now. What changes hosts needs a registered one; a check comes before the registration.
    pub(crate) async fn inventory(&self) -> Result<HostInventory, PortError> {
        if self.deadline.is_some() && !self.vim.exposes_responses() {
            let what = "leases and host keys need an inventory that stays the same";
            let action = format!("use the hosts of `{}`", self.vim.name());
            return Err(PortError::new(&NOT_REGISTERED, action, what));
        }
        HostInventory::try_from(&self.vim.connection().await?.info)
    }

    /// Facts and lease of a host.
    pub(crate) async fn read(&self, host: &InventoryHost) -> Result<HostState, PortError> {
        let action = format!("read the facts of the host `{}`", host.name());
        let line = script::show(&host.entry.lease_directory);
        let output = self.run(host, (&action, &line), SCRIPT_TIMEOUT).await?;
        let output = checked(host, &action, output)?;
        read_state(&output).map_err(|why| PortError::new(&OUTPUT, action, why).on(host.name()))
    }

    /// Replaces the line `old` of the lease of a host with `new`; each empty for no lease. Returns the lease afterwards, which
    /// is another one if it was not `old`.
    pub(crate) async fn swap(
        &self,
        host: &InventoryHost,
        (old, new): (&str, &str),
    ) -> Result<Leased, PortError> {
        let action = format!("change the lease of the host `{}`", host.name());
        let line = script::swap(&host.entry.lease_directory, old, new);
        let output = self.run(host, (&action, &line), SCRIPT_TIMEOUT).await?;
        checked(host, &action, output).map(|output| read_lease(&output))
    }

    /// Runs the operator's wipe command.
    pub(crate) async fn wipe(&self, host: &InventoryHost, command: &str) -> Result<(), PortError> {
        let action = format!("wipe the host `{}`", host.name());
        self.watcher.waiting(&action);
        let output = self.run(host, (&action, command), WIPE_TIMEOUT).await?;
        if output.exit_code == 0 {
            return Ok(());
        }
        let what = format!(
            "`wipeCommand` ended with exit code {}: {}",
            output.exit_code,
            quoted(&output.stderr)
        );
        Err(PortError::new(&WIPE, action, what).on(host.name()))
    }

    /// Waits until a host that was switched on accepts a login.
    pub(crate) async fn wait_for_boot(&self, host: &InventoryHost) -> Result<(), PortError> {
        let limit = self.time_left(BOOT_TIMEOUT)?;
        let seconds = u32::try_from(limit.as_secs()).unwrap_or(u32::MAX).max(1);
        let target = host.target(self.vim.name());
        self.ssh.wait(&target, seconds, self.watcher).await
    }

    /// The time until the deadline, at most `most`.
    pub(crate) fn time_left(&self, most: Duration) -> Result<Duration, PortError> {
        let Some((clock, deadline)) = self.deadline else {
            return Ok(most);
        };
        let left = deadline.duration_since(clock.now());
        if left.is_positive() {
            return Ok(left.unsigned_abs().min(most));
        }
        let action = format!("change the hosts of `{}`", self.vim.name());
        Err(PortError::new(
            &DEADLINE,
            action,
            "the time limit of the step has passed",
        ))
    }

    async fn run(
        &self,
        host: &InventoryHost,
        (action, line): (&str, &str),
        most: Duration,
    ) -> Result<CommandOutput, PortError> {
        let limit = self.time_left(most)?;
        let slot = self.vim.acquire_slot(action, Some(self.watcher)).await;
        let target = host.target(self.vim.name());
        let command = SshCommand::new(line).sudo().timeout(limit);
        let outcome = self.ssh.run(&target, &command).await;
        slot.ended(outcome.is_ok());
        outcome.map_err(|error| unresponsive(host, action, error))
    }
}

/// The output of the script, if it succeeded and is not too long.
fn checked(host: &InventoryHost, action: &str, output: CommandOutput) -> Result<String, PortError> {
    if output.exit_code != 0 {
        let code = output.exit_code;
        let what = format!("exit code {code}: {}", quoted(&output.stderr));
        return Err(PortError::new(&COMMAND, action, what).on(host.name()));
    }
    if output.truncated || output.stdout.len() > MAX_OUTPUT_LEN {
        let what = format!("it prints more than {MAX_OUTPUT_LEN} bytes");
        return Err(PortError::new(&OUTPUT, action, what).on(host.name()));
    }
    Ok(output.stdout)
}

/// The error of the SSH client, which quotes the command line; ours is a page of shell.
fn unresponsive(host: &InventoryHost, action: &str, error: PortError) -> PortError {
    if !error.is_unavailable() {
        return error.on(host.name());
    }
    PortError::new(&UNRESPONSIVE, action, error.detail()).on(host.name())
}

/// The end of a message of a host, without control characters.
pub(crate) fn quoted(text: &str) -> String {
    let line = text.trim().lines().next_back().unwrap_or_default();
    let plain = line.chars().filter(|one| !one.is_control());
    plain.take(MAX_QUOTED_LEN).collect()
}

/// The host keys of inventories; where an inventory has none, that of the first login of this process.
#[derive(Default)]
pub(crate) struct InventoryKeys(RememberedHostKeys);

#[async_trait]
impl HostKeys for InventoryKeys {
    /// [`InventoryHost::target`] puts the key of the inventory into `legacy_host`.
    async fn known(&self, host: &PinnedTarget) -> Result<Option<String>, PortError> {
        let pinned = &host.pin.legacy_host;
        if pinned.is_empty() {
            return self.0.known(&by_address(host)).await;
        }
        Ok(Some(pinned.clone()))
    }

    async fn learn(&self, host: &PinnedTarget, key: &str) -> Result<(), PortError> {
        self.0.learn(&by_address(host), key).await
    }
}

/// The host as [`RememberedHostKeys`] know it.
fn by_address(host: &PinnedTarget) -> PinnedTarget {
    let mut host = host.clone();
    host.host.server_id.clone_from(&host.pin.at.host);
    host
}
