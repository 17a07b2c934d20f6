//! Our drivers meet the contract of infrastructure drivers on the real systems too. Calls are interrupted at fewer
//! points than in the simulated world, which is faster; the rules are the same.
//!
//! Rules that create an instance repeatedly take minutes on a real cloud: `VNFM_LIVE_CONTRACTS=all` tests every rule
//! there. Otherwise those of `LONG` are left out.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use serde_json::Value;
use vnfm::SystemClock;
use vnfm_conformance::infra_driver::{OnVim, RULES, TestBed};
use vnfm_conformance::{Broken, Rule};
use vnfm_kubernetes::KubernetesDriver;
use vnfm_openstack::OpenStack;
use vnfm_outbound::Destinations;
use vnfm_tests::cloud::Cloud;
use vnfm_tests::contracts::{
    connections_from_kubeconfig, first_vdu_with_image, sample, sizes, with_image,
};
use vnfm_tests::live::neighbour;
use vnfm_types::{OPENSTACK, VimConnectionInfo};

/// At how many points a call is interrupted.
const MAX_INTERRUPTIONS: usize = 2;
/// Rules that create more than one instance, replace or interrupt something, or repeat what another rule does once.
const LONG: &[&str] = &[
    "a_plan_of_what_exists_keeps_everything",
    "what_a_plan_says_of_another_size_happens",
    "a_repeated_creation_of_a_snapshot_stores_nothing_more",
    "an_interrupted_snapshot_is_completed_or_deleted",
    "an_interrupted_return_is_completed",
    "what_a_plan_says_of_a_snapshot_happens",
    "an_interrupted_creation_is_adopted",
    "a_partial_creation_is_released_without_a_handle",
    "an_interrupted_release_is_completed",
    "only_the_named_vnfcs_are_replaced",
    "a_repeated_replacement_replaces_nothing_more",
    "an_interrupted_replacement_is_completed",
    "a_change_of_size_keeps_the_other_vnfcs",
    "an_interrupted_change_of_size_is_completed",
    "an_interrupted_change_of_size_is_reversed",
    "a_repeated_stop_and_start_changes_nothing",
    "an_interrupted_stop_is_completed_or_reversed",
    "a_single_vnfc_is_stopped",
    "a_change_leaves_a_stopped_instance_stopped",
    "a_call_ends_at_its_deadline",
    "an_observation_changes_nothing",
    "each_call_holds_a_slot",
    "no_secret_is_revealed",
    "resources_of_another_installation_are_not_touched",
];

/// Tests these rules, and prints how long each took.
async fn check<F: Future<Output = Arc<dyn TestBed>>>(
    rules: impl Iterator<Item = &'static Rule<Arc<dyn TestBed>>>,
    fresh: impl Fn() -> F,
) -> Result<(), Vec<Broken>> {
    let mut broken = Vec::new();
    for rule in rules {
        let began = std::time::Instant::now();
        let tried = vnfm_conformance::check(std::slice::from_ref(rule), &fresh).await;
        eprintln!("{:>6.1} s  {}", began.elapsed().as_secs_f64(), rule.name);
        broken.extend(tried.err());
    }
    if broken.is_empty() {
        Ok(())
    } else {
        Err(broken)
    }
}

