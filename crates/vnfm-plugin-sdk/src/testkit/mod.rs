//! Tests a driver without a VNFM: hosts, HTTP, package and store are scripted and kept in memory.
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
//! Time stands still: `sleep` returns at once. What no rule knows is answered as a real host would: a command
//! with exit code 127, a URL with no answer.

mod host;
mod request;
mod script;

pub use host::{TestHost, Uploaded};
pub use request::{TestRequest, request};
pub use script::Reply;
