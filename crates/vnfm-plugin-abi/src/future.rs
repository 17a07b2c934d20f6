//! A future that crosses the boundary: `{state, poll, drop}`, and the waker on its way back.

use crate::buffer::Buf;
use crate::panics::{panic_text, quietly};
use crate::{PANICKED, PENDING, READY_ERR, READY_OK};
use std::ffi::c_void;
use std::mem::ManuallyDrop;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::{Context, Poll, RawWaker, RawWakerVTable, Waker};

/// What a call answers: bytes, or an error's bytes.
pub type Answer = Result<Vec<u8>, Vec<u8>>;
/// A future of an [`Answer`].
pub type BoxAnswer = Pin<Box<dyn Future<Output = Answer> + Send>>;

/// The poller's waker, lent for one `poll`.
#[repr(C)]
#[derive(Debug)]
pub struct FfiContext {
    /// The waker.
    pub waker: *const c_void,
    /// What can be done with it.
    pub vtable: *const WakerVtable,
}

/// What can be done with a waker; every function may be called from any thread.
#[repr(C)]
#[derive(Debug)]
pub struct WakerVtable {
    /// A waker of one's own, to be given to `drop` once.
    pub clone: unsafe extern "C" fn(waker: *const c_void) -> *const c_void,
    /// Asks for another poll.
    pub wake_by_ref: unsafe extern "C" fn(waker: *const c_void),
    /// Gives a cloned waker back.
    pub drop: unsafe extern "C" fn(waker: *const c_void),
}

/// Polls a future of the other side.
pub type PollFn =
    unsafe extern "C" fn(state: *mut c_void, context: *const FfiContext, out: *mut Buf) -> u32;

/// A future that crosses the boundary. `poll` never unwinds: a panic is [`PANICKED`].
#[repr(C)]
#[derive(Debug)]
pub struct FfiFuture {
    /// The future itself.
    pub state: *mut c_void,
    /// Polls it; writes `out` unless it answers [`PENDING`].
    pub poll: Option<PollFn>,
    /// Drops it, ready or not.
    pub drop: Option<unsafe extern "C" fn(state: *mut c_void)>,
}

// SAFETY: whoever makes one makes it of a `Send` future; the header asks the same of C.
unsafe impl Send for FfiFuture {}

/// Why a future of the other side has no answer.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum FfiError {
    /// The error that it answered.
    Answer(Vec<u8>),
    /// It panicked.
    Panicked(String),
    /// It broke the rules of this boundary; the number is what `poll` returned.
    Protocol(u32),
}

impl FfiFuture {
    /// Makes one of `future`.
    pub fn new<F: Future<Output = Answer> + Send + 'static>(future: F) -> Self {
        Self {
            state: Box::into_raw(Box::new(future)).cast(),
            poll: Some(poll_future::<F>),
            drop: Some(drop_future::<F>),
        }
    }

    fn finish(&mut self) {
        self.poll = None;
        if let Some(drop) = self.drop.take() {
            // SAFETY: `drop` came with `state` and runs once.
            unsafe { drop(self.state) }
        }
    }
}

impl Drop for FfiFuture {
    fn drop(&mut self) {
        self.finish();
    }
}

impl Future for FfiFuture {
    type Output = Result<Buf, FfiError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let Some(poll) = self.poll else {
            return Poll::Ready(Err(FfiError::Protocol(PENDING)));
        };
        let waker: *const Waker = context.waker();
        let lent = FfiContext {
            waker: waker.cast(),
            vtable: &raw const OUR_WAKER,
        };
        let mut out = Buf::EMPTY;
        // SAFETY: `state` belongs to `poll`; context and buffer outlive the call.
        let status = unsafe { poll(self.state, &raw const lent, &raw mut out) };
        let answer = match status {
            PENDING => return Poll::Pending,
            READY_OK => Ok(out),
            READY_ERR => Err(FfiError::Answer(out.as_bytes().to_vec())),
            PANICKED => Err(FfiError::Panicked(out.to_text())),
            other => Err(FfiError::Protocol(other)),
        };
        self.finish();
        Poll::Ready(answer)
    }
}

