//! A package larger than the memory that the server may use for it: 256 MiB, or `VNFM_LARGE_GIB`.
//! From 4 GiB on it is a Zip64 archive.

use crate::process::{Server, started, with_config};
use std::fs::{self, File};
use std::io::{BufWriter, Write as _};
use std::path::Path;
use vnfm_descriptor::{Limits, Package};
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipWriter};

const MIB: u64 = 1 << 20;

/// Size of the image, in bytes.
fn size() -> u64 {
    let gib = std::env::var("VNFM_LARGE_GIB")
        .ok()
        .map(|gib| gib.parse::<u64>().unwrap());
    gib.map_or(256 * MIB, |gib| gib << 30)
}

/// VNF-B with such an image, stored uncompressed.
fn large(path: &Path) {
    let sample =
        Package::from_bytes(crate::bench::packed("vnf-b-cnf"), &Limits::default()).unwrap();
    let mut zip = ZipWriter::new(BufWriter::new(File::create(path).unwrap()));
    let stored = SimpleFileOptions::default().compression_method(CompressionMethod::Stored);
    for name in sample.paths() {
        zip.start_file(name, stored).unwrap();
        sample.copy(name, &mut zip).unwrap();
    }
    let zip64 = stored.large_file(size() >= u64::from(u32::MAX));
    zip.start_file("Files/images/web.raw", zip64).unwrap();
    let block: Vec<u8> = (0..=250).cycle().take(1 << 20).collect();
    for _ in 0..size() / MIB {
        zip.write_all(&block).unwrap();
    }
    zip.finish().unwrap().flush().unwrap();
}

/// Peak memory of the process, in bytes.
fn peak(server: &Server) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", server.process.id())).unwrap();
    let line = status
        .lines()
        .find(|line| line.starts_with("VmHWM:"))
        .unwrap();
    line.split_whitespace()
        .nth(1)
        .unwrap()
        .parse::<u64>()
        .unwrap()
        * 1024
}

#[tokio::test]
async fn a_large_package_is_onboarded_with_constant_memory() {
    let folder = tempfile::tempdir().unwrap();
    let (path, config) = (
        folder.path().join("web.csar"),
        folder.path().join("config.yaml"),
    );
    large(&path);
    fs::write(
        &config,
        format!("limits: {{package_bytes: {}}}\n", 2 * size()),
    )
    .unwrap();
    let server = started(&mut with_config(&folder.path().join("data"), &config));
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    let packages = format!("{}{}", server.url, crate::bench::PACKAGES);
    let send = |request: reqwest::RequestBuilder| async move {
        let response = request.header("version", "2.3.0").send().await.unwrap();
        assert!(response.status().is_success(), "{response:?}");
        serde_json::from_str::<serde_json::Value>(&response.text().await.unwrap())
            .unwrap_or_default()
    };
    let created = send(client.post(&packages).json(&serde_json::json!({}))).await;
    let package = format!("{packages}/{}", created["id"].as_str().unwrap());
    let before = peak(&server);
    let content = tokio::fs::File::open(&path).await.unwrap();
    send(
        client
            .put(format!("{package}/package_content"))
            .body(content),
    )
    .await;
    let package_info = send(client.get(&package)).await;
    assert_eq!(
        package_info["onboardingState"], "ONBOARDED",
        "{package_info:#}"
    );
    let grown = peak(&server).saturating_sub(before);
    println!(
        "{} MiB taken in with {} MiB more memory",
        size() / MIB,
        grown / MIB
    );
    assert!(
        grown < 48 * MIB,
        "the server needed {} MiB more memory",
        grown / MIB
    );
    let hash = package_info["checksum"]["hash"].as_str().unwrap();
    let own = Package::open(&path, &Limits::default()).unwrap();
    assert_eq!(hash, own.sha256(), "the hash computed during the upload");
}
