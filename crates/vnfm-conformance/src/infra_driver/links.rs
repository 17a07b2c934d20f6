//! Rules about shared virtual links. They hold trivially for a driver that cannot create them.

use super::interrupted::interruption_points;
use super::test_bed::TestBed;
use super::test_instance::{TestInstance, resources_on_vim};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use vnfm_core::ports::{Links, OwnedResource, PortError};
use vnfm_types::SharedLink;

type Shared = Arc<dyn TestBed>;

/// A link to be created on a VIM that can have some.
struct Creatable<'s> {
    links: &'s dyn Links,
    instance: TestInstance,
    link: SharedLink,
    before: BTreeSet<String>,
}

impl<'s> Creatable<'s> {
    async fn new(stand: &'s Shared) -> Option<Self> {
        let (links, spec) = (stand.driver().links()?, stand.link()?);
        links.validate_link(&spec).unwrap();
        let before = resources_on_vim(stand).await;
        let id = uuid::Uuid::new_v4().to_string();
        Some(Self {
            links,
            instance: TestInstance::new(stand),
            link: SharedLink {
                id,
                spec,
                ..SharedLink::default()
            },
            before,
        })
    }

    async fn create(&self) -> Result<String, PortError> {
        let clock = self.instance.stand.clock();
        let deadline = self.instance.call(&*clock);
        let cx = self.instance.cx(&*clock, &deadline);
        self.links.create_link(&cx, &self.link).await
    }

    async fn delete(&self) -> Result<(), PortError> {
        let clock = self.instance.stand.clock();
        let deadline = self.instance.call(&*clock);
        let cx = self.instance.cx(&*clock, &deadline);
        self.links.delete_link(&cx, &self.link).await
    }

    /// What exists on the VIM beyond what was there before.
    async fn added(&self) -> BTreeSet<String> {
        &resources_on_vim(&self.instance.stand).await - &self.before
    }

    /// What the driver lists as this link.
    async fn owned(&self) -> Vec<OwnedResource> {
        let installation = &self.instance.ownership.installation_id;
        let driver = self.instance.stand.driver();
        let mut owned = driver
            .owned(&self.instance.vim, installation)
            .await
            .unwrap();
        owned.retain(|one| one.link_id.as_ref() == Some(&self.link.id));
        owned
    }
}

pub(super) async fn a_link_is_created_once_and_deleted(stand: Shared) {
    let Some(it) = Creatable::new(&stand).await else {
        return;
    };
    let id = it.create().await.unwrap();
    let added = it.added().await;
    assert!(!added.is_empty(), "a network exists");
    assert_eq!(it.create().await.unwrap(), id);
    assert_eq!(it.added().await, added, "the second call creates nothing");
    let owned = it.owned().await;
    assert_eq!(owned.len(), 1, "{owned:?}");
    assert_eq!(
        (&owned[0].instance_id, &owned[0].snapshot_id),
        (&None, &None)
    );
    assert!(owned[0].name.ends_with(&it.link.spec.name), "{owned:?}");
    let other = Creatable::new(&stand).await.unwrap();
    other.delete().await.unwrap();
    assert_eq!(
        it.added().await,
        added,
        "another link of that name keeps its network"
    );
    it.delete().await.unwrap();
    assert_eq!(
        (it.added().await, it.owned().await),
        (BTreeSet::new(), Vec::new())
    );
    it.delete().await.unwrap();
}

pub(super) async fn an_interrupted_link_is_completed_or_deleted(stand: Shared) {
    let Some(it) = Creatable::new(&stand).await else {
        return;
    };
    let begun = it.instance.vim.turns.load(SeqCst);
    it.create().await.unwrap();
    let creation = it.instance.vim.turns.load(SeqCst) - begun;
    let complete = it.added().await.len();
    it.delete().await.unwrap();
    let deletion = it.instance.vim.turns.load(SeqCst) - begun - creation;
    for number in interruption_points(&stand, creation) {
        it.instance.interrupt_at(number, it.create()).await;
        it.delete().await.unwrap();
        assert_eq!(
            it.added().await,
            BTreeSet::new(),
            "cut off at call {number}"
        );
        it.instance.interrupt_at(number, it.create()).await;
        it.create().await.unwrap();
        assert_eq!(it.added().await.len(), complete, "cut off at call {number}");
        it.delete().await.unwrap();
        assert_eq!(
            it.added().await,
            BTreeSet::new(),
            "cut off at call {number}"
        );
    }
    for number in interruption_points(&stand, deletion) {
        it.create().await.unwrap();
        it.instance.interrupt_at(number, it.delete()).await;
        it.delete().await.unwrap();
        assert_eq!(
            it.added().await,
            BTreeSet::new(),
            "cut off at deletion call {number}"
        );
    }
}
