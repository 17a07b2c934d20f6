//! What operations are doing right now, in the process that drives them: step, reason for waiting, log, cancel
//! request. Nothing here is needed to resume: it is for people, or the store has it, too.

use crate::ports::{Clock, JournalRow, OpRecord, Store, Watcher};
use event_listener::{Event, EventListener};
use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use vnfm_types::{CancelMode, LogLine, Waiting};

/// All operations that this process drives.
#[derive(Default)]
pub(crate) struct RunningOps {
    ops: Mutex<HashMap<String, Arc<RunningOp>>>,
    shutting_down: AtomicBool,
    changed: Event,
    paused: AtomicBool,
}

/// An operation that this process drives.
pub(crate) struct RunningOp {
    state: Mutex<RunningState>,
    cancelled: Event,
    changed: Event,
    clock: Arc<dyn Clock>,
}

/// Its current state, as shown to people.
#[derive(Debug, Clone, Default)]
pub(crate) struct RunningState {
    pub(crate) step: Option<&'static str>,
    pub(crate) attempt: u32,
    pub(crate) percent: Option<u8>,
    pub(crate) message: Option<String>,
    pub(crate) waiting: Option<Waiting>,
    pub(crate) cancel: Option<CancelMode>,
    /// The last stored state, if this process stored it.
    pub(crate) stored: Option<Arc<Stored>>,
    /// The hook that has ruled out a rollback: the store has it, `stored` may not yet.
    pub(crate) ruled_out_by: Option<String>,
    shutting_down: bool,
    deadline: Option<jiff::Timestamp>,
    log: VecDeque<LogLine>,
    redactor: crate::redact::Redactor,
}

/// An operation as the database holds it.
#[derive(Debug)]
pub(crate) struct Stored {
    pub(crate) record: Arc<OpRecord>,
    pub(crate) journal: Vec<Arc<JournalRow>>,
}

const MAX_LINE_LEN: usize = 4096;
const MAX_BUFFERED_LINES: usize = 500;

impl RunningOps {
    /// Registers an operation that this process begins to drive.
    pub(crate) fn add(&self, op_id: &str, clock: Arc<dyn Clock>) -> Arc<RunningOp> {
        let live = Arc::new(RunningOp {
            state: Mutex::new(RunningState {
                shutting_down: self.shutting_down.load(Ordering::Acquire),
                ..RunningState::default()
            }),
            cancelled: Event::new(),
            changed: Event::new(),
            clock,
        });
        lock(&self.ops).insert(op_id.to_owned(), live.clone());
        self.changed.notify(usize::MAX);
        live
    }

    /// This process shuts down: every operation is left as the journal has it.
    pub(crate) fn shut_down(&self) {
        self.shutting_down.store(true, Ordering::Release);
        for live in lock(&self.ops).values() {
            live.change(|state| state.shutting_down = true);
            live.cancelled.notify(usize::MAX);
        }
    }

    /// Removes an operation that is no longer driven as `live`. If this process has claimed it again meanwhile, because the
    /// lease had ended, the later entry stays.
    pub(crate) fn remove(&self, op_id: &str, live: &Arc<RunningOp>) {
        let mut ops = lock(&self.ops);
        if ops.get(op_id).is_some_and(|now| Arc::ptr_eq(now, live)) {
            ops.remove(op_id);
        }
        drop(ops);
        live.changed.notify(usize::MAX);
        self.changed.notify(usize::MAX);
    }

    /// The operation, if this process drives it.
    pub(crate) fn get(&self, op_id: &str) -> Option<Arc<RunningOp>> {
        lock(&self.ops).get(op_id).cloned()
    }

    /// From now on no step starts.
    pub(crate) fn pause(&self) {
        self.paused.store(true, Ordering::SeqCst);
    }

    /// Whether no step may start.
    pub(crate) fn is_paused(&self) -> bool {
        self.paused.load(Ordering::SeqCst)
    }

    pub(crate) fn count(&self) -> usize {
        lock(&self.ops).len()
    }

    /// Completes when an operation is added or removed.
    pub(crate) fn listen(&self) -> EventListener {
        self.changed.listen()
    }
}

impl RunningOp {
    pub(crate) fn state(&self) -> RunningState {
        lock(&self.state).clone()
    }

    /// Completes at the next change of its state.
    pub(crate) fn listen(&self) -> EventListener {
        self.changed.listen()
    }

    /// A step or its undo starts.
    pub(crate) fn start_step(&self, step: &'static str, attempt: u32, deadline: jiff::Timestamp) {
        self.change(|state| {
            state.step = Some(step);
            state.attempt = attempt;
            state.deadline = Some(deadline);
            (state.percent, state.message, state.waiting) = (None, None, None);
        });
    }

