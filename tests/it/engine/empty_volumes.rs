//! Empty volumes on a VIM in memory: creation, refusals, failures, crashes, and a deletion at the same time.

use super::fakes::*;
use super::scale::Scalable;
use super::setup::*;
use super::stopping_store::stop_at;
use super::volumes::{package, retaining, with_volumes};
use serde_json::json;
use std::collections::BTreeSet;
use std::sync::Arc;
use tokio::sync::Notify;
use vnfm_core::ports::*;
use vnfm_core::{Engine, Refusal, Why};
use vnfm_types::*;

const REFUSED: Code = Code {
    name: "test.refused",
    kind: ErrorKind::Refused,
    means: "the VIM refuses the call",
    next: "do not inject it",
};

fn spec() -> VolumeSpec {
    VolumeSpec {
        vim_id: "cloud".into(),
        virtual_storage_desc_id: "activeData".into(),
        size_gib: 20,
        volume_type: Some("fast".into()),
    }
}

impl Scalable {
    async fn create_volume(&self) -> Result<RetainedVolume, Refusal> {
        let created = self.engine.create_volume(TENANT, spec()).await;
        created.map(|record| record.volume)
    }

    /// The record of the volume, of which there must be exactly one.
    async fn the_record(&self) -> RetainedVolume {
        let [record] = <[_; 1]>::try_from(self.records().await).unwrap();
        record
    }

    /// Neither record nor volume of its own is left.
    async fn assert_no_volumes(&self, case: &str) {
        assert_eq!(self.records().await, [], "{case}");
        let left = self.vim.0.retained_volumes();
        assert_eq!(left, Vec::<String>::new(), "{case}");
    }
}

#[tokio::test]
async fn an_empty_volume_serves_one_instance_after_another() {
    let it = with_volumes().await;
    it.terminated(&it.id, TerminateVnfRequest::default()).await;
    let volume = it.create_volume().await.unwrap();
    let vim = it.store.vim(TENANT, "cloud").await.unwrap().vim;
    let expected = RetainedVolume {
        id: volume.id.clone(),
        vim_id: vim.id,
        resource_id: volume.resource_id.clone(),
        size_gib: Some(20),
        volume_type: Some("fast".into()),
        virtual_storage_desc_id: "activeData".into(),
        created_at: volume.created_at,
        ..RetainedVolume::default()
    };
    assert_eq!(volume, expected);
    assert_eq!(it.the_record().await, volume);
    let only_it = BTreeSet::from([volume.on_vim().to_owned()]);
    assert_eq!(it.vim.0.volumes(), only_it);
    assert_eq!(it.orphan_volumes().await, Vec::<String>::new());
    for how in [
        TerminateVnfRequest::default(),
        retaining(json!(["activeData"])),
    ] {
        let id = it.new_instance(std::slice::from_ref(&volume.id)).await;
        let id = id.unwrap();
        assert!(it.storages(&id).await.contains(volume.on_vim()));
        let used = it.delete_volume(&volume.id).await.unwrap_err();
        assert_eq!(used.why, Why::Conflict);
        it.terminated(&id, how).await;
        assert_eq!(it.vim.0.volumes(), only_it);
        assert_eq!(it.the_record().await, volume);
    }
    it.delete_volume(&volume.id).await.unwrap();
    it.assert_no_volumes("deleted").await;
}

/// Changes a request into one that no VIM can meet.
type Edit = fn(&mut VolumeSpec);

#[tokio::test]
async fn what_no_vim_could_have_is_refused_by_name() {
    let it = with_volumes().await;
    let cases: [(&str, Edit); 8] = [
        ("sizeGib", |spec| {
            spec.size_gib = 0;
        }),
        ("sizeGib", |spec| {
            spec.size_gib = u64::MAX;
        }),
        ("virtualStorageDescId", |spec| {
            spec.virtual_storage_desc_id = String::new();
        }),
        ("virtualStorageDescId", |spec| {
            spec.virtual_storage_desc_id = "a\nb".into();
        }),
        ("volumeType", |spec| {
            spec.volume_type = Some(String::new());
        }),
        ("volumeType", |spec| {
            spec.volume_type = Some("x".repeat(256));
        }),
        ("volumeType", |spec| {
            spec.volume_type = Some("\u{1b}[2J".into());
        }),
        ("vimId", |spec| {
            spec.vim_id = "none".into();
        }),
    ];
    for (member, change) in cases {
        let mut spec = spec();
        change(&mut spec);
        let refused = it.engine.create_volume(TENANT, spec).await.unwrap_err();
        assert_eq!(refused.why, Why::Unprocessable, "{member}");
        let begins = format!("{member}: ");
        assert!(refused.detail.starts_with(&begins), "{refused}");
    }
    it.assert_no_volumes("refused").await;
    assert!(!it.world.calls().contains(&"create_volume".to_owned()));
}

#[tokio::test]
async fn a_vim_of_others_or_whose_policy_forbids_it_gets_no_volume() {
    let it = with_volumes().await;
    let foreign = it.engine.create_volume("mallory", spec()).await;
    let foreign = foreign.unwrap_err();
    assert_eq!(foreign.code.name, "request.unknown-vim", "{foreign}");
    let mut vim = it.store.vim(TENANT, "cloud").await.unwrap();
    vim.vim.policy = Some(Box::new(VimPolicy {
        external_ips: Some(false),
        ..VimPolicy::default()
    }));
    let put = Change::PutVim(Box::new(vim));
    it.store.write(None, vec![put]).await.unwrap();
    let refused = it.create_volume().await.unwrap_err();
    assert_eq!(refused.code.name, "volume.unusable", "{refused}");
    assert!(refused.detail.contains("policy"), "{refused}");
    it.assert_no_volumes("refused").await;
    assert!(!it.world.calls().contains(&"create_volume".to_owned()));
}

