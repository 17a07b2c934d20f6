//! `vnfm-software`, the script that drivers install for software of nodes. On a real host it is a shell script; here the same
//! commands have the same effects, and installation scripts run in the simulated shell.

use super::host::Host;
use super::shell::Shell;
use super::stdio::{Input, Output, lines};
use sha2::{Digest, Sha256};
use std::collections::BTreeSet;
use std::time::Duration;
use tokio::time::timeout;

/// Where the files of each version are, and what is recorded.
const FOLDER: &str = "/var/lib/vnfm/software";
/// Exit code of an installation that was stopped.
const TOO_SLOW: i32 = 124;

pub(super) async fn vnfm_software(shell: &mut Shell, words: &[&str]) -> Output {
    if !shell.is_root() {
        return Output::fail(1, "vnfm-software: permission denied\n");
    }
    match words {
        ["list"] => Output::ok(list(&shell.host)),
        ["sums", name, version] => Output::ok(sums(&shell.host, name, version).unwrap_or_default()),
        ["install", name, version, seconds, role, node] => {
            let variables = [
                ("NAME", *name),
                ("VERSION", *version),
                ("ROLE", *role),
                ("NODE_NAME", *node),
            ];
            for (variable, value) in variables {
                shell.variables.insert(variable.into(), value.to_owned());
            }
            let limit = Duration::from_secs(seconds.parse().unwrap_or(0));
            install(shell, (name, version), limit).await
        }
        _ => Output::fail(2, "usage: vnfm-software list|sums|install …\n"),
    }
}

fn recorded(host: &Host, name: &str) -> String {
    let line = host.disk().text(&format!("{FOLDER}/{name}/.installed"));
    line.unwrap_or_default().trim().to_owned()
}

fn list(host: &Host) -> String {
    let below = format!("{FOLDER}/");
    let paths = host.disk().paths();
    let names = paths.iter().filter_map(|path| {
        let name = path.strip_prefix(&below)?.split('/').next()?;
        Some(name.to_owned())
    });
    let names: BTreeSet<String> = names.collect();
    lines(names.iter().filter_map(|name| {
        let begun = host.disk().is_file(&format!("{FOLDER}/{name}/.begun"));
        match (recorded(host, name).as_str(), begun) {
            ("", false) => None,
            ("", true) => Some(format!("{name} - - interrupted\n")),
            (line, false) => Some(format!("{name} {line}\n")),
            (line, true) => Some(format!("{name} {line} interrupted\n")),
        }
    }))
}

/// The list of hashes of a version's files; none if a file is missing or has another hash.
fn sums(host: &Host, name: &str, version: &str) -> Option<String> {
    let disk = host.disk();
    let folder = format!("{FOLDER}/{name}/{version}");
    let text = disk.text(&format!("{folder}/sums"))?;
    let is_complete = text.lines().all(|line| {
        let (hash, file) = line.split_once("  ").unwrap_or_default();
        let content = disk.read(&format!("{folder}/{file}"));
        content.is_some_and(|content| hex::encode(Sha256::digest(content)) == hash)
    });
    is_complete.then_some(text)
}

async fn install(shell: &mut Shell, (name, version): (&str, &str), limit: Duration) -> Output {
    let own = format!("{FOLDER}/{name}");
    let Some(sums) = sums(&shell.host, name, version) else {
        let missing = format!("the host lacks files of {name} {version}, or they are damaged\n");
        return Output::fail(3, missing);
    };
    let (hash, file) = sums
        .lines()
        .next()
        .and_then(|line| line.split_once("  "))
        .unwrap_or_default();
    let before = recorded(&shell.host, name);
    let before = before.split(' ').next().unwrap_or_default();
    shell.host.disk().write(&format!("{own}/.begun"), "", 0o600);
    let artifact = format!("{own}/{version}/{file}");
    let variables = [("PREVIOUS_VERSION", before), ("ARTIFACT", &artifact)];
    for (variable, value) in variables {
        shell.variables.insert(variable.into(), value.to_owned());
    }
    let script = format!("{own}/{version}/installer");
    let run = run(shell, name, (&script, &artifact));
    let Ok(output) = timeout(limit, run).await else {
        return Output::fail(TOO_SLOW, "");
    };
    if output.code != 0 {
        return output;
    }
    let mut disk = shell.host.disk();
    disk.write(
        &format!("{own}/.installed"),
        format!("{version} {hash}\n"),
        0o600,
    );
    disk.remove(&format!("{own}/.begun"));
    if before != version {
        let stays = [".installed", version, before].map(|one| format!("{own}/{one}"));
        for path in disk.paths() {
            let is_other =
                |stays: &String| path != *stays && !path.starts_with(&format!("{stays}/"));
            if path.starts_with(&format!("{own}/")) && stays.iter().all(is_other) {
                disk.remove(&path);
            }
        }
    }
    output
}

async fn run(shell: &mut Shell, name: &str, (script, artifact): (&str, &str)) -> Output {
    let has_script = shell.host.disk().is_file(script);
    let is_any = |ends: &[&str]| ends.iter().any(|end| artifact.ends_with(end));
    let argv: Vec<&str> = if has_script {
        vec![script]
    } else if is_any(&[".deb"]) {
        vec!["dpkg", "-i", "--force-confold", artifact]
    } else if is_any(&[".tar", ".tar.gz", ".tgz"]) {
        // The content of the archive is not simulated: the file itself is its `install.sh`.
        vec!["sh", artifact]
    } else {
        let content = shell.host.disk().read(artifact).unwrap_or_default();
        let program = format!("/usr/local/bin/{name}");
        shell.host.disk().write(&program, content, 0o755);
        return Output::default();
    };
    let argv: Vec<_> = argv.into_iter().map(str::to_owned).collect();
    shell.program(&argv, &mut Input::empty()).await
}
