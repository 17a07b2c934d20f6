//! Rules about the VIM registry, and which instance lives on which VIM.

use super::records::{TENANT, lives, retire, seed, vim, vim_of, write};
use serde_json::json;
use std::sync::Arc;
use vnfm_core::ports::{Change, SecretJson, Store, StoreError, VimUse};

type Shared = Arc<dyn Store>;

async fn with_cluster(store: &dyn Store, identity: Option<&str>) {
    seed(store, &["a", "b", "c"]).await;
    store
        .write(None, vec![Change::AddVim(vim_of("a", "cluster", identity))])
        .await
        .unwrap();
}

fn in_use(by: &[&str]) -> StoreError {
    let by = by.iter().map(ToString::to_string).collect();
    StoreError::InUse {
        what: "VNF instance",
        id: "a".into(),
        by,
    }
}

pub(super) async fn a_cluster_in_use_is_not_retired(store: Shared) {
    with_cluster(&*store, None).await;
    let changes = vec![
        lives("a", Some("cluster"), None),
        lives("b", Some("cluster"), None),
        lives("c", Some("cluster"), None),
    ];
    store.write(None, changes).await.unwrap();
    let retired = store.write(None, vec![retire("a", "o1")]).await;
    assert_eq!(retired, Err(in_use(&["name of b (b)", "name of c (c)"])));
    // Those that the operation terminates too do not count.
    let retire_besides = |besides: &[&str]| {
        vec![Change::MarkVimsLeaving {
            tenant: TENANT.into(),
            instance_id: "a".into(),
            op_id: "o1".into(),
            besides: besides.iter().map(|id| (*id).to_owned()).collect(),
        }]
    };
    let retired = store.write(None, retire_besides(&["b", "other"])).await;
    assert_eq!(retired, Err(in_use(&["name of c (c)"])));
    store
        .write(None, retire_besides(&["c", "b"]))
        .await
        .unwrap();
    let unmark = Change::UnmarkVimsLeaving { op_id: "o1".into() };
    store.write(None, vec![unmark]).await.unwrap();
    for instance_id in ["b", "c"] {
        let remove = Change::RemoveUses {
            instance_id: instance_id.into(),
        };
        store.write(None, vec![remove]).await.unwrap();
    }
    store.write(None, vec![retire("a", "o1")]).await.unwrap();
}

pub(super) async fn a_retired_cluster_gets_no_instances(store: Shared) {
    with_cluster(&*store, Some("uid")).await;
    store
        .write(None, vec![retire("a", "o1"), retire("a", "o1")])
        .await
        .unwrap();
    let used = store
        .write(None, vec![lives("b", Some("cluster"), None)])
        .await;
    let error = StoreError::VimLeaving {
        vim: "cluster".into(),
        op_id: "o1".into(),
    };
    assert_eq!(used, Err(error));
    let inline = store.write(None, vec![lives("b", None, Some("uid"))]).await;
    assert!(matches!(inline, Err(StoreError::VimLeaving { op_id, .. }) if op_id == "o1"));
    store
        .write(None, vec![lives("b", None, Some("another"))])
        .await
        .unwrap();
    store
        .write(None, vec![lives("c", None, None)])
        .await
        .unwrap();
    assert_eq!(store.uses(TENANT, "cluster").await, Ok(vec![]));
    store
        .write(None, vec![Change::UnmarkVimsLeaving { op_id: "o1".into() }])
        .await
        .unwrap();
    store
        .write(None, vec![lives("b", Some("cluster"), None)])
        .await
        .unwrap();
    let unknown = store
        .write(None, vec![lives("b", Some("nowhere"), None)])
        .await;
    assert_eq!(
        unknown,
        Err(StoreError::NotFound {
            what: "VIM",
            id: "nowhere".into()
        })
    );
}

pub(super) async fn the_same_cluster_under_another_name_counts(store: Shared) {
    with_cluster(&*store, Some("uid")).await;
    let mut by_hand = vim("hand", "by hand");
    by_hand.vim.identity = Some("uid".into());
    let changes = vec![Change::AddVim(by_hand), lives("b", Some("hand"), None)];
    store.write(None, changes).await.unwrap();
    assert_eq!(
        store.write(None, vec![retire("a", "o1")]).await,
        Err(in_use(&["name of b (b)"]))
    );
    let remove = Change::RemoveUses {
        instance_id: "b".into(),
    };
    store
        .write(None, vec![remove, lives("b", None, Some("uid"))])
        .await
        .unwrap();
    assert_eq!(
        store.write(None, vec![retire("a", "o1")]).await,
        Err(in_use(&["name of b (b)"]))
    );
    let remove = Change::RemoveUses {
        instance_id: "b".into(),
    };
    store
        .write(None, vec![remove, retire("a", "o1")])
        .await
        .unwrap();
    let used = store
        .write(None, vec![lives("c", Some("hand"), None)])
        .await;
    assert!(matches!(used, Err(StoreError::VimLeaving { vim, .. }) if vim == "hand"));
}

