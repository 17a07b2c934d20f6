//! The SSH server of one host: logins, commands, jumps.

use super::host::{Host, User};
use super::shell::Shell;
use super::stdio::{Input, Output};
use crate::faults::{Fault, When};
use crate::time::pause;
use anyhow::Context as _;
use russh::keys::ssh_key::private::Ed25519Keypair;
use russh::keys::{PrivateKey, PublicKey};
use russh::server::{
    Auth, ChannelOpenHandle, Config, Handler, Msg, Session, VerifiedPublicKey, run_stream,
};
use russh::{
    Channel, ChannelId, ChannelMsg, ChannelOpenFailure, ChannelReadHalf, ChannelWriteHalf,
};
use std::collections::HashMap;
use std::io::ErrorKind;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// Attempts to bind an address that another host still holds.
const BIND_ATTEMPTS: u32 = 200;
/// Output of a hostile host, in bytes.
const HOSTILE_OUTPUT_LEN: usize = 64 << 20;
const BIND_INTERVAL: Duration = Duration::from_millis(10);

/// Powers a machine on; does nothing if it is on.
pub(crate) async fn power_on(host: &Arc<Host>) -> anyhow::Result<()> {
    if host.is_on() {
        return Ok(());
    }
    host.port_released().await;
    host.start_units();
    host.set_listener(listen(host.clone()).await?);
    Ok(())
}

/// Starts listening; power-off ends the connections.
async fn listen(host: Arc<Host>) -> anyhow::Result<JoinHandle<()>> {
    let address = (host.spec().address, host.lan.ssh_port);
    let listener = bind(address)
        .await
        .with_context(|| format!("cannot listen at `{}:{}` for SSH", address.0, address.1))?;
    let config = config(host.key().clone());
    Ok(tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            serve(&host, config.clone(), stream);
        }
    }))
}

/// Binds an address, waiting while the previous server, which may outlive its successor's boot by a moment, holds it.
async fn bind(address: (IpAddr, u16)) -> std::io::Result<TcpListener> {
    let mut attempts = BIND_ATTEMPTS;
    loop {
        match TcpListener::bind(address).await {
            Err(error) if error.kind() == ErrorKind::AddrInUse && attempts > 0 => attempts -= 1,
            bound => return bound,
        }
        pause(BIND_INTERVAL).await;
    }
}

fn config(key: PrivateKey) -> Arc<Config> {
    Arc::new(Config {
        keys: vec![key],
        auth_rejection_time: Duration::ZERO,
        ..Config::default()
    })
}

fn serve(host: &Arc<Host>, config: Arc<Config>, stream: TcpStream) {
    let name = &host.spec().name;
    if host.lan.faults.take("ssh.connect", name).is_some() {
        return; // cut before a word was said
    }
    let config = match host.lan.faults.take("ssh.key", name) {
        Some(_) => self::config(PrivateKey::from(Ed25519Keypair::from_seed(&[7; 32]))),
        None => config,
    };
    // Without this, each response of two packets is delayed by 40 ms: only the library's own listener heeds
    // `Config::nodelay`.
    let _ = stream.set_nodelay(true);
    // A second handle of the socket, to close it on power-off.
    let Ok(stream) = stream.into_std() else {
        return;
    };
    let Ok(plug) = stream.try_clone() else { return };
    let Ok(stream) = TcpStream::from_std(stream) else {
        return;
    };
    host.register_socket(plug);
    let door = Connection {
        host: host.clone(),
        user: String::new(),
        channels: HashMap::new(),
    };
    let task = tokio::spawn(async move {
        // A client that disconnects early is not an error of the host.
        if let Ok(session) = run_stream(config, stream, door).await {
            let _ = session.await;
        }
    });
    host.register_task(task.abort_handle());
}

struct Connection {
    host: Arc<Host>,
    user: String,
    channels: HashMap<ChannelId, Channel<Msg>>,
}

impl Connection {
    fn answer(&mut self, user: &str, how: &str, knows: bool) -> Auth {
        let subject = format!("{}: {user}", self.host.spec().name);
        let fault = self.host.lan.faults.take("ssh.login", &subject);
        let accepted = knows && fault.is_none();
        let code = i64::from(!accepted);
        self.host
            .lan
            .books
            .record("ssh", "ssh.login", &subject, (code, how));
        if !accepted {
            return Auth::reject();
        }
        user.clone_into(&mut self.user);
        Auth::Accept
    }

    fn has_key(&self, user: &str, how: impl Fn(&User) -> bool) -> bool {
        self.host
            .spec()
            .users
            .iter()
            .any(|known| known.name == user && how(known))
    }
}

impl Handler for Connection {
    type Error = russh::Error;

    async fn auth_password(&mut self, user: &str, password: &str) -> Result<Auth, russh::Error> {
        let knows = self.has_key(user, |known| known.password.as_deref() == Some(password));
        Ok(self.answer(user, "password", knows))
    }

    async fn auth_publickey(
        &mut self,
        user: &str,
        key: VerifiedPublicKey<'_>,
    ) -> Result<Auth, russh::Error> {
        let offered = key.public_key.key_data();
        let same = |line: &String| {
            PublicKey::from_openssh(line.trim()).is_ok_and(|known| known.key_data() == offered)
        };
        let knows = self.has_key(user, |known| known.authorized_keys.iter().any(same));
        Ok(self.answer(user, "publickey", knows))
    }

    async fn channel_open_session(
        &mut self,
        channel: Channel<Msg>,
        reply: ChannelOpenHandle,
        _: &mut Session,
    ) -> Result<(), russh::Error> {
        self.channels.insert(channel.id(), channel);
        reply.accept().await;
        Ok(())
    }

