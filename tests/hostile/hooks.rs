//! Hostile hooks: a package script that requests forbidden things from every host service, reads foreign files, and
//! consumes what it can. The services are read from the source that defines them.

use std::time::Duration;

use anyhow::{Result, bail, ensure};
use serde_json::{Value, json};
use uuid::Uuid;
use vnfm_tests::rng::SeededRng;
use vnfm_tests::sources;

use crate::canary::{CANARY_SECRET, EndlessServer};
use crate::cases::Case;
use crate::catalogue::{archive, scripted};
use crate::lifecycle;
use crate::processes::Limits;
use crate::testbed::Testbed;

/// How long a hook may take.
const TIMEOUT: Duration = Duration::from_secs(30);
/// The `vnfdId` of the sample whose script is replaced.
const SAMPLE: &str = "vnf-script-hooks";
/// Printed by the script for each forbidden thing that it reached.
const REACHED: &str = "REACHED";
/// Allowed growth of the database, in bytes.
const MAX_DISK_GROWTH: u64 = 96 << 20;

/// The attacks of the script.
const ATTACKS: &[&str] = &[
    "services",
    "files",
    "processes",
    "network",
    "checkpoints",
    "endless",
    "files outside",
];

const SCRIPT: &str = r#"
import json, os, socket, sys
json.load(sys.stdin)
spec = json.loads(r'''@SPEC@''')

def reached(what):
    print("REACHED " + what, file=sys.stderr)

def ask(service, payload):
    try:
        s = socket.socket(socket.AF_UNIX)
        s.settimeout(15)
        s.connect(os.environ["VNFM_SOCKET"])
        s.sendall((json.dumps({"service": service, "request": payload}) + "\n").encode())
        data = b""
        while not data.endswith(b"\n") and len(data) < 1 << 24:
            piece = s.recv(1 << 16)
            if not piece:
                break
            data += piece
        return data.decode(errors="replace")
    except OSError as error:
        return "error: %s" % error

if spec["try"] == "services":
    for service in spec["services"]:
        for url in spec["urls"]:
            for method in ("GET", "POST"):
                said = ask(service, {"method": method, "url": url, "path": "../../" + spec["paths"][0], "host": "web-0",
                                     "seconds": 0.01, "deadlineSeconds": 2, "command": "id", "key": "k", "what": "w"})
                if spec["inner"] in said or '"status":2' in said.replace(" ", ""):
                    reached("%s by the service %s" % (url, service))
elif spec["try"] == "files":
    for path in spec["paths"]:
        try:
            with open(path, "rb") as file:
                file.read(16)
            reached("the file " + os.path.basename(path))
        except OSError:
            pass
        try:
            os.listdir(os.path.dirname(path))
            reached("the folder of " + os.path.basename(path))
        except OSError:
            pass
elif spec["try"] == "files outside":
    for path in spec["paths"]:
        try:
            with open(path + ".new", "w") as file:
                file.write("x")
            reached("a new file next to " + os.path.basename(path))
        except OSError:
            pass
elif spec["try"] == "processes":
    pid = spec["process"]
    for name in ("environ", "mem", "maps", "root/etc/hostname", "cwd/x"):
        try:
            open("/proc/%d/%s" % (pid, name), "rb").read(1)
            reached("/proc of the server: " + name)
        except OSError:
            pass
    try:
        os.kill(pid, 0)
        reached("the server by a signal")
    except OSError:
        pass
elif spec["try"] == "network":
    for host, port in spec["sockets"]:
        try:
            socket.create_connection((host, port), 1).close()
            reached("%s directly" % host)
        except OSError:
            pass
elif spec["try"] == "checkpoints":
    for number in range(64):
        ask("checkpoint.put", {"key": "key-%d" % number, "value": "x" * (4 << 20)})
elif spec["try"] == "endless":
    for service in spec["services"]:
        ask(service, {"method": "GET", "url": spec["fountain"], "deadlineSeconds": 10, "host": "web-0", "seconds": 0.01})
json.dump({"schemaVersion": 1}, sys.stdout)
"#;

/// Each attack, with the server as root and as another user.
pub(crate) fn cases() -> Vec<Case> {
    let mut all = Vec::new();
    for attack in ATTACKS {
        for unprivileged in [false, true] {
            let user = if unprivileged {
                "another user than root"
            } else {
                "root"
            };
            let what = format!("a script tries {attack}, server as {user}");
            let mut case = Case::new("hook", what, move |testbed, rng| play(testbed, attack, rng));
            case.exclusive = Some(Limits {
                unprivileged,
                ..Limits::default()
            });
            all.push(case);
        }
    }
    all
}

/// The names of the services that the engine serves.
fn services() -> Result<Vec<String>> {
    let file = sources::root().join("crates/vnfm-core/src/ports/service.rs");
    let text = std::fs::read_to_string(file)?;
    let names = text
        .lines()
        .filter_map(|line| line.trim().split_once("=> \""));
    let names: Vec<_> = names
        .filter(|(of, _)| of.starts_with("Self::"))
        .filter_map(|(_, rest)| rest.strip_suffix("\",").map(str::to_owned))
        .collect();
    ensure!(
        names.len() >= 8,
        "only {} host services: cannot read their table",
        names.len()
    );
    Ok(names)
}

