//! The messages between engine and hook: JSON, camelCase, `schemaVersion` 1. Schemas are in `schemas/plugin`.

pub mod effects;
pub mod request;
