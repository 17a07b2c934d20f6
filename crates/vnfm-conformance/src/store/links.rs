//! Rules about shared virtual links.

use super::records::{TENANT, exists, not_found, op, retire, seed, vim, vim_of, write};
use std::sync::Arc;
use vnfm_core::ports::{Change, LinkRecord, Store, StoreError};
use vnfm_core::query::{Filter, Query, VisibilityScope};
use vnfm_types::shape::SHARED_LINKS;
use vnfm_types::{LinkSpec, LinkState, LinkSubnet, SharedLink};

type Shared = Arc<dyn Store>;

const KIND: &str = "shared virtual link";

/// A link that is available on a VIM.
fn link(id: &str, vim_id: &str) -> LinkRecord {
    let subnet = LinkSubnet {
        cidr: "10.10.0.0/24".into(),
        ..LinkSubnet::default()
    };
    LinkRecord {
        tenant: TENANT.into(),
        version: 0,
        link: SharedLink {
            id: id.into(),
            state: LinkState::Available,
            resource_id: Some(format!("network-{id}")),
            created_at: super::records::at(),
            spec: LinkSpec {
                name: format!("name of {id}"),
                vim_id: vim_id.into(),
                subnets: vec![subnet],
                ..LinkSpec::default()
            },
            used_by: Vec::new(),
        },
    }
}

fn add(record: LinkRecord) -> Change {
    Change::AddLink(Box::new(record))
}

fn uses(instance_id: &str, links: &[&str]) -> Change {
    Change::SetLinkUses {
        tenant: TENANT.into(),
        instance_id: instance_id.into(),
        links: links.iter().map(|&id| id.into()).collect(),
    }
}

fn remove(id: &str) -> Change {
    Change::RemoveLink {
        tenant: TENANT.into(),
        id: id.into(),
    }
}

async fn read(store: &Shared, id: &str) -> LinkRecord {
    store.link(TENANT, id).await.unwrap()
}

/// The change by which the deletion of a link begins.
async fn deleting(store: &Shared, id: &str) -> Change {
    let mut record = read(store, id).await;
    record.link.state = LinkState::Deleting;
    Change::PutLink(Box::new(record))
}

fn in_use(what: &'static str, id: &str, by: &str) -> StoreError {
    StoreError::InUse {
        what,
        id: id.into(),
        by: vec![by.into()],
    }
}

pub(super) async fn a_link_is_read_as_it_was_written(store: Shared) {
    for record in [link("l1", "v1"), link("l2", "v2")] {
        write(&*store, vec![add(record.clone())]).await;
        let name = &record.link.spec.name;
        for key in [&record.link.id, name] {
            assert_eq!(read(&store, key).await, record);
        }
        for (id, own) in [("l1", name.as_str()), ("other", name)] {
            let mut same = link(id, "v1");
            own.clone_into(&mut same.link.spec.name);
            let taken = store.write(None, vec![add(same)]).await;
            assert_eq!(taken, Err(exists(KIND, name)));
        }
    }
    let other = store.link("other", "l1").await;
    assert_eq!(other, Err(not_found(KIND, "l1")));
    assert_eq!(store.links("other", &Query::default()).await, Ok(vec![]));
    let filter = "(eq,vimId,v2);(cont,subnets/cidr,10.10.);(eq,state,AVAILABLE)";
    let query = Query {
        filter: Filter::parse(&SHARED_LINKS, filter).unwrap(),
        ..Query::default()
    };
    assert_eq!(
        store.links(TENANT, &query).await,
        Ok(vec![link("l2", "v2")])
    );
    let limited = Query {
        scope: VisibilityScope {
            vims: vec!["v1".into()],
            ..VisibilityScope::default()
        },
        ..Query::default()
    };
    assert_eq!(store.links(TENANT, &limited).await, Ok(vec![]));
    assert_eq!(store.usage(TENANT).await.unwrap().links, 2);
    assert_eq!(store.tenants().await, Ok(vec![TENANT.to_owned()]));
}