    /// Stores the last written state. Listeners see it with the next change.
    pub(crate) fn set_stored(&self, stored: Stored) {
        lock(&self.state).stored = Some(Arc::new(stored));
    }

    /// The store has that this hook has ruled out a rollback.
    pub(crate) fn rule_out_rollback(&self, hook: &str) {
        self.change(|state| {
            state.ruled_out_by.get_or_insert_with(|| hook.to_owned());
        });
    }

    /// The first hook that has ruled out a rollback since this process drives the operation.
    pub(crate) fn ruled_out_by(&self) -> Option<String> {
        lock(&self.state).ruled_out_by.clone()
    }

    /// Requests a cancel; a graceful request does not downgrade a forceful one.
    pub(crate) fn cancel(&self, mode: CancelMode) {
        self.change(|state| {
            if state.cancel != Some(CancelMode::Forceful) {
                state.cancel = Some(mode);
            }
        });
        self.cancelled.notify(usize::MAX);
    }

    /// The requested cancel mode, if any.
    pub(crate) fn cancel_mode(&self) -> Option<CancelMode> {
        lock(&self.state).cancel
    }

    /// True once this process shuts down.
    pub(crate) fn is_shutting_down(&self) -> bool {
        lock(&self.state).shutting_down
    }

    /// Completes once the running step must be dropped, because of a forceful cancel or a shutdown.
    pub(crate) async fn aborted(&self) {
        loop {
            let listener = self.cancelled.listen();
            if self.is_shutting_down() || self.cancel_mode() == Some(CancelMode::Forceful) {
                return;
            }
            listener.await;
        }
    }

    /// Completes once the operation must stop, because of any cancel request or a shutdown.
    pub(crate) async fn stop_requested(&self) {
        loop {
            let listener = self.cancelled.listen();
            if self.is_shutting_down() || self.cancel_mode().is_some() {
                return;
            }
            listener.await;
        }
    }

    /// Secrets that must not appear in anything it reports.
    pub(crate) fn add_secrets(&self, redactor: &crate::redact::Redactor) {
        lock(&self.state).redactor.extend(redactor);
    }

    /// Replaces the operation's known secrets in `text`.
    pub(crate) fn redact(&self, text: &str) -> String {
        lock(&self.state).redactor.clean(text)
    }

    /// Stores the log lines that are not stored yet. If the database fails, they wait for the next time, as many as the
    /// buffer holds; the log never delays an operation.
    pub(crate) async fn store_log(&self, store: &dyn Store, op_id: &str) {
        let lines: Vec<_> = lock(&self.state).log.drain(..).collect();
        if let Err(error) = store.append_log(op_id, lines.clone()).await {
            tracing::warn!(op_id, %error, "the log was not stored");
            let log = &mut lock(&self.state).log;
            let room = MAX_BUFFERED_LINES.saturating_sub(log.len());
            lines
                .into_iter()
                .rev()
                .take(room)
                .for_each(|line| log.push_front(line));
        }
    }

    /// Changes the state and notifies listeners. Log lines do not notify: listeners would fetch the full
    /// state and find it unchanged.
    fn change(&self, change: impl FnOnce(&mut RunningState)) {
        change(&mut lock(&self.state));
        self.changed.notify(usize::MAX);
    }
}

impl Watcher for RunningOp {
    fn waiting(&self, what: &str) {
        let mut state = lock(&self.state);
        let what = truncate_line(state.redactor.clean(what));
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
            state.message = Some(truncate_line(state.redactor.clean(message)));
            state.waiting = None;
        });
    }

    fn log(&self, level: &str, source: &str, text: &str) {
        let at = self.clock.now();
        let mut state = lock(&self.state);
        let text = truncate_line(state.redactor.clean(text));
        if state.log.len() == MAX_BUFFERED_LINES {
            state.log.pop_front();
        }
        let (level, source) = (
            truncate_line(level.to_owned()),
            truncate_line(source.to_owned()),
        );
        state.log.push_back(LogLine {
            seq: 0,
            at,
            level,
            source,
            text,
        });
    }
}

/// Truncates a line to `MAX_LINE_LEN`.
fn truncate_line(mut text: String) -> String {
    if text.len() > MAX_LINE_LEN {
        text.truncate(text.floor_char_boundary(MAX_LINE_LEN));
        text.push('…');
    }
    text
}

/// Ignores poisoning: what the lock guards is only shown to people.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
