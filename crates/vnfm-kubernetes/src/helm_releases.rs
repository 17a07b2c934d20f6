//! The releases of a VNF on the cluster: helm installs and upgrades them, and we wait until their objects are ready.
//!
//! Helm keeps one Secret for each revision. It carries our labels from the first moment of an operation on, so that an
//! interrupted one is distinguished from somebody else's, and orphans are found.
//!
//! | newest revision | then |
//! |---|---|
//! | none | install; the objects must not exist |
//! | not ours | refused by name |
//! | deployed by this chart with these values, objects as planned | nothing |
//! | deployed otherwise, or failed after a revision that was deployed | upgrade |
//! | `pending-upgrade`, `pending-rollback`: its helm was interrupted | its Secret is deleted; upgrade |
//! | any other, and none was ever deployed | all Secrets are deleted; install, which adopts the objects |

use crate::apply::{dry_run, find_ours, resolve};
use crate::catalog::{Catalog, Target, core};
use crate::charts::{ChartRelease, MAX_AT_ONCE};
use crate::client::Session;
use crate::deletion::delete;
use crate::difference::compared;
use crate::errors::FOREIGN;
use crate::helm_account;
use crate::helm_errors::{helm_error, port_error};
use crate::labels;
use crate::object::{find, find_metadata, merge};
use crate::owned::labelled_metadata;
use crate::rendering::{change, release};
use crate::resolved::ResolvedObject;
use futures::StreamExt as _;
use futures::stream;
use kube::core::ObjectMeta;
use serde_json::json;
use sha2::{Digest as _, Sha256};
use std::time::Duration;
use vnfm_core::ports::{ErrorKind, PortError, ResourceAction, VimCall};
use vnfm_helm::{Apply, HelmError};

/// Label of a revision: what was installed.
const CONTENT: &str = "vnfm.dev/content";

/// A revision as helm's Secret describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Revision {
    secret: Target,
    uid: String,
    number: u64,
    status: String,
    content: Option<String>,
    is_ours: bool,
}

/// What helm has to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Next {
    Install,
    Upgrade,
    /// The same content is deployed: upgrade only if an object differs.
    Compare,
}

/// A release that is to be installed, with its objects.
#[derive(Clone, Copy)]
struct Deploying<'a> {
    namespace: &'a str,
    chart: &'a ChartRelease,
    objects: &'a [&'a ResolvedObject],
}

/// Installs or upgrades the releases of a stage at the same time. If one fails, the others still end.
///
/// # Errors
///
/// The first one of [`deploy`].
pub(crate) async fn deploy_all(
    cx: &VimCall<'_>,
    session: &Session<'_>,
    (namespace, charts): (&str, &[&ChartRelease]),
    stage: &[ResolvedObject],
) -> Result<(), PortError> {
    let deploying: Vec<_> = charts
        .iter()
        .map(|chart| deploy_own(cx, session, (namespace, chart), stage))
        .collect();
    let ended = stream::iter(deploying).buffered(MAX_AT_ONCE);
    let ended: Vec<Result<(), PortError>> = ended.collect().await;
    ended.into_iter().collect()
}

/// Deploys a chart with its own objects of the stage.
async fn deploy_own(
    cx: &VimCall<'_>,
    session: &Session<'_>,
    (namespace, chart): (&str, &ChartRelease),
    stage: &[ResolvedObject],
) -> Result<(), PortError> {
    let own = stage.iter();
    let own = own.filter(|resolved| chart.renders(&resolved.item, namespace));
    let what = Deploying {
        namespace,
        chart,
        objects: &own.collect::<Vec<_>>(),
    };
    deploy(cx, session, what).await
}

/// Refuses a release of the same name that is not ours.
///
/// # Errors
///
/// `Refused` by name, or the API server's error.
pub(crate) async fn check(
    cx: &VimCall<'_>,
    session: &Session<'_>,
    namespace: &str,
    chart: &ChartRelease,
) -> Result<(), PortError> {
    let revisions = revisions(cx, session, (&chart.name, namespace)).await?;
    refuse_foreign(&revisions, (&chart.name, namespace))
}

