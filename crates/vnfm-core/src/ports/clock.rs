//! Time as a port, so that tests can control it.

use futures_util::future::BoxFuture;
use jiff::Timestamp;
use std::time::Duration;

/// The current time and sleeping. Tests accelerate it; the core has no other source of time.
pub trait Clock: Send + Sync {
    /// The current time in UTC.
    fn now(&self) -> Timestamp;
    /// Completes after `duration`; a test may complete it earlier.
    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()>;
}

/// The result of one check of a condition.
#[derive(Debug)]
pub enum Waited<T> {
    /// The condition holds; this is its result.
    Done(T),
    /// Not yet; the text names what is missing, for operators.
    NotYet(String),
}
