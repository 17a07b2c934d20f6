//! Power loss: database and log as they were at an fsync, the log cut everywhere and damaged everywhere. Whatever
//! was acknowledged is there, or the database is refused by name; a transaction is never there by half.

use crate::log::{Crashed, HEADER};
use crate::records::{Home, TENANT, instance, notification, op, package};
use serde_json::json;
use vnfm_core::ports::{Change, Store as _, StoreError};
use vnfm_store::{SecretKeys, SqliteStore};

/// A database with `count` transactions, each of an instance, its operation and a notification; what a crash leaves
/// of it after each acknowledgement is the log up to there.
async fn acknowledged(count: usize) -> (Crashed, Vec<usize>) {
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

/// What a database with this log holds, or why it is refused.
async fn reopened(crashed: &Crashed, log: &[u8]) -> Result<usize, String> {
    let home = Home::new();
    crashed.lay(home.folder.path(), log);
    let keys = SecretKeys::open(&home.key_file()).unwrap();
    match SqliteStore::open(&home.database(), keys).await {
        Ok(store) => Ok(whole_transactions(&store).await),
        Err(StoreError::Broken(why)) => Err(why),
        Err(other) => panic!("{other}"),
    }
}

/// How many transactions are there; fails where one is there by half, or a later one without an earlier one.
async fn whole_transactions(store: &SqliteStore) -> usize {
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

/// Every frame's beginning, and a place in the middle of each.
fn cuts(crashed: &Crashed) -> Vec<usize> {
    let places = crashed
        .frames()
        .into_iter()
        .flat_map(|(at, _)| [at, at + 10, at + 1_000]);
    places.chain([0, HEADER - 1, crashed.log.len()]).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_log_cut_anywhere_holds_every_transaction_that_ended_before() {
    let (crashed, ends) = acknowledged(6).await;
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
async fn a_log_that_lost_what_was_acknowledged_is_refused_by_name() {
    let (crashed, ends) = acknowledged(4).await;
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
async fn a_flipped_byte_hides_nothing_that_was_acknowledged() {
    let (crashed, ends) = acknowledged(3).await;
    let bare = crashed.clone().without_note();
    for (at, _) in crashed.frames() {
        for place in [at + 2, at + 6, at + 9, at + 17, at + 2_000] {
            let mut log = crashed.log.clone();
            log[place] ^= 0x5a;
            let why = reopened(&crashed, &log).await.unwrap_err();
            assert!(
                why.contains("is damaged") && why.contains("truncate -s"),
                "{why}"
            );
            // Where the note is lost as well, only the last transaction can be taken for one that was never told.
            match reopened(&bare, &log).await {
                Ok(held) => {
                    assert!(
                        held == 2 && at >= ends[1],
                        "flipped at {place}: {held} are there"
                    );
                }
                Err(why) => assert!(why.contains("acknowledged transactions follow"), "{why}"),
            }
        }
    }
    for place in [0, 9, 17, 26] {
        let mut log = crashed.log.clone();
        log[place] ^= 0x5a;
        assert!(
            reopened(&bare, &log).await.is_err(),
            "flipped in the header at {place}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_failed_commits_left_behind_the_end_is_no_damage() {
    let (crashed, ends) = acknowledged(5).await;
    let mut log = crashed.log.clone();
    log[ends[1] + 100] ^= 0x5a;
    // Three transactions end behind it, and none of them was acknowledged.
    let frames = (ends[1] - HEADER) / crashed.frame();
    let crashed = crashed.noting(frames);
    assert_eq!(reopened(&crashed, &log).await, Ok(2));
    let why = reopened(&crashed.noting(frames + 1), &log)
        .await
        .unwrap_err();
    assert!(why.contains("were acknowledged"), "{why}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_refusal_says_to_do_works() {
    let (crashed, ends) = acknowledged(4).await;
    let home = Home::new();
    let mut log = crashed.log.clone();
    log[ends[1] + 100] ^= 0x5a;
    let path = crashed.lay(home.folder.path(), &log);
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
    assert_eq!(whole_transactions(&home.open().await).await, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_log_that_was_folded_and_begun_anew_is_no_damage() {
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
            "it was begun anew"
        );
        let copy = Home::new();
        crashed.lay(copy.folder.path(), &crashed.log);
        assert_eq!(
            copy.open().await.outbox(0, 10_000).await.unwrap().len(),
            written
        );
    }
}
