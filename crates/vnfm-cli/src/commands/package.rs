//! `vnfmctl package …`: packages on the server; those on this machine are handled by `package_files.rs`.

use super::package_files::{self, Local, Opened};
use super::{described, download};
use crate::args::{Onboard, Package};
use crate::client::{Client, Failure, Outcome, local, lost};
use crate::input;
use crate::output::{Column, Output, tell};
use reqwest::{Method, header};
use serde_json::{Value, json};
use std::fs::File;
use std::io::{Seek as _, Write as _};
use std::path::Path;
use std::time::Duration;
use tempfile::NamedTempFile;
use vnfm::SystemClock;
use vnfm::ports::Clock as _;
use vnfm_descriptor::Limits;

/// Interval at which a package is polled until it is onboarded.
const POLL_INTERVAL: Duration = Duration::from_millis(500);

/// The error code of a package with errors.
const REFUSED: &str = "package.refused";

pub(super) const PACKAGES: &str = "/vnfpkgm/v2/vnf_packages";
const COLUMNS: &[Column] = &[
    ("product", "/vnfProductName"),
    ("version", "/vnfSoftwareVersion"),
    ("id", "/id"),
    ("vnfdId", "/vnfdId"),
    ("state", "/onboardingState"),
    ("usage", "/usageState"),
];
const DETAILS: &[Column] = &[
    ("id", "/id"),
    ("vnfdId", "/vnfdId"),
    ("provider", "/vnfProvider"),
    ("product", "/vnfProductName"),
    ("software", "/vnfSoftwareVersion"),
    ("vnfd version", "/vnfdVersion"),
    ("state", "/onboardingState"),
    ("operational", "/operationalState"),
    ("usage", "/usageState"),
    ("sha-256", "/checksum/hash"),
    ("failure", "/onboardingFailureDetails/detail"),
    ("warnings", "/warnings"),
];

pub(super) async fn run(client: &Client, output: Output, command: Package) -> Outcome<()> {
    match command {
        Package::Onboard(args) => onboard(client, output, &args).await,
        Package::List(args) => {
            let all = client.listing(PACKAGES, &args, "").await?;
            output.chosen(&all, COLUMNS, args.fields.as_deref())
        }
        Package::Show { package } if is_path(&package) => {
            described::show(output, &open(Path::new(&package))?.package)
        }
        Package::Graph { path } => super::graph::draw(output, &open(&path)?.package),
        Package::Mapping { package, out } => {
            let (opened, _file) = local_or_onboarded(client, &package).await?;
            super::mapping::write(output, &opened.package, out.as_deref())
        }
        Package::Render(args) => {
            let (opened, _file) = local_or_onboarded(client, &args.package).await?;
            super::render::run(output, opened.package, &args)
        }
        Package::Init { folder, entry } => package_files::init(output, &folder, entry.as_deref()),
        Package::Build { folder, out } => package_files::build(output, &folder, out.as_deref()),
        Package::Sign(args) => package_files::sign(output, &args),
        Package::Verify {
            package,
            trust,
            crl,
        } => package_files::verify(output, &package, trust.as_deref(), crl.as_deref()),
        Package::Match {
            package,
            vim,
            all: _,
        } => super::matching::package(client, output, &package, vim.as_deref()).await,
        Package::Show { package } => show(client, output, &package).await,
        Package::Enable { package } => set_state(client, output, &package, "ENABLED").await,
        Package::Disable { package } => set_state(client, output, &package, "DISABLED").await,
        Package::Download(args) => download::run(client, output, &args).await,
        Package::Delete { package } => delete(client, output, &package).await,
    }
}

/// Whether `name` is a local path: it contains a `/` or exists. Otherwise it is an ID or name on the server.
fn is_path(name: &str) -> bool {
    name.contains('/') || Path::new(name).exists()
}

/// Opens a package on this machine, unwrapping an outer archive.
pub(super) fn open(path: &Path) -> Outcome<Opened> {
    let local = Local::at(path, None)?;
    match vnfm_descriptor::Package::open(local.path(), &Limits::default()) {
        Ok(package) => Ok(Opened { package, local }),
        Err(findings) => Err(Failure::Hinted {
            message: format!("`{}` is not a valid package:\n{findings}", path.display()),
            hint: format!("`vnfmctl lint {}` shows the source lines", path.display()),
        }),
    }
}

/// Opens a local package, or downloads an onboarded one into the temporary file that is returned with it.
pub(super) async fn local_or_onboarded(
    client: &Client,
    named: &str,
) -> Outcome<(Opened, Option<NamedTempFile>)> {
    if is_path(named) {
        return Ok((open(Path::new(named))?, None));
    }
    let (opened, file) = fetch(client, &find(client, named).await?, u64::MAX).await?;
    Ok((opened, Some(file)))
}

