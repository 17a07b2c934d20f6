//! The client against a real OpenSSH server.

use crate::sshd::Sshd;
use std::io::{self, Read as _, Write};
use std::os::unix::fs::PermissionsExt;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::time::{Instant, interval};
use vnfm_core::ports::{
    CommandOutput, Content, ErrorKind, FileCopy, PinnedTarget, PortError, RemoteFile, SshCommand,
    SshTarget, Watcher,
};
use vnfm_outbound::Destinations;
use vnfm_ssh::{RememberedHostKeys, Ssh};

/// The messages that a wait reported.
#[derive(Default)]
struct Seen(Mutex<Vec<String>>);

impl Seen {
    /// Checks that the login was named first, then why it failed, and for how long.
    fn check(&self, target: &SshTarget) {
        let seen = self.0.lock().unwrap();
        let login = format!(
            "SSH login at {}@{}:{}",
            target.username, target.address, target.port
        );
        assert_eq!(seen[0], login);
        let why = seen[1].strip_prefix(&format!("{login}: ")).unwrap();
        assert!(why.len() > " (0 s of 1 s)".len(), "{why}");
        assert!(why.ends_with(" s of 1 s)"), "{why}");
    }
}

impl Watcher for Seen {
    fn waiting(&self, what: &str) {
        self.0.lock().unwrap().push(what.to_owned());
    }
    fn progress(&self, _: u8, _: &str) {}
    fn log(&self, _: &str, _: &str, _: &str) {}
}

fn client() -> Ssh {
    Ssh::new(
        Arc::new(RememberedHostKeys::default()),
        Destinations::anywhere(),
    )
}

fn command(line: &str) -> SshCommand {
    SshCommand::new(line).timeout(Duration::from_secs(20))
}

async fn run(ssh: &Ssh, target: &PinnedTarget, line: &str) -> Result<CommandOutput, PortError> {
    ssh.run(target, &command(line)).await
}

/// Polls until `done`, for at most ten seconds.
async fn eventually(what: &str, done: impl Fn() -> bool) {
    let start = Instant::now();
    let mut pace = interval(Duration::from_millis(10));
    while !done() {
        assert!(start.elapsed() < Duration::from_secs(10), "never: {what}");
        pace.tick().await;
    }
}

#[tokio::test]
async fn outputs_are_separate_and_an_exit_code_is_not_an_error() {
    let Some(sshd) = Sshd::start() else { return };
    let (ssh, target) = (client(), sshd.target());
    let output = run(&ssh, &target, "echo out; echo err >&2; exit 3")
        .await
        .unwrap();
    assert_eq!(
        (output.stdout.as_str(), output.stderr.as_str()),
        ("out\n", "err\n")
    );
    assert_eq!((output.exit_code, output.truncated), (3, false));
    let killed = run(&ssh, &target, "kill -9 $$").await.unwrap();
    assert_eq!(killed.exit_code, 137);
}

#[tokio::test]
async fn input_arrives_completely_and_may_remain_unread() {
    let Some(sshd) = Sshd::start() else { return };
    let (ssh, target) = (client(), sshd.target());
    let much = command("wc -c").stdin("x".repeat(5_000_000));
    assert_eq!(
        ssh.run(&target, &much).await.unwrap().stdout.trim(),
        "5000000"
    );
    let mut unread = much;
    unread.line = "echo done".into();
    assert_eq!(ssh.run(&target, &unread).await.unwrap().stdout, "done\n");
}

#[tokio::test]
async fn long_output_is_truncated_in_the_middle() {
    let Some(sshd) = Sshd::start() else { return };
    let output = run(&client(), &sshd.target(), "seq 1 600000")
        .await
        .unwrap();
    assert!(output.truncated);
    assert!(output.stdout.starts_with("1\n2\n") && output.stdout.ends_with("\n600000\n"));
}

