//! An image, from its first blob to its tag.
//!
//! ```text
//! HEAD manifest by digest ── there ──> only the tags
//!   blobs, 4 at a time       HEAD ── there ──> skipped;  POST uploads ── PUT ?digest=, streamed
//!   manifests                PUT by digest, what is referenced first; its own by the tag of the use (uses.rs)
//!   tag                      PUT, unless it names another image already
//! ```
//! The registry verifies each digest, and must not state another one. An interrupted push leaves blobs without a manifest;
//! the next one skips them.

use crate::error::RegistryError;
use crate::registry::{Call, Payload, Registry, stored, succeeded};
use crate::uses::ImageUser;
use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use vnfm_outbound::{Body, Method, StatusCode};

/// Blobs of one image that are pushed at the same time.
const MAX_AT_ONCE: usize = 4;

/// An image to push.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Image {
    /// The repository's path in the registry.
    pub repository: String,
    /// The tag that the image gets, if any.
    pub tag: Option<String>,
    /// Digest of its manifest or index.
    pub digest: String,
    /// Everything that it consists of; manifests after what they reference.
    pub blobs: Vec<Blob>,
    /// Who uses it from the push on; `None`: it is never given up.
    pub user: Option<ImageUser>,
}

impl Image {
    /// The blob that its digest names.
    pub(crate) fn manifest(&self) -> Option<&Blob> {
        let mut manifests = self.blobs.iter().filter(|blob| blob.manifest);
        manifests.find(|blob| blob.digest == self.digest)
    }
}

/// A part of an image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Blob {
    /// `sha256:` and 64 hexadecimal digits.
    pub digest: String,
    /// Media type, as its reference states it.
    pub media_type: String,
    /// Size in bytes.
    pub size: u64,
    /// Where the content is.
    pub path: String,
    /// Whether it is a manifest or an index.
    pub manifest: bool,
}

/// Reads the blobs of an image, from a package for example.
pub trait Content: Send + Sync {
    /// A body that streams the blob from its beginning.
    fn body(&self, blob: &Blob) -> Body;
    /// `size` bytes of blobs are in the registry now.
    fn pushed(&self, size: u64);
}

/// What became of an image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pushed {
    /// Whether this call created its manifest; false if the registry had it.
    pub created: bool,
    /// The digest of another image that has the tag, and keeps it.
    pub tag_taken_by: Option<String>,
    /// The tag by which another user is removing the image: push it again once that is gone.
    pub removal: Option<String>,
}

impl Registry {
    /// Pushes what the registry lacks of an image, and tags it. A tag that names another image is left as it is.
    ///
    /// # Errors
    ///
    /// `Unavailable` if the registry fails, `Refused` if it does not accept login or content; the same call continues.
    pub async fn push(
        &self,
        image: &Image,
        content: &dyn Content,
    ) -> Result<Pushed, RegistryError> {
        let (repository, digest) = (&image.repository, &image.digest);
        let found = self.digest(repository, digest).await?;
        if let Some(other) = found.as_ref().filter(|found| *found != digest) {
            let action = format!("push `{repository}@{digest}` to the registry");
            let detail = format!("it states the digest `{other}` for that image");
            return Err(RegistryError::refused(&action, detail));
        }
        let created = found.is_none();
        if created {
            let blobs = image.blobs.iter().filter(|blob| !blob.manifest);
            let pushing: Vec<_> = blobs
                .map(|blob| self.push_blob(image, blob, content))
                .collect();
            let pushing = stream::iter(pushing).buffer_unordered(MAX_AT_ONCE);
            pushing.try_collect::<()>().await?;
            let manifests = image.blobs.iter().filter(|blob| blob.manifest);
            for blob in manifests.filter(|blob| blob.digest != *digest) {
                self.put_manifest(image, blob, &blob.digest, content)
                    .await?;
            }
        }
        let removal = self.put_image(image, created, content).await?;
        let tag_taken_by = self.tag(image, content).await?;
        Ok(Pushed {
            created,
            tag_taken_by,
            removal,
        })
    }