pub(super) async fn a_link_written_from_an_old_version_is_refused(store: Shared) {
    write(&*store, vec![add(link("l1", "v1"))]).await;
    let first = read(&store, "l1").await;
    let put = || Change::PutLink(Box::new(first.clone()));
    write(&*store, vec![put()]).await;
    let changed = StoreError::Changed {
        what: KIND,
        id: "l1".into(),
    };
    assert_eq!(store.write(None, vec![put()]).await, Err(changed));
    write(&*store, vec![remove("l1")]).await;
    let absent = store.write(None, vec![put()]).await;
    assert_eq!(absent, Err(not_found(KIND, "l1")));
    write(&*store, vec![remove("l1")]).await;
}

pub(super) async fn a_link_in_use_is_not_deleted(store: Shared) {
    seed(&*store, &["a", "b"]).await;
    write(&*store, vec![add(link("l1", "v1")), add(link("l2", "v1"))]).await;
    write(&*store, vec![uses("a", &["l1", "l2"]), uses("b", &["l1"])]).await;
    assert_eq!(read(&store, "l1").await.link.used_by, ["a", "b"]);
    write(&*store, vec![uses("a", &["l1"])]).await;
    let listed = store.links(TENANT, &Query::default()).await.unwrap();
    let users: Vec<_> = listed.iter().map(|one| one.link.used_by.len()).collect();
    assert_eq!(
        users,
        [2, 0],
        "an instance uses just the links that it names"
    );
    let free = Change::RemoveUses {
        instance_id: "a".into(),
    };
    write(&*store, vec![free]).await;
    for change in [deleting(&store, "l1").await, remove("l1")] {
        let refused = store.write(None, vec![change]).await;
        assert_eq!(refused, Err(in_use(KIND, "l1", "name of b (b)")));
    }
    write(&*store, vec![uses("b", &[])]).await;
    write(&*store, vec![deleting(&store, "l1").await]).await;
    let refused = store.write(None, vec![uses("b", &["l2", "l1"])]).await;
    let found = StoreError::WrongState {
        what: KIND,
        id: "l1".into(),
        found: "DELETING".into(),
    };
    assert_eq!(refused, Err(found));
    assert_eq!(read(&store, "l2").await.link.used_by, Vec::<String>::new());
    let unknown = store.write(None, vec![uses("b", &["none"])]).await;
    assert_eq!(unknown, Err(not_found(KIND, "none")));
}

pub(super) async fn of_concurrent_use_and_deletion_one_is_accepted(store: Shared) {
    seed(&*store, &["a"]).await;
    for round in 0..100 {
        let id = format!("l{round}");
        write(&*store, vec![add(link(&id, "v1"))]).await;
        let (one, two) = (store.clone(), store.clone());
        let (use_, deletion) = (uses("a", &[&id]), deleting(&store, &id).await);
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

pub(super) async fn a_vim_with_links_is_kept(store: Shared) {
    seed(&*store, &["i1"]).await;
    let changes = vec![
        Change::AddVim(vim("v1", "one")),
        Change::AddVim(vim_of("i1", "v2", None)),
        Change::AddOp(op("o1", "i1")),
        add(link("l1", "v1")),
        add(link("l2", "v2")),
    ];
    write(&*store, changes).await;
    let drop = Change::RemoveVim {
        tenant: TENANT.into(),
        id: "v1".into(),
        force: false,
    };
    let kept = store.write(None, vec![drop]).await;
    assert_eq!(kept, Err(in_use("VIM", "v1", "shared virtual link (l1)")));
    // A cluster that an instance registered is not deleted with it.
    let kept = store.write(None, vec![retire("i1", "o1")]).await;
    assert_eq!(
        kept,
        Err(in_use("VNF instance", "i1", "shared virtual link (l2)"))
    );
}
