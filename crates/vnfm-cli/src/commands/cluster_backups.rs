//! `vnfmctl cluster backup`, `backups` and `restore --from`: snapshots of etcd that the server stores, and the schedule by which
//! it takes them.

use super::cluster::{Clusters, act, give};
use super::download;
use super::secret_input::read_secret;
use super::vnf::{INSTANCES, id_of};
use crate::args::{ClusterBackup, ClusterTask, Interval};
use crate::client::{Client, Failure, Outcome, local, segment};
use crate::output::{Column, Output, tell};
use jiff::Timestamp;
use reqwest::{Method, StatusCode, header};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use vnfm::SystemClock;
use vnfm::ports::Clock as _;

/// The end of a snapshot's file name.
const FILE_END: &str = ".db.enc";
const COLUMNS: &[Column] = &[
    ("snapshot", "/snapshot"),
    ("bytes", "/bytes"),
    ("stored at", "/storedAt"),
    ("sha256", "/sha256"),
];

/// Takes a snapshot, or sets the schedule by which the server does.
pub(super) async fn back_up(client: &Client, output: Output, backup: ClusterBackup) -> Outcome<()> {
    let ClusterBackup {
        task,
        keep,
        every,
        out,
    } = backup;
    let cluster = task.cluster.clone();
    if every == Some(Interval::Off) {
        let all = Clusters::read(client).await?;
        let (_, vnf) = all.find(&cluster)?;
        let request = client.request(Method::DELETE, &schedule_path(vnf));
        client.send(request).await?;
        let done = json!({ "schedule": null });
        return output.done(&format!("{cluster} is backed up on request alone"), &done);
    }
    let mut params = json!({ "cluster_action": "backup", "etcd_passphrase": read_secret()? });
    give(&mut params, "etcd_snapshots_to_keep", keep);
    if let Some(Interval::Seconds(seconds)) = every {
        return schedule(client, output, (&cluster, seconds), params).await;
    }
    let Some(out) = out else {
        return act(client, output, task, params).await;
    };
    let task = ClusterTask {
        watch: true,
        ..task
    };
    act(client, output, task, params).await?;
    let all = Clusters::read(client).await?;
    let (_, vnf) = all.find(&cluster)?;
    let files = stored(client, vnf).await?.into_iter();
    let newest = files.max_by_key(|file| file["storedAt"].as_str().map(str::to_owned));
    let name = newest.as_ref().and_then(|file| file["snapshot"].as_str());
    let name = name.ok_or_else(|| local("the server has stored no snapshot of this cluster"))?;
    save(client, output, vnf, (name, &out)).await
}

/// Has the server take snapshots at an interval.
async fn schedule(
    client: &Client,
    output: Output,
    (cluster, seconds): (&str, u32),
    params: Value,
) -> Outcome<()> {
    let all = Clusters::read(client).await?;
    let (_, vnf) = all.find(cluster)?;
    let begins = json!({ "changeStateTo": "STARTED", "additionalParams": params });
    let body = json!({ "everySeconds": seconds, "request": begins });
    let request = client.request(Method::PUT, &schedule_path(vnf));
    let set: Value = client.json(request.json(&body)).await?;
    let every = span(i64::from(seconds));
    let sentence = format!("{cluster} is backed up every {every}, for the first time now");
    output.done(&sentence, &set)
}

/// Lists the stored snapshots of a cluster, or saves one of them.
pub(super) async fn list(
    client: &Client,
    output: Output,
    (cluster, saved): (&str, Option<(&str, &Path)>),
) -> Outcome<()> {
    let all = Clusters::read(client).await?;
    let (_, vnf) = all.find(cluster)?;
    match saved {
        Some(saved) => save(client, output, vnf, saved).await,
        None => output.list(&stored(client, vnf).await?, COLUMNS),
    }
}

async fn save(
    client: &Client,
    output: Output,
    vnf: &Value,
    (name, out): (&str, &Path),
) -> Outcome<()> {
    let file = format!("{name}{FILE_END}");
    let out = if out.is_dir() {
        out.join(&file)
    } else {
        PathBuf::from(out)
    };
    let path = format!("{}/{}", files_path(vnf), segment(&file));
    download::save(client, output, (path, "*/*"), &out).await
}

/// The name of the snapshot to restore; a file is uploaded first.
pub(super) async fn named(client: &Client, cluster: &str, from: &str) -> Outcome<String> {
    let path = Path::new(from);
    if !path.is_file() {
        return Ok(from.to_owned());
    }
    let file = path.file_name().and_then(|name| name.to_str());
    let name = file.and_then(|file| file.strip_suffix(FILE_END));
    let (Some(file), Some(name)) = (file, name.filter(|name| is_snapshot(name))) else {
        return Err(local(format!(
            "`{from}` is not named as a snapshot: name the file as `vnfmctl cluster backups` listed it, NAME{FILE_END}"
        )));
    };
    let all = Clusters::read(client).await?;
    let (_, vnf) = all.find(cluster)?;
    let opened = tokio::fs::File::open(path).await;
    let opened = opened.map_err(|error| local(format!("cannot read `{from}`: {error}")))?;
    let size = opened.metadata().await.map_err(local)?.len();
    let target = format!("{}/{}", files_path(vnf), segment(file));
    let request = client
        .request(Method::PUT, &target)
        .header(header::CONTENT_TYPE, "application/octet-stream")
        .header(header::CONTENT_LENGTH, size);
    client.send(request.body(opened)).await?;
    tell(&format!("the server has stored `{file}`, {size} bytes"));
    Ok(name.to_owned())
}

