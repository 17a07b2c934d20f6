//! Every sample for a Kubernetes VIM, on the cluster that VNF-A brings up on real hosts with add-ons of the catalogue.
//!
//! ```text
//! VNF-A ─ add-ons ─ smoke test ─ VIM ─┬─ a sample: instantiate ─ scale ─ terminate ─┬─ nothing is left ─ terminate VNF-A
//!                                     ├─ …                                          │
//!                                     └─ a sample that is refused, or waits         ┘
//! ```
//! [`CASES`] names what each sample has on these hosts, or what they lack for it; `vnfd-samples/README.md` repeats it.

use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::Stdio;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use vnfm_tests::cluster_access::ClusterShell;
use vnfm_tests::helm_cluster::{GENERATIONS, HelmCluster};
use vnfm_tests::programs::{allow_plugin, until};
use vnfm_tests::real::Real;
use vnfm_tests::sources::root;
use vnfm_tests::testbed::{LONG, Testbed, VNF_A};

/// The sample that brings up the cluster.
const CLUSTER: &str = "vnf-a-k8s-cluster";
/// How many cases run at a time: with all of them, a slow machine misses the deadlines of hooks.
const PARALLEL: usize = 6;
/// How long the cluster may take to delete what a terminated sample had.
const DELETED: Duration = Duration::from_mins(1);

/// A request of a sample, and what happens to its instance.
struct Case {
    sample: &'static str,
    /// Name of its file in `requests/`, without `.json`.
    request: &'static str,
    /// Members of `additionalParams` that take the place of the request's own.
    values: &'static [(&'static str, &'static str)],
    expected: Expected,
}