fn openstack(clouds: &Path) -> Arc<dyn TestBed> {
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let file: Value = serde_yaml::from_str(&std::fs::read_to_string(clouds).unwrap()).unwrap();
    let cloud = &file["clouds"]["nfv"];
    let auth = &cloud["auth"];
    let login = |password: Value| {
        VimConnectionInfo::new(OPENSTACK)
            .interface("endpoint", auth["auth_url"].clone())
            .access("username", auth["username"].clone())
            .access("password", password)
            .access("project", auth["project_name"].clone())
            .access("userDomain", auth["user_domain_id"].clone())
            .access("projectDomain", auth["project_domain_id"].clone())
            .access("region", cloud["region_name"].clone())
    };
    let past = Cloud::login(clouds);
    let running = Cloud::login(clouds);
    let network = past.network();
    let fill = |request: &str| {
        request
            .replace("@NETWORK_ID@", &network)
            .replace("@VIM_ID@", "vim")
    };
    let what = sample("vnf-script-hooks", fill);
    let levels = sample("vnf-levels", |request| {
        fill(request).replace("\"town\"", "\"trial\"")
    });
    let driver = OpenStack::new(Arc::new(SystemClock), Destinations::anywhere());
    let infeasible = with_image(&what, &first_vdu_with_image(&what));
    let right = login(auth["password"].clone());
    Arc::new(OnVim {
        wrong_login: Some(login("a wrong password".into())),
        infeasible: Some(infeasible),
        sizes: Some(sizes(&levels, "web")),
        max_interruptions: MAX_INTERRUPTIONS,
        running: Box::new(move || {
            let all = running.list("compute", "/servers?status=ACTIVE", "servers");
            let ids = all.iter().filter_map(|one| one["id"].as_str());
            ids.map(ToOwned::to_owned).collect()
        }),
        ..OnVim::new((driver, Arc::new(SystemClock)), right, what, move || {
            past.inventory(Path::new("/nowhere")).into_iter().collect()
        })
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn openstack_driver_meets_the_contract_on_a_real_cloud() {
    let Some(clouds) = neighbour("VNFM_LIVE_OPENSTACK") else {
        return;
    };
    let past = Cloud::login(&clouds);
    let before = past.inventory(Path::new("/nowhere"));
    let all = std::env::var("VNFM_LIVE_CONTRACTS").as_deref() == Ok("all");
    let rules = RULES
        .iter()
        .filter(|rule| all || !LONG.contains(&rule.name));
    let outcome = check(rules, || async { openstack(&clouds) }).await;
    if outcome.is_err() {
        past.delete_stacks(&before);
    }
    outcome.unwrap();
}

/// A cluster, queried with kubectl.
#[derive(Clone)]
struct Cluster {
    kubectl: PathBuf,
    kubeconfig: PathBuf,
}

/// The kinds that a driver creates, and those that controllers create from them.
const KINDS: &str = "namespaces,deployments,services,configmaps,pods";

impl Cluster {
    fn kubectl(&self, words: &[&str]) -> Vec<u8> {
        let mut command = Command::new(&self.kubectl);
        let output = command
            .arg("--kubeconfig")
            .arg(&self.kubeconfig)
            .args(words)
            .output()
            .unwrap();
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
        output.stdout
    }

    /// All objects that are not being deleted, except those that the cluster adds to each namespace.
    fn things(&self) -> Vec<String> {
        let listed = self.kubectl(&["get", KINDS, "--all-namespaces", "--output=json"]);
        let listed: Value = serde_json::from_slice(&listed).unwrap();
        let named = |item: &Value| {
            let (metadata, kind) = (&item["metadata"], item["kind"].as_str()?);
            let stays =
                metadata["deletionTimestamp"].is_null() && metadata["name"] != "kube-root-ca.crt";
            stays.then(|| {
                format!(
                    "{kind} {} {} {}",
                    metadata["namespace"], metadata["name"], metadata["uid"]
                )
            })
        };
        listed["items"]
            .as_array()
            .unwrap()
            .iter()
            .filter_map(named)
            .collect()
    }

    /// Names of the pods that are not being deleted.
    fn pods(&self) -> Vec<String> {
        let listed = self.kubectl(&["get", "pods", "--all-namespaces", "--output=json"]);
        let listed: Value = serde_json::from_slice(&listed).unwrap();
        let all = listed["items"].as_array().unwrap().iter();
        let stays = all.filter(|pod| pod["metadata"]["deletionTimestamp"].is_null());
        let names = stays.filter_map(|pod| pod["metadata"]["name"].as_str());
        names.map(ToOwned::to_owned).collect()
    }

    fn namespaces(&self) -> BTreeSet<String> {
        let names = self.kubectl(&["get", "namespaces", "--output=name"]);
        let names = String::from_utf8(names).unwrap();
        let ours = names
            .lines()
            .filter(|name| name.starts_with("namespace/vnf-"));
        ours.map(ToOwned::to_owned).collect()
    }
}

fn kubernetes(cluster: &Cluster) -> Arc<dyn TestBed> {
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let kubeconfig = std::fs::read_to_string(&cluster.kubeconfig).unwrap();
    let [right, wrong] = connections_from_kubeconfig(&kubeconfig);
    let what = sample("vnf-b-cnf", |request| request.replace("@VIM_ID@", "vim"));
    let vdu = what.package.vnfd().flavours["simple"]
        .vdus
        .keys()
        .next()
        .unwrap()
        .clone();
    let (past, running) = (cluster.clone(), cluster.clone());
    let driver = KubernetesDriver::new(Destinations::anywhere());
    Arc::new(OnVim {
        wrong_login: Some(wrong),
        infeasible: Some(with_image(&what, &vdu)),
        sizes: Some(sizes(&what, &vdu)),
        removes_last_vnfcs: false,
        max_interruptions: MAX_INTERRUPTIONS,
        running: Box::new(move || running.pods()),
        ..OnVim::new((driver, Arc::new(SystemClock)), right, what, move || {
            past.things()
        })
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn kubernetes_driver_meets_the_contract_on_a_real_control_plane() {
    let (Some(kubeconfig), Some(assets)) = (
        neighbour("VNFM_LIVE_KUBECONFIG"),
        neighbour("VNFM_LIVE_ASSETS"),
    ) else {
        return;
    };
    let cluster = Cluster {
        kubectl: assets.join("kubectl"),
        kubeconfig,
    };
    let before = cluster.namespaces();
    let outcome = check(RULES.iter(), || async { kubernetes(&cluster) }).await;
    if outcome.is_err() {
        for name in cluster.namespaces().difference(&before) {
            cluster.kubectl(&["delete", "--wait=false", name]);
        }
    }
    outcome.unwrap();
}