    async fn channel_open_direct_tcpip(
        &mut self,
        channel: Channel<Msg>,
        address: &str,
        port: u32,
        _: &str,
        _: u32,
        reply: ChannelOpenHandle,
        _: &mut Session,
    ) -> Result<(), russh::Error> {
        let subject = format!("{}: {address}:{port}", self.host.spec().name);
        let connected = TcpStream::connect(format!("{address}:{port}")).await;
        let code = i64::from(connected.is_err());
        self.host
            .lan
            .books
            .record("ssh", "ssh.jump", &subject, code);
        match connected {
            Ok(mut stream) => {
                reply.accept().await;
                let task = tokio::spawn(async move {
                    // Either side may close it; neither is an error of the host.
                    let _ = copy_bidirectional(&mut channel.into_stream(), &mut stream).await;
                });
                self.host.register_task(task.abort_handle());
            }
            Err(_) => reply.reject(ChannelOpenFailure::ConnectFailed).await,
        }
        Ok(())
    }

    async fn exec_request(
        &mut self,
        id: ChannelId,
        command: &[u8],
        session: &mut Session,
    ) -> Result<(), russh::Error> {
        let Some(channel) = self.channels.remove(&id) else {
            return session.channel_failure(id);
        };
        session.channel_success(id)?;
        let command = String::from_utf8_lossy(command).into_owned();
        let shell = Shell::new(self.host.clone(), self.user.clone());
        let task = tokio::spawn(run_on_channel(channel, shell, command));
        self.host.register_task(task.abort_handle());
        Ok(())
    }

    async fn shell_request(
        &mut self,
        id: ChannelId,
        session: &mut Session,
    ) -> Result<(), russh::Error> {
        session.channel_success(id)?;
        session.data(
            id,
            "a simulated host has no interactive shell: give ssh a command\r\n",
        )?;
        session.exit_status_request(id, 1)?;
        session.close(id)
    }

    async fn channel_close(&mut self, id: ChannelId, _: &mut Session) -> Result<(), russh::Error> {
        self.channels.remove(&id);
        Ok(())
    }
}

/// Runs one command on a channel; stops it when the client closes the channel or sends a signal.
async fn run_on_channel(channel: Channel<Msg>, shell: Shell, command: String) {
    let (mut read, write) = channel.split();
    let (arrived, arriving) = oneshot::channel();
    let done = tokio::select! {
        done = execute(shell, &command, Input::Arriving(arriving)) => done,
        () = read_input(&mut read, arrived) => None,
    };
    if let Some(output) = done {
        // An error means that the client has disconnected.
        let _ = write_output(&write, output).await;
    }
    let _ = write.close().await;
}

/// Collects standard input; returns when the client closes the channel or sends a signal.
async fn read_input(read: &mut ChannelReadHalf, arrived: oneshot::Sender<Vec<u8>>) {
    let mut bytes = Vec::new();
    let mut arrived = Some(arrived);
    while let Some(message) = read.wait().await {
        match message {
            ChannelMsg::Data { data } => bytes.extend_from_slice(&data),
            ChannelMsg::Eof => {
                // The send fails if the command has ended and reads no more.
                let _ = arrived
                    .take()
                    .map(|arrived| arrived.send(std::mem::take(&mut bytes)));
            }
            ChannelMsg::Signal { .. } | ChannelMsg::Close => return,
            _ => {}
        }
    }
}

/// Runs the command with fault injection and logging; `None` cuts the channel.
async fn execute(mut shell: Shell, command: &str, mut input: Input) -> Option<Output> {
    let host = shell.host.clone();
    let lan = &host.lan;
    let (call, what) = match command.rsplit_once(" vnfm-put ") {
        Some((_, rest)) => ("ssh.put", rest.trim_end_matches('\'')),
        None => ("ssh.run", command),
    };
    let subject = format!("{}: {what}", host.spec().name);
    let fault = lan.faults.take(call, &subject);
    let (output, remark) = match fault {
        Some(Fault::Exit { exit, stderr }) => (Some(Output::fail(exit, stderr)), "fault"),
        Some(Fault::Flood { flood, exit }) => (Some(Output::flood(flood, exit)), "flood"),
        // A hostile host sends more output than a client should buffer.
        Some(Fault::Hostile { .. }) => (Some(Output::flood(HOSTILE_OUTPUT_LEN, 0)), "hostile"),
        Some(Fault::Drop { drop: When::Before } | Fault::Status { .. }) => (None, "cut before"),
        Some(Fault::Hang { .. }) => std::future::pending().await,
        Some(Fault::HangAfterEffect { .. }) => {
            shell.script(command, &mut input).await;
            std::future::pending().await
        }
        Some(
            Fault::Drop { drop: When::After }
            | Fault::ErrorAfterEffect { .. }
            | Fault::CutAfter { .. },
        ) => {
            shell.script(command, &mut input).await;
            (None, "cut after")
        }
        Some(Fault::Delay { delay_ms }) => {
            crate::time::pause(Duration::from_millis(delay_ms)).await;
            (Some(shell.script(command, &mut input).await), "delayed")
        }
        None => (Some(shell.script(command, &mut input).await), ""),
    };
    let code = output.as_ref().map_or(0, |output| i64::from(output.code));
    lan.books.record("ssh", call, &subject, (code, remark));
    output
}

async fn write_output(write: &ChannelWriteHalf<Msg>, output: Output) -> Result<(), russh::Error> {
    if !output.out.is_empty() {
        write.data(output.out.as_slice()).await?;
    }
    if !output.err.is_empty() {
        write.extended_data(1, output.err.as_bytes()).await?;
    }
    write
        .exit_status(u32::try_from(output.code).unwrap_or(255))
        .await?;
    write.eof().await
}
