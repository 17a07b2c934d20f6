//! The table of administrative tasks: everything but operations. Each task can be repeated at any time, whatever an
//! interrupted run has left. Its check depends on whether the task completed.

use anyhow::{Context as _, Result, ensure};
use async_trait::async_trait;
use jiff::Timestamp;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use vnfm_core::ports::{Backups as _, SealingKeys as _, StoreAdmin as _};
use vnfm_core::ports::{
    Callback, Change, InstanceFiles as _, PackageRecord, Packages as _, PortError, Store as _,
    StoreError, Subscribers, VimRecord,
};
use vnfm_core::query::{Query, VisibilityScope};
use vnfm_core::{Engine, Override, VimChange};
use vnfm_store::{BackupFolders, Retention, SqliteStore, StoreBackups};
use vnfm_tests::sources::root;
use vnfm_types::{CreateVnfRequest, InstantiationState, VimConnectionInfo, VolumeSpec};

use crate::site::PLANTED;
use crate::vnf::{Facts, TENANT};

/// The process and data that a task works on.
pub(crate) struct TaskContext {
    pub(crate) engine: Engine,
    pub(crate) store: Arc<SqliteStore>,
    pub(crate) folders: BackupFolders,
    pub(crate) data: PathBuf,
    pub(crate) facts: Facts,
}

/// The future of a task or check.
pub(crate) type Work<'p> = Pin<Box<dyn Future<Output = Result<()>> + 'p>>;

pub(crate) struct AdminTask {
    /// As reported, such as `key rotation`.
    pub(crate) name: &'static str,
    /// Runs in a live process.
    pub(crate) work: fn(&TaskContext) -> Work<'_>,
    /// Runs instead, without a process, on the data folder.
    pub(crate) offline: Option<fn(&Path) -> Work<'_>>,
    /// Checks the result; the flag says whether the task completed.
    pub(crate) holds: fn(&TaskContext, bool) -> Work<'_>,
    /// A process killed afterwards leaves changes in the write-ahead log.
    pub(crate) leaves_wal: bool,
}

pub(crate) const TASKS: &[AdminTask] = &[
    row(
        "key rotation",
        |cx| Box::pin(rotate(cx)),
        |cx, _| Box::pin(is_readable(cx)),
    ),
    row(
        "backup",
        |cx| Box::pin(back_up(cx)),
        |cx, _| Box::pin(is_readable(cx)),
    ),
    AdminTask {
        offline: Some(|data| Box::pin(restore(data))),
        ..row(
            "restore",
            |cx| Box::pin(back_up(cx)),
            |cx, ended| Box::pin(is_restored(cx, ended)),
        )
    },
    row(
        "prune",
        |cx| Box::pin(prune(cx)),
        |cx, _| Box::pin(is_readable(cx)),
    ),
    row(
        "onboarding",
        |cx| Box::pin(onboard(cx)),
        |cx, ended| Box::pin(is_onboarded(cx, ended)),
    ),
    row(
        "package download",
        |cx| Box::pin(download(cx)),
        |cx, ended| Box::pin(is_onboarded(cx, ended)),
    ),
    row(
        "vim update",
        |cx| Box::pin(update_vim(cx)),
        |cx, _| Box::pin(is_readable(cx)),
    ),
    row(
        "vim delete",
        |cx| Box::pin(delete_vim(cx)),
        |cx, ended| Box::pin(is_deleted(cx, ended)),
    ),
    row(
        "abandon",
        |cx| Box::pin(abandon(cx)),
        |cx, ended| Box::pin(is_abandoned(cx, ended)),
    ),
    row(
        "empty volume",
        |cx| Box::pin(create_and_delete_volume(cx)),
        |cx, ended| Box::pin(is_without_volume(cx, ended)),
    ),
    AdminTask {
        leaves_wal: true,
        ..row(
            "subscription",
            |cx| Box::pin(subscribe(cx)),
            |cx, ended| Box::pin(is_subscribed(cx, ended)),
        )
    },
];

const fn row(
    name: &'static str,
    work: fn(&TaskContext) -> Work<'_>,
    holds: fn(&TaskContext, bool) -> Work<'_>,
) -> AdminTask {
    AdminTask {
        name,
        work,
        offline: None,
        holds,
        leaves_wal: false,
    }
}

