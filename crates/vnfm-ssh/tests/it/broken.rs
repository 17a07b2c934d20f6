//! Misbehaving hosts: no response, late, garbage or too much output, or a `sudo` that asks for a password.

use crate::sshd::Sshd;
use russh::keys::PrivateKey;
use russh::keys::ssh_key::private::Ed25519Keypair;
use russh::server::{Auth, Config, Handler, Msg, Session, run_stream};
use russh::{Channel, ChannelId};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::AsyncWriteExt as _;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::time::{Instant, interval};
use vnfm_core::ports::{ErrorKind, PinnedTarget, PortError, RemoteFile, SshCommand, SshTarget};
use vnfm_outbound::Destinations;
use vnfm_ssh::{RememberedHostKeys, Ssh};

fn client() -> Ssh {
    Ssh::new(
        Arc::new(RememberedHostKeys::default()),
        Destinations::anywhere(),
    )
}

fn target(port: u16) -> PinnedTarget {
    let target = SshTarget::new("server-1", "127.0.0.1", "ali").port(port);
    target.password("planted-password").into()
}

fn command(line: &str, deadline_seconds: u32) -> SshCommand {
    let timeout = Duration::from_secs(deadline_seconds.into());
    SshCommand::new(line).sudo().timeout(timeout)
}

/// Asserts code, kind and server of the error, and that it has a hint but no password.
fn says(error: &PortError, kind: ErrorKind, name: &str, words: &str) {
    assert_eq!((error.kind(), error.name()), (kind, name), "{error}");
    assert_eq!(error.resource(), Some("server-1"), "{error}");
    let shown = format!("{error} {error:?} {}", error.next());
    assert!(
        shown.contains(words) && !shown.contains("planted-password"),
        "{shown}"
    );
}

/// A server that handles each connection with `serve`.
async fn serve<F>(each: impl Fn(TcpStream) -> F + Send + 'static) -> u16
where
    F: Future<Output = ()> + Send + 'static,
{
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(each(stream));
        }
    });
    port
}

/// Accepts every login; its `sudo` asks for a password.
struct Asking;

const ASKS: &str = "sudo: a password is required\n";

impl Handler for Asking {
    type Error = russh::Error;

    async fn auth_password(&mut self, _: &str, _: &str) -> Result<Auth, russh::Error> {
        Ok(Auth::Accept)
    }

    async fn channel_open_session(
        &mut self,
        _: Channel<Msg>,
        reply: russh::server::ChannelOpenHandle,
        _: &mut Session,
    ) -> Result<(), russh::Error> {
        reply.accept().await;
        Ok(())
    }

    async fn exec_request(
        &mut self,
        channel: ChannelId,
        line: &[u8],
        session: &mut Session,
    ) -> Result<(), russh::Error> {
        session.channel_success(channel)?;
        let asks = line.starts_with(b"sudo -n ");
        if asks {
            session.extended_data(channel, 1, ASKS)?;
        }
        session.exit_status_request(channel, u32::from(asks))?;
        session.close(channel)
    }
}

async fn converse(stream: TcpStream) {
    let key = PrivateKey::from(Ed25519Keypair::from_seed(&[7; 32]));
    let config = Arc::new(Config {
        keys: vec![key],
        ..Config::default()
    });
    // The client may disconnect at any time.
    if let Ok(session) = run_stream(config, stream, Asking).await {
        let _ = session.await;
    }
}

#[tokio::test]
async fn a_closed_port_is_reported_at_once() {
    let free = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = free.local_addr().unwrap().port();
    drop(free);
    let error = client()
        .run(&target(port), &command("true", 60))
        .await
        .unwrap_err();
    says(
        &error,
        ErrorKind::Unavailable,
        "ssh.unreachable",
        "Connection refused",
    );
}

#[tokio::test]
async fn a_late_banner_is_waited_for_until_the_deadline() {
    let (open, door) = watch::channel(false);
    let port = serve(move |stream| {
        let mut door = door.clone();
        async move {
            door.wait_for(|open| *open).await.unwrap();
            converse(stream).await;
        }
    })
    .await;
    let (ssh, target) = (client(), target(port));
    let plain = |seconds| SshCommand::new("true").timeout(Duration::from_secs(seconds));
    let error = ssh.run(&target, &plain(1)).await.unwrap_err();
    says(
        &error,
        ErrorKind::Unavailable,
        "ssh.deadline",
        "not completed after 1 s",
    );
    let waiting = tokio::spawn({
        let (ssh, target, patient) = (ssh.clone(), target.clone(), plain(60));
        async move { ssh.run(&target, &patient).await }
    });
    open.send_replace(true);
    assert_eq!(waiting.await.unwrap().unwrap().exit_code, 0);
}