unsafe extern "C" fn poll_future<F: Future<Output = Answer>>(
    state: *mut c_void,
    context: *const FfiContext,
    out: *mut Buf,
) -> u32 {
    let polled = catch_unwind(AssertUnwindSafe(|| {
        // SAFETY: `state` is the box of `FfiFuture::new`, which never moves until it is dropped.
        let future = unsafe { Pin::new_unchecked(&mut *state.cast::<F>()) };
        // SAFETY: the poller lends the context for this call.
        let foreign = unsafe {
            Foreign {
                waker: (*context).waker,
                vtable: (*context).vtable,
            }
        };
        let raw = RawWaker::new((&raw const foreign).cast(), &LENT);
        // SAFETY: `LENT` keeps the contract of a waker, and this one ends before `foreign` does.
        let waker = ManuallyDrop::new(unsafe { Waker::from_raw(raw) });
        future.poll(&mut Context::from_waker(&waker))
    }));
    let (status, bytes) = match polled {
        Ok(Poll::Pending) => return PENDING,
        Ok(Poll::Ready(Ok(bytes))) => (READY_OK, bytes),
        Ok(Poll::Ready(Err(bytes))) => (READY_ERR, bytes),
        Err(payload) => (PANICKED, panic_text(payload)),
    };
    // SAFETY: the poller lends an empty buffer for this call.
    unsafe { out.write(bytes.into()) };
    status
}

unsafe extern "C" fn drop_future<F>(state: *mut c_void) {
    // SAFETY: `state` is the box of `FfiFuture::new`; this runs once.
    quietly(|| drop(unsafe { Box::from_raw(state.cast::<F>()) }));
}

// The poller's side: what is lent is a `&Waker`, what is cloned a `Box<Waker>`.
static OUR_WAKER: WakerVtable = WakerVtable {
    clone: clone_ours,
    wake_by_ref: wake_ours,
    drop: drop_ours,
};

unsafe extern "C" fn clone_ours(waker: *const c_void) -> *const c_void {
    // SAFETY: the other side hands back what it got.
    let waker = unsafe { &*waker.cast::<Waker>() };
    Box::into_raw(Box::new(waker.clone())).cast_const().cast()
}

unsafe extern "C" fn wake_ours(waker: *const c_void) {
    // SAFETY: the other side hands back what it got.
    quietly(|| unsafe { &*waker.cast::<Waker>() }.wake_by_ref());
}

unsafe extern "C" fn drop_ours(waker: *const c_void) {
    // SAFETY: the other side hands back what `clone_ours` gave, once.
    quietly(|| drop(unsafe { Box::from_raw(waker.cast_mut().cast::<Waker>()) }));
}

// The polled side: a waker of std over the foreign one.
struct Foreign {
    waker: *const c_void,
    vtable: *const WakerVtable,
}

static LENT: RawWakerVTable = RawWakerVTable::new(clone_foreign, |_| {}, wake_foreign, |_| {});
static OWNED: RawWakerVTable = RawWakerVTable::new(
    clone_foreign,
    wake_and_drop_foreign,
    wake_foreign,
    drop_foreign,
);

unsafe fn clone_foreign(foreign: *const ()) -> RawWaker {
    // SAFETY: std hands us the pointer of a live waker that we made.
    let Foreign { waker, vtable } = unsafe { &*foreign.cast::<Foreign>() };
    // SAFETY: the table is the poller's and lives as long as its library.
    let waker = unsafe { ((**vtable).clone)(*waker) };
    let own = Box::new(Foreign {
        waker,
        vtable: *vtable,
    });
    RawWaker::new(Box::into_raw(own).cast_const().cast(), &OWNED)
}

