//! Streams an image from a package; a repeated request unpacks it again.

use std::io;
use std::sync::Arc;
use vnfm_descriptor::Package;

/// An image file in a package.
#[derive(Clone)]
pub(crate) struct Image {
    pub(crate) package: Arc<Package>,
    pub(crate) path: String,
    /// Size of the image in bytes.
    pub(crate) size: u64,
}

impl Image {
    /// A request body that streams the image.
    pub(crate) fn body(&self) -> vnfm_outbound::Body {
        let Image { package, path, .. } = self.clone();
        vnfm_outbound::written(move |out| {
            let copied = package.copy(&path, out);
            copied.map(drop).map_err(io::Error::other)
        })
    }
}