/// The package that is onboarded in addition to those of the site.
const PACKAGE: &str = "5d7c3a52-0f0f-4a53-9d2e-1c5e8f1f7a10";
/// The file that is stored with the instance, its content in the backup, and the one after it.
const FILE: &str = "snapshot.enc";
const BACKED_UP: &str = "in the backup";
const CHANGED: &str = "changed after the backup";
/// The VIM that is registered and deleted.
const SPARE: &str = "spare";
const CALLBACK: &str = "http://nfvo.example.com/callback";

fn now() -> Timestamp {
    // Pruned data is years old, and files named after the time are removed again.
    Timestamp::UNIX_EPOCH
}

async fn rotate(cx: &TaskContext) -> Result<()> {
    cx.store.rotate().await?;
    Ok(())
}

async fn back_up(cx: &TaskContext) -> Result<()> {
    let backups = StoreBackups {
        store: cx.store.clone(),
        folders: cx.folders.clone(),
    };
    drop(backups.unnamed_backup(&cx.data, now()).await?);
    Ok(())
}

async fn prune(cx: &TaskContext) -> Result<()> {
    cx.store.prune(&Retention::default(), now(), false).await?;
    Ok(())
}

/// The backup to restore, next to the data folder.
fn backup_file(data: &Path) -> PathBuf {
    data.with_extension("backup")
}

/// Stores a file with the instance.
async fn store_file(cx: &TaskContext, content: &str) -> Result<()> {
    let (files, id) = (&cx.folders.files, instance(cx).await?);
    let local = files.begin(&id, FILE, content.len() as u64).await?;
    std::fs::write(&local, content)?;
    files.complete(&id, FILE, (local, None)).await?;
    Ok(())
}

/// The id of the instance that exists meanwhile.
async fn instance(cx: &TaskContext) -> Result<String> {
    let instances = cx.store.instances(TENANT, &Query::default()).await?;
    let first = instances.into_iter().next();
    Ok(first.context("there is no instance")?.vnf.id)
}

/// Creates the backup for the next restore, and then changes the stored file.
pub(crate) async fn create_backup(cx: &TaskContext) -> Result<()> {
    let file = backup_file(&cx.data);
    if file.exists() {
        std::fs::remove_file(&file)?;
    }
    store_file(cx, BACKED_UP).await?;
    cx.store.backup(&cx.folders, &file, now()).await?;
    store_file(cx, CHANGED).await
}

async fn restore(data: &Path) -> Result<()> {
    vnfm_store::restore(&backup_file(data), data, now()).await?;
    Ok(())
}

/// Database and stored file are of one moment. Removes what a restore keeps.
async fn is_restored(cx: &TaskContext, ended: bool) -> Result<()> {
    is_readable(cx).await?;
    if ended && backup_file(&cx.data).exists() {
        ensure!(
            cx.store.recovery().await?.is_some(),
            "the server is not in recovery"
        );
    }
    let expected = match cx.store.recovery().await? {
        Some(_) => BACKED_UP,
        None => CHANGED,
    };
    let opened = cx.folders.files.open(&instance(cx).await?, FILE).await;
    let (_, path) = opened.context("the stored file is gone")?;
    let found = std::fs::read_to_string(path)?;
    ensure!(found == expected, "a file with `{found}`, not `{expected}`");
    cx.store.end_recovery().await?;
    for entry in cx.data.read_dir()? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.starts_with("vnfm.db.before-") {
            std::fs::remove_file(entry.path())?;
        } else if name.starts_with("files.before-") {
            std::fs::remove_dir_all(entry.path())?;
        }
    }
    Ok(())
}

/// Every secret can be unsealed: logging in to the VIMs works.
async fn is_readable(cx: &TaskContext) -> Result<()> {
    for vim in [&cx.facts.cloud, &cx.facts.cluster] {
        cx.engine
            .check_vim(TENANT, vim)
            .await
            .context("a VIM cannot be reached")?;
    }
    Ok(())
}

/// Removes the package, complete or not.
async fn remove_package(cx: &TaskContext) -> Result<()> {
    if cx.store.package_record(TENANT, PACKAGE).await.is_ok() {
        let removal = Change::RemovePackage {
            tenant: TENANT.to_owned(),
            id: PACKAGE.to_owned(),
        };
        cx.engine.store().write(None, vec![removal]).await?;
    }
    Ok(cx.folders.packages.remove(PACKAGE).await?)
}