unsafe fn wake_foreign(foreign: *const ()) {
    // SAFETY: as in `clone_foreign`.
    let Foreign { waker, vtable } = unsafe { &*foreign.cast::<Foreign>() };
    // SAFETY: as in `clone_foreign`.
    unsafe { ((**vtable).wake_by_ref)(*waker) }
}

unsafe fn drop_foreign(foreign: *const ()) {
    // SAFETY: only `OWNED` names this function: it is the box of `clone_foreign`, once.
    let Foreign { waker, vtable } = *unsafe { Box::from_raw(foreign.cast_mut().cast::<Foreign>()) };
    // SAFETY: the clone that we got is given back once.
    unsafe { ((*vtable).drop)(waker) }
}

unsafe fn wake_and_drop_foreign(foreign: *const ()) {
    // SAFETY: std calls this in place of a drop.
    unsafe {
        wake_foreign(foreign);
        drop_foreign(foreign);
    }
}

#[cfg(test)]
mod tests {
    use super::{FfiError, FfiFuture};
    use std::pin::Pin;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::{Context, Poll, Wake, Waker};

    #[derive(Default)]
    struct Counted(AtomicUsize);
    impl Wake for Counted {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    fn poll(future: &mut FfiFuture, counted: &Arc<Counted>) -> Poll<Result<Vec<u8>, FfiError>> {
        let waker = Waker::from(counted.clone());
        let polled = Pin::new(future).poll(&mut Context::from_waker(&waker));
        polled.map_ok(|buf| buf.as_bytes().to_vec())
    }

    #[test]
    fn a_waker_survives_the_poll_that_lent_it() {
        let kept = Arc::new(std::sync::Mutex::new(None::<Waker>));
        let store = kept.clone();
        let mut first = true;
        let mut future = FfiFuture::new(std::future::poll_fn(move |context| {
            if std::mem::take(&mut first) {
                *store.lock().unwrap() = Some(context.waker().clone());
                return Poll::Pending;
            }
            Poll::Ready(Ok(b"done".to_vec()))
        }));
        let counted = Arc::new(Counted::default());
        assert!(poll(&mut future, &counted).is_pending());
        let waker = kept.lock().unwrap().take().unwrap();
        std::thread::spawn(move || {
            waker.wake_by_ref();
            waker.wake();
        })
        .join()
        .unwrap();
        assert_eq!(counted.0.load(Ordering::SeqCst), 2);
        assert_eq!(
            poll(&mut future, &counted),
            Poll::Ready(Ok(b"done".to_vec()))
        );
        assert_eq!(
            poll(&mut future, &counted),
            Poll::Ready(Err(FfiError::Protocol(0)))
        );
        assert_eq!(Arc::strong_count(&counted), 1, "every clone was given back");
    }

    #[test]
    fn a_panic_and_an_error_are_answers() {
        let counted = Arc::new(Counted::default());
        let mut future = FfiFuture::new(async { panic!("a bug: {}", 7) });
        let panicked = FfiError::Panicked("a bug: 7".into());
        assert_eq!(poll(&mut future, &counted), Poll::Ready(Err(panicked)));
        let mut future = FfiFuture::new(async { Err(b"no".to_vec()) });
        let refused = FfiError::Answer(b"no".to_vec());
        assert_eq!(poll(&mut future, &counted), Poll::Ready(Err(refused)));
    }

    #[test]
    fn a_dropped_future_drops_what_it_holds_even_if_that_panics() {
        struct Bomb(Arc<AtomicUsize>);
        impl Drop for Bomb {
            fn drop(&mut self) {
                self.0.fetch_add(1, Ordering::SeqCst);
                panic!("in drop");
            }
        }
        let drops = Arc::new(AtomicUsize::new(0));
        let bomb = Bomb(drops.clone());
        let mut future = FfiFuture::new(async move {
            let _bomb = bomb;
            std::future::pending().await
        });
        assert!(poll(&mut future, &Arc::new(Counted::default())).is_pending());
        drop(future);
        assert_eq!(drops.load(Ordering::SeqCst), 1);
    }
}
