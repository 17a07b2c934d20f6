//! Snapshots of etcd with the VNFM: stored, restored when the hosts have lost theirs, refused when they are not usable.

use crate::engine_side::INSTANCE;
use crate::lab::{Lab, RealClock};
use crate::shared_lab::THREE;
use serde_json::{Value, json};
use std::path::PathBuf;
use std::sync::Arc;
use vnfm_core::ports::{Effects, ErrorKind, InstanceFiles as _, PortError};
use vnfm_store::FileDir;

const PASSPHRASE: &str = "planted passphrase";
const FOLDER: &str = "/var/lib/vnfm/etcd";

impl Lab {
    async fn take_backup(&self, keep: u32) -> Result<Effects, PortError> {
        let params = json!({ "cluster_action": "backup", "etcd_passphrase": PASSPHRASE, "etcd_snapshots_to_keep": keep });
        self.hook("operate_end", params).await
    }

    /// Takes a snapshot; its name.
    async fn backed_up(&self, keep: u32) -> String {
        let effects = self.take_backup(keep).await.unwrap();
        // A checkpoint belongs to one operation.
        self.forget_checkpoints();
        let backup = &effects.metadata["etcdBackup"];
        assert_eq!(backup["stored"], true, "{backup}");
        backup["snapshot"].as_str().unwrap().to_owned()
    }

    async fn restore_stored(&self, snapshot: &str) -> Result<Effects, PortError> {
        let params = json!({ "cluster_action": "restore", "etcd_passphrase": PASSPHRASE, "etcd_snapshot": snapshot });
        let result = self.hook("operate_end", params).await;
        self.forget_checkpoints();
        result
    }

    async fn stored(&self) -> Vec<String> {
        let files = self.files.list(INSTANCE).await.unwrap();
        files.into_iter().map(|file| file.name).collect()
    }

    /// Deletes all snapshots of a host.
    fn lose_snapshots(&self, host: &str) {
        self.hosts.remove_file(&format!("server-{host}"), FOLDER);
    }

    /// Stores a file with the VNFM, as an operator does.
    async fn upload(&self, name: &str, content: &[u8]) {
        let length = content.len() as u64;
        let local: PathBuf = self.files.begin(INSTANCE, name, length).await.unwrap();
        std::fs::write(&local, content).unwrap();
        let written = (local, None);
        self.files.complete(INSTANCE, name, written).await.unwrap();
    }

