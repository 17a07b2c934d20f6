//! The cluster's hooks in processes of their own: the story is the same, and a killed server takes them with it.

use std::path::Path;

use serde_json::json;
use vnfm_tests::programs::{Server, until};
use vnfm_tests::simulator::Simulated;
use vnfm_tests::testbed::{LONG, Stage, VNF_A, VNF_B};

fn stage() -> (Simulated, Stage) {
    let folder = tempfile::tempdir().unwrap();
    let sim = Simulated::start(folder.path(), &[]);
    let server = Server::start_with(folder.path(), "info", Some("process"));
    let stage = Stage::with(server, folder, &sim.clouds(), sim.ssh_port());
    (sim, stage)
}

/// The processes that a server has started and that live: those of its hooks.
fn hooks(server: u32) -> Vec<String> {
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let of_server = |process: &std::fs::DirEntry| {
        let stat = std::fs::read_to_string(process.path().join("stat")).unwrap_or_default();
        let fields: Vec<_> = stat
            .rsplit(')')
            .next()
            .unwrap()
            .split_whitespace()
            .collect();
        fields.len() > 1 && fields[0] != "Z" && fields[1] == server.to_string()
    };
    let own = processes.filter(of_server);
    own.map(|process| process.file_name().to_string_lossy().into_owned())
        .collect()
}

#[test]
fn killing_the_server_kills_its_hook_processes_and_the_operation_is_resumed() {
    let (sim, mut stage) = stage();
    let (_, request) = stage.create_a("vnf-a-k8s-cluster");
    let slow =
        json!({"call": "host.exec", "subject": ": kubeadm init", "fault": {"delayMs": 3000}});
    sim.arm(&slow);
    let op = stage.instantiate(VNF_A, &request);
    until("the hook", LONG, || (sim.seen() > 0).then_some(()));
    let hooks = hooks(stage.server.id());
    assert!(
        !hooks.is_empty(),
        "no process of a hook: {}",
        stage.server.logged()
    );
    stage.server.kill();
    until("the end of the hook's process", LONG, || {
        hooks
            .iter()
            .all(|hook| !Path::new("/proc").join(hook).exists())
            .then_some(())
    });
    stage.server.begin();
    stage.ends_as(&op, "COMPLETED");
    let cluster = stage.a_is_up(3);
    stage.b_lives_on(&cluster);
    stage.bring_down(VNF_B);
    stage.bring_down(VNF_A);
    stage.ends();
    sim.is_clean();
}
