//! Power loss: the log is truncated or damaged at every offset. Acknowledged transactions survive or the database is
//! refused by name; a transaction is never partially applied.

use crate::log::{Crashed, HEADER};
use crate::records::{Home, TENANT, instance, notification, op, package};
use serde_json::json;
use vnfm_core::ports::{Change, Store as _, StoreError};
use vnfm_store::{SecretKeys, SqliteStore};

/// A database with `count` transactions, each of an instance, its operation and a notification; what a crash leaves
/// of it after each acknowledgement is the log up to there.
async fn database_with(count: usize) -> (Crashed, Vec<usize>) {
    let home = Home::new();
    let store = home.open().await;
    store
        .write(
            None,
            vec![Change::AddPackage(package("package", Some("vnfd")))],
        )
        .await
        .unwrap();
    let mut ends = Vec::new();
    for n in 1..=count {
        let id = format!("i{n}");
        let changes = vec![
            Change::AddInstance(instance(&id)),
            Change::AddOp(op(&format!("o{n}"), &id)),
            notification(&id, json!("x".repeat(n * 700))),
        ];
        store.write(None, changes).await.unwrap();
        let crashed = Crashed::now(home.folder.path());
        let last = crashed
            .frames()
            .into_iter()
            .rfind(|(_, ends)| *ends)
            .unwrap()
            .0;
        ends.push(last + crashed.frame());
    }
    (Crashed::now(home.folder.path()), ends)
}

/// The number of transactions in a database with this log, or the reason why it is refused.
async fn reopened(crashed: &Crashed, log: &[u8]) -> Result<usize, String> {
    let home = Home::new();
    crashed.write_to(home.folder.path(), log);
    let keys = SecretKeys::open(&home.key_file()).unwrap();
    match SqliteStore::open(&home.database(), keys).await {
        Ok(store) => Ok(complete_transactions(&store).await),
        Err(StoreError::Broken(why)) => Err(why),
        Err(other) => panic!("{other}"),
    }
}

/// The number of transactions; panics on a partial one, or on a later one without an earlier one.
async fn complete_transactions(store: &SqliteStore) -> usize {
    let rows = store.outbox(0, 1_000).await.unwrap();
    for (index, row) in rows.iter().enumerate() {
        assert_eq!(row.instance_id, format!("i{}", index + 1), "a prefix");
        let record = store.instance(TENANT, &row.instance_id).await.unwrap();
        assert_eq!(
            record.active_op,
            Some(format!("o{}", index + 1)),
            "all of it"
        );
    }
    let instances = store.instances(TENANT, &<_>::default()).await.unwrap();
    assert_eq!(instances.len(), rows.len(), "nothing beyond it");
    rows.len()
}

/// The start of every frame, and an offset inside each.
fn cuts(crashed: &Crashed) -> Vec<usize> {
    let offsets = crashed
        .frames()
        .into_iter()
        .flat_map(|(at, _)| [at, at + 10, at + 1_000]);
    offsets.chain([0, HEADER - 1, crashed.log.len()]).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_log_truncated_anywhere_keeps_every_transaction_before_the_cut() {
    let (crashed, ends) = database_with(6).await;
    let crashed = crashed.without_note();
    let mut counts = Vec::new();
    for cut in cuts(&crashed) {
        let expected = ends.iter().filter(|end| **end <= cut).count();
        assert_eq!(
            reopened(&crashed, &crashed.log[..cut]).await,
            Ok(expected),
            "cut at {cut}"
        );
        counts.push(expected);
    }
    assert_eq!(counts.iter().max(), Some(&6));
    assert!(counts.contains(&0) && counts.len() > 20, "{counts:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_log_without_an_acknowledged_transaction_is_refused_by_name() {
    let (crashed, ends) = database_with(4).await;
    for cut in cuts(&crashed).into_iter().filter(|cut| *cut > HEADER) {
        let outcome = reopened(&crashed, &crashed.log[..cut]).await;
        if cut >= ends[3] {
            assert_eq!(outcome, Ok(4), "cut at {cut}");
        } else {
            let why = outcome.unwrap_err();
            assert!(
                why.contains("vnfm.db-wal") && why.contains("were acknowledged"),
                "{why}"
            );
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flipped_byte_never_hides_acknowledged_transactions() {
    let (crashed, ends) = database_with(3).await;
    let bare = crashed.clone().without_note();
    for (at, _) in crashed.frames() {
        for offset in [at + 2, at + 6, at + 9, at + 17, at + 2_000] {
            let mut log = crashed.log.clone();
            log[offset] ^= 0x5a;
            let why = reopened(&crashed, &log).await.unwrap_err();
            assert!(
                why.contains("is damaged") && why.contains("truncate -s"),
                "{why}"
            );
            // Without the note, only the last transaction may be mistaken for an unacknowledged one.
            match reopened(&bare, &log).await {
                Ok(held) => {
                    assert!(
                        held == 2 && at >= ends[1],
                        "flipped at {offset}: {held} are there"
                    );
                }
                Err(why) => assert!(why.contains("acknowledged transactions follow"), "{why}"),
            }
        }
    }
    for offset in [0, 9, 17, 26] {
        let mut log = crashed.log.clone();
        log[offset] ^= 0x5a;
        assert!(
            reopened(&bare, &log).await.is_err(),
            "flipped in the header at {offset}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn transactions_of_failed_commits_behind_the_end_are_not_damage() {
    let (crashed, ends) = database_with(5).await;
    let mut log = crashed.log.clone();
    log[ends[1] + 100] ^= 0x5a;
    // Three transactions end behind it, none of them acknowledged.
    let frames = (ends[1] - HEADER) / crashed.frame();
    let crashed = crashed.noting(frames);
    assert_eq!(reopened(&crashed, &log).await, Ok(2));
    let why = reopened(&crashed.noting(frames + 1), &log)
        .await
        .unwrap_err();
    assert!(why.contains("were acknowledged"), "{why}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_commands_in_the_hint_work() {
    let (crashed, ends) = database_with(4).await;
    let home = Home::new();
    let mut log = crashed.log.clone();
    log[ends[1] + 100] ^= 0x5a;
    let path = crashed.write_to(home.folder.path(), &log);
    let why = home.try_open().await.unwrap_err().to_string();
    assert_eq!(std::fs::read(&path).unwrap(), log, "nothing was changed");
    for command in why
        .split('`')
        .filter(|part| part.starts_with("truncate") || part.starts_with("rm "))
    {
        let ran = std::process::Command::new("sh")
            .args(["-c", command])
            .status()
            .unwrap();
        assert!(ran.success(), "{command}");
    }
    assert_eq!(complete_transactions(&home.open().await).await, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_checkpointed_and_restarted_log_is_not_damage() {
    let home = Home::new();
    let mut written = 0;
    for _ in 0..4 {
        let store = home.open().await;
        for _ in 0..150 {
            written += 1;
            store
                .write(None, vec![notification("i", json!("x".repeat(9_000)))])
                .await
                .unwrap();
        }
        let crashed = Crashed::now(home.folder.path());
        assert!(
            crashed.log.len() > crashed.frames().len() * crashed.frame(),
            "the log was restarted"
        );
        let copy = Home::new();
        crashed.write_to(copy.folder.path(), &crashed.log);
        assert_eq!(
            copy.open().await.outbox(0, 10_000).await.unwrap().len(),
            written
        );
    }
}
