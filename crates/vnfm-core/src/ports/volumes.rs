//! Volumes that outlive an instance, and the members of `additionalParams` that ask for them. What only some VIMs can; a
//! driver that can offers it by [`InfraDriver::volumes`](super::InfraDriver::volumes).
//!
//! | rule | mandatory |
//! |---|---|
//! | `find_volumes` changes nothing, and refuses by name a storage that could not outlive the instance | yes |
//! | `retain_volumes` is idempotent; afterwards `release` leaves these volumes with what they hold | yes |
//! | a retained volume is tagged with installation and volume, and `owned` lists it with the volume | yes |
//! | `unretain_volumes` reverses that: `release` deletes them again | yes |
//! | `converge` puts [`Deployment::reused_volumes`](crate::Deployment) in the place of new volumes; `release` leaves them | yes |
//! | `create_volume` creates one empty volume of each record, as if that had been retained, and continues an interrupted call | yes |
//! | `delete_volume` succeeds if nothing exists, and touches nothing without the tag | yes |

use super::{PortError, ROLLING_PARAM, VimCall};
use async_trait::async_trait;
use serde::Deserialize;
use serde_json::Value;
use vnfm_types::{KeyValuePairs, RetainedVolume, VirtualStorageResourceInfo};

/// Member of `additionalParams` of a termination: `"all"`, or the list of `virtualStorageDescId`s whose volumes stay.
pub const RETAIN_PARAM: &str = "vnfm_retain_volumes";
/// Member of `additionalParams` of an instantiation: the list of ids of retained volumes to use.
pub const REUSE_PARAM: &str = "vnfm_reuse_volumes";
/// Upper bound of the number of names in one of these lists.
const MAX_NAMES: usize = 1_000;

/// The volume of a storage on its VIM.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FoundVolume {
    /// As [`RetainedVolume::resource_id`].
    pub resource_id: String,
    /// In GiB, rounded up; `None`: the VIM does not tell.
    pub size_gib: Option<u64>,
}

/// Retains volumes, creates empty ones, and deletes them.
#[async_trait]
pub trait Volumes: Send + Sync {
    /// The volumes of these storages of the instance, in their order.
    ///
    /// # Errors
    ///
    /// `Refused`, naming the storage that could not outlive the instance; `Unavailable` if the VIM does not respond.
    async fn find_volumes(
        &self,
        cx: &VimCall<'_>,
        storages: &[VirtualStorageResourceInfo],
    ) -> Result<Vec<FoundVolume>, PortError>;

    /// Lets the volumes outlive the instance of [`VimCall::ownership`].
    ///
    /// # Errors
    ///
    /// With the VIM's message; calling again continues.
    async fn retain_volumes(
        &self,
        cx: &VimCall<'_>,
        volumes: &[RetainedVolume],
    ) -> Result<(), PortError>;

    /// Lets the volumes end with the instance again. Succeeds for volumes that were never retained.
    ///
    /// # Errors
    ///
    /// With the VIM's message; calling again continues.
    async fn unretain_volumes(
        &self,
        cx: &VimCall<'_>,
        volumes: &[RetainedVolume],
    ) -> Result<(), PortError>;

    /// Creates the empty volume of a record without [`RetainedVolume::resource_id`], tagged as a retained one, and waits until
    /// it can be used. A volume that an earlier call created is found by its tag.
    ///
    /// # Errors
    ///
    /// `Refused` with the VIM's message; `Unavailable` if the VIM does not respond. In either case [`Volumes::delete_volume`]
    /// deletes what there is of it.
    async fn create_volume(
        &self,
        cx: &VimCall<'_>,
        volume: &RetainedVolume,
    ) -> Result<FoundVolume, PortError>;

    /// Deletes a retained volume with what it holds, and waits until it is deleted. One without
    /// [`RetainedVolume::resource_id`] is found by its tag.
    ///
    /// # Errors
    ///
    /// With the VIM's message, also if something still uses it; calling again continues.
    async fn delete_volume(
        &self,
        cx: &VimCall<'_>,
        volume: &RetainedVolume,
    ) -> Result<(), PortError>;
}

/// `additionalParams` without what is for the VNFM alone.
pub(crate) fn without_own_params(mut additional_params: KeyValuePairs) -> KeyValuePairs {
    for name in [ROLLING_PARAM, RETAIN_PARAM, REUSE_PARAM] {
        let _: Option<Value> = additional_params.remove(name);
    }
    additional_params
}

/// A list of names in a member of `additionalParams`; empty if there is no such member.
pub(crate) fn names(params: &KeyValuePairs, member: &str) -> Result<Vec<String>, String> {
    let Some(given) = params.get(member) else {
        return Ok(Vec::new());
    };
    let names = Vec::<String>::deserialize(given);
    let names = names.map_err(|_| format!("additionalParams.{member} is not a list of names"))?;
    if names.len() > MAX_NAMES {
        return Err(format!(
            "additionalParams.{member} has more than {MAX_NAMES} names"
        ));
    }
    Ok(names)
}