async fn add_package(cx: &TaskContext, upload: PathBuf) -> Result<()> {
    let stored = cx.folders.packages.store(PACKAGE, upload).await;
    let package = stored.map_err(|why| anyhow::anyhow!("{why}"))?;
    let record = PackageRecord::onboarded(TENANT, PACKAGE, &package.vnfd().descriptor_id);
    Ok(cx
        .engine
        .store()
        .write(None, vec![Change::AddPackage(Box::new(record))])
        .await?)
}

fn archive(cx: &TaskContext) -> Result<Vec<u8>> {
    let sample = root().join("vnfd-samples/vnf-levels");
    Ok(vnfm_descriptor::pack(
        &sample,
        cx.folders.packages.limits(),
    )?)
}

async fn onboard(cx: &TaskContext) -> Result<()> {
    remove_package(cx).await?;
    let upload = cx.folders.packages.incoming();
    std::fs::write(&upload, archive(cx)?)?;
    add_package(cx, upload).await
}

/// As [`onboard`], but the archive arrives in pieces that another process may resume.
async fn download(cx: &TaskContext) -> Result<()> {
    use std::io::Write as _;
    remove_package(cx).await?;
    let (arriving, bytes) = (
        cx.folders.packages.partial_download_path(PACKAGE)?,
        archive(cx)?,
    );
    let mut file = std::fs::File::create(&arriving)?;
    for piece in bytes.chunks(1 << 10) {
        file.write_all(piece)?;
    }
    add_package(cx, arriving).await
}

/// A recorded package can be read; of any other, only files remain that the next cleanup removes.
async fn is_onboarded(cx: &TaskContext, ended: bool) -> Result<()> {
    let is_recorded = cx.store.package_record(TENANT, PACKAGE).await.is_ok();
    ensure!(is_recorded || !ended, "the package is missing");
    if is_recorded {
        cx.folders
            .packages
            .package(TENANT, PACKAGE)
            .await
            .context("the package cannot be read")?;
    }
    cx.folders.packages.remove_partial_downloads(&[])?;
    remove_package(cx).await?;
    let mut left = cx.data.join("packages").read_dir()?;
    let left = left.find_map(|entry| {
        let name = entry.ok()?.file_name().to_string_lossy().into_owned();
        (name.starts_with(PACKAGE) || name.starts_with('.')).then_some(name)
    });
    ensure!(left.is_none(), "{left:?} is left behind");
    Ok(())
}

fn connection(record: &VimRecord) -> Result<VimConnectionInfo> {
    Ok(serde_json::from_value(json!({
        "vimType": record.vim.vim_type,
        "interfaceInfo": record.vim.interface_info,
        "accessInfo": *record.access_info,
    }))?)
}

async fn update_vim(cx: &TaskContext) -> Result<()> {
    let record = cx.store.vim(TENANT, &cx.facts.cloud).await?;
    let name = if record.vim.name == "cloud" {
        "another"
    } else {
        "cloud"
    };
    let change = VimChange {
        name: Some(name.to_owned()),
        connection: connection(&record)?,
        ..VimChange::default()
    };
    cx.engine
        .update_vim(TENANT, &cx.facts.cloud, change)
        .await?;
    Ok(())
}

/// Registers the VIM unless it exists, and deletes it.
async fn delete_vim(cx: &TaskContext) -> Result<()> {
    if cx.store.vim(TENANT, SPARE).await.is_err() {
        let record = cx.store.vim(TENANT, &cx.facts.cloud).await?;
        let change = VimChange {
            name: Some(SPARE.to_owned()),
            connection: connection(&record)?,
            ..VimChange::default()
        };
        cx.engine.register_vim(TENANT, change).await?;
    }
    Ok(cx.engine.delete_vim(TENANT, SPARE, None).await?)
}

async fn is_deleted(cx: &TaskContext, ended: bool) -> Result<()> {
    match cx.store.vim(TENANT, SPARE).await {
        Err(StoreError::NotFound { .. }) => {}
        Ok(_) if !ended => {
            cx.engine
                .check_vim(TENANT, SPARE)
                .await
                .context("the VIM cannot be reached")?;
        }
        other => anyhow::bail!("the VIM was deleted, but is {other:?}"),
    }
    is_readable(cx).await
}

fn test_act() -> Override {
    Override::new("faults", "fault injection")
}

