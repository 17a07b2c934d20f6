//! SOL003 towards the NFVO: notifications to whoever subscribed to them.
//!
//! | file | what |
//! |---|---|
//! | [`callbacks`] | the requests: test of a callback, delivery, login |
//! | [`networks`] | which addresses a callback may have |
//!
//! Which notification goes to whom, in which order, how often and for how long is the engine's
//! ([`vnfm_core::Notifier`]).

pub mod callbacks;
pub mod networks;

pub use callbacks::{CODES, Callbacks};
pub use networks::Networks;
