//! Who uses an image: each user has a tag on it, in the registry itself, so that the last one deletes the image.
//!
//! ```text
//! vnfm.INSTALLATION.INSTANCE.DIGEST            the instance uses the image; the first such tag is the push itself
//! vnfm-removing.INSTALLATION.INSTANCE.DIGEST   the instance gives it up, and decides whether anybody else uses it
//!
//! push    ── tag of the use ── a tag of a removal? ── then wait for its end, and push again
//! give up ── tag of the removal ── removes its use ── other uses? ── none: delete the image, with the tag of the removal
//!                                                                 └─ else: remove the tag of the removal
//! ```
//! DIGEST is the first 32 hexadecimal digits. Of a push and a removal at the same time, one sees the tag of the other; of
//! two removals, the later one sees no use. An image that was in the registry without such a tag is somebody else's: it gets
//! none, and is never deleted. What was interrupted is completed by the same call.

use crate::error::{ErrorKind, RegistryError};
use crate::push::{Content, Image};
use crate::registry::{CATALOG, Call, Deleted, Payload, Registry, read_json, succeeded};
use serde::Deserialize;
use vnfm_outbound::{Body, Method, StatusCode, header};

const USE: &str = "vnfm";
const REMOVAL: &str = "vnfm-removing";
/// Hexadecimal digits of a digest in a tag, which has at most 128 characters.
const DIGITS: usize = 32;
/// Entries of a page of a list.
const PAGE: usize = 1000;
/// Pages of a list that are read.
const MAX_PAGES: usize = 100;
/// Characters of an invalid entry that an error quotes.
const MAX_SHOWN: usize = 60;
const INDEX: &str = "application/vnd.oci.image.index.v1+json";
/// A user of images: an instance of an installation. Neither id contains a dot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImageUser {
    /// Id of the installation.
    pub installation: String,
    /// Id of the instance.
    pub instance: String,
}

/// A use of an image, or its removal, as a tag states it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImageUse {
    /// Whose it is.
    pub user: ImageUser,
    /// The first 32 hexadecimal digits of the image's digest.
    pub digest: String,
    /// The tag itself.
    pub tag: String,
}

/// What became of an image that a user gave up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GivenUp {
    /// It did not use it, or the registry does not have it.
    NotUsed,
    /// Others use it.
    InUse,
    /// It was the last user: the image is deleted.
    Deleted,
    /// The registry allows no deletion; the image and the tag of the use stay.
    NotAllowed,
}

/// Whether a text has the characters of a tag or of a repository's path (OCI distribution specification 1.1, "Pulling
/// manifests").
fn is_name(text: &str) -> bool {
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || "._-/".contains(c);
    !text.is_empty() && text.chars().all(is_allowed)
}

/// Pages of tags or repositories.
#[derive(Deserialize)]
struct Page {
    tags: Option<Vec<String>>,
    repositories: Option<Vec<String>>,
}

impl ImageUser {
    pub(crate) fn use_tag(&self, digest: &str) -> String {
        self.tag(USE, digest)
    }

    pub(crate) fn removal_tag(&self, digest: &str) -> String {
        self.tag(REMOVAL, digest)
    }

    fn tag(&self, kind: &str, digest: &str) -> String {
        let (installation, instance) = (&self.installation, &self.instance);
        format!("{kind}.{installation}.{instance}.{}", digits(digest))
    }
}

/// What a tag names before it is deleted, where a registry deletes only manifests: for each tag another empty index, so that
/// deletions at the same time do not meet.
fn empty_index(tag: &str) -> String {
    format!(
        r#"{{"schemaVersion":2,"mediaType":"{INDEX}","manifests":[],"annotations":{{"dev.vnfm.tag":"{tag}"}}}}"#
    )
}

/// The first digits of a digest.
fn digits(digest: &str) -> &str {
    let hash = digest.split_once(':').map_or(digest, |(_, hash)| hash);
    hash.get(..DIGITS).unwrap_or(hash)
}