#[tokio::test]
async fn a_command_past_its_deadline_is_terminated() {
    let Some(sshd) = Sshd::start() else { return };
    let mark = sshd.folder.path().join("ended");
    // OpenSSH forwards signals only for unprivileged users; for root the closed output must suffice.
    let end = format!("touch {}; exit", mark.display());
    let line = format!("trap '{end}' TERM; trap '' PIPE; while echo on; do sleep 0.1; done; {end}");
    let slow = command(&line).timeout(Duration::from_secs(1));
    let error = client().run(&sshd.target(), &slow).await.unwrap_err();
    assert_eq!(
        (error.kind(), error.name()),
        (ErrorKind::Unavailable, "ssh.deadline")
    );
    eventually("the command hears that it is over", || mark.exists()).await;
}

#[tokio::test]
async fn a_file_is_written_completely_with_its_mode() {
    let Some(sshd) = Sshd::start() else { return };
    let (ssh, target) = (client(), sshd.target());
    let path = sshd.folder.path().join("a folder").join("it's a file");
    let content: Vec<u8> = (0..300_000_u32).flat_map(u32::to_le_bytes).collect();
    let mut file = RemoteFile {
        path: path.display().to_string(),
        mode: "0640".into(),
        sudo: false,
        content: content.clone().into(),
    };
    ssh.put(&target, &file).await.unwrap();
    assert_eq!(std::fs::read(&path).unwrap(), content);
    assert_eq!(
        std::fs::metadata(&path).unwrap().permissions().mode() & 0o7777,
        0o640
    );
    file.content = b"short".to_vec().into();
    ssh.put(&target, &file).await.unwrap();
    assert_eq!(std::fs::read(&path).unwrap(), b"short");
    assert_eq!(
        std::fs::read_dir(path.parent().unwrap()).unwrap().count(),
        1,
        "no temporary file remains"
    );
}

#[tokio::test]
async fn a_large_file_is_copied_both_ways() {
    let Some(sshd) = Sshd::start() else { return };
    let (ssh, target) = (client(), sshd.target());
    let at = |name: &str| sshd.folder.path().join(name);
    let content: Vec<u8> = (0..3_000_000_u32).flat_map(u32::to_le_bytes).collect();
    std::fs::write(at("it's here"), &content).unwrap();
    std::fs::write(at("local"), "old and longer than nothing").unwrap();
    let mut copy = FileCopy {
        remote: at("it's here").display().to_string(),
        local: at("local"),
        bytes: content.len() as u64,
        sudo: false,
    };
    ssh.fetch(&target, &copy).await.unwrap();
    assert!(std::fs::read(at("local")).unwrap() == content);
    copy.remote = at("back").display().to_string();
    ssh.send(&target, &copy).await.unwrap();
    assert!(std::fs::read(at("back")).unwrap() == content);
    let mode = std::fs::metadata(at("back")).unwrap().permissions().mode();
    assert_eq!(mode & 0o7777, 0o600);
}

#[tokio::test]
async fn a_file_of_another_size_is_not_copied() {
    let Some(sshd) = Sshd::start() else { return };
    let (ssh, target) = (client(), sshd.target());
    let at = |name: &str| sshd.folder.path().join(name);
    for name in ["remote", "local"] {
        std::fs::write(at(name), "seven b").unwrap();
    }
    let copy = |remote: &str, bytes| FileCopy {
        remote: at(remote).display().to_string(),
        local: at("local"),
        bytes,
        sudo: false,
    };
    for (copy, words) in [
        (copy("remote", 8), "1 bytes are missing"),
        (copy("remote", 6), "longer than it was"),
        (copy("none", 7), "No such file"),
        (copy("", 7), "absolute path"),
    ] {
        let error = ssh.fetch(&target, &copy).await.unwrap_err();
        assert_eq!(error.name(), "ssh.not-copied", "{error}");
        assert!(error.to_string().contains(words), "{error}");
    }
    std::fs::write(at("local"), "another").unwrap();
    let error = ssh.send(&target, &copy("remote", 8)).await.unwrap_err();
    assert!(error.to_string().contains("got 7 of 8 bytes"), "{error}");
    assert_eq!(std::fs::read(at("remote")).unwrap(), b"seven b", "it stays");
}

