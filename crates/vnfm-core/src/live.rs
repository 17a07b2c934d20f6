//! What operations are doing right now, in the process that drives them: the step, what it waits for, its
//! log, and the wish to cancel. Nothing here is needed to resume; all of it is for people.

use crate::ports::{Clock, JournalRow, OpRecord, Store, Watcher};
use event_listener::{Event, EventListener};
use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use vnfm_types::{CancelMode, LogLine, Waiting};

/// All operations that this process drives.
#[derive(Default)]
pub(crate) struct Live {
    ops: Mutex<HashMap<String, Arc<LiveOp>>>,
    leaving: AtomicBool,
    changed: Event,
    resting: AtomicBool,
}

/// One of them.
pub(crate) struct LiveOp {
    state: Mutex<LiveState>,
    cancelled: Event,
    changed: Event,
    clock: Arc<dyn Clock>,
}

/// What it says of itself.
#[derive(Debug, Clone, Default)]
pub(crate) struct LiveState {
    pub(crate) step: Option<&'static str>,
    pub(crate) attempt: u32,
    pub(crate) percent: Option<u8>,
    pub(crate) message: Option<String>,
    pub(crate) waiting: Option<Waiting>,
    pub(crate) cancel: Option<CancelMode>,
    /// What the database has of it, once it was stored here.
    pub(crate) stored: Option<Arc<Stored>>,
    left: bool,
    deadline: Option<jiff::Timestamp>,
    log: VecDeque<LogLine>,
    redactor: crate::redact::Redactor,
}

/// What the database has of an operation.
#[derive(Debug)]
pub(crate) struct Stored {
    pub(crate) record: Arc<OpRecord>,
    pub(crate) journal: Vec<Arc<JournalRow>>,
}

const LONGEST_LINE: usize = 4096;
const MOST_BUFFERED: usize = 500;

impl Live {
    /// The entry of an operation that this process begins to drive.
    pub(crate) fn begin(&self, op_id: &str, clock: Arc<dyn Clock>) -> Arc<LiveOp> {
        let live = Arc::new(LiveOp {
            state: Mutex::new(LiveState {
                left: self.leaving.load(Ordering::Acquire),
                ..LiveState::default()
            }),
            cancelled: Event::new(),
            changed: Event::new(),
            clock,
        });
        lock(&self.ops).insert(op_id.to_owned(), live.clone());
        self.changed.notify(usize::MAX);
        live
    }

    /// This process stops: every operation is left where the journal has it.
    pub(crate) fn leave(&self) {
        self.leaving.store(true, Ordering::Release);
        for live in lock(&self.ops).values() {
            live.change(|state| state.left = true);
            live.cancelled.notify(usize::MAX);
        }
    }

    /// Forgets it.
    pub(crate) fn end(&self, op_id: &str) {
        if let Some(live) = lock(&self.ops).remove(op_id) {
            live.changed.notify(usize::MAX);
        }
        self.changed.notify(usize::MAX);
    }

    /// The entry, if this process drives it.
    pub(crate) fn of(&self, op_id: &str) -> Option<Arc<LiveOp>> {
        lock(&self.ops).get(op_id).cloned()
    }

    /// From now on no step begins.
    pub(crate) fn rest(&self) {
        self.resting.store(true, Ordering::SeqCst);
    }

    /// Whether no step is to begin.
    pub(crate) fn is_resting(&self) -> bool {
        self.resting.load(Ordering::SeqCst)
    }

    /// How many there are.
    pub(crate) fn count(&self) -> usize {
        lock(&self.ops).len()
    }

    /// Completes when an operation begins or ends here.
    pub(crate) fn listen(&self) -> EventListener {
        self.changed.listen()
    }
}

impl LiveOp {
    /// A copy of what it says.
    pub(crate) fn state(&self) -> LiveState {
        lock(&self.state).clone()
    }

    /// Completes at the next change of what it says.
    pub(crate) fn listen(&self) -> EventListener {
        self.changed.listen()
    }

    /// A step begins, or its opposite.
    pub(crate) fn enter(&self, step: &'static str, attempt: u32, deadline: jiff::Timestamp) {
        self.change(|state| {
            state.step = Some(step);
            state.attempt = attempt;
            state.deadline = Some(deadline);
            (state.percent, state.message, state.waiting) = (None, None, None);
        });
    }

