//! What the functions that build the model share.

use super::types::Types;
use crate::archive::Archive;
use crate::limits::Limits;
use crate::sink::Sink;

/// The types and files that the model is built from; each file of this folder that adds to the model has an `impl`.
pub(super) struct Builder<'a, 's> {
    pub(super) types: &'a Types<'a>,
    pub(super) archive: &'a Archive,
    pub(super) limits: &'a Limits,
    pub(super) sink: &'s mut Sink,
}
