//! The reading threads: each has a connection, on which it reads from a snapshot without waiting for the writer.
//!
//! ```text
//! instance ─┐ bounded queue ┌─ reader 1: SELECT ─ rows to the caller
//! list     ─┼──────────────►├─ reader 2
//! events   ─┘               └─ …
//! ```
//! The queue is bounded: a caller waits for room without blocking its runtime.

use crate::fault::{Done, Fault};
use crate::location::{Access, Location};
use rusqlite::Connection;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use tokio::sync::{mpsc, oneshot};
use vnfm_core::ports::StoreError;

/// Threads for a database in a file.
pub(crate) const READERS: usize = 4;
/// Reads that wait for a thread before callers wait for room.
const QUEUE: usize = 256;

type Read = Box<dyn FnOnce(&Connection) + Send>;
type Queue = Mutex<mpsc::Receiver<Read>>;

/// The queue and the threads, which end when this value is dropped, after their current reads.
pub(crate) struct Readers {
    reads: Option<mpsc::Sender<Read>>,
    threads: Vec<JoinHandle<()>>,
}

impl Readers {
    /// Starts the threads. A database in memory has one, which takes turns with the writer under `exclusive`: without a
    /// write-ahead log there are no snapshots.
    pub(crate) fn start(location: &Location, exclusive: &Arc<Mutex<()>>) -> Done<Self> {
        let (reads, queue) = mpsc::channel(QUEUE);
        let queue = Arc::new(Mutex::new(queue));
        let (count, exclusive) = if location.is_file() {
            (READERS, None)
        } else {
            (1, Some(exclusive.clone()))
        };
        let mut threads = Vec::with_capacity(count);
        for _ in 0..count {
            let db = location.open(Access::Read)?;
            let (queue, exclusive) = (queue.clone(), exclusive.clone());
            let thread = std::thread::Builder::new()
                .name("vnfm-store-reader".into())
                .spawn(move || run(&db, &queue, exclusive.as_deref()))
                .map_err(|reason| {
                    StoreError::Unavailable(format!("cannot start a reader: {reason}"))
                })?;
            threads.push(thread);
        }
        Ok(Self {
            reads: Some(reads),
            threads,
        })
    }

    /// Reads on one of the threads.
    pub(crate) async fn read<T: Send + 'static>(
        &self,
        read: impl FnOnce(&Connection) -> Done<T> + Send + 'static,
    ) -> Done<T> {
        let stopped = || {
            let reason = "its readers have stopped; hint: restart this process";
            Fault::from(StoreError::Unavailable(reason.to_owned()))
        };
        let (reply, answer) = oneshot::channel();
        let read: Read = Box::new(move |db| {
            if !reply.is_closed() {
                // The caller may have been dropped.
                let _ = reply.send(read(db));
            }
        });
        let reads = self.reads.as_ref().ok_or_else(stopped)?;
        reads.send(read).await.map_err(|_| stopped())?;
        answer.await.map_err(|_| stopped())?
    }
}

impl Drop for Readers {
    fn drop(&mut self) {
        self.reads = None;
        for thread in self.threads.drain(..) {
            if thread.join().is_err() {
                tracing::error!("a reader of the database panicked");
            }
        }
    }
}

fn run(db: &Connection, queue: &Queue, exclusive: Option<&Mutex<()>>) {
    loop {
        // One thread waits for the next read; the others wait for the lock.
        let next = queue
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .blocking_recv();
        let Some(read) = next else { return };
        let _turn =
            exclusive.map(|exclusive| exclusive.lock().unwrap_or_else(PoisonError::into_inner));
        read(db);
    }
}
