//! What a driver creates apart from instances, such as a shared virtual link: it exists once, and an interrupted creation is
//! completed or deleted.

use super::interrupted::interruption_points;
use super::test_bed::TestBed;
use super::test_instance::{TestInstance, resources_on_vim};
use async_trait::async_trait;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use vnfm_core::ports::{OwnedResource, PortError, VimCall};

/// One that can be created, and how.
#[async_trait]
pub(super) trait Apart: Send + Sync {
    /// Creates it, or continues; its id on the VIM.
    async fn create(&self, cx: &VimCall<'_>) -> Result<String, PortError>;

    async fn delete(&self, cx: &VimCall<'_>) -> Result<(), PortError>;

    /// Whether the driver lists a resource as it.
    fn is(&self, owned: &OwnedResource) -> bool;
}

/// It, on a VIM of which is known what was there before.
pub(super) struct Creatable<A> {
    pub(super) what: A,
    instance: TestInstance,
    before: BTreeSet<String>,
}

impl<A: Apart> Creatable<A> {
    pub(super) async fn new(stand: &Arc<dyn TestBed>, what: A) -> Self {
        Self {
            what,
            instance: TestInstance::new(stand),
            before: resources_on_vim(stand).await,
        }
    }

    pub(super) async fn create(&self) -> Result<String, PortError> {
        let clock = self.instance.stand.clock();
        let deadline = self.instance.call(&*clock);
        self.what
            .create(&self.instance.cx(&*clock, &deadline))
            .await
    }

    pub(super) async fn delete(&self) -> Result<(), PortError> {
        let clock = self.instance.stand.clock();
        let deadline = self.instance.call(&*clock);
        self.what
            .delete(&self.instance.cx(&*clock, &deadline))
            .await
    }

    /// What exists on the VIM beyond what was there before.
    pub(super) async fn added(&self) -> BTreeSet<String> {
        &resources_on_vim(&self.instance.stand).await - &self.before
    }

    /// What the driver lists as it.
    async fn owned(&self) -> Vec<OwnedResource> {
        let installation = &self.instance.ownership.installation_id;
        let driver = self.instance.stand.driver();
        let mut owned = driver
            .owned(&self.instance.vim, installation)
            .await
            .unwrap();
        owned.retain(|one| self.what.is(one));
        owned
    }

    /// It exists once however often it is created, and then not; `other` has the same name, and is nothing to it.
    pub(super) async fn is_created_once_and_deleted(&self, other: &Self) -> OwnedResource {
        let id = self.create().await.unwrap();
        let added = self.added().await;
        assert!(!added.is_empty(), "it exists");
        assert_eq!(self.create().await.unwrap(), id);
        assert_eq!(self.added().await, added, "the second call creates nothing");
        let [owned] = <[_; 1]>::try_from(self.owned().await).unwrap();
        assert_eq!((&owned.instance_id, &owned.snapshot_id), (&None, &None));
        other.delete().await.unwrap();
        assert_eq!(self.added().await, added, "it stays without the other");
        self.delete().await.unwrap();
        assert_eq!(
            (self.added().await, self.owned().await),
            (BTreeSet::new(), Vec::new())
        );
        self.delete().await.unwrap();
        owned
    }

    /// A creation or deletion that was interrupted at any call is completed by the next call, or deleted.
    pub(super) async fn is_completed_or_deleted(&self) {
        let turns = &self.instance.vim.turns;
        let begun = turns.load(SeqCst);
        self.create().await.unwrap();
        let creation = turns.load(SeqCst) - begun;
        let complete = self.added().await.len();
        self.delete().await.unwrap();
        let deletion = turns.load(SeqCst) - begun - creation;
        let stand = &self.instance.stand;
        for number in interruption_points(stand, creation) {
            let at = format!("cut off at call {number}");
            self.instance.interrupt_at(number, self.create()).await;
            self.delete().await.unwrap();
            assert_eq!(self.added().await, BTreeSet::new(), "{at}");
            self.instance.interrupt_at(number, self.create()).await;
            self.create().await.unwrap();
            assert_eq!(self.added().await.len(), complete, "{at}");
            self.delete().await.unwrap();
            assert_eq!(self.added().await, BTreeSet::new(), "{at}");
        }
        for number in interruption_points(stand, deletion) {
            self.create().await.unwrap();
            self.instance.interrupt_at(number, self.delete()).await;
            self.delete().await.unwrap();
            let at = format!("cut off at deletion call {number}");
            assert_eq!(self.added().await, BTreeSet::new(), "{at}");
        }
    }
}
