//! Heat's engine is killed during an operation and restarted. The stack stays in progress forever: the driver repeats an
//! update, and deletes and recreates a creation past its time limit.
//!
//! The engine is that of `cargo xtask stack`, whose pid file is next to the clouds.yaml; it is restarted with
//! its command line and environment.

use crate::bed::{bed, connection};
use crate::cloud_user::CloudUser;
use crate::heal_scenarios::{assert_replaced, nth};
use crate::support::OneVdu;
use jiff::SignedDuration;
use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The engine's process, and how it was started.
struct Engine {
    home: PathBuf,
    command_line: Vec<std::ffi::OsString>,
    environment: BTreeMap<std::ffi::OsString, std::ffi::OsString>,
}

fn split(bytes: &[u8], at: u8) -> Vec<std::ffi::OsString> {
    let parts = bytes
        .split(move |byte| *byte == at)
        .filter(|part| !part.is_empty());
    parts
        .map(|part| std::ffi::OsString::from_vec(part.to_vec()))
        .collect()
}

/// A process's start time in clock ticks since boot (`/proc/PID/stat`, field 22); `None` if it has ended.
fn start_time(pid: u32) -> Option<String> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, rest) = stat.rsplit_once(')')?;
    rest.split_whitespace().nth(19).map(str::to_owned)
}

impl Engine {
    fn running() -> Self {
        let clouds = std::env::var("VNFM_LIVE_OPENSTACK").unwrap();
        let home = Path::new(&clouds).parent().unwrap().to_owned();
        let mut engine = Self {
            home,
            command_line: Vec::new(),
            environment: BTreeMap::new(),
        };
        let pid = engine.pid().expect("the engine of the stack runs");
        engine.command_line = split(&fs::read(format!("/proc/{pid}/cmdline")).unwrap(), 0);
        let environment = fs::read(format!("/proc/{pid}/environ")).unwrap();
        for entry in split(&environment, 0) {
            let bytes = entry.into_vec();
            if let Some(at) = bytes.iter().position(|byte| *byte == b'=') {
                let text = |part: &[u8]| std::ffi::OsString::from_vec(part.to_vec());
                engine
                    .environment
                    .insert(text(&bytes[..at]), text(&bytes[at + 1..]));
            }
        }
        engine
    }

    fn pid_file(&self) -> PathBuf {
        self.home.join("run/heat-engine.pid")
    }

    /// Its pid; `None` if it does not run.
    fn pid(&self) -> Option<u32> {
        let text = fs::read_to_string(self.pid_file()).ok()?;
        let (pid, since) = text.trim().split_once(' ')?;
        let pid = pid.parse().ok()?;
        (start_time(pid)? == since).then_some(pid)
    }

    /// Kills the process with SIGKILL, as a crash does.
    fn kill(&self) {
        let pid = self.pid().unwrap().to_string();
        assert!(
            Command::new("kill")
                .args(["-9", &pid])
                .status()
                .unwrap()
                .success()
        );
    }

    /// Starts it as before, in its own session.
    #[expect(
        clippy::zombie_processes,
        reason = "it belongs to the stack and outlives the test"
    )]
    fn restart(&self) {
        let log = self.home.join("log/heat-engine.out");
        let log = OpenOptions::new()
            .append(true)
            .create(true)
            .open(log)
            .unwrap();
        let child = Command::new("setsid")
            .args(&self.command_line)
            .env_clear()
            .envs(&self.environment)
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .unwrap();
        let since = start_time(child.id()).unwrap();
        fs::write(self.pid_file(), format!("{} {since}\n", child.id())).unwrap();
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        if self.pid().is_none() {
            self.restart();
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_update_is_repeated_after_the_heat_engine_died() {
    let Some(mut bed) = bed() else { return };
    bed.seconds = 150;
    let user = CloudUser::log_in(&connection().unwrap(), None).await;
    let allocation = OneVdu {
        count: 2,
        ..OneVdu::default()
    }
    .allocation(&bed);
    let scenario = async {
        let allocated = bed.instantiate(&allocation).await.unwrap();
        let targets = [nth(&allocated, "server", 0).id.clone()];
        let engine = Engine::running();
        let (healed, ()) = tokio::join!(bed.heal(&allocation, &allocated, &targets), async {
            bed.watcher.wait_for("UPDATE_IN_PROGRESS").await;
            engine.kill();
            engine.restart();
        });
        let healed = healed.unwrap();
        assert_replaced(&allocated, &healed, &targets);
        assert!(!user.has_server(&targets[0]).await);
        let messages = bed.watcher.messages();
        assert!(
            messages
                .iter()
                .any(|text| text.contains("updating it again")),
            "{messages:?}"
        );
        bed.release(&allocation, healed.handle).await.unwrap();
        assert!(bed.owned().await.is_empty());
    };
    bed.with_cleanup(&allocation, scenario).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_creation_is_repeated_after_the_heat_engine_died() {
    let Some(mut bed) = bed() else { return };
    bed.seconds = 60;
    let allocation = OneVdu::default().allocation(&bed);
    let mut cleaner = bed.restarted();
    cleaner.seconds = 120;
    let scenario = async {
        let prepared = bed.prepare(&allocation).await.unwrap();
        let engine = Engine::running();
        tokio::select! {
            allocated = bed.allocate(&allocation, &prepared) => panic!("the call ended before its first wait: {allocated:?}"),
            () = bed.watcher.wait_for("CREATE_IN_PROGRESS") => {}
        }
        engine.kill();
        engine.restart();
        // Heat's time limit was a minute: two minutes later the creation is abandoned.
        bed.clock.ahead = SignedDuration::from_mins(2);
        bed.seconds = 120;
        let allocated = bed.allocate(&allocation, &prepared).await.unwrap();
        let messages = bed.watcher.messages();
        assert!(
            messages
                .iter()
                .any(|text| text.contains("Heat has abandoned it")),
            "{messages:?}"
        );
        assert_eq!(allocated.inventory.vnfc_resource_info.len(), 1);
        assert_eq!(bed.owned().await, [bed.stack_name()]);
        bed.release(&allocation, allocated.handle).await.unwrap();
        assert!(bed.owned().await.is_empty());
    };
    cleaner.with_cleanup(&allocation, scenario).await;
}
