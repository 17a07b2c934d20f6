//! A full disk during an upload: reported as such, and no partial file is left.

use crate::bench::packed;
use crate::interrupted_uploads::until;
use crate::process::{Server, started, with_config};
use crate::upload_from_uri::{ALL, Shelf};
use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};
use std::ffi::OsString;
use std::io::Cursor;
use std::path::Path;
use std::process::{Command, Stdio};
use vnfm_descriptor::{Limits, Package};
use vnfm_sim::{Options, World};

const PACKAGES: &str = "/vnfpkgm/v2/vnf_packages";
const INSTANCES: &str = "/vnflcm/v2/vnf_instances";
/// Maximum file size in blocks of 512 or 1024 bytes: more than the database needs.
const BLOCKS: &str = "4096";

/// A server with a file size limit: larger writes fail as on a full disk.
fn on_a_full_disk(data: &Path, config: &Path) -> Command {
    let server = with_config(data, config);
    let mut command = Command::new("sh");
    let script = format!("trap '' XFSZ; ulimit -f {BLOCKS}; exec \"$0\" \"$@\"");
    command.arg("-c").arg(script).arg(server.get_program());
    command.args(server.get_args().map(OsString::from));
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

/// VNF-B with an incompressible file of 6 MiB.
fn large() -> (Vec<u8>, String) {
    let package = Package::from_bytes(packed("vnf-b-cnf"), &Limits::default()).unwrap();
    let mut seed = 1_u64;
    let noise = (0..6 << 20).map(|_| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        seed.to_be_bytes()[0]
    });
    let more = [("Files/noise".to_owned(), noise.collect())].into();
    let mut bytes = Cursor::new(Vec::new());
    vnfm_descriptor::repack(&package, &more, &mut bytes).unwrap();
    (bytes.into_inner(), package.vnfd().descriptor_id.clone())
}

fn request(server: &Server, method: Method, path: &str) -> RequestBuilder {
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    client
        .request(method, format!("{}{path}", server.url))
        .header("version", "2.3.0")
}

async fn response(request: RequestBuilder) -> (u16, Value) {
    let response = request.send().await.unwrap();
    (
        response.status().as_u16(),
        response.json().await.unwrap_or_default(),
    )
}

/// Names of the files in the package folder.
fn package_files(data: &Path) -> Vec<OsString> {
    let files = std::fs::read_dir(data.join("packages")).unwrap();
    files.map(|file| file.unwrap().file_name()).collect()
}

/// Uploads a small outer archive whose package does not fit; returns the result.
async fn wrapped(server: &Server) -> Value {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("b.csar"), vec![0; 8 << 20]).unwrap();
    std::fs::write(folder.path().join("b.cms"), "-----BEGIN CMS-----").unwrap();
    let outer = vnfm_descriptor::pack(folder.path(), &Limits::default()).unwrap();
    let (_, created) = response(request(server, Method::POST, PACKAGES).json(&json!({}))).await;
    let path = format!("{PACKAGES}/{}", created["id"].as_str().unwrap());
    let put = request(server, Method::PUT, &format!("{path}/package_content"));
    let put = put.header("content-type", "application/zip").body(outer);
    put.send().await.unwrap();
    until("the upload ends", async || {
        let (_, package_info) = response(request(server, Method::GET, &path)).await;
        package_info["onboardingFailureDetails"]
            .is_object()
            .then_some(package_info)
    })
    .await
}

#[tokio::test]
async fn a_package_that_does_not_fit_on_the_disk_is_refused_and_leaves_nothing() {
    let (content, vnfd) = large();
    let world = World::start(Options::default()).await.unwrap();
    world.nfvo().onboard("at-nfvo", &vnfd, content.clone());
    let shelf = Shelf::new(content, &[ALL]).await;
    let (data, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let config = other.path().join("vnfm.yaml");
    let text = format!(
        "nfvo: {{endpoint: '{}', packages: {{subscribe: false}}}}\npackages: {{external: ['{}']}}\n",
        world.nfvo().url(),
        shelf.url
    );
    std::fs::write(&config, text).unwrap();
    let mut server = started(&mut on_a_full_disk(data.path(), &config));
    let create =
        |server: &Server| request(server, Method::POST, INSTANCES).json(&json!({"vnfdId": vnfd}));
    let (status, refused) = response(create(&server)).await;
    assert_eq!(
        (status, &refused["code"]),
        (507, &json!("download.not-written")),
        "{refused:#}"
    );
    let (_, all) = response(request(&server, Method::GET, PACKAGES)).await;
    assert_eq!(
        (all, package_files(data.path())),
        (json!([]), vec![]),
        "nothing half"
    );

    let (_, created) = response(request(&server, Method::POST, PACKAGES).json(&json!({}))).await;
    let path = format!("{PACKAGES}/{}", created["id"].as_str().unwrap());
    let from = json!({"addressInformation": shelf.at("/b.csar")});
    let upload = format!("{path}/package_content/upload_from_uri");
    let (status, _) = response(request(&server, Method::POST, &upload).json(&from)).await;
    assert_eq!(status, 202);
    let package_info = until("the upload ends", async || {
        let (_, package_info) = response(request(&server, Method::GET, &path)).await;
        (package_info["onboardingState"] != "UPLOADING").then_some(package_info)
    })
    .await;
    let why = &package_info["onboardingFailureDetails"];
    assert_eq!(
        (&why["status"], &why["code"]),
        (&json!(507), &json!("download.not-written"))
    );
    assert_eq!(package_files(data.path()), [""; 0], "nothing half");
    assert_eq!(
        response(request(&server, Method::DELETE, &path)).await.0,
        204
    );

    // A small archive that unpacks to a large file.
    let package_info = wrapped(&server).await;
    let why = &package_info["onboardingFailureDetails"];
    assert_eq!(
        (&why["status"], &why["code"]),
        (&json!(507), &json!("package.not-written"))
    );
    assert_eq!(package_files(data.path()), [""; 0], "nothing half");

    server.process.kill().unwrap();
    server.process.wait().unwrap();
    let server = started(&mut with_config(data.path(), &config));
    let (status, created) = response(create(&server)).await;
    assert_eq!(status, 201, "{created:#}");
}
