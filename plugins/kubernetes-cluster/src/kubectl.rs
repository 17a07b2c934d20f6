//! kubectl on a control-plane node, for what needs no login of the VIM.
//!
//! A call is repeated for a while if the API server does not respond, as [`crate::api`] repeats its own: upgrades, renewals and
//! restores restart it, and after a crash of the VNFM that may be going on. Any other response counts.

use crate::api::{MAX_FAILURES, RETRY_INTERVAL};
use crate::machine::Machine;
use vnfm_plugin_sdk::prelude::*;

/// kubectl with the administrator's login of the node.
pub(crate) const KUBECTL: &str = "kubectl --kubeconfig=/etc/kubernetes/admin.conf";

/// What kubectl prints if the API server, or etcd behind it, does not respond, or has not loaded roles and bindings yet: the
/// administrator has all rights.
const NO_RESPONSE: [&str; 12] = [
    "The connection to the server",
    "Unable to connect to the server",
    "connection refused",
    "connection reset by peer",
    "TLS handshake timeout",
    "unexpected EOF",
    "(ServiceUnavailable)",
    "(Timeout)",
    "(TooManyRequests)",
    "(Forbidden)",
    // `apply` reads the API's description before it sends an object.
    "failed to download openapi",
    "etcdserver:",
];

impl Machine<'_> {
    /// Runs kubectl with these arguments and this standard input.
    ///
    /// # Errors
    ///
    /// If kubectl fails with another response of the API server, or 40 times in a row without one. A second passes between two
    /// attempts, each of which may take two minutes; the hook's own time limit ends the wait, too.
    pub(crate) async fn kubectl(
        &self,
        phase: &str,
        (arguments, input): (&str, Secret),
    ) -> Result<Output, DriverError> {
        let line = format!("{KUBECTL} {arguments}");
        let mut failed = 0;
        loop {
            let output = self.try_run(phase, &line, input.clone()).await?;
            if output.ok() {
                return Ok(output);
            }
            failed += 1;
            let text = &output.stderr;
            if failed == MAX_FAILURES || !NO_RESPONSE.iter().any(|part| text.contains(part)) {
                return Err(self.failure(phase, output.exit_code, text));
            }
            let condition = format!("the API server on `{}`", self.node.name);
            self.cx.pause(&condition, RETRY_INTERVAL).await?;
        }
    }
}
