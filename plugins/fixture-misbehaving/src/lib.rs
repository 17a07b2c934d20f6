//! A driver that misbehaves in a different way in each hook, for the tests of the plugin host.

#![expect(
    clippy::unused_async,
    reason = "hooks must be async, even those that never wait"
)]

mod worse;

use schemars::JsonSchema;
use serde::Deserialize;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use vnfm_plugin_sdk::prelude::*;

/// The configuration, which decides how `create` fails.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Config {
    /// `refuse`, `panic` or `abort`; it succeeds if absent.
    create: Option<String>,
}

/// The parameters of most hooks.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Pipe {
    /// A named pipe; the hook blocks until it is opened for writing.
    path: String,
}

/// The parameters of `instantiate_start`, which fails as they say.
#[derive(Debug, Default, Deserialize, JsonSchema)]
pub struct Wrong {
    /// How it misbehaves; it panics if absent. [`worse`] lists further ways.
    how: Option<String>,
    /// A named pipe, for calls after the end of the hook; or the paths to steal, one per line.
    path: Option<String>,
}

/// A driver whose hooks misbehave on request.
pub struct Misbehaving;

impl MgmtDriver for Misbehaving {
    type Config = Config;

    fn new(config: Config) -> Result<Self, DriverError> {
        match config.create.as_deref() {
            Some("refuse") => Err(DriverError::new("no-mood", "I will not")),
            Some("panic") => panic!("no driver today"),
            Some("abort") => std::process::abort(),
            _ => Ok(Self),
        }
    }

    fn hooks(hooks: Hooks<Self>) -> Hooks<Self> {
        hooks
            .on("instantiate_start", Self::panics)
            .on("instantiate_end", Self::panics_later)
            .on("scale_start", Self::never_ends)
            .on("scale_end", Self::blocks)
            .on("heal_start", Self::fails)
            .on("heal_end", Self::panics_when_dropped)
            .on("terminate_start", Self::asks_nonsense)
            .on("terminate_end", Self::resumes)
    }
}

impl Misbehaving {
    async fn panics(
        self: Arc<Self>,
        cx: HookContext,
        request: HookRequest<Wrong>,
    ) -> Result<Effects, DriverError> {
        let Wrong { how, path } = &request.additional_params;
        match how.as_deref() {
            None => panic!("a bug on attempt {}", request.attempt),
            Some("late") => {
                late(cx, path.clone().unwrap_or_default());
                Ok(Effects::none())
            }
            Some("steal") => {
                let paths = path.clone().unwrap_or_default();
                Ok(Effects::none().message(worse::steal(&paths)))
            }
            Some(how) => {
                let namespace = std::fs::read_link("/proc/self/ns/pid").unwrap_or_default();
                cx.info(&format!("process {}", namespace.display()));
                worse::be(how)
                    .await
                    .map(|message| Effects::none().message(message))
            }
        }
    }

    async fn panics_later(
        self: Arc<Self>,
        cx: HookContext,
        _: HookRequest<NoParams>,
    ) -> Result<Effects, DriverError> {
        cx.progress(10, "so far, so good").await;
        panic!("a bug after a call")
    }

    async fn never_ends(
        self: Arc<Self>,
        cx: HookContext,
        _: HookRequest<NoParams>,
    ) -> Result<Effects, DriverError> {
        let _tells = Tells(cx.clone());
        cx.waiting("what never comes").await;
        std::future::pending().await
    }

    async fn blocks(
        self: Arc<Self>,
        _: HookContext,
        request: HookRequest<Pipe>,
    ) -> Result<Effects, DriverError> {
        let read = std::fs::read(&request.additional_params.path);
        read.map(|_| Effects::none())
            .map_err(|error| DriverError::new("pipe", error.to_string()))
    }

    async fn fails(
        self: Arc<Self>,
        _: HookContext,
        _: HookRequest<NoParams>,
    ) -> Result<Effects, DriverError> {
        let failed = DriverError::new("join-failed", "the join ended with an error");
        let failed = failed.host("worker1").phase("join").exit_code(1);
        Err(failed.retryable().last_lines("one\n\ntwo\n"))
    }

    async fn panics_when_dropped(
        self: Arc<Self>,
        _: HookContext,
        _: HookRequest<NoParams>,
    ) -> Result<Effects, DriverError> {
        let _bomb = Bomb;
        std::future::pending().await
    }

    async fn asks_nonsense(
        self: Arc<Self>,
        cx: HookContext,
        _: HookRequest<NoParams>,
    ) -> Result<Effects, DriverError> {
        let response = cx
            .call::<NoParams>("ssh.rum", Vec::<u8>::new().into())
            .await;
        Ok(Effects::none().message(response.map_or_else(|e| e.to_string(), |_| "served".into())))
    }

    async fn resumes(
        self: Arc<Self>,
        cx: HookContext,
        request: HookRequest<NoParams>,
    ) -> Result<Effects, DriverError> {
        let done = cx.step("count", async { Ok(request.attempt) }).await?;
        if request.attempt == 1 {
            return Err(
                DriverError::new("first-time", "the first attempt always fails").retryable(),
            );
        }
        Ok(Effects::none()
            .message(format!("counted in attempt {done}"))
            .unregister_vim("cluster"))
    }
}

/// Waits for the pipe on its own thread, then calls a service, and writes the response to `PIPE.answer`.
fn late(cx: HookContext, pipe: String) {
    std::thread::spawn(move || {
        let _ = std::fs::read(&pipe);
        cx.info("still here");
        let mut asking = std::pin::pin!(cx.call::<NoParams>("progress", Vec::<u8>::new().into()));
        let polled = asking
            .as_mut()
            .poll(&mut Context::from_waker(Waker::noop()));
        let text = match polled {
            Poll::Pending => "pending".to_owned(),
            Poll::Ready(answer) => {
                answer.map_or_else(|error| error.to_string(), |_| "served".into())
            }
        };
        let _ = std::fs::write(format!("{pipe}.answer"), text);
    });
}

struct Tells(HookContext);

impl Drop for Tells {
    fn drop(&mut self) {
        self.0.info("dropped");
    }
}

struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        panic!("a bug in drop");
    }
}

export_mgmt_driver!(Misbehaving);
