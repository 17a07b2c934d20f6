//! A client of VNF-B on the real cluster, which requests its page without a pause and records each failure.

#![expect(clippy::unwrap_used, reason = "tests fail by panicking")]

use crate::cluster_access::{ClusterShell, b_namespace};
use crate::host::Host;
use crate::programs::until;
use crate::real::Real;
use crate::testbed::{LONG, Testbed};

/// Requests VNF-B's page from a host of the cluster, one request after the other, until the file `stop` exists. Failures
/// count from the first response on: kube-proxy needs a moment for a new service.
const CLIENT: &str = "
rm -rf /run/load; mkdir /run/load; cd /run/load; echo 0 >served
(
    served=0
    until curl -sSf -m 5 -o page http://ADDRESS/ 2>error || [ -e stop ]; do :; done
    while [ ! -e stop ]; do
        if curl -sSf -m 5 -o page http://ADDRESS/ 2>error; then
            served=$((served + 1)); echo $served >served.new; mv served.new served
        else
            echo \"$(date +%T.%N) $(cat error)\" >>failed
        fi
    done
    touch stopped
) </dev/null >/dev/null 2>&1 &
";

/// A client of VNF-B's service on a host of the cluster.
#[derive(Debug)]
pub struct Client<'a> {
    host: Host<'a>,
}

impl<'a> Client<'a> {
    /// Starts it on the control-plane node, and waits for the first response.
    ///
    /// # Panics
    /// If no response arrives in time.
    #[must_use]
    pub fn start(real: &'a Real, testbed: &Testbed, inside: &ClusterShell) -> Self {
        Self::start_on("masterNode", (real, testbed), inside)
    }

    /// The same, on another host of the cluster.
    ///
    /// # Panics
    /// If no response arrives in time.
    #[must_use]
    pub fn start_on(
        host: &'static str,
        (real, testbed): (&'a Real, &Testbed),
        inside: &ClusterShell,
    ) -> Self {
        let namespace = b_namespace(testbed);
        let line = format!("get service web -n {namespace} -o jsonpath='{{.spec.clusterIP}}'");
        let address = inside.kubectl(&line).unwrap();
        let host = Host::new(real, host);
        host.inside(&CLIENT.replace("ADDRESS", address.trim()));
        let client = Self { host };
        until("the first response", LONG, || {
            (client.served() > 0).then_some(())
        });
        client
    }

    fn served(&self) -> u64 {
        let text = self.host.inside("cat /run/load/served");
        text.trim().parse().unwrap_or(0)
    }

    /// Ends it; the number of responses, and the failures.
    ///
    /// # Panics
    /// If it does not end in time.
    #[must_use]
    pub fn end(self) -> (u64, String) {
        self.host.inside("touch /run/load/stop");
        until("the client has ended", LONG, || {
            let ended = "[ -e /run/load/stopped ] && echo yes || true";
            (self.host.inside(ended).trim() == "yes").then_some(())
        });
        let failed = self.host.inside("cat /run/load/failed 2>/dev/null || true");
        (self.served(), failed)
    }
}
