//! Futures that run concurrently, a limited number at a time.

use futures::stream::{self, StreamExt};
use std::pin::Pin;
use std::task::{Context, Poll};

/// Runs futures concurrently, at most `limit` at a time. Results are in the order of the futures; one that fails
/// does not stop the others.
///
/// ```
/// use vnfm_plugin_sdk::join_all_limited;
/// use vnfm_plugin_sdk::testkit::block_on;
///
/// let squares = join_all_limited(2, (1..=3).map(|n| async move { n * n }));
/// assert_eq!(block_on(squares), [1, 4, 9]);
/// ```
pub fn join_all_limited<F: Future>(limit: usize, work: impl IntoIterator<Item = F>) -> JoinAll<F> {
    // Collected eagerly: with a lazy iterator in its type, the future would not be `Send` for many closures.
    let work: Vec<F> = work.into_iter().collect();
    JoinAll {
        results: Box::pin(stream::iter(work).buffered(limit.max(1)).collect()),
    }
}

type Results<F> = stream::Collect<
    stream::Buffered<stream::Iter<std::vec::IntoIter<F>>>,
    Vec<<F as Future>::Output>,
>;

/// The future of [`join_all_limited`]: the results, in the order of the inputs.
///
/// ```
/// use vnfm_plugin_sdk::testkit::block_on;
/// use vnfm_plugin_sdk::{JoinAll, join_all_limited};
///
/// let both: JoinAll<_> = join_all_limited(2, ["a", "b"].map(std::future::ready));
/// assert_eq!(block_on(both), ["a", "b"]);
/// ```
#[must_use = "nothing runs until it is awaited"]
pub struct JoinAll<F: Future> {
    results: Pin<Box<Results<F>>>,
}

impl<F: Future> std::fmt::Debug for JoinAll<F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("JoinAll")
    }
}

impl<F: Future> Future for JoinAll<F> {
    type Output = Vec<F::Output>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        self.results.as_mut().poll(context)
    }
}
