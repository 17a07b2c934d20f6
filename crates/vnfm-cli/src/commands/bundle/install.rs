//! `vnfmctl bundle install`: verify everything, compare with what is there, refuse conflicts, then install item by item.
//!
//! A second run resumes an interrupted one: what is present with the same hash is skipped.

use super::super::package::{PACKAGES, onboarded_sentence, upload};
use super::folders::{Folders, Presence, extract};
use crate::args::InstallBundle;
use crate::bundle::{Bundle, Item, Kind};
use crate::client::{Client, Failure, Outcome};
use crate::output::{Column, Output, tell};
use serde_json::{Value, json};

const COLUMNS: &[Column] = &[
    ("kind", "/kind"),
    ("name", "/name"),
    ("version", "/version"),
    ("state", "/state"),
    ("where", "/where"),
];
const RESUME: &str = "nothing of that item was installed; run the command again once the cause is removed: \
     what is present already is skipped";

/// An item to install, by its number in the bundle.
struct Planned {
    number: usize,
    presence: Presence,
}

pub(super) async fn run(client: &Client, output: Output, args: &InstallBundle) -> Outcome<()> {
    let bundle = Bundle::open(&args.file)?;
    let trust = super::read_trust(&args.trust, args.crl.as_deref())?;
    super::verify(&bundle, &args.file, Some(&trust))?;
    let wanted = wanted(&bundle, &args.only)?;
    let kinds: Vec<Kind> = wanted
        .iter()
        .map(|number| bundle.items()[*number].kind)
        .collect();
    let folders = Folders::new(args, &kinds)?;
    let plan = plan(client, &bundle, &folders, &wanted).await?;
    refuse_conflicts(&bundle, &plan, args.replace)?;
    let mut rows = Vec::new();
    for planned in &plan {
        let item = &bundle.items()[planned.number];
        if args.dry_run || planned.presence == Presence::Present {
            rows.push(row(item, planned_state(&planned.presence), ""));
            continue;
        }
        let replaces = planned.presence != Presence::Missing;
        tell(&format!(
            "installing {} ({} bytes)",
            item.label(),
            item.bytes()
        ));
        let place = install(client, (&bundle, planned.number), &folders, replaces).await;
        let place = place.map_err(resumable)?;
        rows.push(row(
            item,
            if replaces { "replaced" } else { "installed" },
            &place,
        ));
    }
    output.list(&rows, COLUMNS)
}

/// The numbers of the items of these kinds, or of all, in the order of installation.
fn wanted(bundle: &Bundle, only: &[Kind]) -> Outcome<Vec<usize>> {
    let items = bundle.items();
    let is_wanted = |number: &usize| only.is_empty() || only.contains(&items[*number].kind);
    let mut wanted: Vec<usize> = (0..items.len()).filter(is_wanted).collect();
    wanted.sort_by_key(|number| items[*number].kind);
    if wanted.is_empty() {
        return Err(Failure::Hinted {
            message: "the bundle contains nothing of these kinds".to_owned(),
            hint: "`vnfmctl bundle show FILE` lists its contents".to_owned(),
        });
    }
    Ok(wanted)
}

/// Compares each item with its folder or with the server.
async fn plan(
    client: &Client,
    bundle: &Bundle,
    folders: &Folders,
    wanted: &[usize],
) -> Outcome<Vec<Planned>> {
    let has_packages = wanted
        .iter()
        .any(|number| bundle.items()[*number].kind == Kind::Package);
    let onboarded = if has_packages {
        let listed = client.list(&format!("{PACKAGES}?all_fields")).await;
        listed.map_err(without_server)?
    } else {
        Vec::new()
    };
    let compare = |number: &usize| {
        let item = &bundle.items()[*number];
        let presence = if item.kind == Kind::Package {
            package_presence(item, &onboarded)
        } else {
            folders.presence(item)?
        };
        Ok(Planned {
            number: *number,
            presence,
        })
    };
    wanted.iter().map(compare).collect()
}

fn package_presence(item: &Item, onboarded: &[Value]) -> Presence {
    let sha256 = item.package_sha256.as_deref().unwrap_or_default();
    let is_same = |record: &&Value| {
        let hash = record["checksum"]["hash"].as_str().unwrap_or_default();
        record["onboardingState"] == "ONBOARDED" && hash.eq_ignore_ascii_case(sha256)
    };
    if onboarded.iter().any(|record| is_same(&record)) {
        return Presence::Present;
    }
    let vnfd_id = item.vnfd_id.as_deref();
    let other = onboarded
        .iter()
        .find(|record| vnfd_id.is_some() && record["vnfdId"].as_str() == vnfd_id);
    other.map_or(Presence::Missing, |record| {
        let id = record["id"].as_str().unwrap_or_default();
        Presence::Differs(format!(
            "the server has another package of its VNFD (ID {id})"
        ))
    })
}

/// Refuses the whole installation if it would replace something that may not be replaced.
fn refuse_conflicts(bundle: &Bundle, plan: &[Planned], replace: bool) -> Outcome<()> {
    let mut conflicts = Vec::new();
    for planned in plan {
        let item = &bundle.items()[planned.number];
        let may_replace = replace && item.kind != Kind::Package;
        if let (Presence::Differs(what), false) = (&planned.presence, may_replace) {
            conflicts.push(format!("{}: {what}", item.label()));
        }
    }
    if conflicts.is_empty() {
        return Ok(());
    }
    Err(Failure::Hinted {
        message: format!("nothing was installed:\n{}", conflicts.join("\n")),
        hint: "--replace replaces binaries, plugins and images; a package is deleted with `vnfmctl package delete`, or \
               left out with --only"
            .to_owned(),
    })
}

/// Installs one item; its path, or the id of its package.
async fn install(
    client: &Client,
    (bundle, number): (&Bundle, usize),
    folders: &Folders,
    replaces: bool,
) -> Outcome<String> {
    let item = &bundle.items()[number];
    if item.kind != Kind::Package {
        let path = folders.install(bundle, number, replaces)?;
        return Ok(path.display().to_string());
    }
    let archive = extract(bundle, number)?;
    let archive = archive.reopen().map_err(crate::client::local)?;
    match upload(client, archive).await? {
        Ok(record) => {
            tell(&onboarded_sentence(&record));
            Ok(record["id"].as_str().unwrap_or_default().to_owned())
        }
        Err(details) => {
            let cause = details["detail"].as_str().unwrap_or("no reason given");
            Err(Failure::Hinted {
                message: format!("{} was not onboarded:\n{cause}", item.label()),
                hint: "`vnfmctl lint` shows the source lines of the package that the bundle was created with".to_owned(),
            })
        }
    }
}

/// Adds to a local error what an interrupted installation leaves behind.
fn resumable(failure: Failure) -> Failure {
    match failure {
        Failure::Local(message) => Failure::Hinted {
            message,
            hint: RESUME.to_owned(),
        },
        other => other,
    }
}

/// Without a server, the other kinds can be installed already.
fn without_server(failure: Failure) -> Failure {
    if matches!(failure, Failure::Unreachable { .. }) {
        tell(
            "note: packages need a running server; `--only binary --only plugin --only image` does not",
        );
    }
    failure
}

fn planned_state(presence: &Presence) -> &'static str {
    match presence {
        Presence::Missing => "to be installed",
        Presence::Present => "present",
        Presence::Differs(_) => "to be replaced",
    }
}

fn row(item: &Item, state: &str, place: &str) -> Value {
    json!({"kind": item.kind.noun(), "name": item.name, "version": item.version, "state": state, "where": place})
}