/// Creates an instance, abandons it, and forgets it.
async fn abandon(cx: &TaskContext) -> Result<()> {
    let [_, vnfd_id] = cx.facts.vnfds.clone();
    let request = CreateVnfRequest {
        vnfd_id,
        ..CreateVnfRequest::default()
    };
    let id = cx.engine.create(TENANT, request).await?.vnf.id;
    cx.engine.abandon(TENANT, &id, false, test_act()).await?;
    Ok(cx.engine.remove_tombstone(TENANT, &id, test_act()).await?)
}

/// The instance exists as created, has a tombstone, or is forgotten; afterwards it is removed.
async fn is_abandoned(cx: &TaskContext, ended: bool) -> Result<()> {
    let (mut left, store) = (0, &cx.store);
    for one in store.instances(TENANT, &Query::default()).await? {
        if one.vnf.instantiation_state == InstantiationState::NotInstantiated {
            cx.engine.delete(TENANT, &one.vnf.id).await?;
            left += 1;
        }
    }
    for one in store.tombstones(TENANT).await? {
        cx.engine
            .remove_tombstone(TENANT, &one.vnf_instance_id, test_act())
            .await?;
        left += 1;
    }
    ensure!(
        left == 0 || !ended,
        "{left} records are left of an instance that was abandoned and forgotten"
    );
    ensure!(left < 2, "an instance exists together with its tombstone");
    Ok(())
}

/// The storage of the volume that is created empty.
const STORAGE: &str = "of-a-task";

async fn create_and_delete_volume(cx: &TaskContext) -> Result<()> {
    let spec = VolumeSpec {
        vim_id: cx.facts.cloud.clone(),
        virtual_storage_desc_id: STORAGE.to_owned(),
        size_gib: 1,
        volume_type: None,
    };
    let created = cx.engine.create_volume(TENANT, spec).await?;
    Ok(cx.engine.delete_volume(TENANT, &created.volume.id).await?)
}

/// A record exists of what the VIM may have, and its deletion deletes both: no orphan is left.
async fn is_without_volume(cx: &TaskContext, ended: bool) -> Result<()> {
    let query = Query::only("virtualStorageDescId", STORAGE);
    let left = cx.store.volumes(TENANT, &query).await?;
    ensure!(
        left.is_empty() || !ended,
        "a deleted volume has the record {left:?}"
    );
    for record in left {
        cx.engine.delete_volume(TENANT, &record.volume.id).await?;
    }
    let (orphans, _) = cx.engine.orphans(TENANT).await?;
    let orphan = orphans.into_iter().find(|one| one.volume_id.is_some());
    ensure!(orphan.is_none(), "I2: {orphan:?} has no record");
    Ok(())
}

/// A subscriber that accepts everything.
struct AcceptAll;

#[async_trait]
impl Subscribers for AcceptAll {
    async fn test(&self, _: &Callback<'_>) -> Result<(), PortError> {
        Ok(())
    }
    async fn notify(&self, _: &Callback<'_>, _: &Value) -> Result<(), PortError> {
        Ok(())
    }
}

/// Deletes all subscriptions and creates one.
async fn subscribe(cx: &TaskContext) -> Result<()> {
    unsubscribe(cx).await?;
    let login =
        json!({"authType": ["BASIC"], "paramsBasic": {"userName": "a", "password": PLANTED}});
    let request = json!({"callbackUri": CALLBACK, "authentication": login});
    let (request, full) = (serde_json::from_value(request)?, VisibilityScope::default());
    let root = ("http://vnfm.example.com", &full);
    cx.engine
        .subscribe(TENANT, request, root, &AcceptAll)
        .await?;
    Ok(())
}

async fn unsubscribe(cx: &TaskContext) -> Result<()> {
    for one in cx.store.subscribers().await? {
        cx.engine.unsubscribe(TENANT, &one.subscription.id).await?;
    }
    Ok(())
}

/// At most one subscription exists, and its login can be unsealed; afterwards it is deleted.
async fn is_subscribed(cx: &TaskContext, ended: bool) -> Result<()> {
    let all = cx.store.subscribers().await?;
    ensure!(
        all.len() <= 1 && (all.len() == 1 || !ended),
        "there are {} subscriptions",
        all.len()
    );
    for one in &all {
        let password = &one.authentication["paramsBasic"]["password"];
        ensure!(*password == PLANTED, "the login of a subscription is lost");
    }
    unsubscribe(cx).await
}
