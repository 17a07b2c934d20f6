//! A part of the server that fails: the server says which and why, `/healthz` is red, and whoever runs it is told to end.

use clap::Parser as _;
use vnfm_server::compose::Server;
use vnfm_server::config::{Config, Flags};

async fn healthz(url: &str) -> u16 {
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    client.get(format!("{url}/healthz")).send().await.unwrap().status().as_u16()
}

#[tokio::test]
async fn a_part_that_panics_turns_healthz_red_and_ends_the_server_with_its_name() {
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default(); // another test may have
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let flags = ["vnfm-server", "--listen", "127.0.0.1:0", "--data", data.to_str().unwrap()];
    let config = Config::load(Flags::parse_from(flags)).unwrap();
    let server = Server::start(config).await.unwrap();
    assert_eq!(healthz(&server.url()).await, 200);
    let parts = server.parts().clone();
    let part =
        tokio::spawn(async move { parts.lasting("notifier", async { panic!("boom") }).await });
    assert_eq!(server.failed().await, "the part `notifier` of the server panicked: boom");
    assert_eq!(healthz(&server.url()).await, 503);
    part.abort();
    server.stop().await;
}
