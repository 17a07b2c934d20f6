//! Scripts and plugins that try to reach the server's files and process: started by root, by another user, and without
//! namespaces, without mounts, or without both.
#![expect(unsafe_code, reason = "starts itself with fewer system calls")]

use super::{BASH, Side, WANTED, World, hook};
use crate::world::{AMPLE, Folder, RealClock, Remembering, built, request};
use serde_json::{Value, json};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use tempfile::TempDir;
use vnfm_core::ports::MgmtDrivers as _;
use vnfm_plugin_host::{AllowedScripts, PluginHost, Runner};

/// A user ID that nothing else on this machine has.
const NOBODY: u32 = 65534;
/// The expected isolation, if a test of this program started it again.
const EXPECTED: &str = "VNFM_TEST_ISOLATION";

/// A data folder that every user may read and write, so that only the isolation protects it.
struct Server(TempDir);

impl Server {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let open =
            |path: &Path, mode| std::fs::set_permissions(path, PermissionsExt::from_mode(mode));
        for file in ["secrets.key", "vnfm.db", "vnfm.yaml", "nfvo-password"] {
            let path = dir.path().join(file);
            std::fs::write(&path, "planted").unwrap();
            open(&path, 0o666).unwrap();
        }
        open(dir.path(), 0o777).unwrap();
        Self(dir)
    }

    /// The paths to steal: its files, its folder, and its process.
    fn paths(&self) -> Vec<PathBuf> {
        let files = std::fs::read_dir(self.0.path())
            .unwrap()
            .map(|file| file.unwrap().path());
        let own = [
            "environ", "mem", "maps", "fd", "cmdline", "root/etc", "cwd/src",
        ];
        let process = PathBuf::from(format!("/proc/{}", std::process::id()));
        let own = own.map(|name| process.join(name));
        files.chain([self.0.path().to_owned()]).chain(own).collect()
    }

    fn is_untouched(&self) {
        assert_eq!(std::fs::read_dir(self.0.path()).unwrap().count(), 4);
        let key = std::fs::read_to_string(self.0.path().join("secrets.key")).unwrap();
        assert_eq!(key, "planted");
    }
}

/// Checks that the isolation is the one that the starting test expects.
fn as_expected(plugins: &PluginHost) {
    let isolation = plugins.isolation().unwrap().to_string();
    let expected = std::env::var(EXPECTED).unwrap_or_default();
    for word in expected.split('+') {
        assert!(isolation.contains(word), "no `{word}` in: {isolation}");
    }
}

#[tokio::test]
async fn a_script_cannot_reach_the_server() {
    let (world, server) = (World::new(), Server::new());
    as_expected(&world.plugins);
    let paths: Vec<_> = server
        .paths()
        .iter()
        .map(|path| path.display().to_string())
        .collect();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let script = SCRIPT
        .replace("PORT", &port.to_string())
        .replace("PATHS", &paths.join(" "))
        .replace("DATA", &server.0.path().display().to_string())
        .replace("SERVER", &std::process::id().to_string());
    let side = Side::with_script(&script);
    let effects = world.run(&side, hook(BASH, AMPLE)).await.unwrap();
    let got = effects.metadata["got"].as_str().unwrap();
    assert_eq!(got, "own ", "it has its own folder, and nothing else");
    server.is_untouched();
}

const SCRIPT: &str = r#"
cat >/dev/null
got=
tried() { if "${@:2}" >/dev/null 2>&1; then got+="$1 "; fi; }
tried own bash -c 'echo x > "$TMPDIR/own" && cat "$TMPDIR/own"'
for path in PATHS; do
  tried "opened:$path" bash -c "exec 3<'$path'"
  tried "listed:$path" ls "$path/"
  tried "wrote:$path" bash -c "exec 3>>'$path'"
done
tried made touch DATA/made
tried removed rm DATA/secrets.key
tried renamed mv DATA/secrets.key "$TMPDIR/key"
tried linked ln DATA/secrets.key "$TMPDIR/key"
tried signalled kill -CONT SERVER
tried stopped kill -0 SERVER
tried connected bash -c 'exec 3<>/dev/tcp/127.0.0.1/PORT'
tried namespaces unshare --user true
tried temporary touch /tmp/vnfm-hook-was-here
tried variable touch /var/tmp/vnfm-hook-was-here
echo "{\"schemaVersion\": 1, \"metadata\": {\"got\": \"$got\"}}"
"#;