/// Downloads an onboarded package of at most `max_bytes` into a temporary file.
async fn fetch(
    client: &Client,
    record: &Value,
    max_bytes: u64,
) -> Outcome<(Opened, NamedTempFile)> {
    let id = record["id"].as_str().unwrap_or_default();
    let content = client.request(Method::GET, &format!("{PACKAGES}/{id}/package_content"));
    let mut content = client.send(content).await?;
    if let Some(size) = content.content_length().filter(|size| *size > max_bytes) {
        return Err(Failure::Hinted {
            message: format!("the archive has {} MiB", size >> 20),
            hint: "download it and use `vnfmctl package show PATH`".to_owned(),
        });
    }
    let mut file = NamedTempFile::new().map_err(local)?;
    while let Some(piece) = content
        .chunk()
        .await
        .map_err(|error| lost(client, &error))?
    {
        file.write_all(&piece).map_err(local)?;
    }
    let opened = open(file.path())?;
    let expected = record["checksum"]["hash"].as_str().unwrap_or_default();
    let received = opened.package.sha256();
    if !expected.eq_ignore_ascii_case(received) {
        return Err(local(format!(
            "package {id} has SHA-256 {expected}, but the archive that the server sent has {received}"
        )));
    }
    Ok((opened, file))
}

/// Largest archive that `package show` downloads, in bytes.
const MAX_SHOWN_BYTES: u64 = 1 << 30;

/// Shows a package of the server: its record and its contents.
async fn show(client: &Client, output: Output, named: &str) -> Outcome<()> {
    let mut record = find(client, named).await?;
    if record["onboardingState"] != "ONBOARDED" {
        return output.one(&record, DETAILS);
    }
    let contents = match fetch(client, &record, MAX_SHOWN_BYTES).await {
        Ok(contents) => Some(contents),
        // The record is still worth showing.
        Err(error @ (Failure::Hinted { .. } | Failure::Refused(_))) => {
            tell(&format!("cannot show the contents of the package: {error}"));
            if let Some(hint) = error.hint() {
                tell(&format!("hint: {hint}"));
            }
            None
        }
        Err(error) => return Err(error),
    };
    let package = contents.as_ref().map(|(opened, _file)| &opened.package);
    if let (Some(package), false) = (package, output.is_table()) {
        record["described"] = described::document(package);
    }
    output.one(&record, DETAILS)?;
    match package {
        Some(package) if output.is_table() => described::tables(output, package),
        _ => Ok(()),
    }
}

pub(super) async fn find(client: &Client, id_or_name: &str) -> Outcome<Value> {
    client
        .find(
            PACKAGES,
            "package",
            &["vnfdId", "vnfProductName"],
            id_or_name,
        )
        .await
}

async fn set_state(client: &Client, output: Output, package: &str, state: &str) -> Outcome<()> {
    let found = find(client, package).await?;
    let id = found["id"].as_str().unwrap_or_default();
    let request = client.request(Method::PATCH, &format!("{PACKAGES}/{id}"));
    let changed: Value = client
        .json(request.json(&json!({"operationalState": state})))
        .await?;
    output.done(&format!("package {id} is {state}"), &changed)
}

/// Deletes a package. The standard requires it to be DISABLED first: an unused one is disabled, and enabled again
/// if it cannot be deleted.
async fn delete(client: &Client, output: Output, package: &str) -> Outcome<()> {
    let found = find(client, package).await?;
    let id = found["id"].as_str().unwrap_or_default();
    let uri = format!("{PACKAGES}/{id}");
    let set_state = async |state: &str| {
        let request = client.request(Method::PATCH, &uri);
        client
            .send(request.json(&json!({"operationalState": state})))
            .await
    };
    let is_free = found["operationalState"] == "ENABLED" && found["usageState"] == "NOT_IN_USE";
    // If someone else has disabled it meanwhile, deleting it is still right, and its error is the more useful one.
    let is_disabled_by_us = is_free && set_state("DISABLED").await.is_ok();
    if is_disabled_by_us {
        tell(&format!("package {id} is now DISABLED, to delete it"));
    }
    if let Err(failure) = client.send(client.request(Method::DELETE, &uri)).await {
        if is_disabled_by_us && set_state("ENABLED").await.is_ok() {
            tell(&format!("package {id} is ENABLED again"));
        }
        return Err(failure);
    }
    output.done(&format!("deleted package {id}"), &found)
}

async fn onboard(client: &Client, output: Output, args: &Onboard) -> Outcome<()> {
    // Local errors come before anything is created on the server.
    let content = args.path.as_deref().map(content).transpose()?;
    let from_uri = args
        .from_uri
        .as_deref()
        .map(|uri| from_uri(uri, args))
        .transpose()?;
    let content = match (content, from_uri) {
        (Some(file), _) => Content::Archive(file),
        (None, address) => Content::Address(address.unwrap_or_default()),
    };
    let record = transfer(client, content)
        .await?
        .map_err(|details| not_onboarded(args, &details))?;
    let sentence = onboarded_sentence(&record);
    output.done(&sentence, &record)
}

