//! A background task that fails: `/healthz` fails, and the server stops with the name and cause.

use crate::process::{command, started};
use clap::Parser as _;
use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, pidfd_getfd, pidfd_open};
use std::io::Read as _;
use std::net::{Shutdown, TcpStream};
use std::process::Child;
use vnfm_server::program::{Config, Flags, Server};

async fn healthz(url: &str) -> u16 {
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    client
        .get(format!("{url}/healthz"))
        .send()
        .await
        .unwrap()
        .status()
        .as_u16()
}

#[tokio::test]
async fn a_panicking_task_fails_healthz_and_stops_the_server_with_its_name() {
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default(); // another test may have done so
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let flags = [
        "vnfm-server",
        "--listen",
        "127.0.0.1:0",
        "--data",
        data.to_str().unwrap(),
    ];
    let config = Config::load(Flags::parse_from(flags)).unwrap();
    let server = Server::start(config).await.unwrap();
    assert_eq!(healthz(&server.url()).await, 200);
    let supervisor = server.supervisor().clone();
    let part = tokio::spawn(async move {
        supervisor
            .run_forever("notifier", async { panic!("boom") })
            .await;
    });
    assert_eq!(
        server.failed().await,
        "the part `notifier` of the server panicked: boom"
    );
    assert_eq!(healthz(&server.url()).await, 503);
    part.abort();
    server.stop().await;
}

/// The listening socket of the own process, found by its port and duplicated.
fn listening_socket(process: &Child, port: u16) -> TcpStream {
    let id = process.id();
    let tcp = std::fs::read_to_string(format!("/proc/{id}/net/tcp")).unwrap();
    let address = format!("0100007F:{port:04X}");
    let is_it = |words: &Vec<&str>| words[1] == address && words[3] == "0A";
    let line = tcp
        .lines()
        .skip(1)
        .map(|line| line.split_whitespace().collect())
        .find(is_it);
    let target = format!("socket:[{}]", line.unwrap()[9]);
    let open = std::fs::read_dir(format!("/proc/{id}/fd"))
        .unwrap()
        .map(Result::unwrap);
    let leads_there = |file: &std::fs::DirEntry| {
        std::fs::read_link(file.path()).is_ok_and(|path| path.to_str() == Some(&target))
    };
    let descriptor = open
        .filter(leads_there)
        .find_map(|file| file.file_name().into_string().ok());
    let descriptor = descriptor.unwrap().parse().unwrap();
    let process = pidfd_open(Pid::from_child(process), PidfdFlags::empty()).unwrap();
    pidfd_getfd(process, descriptor, PidfdGetfdFlags::empty())
        .unwrap()
        .into()
}

#[test]
fn the_program_exits_with_1_and_the_cause_if_a_task_ended() {
    let folder = tempfile::tempdir().unwrap();
    let mut server = started(&mut command(&folder.path().join("data")));
    let port = server.url.rsplit(':').next().unwrap().parse().unwrap();
    listening_socket(&server.process, port)
        .shutdown(Shutdown::Both)
        .unwrap();
    let status = server.process.wait().unwrap();
    let mut log = String::new();
    server
        .process
        .stderr
        .take()
        .unwrap()
        .read_to_string(&mut log)
        .unwrap();
    assert_eq!(status.code(), Some(1), "{log}");
    assert!(log.contains("the listening socket is broken"), "{log}");
    let last = log.lines().last().unwrap();
    assert_eq!(
        last,
        "error: the part `listener` of the server ended by itself"
    );
}
