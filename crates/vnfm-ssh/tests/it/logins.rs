//! Password logins: against a server that accepts one password, also by keyboard-interactive.

use russh::keys::PrivateKey;
use russh::keys::ssh_key::private::Ed25519Keypair;
use russh::server::{Auth, Config, Handler, Msg, Response, Server, Session};
use russh::{Channel, ChannelId};
use std::borrow::Cow;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use vnfm_core::ports::{ErrorKind, PinnedTarget, SshCommand, SshTarget};
use vnfm_outbound::Destinations;
use vnfm_ssh::{RememberedHostKeys, Ssh};

const PASSWORD: &str = "open sesame";

/// The login method that the server accepts.
#[derive(Clone, Copy)]
enum Door {
    Password,
    Questions,
}

#[derive(Clone)]
struct Doorman(Door);

impl Server for Doorman {
    type Handler = Self;
    fn new_client(&mut self, _: Option<SocketAddr>) -> Self {
        self.clone()
    }
}

impl Handler for Doorman {
    type Error = russh::Error;

    async fn auth_password(&mut self, _: &str, password: &str) -> Result<Auth, russh::Error> {
        Ok(match self.0 {
            Door::Password if password == PASSWORD => Auth::Accept,
            _ => Auth::reject(),
        })
    }

    async fn auth_keyboard_interactive<'a>(
        &'a mut self,
        _: &str,
        _: &str,
        response: Option<Response<'a>>,
    ) -> Result<Auth, russh::Error> {
        Ok(match (self.0, response) {
            (Door::Password, _) => Auth::reject(),
            (Door::Questions, None) => Auth::Partial {
                name: "".into(),
                instructions: "".into(),
                prompts: Cow::Owned(vec![("Password: ".into(), false)]),
            },
            (Door::Questions, Some(mut answers)) => match answers.next() {
                Some(answer) if &answer[..] == PASSWORD.as_bytes() => Auth::Accept,
                _ => Auth::reject(),
            },
        })
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
        _: &[u8],
        session: &mut Session,
    ) -> Result<(), russh::Error> {
        session.channel_success(channel)?;
        session.exit_status_request(channel, 0)?;
        session.close(channel)
    }
}

async fn serve(door: Door) -> u16 {
    let key = PrivateKey::from(Ed25519Keypair::from_seed(&[7; 32]));
    let config = Arc::new(Config {
        keys: vec![key],
        auth_rejection_time: Duration::ZERO,
        ..Config::default()
    });
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move { Doorman(door).run_on_socket(config, &listener).await });
    port
}

fn target(port: u16, password: &str) -> PinnedTarget {
    let target = SshTarget::new("door", "127.0.0.1", "ali").port(port);
    target.password(password).into()
}

#[tokio::test]
async fn a_password_works_for_both_methods_and_a_wrong_one_for_neither() {
    let command = SshCommand::new("true").timeout(Duration::from_secs(10));
    for door in [Door::Password, Door::Questions] {
        let port = serve(door).await;
        let ssh = Ssh::new(
            Arc::new(RememberedHostKeys::default()),
            Destinations::anywhere(),
        );
        assert_eq!(
            ssh.run(&target(port, PASSWORD), &command)
                .await
                .unwrap()
                .exit_code,
            0
        );
        let error = ssh.run(&target(port, "wrong"), &command).await.unwrap_err();
        assert_eq!(
            (error.kind(), error.name()),
            (ErrorKind::Refused, "ssh.login-refused")
        );
    }
}

#[tokio::test]
async fn without_credentials_no_login_is_attempted() {
    let port = serve(Door::Password).await;
    let ssh = Ssh::new(
        Arc::new(RememberedHostKeys::default()),
        Destinations::anywhere(),
    );
    let mut nobody = target(port, "");
    nobody.host.password = None;
    let error = ssh
        .check(&nobody, Duration::from_secs(10))
        .await
        .unwrap_err();
    assert!(
        error
            .to_string()
            .contains("neither a password nor a private key"),
        "{error}"
    );
}