/// Installs or upgrades a release; nothing happens if it is as planned.
///
/// # Errors
///
/// `Refused` if the release or an object exists and is not ours, or with what helm reports; the same call resumes.
async fn deploy(
    cx: &VimCall<'_>,
    session: &Session<'_>,
    what: Deploying<'_>,
) -> Result<(), PortError> {
    let named = (what.chart.name.as_str(), what.namespace);
    let revisions = revisions(cx, session, named).await?;
    refuse_foreign(&revisions, named)?;
    if revisions.is_empty() {
        refuse_foreign_objects(cx, session, what).await?;
    }
    let content = content(what);
    let (next, interrupted) = next(&revisions, &content);
    for revision in interrupted {
        let text = format!(
            "release `{}`: revision {} ({}) was interrupted and is discarded",
            named.0, revision.number, revision.status
        );
        cx.watcher.log("info", "kubernetes", &text);
        delete(session, &revision.secret, &revision.uid).await?;
    }
    if next == Next::Compare && !differs(cx, session, what.objects).await? {
        return Ok(());
    }
    let ended = run(cx, session, what, (next, &content)).await;
    if let Err(error) = &ended
        && error.kind() != ErrorKind::Refused
    {
        return ended;
    }
    // Those of a failed revision too: a rollback to another chart does not know them.
    let labelled = label_hooks(cx, session, (what.namespace, what.chart)).await;
    ended.and(labelled)
}

/// Uninstalls a release of ours, its hooks included; others stay. Its objects may still be there afterwards.
///
/// # Errors
///
/// What helm reports, or the API server's error.
pub(crate) async fn uninstall(
    cx: &VimCall<'_>,
    session: &Session<'_>,
    name: &str,
    namespace: &str,
) -> Result<(), PortError> {
    let found = revisions(cx, session, (name, namespace)).await?;
    if found.is_empty() {
        return Ok(());
    }
    if found.iter().any(|revision| !revision.is_ours) {
        let text = format!("release `{name}` in namespace `{namespace}` is kept: it is not ours");
        cx.watcher.log("warn", "kubernetes", &text);
        return Ok(());
    }
    let helm = session.helm()?;
    let login = match helm_account::login(cx, session, namespace).await? {
        Some(login) => login,
        // It was installed before there was a policy. Nothing is rendered now, and hooks do not run.
        None => helm_account::own_login(session).await?,
    };
    let action = format!("uninstall release `{name}`");
    cx.watcher.waiting(&format!("helm to {action}"));
    let slot = cx.vim.acquire_slot(&action, Some(cx.watcher)).await;
    let kubeconfig = login.kubeconfig.reveal().as_bytes();
    let ended = helm
        .uninstall((name, namespace), kubeconfig, login.hooks, remaining(cx))
        .await;
    slot.ended(ended.is_ok());
    ended.map_err(|error| port_error(session, name, &error))?;
    for left in revisions(cx, session, (name, namespace)).await? {
        delete(session, &left.secret, &left.uid).await?;
    }
    Ok(())
}

async fn revisions(
    cx: &VimCall<'_>,
    session: &Session<'_>,
    (name, namespace): (&str, &str),
) -> Result<Vec<Revision>, PortError> {
    let selector = format!("owner=helm,name={name}");
    let found =
        labelled_metadata(session, &core("Secret", "secrets"), namespace, &selector).await?;
    let mut revisions: Vec<Revision> = found
        .iter()
        .map(|metadata| revision(cx, metadata))
        .collect();
    revisions.sort_by_key(|revision| revision.number);
    Ok(revisions)
}

fn revision(cx: &VimCall<'_>, metadata: &ObjectMeta) -> Revision {
    let label = |name: &str| labels::label_of(metadata, name).cloned();
    Revision {
        secret: Target {
            resource: core("Secret", "secrets"),
            namespace: metadata.namespace.clone(),
            name: metadata.name.clone().unwrap_or_default(),
        },
        uid: metadata.uid.clone().unwrap_or_default(),
        number: label("version")
            .and_then(|number| number.parse().ok())
            .unwrap_or_default(),
        status: label("status").unwrap_or_default(),
        content: label(CONTENT),
        is_ours: labels::is_ours(metadata, cx.ownership),
    }
}

fn refuse_foreign(
    revisions: &[Revision],
    (name, namespace): (&str, &str),
) -> Result<(), PortError> {
    let Some(foreign) = revisions.iter().find(|revision| !revision.is_ours) else {
        return Ok(());
    };
    let object = format!("release `{name}` in namespace `{namespace}`");
    let text = format!(
        "{object} exists already ({}) and was not changed: it is not of this instance",
        foreign.status
    );
    Err(PortError::new(&FOREIGN, format!("install release `{name}`"), text).on(object))
}

