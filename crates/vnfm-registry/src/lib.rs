//! Pushes container images to a registry of the OCI distribution specification 1.1, and deletes them with their last user.
//!
//! ```text
//! Access ── address, CA certificates, login      the operator's; nothing that a response names gets the login
//! Registry ── check    logs in
//!             push     blobs that the registry lacks, 4 at a time, streamed; then manifests; the tag last
//!             give_up  an image that an instance no longer uses: deletes it after its last use
//!             all_uses which instances use which images
//!             digest   what a tag or digest refers to
//!             delete   a manifest, with all its tags
//! ```
//!
//! | file | content |
//! |---|---|
//! | `access.rs` | the address and login of a registry |
//! | `registry.rs` | one call: authorization, timeout, errors |
//! | `login.rs` | the challenge of a registry, and its token endpoint |
//! | `push.rs` | an image, from its first blob to its tag |
//! | `uses.rs` | who uses an image, as tags in the registry |
//! | `reference.rs` | the name of an image: host, path, tag, digest |
//! | `error.rs` | errors by what the caller can do |
//!
//! A response that redirects, that names an upload location on another host, or a token endpoint on a host that the
//! operator did not name, is refused before anything is sent there.

mod access;
mod error;
mod login;
mod push;
mod reference;
mod registry;
mod uses;

pub use access::{Access, Login};
pub use error::{ErrorKind, RegistryError};
pub use push::{Blob, Content, Image, Pushed};
pub use reference::Reference;
pub use registry::{Deleted, Registry};
pub use uses::{GivenUp, ImageUse, ImageUser};
