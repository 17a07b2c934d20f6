//! Returns hosts: wiped by the operator's command, then without a lease.

use crate::host_inventory::InventoryHost;
use crate::members::Handle;
use crate::power::Power;
use crate::session::Session;
use crate::survey::Survey;
use futures::stream::{self, StreamExt as _, TryStreamExt as _};
use std::collections::BTreeSet;
use vnfm_core::ports::{Ownership, PortError};

/// Hosts that are wiped at the same time.
const MAX_CONCURRENT_WIPES: usize = 16;

/// Returns all hosts of an instance.
///
/// A recorded host must answer: it is switched on if it can be. Another one that does not, or prints nonsense, is skipped, and so is a host whose
/// VNFC was replaced while it was silent: if it ever returns with a lease, it is an orphan.
pub(crate) async fn release(
    session: &Session<'_>,
    owner: &Ownership,
    handle: &Handle,
) -> Result<(), PortError> {
    let mut switched_on = BTreeSet::new();
    loop {
        let survey = Survey::read(session).await?;
        survey.require_answer()?;
        let recorded = |name: &str| handle.hosts.iter().any(|one| one.host == name);
        for (host, error) in survey.silent() {
            if recorded(host.name()) {
                wake(session, &survey, host, (&mut switched_on, error)).await?;
            } else {
                let text = format!("the host `{}` was skipped: {error}", host.name());
                session.watcher.log("warn", "hosts", &text);
            }
        }
        if survey
            .silent()
            .any(|(host, _)| switched_on.contains(host.name()))
        {
            continue;
        }
        for (host, lease, line) in survey
            .leases_of(owner)
            .filter(|(_, lease, _)| !lease.returning)
        {
            session
                .swap(host, (line, &lease.returning().line()))
                .await?;
        }
        let leases = survey.leases_of(owner);
        let marked = leases.map(|(host, lease, _)| (host.clone(), lease.returning().line()));
        let hosts = marked.collect();
        return wipe_and_return(session, &survey.inventory.wipe_command, hosts).await;
    }
}

/// Switches a silent host on and waits for it, or fails with `error`.
async fn wake(
    session: &Session<'_>,
    survey: &Survey,
    host: &InventoryHost,
    (switched_on, error): (&mut BTreeSet<String>, &PortError),
) -> Result<(), PortError> {
    let power = Power::switch_of(session, &survey.inventory, host)?;
    match power.filter(|_| error.is_unavailable()) {
        Some(power) if switched_on.insert(host.name().to_owned()) => power.switch_on().await?,
        _ => return Err(error.clone()),
    }
    session.wait_for_boot(host).await
}

/// Wipes hosts and deletes their leases, which are these lines.
pub(crate) async fn wipe_and_return(
    session: &Session<'_>,
    command: &str,
    hosts: Vec<(InventoryHost, String)>,
) -> Result<(), PortError> {
    let returns = stream::iter(hosts).map(|(host, line)| async move {
        session.wipe(&host, command).await?;
        session.swap(&host, (&line, "")).await
    });
    let returns = returns.buffer_unordered(MAX_CONCURRENT_WIPES);
    returns.try_for_each(|_| async { Ok(()) }).await
}
