//! What a test has in place of the script of a test host.

use crate::error::ServiceError;
use futures::future::BoxFuture;
use serde_json::Value;

/// Serves calls instead of the script, for instance with hosts behind a real protocol or a simulated API.
///
/// The host that [`TestHost::with_world`](super::TestHost::with_world) creates still injects faults, keeps checkpoints and
/// records calls.
///
/// ```
/// use std::pin::Pin;
/// use std::sync::Arc;
/// use vnfm_plugin_sdk::serde_json::{Value, json};
/// use vnfm_plugin_sdk::testkit::{TestHost, World, block_on};
/// use vnfm_plugin_sdk::{HttpRequest, ServiceError};
///
/// type Response = Option<Result<Value, ServiceError>>;
///
/// /// An API that is always up.
/// struct Api;
///
/// impl World for Api {
///     fn call(&self, service: &str, _: &Value) -> Pin<Box<dyn Future<Output = Response> + Send>> {
///         let is_known = service == "http";
///         Box::pin(async move { is_known.then(|| Ok(json!({"status": 200, "body": "up"}))) })
///     }
/// }
///
/// let host = TestHost::with_world(Arc::new(Api));
/// let response = block_on(host.context().http(HttpRequest::new("GET", "https://10.0.0.1/"))).unwrap();
/// assert_eq!(response.body, "up");
/// ```
pub trait World: Send + Sync {
    /// Serves a call, such as `ssh.run`; `None` leaves it to the script.
    fn call(
        &self,
        service: &str,
        request: &Value,
    ) -> BoxFuture<'static, Option<Result<Value, ServiceError>>>;
}