/// A content that is read while it is sent: `len` bytes, then this end.
fn streamed(len: u64, end: fn() -> io::Result<()>) -> Content {
    let source = move |to: &mut dyn Write| {
        let mut content = io::repeat(7).take(len);
        let copied = io::copy(&mut content, to)?;
        end().map(|()| copied)
    };
    Content::Streamed {
        bytes: 3_000_001,
        source: Arc::new(source),
    }
}

#[tokio::test]
async fn a_streamed_file_is_written_completely_or_not_at_all() {
    let Some(sshd) = Sshd::start() else { return };
    let (ssh, target) = (client(), sshd.target());
    let path = sshd.folder.path().join("streamed");
    let mut file = RemoteFile {
        path: path.display().to_string(),
        mode: "0600".into(),
        sudo: false,
        content: streamed(3_000_001, || Ok(())),
    };
    ssh.put(&target, &file).await.unwrap();
    assert_eq!(std::fs::read(&path).unwrap(), vec![7; 3_000_001]);
    std::fs::write(&path, "before").unwrap();
    for content in [
        streamed(3_000_001, || Err(io::Error::other("a checksum is wrong"))),
        streamed(3_000_000, || Ok(())),
        streamed(3_000_002, || Ok(())),
    ] {
        file.content = content;
        let error = ssh.put(&target, &file).await.unwrap_err();
        assert_eq!(error.name(), "ssh.not-written");
        assert!(error.to_string().contains("of 3000001 bytes"), "{error}");
        assert_eq!(std::fs::read(&path).unwrap(), b"before");
    }
}

#[tokio::test]
async fn a_file_that_cannot_be_written_is_reported_with_the_hosts_message() {
    let Some(sshd) = Sshd::start() else { return };
    let (ssh, target) = (client(), sshd.target());
    for (path, mode, words) in [
        ("/dev/null/x", "0600", "exit code"),
        ("relative", "0600", "not an absolute path"),
        ("/tmp/x", "rw", "not an octal mode"),
    ] {
        let file = RemoteFile {
            path: path.into(),
            mode: mode.into(),
            sudo: false,
            content: b"x".to_vec().into(),
        };
        let error = ssh.put(&target, &file).await.unwrap_err();
        assert_eq!(
            (error.kind(), error.name()),
            (ErrorKind::Refused, "ssh.not-written")
        );
        assert!(error.to_string().contains(words), "{error}");
    }
}

#[tokio::test]
async fn a_changed_host_key_is_refused_with_both_fingerprints() {
    let Some(sshd) = Sshd::start() else { return };
    let memory = Arc::new(RememberedHostKeys::default());
    let target = sshd.target();
    run(
        &Ssh::new(memory.clone(), Destinations::anywhere()),
        &target,
        "true",
    )
    .await
    .unwrap();
    sshd.rebuild();
    let error = run(
        &Ssh::new(memory.clone(), Destinations::anywhere()),
        &target,
        "true",
    )
    .await
    .unwrap_err();
    assert_eq!(
        (error.kind(), error.name()),
        (ErrorKind::Refused, "ssh.host-key-changed")
    );
    assert_eq!(error.to_string().matches("SHA256:").count(), 2, "{error}");
    let waited = Ssh::new(memory, Destinations::anywhere())
        .wait(&target, 20, &Seen::default())
        .await
        .unwrap_err();
    assert_eq!(
        waited.name(),
        "ssh.host-key-changed",
        "waiting does not help"
    );
}

#[tokio::test]
async fn keys_of_every_usual_kind_log_in() {
    let Some(sshd) = Sshd::start() else { return };
    for (name, kind) in [
        ("ed25519", &["-t", "ed25519"][..]),
        ("ecdsa", &["-t", "ecdsa"]),
        ("rsa", &["-t", "rsa", "-b", "2048"]),
        ("rsa-pkcs8", &["-t", "rsa", "-b", "2048", "-m", "PKCS8"]),
        ("rsa-pem", &["-t", "rsa", "-b", "2048", "-m", "PEM"]),
        ("ecdsa-pkcs8", &["-t", "ecdsa", "-m", "PKCS8"]),
    ] {
        let target = sshd.target_with(sshd.login_key(name, kind));
        let output = run(&client(), &target, "echo in").await;
        assert_eq!(
            output.unwrap_or_else(|e| panic!("{name}: {e}")).stdout,
            "in\n"
        );
    }
}