/// Where the server gets a package from.
enum Content {
    /// The upload of this archive.
    Archive(File),
    /// A download by the server: the body of `upload_from_uri`.
    Address(Value),
}

/// Uploads an archive and waits until it is onboarded; its record.
///
/// The inner error is why the server did not onboard it.
pub(super) async fn upload(client: &Client, archive: File) -> Outcome<Result<Value, Value>> {
    transfer(client, Content::Archive(archive)).await
}

/// Creates a package with this content, and waits for its record; a package that is not onboarded is deleted, and its
/// `onboardingFailureDetails` are returned.
async fn transfer(client: &Client, content: Content) -> Outcome<Result<Value, Value>> {
    let request = client.request(Method::POST, PACKAGES).json(&json!({}));
    let created: Value = client.json(request).await?;
    let id = created["id"].as_str().unwrap_or_default().to_owned();
    let uri = format!("{PACKAGES}/{id}");
    let content_uri = format!("{uri}/package_content");
    let sent = match content {
        Content::Archive(content) => {
            let size = content.metadata().map_err(local)?.len();
            let request = client
                .request(Method::PUT, &content_uri)
                .header(header::CONTENT_TYPE, "application/zip")
                .header(header::CONTENT_LENGTH, size);
            client
                .send(request.body(tokio::fs::File::from_std(content)))
                .await
        }
        Content::Address(address) => {
            let request = client.request(Method::POST, &format!("{content_uri}/upload_from_uri"));
            client.send(request.json(&address)).await
        }
    };
    if let Err(failure) = sent {
        // Remove the empty package; the first failure is the one to report.
        let _ = client.send(client.request(Method::DELETE, &uri)).await;
        return Err(failure);
    }
    let record = onboarded(client, &uri).await?;
    if record["onboardingState"] != "ONBOARDED" {
        client.send(client.request(Method::DELETE, &uri)).await?;
        return Ok(Err(record["onboardingFailureDetails"].clone()));
    }
    for warning in record["warnings"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
    {
        tell(warning);
    }
    Ok(Ok(record))
}

pub(super) fn onboarded_sentence(record: &Value) -> String {
    let text = |name: &str| record[name].as_str().unwrap_or_default();
    format!(
        "onboarded {} as package {}, vnfdId {}",
        text("vnfProductName"),
        text("id"),
        text("vnfdId")
    )
}

/// Polls the package until the server has finished processing it.
async fn onboarded(client: &Client, uri: &str) -> Outcome<Value> {
    loop {
        let record: Value = client.get(uri).await?;
        if !["UPLOADING", "PROCESSING"]
            .iter()
            .any(|state| record["onboardingState"] == *state)
        {
            return Ok(record);
        }
        SystemClock.sleep(POLL_INTERVAL).await;
    }
}

/// The body of an `upload_from_uri` request.
fn from_uri(uri: &str, args: &Onboard) -> Outcome<Value> {
    let mut request = json!({ "addressInformation": uri });
    if let (Some(user), Some(file)) = (&args.user, &args.password_file) {
        let password = input::text(file)
            .map_err(|error| local(format!("cannot read `{}`: {error}", file.display())))?;
        let password = password.trim_end_matches(['\r', '\n']);
        request["authType"] = json!("BASIC");
        request["paramsBasic"] = json!({ "userName": user, "password": password });
    }
    Ok(request)
}

fn not_onboarded(args: &Onboard, problem: &Value) -> Failure {
    let cause = problem["detail"].as_str().unwrap_or("no reason given");
    let message = match &args.path {
        Some(path) => format!("`{}` was not onboarded:\n{cause}", path.display()),
        None => format!("the server did not onboard the package at that URI:\n{cause}"),
    };
    let lint = || {
        let path = args.path.as_ref().filter(|_| problem["code"] == REFUSED)?;
        let path = path.display();
        Some(format!(
            "`vnfmctl lint {path}` shows the source lines (works offline)"
        ))
    };
    let next = problem["next"].as_str().map(str::to_owned);
    match next.or_else(lint) {
        Some(hint) => Failure::Hinted { message, hint },
        None => local(message),
    }
}

/// The archive, or the folder packed into a temporary file.
fn content(path: &Path) -> Outcome<File> {
    if path.is_dir() {
        let mut file = tempfile::tempfile().map_err(|error| Failure::Hinted {
            message: format!(
                "cannot pack `{}` into a file in `{}`: {error}",
                path.display(),
                std::env::temp_dir().display()
            ),
            hint: "set TMPDIR to another folder".to_owned(),
        })?;
        vnfm_descriptor::pack_to(path, &Limits::default(), &mut file).map_err(local)?;
        file.rewind().map_err(local)?;
        return Ok(file);
    }
    File::open(path).map_err(|error| local(format!("cannot read `{}`: {error}", path.display())))
}
