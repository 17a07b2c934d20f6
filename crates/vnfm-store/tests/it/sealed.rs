//! Secrets at rest: no file contains them in any encoding, only the right key opens them, and a rotation
//! reseals them during other writes.

use crate::records::{Home, TENANT, deployment, instance, op, package, vim};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};
use serde_json::json;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::Arc;
use vnfm_core::Deployment;
use vnfm_core::ports::SealingKeys as _;
use vnfm_core::ports::{
    Change, JournalRow, ProcessHistory, ScheduleRecord, SecretJson, StepStatus, Store, StoreError,
};
use vnfm_store::{SecretKeys, SqliteStore};
use vnfm_types::Schedule;

const PLANTED: &str = "correct-horse-battery-staple";

fn planted() -> SecretJson {
    SecretJson::from(json!({"password": PLANTED, "list": [PLANTED]}))
}

/// Writes a secret to every column that may contain one.
pub(crate) async fn plant(store: &dyn Store) {
    let mut with_instance = instance("i1");
    with_instance.deployment = Some(deployment(PLANTED));
    let mut with_op = op("o1", "i1");
    with_op.request = planted();
    with_op.before = Some(deployment(PLANTED));
    with_op.target = Some(deployment(PLANTED));
    let mut with_vim = vim("v1", "one");
    with_vim.access_info = planted();
    let row = JournalRow {
        op_id: "o1".into(),
        step: "allocate".into(),
        status: StepStatus::Done,
        attempt: 1,
        output: planted(),
        started_at: crate::records::at(),
        ended_at: None,
        lives: ProcessHistory::default(),
        hook: None,
        retry: None,
    };
    let checkpoint = Change::Checkpoint {
        op_id: "o1".into(),
        step: "instantiate_end".into(),
        key: "token".into(),
        value: planted(),
    };
    let schedule = ScheduleRecord {
        tenant: TENANT.into(),
        instance_id: "i1".into(),
        version: 0,
        schedule: Schedule {
            every_seconds: 60,
            next_at: crate::records::at(),
            last_at: None,
            last_op_occ_id: None,
            last_result: None,
        },
        running: false,
        request: planted(),
    };
    let changes = vec![
        Change::AddPackage(package("package", Some("vnfd"))),
        Change::AddInstance(with_instance),
        Change::AddOp(with_op),
        Change::Journal(Arc::new(row)),
        checkpoint,
        Change::AddVim(with_vim),
        Change::SetSchedule(Box::new(schedule)),
    ];
    store.write(None, changes).await.unwrap();
}

/// Reads the secrets that [`plant`] wrote.
pub(crate) async fn harvest(store: &dyn Store) -> Result<[SecretJson; 8], StoreError> {
    let op = store.op(TENANT, "o1").await?;
    Ok([
        sealed(store.instance(TENANT, "i1").await?.deployment),
        sealed(op.before),
        sealed(op.target),
        op.request,
        store.journal("o1").await?.swap_remove(0).output,
        store
            .checkpoint("o1", "instantiate_end", "token")
            .await?
            .unwrap_or_default(),
        store.vim(TENANT, "v1").await?.access_info,
        store.schedule(TENANT, "i1").await?.request,
    ])
}

fn sealed(deployment: Option<Arc<Deployment>>) -> SecretJson {
    let params = deployment.map(|deployment| deployment.additional_params.clone());
    SecretJson::from(json!(params))
}

pub(crate) fn all_planted() -> [SecretJson; 8] {
    let [one, two, three] = std::array::from_fn(|_| sealed(Some(deployment(PLANTED))));
    let [four, five, six, seven, eight] = std::array::from_fn(|_| planted());
    [one, two, three, four, five, six, seven, eight]
}

/// `text` as a file may contain it: plain, and in base64 at each of the three offsets.
fn disguises(text: &str) -> Vec<Vec<u8>> {
    let mut all = vec![text.as_bytes().to_vec()];
    for offset in 0..3 {
        let mut bytes = vec![0_u8; offset];
        bytes.extend(text.as_bytes());
        for encoded in [
            STANDARD_NO_PAD.encode(&bytes),
            URL_SAFE_NO_PAD.encode(&bytes),
        ] {
            // The first and last characters depend on the surrounding text.
            all.push(encoded.as_bytes()[4..encoded.len() - 4].to_vec());
        }
    }
    all
}

fn holds(file: &Path, text: &str) -> bool {
    let content = std::fs::read(file).unwrap();
    disguises(text)
        .iter()
        .any(|form| content.windows(form.len()).any(|window| window == form))
}