#[tokio::test]
async fn a_refused_login_names_the_methods_and_no_secret() {
    let Some(sshd) = Sshd::start() else { return };
    let stranger = Sshd::start()
        .unwrap()
        .login_key("login", &["-t", "ed25519"]);
    let mut target = sshd.target_with(stranger);
    target.host.password = Some("planted-password".into());
    let error = run(&client(), &target, "true").await.unwrap_err();
    assert_eq!(
        (error.kind(), error.name()),
        (ErrorKind::Refused, "ssh.login-refused")
    );
    assert!(
        error.to_string().contains("refused publickey, password"),
        "{error}"
    );
    let shown = format!("{error:?} {target:?}");
    assert!(
        !shown.contains("planted-password") && !shown.contains("PRIVATE KEY"),
        "{shown}"
    );
    let unreadable = sshd.target_with("-----BEGIN NONSENSE-----".into());
    let error = run(&client(), &unreadable, "true").await.unwrap_err();
    assert_eq!(error.name(), "ssh.bad-private-key");
}

#[tokio::test]
async fn many_commands_share_one_login() {
    let Some(sshd) = Sshd::start() else { return };
    let (ssh, target) = (client(), sshd.target());
    let mut tasks = tokio::task::JoinSet::new();
    for n in 0..8 {
        let (ssh, target) = (ssh.clone(), target.clone());
        tasks.spawn(async move { (n, run(&ssh, &target, &format!("echo {n}")).await.unwrap()) });
    }
    for (n, output) in tasks.join_all().await {
        assert_eq!(output.stdout, format!("{n}\n"));
    }
    assert_eq!(sshd.connections.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn a_jump_host_carries_the_connection() {
    let (Some(jump), Some(inner)) = (Sshd::start(), Sshd::start()) else {
        return;
    };
    let mut target = inner.target();
    target.jump = Some(Box::new(jump.target()));
    let ssh = client();
    let output = run(&ssh, &target, "echo inside").await.unwrap();
    assert_eq!(output.stdout, "inside\n");
    let counts = [&jump, &inner].map(|host| host.connections.load(Ordering::SeqCst));
    assert_eq!(counts, [1, 1]);
}

#[tokio::test]
async fn a_wait_ends_once_the_host_is_up() {
    let Some(sshd) = Sshd::start() else { return };
    let (ssh, target) = (client(), sshd.target());
    sshd.booting.store(true, Ordering::SeqCst);
    let seen = Seen::default();
    let error = ssh.wait(&target, 1, &seen).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    seen.check(&target.host);
    let waiting = tokio::spawn({
        let (ssh, target) = (ssh.clone(), target.clone());
        async move { ssh.wait(&target, 20, &Seen::default()).await }
    });
    sshd.booting.store(false, Ordering::SeqCst);
    waiting.await.unwrap().unwrap();
}

#[tokio::test]
async fn a_lost_connection_is_reported_and_then_replaced() {
    let Some(sshd) = Sshd::start() else { return };
    let (ssh, target) = (client(), sshd.target());
    let mark = sshd.folder.path().join("began");
    let line = format!("touch {}; sleep 20", mark.display());
    let lost = tokio::spawn({
        let (ssh, target) = (ssh.clone(), target.clone());
        async move { run(&ssh, &target, &line).await }
    });
    eventually("the command begins", || mark.exists()).await;
    sshd.cut();
    let error = lost.await.unwrap().unwrap_err();
    assert_eq!(
        (error.kind(), error.name()),
        (ErrorKind::Unavailable, "ssh.connection-lost")
    );
    assert_eq!(
        run(&ssh, &target, "echo again").await.unwrap().stdout,
        "again\n"
    );
}
