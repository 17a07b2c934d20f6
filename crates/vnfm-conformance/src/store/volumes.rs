//! Rules about retained volumes.

use super::records::{TENANT, at, not_found, op, retire, seed, vim, vim_of, write};
use std::sync::Arc;
use vnfm_core::ports::{Change, Store, StoreError, VolumeRecord};
use vnfm_core::query::{Filter, Query, VisibilityScope};
use vnfm_types::shape::RETAINED_VOLUMES;
use vnfm_types::{RetainedVolume, VolumeState};

type Shared = Arc<dyn Store>;

const KIND: &str = "retained volume";

/// A volume of an instance that it has just retained.
fn volume(id: &str, vim_id: &str, used_by: Option<&str>) -> VolumeRecord {
    VolumeRecord {
        tenant: TENANT.into(),
        volume: RetainedVolume {
            id: id.into(),
            vim_id: vim_id.into(),
            resource_id: Some(format!("volume-{id}")),
            size_gib: Some(2),
            virtual_storage_desc_id: "data".into(),
            vnfd_id: Some("vnfd".into()),
            vnf_instance_id: Some("a".into()),
            created_at: at(),
            used_by: used_by.map(Into::into),
            ..RetainedVolume::default()
        },
    }
}

fn add(record: VolumeRecord) -> Change {
    Change::AddVolume(Box::new(record))
}

fn uses(instance_id: &str, volumes: &[&str]) -> Change {
    Change::SetVolumeUses {
        tenant: TENANT.into(),
        instance_id: instance_id.into(),
        volumes: volumes.iter().map(|&id| id.into()).collect(),
    }
}

fn deleting(id: &str) -> Change {
    Change::SetVolumeState {
        tenant: TENANT.into(),
        id: id.into(),
        state: VolumeState::Deleting,
    }
}

fn remove(id: &str, used_by: Option<&str>) -> Change {
    Change::RemoveVolume {
        tenant: TENANT.into(),
        id: id.into(),
        used_by: used_by.map(Into::into),
    }
}

async fn user(store: &Shared, id: &str) -> Option<String> {
    store.volume(TENANT, id).await.unwrap().volume.used_by
}

fn in_use(what: &'static str, id: &str, by: &str) -> StoreError {
    StoreError::InUse {
        what,
        id: id.into(),
        by: vec![by.into()],
    }
}

pub(super) async fn a_volume_is_read_as_it_was_written(store: Shared) {
    for record in [volume("r1", "v1", None), volume("r2", "v2", Some("a"))] {
        write(&*store, vec![add(record.clone())]).await;
        let id = &record.volume.id;
        assert_eq!(store.volume(TENANT, id).await, Ok(record.clone()));
        let again = volume(id, "elsewhere", None);
        write(&*store, vec![add(again)]).await;
        assert_eq!(store.volume(TENANT, id).await, Ok(record));
    }
    let other = store.volume("other", "r1").await;
    assert_eq!(other, Err(not_found(KIND, "r1")));
    assert_eq!(store.volumes("other", &Query::default()).await, Ok(vec![]));
    for filter in [
        "(eq,vimId,v2);(eq,usedBy,a)",
        "(eq,state,AVAILABLE);(cont,resourceId,r2)",
    ] {
        let query = Query {
            filter: Filter::parse(&RETAINED_VOLUMES, filter).unwrap(),
            ..Query::default()
        };
        let found = store.volumes(TENANT, &query).await;
        assert_eq!(found, Ok(vec![volume("r2", "v2", Some("a"))]), "{filter}");
    }
    let limited = Query {
        scope: VisibilityScope {
            vims: vec!["v1".into()],
            ..VisibilityScope::default()
        },
        ..Query::default()
    };
    assert_eq!(store.volumes(TENANT, &limited).await, Ok(vec![]));
    assert_eq!(store.usage(TENANT).await.unwrap().volumes, 2);
    assert_eq!(store.tenants().await, Ok(vec![TENANT.to_owned()]));
}