#[tokio::test]
async fn another_kind_of_server_is_unreachable() {
    let port = serve(|mut stream| async move {
        // The client may have disconnected by then.
        let _ = stream
            .write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n\xff\x00\xfe")
            .await;
    })
    .await;
    let error = client()
        .run(&target(port), &command("true", 60))
        .await
        .unwrap_err();
    says(
        &error,
        ErrorKind::Unavailable,
        "ssh.unreachable",
        "log in to `127.0.0.1:",
    );
}

#[tokio::test]
async fn an_endless_banner_is_an_error() {
    let port = serve(|mut stream| async move {
        let nonsense = [b'x'; 4096];
        while stream.write_all(&nonsense).await.is_ok() {}
    })
    .await;
    let began = Instant::now();
    let error = client()
        .run(&target(port), &command("true", 3))
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert!(
        ["ssh.unreachable", "ssh.deadline"].contains(&error.name()),
        "{error}"
    );
    assert!(began.elapsed() < Duration::from_secs(20));
}

#[tokio::test]
async fn a_sudo_that_asks_for_a_password_is_reported_with_its_message() {
    let port = serve(converse).await;
    let (ssh, target) = (client(), target(port));
    let output = ssh.run(&target, &command("id", 20)).await.unwrap();
    assert_eq!((output.exit_code, output.stderr.as_str()), (1, ASKS));
    let file = RemoteFile {
        path: "/etc/x".into(),
        mode: "0600".into(),
        sudo: true,
        content: b"x".to_vec().into(),
    };
    let error = ssh.put(&target, &file).await.unwrap_err();
    says(
        &error,
        ErrorKind::Refused,
        "ssh.not-written",
        "a password is required",
    );
    assert!(
        error.next().contains("`sudo` without a password"),
        "{}",
        error.next()
    );
}

#[tokio::test]
async fn a_hundred_megabytes_of_garbage_are_truncated() {
    let Some(sshd) = Sshd::start() else { return };
    let (ssh, target) = (client(), sshd.target());
    let line = "head -c 100000000 /dev/urandom; printf '\\nthe end\\n'; exit 4";
    let output = ssh.run(&target, &command(line, 300)).await.unwrap();
    assert_eq!((output.exit_code, output.truncated), (4, true));
    assert!(output.stdout.ends_with("\nthe end\n") && output.stdout.contains("bytes left out]"));
    // Each invalid byte is replaced by at most three bytes.
    assert!(
        output.stdout.len() < 4 << 20,
        "{} bytes are kept",
        output.stdout.len()
    );
    let after = ssh.run(&target, &command("echo fine", 20)).await.unwrap();
    assert_eq!(after.stdout, "fine\n");
}

#[tokio::test]
async fn an_interrupted_upload_leaves_no_partial_file() {
    let Some(sshd) = Sshd::start() else { return };
    let (ssh, target) = (client(), sshd.target());
    let place = sshd.folder.path().join("files");
    std::fs::create_dir(&place).unwrap();
    let file = RemoteFile {
        path: place.join("big").display().to_string(),
        mode: "0600".into(),
        sudo: false,
        content: vec![7; 100_000_000].into(),
    };
    let upload = tokio::spawn({
        let (ssh, target, file) = (ssh.clone(), target.clone(), file.clone());
        async move { ssh.put(&target, &file).await }
    });
    let count = || std::fs::read_dir(&place).unwrap().count();
    eventually("the upload begins", || count() == 1).await;
    sshd.cut();
    let error = upload.await.unwrap().unwrap_err();
    assert_eq!(
        (error.kind(), error.name()),
        (ErrorKind::Unavailable, "ssh.connection-lost")
    );
    assert!(
        error.to_string().contains("put `") && error.to_string().contains("big"),
        "{error}"
    );
    eventually("what was begun is gone", || count() == 0).await;
    let again = RemoteFile {
        content: b"whole".to_vec().into(),
        ..file
    };
    ssh.put(&target, &again).await.unwrap();
    assert_eq!(std::fs::read(place.join("big")).unwrap(), b"whole");
}

/// Polls until `done`, for at most a minute.
async fn eventually(what: &str, done: impl Fn() -> bool) {
    let start = Instant::now();
    let mut pace = interval(Duration::from_millis(2));
    while !done() {
        assert!(start.elapsed() < Duration::from_mins(1), "never: {what}");
        pace.tick().await;
    }
}