pub(crate) fn files_with(folder: &Path, text: &str) -> Vec<String> {
    let files = folder.read_dir().unwrap().map(|entry| entry.unwrap());
    files
        .filter(|entry| holds(&entry.path(), text))
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn no_database_file_contains_a_secret() {
    let home = Home::new();
    let store = home.open().await;
    plant(&store).await;
    let folder = home.folder.path();
    assert!(
        files_with(folder, "name of i1").contains(&"vnfm.db-wal".to_owned()),
        "the search finds"
    );
    assert_eq!(files_with(folder, PLANTED), [""; 0]);
    assert_eq!(harvest(&store).await.unwrap(), all_planted());
    store.close().await.unwrap();
    assert_eq!(files_with(folder, "name of i1"), ["vnfm.db"]);
    assert_eq!(files_with(folder, PLANTED), [""; 0]);
    assert_eq!(harvest(&home.open().await).await.unwrap(), all_planted());
}

#[tokio::test(flavor = "multi_thread")]
async fn files_are_readable_only_by_their_owner() {
    let home = Home::new();
    let store = home.open().await;
    plant(&store).await;
    for entry in home.folder.path().read_dir().unwrap() {
        let entry = entry.unwrap();
        let mode = entry.metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o077, 0, "{:?} {mode:o}", entry.file_name());
    }
    drop(store);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_key_is_refused_and_the_file_named() {
    let home = Home::new();
    plant(&home.open().await).await;
    let other = home.folder.path().join("other.key");
    let opened = SqliteStore::open(&home.database(), SecretKeys::open(&other).unwrap()).await;
    let Err(StoreError::Broken(text)) = opened else {
        panic!("it was opened")
    };
    assert!(
        text.contains("other.key") && text.contains("vnfm.db") && text.contains("hint"),
        "{text}"
    );
    assert_eq!(
        harvest(&home.open().await).await.unwrap(),
        all_planted(),
        "nothing was changed"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rotation_reseals_everything_and_removes_the_old_key() {
    let home = Home::new();
    let store = home.open().await;
    plant(&store).await;
    let old = home.folder.path().join("old.key");
    std::fs::copy(home.key_file(), &old).unwrap();
    assert_eq!(
        store.rotate().await.unwrap(),
        9,
        "eight secrets and the check of the key"
    );
    assert_eq!(harvest(&store).await.unwrap(), all_planted());
    let before = std::fs::read_to_string(&old).unwrap();
    let after = std::fs::read_to_string(home.key_file()).unwrap();
    let keys = |text: &str| {
        text.lines()
            .filter(|l| !l.starts_with('#'))
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    assert_eq!((keys(&before).len(), keys(&after).len()), (1, 1));
    assert_ne!(keys(&before), keys(&after));
    assert_eq!(
        home.key_file().metadata().unwrap().permissions().mode() & 0o777,
        0o600
    );
    store.close().await.unwrap();
    let opened = SqliteStore::open(&home.database(), SecretKeys::open(&old).unwrap()).await;
    assert!(matches!(opened, Err(StoreError::Broken(_))));
    let store = home.open().await;
    assert_eq!(harvest(&store).await.unwrap(), all_planted());
    assert_eq!(store.rotate().await.unwrap(), 9);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_interrupted_rotation_is_completed_by_the_next() {
    let home = Home::new();
    let store = home.open().await;
    plant(&store).await;
    store.close().await.unwrap();
    // As after a crash: the new key is in the file, and no row is resealed.
    let new = home.folder.path().join("new.key");
    SecretKeys::open(&new).unwrap();
    let both = format!(
        "{}{}",
        std::fs::read_to_string(&new).unwrap(),
        std::fs::read_to_string(home.key_file()).unwrap()
    );
    std::fs::write(home.key_file(), both).unwrap();
    let store = home.open().await;
    assert_eq!(harvest(&store).await.unwrap(), all_planted());
    store.rotate().await.unwrap();
    store.close().await.unwrap();
    let left = std::fs::read_to_string(home.key_file()).unwrap();
    assert_eq!(
        left.lines().filter(|line| !line.starts_with('#')).count(),
        1
    );
    assert_eq!(harvest(&home.open().await).await.unwrap(), all_planted());
}

#[tokio::test(flavor = "multi_thread")]
async fn writes_continue_during_a_rotation() {
    let home = Home::new();
    let store = Arc::new(home.open().await);
    plant(&*store).await;
    let writer = store.clone();
    let writing = tokio::spawn(async move {
        for n in 0..200 {
            let checkpoint = Change::Checkpoint {
                op_id: "o1".into(),
                step: "instantiate_end".into(),
                key: n.to_string(),
                value: planted(),
            };
            writer.write(None, vec![checkpoint]).await.unwrap();
            let read = writer
                .checkpoint("o1", "instantiate_end", &n.to_string())
                .await;
            assert_eq!(read.unwrap(), Some(planted()));
        }
    });
    while !writing.is_finished() {
        store.rotate().await.unwrap();
    }
    writing.await.unwrap();
    drop(store);
    let store = home.open().await;
    for n in 0..200 {
        let read = store
            .checkpoint("o1", "instantiate_end", &n.to_string())
            .await;
        assert_eq!(read.unwrap(), Some(planted()));
    }
}
