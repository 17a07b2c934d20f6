//! Rules about shared virtual links. They hold trivially for a driver that cannot create them.

use super::apart::{Apart, Creatable};
use super::test_bed::TestBed;
use async_trait::async_trait;
use std::sync::Arc;
use vnfm_core::ports::{Links, OwnedResource, PortError, VimCall};
use vnfm_types::SharedLink;

type Shared = Arc<dyn TestBed>;

struct Link<'s> {
    links: &'s dyn Links,
    link: SharedLink,
}

impl<'s> Link<'s> {
    /// A link to be created on a VIM that can have some.
    async fn on(stand: &'s Shared) -> Option<Creatable<Self>> {
        let (links, spec) = (stand.driver().links()?, stand.link()?);
        links.validate_link(&spec).unwrap();
        let link = SharedLink {
            id: uuid::Uuid::new_v4().to_string(),
            spec,
            ..SharedLink::default()
        };
        Some(Creatable::new(stand, Self { links, link }).await)
    }
}

#[async_trait]
impl Apart for Link<'_> {
    async fn create(&self, cx: &VimCall<'_>) -> Result<String, PortError> {
        self.links.create_link(cx, &self.link).await
    }

    async fn delete(&self, cx: &VimCall<'_>) -> Result<(), PortError> {
        self.links.delete_link(cx, &self.link).await
    }

    fn is(&self, owned: &OwnedResource) -> bool {
        owned.link_id.as_ref() == Some(&self.link.id)
    }
}

pub(super) async fn a_link_is_created_once_and_deleted(stand: Shared) {
    let (Some(it), Some(other)) = (Link::on(&stand).await, Link::on(&stand).await) else {
        return;
    };
    let owned = it.is_created_once_and_deleted(&other).await;
    assert!(owned.name.ends_with(&it.what.link.spec.name), "{owned:?}");
}

pub(super) async fn an_interrupted_link_is_completed_or_deleted(stand: Shared) {
    if let Some(it) = Link::on(&stand).await {
        it.is_completed_or_deleted().await;
    }
}