#[tokio::test]
async fn a_vim_that_refuses_leaves_neither_record_nor_volume() {
    let it = with_volumes().await;
    for after_effect in [false, true] {
        *it.world.fail_after_effect.lock().unwrap() = after_effect;
        let failing = || it.world.failing.lock().unwrap();
        failing().insert("create_volume", (1, &REFUSED));
        let refused = it.create_volume().await.unwrap_err();
        assert_eq!(
            (refused.why, refused.code.name),
            (Why::Unprocessable, "test.refused")
        );
        it.assert_no_volumes("refused").await;
    }
}

#[tokio::test]
async fn a_vim_that_breaks_its_api_is_unavailable_and_no_error_of_the_server() {
    let it = with_volumes().await;
    let failing = || it.world.failing.lock().unwrap();
    failing().insert("create_volume", (1, &BROKEN));
    let failed = it.create_volume().await.unwrap_err();
    assert_eq!(
        (failed.why, failed.code.name),
        (Why::Unavailable, "test.broken")
    );
    it.assert_no_volumes("not created").await;
    let volume = it.create_volume().await.unwrap();
    failing().insert("delete_volume", (1, &BROKEN));
    let failed = it.delete_volume(&volume.id).await.unwrap_err();
    assert_eq!(failed.why, Why::Unavailable);
    assert_eq!(it.the_record().await.state, VolumeState::Deleting);
    it.delete_volume(&volume.id).await.unwrap();
    it.assert_no_volumes("deleted").await;
}

#[tokio::test]
async fn a_vim_that_does_not_respond_leaves_a_record_that_can_be_deleted() {
    let it = with_volumes().await;
    for after_effect in [false, true] {
        *it.world.fail_after_effect.lock().unwrap() = after_effect;
        it.fails("create_volume");
        let failed = it.create_volume().await.unwrap_err();
        assert_eq!(failed.why, Why::Unavailable);
        let record = it.the_record().await;
        assert_eq!(
            (record.state, &record.resource_id),
            (VolumeState::Creating, &None)
        );
        let next = format!("vnfmctl volume delete {}", record.id);
        assert!(failed.next().contains(&next), "{}", failed.next());
        let early = it.new_instance(std::slice::from_ref(&record.id)).await;
        let early = early.unwrap_err();
        assert_eq!(
            (early.why, early.code.name),
            (Why::Conflict, "volume.in-use")
        );
        assert!(early.detail.contains("is being created"), "{early}");
        assert_eq!(it.orphan_volumes().await, Vec::<String>::new());
        it.fails("delete_volume");
        let failed = it.delete_volume(&record.id).await.unwrap_err();
        assert_eq!(failed.why, Why::Unavailable);
        assert_eq!(it.the_record().await.state, VolumeState::Deleting);
        it.delete_volume(&record.id).await.unwrap();
        it.assert_no_volumes("deleted").await;
    }
}

#[tokio::test]
async fn what_a_refusal_cannot_delete_stays_until_it_is_deleted() {
    let it = with_volumes().await;
    let failing = || it.world.failing.lock().unwrap();
    failing().insert("create_volume", (1, &REFUSED));
    failing().insert("delete_volume", (1, &REFUSED));
    it.create_volume().await.unwrap_err();
    let record = it.the_record().await;
    assert_eq!(record.state, VolumeState::Creating);
    failing().insert("delete_volume", (1, &REFUSED));
    let refused = it.delete_volume(&record.id).await.unwrap_err();
    assert_eq!(refused.why, Why::Conflict);
    // It was never available, so it does not become so.
    assert_eq!(it.the_record().await.state, VolumeState::Deleting);
    it.delete_volume(&record.id).await.unwrap();
    it.assert_no_volumes("deleted").await;
}

#[tokio::test]
async fn a_crash_at_any_write_leaves_what_a_deletion_removes() {
    let it = with_volumes().await;
    for after_effect in [false, true] {
        for number in 1..=3 {
            let case = format!("write {number} after={after_effect}");
            let stopping = stop_at(it.store.clone(), number, after_effect);
            let parts = scalable_parts(stopping.clone(), &it.world, it.vim.clone(), package());
            let process = Engine::new(parts);
            let has_ended = tokio::select! {
                created = process.create_volume(TENANT, spec()) => created.is_ok(),
                () = stopping.interceptor().stopped() => false,
            };
            assert_eq!(has_ended, number == 3, "{case}");
            for record in it.records().await {
                assert_eq!(
                    record.state == VolumeState::Available,
                    record.resource_id.is_some()
                );
                it.delete_volume(&record.id).await.unwrap();
            }
            it.assert_no_volumes(&case).await;
            assert_eq!(it.orphan_volumes().await, Vec::<String>::new(), "{case}");
        }
    }
}

#[tokio::test]
async fn a_deletion_during_the_creation_wins() {
    let it = with_volumes().await;
    *it.world.fail_after_effect.lock().unwrap() = true;
    let opened = Arc::new(Notify::new());
    *it.world.gate.lock().unwrap() = Some(("create_volume", opened.clone()));
    let creation = it.create_volume();
    let deletion = async {
        // The volume exists, and its creation waits.
        while it.vim.0.retained_volumes().is_empty() {
            tokio::task::yield_now().await;
        }
        let record = it.the_record().await;
        it.delete_volume(&record.id).await.unwrap();
        opened.notify_one();
    };
    let (created, ()) = tokio::join!(creation, deletion);
    assert_eq!(created.unwrap_err().why, Why::NotFound);
    it.assert_no_volumes("deleted").await;
}
