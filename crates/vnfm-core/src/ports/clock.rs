//! Time as a port.

use futures_util::future::BoxFuture;
use jiff::Timestamp;
use std::time::Duration;

/// The current time and sleeping. Tests accelerate it; the core has no other source of time.
pub trait Clock: Send + Sync {
    /// Current time, UTC.
    fn now(&self) -> Timestamp;
    /// Completes after `duration`.
    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()>;
}

/// The result of one check of a condition.
#[derive(Debug)]
pub enum Waited<T> {
    /// The condition holds.
    Done(T),
    /// Not yet; the text names what is missing, for operators.
    NotYet(String),
}