/// Before the first installation: helm would adopt or replace what it finds.
async fn refuse_foreign_objects(
    cx: &VimCall<'_>,
    session: &Session<'_>,
    what: Deploying<'_>,
) -> Result<(), PortError> {
    for resolved in what.objects {
        find_ours(session, cx.ownership, &resolved.target).await?;
    }
    for hook in hooks(session, (what.namespace, what.chart)).await? {
        find_ours(session, cx.ownership, &hook).await?;
    }
    Ok(())
}

/// The hooks as objects of the cluster; a kind that is not served has none.
async fn hooks(
    session: &Session<'_>,
    (namespace, chart): (&str, &ChartRelease),
) -> Result<Vec<Target>, PortError> {
    let catalog = Catalog::new(session, std::iter::empty());
    let mut targets = Vec::new();
    for hook in &chart.hooks {
        if let Some(kind) = catalog.find(&hook.api_version, &hook.kind).await? {
            targets.push(resolve(hook, &kind, namespace).target);
        }
    }
    Ok(targets)
}

/// Stands for chart, values, and sizes that no autoscaler decides; fits into a label.
fn content(what: Deploying<'_>) -> String {
    let mut hasher = Sha256::new();
    hasher.update(&what.chart.packed);
    hasher.update(what.chart.values.reveal());
    let sized = what.objects.iter();
    for resolved in sized.filter(|one| one.autoscaler.is_none()) {
        let spec = &resolved.item.object["spec"];
        hasher.update(format!(
            "{} {} {}",
            resolved.target, spec["replicas"], spec["suspend"]
        ));
    }
    hex::encode(&hasher.finalize()[..20])
}

/// What to do about a release of ours, and the revisions to discard first.
fn next<'a>(revisions: &'a [Revision], content: &str) -> (Next, Vec<&'a Revision>) {
    let is = |revision: &Revision, all: &[&str]| all.contains(&revision.status.as_str());
    let was_deployed = revisions
        .iter()
        .any(|revision| is(revision, &["deployed", "superseded"]));
    let Some(last) = revisions
        .last()
        .filter(|last| was_deployed && !is(last, &["uninstalling", "uninstalled"]))
    else {
        return (Next::Install, revisions.iter().collect());
    };
    if is(last, &["deployed"]) && last.content.as_deref() == Some(content) {
        return (Next::Compare, Vec::new());
    }
    let pending = |revision: &&Revision| revision.status.starts_with("pending-");
    (Next::Upgrade, revisions.iter().filter(pending).collect())
}

/// Whether an object is missing or not as planned.
async fn differs(
    cx: &VimCall<'_>,
    session: &Session<'_>,
    objects: &[&ResolvedObject],
) -> Result<bool, PortError> {
    for resolved in objects {
        let live = find(session, &resolved.target).await?;
        let Some(live) = live.filter(|live| live.metadata.deletion_timestamp.is_none()) else {
            return Ok(true);
        };
        let dry = dry_run(cx, session, resolved, true).await?;
        if compared(&live, &dry).0 != ResourceAction::Keep {
            return Ok(true);
        }
    }
    Ok(false)
}

async fn run(
    cx: &VimCall<'_>,
    session: &Session<'_>,
    what: Deploying<'_>,
    (next, content): (Next, &str),
) -> Result<(), PortError> {
    let helm = session.helm()?;
    let login = helm_account::login(cx, session, what.namespace).await?;
    let login = login.ok_or_else(|| helm_account::missing(cx, what.namespace))?;
    let planned: Vec<_> = what
        .objects
        .iter()
        .map(|resolved| resolved.item.clone())
        .collect();
    let owner = cx.ownership;
    let description = format!("vnfm operation {}", owner.op_id);
    let apply = Apply {
        kubeconfig: login.kubeconfig.reveal().as_bytes(),
        labels: &[
            (labels::INSTALLATION, &owner.installation_id),
            (labels::INSTANCE, &owner.instance_id),
            (labels::OPERATION, &owner.op_id),
            (CONTENT, content),
        ],
        description: &description,
        hooks: login.hooks,
        time: remaining(cx),
        render: Box::new(|rendered| {
            let (chart, namespace) = (what.chart, what.namespace);
            let policies: Vec<_> = session.policies().collect();
            change(rendered, (chart, &planned), (namespace, owner), &policies)
        }),
    };
    let (verb, release) = (
        if next == Next::Install {
            "install"
        } else {
            "upgrade"
        },
        release(what.chart, what.namespace),
    );
    let action = format!("{verb} release `{}`", release.name);
    cx.watcher.waiting(&format!("helm to {action}"));
    let slot = cx.vim.acquire_slot(&action, Some(cx.watcher)).await;
    let ended: Result<(), HelmError> = match next {
        Next::Install => helm.install(&release, apply).await,
        Next::Upgrade | Next::Compare => helm.upgrade(&release, apply).await,
    };
    slot.ended(ended.is_ok());
    ended.map_err(|error| helm_error(session, what.chart, &error))
}

