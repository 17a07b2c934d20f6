//! The real cloud and hosts of a test, which must leave them as empty as it found them.
//!
//! One test at a time uses them: it holds a lock. While it runs, a file lists the resources that existed before: a killed
//! test leaves that list, and the next one deletes what is not on it.

#![expect(clippy::unwrap_used, reason = "tests fail by panicking")]
#![expect(clippy::missing_panics_doc, reason = "tests fail by panicking")]

use std::collections::BTreeSet;
use std::fs::{self, File};
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
    list: List,
}

impl Real {
    /// `None`, with a message, if a system is missing.
    pub fn find() -> Option<Self> {
        let (clouds, hosts) = (
            neighbour("VNFM_LIVE_OPENSTACK")?,
            neighbour("VNFM_LIVE_HOSTS")?,
        );
        let list = List::lock(&clouds);
        let cloud = Cloud::login(&clouds);
        let left = list.read();
        let was_killed = left.is_some();
        let real = Self {
            before: left.unwrap_or_else(|| cloud.inventory(&hosts)),
            clouds,
            hosts,
            list,
        };
        if was_killed {
            real.delete_leftovers();
        }
        real.list.write(&real.before);
        Some(real)
    }

    /// Deletes what a killed test left: it exhausts the project's quota, and its hosts have the names of the next ones.
    fn delete_leftovers(&self) {
        let left = self.new_resources();
        if !left.is_empty() {
            println!("a killed test left {left:#?}");
            self.cloud().delete_loose(&self.before);
            self.cloud().delete_stacks(&self.before);
            until("the leftovers are deleted", Duration::from_mins(3), || {
                self.cloud().delete_loose(&self.before);
                self.new_resources().is_empty().then_some(())
            });
        }
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
    /// Deletes the stacks of a failed scenario, and what was created outside of them.
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.cloud().delete_loose(&self.before);
            self.cloud().delete_stacks(&self.before);
        }
        self.list.remove();
    }
}

/// The resources that existed before the running test.
#[derive(Debug)]
struct List {
    path: PathBuf,
    /// Never written: its lock ends with the process.
    _lock: File,
}

impl List {
    /// Waits until no other test uses the systems.
    fn lock(clouds: &Path) -> Self {
        let lock = File::create(clouds.with_extension("lock")).unwrap();
        lock.lock().unwrap();
        Self {
            path: clouds.with_extension("before-test"),
            _lock: lock,
        }
    }

    /// What a killed test left; `None` if the last one ended.
    fn read(&self) -> Option<BTreeSet<String>> {
        let text = fs::read_to_string(&self.path).ok()?;
        Some(text.lines().map(str::to_owned).collect())
    }

    fn write(&self, resources: &BTreeSet<String>) {
        let lines: Vec<_> = resources.iter().map(String::as_str).collect();
        fs::write(&self.path, lines.join("\n")).unwrap();
    }

    fn remove(&self) {
        let _ = fs::remove_file(&self.path); // the cloud may have been stopped
    }
}

/// A server with the cloud registered by this login, at this log level.
pub fn testbed_at(clouds: &Path, log: &str) -> Testbed {
    Testbed::new(tempfile::tempdir().unwrap(), clouds, 22, log)
}

#[cfg(test)]
mod tests {
    use super::{BTreeSet, List};

    #[test]
    fn a_killed_test_leaves_its_list_and_one_that_ended_does_not() {
        let folder = tempfile::tempdir().unwrap();
        let clouds = folder.path().join("clouds.yaml");
        let before = BTreeSet::from(["network a 1".to_owned(), "stack b 2".to_owned()]);
        assert_eq!(List::lock(&clouds).read(), None);
        List::lock(&clouds).write(&before);
        let next = List::lock(&clouds);
        assert_eq!(next.read(), Some(before));
        next.remove();
        assert_eq!(next.read(), None);
    }
}