pub(super) async fn a_user_of_another_tenant_counts_and_is_not_named(store: Shared) {
    with_cluster(&*store, Some("uid")).await;
    let theirs = Change::AddUse(VimUse {
        tenant: "other".into(),
        instance_id: "x".into(),
        vim_id: None,
        identity: Some("uid".into()),
        namespace: None,
    });
    store.write(None, vec![theirs]).await.unwrap();
    let retired = store.write(None, vec![retire("a", "o1")]).await;
    assert_eq!(retired, Err(in_use(&["an instance of another tenant"])));
    assert_eq!(store.uses(TENANT, "cluster").await, Ok(vec![]));
}

pub(super) async fn of_concurrent_use_and_retirement_one_is_accepted(store: Shared) {
    with_cluster(&*store, Some("uid")).await;
    let mut used = 0;
    for round in 0..100 {
        let op_id = format!("o{round}");
        let by_name = (round % 2 == 0).then_some("cluster");
        let lives_on = lives("b", by_name, (by_name.is_none()).then_some("uid"));
        let (one, two) = (store.clone(), store.clone());
        let retirement = retire("a", &op_id);
        let use_ = async move { one.write(None, vec![lives_on]).await };
        let retirement = async move { two.write(None, vec![retirement]).await };
        // The first one to start is more likely to win, so they alternate.
        let (use_, retirement) = if round % 4 < 2 {
            let (first, second) = (tokio::spawn(use_), tokio::spawn(retirement));
            (first.await.unwrap(), second.await.unwrap())
        } else {
            let (first, second) = (tokio::spawn(retirement), tokio::spawn(use_));
            (second.await.unwrap(), first.await.unwrap())
        };
        match (&use_, &retirement) {
            (Ok(()), Err(error)) => {
                assert_eq!(error, &in_use(&["name of b (b)"]));
                used += 1;
            }
            (Err(StoreError::VimLeaving { op_id: by, .. }), Ok(())) => assert_eq!(by, &op_id),
            both => panic!("round {round}: {both:?}"),
        }
        let undo = vec![
            Change::RemoveUses {
                instance_id: "b".into(),
            },
            Change::UnmarkVimsLeaving { op_id },
        ];
        store.write(None, undo).await.unwrap();
    }
    println!("the use won {used} of 100 rounds");
}

pub(super) async fn an_identity_that_is_learned_later_is_kept(store: Shared) {
    with_cluster(&*store, None).await;
    store
        .write(None, vec![lives("b", Some("cluster"), None)])
        .await
        .unwrap();
    store
        .write(None, vec![lives("b", Some("cluster"), Some("uid"))])
        .await
        .unwrap();
    let expected = VimUse {
        tenant: TENANT.into(),
        instance_id: "b".into(),
        vim_id: Some("cluster".into()),
        identity: Some("uid".into()),
        namespace: None,
    };
    assert_eq!(store.uses(TENANT, "cluster").await, Ok(vec![expected]));
    store
        .write(None, vec![lives("c", None, Some("uid"))])
        .await
        .unwrap();
    let mut known = store.vim(TENANT, "cluster").await.unwrap();
    known.vim.identity = Some("uid".into());
    store
        .write(None, vec![Change::PutVim(Box::new(known))])
        .await
        .unwrap();
    let users: Vec<_> = store.uses(TENANT, "cluster").await.unwrap();
    assert_eq!(
        users
            .iter()
            .map(|u| u.instance_id.as_str())
            .collect::<Vec<_>>(),
        ["b", "c"]
    );
}