    fn put_note(&self, text: &str) {
        let metadata = json!({ "name": "note", "namespace": "default" });
        self.apply(&json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": { "text": text } }));
    }

    fn read_note(&self) -> Value {
        let note = self
            .cluster()
            .object("/api/v1/namespaces/default/configmaps/note");
        note.unwrap()["data"]["text"].clone()
    }

    /// The content of the only stored file, and its name.
    async fn stored_content(&self) -> (String, Vec<u8>) {
        let name = self.stored().await.remove(0);
        let (_, path) = self.files.open(INSTANCE, &name).await.unwrap();
        (name, std::fs::read(path).unwrap())
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_snapshot_is_restored_when_the_hosts_have_lost_theirs() {
    let (lab, _) = Lab::with_vnf_b().await;
    lab.put_note("before");
    let name = lab.backed_up(5).await;
    lab.put_note("after");
    assert_eq!(lab.stored().await, [format!("{name}.db.enc")]);
    let (_, copy) = lab.stored_content().await;
    let host = lab
        .hosts
        .file("server-m1", &format!("{FOLDER}/{name}.db.enc"));
    assert_eq!(host.as_ref(), Some(&copy));
    lab.lose_snapshots("m1");
    lab.restore_stored(&name).await.unwrap();
    assert_eq!(lab.read_note(), "before");
    assert!(
        !lab.texts().contains(PASSPHRASE),
        "the passphrase can be read"
    );
    assert_eq!(lab.books.violations(), [""; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_snapshot_that_was_changed_on_its_host_is_replaced_by_the_stored_one() {
    let (lab, _) = Lab::with_vnf_b().await;
    lab.put_note("before");
    let name = lab.backed_up(5).await;
    lab.put_note("after");
    let path = format!("{FOLDER}/{name}.db.enc");
    lab.hosts.write_file("server-m1", &path, "half of it");
    lab.restore_stored(&name).await.unwrap();
    assert_eq!(lab.read_note(), "before");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_last_copies_are_kept_with_the_vnfm() {
    let (lab, _) = Lab::with_vnf_b().await;
    let mut taken = Vec::new();
    for _ in 0..3 {
        taken.push(format!("{}.db.enc", lab.backed_up(2).await));
    }
    assert_eq!(lab.stored().await, taken[1..]);
    lab.upload("notes.txt", b"not a snapshot").await;
    let last = format!("{}.db.enc", lab.backed_up(1).await);
    assert_eq!(lab.stored().await, [last, "notes.txt".to_owned()]);
}

#[tokio::test(flavor = "multi_thread")]
async fn one_of_several_nodes_provides_the_copy() {
    let (lab, _) = Lab::with_three().await;
    let mut all = lab.shared_params();
    all["cluster_action"] = json!("backup");
    all["etcd_passphrase"] = json!(PASSPHRASE);
    let request = lab.shared_request("operate_end", &all, &lab.vnfcs(THREE, &[]));
    let effects = lab.run(request, None).await.unwrap().unwrap();
    let backup = &effects.metadata["etcdBackup"];
    assert_eq!(backup["nodes"].as_array().unwrap().len(), 3, "{backup}");
    assert_eq!(lab.stored().await.len(), 1);
    let message = effects.message.unwrap();
    assert!(message.contains("and with the VNFM"), "{message}");
}

/// What is not usable is refused before anything of the cluster is touched.
#[tokio::test(flavor = "multi_thread")]
async fn damaged_and_foreign_snapshots_are_refused_before_anything_is_touched() {
    let (lab, _) = Lab::with_vnf_b().await;
    let name = lab.backed_up(5).await;
    let (file, content) = lab.stored_content().await;
    lab.put_note("now");
    lab.lose_snapshots("m1");
    let ca = &name[..12];
    let named = |time: &str| format!("{ca}-20260101T{time}Z");
    let mut altered = content.clone();
    altered[200] ^= 1;
    for (name, content) in [
        (named("000001"), &content[..content.len() / 2]),
        (named("000002"), &altered[..]),
        (named("000003"), &b""[..]),
        (named("000004"), &b"no snapshot at all"[..]),
    ] {
        lab.upload(&format!("{name}.db.enc"), content).await;
        let error = lab.restore_stored(&name).await.unwrap_err();
        assert_eq!(error.name(), "etcd-failed", "{error}");
        assert!(error.to_string().contains("damaged"), "{error}");
    }
    // Another cluster's, under its own name and under one of this cluster.
    let (other, _) = Lab::with_vnf_b().await;
    let theirs = other.backed_up(5).await;
    let (_, content) = other.stored_content().await;
    for name in [theirs, named("000005")] {
        lab.upload(&format!("{name}.db.enc"), &content).await;
        let error = lab.restore_stored(&name).await.unwrap_err();
        assert_eq!(
            (error.name(), error.kind()),
            ("other-cluster", ErrorKind::Refused),
            "{error}"
        );
    }
    // The VNFM's own copy, changed on its disk.
    let (_, path) = lab.files.open(INSTANCE, &file).await.unwrap();
    std::fs::write(path, "changed").unwrap();
    let error = lab.restore_stored(&name).await.unwrap_err();
    assert!(error.to_string().contains("SHA-256"), "{error}");
    assert_eq!(lab.read_note(), "now");
    for word in ["restore", "stop"] {
        let program = format!("sh /run/vnfm/vnfm-etcd {word}");
        assert_eq!(lab.count("m1", &program), 0, "{word}");
    }
    lab.restore_stored("0123456789ab-20260101T000000Z")
        .await
        .unwrap_err();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_of_the_vnfm_leaves_the_old_copies_and_a_retry_stores_the_new_one() {
    let (mut lab, _) = Lab::with_vnf_b().await;
    let old = lab.backed_up(5).await;
    let roomy = lab.files.clone();
    let full = FileDir::open(lab.data.path(), Arc::new(RealClock), 1 << 60).unwrap();
    lab.files = Arc::new(full);
    let error = lab.take_backup(1).await.unwrap_err();
    assert_eq!(
        (error.name(), error.kind()),
        ("etcd-not-stored", ErrorKind::Unavailable),
        "{error}"
    );
    assert!(
        error.to_string().contains("no copy is with the VNFM"),
        "{error}"
    );
    assert_eq!(lab.stored().await, [format!("{old}.db.enc")]);
    let snapshots = || {
        lab.hosts
            .files("server-m1")
            .iter()
            .filter(|path| path.starts_with(FOLDER))
            .count()
    };
    assert_eq!(snapshots(), 1, "the new one, as the host keeps one");
    lab.files = roomy;
    lab.take_backup(1).await.unwrap();
    let stored = lab.stored().await;
    assert!(
        stored.len() == 1 && stored[0] != format!("{old}.db.enc"),
        "{stored:?}"
    );
}