#[tokio::test]
async fn a_plugin_in_a_process_cannot_reach_the_server() {
    let (folder, server) = (Folder::new(), Server::new());
    folder.put(&built("fixture-misbehaving"), "m.so");
    let plugins = folder.host_of(Runner::Process);
    plugins.allow("m.so").unwrap();
    let driver = plugins.resolve(&"fixture-misbehaving".into()).unwrap();
    let mut request_with_secrets = request("instantiate_start", AMPLE);
    request_with_secrets
        .additional_params
        .insert("how".into(), json!("steal"));
    let paths: Vec<_> = server
        .paths()
        .iter()
        .map(|path| path.display().to_string())
        .collect();
    request_with_secrets
        .additional_params
        .insert("path".into(), json!(paths.join("\n")));
    let host = Arc::new(Remembering::default());
    let got = driver
        .call(request_with_secrets, host)
        .await
        .unwrap()
        .message
        .unwrap();
    assert_eq!(got, "");
    server.is_untouched();
}

#[tokio::test]
async fn no_hook_runs_if_the_data_folder_is_readable() {
    let (folder, server) = (Folder::new(), Server::new());
    folder.put(&built("fixture-misbehaving"), "m.so");
    let mut config = folder.config_of(Runner::Process);
    let process = config.process.as_mut().unwrap();
    process.hidden = vec![server.0.path().join("secrets.key")];
    process.readable = vec![server.0.path().to_owned()];
    let error = PluginHost::new(config, Arc::new(RealClock))
        .allow("m.so")
        .unwrap_err();
    assert_eq!(error.name(), "plugin.not-apart");
    assert!(
        error.to_string().contains("secrets.key") && error.to_string().contains("move it"),
        "{error}"
    );
}

#[tokio::test]
async fn additional_paths_are_readable_and_not_writable() {
    let server = Server::new();
    let world = World::with(&Value::Null, |scripts| scripts.allow = AllowedScripts::All);
    let mut config = world.plugins_config();
    config.process.as_mut().unwrap().readable = vec![server.0.path().to_owned()];
    let plugins = PluginHost::new(config, Arc::new(RealClock));
    let script = r#"cat >/dev/null; said=$(cat DATA/vnfm.yaml); touch DATA/made 2>/dev/null && said=written
        echo "{\"schemaVersion\": 1, \"metadata\": {\"said\": \"$said\"}}""#;
    let side = Side::with_script(&script.replace("DATA", &server.0.path().display().to_string()));
    let driver = plugins.resolve(&WANTED).unwrap();
    let effects = driver.call(hook(BASH, AMPLE), side).await.unwrap();
    assert_eq!(effects.metadata["said"], "planted");
    server.is_untouched();
}

/// Not a test by itself: run where hooks cannot be isolated.
#[test]
#[ignore = "started by a test below"]
fn no_hook_is_run() {
    let folder = Folder::new();
    folder.put(&built("fixture-misbehaving"), "m.so");
    let plugins = folder.host_of(Runner::Process);
    for error in [
        plugins.isolation().unwrap_err(),
        plugins.allow("m.so").unwrap_err(),
    ] {
        assert_eq!(error.name(), "plugin.not-apart", "{error}");
        for word in ["Landlock", "namespaces"] {
            assert!(error.to_string().contains(word), "no `{word}` in {error}");
        }
        assert!(error.next().contains("harden.md"));
    }
}

const BOTH: [&str; 2] = [
    "scripts::secrets::a_script_cannot_reach_the_server",
    "scripts::secrets::a_plugin_in_a_process_cannot_reach_the_server",
];
const NO_NAMESPACES: &[libc::c_long] = &[libc::SYS_unshare];
const NO_MOUNTS: &[libc::c_long] = &[
    libc::SYS_mount,
    libc::SYS_pivot_root,
    libc::SYS_mount_setattr,
];
const NOTHING: &[libc::c_long] = &[libc::SYS_unshare, libc::SYS_landlock_create_ruleset];

#[test]
fn without_root_hooks_are_isolated_by_namespaces() {
    again(
        Some(NOBODY),
        &[],
        "a mount namespace+a PID namespace+a network namespace",
        &BOTH,
    );
}

#[test]
fn without_mounts_files_are_isolated_by_landlock() {
    again(
        Some(NOBODY),
        NO_MOUNTS,
        "files by Landlock+a PID namespace+a network namespace",
        &BOTH,
    );
}

#[test]
fn without_namespaces_hooks_are_isolated_by_landlock_and_the_filter() {
    if landlock() < 6 {
        return skip("this kernel's Landlock does not keep signals in");
    }
    let expected = "files by Landlock+processes by Landlock+a filter of system calls";
    again(Some(NOBODY), NO_NAMESPACES, expected, &BOTH);
}

