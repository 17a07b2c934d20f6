//! Tests a driver without a VNFM: hosts, HTTP responses, package and checkpoints are scripted, in memory.
//!
//! ```
//! use vnfm_plugin_sdk::testkit::{Reply, TestHost, request};
//! # use vnfm_plugin_sdk::prelude::*;
//! # use std::sync::Arc;
//! # struct Greeter;
//! # impl MgmtDriver for Greeter {
//! #     type Config = NoConfig;
//! #     fn new(_: NoConfig) -> Result<Self, DriverError> { Ok(Self) }
//! #     fn hooks(hooks: Hooks<Self>) -> Hooks<Self> { hooks.on("instantiate_end", Self::end) }
//! # }
//! # impl Greeter {
//! #     async fn end(self: Arc<Self>, cx: HookContext, r: HookRequest<NoParams>) -> Result<Effects, DriverError> {
//! #         for vnfc in r.vnfcs() {
//! #             cx.ssh(vnfc.ssh("CP1", "root")?).check("greet", "echo hello").await?;
//! #         }
//! #         Ok(Effects::none())
//! #     }
//! # }
//! let host = TestHost::new().ssh("10.0.0.1", "echo", Reply::ok("hello\n"));
//! let request = request("instantiate_end").vnfc("VDU1", "web-1", &[("CP1", "10.0.0.1")]);
//! host.run::<Greeter>(request).unwrap();
//! assert_eq!(host.commands(), ["10.0.0.1: echo hello"]);
//! ```
//!
//! [`trial()`] then injects one fault at a time, at every call, and checks that the hook recovers.
//!
//! `sleep` returns immediately. Calls that no rule matches fail as on a real host: a command with exit code 127,
//! an HTTP request without a response.

mod host;
mod report;
mod request;
mod script;
mod stored;
mod trial;
mod uploaded;
mod values;
mod world;

/// Runs a future to completion, for tests of a part of a driver.
///
/// ```
/// use vnfm_plugin_sdk::testkit::{Reply, TestHost, block_on};
/// use vnfm_plugin_sdk::SshTarget;
///
/// let host = TestHost::new().ssh("10.0.0.1", "uname", Reply::ok("Linux\n"));
/// let ssh = host.context().ssh(SshTarget::new("server-1", "10.0.0.1", "ubuntu"));
/// assert_eq!(block_on(ssh.run("uname")).unwrap().stdout, "Linux\n");
/// ```
pub fn block_on<F: Future>(future: F) -> F::Output {
    futures::executor::block_on(future)
}

pub use host::TestHost;
pub use report::{TrialReport, Violations};
pub use request::{TestRequest, request};
pub use script::Reply;
pub use trial::{Trial, trial, trial_each};
pub use uploaded::Uploaded;
pub use world::World;
