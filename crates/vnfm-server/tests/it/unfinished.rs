//! What a process leaves in the middle of an upload when it is killed.

use crate::bench::packed;
use crate::process::{Server, command, started};
use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};
use std::io::Write as _;
use std::net::TcpStream;

const PACKAGES: &str = "/vnfpkgm/v2/vnf_packages";

fn request(server: &Server, method: Method, path: &str) -> RequestBuilder {
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    client.request(method, format!("{}{path}", server.url)).header("version", "2.3.0")
}

async fn json_of(request: RequestBuilder) -> Value {
    request.send().await.unwrap().json().await.unwrap()
}

#[tokio::test]
async fn what_a_process_left_in_the_middle_is_refused_and_may_be_uploaded_again() {
    let data = tempfile::tempdir().unwrap();
    let mut server = started(&mut command(data.path()));
    let made = json_of(request(&server, Method::POST, PACKAGES).json(&json!({}))).await;
    let path = format!("{PACKAGES}/{}", made["id"].as_str().unwrap());
    let content = packed("vnf-b-cnf");
    let address = server.url.strip_prefix("http://").unwrap().to_owned();
    let mut half = TcpStream::connect(&address).unwrap();
    let length = content.len();
    let head = format!(
        "PUT {path}/package_content HTTP/1.1\r\nhost: {address}\r\nversion: 2.3.0\r\n\
         content-type: application/zip\r\ncontent-length: {length}\r\n\r\n"
    );
    half.write_all(head.as_bytes()).unwrap();
    half.write_all(&content[..length / 2]).unwrap();
    while json_of(request(&server, Method::GET, &path)).await["onboardingState"] != "UPLOADING" {}
    server.process.kill().unwrap();
    server.process.wait().unwrap();

    let server = started(&mut command(data.path()));
    let shown = json_of(request(&server, Method::GET, &path)).await;
    assert_eq!(shown["onboardingState"], "ERROR", "{shown:#}");
    assert_eq!(shown["onboardingFailureDetails"]["code"], "package.interrupted", "{shown:#}");
    let again = request(&server, Method::PUT, &format!("{path}/package_content"));
    let again = again.header("content-type", "application/zip").body(content);
    assert_eq!(again.send().await.unwrap().status(), 202);
    let shown = json_of(request(&server, Method::GET, &path)).await;
    assert_eq!(shown["onboardingState"], "ONBOARDED", "{shown:#}");
    assert!(shown.get("onboardingFailureDetails").is_none(), "{shown:#}");
}