pub(super) async fn a_volume_has_one_user_and_is_then_not_deleted(store: Shared) {
    seed(&*store, &["a", "b"]).await;
    let both = vec![
        add(volume("r1", "v1", Some("a"))),
        add(volume("r2", "v1", None)),
    ];
    write(&*store, both).await;
    let by_a = || Err(in_use(KIND, "r1", "name of a (a)"));
    for change in [
        uses("b", &["r2", "r1"]),
        deleting("r1"),
        remove("r1", None),
        remove("r1", Some("b")),
    ] {
        assert_eq!(store.write(None, vec![change]).await, by_a());
    }
    assert_eq!(user(&store, "r2").await, None, "all or none");
    let free = Change::RemoveUses {
        instance_id: "a".into(),
    };
    write(&*store, vec![free]).await;
    write(&*store, vec![uses("b", &["r1", "r2"])]).await;
    write(&*store, vec![uses("b", &["r1"])]).await;
    assert_eq!(user(&store, "r1").await, Some("b".into()));
    assert_eq!(user(&store, "r2").await, None);
    write(&*store, vec![deleting("r2")]).await;
    let refused = store.write(None, vec![uses("a", &["r2"])]).await;
    let found = StoreError::WrongState {
        what: KIND,
        id: "r2".into(),
        found: "DELETING".into(),
    };
    assert_eq!(refused, Err(found));
    write(&*store, vec![remove("r1", Some("b")), remove("r2", None)]).await;
    write(&*store, vec![remove("r2", None)]).await;
    for change in [uses("a", &["r1"]), deleting("r1")] {
        let absent = store.write(None, vec![change]).await;
        assert_eq!(absent, Err(not_found(KIND, "r1")));
    }
}

pub(super) async fn of_concurrent_use_and_deletion_of_a_volume_one_is_accepted(store: Shared) {
    seed(&*store, &["a"]).await;
    for round in 0..100 {
        let id = format!("r{round}");
        write(&*store, vec![add(volume(&id, "v1", None))]).await;
        let (one, two) = (store.clone(), store.clone());
        let (use_, deletion) = (uses("a", &[&id]), deleting(&id));
        let use_ = async move { one.write(None, vec![use_]).await };
        let deletion = async move { two.write(None, vec![deletion]).await };
        let (use_, deletion) = (tokio::spawn(use_), tokio::spawn(deletion));
        let both = (use_.await.unwrap(), deletion.await.unwrap());
        match &both {
            (Ok(()), Err(StoreError::InUse { .. }))
            | (Err(StoreError::WrongState { .. }), Ok(())) => {}
            both => panic!("round {round}: {both:?}"),
        }
    }
}

pub(super) async fn a_creation_ends_once_unless_a_deletion_came_first(store: Shared) {
    seed(&*store, &["a"]).await;
    let created = |id: &str| volume(id, "v1", None);
    let begun = |id: &str| VolumeRecord {
        volume: RetainedVolume {
            state: VolumeState::Creating,
            resource_id: None,
            ..created(id).volume
        },
        ..created(id)
    };
    let finish = |id: &str| Change::FinishVolume(Box::new(created(id)));
    let wrong = |id: &str, found: &str| {
        Err(StoreError::WrongState {
            what: KIND,
            id: id.into(),
            found: found.into(),
        })
    };
    let absent = store.write(None, vec![finish("r1")]).await;
    assert_eq!(absent, Err(not_found(KIND, "r1")));
    write(&*store, vec![add(begun("r1")), add(begun("r2"))]).await;
    assert_eq!(store.volume(TENANT, "r1").await, Ok(begun("r1")));
    assert_eq!(store.usage(TENANT).await.unwrap().volumes, 2);
    let early = store.write(None, vec![uses("a", &["r1"])]).await;
    assert_eq!(early, wrong("r1", "CREATING"));
    write(&*store, vec![finish("r1")]).await;
    assert_eq!(store.volume(TENANT, "r1").await, Ok(created("r1")));
    let again = store.write(None, vec![finish("r1")]).await;
    assert_eq!(again, wrong("r1", "AVAILABLE"));
    write(&*store, vec![uses("a", &["r1"]), deleting("r2")]).await;
    let late = store.write(None, vec![finish("r2")]).await;
    assert_eq!(late, wrong("r2", "DELETING"));
}

pub(super) async fn a_vim_with_volumes_is_kept(store: Shared) {
    seed(&*store, &["i1"]).await;
    let changes = vec![
        Change::AddVim(vim("v1", "one")),
        Change::AddVim(vim_of("i1", "v2", None)),
        Change::AddOp(op("o1", "i1")),
        add(volume("r1", "v1", None)),
        add(volume("r2", "v2", None)),
    ];
    write(&*store, changes).await;
    let drop = Change::RemoveVim {
        tenant: TENANT.into(),
        id: "v1".into(),
        force: false,
    };
    let kept = store.write(None, vec![drop]).await;
    assert_eq!(kept, Err(in_use("VIM", "v1", "retained volume (r1)")));
    // A cluster that an instance registered is not deleted with it.
    let kept = store.write(None, vec![retire("i1", "o1")]).await;
    assert_eq!(
        kept,
        Err(in_use("VNF instance", "i1", "retained volume (r2)"))
    );
}
