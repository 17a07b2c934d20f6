//! Heat's engine is killed in the middle and started again. What it worked on stays in progress for ever: an update is
//! asked for again, a creation past its time limit is deleted and made anew.
//!
//! The engine is that of `cargo xtask stack`: its pid lies beside the clouds.yaml, and it is started again as it was.

use crate::hands::Hands;
use crate::heals::{nth, replaced_are};
use crate::real::{connection, place};
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
    words: Vec<std::ffi::OsString>,
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

/// When a process began, as the kernel counts; none where it is gone.
fn began(pid: u32) -> Option<String> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, rest) = stat.rsplit_once(')')?;
    rest.split_whitespace().nth(19).map(str::to_owned)
}

impl Engine {
    fn found() -> Self {
        let clouds = std::env::var("VNFM_LIVE_OPENSTACK").unwrap();
        let home = Path::new(&clouds).parent().unwrap().to_owned();
        let mut engine = Self {
            home,
            words: Vec::new(),
            environment: BTreeMap::new(),
        };
        let pid = engine.pid().expect("the engine of the stack runs");
        engine.words = split(&fs::read(format!("/proc/{pid}/cmdline")).unwrap(), 0);
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

    /// Its pid, where it runs.
    fn pid(&self) -> Option<u32> {
        let text = fs::read_to_string(self.pid_file()).ok()?;
        let (pid, since) = text.trim().split_once(' ')?;
        let pid = pid.parse().ok()?;
        (began(pid)? == since).then_some(pid)
    }

    /// `kill -9`.
    fn dies(&self) {
        let pid = self.pid().unwrap().to_string();
        assert!(
            Command::new("kill")
                .args(["-9", &pid])
                .status()
                .unwrap()
                .success()
        );
    }

    /// Started as it was before, in a session of its own.
    #[expect(
        clippy::zombie_processes,
        reason = "it belongs to the stack and outlives the test"
    )]
    fn lives(&self) {
        let log = self.home.join("log/heat-engine.out");
        let log = OpenOptions::new()
            .append(true)
            .create(true)
            .open(log)
            .unwrap();
        let child = Command::new("setsid")
            .args(&self.words)
            .env_clear()
            .envs(&self.environment)
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .unwrap();
        let since = began(child.id()).unwrap();
        fs::write(self.pid_file(), format!("{} {since}\n", child.id())).unwrap();
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        if self.pid().is_none() {
            self.lives();
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_update_whose_engine_died_is_asked_for_again() {
    let Some(mut place) = place() else { return };
    place.seconds = 150;
    let hands = Hands::of(&connection().unwrap(), None).await;
    let what = OneVdu {
        count: 2,
        ..OneVdu::default()
    }
    .on(&place);
    let story = async {
        let made = place.make(&what).await.unwrap();
        let meant = [nth(&made, "server", 0).id.clone()];
        let engine = Engine::found();
        let (healed, ()) = tokio::join!(place.heal(&what, &made, &meant), async {
            place.ear.hears("UPDATE_IN_PROGRESS").await;
            engine.dies();
            engine.lives();
        });
        let healed = healed.unwrap();
        replaced_are(&made, &healed, &meant);
        assert!(!hands.has_server(&meant[0]).await);
        let heard = place.ear.all();
        assert!(
            heard
                .iter()
                .any(|text| text.contains("asking for its update again")),
            "{heard:?}"
        );
        place.release(&what, healed.handle).await.unwrap();
        assert!(place.owned().await.is_empty());
    };
    place.cleaned(&what, story).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_creation_whose_engine_died_is_made_again() {
    let Some(mut place) = place() else { return };
    place.seconds = 60;
    let what = OneVdu::default().on(&place);
    let mut cleaner = place.twin();
    cleaner.seconds = 120;
    let story = async {
        let prepared = place.prepare(&what).await.unwrap();
        let engine = Engine::found();
        tokio::select! {
            made = place.allocate(&what, &prepared) => panic!("faster than its first wait: {made:?}"),
            () = place.ear.hears("CREATE_IN_PROGRESS") => {}
        }
        engine.dies();
        engine.lives();
        // Heat was given a minute. Two minutes later nobody can be at work on it.
        place.clock.ahead = SignedDuration::from_mins(2);
        place.seconds = 120;
        let made = place.allocate(&what, &prepared).await.unwrap();
        let heard = place.ear.all();
        assert!(
            heard.iter().any(|text| text.contains("nobody works on it")),
            "{heard:?}"
        );
        assert_eq!(made.inventory.vnfc_resource_info.len(), 1);
        assert_eq!(place.owned().await, [place.stack_name()]);
        place.release(&what, made.handle).await.unwrap();
        assert!(place.owned().await.is_empty());
    };
    cleaner.cleaned(&what, story).await;
}