/// Labels the hooks that exist: Helm 3 does not pass them to the post-renderer. They were not there before.
pub(crate) async fn label_hooks(
    cx: &VimCall<'_>,
    session: &Session<'_>,
    (namespace, chart): (&str, &ChartRelease),
) -> Result<(), PortError> {
    let owner = cx.ownership;
    let marks =
        json!({labels::INSTALLATION: owner.installation_id, labels::INSTANCE: owner.instance_id});
    for hook in hooks(session, (namespace, chart)).await? {
        let found = find_metadata(session, &hook).await?;
        let is_free = |metadata: &ObjectMeta| {
            labels::label_of(metadata, labels::INSTANCE).is_none()
                && metadata.deletion_timestamp.is_none()
        };
        if found.is_some_and(|metadata| is_free(&metadata)) {
            let action = format!("label hook {hook}");
            let change = json!({"metadata": {"labels": marks}});
            merge(session, &hook, &action, &change).await?;
        }
    }
    Ok(())
}

/// Labels the hooks that an interrupted operation on a release of ours has left, so that they are deleted with the rest.
///
/// # Errors
///
/// The API server's error.
pub(crate) async fn claim_hooks(
    cx: &VimCall<'_>,
    session: &Session<'_>,
    (namespace, chart): (&str, &ChartRelease),
) -> Result<(), PortError> {
    let found = revisions(cx, session, (&chart.name, namespace)).await?;
    if found.is_empty() || found.iter().any(|revision| !revision.is_ours) {
        return Ok(());
    }
    label_hooks(cx, session, (namespace, chart)).await
}

/// Until the deadline, in whole seconds.
pub(crate) fn remaining(cx: &VimCall<'_>) -> Duration {
    let left = cx.deadline.duration_since(cx.clock.now()).as_secs();
    Duration::from_secs(u64::try_from(left).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(number: u64, status: &str, content: &str) -> Revision {
        Revision {
            secret: Target::namespace("x"),
            uid: number.to_string(),
            number,
            status: status.into(),
            content: Some(content.into()),
            is_ours: true,
        }
    }

    #[test]
    fn an_interrupted_release_is_continued_from_what_it_has() {
        type Row<'a> = (&'a [(&'a str, &'a str)], Next, &'a [u64]);
        let rows: &[Row<'_>] = &[
            (&[], Next::Install, &[]),
            (&[("pending-install", "b")], Next::Install, &[1]),
            (&[("failed", "b")], Next::Install, &[1]),
            (&[("deployed", "b")], Next::Compare, &[]),
            (&[("deployed", "a")], Next::Upgrade, &[]),
            (
                &[("deployed", "a"), ("pending-upgrade", "b")],
                Next::Upgrade,
                &[2],
            ),
            (
                &[("deployed", "b"), ("pending-rollback", "b")],
                Next::Upgrade,
                &[2],
            ),
            (&[("deployed", "b"), ("failed", "b")], Next::Upgrade, &[]),
            (
                &[("superseded", "b"), ("deployed", "b")],
                Next::Compare,
                &[],
            ),
            (
                &[("superseded", "a"), ("uninstalling", "a")],
                Next::Install,
                &[1, 2],
            ),
        ];
        for (states, expected, discarded) in rows {
            let numbered = (1..).zip(*states);
            let revisions: Vec<_> = numbered
                .map(|(number, (status, content))| made(number, status, content))
                .collect();
            let (next, interrupted) = next(&revisions, "b");
            let interrupted: Vec<u64> =
                interrupted.iter().map(|revision| revision.number).collect();
            assert_eq!(
                (next, interrupted.as_slice()),
                (*expected, *discarded),
                "{states:?}"
            );
        }
    }

    #[test]
    fn a_foreign_release_is_refused_by_name() {
        let mut revision = made(1, "pending-install", "b");
        refuse_foreign(std::slice::from_ref(&revision), ("web", "mine")).unwrap();
        revision.is_ours = false;
        let error = refuse_foreign(&[revision], ("web", "mine")).unwrap_err();
        assert_eq!(error.name(), "kubernetes.foreign-object");
        assert!(
            error
                .to_string()
                .contains("release `web` in namespace `mine`"),
            "{error}"
        );
    }
}
