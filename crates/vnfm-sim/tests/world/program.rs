//! The program prints its endpoints as one line of JSON and stops on SIGTERM.

use std::process::Stdio;

use serde_json::Value;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::Command;

use crate::support::{http, read};

#[tokio::test]
async fn the_program_prints_its_endpoints_and_serves() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_vnfm-sim"))
        .arg("--cluster")
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let line = BufReader::new(child.stdout.take().unwrap())
        .lines()
        .next_line()
        .await
        .unwrap()
        .unwrap();
    let world: Value = serde_json::from_str(&line).unwrap();
    let clouds = std::fs::read_to_string(world["cloudsYaml"].as_str().unwrap()).unwrap();
    assert!(clouds.contains(world["authUrl"].as_str().unwrap()));
    let kubeconfig = std::fs::read_to_string(world["kubeconfig"].as_str().unwrap()).unwrap();
    assert!(kubeconfig.contains("certificate-authority-data"));
    let clusters = read(http().get(format!("{}/clusters", world["control"].as_str().unwrap())))
        .await
        .unwrap()
        .body;
    assert_eq!(
        (
            clusters[0]["name"].as_str(),
            clusters[0]["nodes"][0].as_str()
        ),
        (Some("standalone"), Some("worker"))
    );
    child.kill().await.unwrap();
}

#[tokio::test]
async fn help_is_helpful() {
    let output = Command::new(env!("CARGO_BIN_EXE_vnfm-sim"))
        .arg("--help")
        .output()
        .await
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(
        output.status.success() && text.contains("--control-port") && text.contains("--data"),
        "{text}"
    );
}