#[test]
fn root_without_namespaces_gives_each_hook_a_user() {
    let expected = "files by Landlock+a user of their own+a filter of system calls";
    again(None, NO_NAMESPACES, expected, &BOTH);
}

#[test]
fn without_any_isolation_no_hook_runs_and_the_error_names_what_is_missing() {
    for user in [None, Some(NOBODY)] {
        again(user, NOTHING, "", &["scripts::secrets::no_hook_is_run"]);
    }
}

fn landlock() -> i64 {
    // SAFETY: with this flag, the call only returns a number.
    unsafe {
        libc::syscall(
            libc::SYS_landlock_create_ruleset,
            std::ptr::null::<u8>(),
            0,
            1,
        )
    }
}

fn skip(why: &str) {
    let must = std::env::var("VNFM_REQUIRE_LIVE").as_deref() == Ok("1");
    assert!(!must, "cannot run, and VNFM_REQUIRE_LIVE=1: {why}");
    eprintln!("skipped: {why}");
}

/// Runs tests of this program as `user` and without the calls in `forbidden`.
fn again(user: Option<u32>, forbidden: &'static [libc::c_long], expected: &str, tests: &[&str]) {
    if !rustix::process::geteuid().is_root() {
        return skip("only root becomes another user");
    }
    let copies = Copies::new();
    for test in tests {
        let mut command = Command::new(&copies.test);
        command.args([
            "--exact",
            test,
            "--include-ignored",
            "--nocapture",
            "--test-threads=1",
        ]);
        command
            .current_dir("/")
            .env("TMPDIR", "/tmp")
            .env(EXPECTED, expected);
        if let Some(user) = user {
            command.uid(user).gid(user);
        }
        // SAFETY: plain system calls, and nothing that another thread could hold.
        unsafe { command.pre_exec(move || forbid(forbidden)) };
        let output = command.output().unwrap();
        let stdout = String::from_utf8_lossy(&output.stdout);
        let words = String::from_utf8_lossy(&output.stderr);
        assert!(
            output.status.success() && stdout.contains("1 passed"),
            "{test}: {stdout}\n{words}"
        );
    }
}

/// Copies of the built programs and libraries that every user may read.
struct Copies {
    test: PathBuf,
    _dir: TempDir,
}

impl Copies {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let test = std::env::current_exe().unwrap();
        let mut files = vec![test.clone(), PathBuf::from(crate::world::RUNNER)];
        files.extend(["mgmt-script", "fixture-misbehaving"].map(built));
        for file in &files {
            let to = dir.path().join(file.file_name().unwrap());
            std::fs::copy(file, &to).unwrap();
            std::fs::set_permissions(to, PermissionsExt::from_mode(0o755)).unwrap();
        }
        std::fs::set_permissions(dir.path(), PermissionsExt::from_mode(0o755)).unwrap();
        Self {
            test: dir.path().join(test.file_name().unwrap()),
            _dir: dir,
        }
    }
}

/// Makes system calls fail with EPERM, as a service manager's or a container's filter does.
fn forbid(calls: &[libc::c_long]) -> std::io::Result<()> {
    if calls.is_empty() {
        return Ok(());
    }
    let plain = |code: u32, k: u32| {
        let code = u16::try_from(code).unwrap_or(u16::MAX);
        libc::sock_filter {
            code,
            jt: 0,
            jf: 0,
            k,
        }
    };
    let refused = libc::SECCOMP_RET_ERRNO | libc::EPERM.unsigned_abs();
    let mut filter = vec![plain(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0)];
    for call in calls {
        let number = u32::try_from(*call).unwrap_or(u32::MAX);
        let equal = plain(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, number);
        filter.push(libc::sock_filter { jf: 1, ..equal });
        filter.push(plain(libc::BPF_RET, refused));
    }
    filter.push(plain(libc::BPF_RET, libc::SECCOMP_RET_ALLOW));
    let len = u16::try_from(filter.len()).unwrap_or(u16::MAX);
    let program = libc::sock_fprog {
        len,
        filter: filter.as_mut_ptr(),
    };
    // SAFETY: the program lives until the call returns.
    let done = unsafe {
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
            && libc::prctl(
                libc::PR_SET_SECCOMP,
                libc::SECCOMP_MODE_FILTER,
                &raw const program,
            ) == 0
    };
    if done {
        Ok(())
    } else {
        Err(std::io::Error::last_os_error())
    }
}
