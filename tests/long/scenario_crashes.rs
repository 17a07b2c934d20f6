//! The real scenario with ten random crashes of the server: nothing is lost, duplicated or left behind,
//! and no planted secret leaks.

use std::collections::BTreeSet;
use std::process::Command;

use serde_json::Value;
use vnfm_tests::crash_points::CrashPlan;
use vnfm_tests::planted::Planted;
use vnfm_tests::process_watch::{Observations, ProcessWatch};
use vnfm_tests::programs::until;
use vnfm_tests::secret_search::{assert_search_finds, fetch_everything, files_with_secrets};
use vnfm_tests::testbed::{LONG, Testbed, VNF_A, VNF_B};

use crate::secrets::{ClusterSecrets, Secrets, TEMPORARY_FILES, bearer_token, on_hosts, try_join};
use vnfm_tests::host::Host;
use vnfm_tests::real::{Real, testbed_at};

const DEATHS: usize = 10;
/// The minimum number of crash points of the scenario: instantiate A and B, terminate B and A.
const COURSE: [usize; 4] = [14, 5, 3, 3];
const MASTER: &str = "masterNode";
const WORKER: &str = "workerNode-0";

#[test]
fn ten_crashes_lose_nothing_and_leak_no_secret() {
    let Some(real) = Real::find() else { return };
    let mut secrets = Secrets::plant(&real);
    let mut testbed = testbed_at(secrets.clouds(), "trace");
    let watch = ProcessWatch::begin(&real.hosts, TEMPORARY_FILES);
    let mut crashes = CrashPlan::draw_for(DEATHS, &COURSE);
    let (id, mut request) = testbed.create_a(&secrets.package());
    secrets.fill(&mut request);
    let one = crashes.run_operation(&mut testbed, |testbed| testbed.instantiate(VNF_A, &request));
    let cluster = testbed.assert_a_up(3);
    assert_eq!(real.cloud().stack_states(&id), ["CREATE_COMPLETE"]);
    assert_inventory_matches(&real, &testbed);
    let request = testbed.create_b("vnf-b-cnf", &cluster);
    let other = crashes.run_operation(&mut testbed, |testbed| testbed.instantiate(VNF_B, &request));
    testbed.assert_b_up();

    check_cluster_secrets(&real, &watch, &mut secrets.planted);
    let planted = &secrets.planted;
    let answers = fetch_everything(&testbed, &[&one, &other]);
    assert_eq!(planted.within(answers.as_bytes()), [""; 0], "in an answer");
    assert_eq!(on_hosts(&real, planted), [""; 0], "on a host");
    assert_found_on_a_host(&real, planted, &secrets.password);

    for name in [VNF_B, VNF_A] {
        crashes.run_operation(&mut testbed, |testbed| testbed.terminate(name));
        testbed.server.ctl(&["vnf", "delete", name]);
    }
    let seen = watch.end();
    seen.assert_each_joined_once();
    let package = secrets.package();
    crashes.run_remaining(&mut testbed, |testbed| {
        let mut request = testbed.create_a(&package).1;
        secrets.fill(&mut request);
        request
    });
    println!(
        "{} retries; died at\n{}",
        crashes.retried,
        crashes.crashed_at.join("\n")
    );
    assert_eq!(crashes.crashed_at.len(), DEATHS);
    assert_eq!(seen.processes.with(planted), [""; 0], "in a process");
    assert_eq!(
        files_with_secrets(&testbed, planted),
        [""; 0],
        "in a file of the server"
    );
    assert_found_in_a_process(seen, planted, &secrets.password);
    assert_search_finds(&testbed, planted, &secrets.password, "SSH password");
    testbed.finish();
    real.wait_until_clean();
    Secrets::end(&real);
}

