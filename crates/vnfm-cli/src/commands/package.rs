//! `vnfmctl package …`

use super::vendor::{self, Local, Opened};
use super::{described, download};
use crate::args::{Onboard, Package};
use crate::client::{Client, Failure, Outcome, local, lost};
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

/// Between two looks at a package that is on its way.
const BETWEEN: Duration = Duration::from_millis(500);

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
        Package::Onboard(wanted) => onboard(client, output, &wanted).await,
        Package::List(wanted) => {
            let all = client.listing(PACKAGES, &wanted, "").await?;
            output.chosen(&all, COLUMNS, wanted.fields.as_deref())
        }
        Package::Show { package } if is_path(&package) => {
            described::show(output, &opened(Path::new(&package))?.package)
        }
        Package::Graph { path } => super::graph::draw(output, &opened(&path)?.package),
        Package::Init { folder, entry } => vendor::init(output, &folder, entry.as_deref()),
        Package::Build { folder, out } => vendor::build(output, &folder, out.as_deref()),
        Package::Sign(wanted) => vendor::sign(output, &wanted),
        Package::Verify {
            package,
            trust,
            crl,
        } => vendor::verify(output, &package, (trust.as_deref(), crl.as_deref())),
        Package::Show { package } => show(client, output, &package).await,
        Package::Enable { package } => switch(client, output, (&package, "ENABLED")).await,
        Package::Disable { package } => switch(client, output, (&package, "DISABLED")).await,
        Package::Download(wanted) => download::run(client, output, &wanted).await,
        Package::Delete { package } => delete(client, output, &package).await,
    }
}

/// Whether this names a package here; an id or a product of the server has no `/`, and is no file.
fn is_path(name: &str) -> bool {
    name.contains('/') || Path::new(name).exists()
}

/// A package on this machine, also one in an outer archive.
pub(super) fn opened(path: &Path) -> Outcome<Opened> {
    let local = Local::at(path, None)?;
    match vnfm_descriptor::Package::open(local.path(), &Limits::default()) {
        Ok(package) => Ok(Opened { package, local }),
        Err(findings) => Err(Failure::Hinted {
            what: format!("`{}` cannot be used:\n{findings}", path.display()),
            hint: format!("`vnfmctl lint {}` shows the places", path.display()),
        }),
    }
}

/// A package on this machine, or one that is onboarded, in a file that goes with what is returned.
pub(super) async fn here_or_onboarded(
    client: &Client,
    named: &str,
) -> Outcome<(Opened, Option<NamedTempFile>)> {
    if is_path(named) {
        return Ok((opened(Path::new(named))?, None));
    }
    let (opened, file) = fetched(client, &find(client, named).await?, u64::MAX).await?;
    Ok((opened, Some(file)))
}

