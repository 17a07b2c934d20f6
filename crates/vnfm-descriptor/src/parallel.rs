//! A few independent pieces of work at the same time: reading the built-in types is most of the time that a small package takes.

use std::thread::{Builder, ScopedJoinHandle};

/// Applies `act` to all items, each in a thread of its own.
pub(crate) fn in_parallel<T: Sync, R: Send>(items: &[T], act: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let act = &act;
    std::thread::scope(|scope| {
        let begin = |item| {
            let thread = Builder::new().spawn_scoped(scope, move || act(item));
            // Without a further thread, this one does the work.
            thread.map_err(|_| act(item))
        };
        let begun: Vec<_> = items.iter().map(begin).collect();
        let end = |thread: Result<ScopedJoinHandle<'_, R>, R>| match thread {
            Ok(thread) => thread
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
            Err(done) => done,
        };
        begun.into_iter().map(end).collect()
    })
}

#[cfg(test)]
mod tests {
    use super::in_parallel;

    #[test]
    fn results_are_in_the_order_of_the_items() {
        let squares = in_parallel(&[3, 1, 2], |number| number * number);
        assert_eq!(squares, [9, 1, 4]);
    }
}
