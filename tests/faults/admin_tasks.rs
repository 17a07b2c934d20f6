//! The table of what is done beside operations. Each act makes it so from whatever an earlier one left, so it can be done
//! again at any time; what holds after it is said with whether it came to its end.

use anyhow::{Context as _, Result, ensure};
use async_trait::async_trait;
use jiff::Timestamp;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use vnfm_core::ports::{
    Callback, Change, PackageRecord, Packages as _, PortError, SecretConnection, Store as _,
    StoreError, Subscribers, VimRecord,
};
use vnfm_core::query::{Query, Sight};
use vnfm_core::{Act as OnOnesOwn, Engine, VimChange};
use vnfm_store::{PackageDir, Retention, SqliteStore};
use vnfm_tests::sources::root;
use vnfm_types::{CreateVnfRequest, InstantiationState, VimConnectionInfo};

use crate::site::PLANTED;
use crate::vnf::{Facts, TENANT};

/// What an act works with.
pub(crate) struct Place {
    pub(crate) engine: Engine,
    pub(crate) store: Arc<SqliteStore>,
    pub(crate) packages: Arc<PackageDir>,
    pub(crate) data: PathBuf,
    pub(crate) facts: Facts,
}

/// A piece of work at a place.
pub(crate) type Work<'p> = Pin<Box<dyn Future<Output = Result<()>> + 'p>>;

/// One row.
pub(crate) struct Act {
    /// What it is called.
    pub(crate) name: &'static str,
    /// What is done by a process that runs.
    pub(crate) work: fn(&Place) -> Work<'_>,
    /// Where no process may run: what is done instead.
    pub(crate) closed: Option<fn(&Path) -> Work<'_>>,
    /// What holds afterwards, and whether it came to its end.
    pub(crate) holds: fn(&Place, bool) -> Work<'_>,
    /// Whether a process that is killed behind it leaves changes in the write-ahead log.
    pub(crate) leaves_a_log: bool,
}

/// All of them.
pub(crate) const ACTS: &[Act] = &[
    row(
        "key rotation",
        |at| Box::pin(rotate(at)),
        |at, _| Box::pin(is_readable(at)),
    ),
    row(
        "backup",
        |at| Box::pin(back_up(at)),
        |at, _| Box::pin(is_readable(at)),
    ),
    Act {
        closed: Some(|data| Box::pin(restore(data))),
        ..row(
            "restore",
            |at| Box::pin(back_up(at)),
            |at, ended| Box::pin(is_restored(at, ended)),
        )
    },
    row(
        "prune",
        |at| Box::pin(prune(at)),
        |at, _| Box::pin(is_readable(at)),
    ),
    row(
        "onboarding",
        |at| Box::pin(onboard(at)),
        |at, ended| Box::pin(is_onboarded(at, ended)),
    ),
    row(
        "package download",
        |at| Box::pin(download(at)),
        |at, ended| Box::pin(is_onboarded(at, ended)),
    ),
    row(
        "vim update",
        |at| Box::pin(update_vim(at)),
        |at, _| Box::pin(is_readable(at)),
    ),
    row(
        "vim delete",
        |at| Box::pin(delete_vim(at)),
        |at, ended| Box::pin(is_deleted(at, ended)),
    ),
    row(
        "abandon",
        |at| Box::pin(abandon(at)),
        |at, ended| Box::pin(is_abandoned(at, ended)),
    ),
    Act {
        leaves_a_log: true,
        ..row(
            "subscription",
            |at| Box::pin(subscribe(at)),
            |at, ended| Box::pin(is_subscribed(at, ended)),
        )
    },
];

const fn row(
    name: &'static str,
    work: fn(&Place) -> Work<'_>,
    holds: fn(&Place, bool) -> Work<'_>,
) -> Act {
    Act {
        name,
        work,
        closed: None,
        holds,
        leaves_a_log: false,
    }
}

/// The package that is onboarded beside those of the site.
const PACKAGE: &str = "5d7c3a52-0f0f-4a53-9d2e-1c5e8f1f7a10";
/// The VIM that comes and goes.
const SPARE: &str = "spare";
const CALLBACK: &str = "http://nfvo.example.com/callback";

fn now() -> Timestamp {
    // What is pruned is years old, and what is named by the time is removed again.
    Timestamp::UNIX_EPOCH
}

async fn rotate(at: &Place) -> Result<()> {
    at.store.rotate().await?;
    Ok(())
}

async fn back_up(at: &Place) -> Result<()> {
    drop(
        at.store
            .nameless_backup(&at.packages, &at.data, now())
            .await?,
    );
    Ok(())
}