/// The archive of an onboarded package of at most `most` bytes, in a file that goes with it.
async fn fetched(client: &Client, record: &Value, most: u64) -> Outcome<(Opened, NamedTempFile)> {
    let id = record["id"].as_str().unwrap_or_default();
    let content = client.request(Method::GET, &format!("{PACKAGES}/{id}/package_content"));
    let mut content = client.send(content).await?;
    if let Some(size) = content.content_length().filter(|size| *size > most) {
        return Err(Failure::Hinted {
            what: format!("it has {} MiB", size >> 20),
            hint: "`vnfmctl package show PATH` shows what a file here holds".to_owned(),
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
    let here = opened(file.path())?;
    let told = record["checksum"]["hash"].as_str().unwrap_or_default();
    if !told.eq_ignore_ascii_case(here.package.sha256()) {
        let what = format!(
            "package {id} has SHA-256 {told}, and what the server sent has {}",
            here.package.sha256()
        );
        return Err(local(what));
    }
    Ok((here, file))
}

/// Larger packages are not fetched to be shown.
const LARGEST_SHOWN: u64 = 1 << 30;

/// A package of the server: its record, and what it holds.
async fn show(client: &Client, output: Output, named: &str) -> Outcome<()> {
    let mut record = find(client, named).await?;
    if record["onboardingState"] != "ONBOARDED" {
        return output.one(&record, DETAILS);
    }
    let held = match fetched(client, &record, LARGEST_SHOWN).await {
        Ok(held) => Some(held),
        // The record can be read all the same.
        Err(error @ (Failure::Hinted { .. } | Failure::Refused(_))) => {
            tell(&format!("what the package holds is not shown: {error}"));
            if let Some(hint) = error.hint() {
                tell(&format!("hint: {hint}"));
            }
            None
        }
        Err(error) => return Err(error),
    };
    let package = held.as_ref().map(|(held, _file)| &held.package);
    if let (Some(package), false) = (package, output.is_table()) {
        record["described"] = described::whole(package);
    }
    output.one(&record, DETAILS)?;
    match package {
        Some(package) if output.is_table() => described::parts(output, package),
        _ => Ok(()),
    }
}

pub(super) async fn find(client: &Client, wanted: &str) -> Outcome<Value> {
    client
        .find(PACKAGES, "package", &["vnfdId", "vnfProductName"], wanted)
        .await
}

/// Enables or disables a package.
async fn switch(client: &Client, output: Output, (package, state): (&str, &str)) -> Outcome<()> {
    let found = find(client, package).await?;
    let id = found["id"].as_str().unwrap_or_default();
    let request = client.request(Method::PATCH, &format!("{PACKAGES}/{id}"));
    let changed: Value = client
        .json(request.json(&json!({"operationalState": state})))
        .await?;
    output.done(&format!("package {id} is {state}"), &changed)
}

/// Deletes a package. The standard wants it DISABLED first: one that nobody uses is, and is ENABLED again where it cannot
/// be deleted all the same.
async fn delete(client: &Client, output: Output, package: &str) -> Outcome<()> {
    let found = find(client, package).await?;
    let id = found["id"].as_str().unwrap_or_default();
    let uri = format!("{PACKAGES}/{id}");
    let switched = async |state: &str| {
        let request = client.request(Method::PATCH, &uri);
        client
            .send(request.json(&json!({"operationalState": state})))
            .await
    };
    let is_free = found["operationalState"] == "ENABLED" && found["usageState"] == "NOT_IN_USE";
    // Where somebody has disabled it meanwhile, deleting it is right all the same; of the two answers that is the better.
    let is_ours = is_free && switched("DISABLED").await.is_ok();
    if is_ours {
        tell(&format!(
            "package {id} is DISABLED, so that it can be deleted"
        ));
    }
    if let Err(failure) = client.send(client.request(Method::DELETE, &uri)).await {
        if is_ours && switched("ENABLED").await.is_ok() {
            tell(&format!("package {id} is ENABLED again"));
        }
        return Err(failure);
    }
    output.done(&format!("deleted package {id}"), &found)
}

async fn onboard(client: &Client, output: Output, wanted: &Onboard) -> Outcome<()> {
    // What is wrong here is said before anything is made there.
    let content = wanted.path.as_deref().map(content).transpose()?;
    let from_uri = wanted
        .from_uri
        .as_deref()
        .map(|uri| from_uri(uri, wanted))
        .transpose()?;
    let request = client.request(Method::POST, PACKAGES).json(&json!({}));
    let created: Value = client.json(request).await?;
    let id = created["id"].as_str().unwrap_or_default().to_owned();
    let uri = format!("{PACKAGES}/{id}");
    let content_uri = format!("{uri}/package_content");
    let sent = if let Some(content) = content {
        let size = content.metadata().map_err(local)?.len();
        let request = client
            .request(Method::PUT, &content_uri)
            .header(header::CONTENT_TYPE, "application/zip")
            .header(header::CONTENT_LENGTH, size);
        client
            .send(request.body(tokio::fs::File::from_std(content)))
            .await
    } else {
        let request = client.request(Method::POST, &format!("{content_uri}/upload_from_uri"));
        client.send(request.json(&from_uri)).await
    };
    if let Err(failure) = sent {
        // What was never asked for is no package; the first failure is the one that counts.
        let _ = client.send(client.request(Method::DELETE, &uri)).await;
        return Err(failure);
    }
    let shown = checked(client, &uri).await?;
    if shown["onboardingState"] != "ONBOARDED" {
        client.send(client.request(Method::DELETE, &uri)).await?;
        return Err(not_onboarded(wanted, &shown["onboardingFailureDetails"]));
    }
    for warning in shown["warnings"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
    {
        tell(warning);
    }
    let (product, vnfd) = (&shown["vnfProductName"], &shown["vnfdId"]);
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let sentence = format!(
        "onboarded {} as package {id}, vnfdId {}",
        text(product),
        text(vnfd)
    );
    output.done(&sentence, &shown)
}

/// The package once nobody works on it any more.
async fn checked(client: &Client, uri: &str) -> Outcome<Value> {
    loop {
        let shown: Value = client.get(uri).await?;
        if !["UPLOADING", "PROCESSING"]
            .iter()
            .any(|state| shown["onboardingState"] == *state)
        {
            return Ok(shown);
        }
        SystemClock.sleep(BETWEEN).await;
    }
}

/// What the server is asked to fetch.
fn from_uri(uri: &str, wanted: &Onboard) -> Outcome<Value> {
    let mut request = json!({ "addressInformation": uri });
    if let (Some(user), Some(file)) = (&wanted.user, &wanted.password_file) {
        let password = std::fs::read_to_string(file)
            .map_err(|error| local(format!("cannot read `{}`: {error}", file.display())))?;
        let password = password.trim_end_matches(['\r', '\n']);
        request["authType"] = json!("BASIC");
        request["paramsBasic"] = json!({ "userName": user, "password": password });
    }
    Ok(request)
}

fn not_onboarded(wanted: &Onboard, problem: &Value) -> Failure {
    let why = problem["detail"].as_str().unwrap_or("no reason given");
    if let Some(path) = &wanted.path {
        return Failure::Hinted {
            what: format!("`{}` was not onboarded:\n{why}", path.display()),
            hint: format!(
                "`vnfmctl lint {}` shows the places, without a server",
                path.display()
            ),
        };
    }
    let what = format!("the server has not onboarded what lies there:\n{why}");
    match problem["next"].as_str() {
        Some(next) => Failure::Hinted {
            what,
            hint: next.to_owned(),
        },
        None => local(what),
    }
}

/// The archive, or the folder packed into a file that is gone when it is closed.
fn content(path: &Path) -> Outcome<File> {
    if path.is_dir() {
        let mut file = tempfile::tempfile().map_err(|error| Failure::Hinted {
            what: format!(
                "cannot pack `{}` into a file in `{}`: {error}",
                path.display(),
                std::env::temp_dir().display()
            ),
            hint: "name another folder in the environment variable TMPDIR".to_owned(),
        })?;
        vnfm_descriptor::pack_to(path, &Limits::default(), &mut file).map_err(local)?;
        file.rewind().map_err(local)?;
        return Ok(file);
    }
    File::open(path).map_err(|error| local(format!("cannot read `{}`: {error}", path.display())))
}
