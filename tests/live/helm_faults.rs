//! Faults of the helm program itself, in operations on the real cluster: it fails, also after its effect; is killed in the middle;
//! never ends; writes garbage; is missing. Each operation stops with the cause, a retry or rollback completes, and nothing is left.
//!
//! ```text
//! server ── helm: a script ─┬─ no fault is planned for the command ── becomes the real helm
//!                           └─ the file `faults/COMMAND` names one ── once
//! ```

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;
use vnfm_tests::helm_cluster::{GENERATIONS, HelmCluster};
use vnfm_tests::programs::CliOutput;
use vnfm_tests::testbed::{Testbed, VIM};

const TIMEOUT: Duration = Duration::from_mins(2);
const NAME: &str = "web";
const SAMPLE: &str = "cnf-chart";
const DEPLOYED: [&str; 1] = ["web web-1.0.0 deployed"];
/// How long a step may take, in seconds; a helm that never ends takes that long.
const STEP_SECONDS: u64 = 12;

/// What happens to each generation of helm.
const FAULTS: [&[&str]; 2] = [
    &["fails", "killed", "hangs"],
    &["fails-afterwards", "killed"],
];

/// The program that the server runs. `killed` makes helm wait for the objects, so that the release is pending when it dies.
const SCRIPT: &str = r#"#!/bin/sh
fault=$(cat "@FAULTS@/$1" 2>/dev/null) && rm "@FAULTS@/$1"
case $fault in
fails) echo 'Error: injected' >&2; exit 1 ;;
fails-afterwards) "@HELM@" "$@" >/dev/null; echo 'Error: injected' >&2; exit 1 ;;
garbage) echo '}{ no output of helm'; exit 0 ;;
hangs) exec tail -f /dev/null ;;
killed)
  case $1 in install) status=pending-install ;; upgrade) status=pending-upgrade ;; *) status=uninstalling ;; esac
  namespace=$(echo "$*" | sed 's/.*--namespace \([^ ]*\).*/\1/')
  "@HELM@" "$@" @WAIT@ >/dev/null &
  helm=$!
  while kill -0 $helm && ! "@KUBECTL@" --kubeconfig "@KUBECONFIG@" get secrets --namespace "$namespace" \
    --selector "owner=helm,status=$status" --output name | grep -q . ; do :; done 2>/dev/null
  echo "$1 $status" >> "@FAULTS@/killed"
  kill -KILL $helm $$ ;;
esac
exec "@HELM@" "$@"
"#;

/// A server whose helm has faults.
struct Faulty {
    testbed: Testbed,
    cluster: HelmCluster,
    package: String,
    faults: PathBuf,
    program: PathBuf,
}

impl Faulty {
    fn start(generation: &str) -> Option<Self> {
        let cluster = HelmCluster::find(generation)?;
        let folder = tempfile::tempdir().unwrap();
        let (faults, program) = (folder.path().join("faults"), folder.path().join("helm"));
        std::fs::create_dir(&faults).unwrap();
        write_script(&cluster, generation, (&faults, &program));
        let limits = json!({"lease_seconds": 2, "step_seconds": STEP_SECONDS});
        let settings = json!({"limits": limits, "helm": {"binary": program}});
        std::fs::write(folder.path().join("server.yaml"), settings.to_string()).unwrap();
        Some(Self::with(cluster, folder, (faults, program)))
    }

    fn with(cluster: HelmCluster, folder: TempDir, (faults, program): (PathBuf, PathBuf)) -> Self {
        let testbed = Testbed::on_cluster(folder, &cluster.kubeconfig);
        let package = testbed.onboard(SAMPLE);
        Self {
            testbed,
            cluster,
            package,
            faults,
            program,
        }
    }

    /// The next run of this command of helm has this fault.
    fn plan(&self, command: &str, fault: &str) {
        std::fs::write(self.faults.join(command), fault).unwrap();
    }

    /// Creates the instance; its namespace.
    fn create(&self) -> String {
        let words = ["vnf", "create", "--package", &self.package, "--name", NAME];
        let created = self.testbed.server.ctl(&words);
        format!("vnf-{}", text(&created["id"]))
    }

    fn request(&self) -> Value {
        let vim = self.testbed.server.ctl(&["vim", "show", VIM]);
        self.testbed.request(SAMPLE, text(&vim["id"]))
    }

    fn instantiate(&self) -> String {
        self.testbed.instantiate(NAME, &self.request())
    }

    /// Waits until an operation has stopped because of helm's fault.
    fn assert_stopped(&self, op: &str, command: &str, fault: &str) {
        let end = self.testbed.server.ended(op, TIMEOUT);
        assert_eq!(end["operationState"], "FAILED_TEMP", "{fault}: {end:#}");
        let left = self.faults.join(command).exists();
        assert!(!left, "{fault}: helm {command} was not run");
        let detail = text(&end["error"]["detail"]);
        assert!(detail.contains("release `web`"), "{fault}: {detail}");
    }

    fn recover(&self, op: &str, way: &str, state: &str) {
        self.testbed.server.ctl(&["op", way, op]);
        self.testbed.wait_for_state(op, state);
    }

    fn assert_deployed(&self, namespace: &str, vnfcs: usize) {
        let instance = self.testbed.server.ctl(&["vnf", "show", NAME]);
        let info = &instance["instantiatedVnfInfo"]["vnfcResourceInfo"];
        assert_eq!(info.as_array().map_or(0, Vec::len), vnfcs, "{info:#}");
        assert_eq!(self.cluster.releases(namespace), DEPLOYED);
    }

