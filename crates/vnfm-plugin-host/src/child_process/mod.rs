//! The code of a hook process: confines itself, opens the library, runs one hook, and waits to be killed.
//!
//! ```text
//! arrive   move socket and library away from stdin and stdout, close everything else  sandbox.rs
//! LOAD     limits, user, namespaces, files, system calls                              sandbox.rs
//!          fork: the child continues, its parent supervises it                        supervise.rs
//!          open the library, describe it
//! CREATE   create the driver
//! CALL     poll the hook on this thread; service calls go over the socket             services.rs
//! ```
//!
//! A second thread reads the socket from the start. When it is closed, the engine has ended or is done with the hook,
//! and this process exits, even if the first thread is in an endless loop.
#![expect(unsafe_code, reason = "calls the plugin's `create`")]

mod landlock;
mod root;
mod sandbox;
mod seccomp;
mod services;
mod supervise;
mod system;
pub(crate) mod user;
pub(crate) mod visible;

pub(crate) use services::HOOK_LOG;

use crate::elf::Facts;
use crate::errors::{NOT_APART, RUNNER};
use crate::library;
use crate::library::PluginInfo;
use crate::process_runner::SPARE_LIFETIME;
use crate::process_runner::load::Load;
use crate::process_runner::wire::{self, Frame};
use sandbox::{Arrived, Failure};
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

/// Runs one hook for the engine that started this process. A program calls it first thing in `main`, in
/// the mode that [`crate::ProcessConfig`] selects.
///
/// The program must not have started any other thread. The function returns only if no engine started the program.
pub fn plugin_runner() -> ExitCode {
    let ended = sandbox::arrive().and_then(serve);
    if let Err(detail) = ended {
        // There is no other channel to report it.
        let _ = writeln!(std::io::stderr(), "error: {detail}");
    }
    ExitCode::from(2)
}

/// Ends this process; its supervisor kills everything it started.
fn exit_process() -> ! {
    // SAFETY: ends this process with all its threads, without running code of the plugin.
    unsafe { libc::_exit(2) }
}

fn serve(mut arrived: Arrived) -> Result<(), String> {
    let unusable = |error: std::io::Error| format!("cannot use the socket: {error}");
    let first = wire::read(&mut arrived.socket).map_err(unusable)?;
    let load: Load = serde_json::from_slice(&first.body)
        .map_err(|error| format!("the engine's message is malformed: {error}"))?;
    let writing = arrived.socket.try_clone().map_err(unusable)?;
    let link = Arc::new(Link::new(writing));
    let action = format!("load plugin library `{}`", load.library_path);
    let isolation = match sandbox::confine(&load) {
        Ok(isolation) => isolation,
        Err(refusal) => {
            let (code, detail) = match refusal {
                Failure::Failed(detail) => (&RUNNER, detail),
                Failure::NotIsolated(detail) => (&NOT_APART, detail),
            };
            link.refuse(&PortError::new(code, action, detail));
            exit_process();
        }
    };
    let calls = spawn_reader(arrived.socket, &link)?;
    if load.probe {
        declare(&link, &action, &isolation);
        park_until_killed();
    }
    match open(&load, arrived.library, &action) {
        Ok((plugin, info)) => {
            declare(&link, &action, &info);
            run(plugin, &calls, &link);
        }
        Err(error) => link.refuse(&error),
    }
    park_until_killed()
}

/// Sends what was found, or why it has no JSON form.
fn declare<T: serde::Serialize>(link: &Link, action: &str, found: &T) {
    match serde_json::to_vec(found) {
        Ok(bytes) => link.send(wire::DECLARED, 0, "", &bytes),
        Err(error) => link.refuse(&PortError::new(&RUNNER, action, error.to_string())),
    }
}

/// The engine kills this process after it has read the error or the result.
fn park_until_killed() -> ! {
    loop {
        std::thread::park();
    }
}

/// Reads the socket on its own thread: responses complete their calls, the rest goes to the first thread.
fn spawn_reader(
    mut socket: std::os::unix::net::UnixStream,
    link: &Arc<Link>,
) -> Result<Receiver<Frame>, String> {
    let (calls, receiver) = channel();
    let link = link.clone();
    let read = move || {
        loop {
            let Ok(frame) = wire::read(&mut socket) else {
                exit_process()
            };
            match frame.kind {
                wire::ANSWER => link.complete(frame.id, Ok(frame.body)),
                wire::FAILED => link.complete(frame.id, Err(frame.body)),
                // The first thread lives as long as the process.
                _ => drop(calls.send(frame)),
            }
        }
    };
    let spawned = std::thread::Builder::new()
        .name("engine".into())
        .spawn(read);
    spawned.map_err(|error| format!("cannot start a thread for the socket: {error}"))?;
    Ok(receiver)
}

fn open(
    load: &Load,
    copy: std::os::fd::OwnedFd,
    action: &str,
) -> Result<(&'static Plugin, PluginInfo), PortError> {
    let facts = Facts {
        symbol: load.symbol.clone(),
        symbol_size: load.symbol_size,
        glibc: load.glibc.clone(),
    };
    let plugin = library::open_copy(copy, &load.library_path, &facts, action)?;
    Ok((plugin, library::plugin_info(plugin)?))
}

/// Creates the driver, waits for the hook, runs it.
fn run(plugin: &'static Plugin, frames: &Receiver<Frame>, link: &Arc<Link>) {
    let Ok(create) = frames.recv() else { return };
    let side = |hook| {
        Arc::new(Side {
            link: link.clone(),
            hook,
        })
    };
    let driver = match create_driver(plugin, Host::new(side(false)), &create.body) {
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
    // An unused spare process exits.
    let Ok(call) = frames.recv_timeout(SPARE_LIFETIME) else {
        exit_process()
    };
    link.send(wire::BEGUN, 0, "", b"");
    let Some(future) = driver.call(Host::new(side(true)), &call.name, &call.body) else {
        return link.send(wire::DONE, wire::NO_CALL, "", b"");
    };
    match block_on(future) {
        Ok(answer) => link.send(wire::DONE, READY_OK, "", answer.as_bytes()),
        Err(FfiError::Answer(error)) => link.send(wire::DONE, READY_ERR, "", &error),
        Err(FfiError::Panicked(info)) => link.send(wire::DONE, PANICKED, "", info.as_bytes()),
        Err(FfiError::Protocol(status)) => link.send(wire::DONE, status, "", b""),
        Err(other) => link.send(
            wire::DONE,
            wire::NO_CALL,
            "",
            format!("{other:?}").as_bytes(),
        ),
    }
}

fn create_driver(plugin: &'static Plugin, host: Host, config: &[u8]) -> Result<Driver, (u32, Buf)> {
    let mut driver = MaybeUninit::<Driver>::uninit();
    let mut error = Buf::EMPTY;
    // The table was checked when the library was opened.
    let Some(create) = plugin.create else {
        return Err((wire::NO_CALL, error));
    };
    // SAFETY: `create` takes the host, reads the configuration and writes the driver or the error.
    let status = unsafe {
        create(
            host,
            Slice::new(config),
            driver.as_mut_ptr(),
            &raw mut error,
        )
    };
    if status == READY_OK {
        // SAFETY: with this status, `create` has written the driver.
        return Ok(unsafe { driver.assume_init() });
    }
    Err((status, error))
}

/// A waker that unparks the polling thread.
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