    /// The database has this of it now. Whoever listens hears of it with the next change.
    pub(crate) fn stored(&self, stored: Stored) {
        lock(&self.state).stored = Some(Arc::new(stored));
    }

    /// Somebody wants it cancelled; a forceful wish is not taken back by a graceful one.
    pub(crate) fn cancel(&self, mode: CancelMode) {
        self.change(|state| {
            if state.cancel != Some(CancelMode::Forceful) {
                state.cancel = Some(mode);
            }
        });
        self.cancelled.notify(usize::MAX);
    }

    /// How it is to be cancelled, if so.
    pub(crate) fn cancel_mode(&self) -> Option<CancelMode> {
        lock(&self.state).cancel
    }

    /// True once this process stops.
    pub(crate) fn is_left(&self) -> bool {
        lock(&self.state).left
    }

    /// Completes once the running step is to be dropped: by a forceful cancel, or because this process stops.
    pub(crate) async fn told_to_go(&self) {
        loop {
            let listener = self.cancelled.listen();
            if self.is_left() || self.cancel_mode() == Some(CancelMode::Forceful) {
                return;
            }
            listener.await;
        }
    }

    /// Completes once the operation is to be cancelled, in whichever way, or this process stops.
    pub(crate) async fn told_to_stop(&self) {
        loop {
            let listener = self.cancelled.listen();
            if self.is_left() || self.cancel_mode().is_some() {
                return;
            }
            listener.await;
        }
    }

    /// What must not appear in anything that it says.
    pub(crate) fn hide(&self, redactor: &crate::redact::Redactor) {
        lock(&self.state).redactor.extend(redactor);
    }

    /// `text` without what must not appear.
    pub(crate) fn clean(&self, text: &str) -> String {
        lock(&self.state).redactor.clean(text)
    }

    /// Stores the lines that were not stored yet. Where the database does not take them, they wait for the next time,
    /// as many as there is room for; what is for people holds up no operation.
    pub(crate) async fn store_log(&self, store: &dyn Store, op_id: &str) {
        let lines: Vec<_> = lock(&self.state).log.drain(..).collect();
        if let Err(error) = store.append_log(op_id, lines.clone()).await {
            tracing::warn!(op_id, %error, "the log was not stored");
            let log = &mut lock(&self.state).log;
            let room = MOST_BUFFERED.saturating_sub(log.len());
            lines
                .into_iter()
                .rev()
                .take(room)
                .for_each(|line| log.push_front(line));
        }
    }

    /// Changes what it says, and tells those who listen. What only its log shows is no such change: they would ask for
    /// the whole picture and find the same.
    fn change(&self, change: impl FnOnce(&mut LiveState)) {
        change(&mut lock(&self.state));
        self.changed.notify(usize::MAX);
    }
}

impl Watcher for LiveOp {
    fn waiting(&self, what: &str) {
        let mut state = lock(&self.state);
        let what = cut(state.redactor.clean(what));
        if state
            .waiting
            .as_ref()
            .is_some_and(|waiting| waiting.for_what == what)
        {
            return;
        }
        let (since, until) = (self.clock.now(), state.deadline);
        state.waiting = Some(Waiting {
            for_what: what,
            since,
            until,
        });
        drop(state);
        self.changed.notify(usize::MAX);
    }

    fn progress(&self, percent: u8, message: &str) {
        self.change(|state| {
            state.percent = Some(percent.min(100));
            state.message = Some(cut(state.redactor.clean(message)));
            state.waiting = None;
        });
    }

    fn log(&self, level: &str, source: &str, text: &str) {
        let at = self.clock.now();
        let mut state = lock(&self.state);
        let text = cut(state.redactor.clean(text));
        if state.log.len() == MOST_BUFFERED {
            state.log.pop_front();
        }
        let (level, source) = (cut(level.to_owned()), cut(source.to_owned()));
        state.log.push_back(LogLine {
            seq: 0,
            at,
            level,
            source,
            text,
        });
    }
}

/// A line without what is beyond its bound.
fn cut(mut text: String) -> String {
    if text.len() > LONGEST_LINE {
        text.truncate(text.floor_char_boundary(LONGEST_LINE));
        text.push('…');
    }
    text
}

/// A lock that a panic elsewhere does not make unusable: what it guards is only shown to people.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