    /// Puts the image's own manifest, and with it the tag of its use; returns the tag of somebody else's removal. An image
    /// that was there without a use is somebody else's, and gets none.
    async fn put_image(
        &self,
        image: &Image,
        created: bool,
        content: &dyn Content,
    ) -> Result<Option<String>, RegistryError> {
        let (repository, digest) = (&image.repository, &image.digest);
        let Some(own) = image.manifest() else {
            return Ok(None);
        };
        let Some(user) = &image.user else {
            if created {
                self.put_manifest(image, own, digest, content).await?;
            }
            return Ok(None);
        };
        let mut uses = self.uses(repository, digest).await?;
        if !created && uses.is_empty() {
            return Ok(None);
        }
        let tag = user.use_tag(digest);
        if created || !uses.has(&tag) {
            self.put_manifest(image, own, &tag, content).await?;
            uses = self.uses(repository, digest).await?;
            if !uses.has(&tag) && self.digest(repository, &tag).await?.as_ref() != Some(digest) {
                let action = format!("push `{repository}@{digest}` to the registry");
                let detail = "it accepted the image, and does not have it";
                return Err(RegistryError::unavailable(&action, detail));
            }
        }
        let given_up = user.removal_tag(digest);
        if uses.has(&given_up) {
            self.untag(repository, &given_up).await?;
        }
        Ok(uses.removal(user).map(str::to_owned))
    }

    /// Tags the image; returns the digest of the one that has the tag.
    async fn tag(
        &self,
        image: &Image,
        content: &dyn Content,
    ) -> Result<Option<String>, RegistryError> {
        let (Some(tag), Some(own)) = (&image.tag, image.manifest()) else {
            return Ok(None);
        };
        match self.digest(&image.repository, tag).await? {
            None => self
                .put_manifest(image, own, tag, content)
                .await
                .map(|()| None),
            Some(digest) if digest == image.digest => Ok(None),
            other => Ok(other),
        }
    }

    async fn push_blob(
        &self,
        image: &Image,
        blob: &Blob,
        content: &dyn Content,
    ) -> Result<(), RegistryError> {
        let repository = &image.repository;
        let action = format!("push `{}` of `{repository}` to the registry", blob.digest);
        let path = format!("{repository}/blobs/{}", blob.digest);
        let head = self.call(&action, Method::HEAD, repository, &path)?;
        let response = self.send(&head).await?;
        if response.status() == StatusCode::NOT_FOUND {
            self.upload(&action, (repository, blob), content).await?;
        } else {
            succeeded(&action, response).await?;
        }
        content.pushed(blob.size);
        Ok(())
    }

    async fn upload(
        &self,
        action: &str,
        (repository, blob): (&str, &Blob),
        content: &dyn Content,
    ) -> Result<(), RegistryError> {
        let path = format!("{repository}/blobs/uploads/");
        let begin = self.call(action, Method::POST, repository, &path)?;
        let begun = succeeded(action, self.send(&begin).await?).await?;
        let mut url = self.location(action, begun.headers())?;
        url.query_pairs_mut().append_pair("digest", &blob.digest);
        let payload = Payload {
            media_type: "application/octet-stream",
            size: blob.size,
            body: &|| content.body(blob),
        };
        let put = Call {
            method: Method::PUT,
            url,
            payload: Some(payload),
            ..begin
        };
        stored(action, self.send(&put).await?, &blob.digest).await
    }

    pub(crate) async fn put_manifest(
        &self,
        image: &Image,
        blob: &Blob,
        reference: &str,
        content: &dyn Content,
    ) -> Result<(), RegistryError> {
        let repository = &image.repository;
        let action = format!("push the manifest of `{repository}` to the registry");
        let path = format!("{repository}/manifests/{reference}");
        let mut call = self.call(&action, Method::PUT, repository, &path)?;
        let body = || content.body(blob);
        call.payload = Some(Payload {
            media_type: &blob.media_type,
            size: blob.size,
            body: &body,
        });
        stored(&action, self.send(&call).await?, &blob.digest).await
    }
}