/// Everything in the record exists, and everything new in the cloud is in the record.
fn assert_inventory_matches(real: &Real, testbed: &Testbed) {
    let mut recorded = BTreeSet::new();
    resource_ids(
        &testbed.server.ctl(&["vnf", "show", VNF_A])["instantiatedVnfInfo"],
        &mut recorded,
    );
    let (new_resources, all) = (real.new_resources(), real.cloud().inventory(&real.hosts));
    let id = |one: &String| one.rsplit(' ').next().unwrap().to_owned();
    let is_machine = |one: &&String| one.starts_with("server ") || one.starts_with("network ");
    let machines: BTreeSet<_> = new_resources.iter().filter(is_machine).map(id).collect();
    assert_eq!(
        machines.len(),
        4,
        "three servers and a network: {new_resources:#?}"
    );
    let missing: Vec<_> = machines.difference(&recorded).collect();
    assert!(
        missing.is_empty(),
        "not in the record: {missing:?} of {new_resources:#?}"
    );
    // It also uses existing networks.
    let all: BTreeSet<_> = all.iter().map(id).collect();
    let invented: Vec<_> = recorded.difference(&all).collect();
    assert!(
        invented.is_empty(),
        "in the record alone: {invented:?} of {all:#?}"
    );
}

fn resource_ids(of: &Value, found: &mut BTreeSet<String>) {
    match of {
        Value::Object(members) => {
            found.extend(
                members
                    .get("resourceId")
                    .and_then(Value::as_str)
                    .map(str::to_owned),
            );
            members
                .values()
                .for_each(|member| resource_ids(member, found));
        }
        Value::Array(items) => items.iter().for_each(|item| resource_ids(item, found)),
        _ => {}
    }
}

/// The secrets for joining hosts were short-lived and are no longer valid; the VIM's token is searched for too.
fn check_cluster_secrets(real: &Real, watch: &ProcessWatch, planted: &mut Planted) {
    let files = watch.files();
    let created = ClusterSecrets::find(&files);
    assert!(
        !created.tokens.is_empty(),
        "no bootstrap token was seen in {} files",
        files.len()
    );
    let short = |file: &Vec<u8>| String::from_utf8_lossy(file).contains("\"ttl\":\"15m\"");
    assert!(files.iter().any(short), "a token's lifetime is unknown");
    created.add_to(planted);
    let (master, worker) = (Host::new(real, MASTER), Host::new(real, WORKER));
    planted.add("bearer token", &bearer_token(&master, "vnfm-token"));
    for token in &created.tokens {
        let output = try_join(&worker, token).unwrap_err();
        assert!(
            output.contains("JWS signature") || output.contains("Unauthorized"),
            "{output}"
        );
    }
    // The same request with a valid token; the cluster notices its deletion a little later.
    let fresh = master.inside("kubeadm token create --ttl 15m");
    until("the new token is known", LONG, || {
        try_join(&worker, fresh.trim()).ok()
    });
    let id = fresh.split('.').next().unwrap();
    master.inside(&format!("kubeadm token delete {id}"));
    until("the new token is invalid", LONG, || {
        try_join(&worker, fresh.trim()).err()
    });
}

/// A file planted on a host.
fn assert_found_on_a_host(real: &Real, planted: &Planted, secret: &str) {
    let file = Host::new(real, WORKER).root().join("tmp/let-through");
    std::fs::write(&file, format!("password={secret}")).unwrap();
    let found = on_hosts(real, planted);
    std::fs::remove_file(file).unwrap();
    assert!(
        found.iter().any(|file| file.ends_with("/tmp/let-through")),
        "{found:?}"
    );
}

/// A process with a secret in its environment.
fn assert_found_in_a_process(mut seen: Observations, planted: &Planted, secret: &str) {
    let mut child = Command::new("sleep")
        .arg("60")
        .env("LET_THROUGH", secret)
        .spawn()
        .unwrap();
    // During exec a process has no arguments.
    until("the process shows its environment", LONG, || {
        seen.processes.look();
        seen.processes.saw("LET_THROUGH").then_some(())
    });
    child.kill().unwrap();
    child.wait().unwrap();
    let found = seen.processes.with(planted);
    assert!(
        found.iter().any(|one| one.contains("SSH password")),
        "{found:?}"
    );
}