    fn assert_nothing_in(&self, namespace: &str) {
        let left = ["get", "namespace", namespace, "--ignore-not-found"];
        assert_eq!(self.cluster.kubectl(&left), "", "the namespace is left");
    }

    /// An instance with the fault in each of its operations.
    fn live_with(&self, fault: &str) {
        let namespace = self.create();
        for (way, state) in [("rollback", "ROLLED_BACK"), ("retry", "COMPLETED")] {
            self.plan("install", fault);
            let op = self.instantiate();
            self.assert_stopped(&op, "install", fault);
            self.recover(&op, way, state);
            if way == "rollback" {
                self.assert_nothing_in(&namespace);
            }
        }
        self.assert_deployed(&namespace, 2);
        for (way, state, vnfcs) in [("rollback", "ROLLED_BACK", 2), ("retry", "COMPLETED", 3)] {
            self.plan("upgrade", fault);
            let scale = ["vnf", "scale", NAME, "--aspect", "web", "--out"];
            let begun = self.testbed.server.ctl(&scale);
            let op = text(&begun["vnfLcmOpOccId"]);
            self.assert_stopped(op, "upgrade", fault);
            self.recover(op, way, state);
            self.assert_deployed(&namespace, vnfcs);
        }
        self.plan("uninstall", fault);
        let op = self.testbed.terminate(NAME);
        self.assert_stopped(&op, "uninstall", fault);
        self.recover(&op, "retry", "COMPLETED");
        self.assert_nothing_in(&namespace);
        self.testbed.server.ctl(&["vnf", "delete", NAME]);
    }

    /// An instantiation that cannot render its chart: refused, or rolled back; it can be repeated.
    fn assert_not_begun(&self, namespace: &str, (why, names): (&str, &str)) {
        let file = self.faults.join("request.json");
        std::fs::write(&file, self.request().to_string()).unwrap();
        let path = file.to_str().unwrap();
        let words = ["-o", "json", "vnf", "instantiate", NAME, "--request", path];
        let CliOutput {
            code,
            stdout,
            stderr,
        } = self.testbed.server.run(&words);
        if code == 0 {
            let begun: Value = serde_json::from_str(&stdout).unwrap();
            let op = text(&begun["vnfLcmOpOccId"]);
            let end = self.testbed.server.ended(op, TIMEOUT);
            assert_eq!(end["operationState"], "ROLLED_BACK", "{why}: {end:#}");
            let detail = text(&end["error"]["detail"]);
            assert!(detail.contains(names), "{why}: {detail}");
        } else {
            assert!(
                code == 3 && stderr.contains(names),
                "{why}: {code} {stderr}"
            );
        }
        self.assert_nothing_in(namespace);
    }
}

fn write_script(cluster: &HelmCluster, generation: &str, (faults, program): (&Path, &Path)) {
    let assets = PathBuf::from(std::env::var_os("VNFM_LIVE_ASSETS").unwrap());
    let is_first = generation == GENERATIONS[0];
    let text = |path: &Path| path.to_str().unwrap().to_owned();
    let script = SCRIPT
        .replace("@FAULTS@", &text(faults))
        .replace("@HELM@", &text(&assets.join(generation)))
        .replace("@KUBECTL@", &text(&assets.join("kubectl")))
        .replace("@KUBECONFIG@", &text(&cluster.kubeconfig))
        .replace("@WAIT@", if is_first { "--wait" } else { "--wait=watcher" });
    std::fs::write(program, script).unwrap();
    std::fs::set_permissions(program, std::fs::Permissions::from_mode(0o755)).unwrap();
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_else(|| panic!("no text: {value}"))
}

#[test]
fn operations_recover_from_a_helm_that_fails_is_killed_or_never_ends() {
    for (generation, faults) in GENERATIONS.into_iter().zip(FAULTS) {
        let Some(faulty) = Faulty::start(generation) else {
            return;
        };
        for fault in faults {
            faulty.live_with(fault);
        }
        let killed = std::fs::read_to_string(faulty.faults.join("killed")).unwrap();
        assert!(killed.contains("install pending-install"), "{killed}");
        faulty.testbed.finish();
    }
}

#[test]
fn a_helm_that_cannot_render_or_is_missing_begins_nothing() {
    for generation in GENERATIONS {
        let Some(faulty) = Faulty::start(generation) else {
            return;
        };
        let namespace = faulty.create();
        for (fault, names) in [("fails", "release `web`"), ("garbage", "web-1.0.0.tgz")] {
            faulty.plan("template", fault);
            faulty.assert_not_begun(&namespace, (fault, names));
        }
        let away = faulty.program.with_extension("away");
        std::fs::rename(&faulty.program, &away).unwrap();
        let path = faulty.program.to_str().unwrap();
        faulty.assert_not_begun(&namespace, ("missing", path));
        std::fs::rename(&away, &faulty.program).unwrap();
        let op = faulty.instantiate();
        faulty.testbed.wait_for_state(&op, "COMPLETED");
        faulty.assert_deployed(&namespace, 2);
        faulty.testbed.terminate_and_delete(NAME);
        faulty.assert_nothing_in(&namespace);
        faulty.testbed.finish();
    }
}
