//! The process of one hook, from its own side: shuts itself in, opens the library, runs one hook, and waits to
//! be ended.
//!
//! ```text
//! arrive   socket and library are moved out of the way, everything else is closed     sandbox.rs
//! LOAD     limits, user, namespaces, files, system calls                              sandbox.rs
//!          from here on in a process of its own, for which the first one waits        supervise.rs
//!          the library is opened, says what it is
//! CREATE   the driver is made
//! CALL     the hook is polled on this thread; its services go over the socket         services.rs
//! ```
//!
//! A second thread reads the socket from the beginning on. At its end the engine is gone, or done with us, and
//! this process ends: also where the first thread is in an endless loop.
#![expect(unsafe_code, reason = "calls the plugin's `create`")]

mod calls;
mod landlock;
mod root;
mod sandbox;
mod services;
mod supervise;
pub(crate) mod user;
pub(crate) mod visible;

pub(crate) use services::OF_THE_HOOK;

use crate::elf::Facts;
use crate::errors::{NOT_APART, RUNNER};
use crate::library;
use crate::library::Said;
use crate::process::wire::{self, Frame};
use crate::process::{IDLE, Load};
use sandbox::{Arrived, Refusal};
use services::{Link, Side};
use std::io::Write as _;
use std::mem::MaybeUninit;
use std::pin::pin;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;
use vnfm_core::ports::PortError;
use vnfm_plugin_abi::{Buf, Driver, FfiError, Host, PANICKED, Plugin, READY_ERR, READY_OK, Slice};

/// Runs one hook for the engine that started this process, and nothing else: what a program calls first of all
/// in the mode that [`crate::ProcessConfig`] names.
///
/// The program has no other thread yet. Nothing of what it does afterwards is reached, as long as an engine
/// started it.
pub fn plugin_runner() -> ExitCode {
    let ended = sandbox::arrive().and_then(serve);
    if let Err(what) = ended {
        // There is nobody else to tell it to.
        let _ = writeln!(std::io::stderr(), "error: {what}");
    }
    ExitCode::from(2)
}

/// Ends this process. Who waits for it ends all that it started.
fn end() -> ! {
    // SAFETY: ends this process with all its threads, and calls nothing of the plugin.
    unsafe { libc::_exit(2) }
}

fn serve(mut arrived: Arrived) -> Result<(), String> {
    let unusable = |error: std::io::Error| format!("cannot use the socket: {error}");
    let first = wire::read(&mut arrived.socket).map_err(unusable)?;
    let load: Load = serde_json::from_slice(&first.body)
        .map_err(|error| format!("the engine speaks another language: {error}"))?;
    let writing = arrived.socket.try_clone().map_err(unusable)?;
    let link = Arc::new(Link::new(writing));
    let doing = format!("load plugin library `{}`", load.shown);
    let isolation = match sandbox::shut(&load) {
        Ok(isolation) => isolation,
        Err(refusal) => {
            let (code, what) = match refusal {
                Refusal::Failed(what) => (&RUNNER, what),
                Refusal::NotApart(what) => (&NOT_APART, what),
            };
            link.refuse(&PortError::new(code, doing, what));
            end();
        }
    };
    let calls = listen(arrived.socket, &link)?;
    if load.probe {
        link.send(
            wire::DECLARED,
            0,
            "",
            &serde_json::to_vec(&isolation).unwrap_or_default(),
        );
        wait_to_be_ended();
    }
    match open(&load, arrived.library, &doing) {
        Ok((plugin, said)) => {
            link.send(
                wire::DECLARED,
                0,
                "",
                &serde_json::to_vec(&said).unwrap_or_default(),
            );
            run(plugin, &calls, &link);
        }
        Err(error) => link.refuse(&error),
    }
    wait_to_be_ended()
}

/// Whoever reads the refusal or the answer ends us.
fn wait_to_be_ended() -> ! {
    loop {
        std::thread::park();
    }
}