async fn prune(at: &Place) -> Result<()> {
    at.store.prune(&Retention::default(), now(), false).await?;
    Ok(())
}

/// Where the backup lies that is restored: beside the data folder.
fn backup_of(data: &Path) -> PathBuf {
    data.with_extension("backup")
}

/// Makes the backup that the next restore brings back.
pub(crate) async fn keep_backup(at: &Place) -> Result<()> {
    let file = backup_of(&at.data);
    if file.exists() {
        std::fs::remove_file(&file)?;
    }
    Ok(at.store.backup(&at.packages, &file, now()).await?)
}

async fn restore(data: &Path) -> Result<()> {
    vnfm_store::restore(&backup_of(data), data, now()).await?;
    Ok(())
}

/// Takes away what a restore keeps.
async fn is_restored(at: &Place, ended: bool) -> Result<()> {
    is_readable(at).await?;
    if ended && backup_of(&at.data).exists() {
        ensure!(
            at.store.recovery().await?.is_some(),
            "it is not in recovery"
        );
    }
    at.store.end_recovery().await?;
    for entry in at.data.read_dir()? {
        let entry = entry?;
        if entry
            .file_name()
            .to_string_lossy()
            .starts_with("vnfm.db.before-")
        {
            std::fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

/// Every secret can be unsealed: the VIMs can be logged in to.
async fn is_readable(at: &Place) -> Result<()> {
    for vim in [&at.facts.cloud, &at.facts.cluster] {
        at.engine
            .check_vim(TENANT, vim)
            .await
            .context("a VIM cannot be reached")?;
    }
    Ok(())
}

/// Takes the package away, whatever there is of it.
async fn remove_package(at: &Place) -> Result<()> {
    if at.store.package_record(TENANT, PACKAGE).await.is_ok() {
        let gone = Change::RemovePackage {
            tenant: TENANT.to_owned(),
            id: PACKAGE.to_owned(),
        };
        at.engine.store().write(None, vec![gone]).await?;
    }
    Ok(at.packages.remove(PACKAGE).await?)
}

async fn add_package(at: &Place, upload: PathBuf) -> Result<()> {
    let stored = at.packages.store(PACKAGE, upload).await;
    let package = stored.map_err(|why| anyhow::anyhow!("{why}"))?;
    let record = PackageRecord::onboarded(TENANT, PACKAGE, &package.vnfd().descriptor_id);
    Ok(at
        .engine
        .store()
        .write(None, vec![Change::AddPackage(Box::new(record))])
        .await?)
}

fn packed(at: &Place) -> Result<Vec<u8>> {
    let sample = root().join("vnfd-samples/vnf-levels");
    Ok(vnfm_descriptor::pack(&sample, at.packages.limits())?)
}

async fn onboard(at: &Place) -> Result<()> {
    remove_package(at).await?;
    let upload = at.packages.incoming();
    std::fs::write(&upload, packed(at)?)?;
    add_package(at, upload).await
}

/// The same, where it comes in pieces that another process may go on with.
async fn download(at: &Place) -> Result<()> {
    use std::io::Write as _;
    remove_package(at).await?;
    let (arriving, bytes) = (at.packages.arriving(PACKAGE)?, packed(at)?);
    let mut file = std::fs::File::create(&arriving)?;
    for piece in bytes.chunks(1 << 10) {
        file.write_all(piece)?;
    }
    add_package(at, arriving).await
}

/// What is recorded can be read; of what is not, nothing is there but what goes with the next look.
async fn is_onboarded(at: &Place, ended: bool) -> Result<()> {
    let is_recorded = at.store.package_record(TENANT, PACKAGE).await.is_ok();
    ensure!(is_recorded || !ended, "the package is gone");
    if is_recorded {
        at.packages
            .package(TENANT, PACKAGE)
            .await
            .context("the package cannot be read")?;
    }
    at.packages.forget_arrived(&[])?;
    remove_package(at).await?;
    let mut left = at.data.join("packages").read_dir()?;
    let left = left.find_map(|entry| {
        let name = entry.ok()?.file_name().to_string_lossy().into_owned();
        (name.starts_with(PACKAGE) || name.starts_with('.')).then_some(name)
    });
    ensure!(left.is_none(), "there is still {left:?}");
    Ok(())
}

fn connection(record: &VimRecord) -> Result<SecretConnection> {
    let connection: VimConnectionInfo = serde_json::from_value(json!({
        "vimType": record.vim.vim_type,
        "interfaceInfo": record.vim.interface_info,
        "accessInfo": *record.access_info,
    }))?;
    Ok(SecretConnection(connection))
}

async fn update_vim(at: &Place) -> Result<()> {
    let known = at.store.vim(TENANT, &at.facts.cloud).await?;
    let name = if known.vim.name == "cloud" {
        "another"
    } else {
        "cloud"
    };
    let change = VimChange {
        name: Some(name.to_owned()),
        connection: connection(&known)?,
        ..VimChange::default()
    };
    at.engine
        .update_vim(TENANT, &at.facts.cloud, change)
        .await?;
    Ok(())
}

/// Registers the VIM, if it is not there, and deletes it.
async fn delete_vim(at: &Place) -> Result<()> {
    if at.store.vim(TENANT, SPARE).await.is_err() {
        let known = at.store.vim(TENANT, &at.facts.cloud).await?;
        let change = VimChange {
            name: Some(SPARE.to_owned()),
            connection: connection(&known)?,
            ..VimChange::default()
        };
        at.engine.register_vim(TENANT, change).await?;
    }
    Ok(at.engine.delete_vim(TENANT, SPARE, None).await?)
}

async fn is_deleted(at: &Place, ended: bool) -> Result<()> {
    match at.store.vim(TENANT, SPARE).await {
        Err(StoreError::NotFound { .. }) => {}
        Ok(_) if !ended => {
            at.engine
                .check_vim(TENANT, SPARE)
                .await
                .context("the VIM cannot be reached")?;
        }
        other => anyhow::bail!("the VIM was deleted, and is {other:?}"),
    }
    is_readable(at).await
}

fn because() -> OnOnesOwn {
    OnOnesOwn::new("faults", "to see what holds")
}

/// Makes an instance, abandons it, and forgets it.
async fn abandon(at: &Place) -> Result<()> {
    let [_, vnfd_id] = at.facts.vnfds.clone();
    let request = CreateVnfRequest {
        vnfd_id,
        ..CreateVnfRequest::default()
    };
    let id = at.engine.create(TENANT, request).await?.vnf.id;
    at.engine.abandon(TENANT, &id, false, because()).await?;
    Ok(at.engine.forget_abandoned(TENANT, &id, because()).await?)
}

/// An instance is there as it was made, or gone with a tombstone, or forgotten; then none of it is left.
async fn is_abandoned(at: &Place, ended: bool) -> Result<()> {
    let (mut left, store) = (0, &at.store);
    for one in store.instances(TENANT, &Query::default()).await? {
        if one.vnf.instantiation_state == InstantiationState::NotInstantiated {
            at.engine.delete(TENANT, &one.vnf.id).await?;
            left += 1;
        }
    }
    for one in store.tombstones(TENANT).await? {
        at.engine
            .forget_abandoned(TENANT, &one.vnf_instance_id, because())
            .await?;
        left += 1;
    }
    ensure!(
        left == 0 || !ended,
        "{left} are left of an instance that was abandoned and forgotten"
    );
    ensure!(left < 2, "an instance is there beside its tombstone");
    Ok(())
}

/// A subscriber that takes everything.
struct Anybody;

#[async_trait]
impl Subscribers for Anybody {
    async fn test(&self, _: &Callback<'_>) -> Result<(), PortError> {
        Ok(())
    }
    async fn tell(&self, _: &Callback<'_>, _: &Value) -> Result<(), PortError> {
        Ok(())
    }
}

/// Ends the subscriptions that there are, and makes one.
async fn subscribe(at: &Place) -> Result<()> {
    unsubscribe(at).await?;
    let login =
        json!({"authType": ["BASIC"], "paramsBasic": {"userName": "a", "password": PLANTED}});
    let request = json!({"callbackUri": CALLBACK, "authentication": login});
    let (request, whole) = (serde_json::from_value(request)?, Sight::default());
    let root = ("http://vnfm.example.com", &whole);
    at.engine.subscribe(TENANT, request, root, &Anybody).await?;
    Ok(())
}

async fn unsubscribe(at: &Place) -> Result<()> {
    for one in at.store.subscribers().await? {
        at.engine.unsubscribe(TENANT, &one.subscription.id).await?;
    }
    Ok(())
}

/// There is one at most, whose login can be unsealed; then there is none.
async fn is_subscribed(at: &Place, ended: bool) -> Result<()> {
    let all = at.store.subscribers().await?;
    ensure!(
        all.len() <= 1 && (all.len() == 1 || !ended),
        "there are {} subscriptions",
        all.len()
    );
    for one in &all {
        let password = &one.authentication["paramsBasic"]["password"];
        ensure!(*password == PLANTED, "the login of a subscription is lost");
    }
    unsubscribe(at).await
}