/// The package whose script runs this attack.
fn attacking_package(
    testbed: &Testbed,
    attack: &str,
    endless_server: &EndlessServer,
) -> Result<Vec<u8>> {
    let canary = testbed.canary.address();
    let own = testbed.clients.address().to_owned();
    let data = testbed.data();
    let paths = ["secrets.key", "vnfm.db", "vnfm.db-wal"].map(|name| data.join(name));
    let config = testbed.folder().join("server.yaml");
    let port = own
        .rsplit(':')
        .next()
        .and_then(|port| port.parse::<u16>().ok());
    let spec = json!({
        "try": attack,
        "services": services()?,
        "urls": [format!("http://{canary}/x"), format!("http://{own}/healthz"),
            format!("http://{own}/vnfm/v1/secrets/rotate"), "http://169.254.169.254/"],
        "paths": paths.iter().chain([&config]).collect::<Vec<_>>(),
        "process": testbed.process(),
        "sockets": [[canary.ip().to_string(), canary.port()], ["127.98.0.1", port]],
        "fountain": format!("http://{}/", endless_server.address()),
        "inner": CANARY_SECRET,
    });
    let script = SCRIPT.replace("@SPEC@", &spec.to_string());
    let mut files = scripted()?;
    let vnfd = Uuid::new_v4().to_string();
    for (name, bytes) in &mut files {
        if name.starts_with("Definitions/") {
            *bytes = with_id(&String::from_utf8_lossy(bytes), &vnfd).into_bytes();
        }
    }
    files.insert("Scripts/configure.py".into(), script.into_bytes());
    archive(
        files
            .iter()
            .map(|(name, bytes)| (name.as_str(), bytes.as_slice())),
    )
}

/// The sample's request to instantiate.
fn request(testbed: &Testbed) -> Result<Value> {
    let file = sources::root().join(format!("vnfd-samples/{SAMPLE}/requests/instantiate.json"));
    let text = std::fs::read_to_string(file)?.replace("@VIM_ID@", &testbed.fixture.cloud);
    let text = text
        .replace("@NETWORK_ID@", "provider")
        .replace("\"@SSH_PORT@\"", "2222");
    Ok(serde_json::from_str(&text)?)
}

fn play(testbed: &mut Testbed, attack: &str, rng: &mut SeededRng) -> Result<()> {
    let endless_server = EndlessServer::open()?;
    let archive = attacking_package(testbed, attack, &endless_server)?;
    let before = size(testbed);
    let (package, vnfd) = testbed
        .onboard("olga", &archive)?
        .map_err(anyhow::Error::msg)?;
    let request = request(testbed)?;
    let instance = lifecycle::create(testbed, "olga", &vnfd)?;
    let begun = lifecycle::begin(testbed, "olga", (&instance, "instantiate"), &request)?;
    let lifecycle::BeginOutcome::Op(op) = begun else {
        bail!("the sample with scripts is not instantiated")
    };
    let end = lifecycle::wait_for_end(testbed, "olga", &op, TIMEOUT)?;
    let log = testbed
        .clients
        .page("olga", &format!("/vnfm/v1/op_occs/{op}/log"))?
        .to_string();
    let grown = size(testbed).saturating_sub(before);
    lifecycle::remove(testbed, "olga", &instance, rng)?;
    let path = format!("/vnfpkgm/v2/vnf_packages/{package}");
    testbed.clients.json(
        "olga",
        ("PATCH", &path),
        &json!({"operationalState": "DISABLED"}),
    )?;
    testbed.clients.send("olga", ("DELETE", &path), None)?;
    let found: Vec<_> = log
        .match_indices(REACHED)
        .map(|(at, _)| line(&log[at..]))
        .collect();
    ensure!(found.is_empty(), "the script reached {found:?}");
    ensure!(
        grown < MAX_DISK_GROWTH,
        "a hook adds {} MiB to the database",
        grown >> 20
    );
    // A script that did not run has attacked nothing: then the error must name the missing requirement.
    let says_what_to_do = end["error"]["next"]
        .as_str()
        .is_some_and(|next| !next.is_empty());
    let is_named = end["operationState"] == "COMPLETED" || says_what_to_do;
    ensure!(
        is_named,
        "the hook did not run, and the error does not explain why: {end}"
    );
    Ok(())
}

fn line(text: &str) -> String {
    text.chars()
        .take_while(|one| !matches!(one, '"' | '\\'))
        .take(120)
        .collect()
}

fn size(testbed: &Testbed) -> u64 {
    let all = std::fs::read_dir(testbed.data())
        .into_iter()
        .flatten()
        .flatten();
    all.filter_map(|entry| entry.metadata().ok())
        .map(|about| about.len())
        .sum()
}

/// A VNFD with another id.
fn with_id(text: &str, id: &str) -> String {
    let Some(at) = text.find("descriptor_id:") else {
        return text.to_owned();
    };
    let Some(from) = text[at..].find("default: ").map(|found| at + found + 9) else {
        return text.to_owned();
    };
    let is_part = |one: &char| one.is_ascii_hexdigit() || *one == '-';
    let old: String = text[from..].chars().take_while(is_part).collect();
    text.replace(&old, id)
}

#[cfg(test)]
mod tests {
    use super::services;
    use vnfm_tests::sources;

    #[test]
    fn every_host_service_is_attacked() {
        let file = sources::root().join("crates/vnfm-core/src/ports/service.rs");
        let text = std::fs::read_to_string(file).unwrap();
        let (_, rest) = text.split_once("pub enum HookCall {").unwrap();
        let (calls, _) = rest.split_once("\n}").unwrap();
        // Each call is described by the name of its service.
        let described: Vec<_> = calls
            .lines()
            .filter_map(|line| line.trim().strip_prefix("/// `"))
            .collect();
        let services = services().unwrap();
        assert_eq!(
            services.len(),
            described.len(),
            "{services:?}, {described:?}"
        );
        for line in described {
            let name = line.split('`').next().unwrap();
            assert!(
                services.iter().any(|one| one == name),
                "nobody asks for `{name}`"
            );
        }
    }
}