impl ImageUse {
    /// Parses the tag of a use or a removal; `None` for any other tag.
    fn parse(tag: &str) -> Option<Self> {
        let parts: Vec<&str> = tag.split('.').collect();
        let [USE | REMOVAL, installation, instance, digest] = parts[..] else {
            return None;
        };
        Some(Self {
            user: ImageUser {
                installation: installation.to_owned(),
                instance: instance.to_owned(),
            },
            digest: digest.to_owned(),
            tag: tag.to_owned(),
        })
    }

    fn is_removal(&self) -> bool {
        self.tag.starts_with(REMOVAL)
    }
}

/// The uses of one image, and its removals.
#[derive(Debug, Default)]
pub(crate) struct Uses(Vec<ImageUse>);

impl Uses {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn has(&self, tag: &str) -> bool {
        self.0.iter().any(|one| one.tag == tag)
    }

    /// The tag of somebody else's removal.
    pub(crate) fn removal(&self, but: &ImageUser) -> Option<&str> {
        let mut removals = self.0.iter().filter(|one| one.is_removal());
        let removal = removals.find(|one| one.user != *but);
        removal.map(|one| one.tag.as_str())
    }

    fn has_other_users(&self, but: &ImageUser) -> bool {
        let mut uses = self.0.iter().filter(|one| !one.is_removal());
        uses.any(|one| one.user != *but)
    }
}

impl Registry {
    /// Removes the use of an image, and the image with its last use.
    ///
    /// # Errors
    ///
    /// `Unavailable` or `Refused`; the same call continues.
    pub async fn give_up(
        &self,
        image: &Image,
        user: &ImageUser,
        content: &dyn Content,
    ) -> Result<GivenUp, RegistryError> {
        let (repository, digest) = (image.repository.as_str(), image.digest.as_str());
        let (own, removal) = (user.use_tag(digest), user.removal_tag(digest));
        let uses = self.uses(repository, digest).await?;
        if !uses.has(&own) && !uses.has(&removal) {
            return Ok(GivenUp::NotUsed);
        }
        let nothing = format!("sha256:{:064}", 0);
        if self.delete(repository, &nothing).await? == Deleted::NotAllowed {
            return Ok(GivenUp::NotAllowed);
        }
        if let Some(manifest) = image.manifest().filter(|_| !uses.has(&removal)) {
            self.put_manifest(image, manifest, &removal, content)
                .await?;
        }
        self.untag(repository, &own).await?;
        if self.uses(repository, digest).await?.has_other_users(user) {
            self.untag(repository, &removal).await?;
            return Ok(GivenUp::InUse);
        }
        self.delete_now(repository, digest).await?;
        let tags = self.tags(repository).await?;
        if tags.contains(&removal) {
            // An interrupted deletion may have left a tag of nothing.
            self.untag(repository, &removal).await?;
        } else if tags.is_empty() {
            let parts = image.blobs.iter().rev().filter(|blob| blob.manifest);
            for part in parts.filter(|part| part.digest != digest) {
                self.delete_now(repository, &part.digest).await?;
            }
        }
        Ok(GivenUp::Deleted)
    }

    /// The uses of images below a path, and unfinished removals: repository and use.
    ///
    /// # Errors
    ///
    /// `Unavailable`, or `Refused` if the login may not list the registry's repositories.
    pub async fn all_uses(
        &self,
        prefix: Option<&str>,
    ) -> Result<Vec<(String, ImageUse)>, RegistryError> {
        let mut found = Vec::new();
        let list = |page: Page| page.repositories;
        let prefix = prefix
            .map(|prefix| format!("{prefix}/"))
            .unwrap_or_default();
        for repository in self.list(CATALOG, CATALOG, list).await? {
            if !repository.starts_with(&prefix) {
                continue;
            }
            let tags = self.tags(&repository).await?;
            let uses = tags.iter().filter_map(|tag| ImageUse::parse(tag));
            found.extend(uses.map(|one| (repository.clone(), one)));
        }
        found.sort_by(|(a, a_use), (b, b_use)| (a, &a_use.tag).cmp(&(b, &b_use.tag)));
        Ok(found)
    }