/// Reads the socket on a thread of its own: answers go to who waits for them, the rest to the first thread.
fn listen(
    mut socket: std::os::unix::net::UnixStream,
    link: &Arc<Link>,
) -> Result<Receiver<Frame>, String> {
    let (calls, receiver) = channel();
    let link = link.clone();
    let read = move || {
        loop {
            let Ok(frame) = wire::read(&mut socket) else {
                end()
            };
            match frame.kind {
                wire::ANSWER => link.answered(frame.id, Ok(frame.body)),
                wire::FAILED => link.answered(frame.id, Err(frame.body)),
                // The first thread lives as long as the process.
                _ => drop(calls.send(frame)),
            }
        }
    };
    let spawned = std::thread::Builder::new()
        .name("engine".into())
        .spawn(read);
    spawned.map_err(|error| format!("no thread for the socket: {error}"))?;
    Ok(receiver)
}

fn open(
    load: &Load,
    copy: std::os::fd::OwnedFd,
    doing: &str,
) -> Result<(&'static Plugin, Said), PortError> {
    let facts = Facts {
        symbol: load.symbol.clone(),
        symbol_size: load.symbol_size,
        glibc: load.glibc.clone(),
    };
    let plugin = library::open_copy(copy, &load.shown, &facts, doing)?;
    Ok((plugin, library::says(plugin)?))
}

/// Makes the driver, waits for the hook, runs it.
fn run(plugin: &'static Plugin, frames: &Receiver<Frame>, link: &Arc<Link>) {
    let Ok(create) = frames.recv() else { return };
    let side = |hook| {
        Arc::new(Side {
            link: link.clone(),
            hook,
        })
    };
    let driver = match make(plugin, Host::new(side(false)), &create.body) {
        Ok(driver) => driver,
        Err((status, error)) => {
            return link.send(
                wire::REFUSED,
                status,
                wire::CREATE_REFUSED,
                error.as_bytes(),
            );
        }
    };
    link.send(wire::READY, 0, "", b"");
    // A process that is kept for a hook which does not come ends by itself.
    let Ok(call) = frames.recv_timeout(IDLE) else {
        end()
    };
    link.send(wire::BEGUN, 0, "", b"");
    let Some(future) = driver.call(Host::new(side(true)), &call.name, &call.body) else {
        return link.send(wire::DONE, wire::NO_CALL, "", b"");
    };
    match block_on(future) {
        Ok(answer) => link.send(wire::DONE, READY_OK, "", answer.as_bytes()),
        Err(FfiError::Answer(error)) => link.send(wire::DONE, READY_ERR, "", &error),
        Err(FfiError::Panicked(said)) => link.send(wire::DONE, PANICKED, "", said.as_bytes()),
        Err(FfiError::Protocol(status)) => link.send(wire::DONE, status, "", b""),
        Err(other) => link.send(
            wire::DONE,
            wire::NO_CALL,
            "",
            format!("{other:?}").as_bytes(),
        ),
    }
}

fn make(plugin: &'static Plugin, host: Host, config: &[u8]) -> Result<Driver, (u32, Buf)> {
    let mut driver = MaybeUninit::<Driver>::uninit();
    let mut error = Buf::EMPTY;
    // The table was checked when the library was opened.
    let Some(create) = plugin.create else {
        return Err((wire::NO_CALL, error));
    };
    // SAFETY: `create` takes the host, reads the configuration and writes one of the other two.
    let status = unsafe {
        create(
            host,
            Slice::new(config),
            driver.as_mut_ptr(),
            &raw mut error,
        )
    };
    if status == READY_OK {
        // SAFETY: the plugin says that it wrote the driver.
        return Ok(unsafe { driver.assume_init() });
    }
    Err((status, error))
}

/// Wakes the thread that polls.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

fn block_on<F: Future>(future: F) -> F::Output {
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut future = pin!(future);
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return output;
        }
        std::thread::park();
    }
}