pub(super) async fn ids_and_names_of_vims_are_unique(store: Shared) {
    let changes = vec![
        Change::AddVim(vim("v1", "one")),
        Change::AddVim(vim("v2", "two")),
    ];
    store.write(None, changes).await.unwrap();
    let exists = |id: &str| {
        Err(StoreError::Exists {
            what: "VIM",
            id: id.into(),
        })
    };
    assert_eq!(
        store
            .write(None, vec![Change::AddVim(vim("v1", "x"))])
            .await,
        exists("v1")
    );
    assert_eq!(
        store
            .write(None, vec![Change::AddVim(vim("v3", "one"))])
            .await,
        exists("one")
    );
    assert_eq!(
        store
            .write(None, vec![Change::PutVim(vim("v2", "one"))])
            .await,
        exists("one")
    );
    let mut theirs = vim("v1", "one");
    theirs.tenant = "other".into();
    store
        .write(None, vec![Change::AddVim(theirs)])
        .await
        .unwrap();
    for id_or_name in ["v2", "two"] {
        assert_eq!(
            store.vim(TENANT, id_or_name).await.unwrap(),
            *vim("v2", "two")
        );
    }
    let names: Vec<_> = store
        .vims(TENANT)
        .await
        .unwrap()
        .into_iter()
        .map(|v| v.vim.name)
        .collect();
    assert_eq!(names, ["one", "two"]);
}

pub(super) async fn a_vim_written_from_an_old_version_is_refused(store: Shared) {
    store
        .write(None, vec![Change::AddVim(vim("v1", "one"))])
        .await
        .unwrap();
    let mut new = store.vim(TENANT, "v1").await.unwrap();
    new.access_info = SecretJson::from(json!({"bearer_token": "new"}));
    store
        .write(None, vec![Change::PutVim(Box::new(new.clone()))])
        .await
        .unwrap();
    let again = store
        .write(None, vec![Change::PutVim(vim("v1", "one"))])
        .await;
    assert_eq!(
        again,
        Err(StoreError::Changed {
            what: "VIM",
            id: "v1".into()
        })
    );
    new.version += 1;
    assert_eq!(store.vim(TENANT, "v1").await.unwrap(), new);
    let absent = store
        .write(None, vec![Change::PutVim(vim("v9", "nine"))])
        .await;
    assert_eq!(
        absent,
        Err(StoreError::NotFound {
            what: "VIM",
            id: "v9".into()
        })
    );
}

pub(super) async fn a_vim_in_use_is_removed_only_by_force(store: Shared) {
    with_cluster(&*store, None).await;
    store
        .write(None, vec![lives("b", Some("cluster"), None)])
        .await
        .unwrap();
    let remove = |force| {
        vec![Change::RemoveVim {
            tenant: TENANT.into(),
            id: "cluster".into(),
            force,
        }]
    };
    let by = vec!["name of b (b)".into()];
    let error = StoreError::InUse {
        what: "VIM",
        id: "cluster".into(),
        by,
    };
    assert_eq!(store.write(None, remove(false)).await, Err(error));
    store.write(None, remove(true)).await.unwrap();
    assert!(store.vim(TENANT, "cluster").await.is_err());
    store.write(None, remove(false)).await.unwrap();
}

pub(super) async fn a_shared_vim_is_seen_by_all(store: Shared) {
    let mut shared = vim("v1", "one");
    shared.vim.shared = true;
    write(&*store, vec![Change::AddVim(shared.clone())]).await;
    assert_eq!(store.vim("other", "one").await, Ok(*shared.clone()));
    let theirs = VimUse {
        tenant: "other".into(),
        instance_id: "x".into(),
        vim_id: Some("v1".into()),
        identity: None,
        namespace: Some("web".into()),
    };
    write(&*store, vec![Change::AddUse(theirs.clone())]).await;
    assert_eq!(
        store.uses(TENANT, "v1").await,
        Ok(vec![theirs]),
        "its owner sees which instances use it"
    );
    let by = vec!["an instance of another tenant".to_owned()];
    let used = Err(StoreError::InUse {
        what: "VIM",
        id: "v1".into(),
        by,
    });
    let mut alone = shared.clone();
    alone.vim.shared = false;
    assert_eq!(
        store.write(None, vec![Change::PutVim(alone.clone())]).await,
        used
    );
    let remove = Change::RemoveVim {
        tenant: TENANT.into(),
        id: "v1".into(),
        force: false,
    };
    assert_eq!(store.write(None, vec![remove]).await, used);
    let mut own = vim("v9", "one");
    own.tenant = "other".into();
    store.write(None, vec![Change::AddVim(own)]).await.unwrap();
    assert_eq!(
        store.vim("other", "one").await.unwrap().vim.id,
        "v9",
        "the tenant's own VIM takes precedence"
    );
    let names: Vec<_> = store
        .vims("other")
        .await
        .unwrap()
        .into_iter()
        .map(|v| v.vim.id)
        .collect();
    assert_eq!(names, ["v1", "v9"]);
    let remove = Change::RemoveUses {
        instance_id: "x".into(),
    };
    write(&*store, vec![remove, Change::PutVim(alone)]).await;
    let absent = store.vim("other", "v1").await;
    assert!(matches!(absent, Err(StoreError::NotFound { .. })));
}
