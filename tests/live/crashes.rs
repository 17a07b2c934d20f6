//! The real story with ten deaths of the server, drawn over its course: nothing is lost, doubled or left behind, and of
//! what was planted nothing is shown anywhere, whatever a death has cut in two.

use std::collections::BTreeSet;
use std::process::Command;

use serde_json::Value;
use vnfm_tests::crash_points::Deaths;
use vnfm_tests::planted::Planted;
use vnfm_tests::programs::until;
use vnfm_tests::secret_search::{ask_for_everything, is_found_in_the_open, written};
use vnfm_tests::testbed::{LONG, Stage, VNF_A, VNF_B};
use vnfm_tests::process_watch::{Seen, Watch};

use crate::hosts::Host;
use crate::secrets::{FLEETING, Made, Secrets, bearer_token, lets_join, on_hosts};
use crate::scenario::{Real, each_joined_once, stage_of};

const DEATHS: usize = 10;
/// The moments that the story's operations have at least: instantiate A and B, terminate B and A.
const COURSE: [usize; 4] = [14, 5, 3, 3];
const MASTER: &str = "masterNode";
const WORKER: &str = "workerNode-0";

#[test]
fn ten_crashes_lose_nothing_and_leak_no_secret() {
    let Some(real) = Real::find() else { return };
    let mut secrets = Secrets::plant(&real);
    let mut stage = stage_of(secrets.clouds(), "trace");
    let watch = Watch::begin(&real.hosts, FLEETING);
    let mut deaths = Deaths::drawn(DEATHS, &COURSE);
    let (id, mut request) = stage.create_a(&secrets.package());
    secrets.fill(&mut request);
    let one = deaths.over(&mut stage, |stage| stage.instantiate(VNF_A, &request));
    let cluster = stage.a_is_up(3);
    assert_eq!(real.cloud().stack_states(&id), ["CREATE_COMPLETE"]);
    inventory_is_reality(&real, &stage);
    let request = stage.create_b("vnf-b-cnf", &cluster);
    let other = deaths.over(&mut stage, |stage| stage.instantiate(VNF_B, &request));
    stage.b_is_up();

    what_the_cluster_made_is_dead_or_known(&real, &watch, &mut secrets.planted);
    let planted = &secrets.planted;
    let answers = ask_for_everything(&stage, &[&one, &other]);
    assert_eq!(planted.within(answers.as_bytes()), [""; 0], "in an answer");
    assert_eq!(on_hosts(&real, planted), [""; 0], "on a host");
    is_found_on_a_host(&real, planted, &secrets.password);

    for name in [VNF_B, VNF_A] {
        deaths.over(&mut stage, |stage| stage.terminate(name));
        stage.server.ctl(&["vnf", "delete", name]);
    }
    let seen = watch.end();
    each_joined_once(&seen);
    let package = secrets.package();
    deaths.in_further_lives(&mut stage, |stage| {
        let mut request = stage.create_a(&package).1;
        secrets.fill(&mut request);
        request
    });
    println!(
        "{} retries; died at\n{}",
        deaths.retried,
        deaths.died.join("\n")
    );
    assert_eq!(deaths.died.len(), DEATHS);
    assert_eq!(seen.processes.with(planted), [""; 0], "in a process");
    assert_eq!(written(&stage, planted), [""; 0], "in a file of the server");
    is_found_in_a_process(seen, planted, &secrets.password);
    is_found_in_the_open(&stage, planted, &secrets.password, "SSH password");
    stage.ends();
    real.is_as_before();
    Secrets::end(&real);
}

/// What the record names is there, and what came to the cloud is in the record.
fn inventory_is_reality(real: &Real, stage: &Stage) {
    let mut recorded = BTreeSet::new();
    resource_ids(
        &stage.server.ctl(&["vnf", "show", VNF_A])["instantiatedVnfInfo"],
        &mut recorded,
    );
    let (came, all) = (real.came(), real.cloud().inventory(&real.hosts));
    let id = |one: &String| one.rsplit(' ').next().unwrap().to_owned();
    let is_machine = |one: &&String| one.starts_with("server ") || one.starts_with("network ");
    let machines: BTreeSet<_> = came.iter().filter(is_machine).map(id).collect();
    assert_eq!(machines.len(), 4, "three servers and a network: {came:#?}");
    let missing: Vec<_> = machines.difference(&recorded).collect();
    assert!(
        missing.is_empty(),
        "not in the record: {missing:?} of {came:#?}"
    );
    // Networks from before are among those that it uses.
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

/// What let hosts join has a short life, and none any more; the token of the VIM is looked for with the rest.
fn what_the_cluster_made_is_dead_or_known(real: &Real, watch: &Watch, planted: &mut Planted) {
    let files = watch.files();
    let made = Made::of(&files);
    assert!(
        !made.tokens.is_empty(),
        "no bootstrap token was seen in {} files",
        files.len()
    );
    let short = |file: &Vec<u8>| String::from_utf8_lossy(file).contains("\"ttl\":\"15m\"");
    assert!(files.iter().any(short), "a token's life is not known");
    made.add_to(planted);
    let (master, worker) = (Host::new(real, MASTER), Host::new(real, WORKER));
    planted.add("bearer token", &bearer_token(&master, "vnfm-token"));
    for token in &made.tokens {
        let said = lets_join(&worker, token).unwrap_err();
        assert!(
            said.contains("JWS signature") || said.contains("Unauthorized"),
            "{said}"
        );
    }
    // The same question with a token that is good; the cluster learns a little later what became of it.
    let fresh = master.inside("kubeadm token create --ttl 15m");
    until("the new token is known", LONG, || {
        lets_join(&worker, fresh.trim()).ok()
    });
    let id = fresh.split('.').next().unwrap();
    master.inside(&format!("kubeadm token delete {id}"));
    until("the new token is dead", LONG, || {
        lets_join(&worker, fresh.trim()).err()
    });
}

/// A file that somebody leaves on a host.
fn is_found_on_a_host(real: &Real, planted: &Planted, secret: &str) {
    let file = Host::new(real, WORKER).root().join("tmp/let-through");
    std::fs::write(&file, format!("password={secret}")).unwrap();
    let found = on_hosts(real, planted);
    std::fs::remove_file(file).unwrap();
    assert!(
        found.iter().any(|file| file.ends_with("/tmp/let-through")),
        "{found:?}"
    );
}

/// An environment that holds one.
fn is_found_in_a_process(mut seen: Seen, planted: &Planted, secret: &str) {
    let mut child = Command::new("sleep")
        .arg("60")
        .env("LET_THROUGH", secret)
        .spawn()
        .unwrap();
    // A process has no words while it becomes its program.
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
