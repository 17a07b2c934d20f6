//! Which packages an instance has uploaded images of: its own, and those that it had before a change of its package. The
//! handle lists the latter, so that a release deletes their images too.

use crate::blueprint::has_package_images;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use vnfm_core::ports::{Convergence, Recorded};
use vnfm_descriptor::Package;

/// Member of the handle: hashes of earlier packages that contain images.
const IMAGES: &str = "imagesOf";

/// Hashes of the packages whose images the instance may have uploaded: its own, and those that the handle lists.
pub(crate) fn packages_with_images(package: &Package, handle: &Value) -> BTreeSet<String> {
    let earlier = handle[IMAGES].as_array().into_iter().flatten();
    let earlier = earlier.filter_map(|one| one.as_str().map(str::to_owned));
    let own = has_package_images(package).then(|| package.sha256().to_owned());
    earlier.chain(own).collect()
}

/// Hashes of the packages with images that the target of a change does not know.
pub(crate) fn earlier_packages(change: &Convergence<'_>) -> BTreeSet<String> {
    let mut uploaded = packages_with_images(&change.target.package, change.handle());
    if let Some(other) = change.other {
        uploaded.extend(packages_with_images(&other.package, &Value::Null));
    }
    uploaded.remove(change.target.package.sha256());
    uploaded
}

/// The record with these packages in its handle.
pub(crate) fn noting_images(mut recorded: Recorded, uploaded: &BTreeSet<String>) -> Recorded {
    if !uploaded.is_empty() && recorded.handle.is_object() {
        recorded.handle[IMAGES] = json!(uploaded);
    }
    recorded
}
