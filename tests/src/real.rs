//! The real cloud and hosts of a test, which must leave them as empty as it found them.

#![expect(clippy::unwrap_used, reason = "tests fail by panicking")]
#![expect(clippy::missing_panics_doc, reason = "tests fail by panicking")]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::cloud::Cloud;
use crate::live::neighbour;
use crate::programs::until;
use crate::testbed::Testbed;

/// The real cloud, and its resources before the test.
#[derive(Debug)]
pub struct Real {
    /// clouds.yaml
    pub clouds: PathBuf,
    /// Folder of the hosts.
    pub hosts: PathBuf,
    before: BTreeSet<String>,
}

impl Real {
    /// `None`, with a message, if a system is missing.
    pub fn find() -> Option<Self> {
        let (clouds, hosts) = (
            neighbour("VNFM_LIVE_OPENSTACK")?,
            neighbour("VNFM_LIVE_HOSTS")?,
        );
        let before = Cloud::login(&clouds).inventory(&hosts);
        Some(Self {
            clouds,
            hosts,
            before,
        })
    }

    /// A server with the cloud registered.
    pub fn testbed(&self) -> Testbed {
        testbed_at(&self.clouds, "info")
    }

    /// New resources, as `kind name id`.
    pub fn new_resources(&self) -> BTreeSet<String> {
        self.cloud()
            .inventory(&self.hosts)
            .difference(&self.before)
            .cloned()
            .collect()
    }

    /// A session of `nfv`.
    pub fn cloud(&self) -> Cloud {
        Cloud::login(&self.clouds)
    }

    /// Whether this server existed before.
    pub fn had_server(&self, name: &str, id: &str) -> bool {
        self.before.contains(&format!("server {name} {id}"))
    }

    /// Waits until all new resources are deleted; hosts disappear shortly after their servers.
    pub fn wait_until_clean(&self) {
        let mut left = BTreeSet::new();
        let settled = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            until("nothing is left behind", Duration::from_secs(30), || {
                left = self.new_resources();
                left.is_empty().then_some(())
            });
        }));
        assert!(settled.is_ok(), "left behind: {left:#?}");
    }
}

impl Drop for Real {
    /// Deletes the stacks of a failed scenario.
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.cloud().delete_stacks(&self.before);
        }
    }
}

/// A server with the cloud registered by this login, at this log level.
pub fn testbed_at(clouds: &Path, log: &str) -> Testbed {
    Testbed::new(tempfile::tempdir().unwrap(), clouds, 22, log)
}
