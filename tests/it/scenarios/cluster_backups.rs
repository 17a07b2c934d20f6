//! Snapshots of a cluster's etcd: by the server's schedule, stored with it, saved to a file and restored from there.

use std::path::Path;

use serde_json::Value;
use vnfm_tests::cluster_access::vnfcs;
use vnfm_tests::programs::until;
use vnfm_tests::testbed::{LONG, Testbed, VNF_A};

use super::testbed;

const PASSPHRASE: &str = "planted passphrase";

/// Runs `vnfmctl cluster …` with the passphrase; its output as JSON.
fn cluster(testbed: &Testbed, args: &[&str]) -> Value {
    let all = [&["-o", "json", "cluster"], args].concat();
    let output = testbed.server.run_with_input(&all, PASSPHRASE);
    assert_eq!(output.code, 0, "{args:?}: {output:?}");
    serde_json::from_str(&output.stdout).unwrap_or_default()
}

fn stored(testbed: &Testbed) -> Vec<String> {
    let listed = cluster(testbed, &["backups", VNF_A]);
    let listed = listed.as_array().unwrap().iter();
    let names = listed.map(|one| one["snapshot"].as_str().unwrap().to_owned());
    names.collect()
}

/// The server's own backup contains the snapshots: it brings them back when its disk has lost them.
fn lose_and_restore_files(testbed: &mut Testbed, folder: &Path) {
    let before = stored(testbed);
    let backup = folder.join("vnfm.backup");
    let backup = backup.to_str().unwrap();
    testbed.server.ctl(&["backup", backup]);
    testbed.server.kill();
    std::fs::remove_dir_all(testbed.server.folder().join("data/files")).unwrap();
    let restored = testbed.server.run_server_command(&["restore", backup]);
    let words = format!("and {} stored files", before.len());
    assert!(restored.stdout.contains(&words), "{restored:?}");
    testbed.server.begin();
    testbed.server.ctl(&["recovery", "confirm", "--force"]);
    assert_eq!(stored(testbed), before);
}

#[test]
fn the_server_takes_snapshots_by_schedule_and_a_saved_one_is_restored() {
    let (sim, mut testbed) = testbed(&[], "info");
    let (_, request) = testbed.create_a("vnf-a-k8s-cluster");
    testbed.wait_for_state(&testbed.instantiate(VNF_A, &request), "COMPLETED");
    let before = vnfcs(&testbed);
    cluster(&testbed, &["backup", VNF_A, "--every", "6h", "--keep", "2"]);
    let first = until("the first snapshot", LONG, || stored(&testbed).pop());
    let completed = until("the end of the operation", LONG, || {
        let shown = cluster(&testbed, &["show", VNF_A]);
        let result = shown["schedule"]["lastResult"].as_str() == Some("COMPLETED");
        result.then_some(shown)
    });
    let (schedule, last) = (&completed["schedule"], &completed["lastBackup"]);
    assert_eq!(schedule["everySeconds"], 21_600, "{completed:#}");
    assert_eq!(last["snapshot"], first.as_str(), "{completed:#}");
    let table = testbed.server.run(&["cluster", "show", VNF_A]).stdout;
    for words in ["ago, with the server: ", "every 6 h, next at "] {
        assert!(table.contains(words), "`{words}` is missing:\n{table}");
    }

    // A restart forgets neither schedule nor copies.
    testbed.server.kill();
    testbed.server.begin();
    assert_eq!(stored(&testbed), [first.as_str()]);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_str().unwrap();
    cluster(&testbed, &["backup", VNF_A, "--keep", "2", "--out", path]);
    let second = stored(&testbed).pop().unwrap();
    assert_ne!(second, first);
    let file = folder.path().join(format!("{second}.db.enc"));
    assert!(file.is_file());

    lose_and_restore_files(&mut testbed, folder.path());

    let id = testbed.server.ctl(&["vnf", "show", VNF_A])["id"].clone();
    let id = id.as_str().unwrap();
    let copy = format!("/vnfm/v1/vnf_instances/{id}/files/{second}.db.enc");
    assert_eq!(testbed.server.http("DELETE", &copy, "").0, 204);
    let file = file.to_str().unwrap();
    cluster(&testbed, &["restore", VNF_A, "--from", file, "--watch"]);
    assert!(stored(&testbed).contains(&second), "it was uploaded");
    let other = folder.path().join("renamed");
    std::fs::copy(file, &other).unwrap();
    let other = other.to_str().unwrap();
    let args = ["cluster", "restore", VNF_A, "--from", other];
    let refused = testbed.server.run_with_input(&args, PASSPHRASE);
    assert!(
        refused.stderr.contains("not named as a snapshot"),
        "{refused:?}"
    );

    cluster(&testbed, &["backup", VNF_A, "--every", "off"]);
    let shown = cluster(&testbed, &["show", VNF_A]);
    assert!(shown["schedule"].is_null(), "{shown:#}");
    let operations = testbed.server.get("/vnflcm/v2/vnf_lcm_op_occs").to_string();
    assert!(
        !operations.contains(PASSPHRASE),
        "the passphrase can be read"
    );
    assert_eq!(vnfcs(&testbed), before);
    testbed.terminate_and_delete(VNF_A);
    testbed.finish();
    sim.assert_clean();
}
