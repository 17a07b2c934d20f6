//! Futures that cross the boundary as `{state, poll, drop}`, and the wakers that go the other way.

use crate::buffer::Buf;
use crate::panics::{panic_text, quietly};
use crate::{PANICKED, PENDING, READY_ERR, READY_OK};
use std::ffi::c_void;
use std::mem::ManuallyDrop;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::{Context, Poll, RawWaker, RawWakerVTable, Waker};

/// The result of a call: a serialized response or error.
pub type Answer = Result<Vec<u8>, Vec<u8>>;
/// A boxed future of an [`Answer`].
pub type BoxAnswer = Pin<Box<dyn Future<Output = Answer> + Send>>;

/// The poller's waker, borrowed for one `poll`.
#[repr(C)]
#[derive(Debug)]
pub struct FfiContext {
    /// The poller's object; opaque to the future.
    pub waker: *const c_void,
    /// The functions to call it with.
    pub vtable: *const WakerVtable,
}

/// The functions of a waker, which may be called from any thread.
#[repr(C)]
#[derive(Debug)]
pub struct WakerVtable {
    /// Clones the waker; the clone must be passed to `drop` once.
    pub clone: unsafe extern "C" fn(waker: *const c_void) -> *const c_void,
    /// Requests another poll; keeps the waker.
    pub wake_by_ref: unsafe extern "C" fn(waker: *const c_void),
    /// Drops a waker that `clone` returned.
    pub drop: unsafe extern "C" fn(waker: *const c_void),
}

/// Polls a future of the other side; see [`FfiFuture::poll`].
pub type PollFn =
    unsafe extern "C" fn(state: *mut c_void, context: *const FfiContext, out: *mut Buf) -> u32;

/// A future of the other side. `poll` never unwinds: a panic is [`PANICKED`].
#[repr(C)]
#[derive(Debug)]
pub struct FfiFuture {
    /// The future; opaque to the poller.
    pub state: *mut c_void,
    /// Polls the future; writes `out` unless it returns [`PENDING`].
    pub poll: Option<PollFn>,
    /// Drops the future, ready or not.
    pub drop: Option<unsafe extern "C" fn(state: *mut c_void)>,
}

// SAFETY: `new` takes only `Send` futures, and the header requires the same of C.
unsafe impl Send for FfiFuture {}

/// Why a future of the other side failed.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum FfiError {
    /// It returned this error, as JSON.
    Answer(Vec<u8>),
    /// It panicked with this message.
    Panicked(String),
    /// It violated the ABI: `poll` returned this status.
    Protocol(u32),
}

impl FfiFuture {
    /// Passes `future` to the other side.
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
        // SAFETY: `state` is the box from `FfiFuture::new`, whose content does not move until it is dropped.
        let future = unsafe { Pin::new_unchecked(&mut *state.cast::<F>()) };
        // SAFETY: the context is valid for this call.
        let foreign = unsafe {
            Foreign {
                waker: (*context).waker,
                vtable: (*context).vtable,
            }
        };
        let raw = RawWaker::new((&raw const foreign).cast(), &LENT);
        // SAFETY: `LENT` fulfils the contract of a waker, and this one does not outlive `foreign`.
        let waker = ManuallyDrop::new(unsafe { Waker::from_raw(raw) });
        future.poll(&mut Context::from_waker(&waker))
    }));
    let (status, bytes) = match polled {
        Ok(Poll::Pending) => return PENDING,
        Ok(Poll::Ready(Ok(bytes))) => (READY_OK, bytes),
        Ok(Poll::Ready(Err(bytes))) => (READY_ERR, bytes),
        Err(payload) => (PANICKED, panic_text(payload)),
    };
    // SAFETY: the poller passes an empty buffer that is valid for this call.
    unsafe { out.write(bytes.into()) };
    status
}

unsafe extern "C" fn drop_future<F>(state: *mut c_void) {
    // SAFETY: `state` is the box from `FfiFuture::new`; this runs once.
    quietly(|| drop(unsafe { Box::from_raw(state.cast::<F>()) }));
}

// The poller's side: a borrowed waker is a `&Waker`, a cloned one a `Box<Waker>`.
static OUR_WAKER: WakerVtable = WakerVtable {
    clone: clone_ours,
    wake_by_ref: wake_ours,
    drop: drop_ours,
};

unsafe extern "C" fn clone_ours(waker: *const c_void) -> *const c_void {
    // SAFETY: the other side passes the pointer that it got.
    let waker = unsafe { &*waker.cast::<Waker>() };
    Box::into_raw(Box::new(waker.clone())).cast_const().cast()
}

unsafe extern "C" fn wake_ours(waker: *const c_void) {
    // SAFETY: the other side passes the pointer that it got.
    quietly(|| unsafe { &*waker.cast::<Waker>() }.wake_by_ref());
}

unsafe extern "C" fn drop_ours(waker: *const c_void) {
    // SAFETY: the other side passes a pointer from `clone_ours`, once.
    quietly(|| drop(unsafe { Box::from_raw(waker.cast_mut().cast::<Waker>()) }));
}

// The polled side: a std waker around the foreign one.
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
    // SAFETY: std passes the pointer of a live waker that we created.
    let Foreign { waker, vtable } = unsafe { &*foreign.cast::<Foreign>() };
    // SAFETY: the table belongs to the poller and lives as long as its library.
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
    // SAFETY: only `OWNED` uses this function: it gets the box from `clone_foreign`, once.
    let Foreign { waker, vtable } = *unsafe { Box::from_raw(foreign.cast_mut().cast::<Foreign>()) };
    // SAFETY: the clone is dropped once.
    unsafe { ((*vtable).drop)(waker) }
}

unsafe fn wake_and_drop_foreign(foreign: *const ()) {
    // SAFETY: std calls this instead of `drop`.
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
        let stored = Arc::new(std::sync::Mutex::new(None::<Waker>));
        let store = stored.clone();
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
        let waker = stored.lock().unwrap().take().unwrap();
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
        assert_eq!(Arc::strong_count(&counted), 1, "every clone was dropped");
    }

    #[test]
    fn panics_and_errors_are_returned() {
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