enum Expected {
    /// It has this many pods.
    Runs(usize),
    /// It has this many pods, and one more after one step of this aspect.
    Scales(usize, &'static str),
    /// The same, with a claim for each pod.
    ScalesWithClaims(usize, &'static str),
    /// It has two pods, and five once one of them computes.
    Autoscales,
    /// It is refused before anything is created: the error has these words, and the hosts lack this.
    Refused {
        words: &'static str,
        lacks: &'static str,
    },
    /// It waits, with these words: the hosts lack this.
    Waits {
        words: &'static str,
        lacks: &'static str,
    },
}
use Expected::{Autoscales, Refused, Runs, Scales, ScalesWithClaims, Waits};

const fn case(sample: &'static str, request: &'static str, expected: Expected) -> Case {
    Case {
        sample,
        request,
        values: &[],
        expected,
    }
}

/// All requests to instantiate a sample for a Kubernetes VIM.
const CASES: &[Case] = &[
    case("asd-charts", "instantiate", Runs(2)),
    case("asd-web", "instantiate", Runs(2)),
    case("cnf-autoscaled", "instantiate", Autoscales),
    case("cnf-by-request", "instantiate", Scales(1, "web")),
    case("cnf-by-request", "instantiate-chart", Scales(1, "web")),
    case("cnf-chart", "instantiate", Scales(2, "web")),
    case("cnf-chart-2", "instantiate", Scales(2, "web")),
    case("cnf-edge-services", "instantiate", Runs(12)),
    case("cnf-flavours", "instantiate", Runs(2)),
    case(
        "cnf-networks",
        "instantiate",
        Refused {
            words: "NetworkAttachmentDefinition",
            lacks: "Multus",
        },
    ),
    case("cnf-tosca-only", "instantiate", Scales(2, "web")),
    case(
        "cnf-volumes",
        "instantiate",
        Waits {
            words: "PersistentVolumeClaim",
            lacks: "StorageClass `disks`",
        },
    ),
    Case {
        sample: "cnf-volumes",
        request: "instantiate",
        values: &[("storage_class", "local-path")],
        expected: ScalesWithClaims(2, "store"),
    },
    case(
        "vnf-a-cluster-api",
        "instantiate",
        Refused {
            words: "cluster.x-k8s.io/v1beta2",
            lacks: "Cluster API",
        },
    ),
    case("vnf-b-cnf", "instantiate", Scales(2, "web")),
    case("vnf-b-cnf-2", "instantiate", Scales(2, "web")),
];

/// The samples for a Kubernetes VIM that lie in the folder, each with its requests to instantiate it.
fn in_folder() -> BTreeSet<(String, String)> {
    let mut found = BTreeSet::new();
    for sample in std::fs::read_dir(root().join("vnfd-samples")).unwrap() {
        let sample = sample.unwrap();
        let Ok(requests) = std::fs::read_dir(sample.path().join("requests")) else {
            continue;
        };
        for request in requests {
            let path = request.unwrap().path();
            let text = std::fs::read_to_string(&path).unwrap();
            let name = path.file_stem().unwrap().to_str().unwrap();
            let is_for_cluster = ["ETSINFV.KUBERNETES", "ETSINFV.HELM"]
                .iter()
                .any(|vim_type| text.contains(vim_type));
            if is_for_cluster && name.starts_with("instantiate") {
                let sample = sample.file_name().into_string().unwrap();
                found.insert((sample, name.to_owned()));
            }
        }
    }
    found
}

#[test]
fn the_table_and_the_readme_have_every_sample() {
    let named = CASES.iter();
    let named = named.map(|case| (case.sample.to_owned(), case.request.to_owned()));
    assert_eq!(named.collect::<BTreeSet<_>>(), in_folder());
    let readme = std::fs::read_to_string(root().join("vnfd-samples/README.md")).unwrap();
    let (_, table) = readme.split_once("## On real hosts").unwrap();
    for case in CASES {
        let start = format!("| `{}` |", case.sample);
        let row = table.lines().find(|line| line.starts_with(&start));
        let row = row.unwrap_or_else(|| panic!("no row of {}", case.sample));
        if let Refused { lacks, .. } | Waits { lacks, .. } = case.expected {
            assert!(row.contains(lacks), "{row} does not say {lacks}");
        }
    }
}

#[test]
fn each_sample_runs_on_the_cluster_of_vnf_a_or_says_what_it_lacks() {
    let Some(real) = Real::find() else { return };
    let folder = tempfile::tempdir().unwrap();
    let kubeconfig = folder.path().join("cluster.kubeconfig");
    let Some(cluster) = HelmCluster::with_kubeconfig(GENERATIONS[0], kubeconfig) else {
        return;
    };
    cluster.configure(folder.path());
    allow_plugin(folder.path(), "libcluster_api.so");
    let testbed = Testbed::new(folder, &real.clouds, 22, "info");
    let began = Instant::now();
    let vim = instantiate_cluster(&testbed, &cluster);
    println!("VNF-A with its add-ons: {:.1?}", began.elapsed());
    let before = cluster.cluster_objects();
    let failed = run_all(&testbed, &cluster, &vim);
    assert_eq!(failed, [""; 0], "their messages are above");
    let mut left = BTreeSet::new();
    until("nothing is left on the cluster", DELETED, || {
        left = cluster.cluster_objects();
        (left == before).then_some(())
    });
    testbed.terminate_and_delete(VNF_A);
    testbed.finish();
    real.wait_until_clean();
}

/// Instantiates VNF-A with add-ons and smoke test; the id of its cluster's VIM.
fn instantiate_cluster(testbed: &Testbed, cluster: &HelmCluster) -> String {
    let (_, mut request) = testbed.create_a(CLUSTER);
    let installation = &mut request["additionalParams"]["k8s_cluster_installation_param"];
    installation["addons"] = json!([
        {"name": "metrics-server"},
        {"name": "local-path", "values": {"HELPER_IMAGE": "localhost/busybox:1"}},
        {"name": "coredns", "values": {"REPLICAS": 3}},
    ]);
    installation["smoke_test"] =
        json!({"image": "localhost/busybox:1", "storage_class": "local-path"});
    testbed.wait_for_state(&testbed.instantiate(VNF_A, &request), "COMPLETED");
    let shown = testbed.server.ctl(&["vnf", "show", VNF_A]);
    let addons = &shown["metadata"]["addons"];
    let versions = ["cni", "local-path", "metrics-server"].map(|name| &addons[name]);
    assert_eq!(versions, ["1", "0.0.30", "0.9.0"], "{addons}");
    let coredns = addons["coredns"].as_str().unwrap();
    assert!(coredns.starts_with("v1."), "{addons}");
    let shell = ClusterShell::connect(testbed);
    let login = shell.kubectl("config view --raw").unwrap();
    std::fs::write(&cluster.kubeconfig, login).unwrap();
    let ready = "--output=jsonpath={.status.readyReplicas}";
    let dns = [
        "get",
        "deployment/coredns",
        "--namespace=kube-system",
        ready,
    ];
    assert_eq!(cluster.kubectl(&dns), "3");
    let used = cluster.kubectl(&["top", "nodes", "--no-headers"]);
    assert_eq!(used.lines().count(), 3, "{used}");
    let left = cluster.kubectl(&["get", "namespaces", "--output", "name"]);
    assert!(!left.contains("smoke-test"), "{left}");
    until("the volumes of the smoke test are deleted", DELETED, || {
        let volumes = cluster.kubectl(&["get", "persistentvolumes", "--output", "name"]);
        volumes.is_empty().then_some(())
    });
    testbed.assert_a_up(3)
}

/// Runs all cases; the names of those that failed.
fn run_all(testbed: &Testbed, cluster: &HelmCluster, vim: &str) -> Vec<String> {
    let samples: BTreeSet<_> = CASES.iter().map(|case| case.sample).collect();
    let packages: BTreeMap<_, _> = samples
        .into_iter()
        .map(|sample| (sample, testbed.onboard(sample)))
        .collect();
    let instances = CASES.iter().enumerate().map(|(number, case)| {
        let name = format!("{}-{number}", case.sample);
        Instance::create(testbed, cluster, (case, &packages[case.sample], name))
    });
    let instances: Vec<_> = instances.collect();
    let (waiting, failed) = (Mutex::new(instances.iter()), Mutex::new(Vec::new()));
    let run_next = || {
        while let Some(instance) = { waiting.lock().unwrap().next() } {
            if catch_unwind(AssertUnwindSafe(|| instance.run(vim))).is_err() {
                failed.lock().unwrap().push(instance.name.clone());
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..PARALLEL {
            scope.spawn(run_next);
        }
    });
    failed.into_inner().unwrap()
}

/// An instance of a sample.
struct Instance<'a> {
    testbed: &'a Testbed,
    cluster: &'a HelmCluster,
    case: &'a Case,
    name: String,
    namespace: String,
}

impl<'a> Instance<'a> {
    fn create(
        testbed: &'a Testbed,
        cluster: &'a HelmCluster,
        (case, package, name): (&'a Case, &str, String),
    ) -> Self {
        let words = ["vnf", "create", "--package", package, "--name", &name];
        let created = testbed.server.ctl(&words);
        let namespace = format!("vnf-{}", created["id"].as_str().unwrap());
        Self {
            testbed,
            cluster,
            case,
            name,
            namespace,
        }
    }

    /// Instantiates it, and ends it; in the end it has left nothing in its namespace.
    fn run(&self, vim: &str) {
        let began = Instant::now();
        let op = self.testbed.instantiate(&self.name, &self.request(vim));
        match self.case.expected {
            Runs(pods) => self.runs(&op, pods),
            Scales(pods, aspect) => {
                self.runs(&op, pods);
                self.scale_out(aspect, pods + 1);
            }
            ScalesWithClaims(pods, aspect) => {
                self.runs(&op, pods);
                assert_eq!(self.cluster.claims(&self.namespace), vec!["Bound"; pods]);
                self.scale_out(aspect, pods + 1);
                let claims = self.cluster.claims(&self.namespace);
                assert_eq!(claims, vec!["Bound"; pods + 1]);
            }
            Autoscales => {
                self.runs(&op, 2);
                self.grows_under_load(5);
            }
            Refused { words, .. } => {
                let end = self.testbed.wait_for_state(&op, "ROLLED_BACK");
                let error = end["error"]["detail"].as_str().unwrap();
                println!("{}: {error}", self.name);
                self.testbed.assert_explains(&op, &end["error"], &[words]);
            }
            Waits { words, .. } => self.waits(&op, words),
        }
        let shown = self.testbed.server.ctl(&["vnf", "show", &self.name]);
        if shown["instantiationState"] == "INSTANTIATED" {
            self.completes(&self.testbed.terminate(&self.name));
        }
        println!("{}: {:.1?}", self.name, began.elapsed());
        self.testbed.server.ctl(&["vnf", "delete", &self.name]);
        let find = ["get", "namespace", &self.namespace, "--ignore-not-found"];
        assert_eq!(self.cluster.kubectl(&find), "", "{}", self.name);
    }

    fn request(&self, vim: &str) -> Value {
        let (sample, request) = (self.case.sample, self.case.request);
        let path = root().join(format!("vnfd-samples/{sample}/requests/{request}.json"));
        let text = std::fs::read_to_string(path).unwrap();
        let mut request: Value = serde_json::from_str(&text.replace("@VIM_ID@", vim)).unwrap();
        for (name, value) in self.case.values {
            request["additionalParams"][name] = json!(value);
        }
        request
    }

    fn completes(&self, op: &str) {
        let watched = self.testbed.server.run(&["op", "watch", op]);
        assert_eq!(watched.code, 0, "{}: {watched:#?}", self.name);
    }

    fn runs(&self, op: &str, pods: usize) {
        self.completes(op);
        self.assert_recorded(pods);
    }

    fn scale_out(&self, aspect: &str, pods: usize) {
        let words = ["vnf", "scale", &self.name, "--aspect", aspect, "--out"];
        let begun = self.testbed.server.ctl(&words);
        self.runs(begun["vnfLcmOpOccId"].as_str().unwrap(), pods);
    }

    /// The pods in its record.
    fn recorded(&self) -> BTreeSet<String> {
        let shown = self.testbed.server.ctl(&["vnf", "show", &self.name]);
        let vnfcs = shown["instantiatedVnfInfo"]["vnfcResourceInfo"].as_array();
        let vnfcs = vnfcs.into_iter().flatten();
        let pod = |vnfc: &Value| {
            vnfc["computeResource"]["resourceId"]
                .as_str()
                .map(str::to_owned)
        };
        vnfcs.filter_map(pod).collect()
    }

    /// Its pods are those of its record, and all of them are Ready.
    fn assert_recorded(&self, pods: usize) {
        let (running, are_ready) = self.cluster.running_pods(&self.namespace);
        assert_eq!(self.recorded(), running, "{}", self.name);
        assert_eq!((running.len(), are_ready), (pods, true), "{}", self.name);
    }

    /// The autoscaler reads the use of the pods, and adds some as one of them computes; the record follows.
    fn grows_under_load(&self, pods: usize) {
        let wait = |condition: &str, object: &str| {
            let condition = format!("--for={condition}");
            let words = ["wait", &condition, object, "--timeout=120s"];
            let scope = ["--namespace", &self.namespace];
            self.cluster.kubectl(&[&words[..], &scope].concat());
        };
        wait("condition=ScalingActive", "horizontalpodautoscaler/web");
        let compute = ["timeout", "120", "sh", "-c", "while :; do :; done"];
        let exec = [
            "exec",
            "deployment/web",
            "--namespace",
            &self.namespace,
            "--",
        ];
        let mut command = self
            .cluster
            .kubectl_command(&[&exec[..], &compute].concat());
        let mut load = command
            .stdin(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        wait(
            &format!("jsonpath={{.status.readyReplicas}}={pods}"),
            "deployment/web",
        );
        load.kill().unwrap();
        load.wait().unwrap();
        until("the record has the new pods", LONG, || {
            let (running, are_ready) = self.cluster.running_pods(&self.namespace);
            (are_ready && self.recorded() == running && running.len() == pods).then_some(())
        });
    }

    /// The operation says what it waits for; it is cancelled and given up.
    fn waits(&self, op: &str, words: &str) {
        let path = format!("/vnfm/v1/op_occs/{op}/progress");
        until(words, LONG, || {
            let now = self.testbed.server.get(&path);
            assert_eq!(now["error"], Value::Null, "{now:#}");
            let reason = now["waiting"]["for"].as_str().unwrap_or_default();
            reason
                .contains(words)
                .then(|| println!("{}: {reason}", self.name))
        });
        let server = &self.testbed.server;
        server.ctl(&["op", "cancel", op, "--forceful"]);
        self.testbed.wait_for_state(op, "FAILED_TEMP");
        server.ctl(&["op", "fail", op]);
    }
}