    /// The uses of an image, and its removals.
    pub(crate) async fn uses(&self, repository: &str, digest: &str) -> Result<Uses, RegistryError> {
        let tags = self.tags(repository).await?;
        let uses = tags.iter().filter_map(|tag| ImageUse::parse(tag));
        Ok(Uses(
            uses.filter(|one| one.digest == digits(digest)).collect(),
        ))
    }

    async fn tags(&self, repository: &str) -> Result<Vec<String>, RegistryError> {
        let list = |page: Page| page.tags;
        self.list(repository, &format!("{repository}/tags/list"), list)
            .await
    }

    /// A list, page by page; one that does not exist is empty.
    async fn list(
        &self,
        repository: &str,
        path: &str,
        entries: impl Fn(Page) -> Option<Vec<String>>,
    ) -> Result<Vec<String>, RegistryError> {
        let action = format!("list `{path}` of the registry");
        let mut all: Vec<String> = Vec::new();
        for _ in 0..MAX_PAGES {
            let last = all.last().map(|last| format!("&last={last}"));
            let path = format!("{path}?n={PAGE}{}", last.unwrap_or_default());
            let call = self.call(&action, Method::GET, repository, &path)?;
            let response = self.send(&call).await?;
            if response.status() == StatusCode::NOT_FOUND {
                return Ok(all);
            }
            let response = succeeded(&action, response).await?;
            let has_more = response.headers().contains_key(header::LINK);
            let page = entries(read_json(&action, response).await?).unwrap_or_default();
            if let Some(entry) = page.iter().find(|entry| !is_name(entry)) {
                let entry: String = entry.escape_debug().take(MAX_SHOWN).collect();
                let detail = format!("`{entry}` is neither a tag nor a repository");
                return Err(RegistryError::refused(&action, detail));
            }
            let is_last = !has_more || page.is_empty();
            all.extend(page);
            if is_last {
                return Ok(all);
            }
        }
        let detail = format!("it has more than {} entries", MAX_PAGES * PAGE);
        Err(RegistryError::refused(&action, detail))
    }

    /// Deletes a manifest where deletion is allowed. Docker's registry answers 400 if tags change meanwhile.
    async fn delete_now(&self, repository: &str, digest: &str) -> Result<(), RegistryError> {
        let deleted = self.delete(repository, digest).await;
        deleted.map(drop).map_err(|error| match error.status {
            400 => RegistryError {
                kind: ErrorKind::Unavailable,
                ..error
            },
            _ => error,
        })
    }

    /// Deletes a tag. Many registries only delete manifests, with all their tags: there it names an empty one first.
    pub(crate) async fn untag(&self, repository: &str, tag: &str) -> Result<(), RegistryError> {
        let action = format!("delete `{repository}:{tag}` from the registry");
        let path = format!("{repository}/manifests/{tag}");
        let call = self.call(&action, Method::DELETE, repository, &path)?;
        self.send(&call).await?;
        if !self.tags(repository).await?.iter().any(|one| one == tag) {
            return Ok(());
        }
        let empty = empty_index(tag);
        let payload = Payload {
            media_type: INDEX,
            size: empty.len() as u64,
            body: &|| Body::from(empty.clone()),
        };
        let put = Call {
            method: Method::PUT,
            payload: Some(payload),
            ..call
        };
        succeeded(&action, self.send(&put).await?).await?;
        match self.digest(repository, tag).await? {
            Some(nothing) => self.delete_now(repository, &nothing).await,
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_of_uses_are_parsed_and_others_are_not() {
        let user = ImageUser {
            installation: "a-1".into(),
            instance: "b-2".into(),
        };
        let digest = format!("sha256:{}", "0123456789abcdef".repeat(4));
        for (kind, is_removal) in [(USE, false), (REMOVAL, true)] {
            let tag = user.tag(kind, &digest);
            let parsed = ImageUse::parse(&tag).unwrap();
            assert_eq!(parsed.user, user);
            assert_eq!(parsed.digest, digits(&digest));
            assert_eq!(parsed.is_removal(), is_removal);
        }
        for other in ["1.0", "vnfm", "vnfm.a.b", "vnfm.a.b.c.d", "x.a.b.c", ""] {
            assert_eq!(ImageUse::parse(other), None, "{other}");
        }
    }
}