/// Whether this is the name of a snapshot: the beginning of the CA's SHA-256, and the time.
fn is_snapshot(name: &str) -> bool {
    let parts = name.split_once('-');
    parts.is_some_and(|(ca, time)| {
        let is_hash = ca.len() == 12 && ca.bytes().all(|byte| byte.is_ascii_hexdigit());
        is_hash && time.len() == 16 && time.bytes().all(|byte| byte.is_ascii_alphanumeric())
    })
}

/// The row of a cluster, with its last backup and its schedule.
pub(super) async fn shown(client: &Client, vnf: &Value, mut row: Value) -> Outcome<Value> {
    let files = stored(client, vnf).await?;
    let newest = files
        .iter()
        .max_by_key(|file| file["storedAt"].as_str().unwrap_or_default());
    if let Some(newest) = newest {
        row["lastBackup"] = newest.clone();
        let (name, at) = (&newest["snapshot"], newest["storedAt"].as_str());
        let age = at.and_then(|at| at.parse::<Timestamp>().ok());
        let age = age.map(|at| SystemClock.now().duration_since(at).as_secs());
        let age = age.map(|seconds| format!("{} ago, ", span(seconds)));
        let name = name.as_str().unwrap_or_default();
        let text = format!("{}with the server: {name}", age.unwrap_or_default());
        row["lastBackup"]["shown"] = text.into();
    } else if let Some(name) = vnf.pointer("/metadata/etcdBackup/snapshot") {
        let name = name.as_str().unwrap_or_default();
        row["lastBackup"] = json!({ "shown": format!("on the nodes alone: {name}") });
    }
    let request = client.request(Method::GET, &schedule_path(vnf));
    let Some(mut schedule) = present::<Value>(client.json(request).await)? else {
        return Ok(row);
    };
    let every = schedule["everySeconds"].as_i64().unwrap_or_default();
    let next = schedule["nextAt"].as_str().unwrap_or_default().to_owned();
    schedule["shown"] = format!("every {}, next at {next}", span(every)).into();
    row["schedule"] = schedule;
    Ok(row)
}

/// The snapshots that the server has stored.
async fn stored(client: &Client, vnf: &Value) -> Outcome<Vec<Value>> {
    // An older server has no stored files.
    let files = present::<Vec<Value>>(client.get(&files_path(vnf)).await)?;
    let files = files.unwrap_or_default();
    let snapshots = files.into_iter().filter_map(|mut file| {
        let name = file["name"].as_str()?.strip_suffix(FILE_END)?.to_owned();
        file["snapshot"] = name.into();
        Some(file)
    });
    Ok(snapshots.collect())
}

/// `None` if the server has no such resource.
fn present<T>(outcome: Outcome<T>) -> Outcome<Option<T>> {
    match outcome {
        Err(Failure::Refused(problem)) if problem.status == StatusCode::NOT_FOUND.as_u16() => {
            Ok(None)
        }
        other => other.map(Some),
    }
}

fn own_path(vnf: &Value) -> String {
    let id = id_of(vnf);
    INSTANCES.replace("/vnflcm/v2/", "/vnfm/v1/") + "/" + id
}

fn files_path(vnf: &Value) -> String {
    format!("{}/files", own_path(vnf))
}

fn schedule_path(vnf: &Value) -> String {
    format!("{}/schedule", own_path(vnf))
}

/// A time span for people, in its largest unit.
fn span(seconds: i64) -> String {
    match seconds.max(0) {
        days @ 172_800.. => format!("{} d", days / 86_400),
        hours @ 7_200.. => format!("{} h", hours / 3_600),
        minutes @ 120.. => format!("{} min", minutes / 60),
        seconds => format!("{seconds} s"),
    }
}

#[cfg(test)]
mod tests {
    use super::{is_snapshot, span};

    #[test]
    fn a_snapshot_is_known_by_its_name() {
        assert!(is_snapshot("0123456789ab-20261128T120000Z"));
        for name in [
            "",
            "backup",
            "0123456789ab-",
            "0123456789ag-20261128T120000Z",
        ] {
            assert!(!is_snapshot(name), "{name}");
        }
    }

    #[test]
    fn a_span_has_its_largest_unit() {
        let spans = [-5, 59, 600, 21_600, 864_000].map(span);
        assert_eq!(spans, ["0 s", "59 s", "10 min", "6 h", "10 d"]);
    }
}
