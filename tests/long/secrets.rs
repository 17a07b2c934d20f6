//! Plants secrets in the real systems and searches for them: a user of the cloud, a password and a key of the hosts, and
//! secrets that the cluster generates. All files are searched in place, those of hosts from outside.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};
use tempfile::TempDir;
use vnfm_tests::cloud::Cloud;
use vnfm_tests::planted::{Planted, key_pair, random};
use vnfm_tests::process_watch::running;
use vnfm_tests::sources::copy;

use vnfm_tests::host::{Host, fed};
use vnfm_tests::real::Real;

/// Files with join secrets, which exist only while a step runs; relative to a host's root.
pub(crate) const TEMPORARY_FILES: &[&str] = &[
    "run/vnfm/init.yaml",
    "run/vnfm/join.yaml",
    "run/vnfm/vendor.env",
    "run/vnfm/script/out",
];
/// Name of the cloud user.
const PLANTED_USER: &str = "planted";

pub(crate) struct Secrets {
    pub(crate) planted: Planted,
    pub(crate) password: String,
    key: String,
    folder: TempDir,
    clouds: PathBuf,
}

impl Secrets {
    /// Creates a cloud user, a password and a key, none used before.
    pub(crate) fn plant(real: &Real) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let vim_password = format!("planted-vim-{}", random());
        let clouds = folder.path().join("clouds.yaml");
        Cloud::administer(&real.clouds).create_user(PLANTED_USER, &vim_password);
        let text = std::fs::read_to_string(&real.clouds).unwrap();
        let mut file: Value = serde_yaml::from_str(&text).unwrap();
        let auth = &mut file["clouds"]["nfv"]["auth"];
        (auth["username"], auth["password"]) = (json!(PLANTED_USER), json!(vim_password));
        file["clouds"].as_object_mut().unwrap().remove("admin");
        std::fs::write(&clouds, file.to_string()).unwrap();
        let (key, public) = key_pair(folder.path());
        let password = format!("planted-ssh-{}", random());
        let mut planted = Planted::default();
        planted.add("VIM password", &vim_password);
        planted.add("SSH password", &password);
        planted.add("private key", &key);
        let secrets = Self {
            planted,
            password,
            key,
            folder,
            clouds,
        };
        secrets.change_logins(&public);
        secrets
    }

    /// A clouds.yaml with the login of the user.
    pub(crate) fn clouds(&self) -> &Path {
        &self.clouds
    }

    /// A package of VNF-A whose servers contain the password's hash and the public key.
    pub(crate) fn package(&self) -> String {
        self.folder
            .path()
            .join("vnf-a-k8s-cluster")
            .to_string_lossy()
            .into_owned()
    }

    fn change_logins(&self, public: &str) {
        let hash = hash(&self.password);
        let script = format!(
            "#!/bin/sh\nset -e\nusermod -p '{hash}' ubuntu\n\
             install -d -m 700 -o ubuntu -g ubuntu /home/ubuntu/.ssh\n\
             echo '{public}' >/home/ubuntu/.ssh/authorized_keys\n"
        );
        let boot = json!({ "content_or_file_data": { "content": script } });
        let vnfd = copy("vnf-a-k8s-cluster", self.folder.path()).join("Definitions/vnf-a.yaml");
        let mut text = std::fs::read_to_string(&vnfd).unwrap();
        for line in [
            "        description: Control plane node\n",
            "        description: Worker node\n",
        ] {
            assert!(text.contains(line), "no `{line}` in {text}");
            text = text.replace(line, &format!("{line}        boot_data: {boot}\n"));
        }
        std::fs::write(vnfd, text).unwrap();
    }

    /// The control plane uses the password, the workers the key.
    pub(crate) fn fill(&self, request: &mut Value) {
        let params = &mut request["additionalParams"]["k8s_cluster_installation_param"];
        params["master_node"]["password"] = json!(self.password);
        let worker = params["worker_node"].as_object_mut().unwrap();
        worker.remove("password");
        worker.insert("private_key".to_owned(), json!(self.key));
    }

    /// Deletes the user, who must have no resources left.
    pub(crate) fn end(real: &Real) {
        Cloud::administer(&real.clouds).delete_user(PLANTED_USER);
    }
}

/// The hash that a host stores of a password.
fn hash(password: &str) -> String {
    let mut openssl = Command::new("openssl");
    let output = fed(openssl.args(["passwd", "-6", "-stdin"]), password);
    assert!(
        output.status.success(),
        "openssl (Debian: openssl) makes no hash: {output:?}"
    );
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

/// Secrets that a cluster generated: bootstrap tokens and a certificate key, as found in files.
#[derive(Debug, Default)]
pub(crate) struct ClusterSecrets {
    pub(crate) tokens: Vec<String>,
    pub(crate) keys: Vec<String>,
}

impl ClusterSecrets {
    pub(crate) fn find<'a>(files: impl IntoIterator<Item = &'a Vec<u8>>) -> Self {
        let mut secrets = Self::default();
        for file in files {
            let text = String::from_utf8_lossy(file);
            let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '.');
            secrets
                .tokens
                .extend(words.filter(|word| is_token(word)).map(str::to_owned));
            let key = text
                .split_once("\"certificate_key\":\"")
                .and_then(|(_, rest)| rest.get(..64));
            secrets.keys.extend(key.map(str::to_owned));
        }
        for list in [&mut secrets.tokens, &mut secrets.keys] {
            list.sort();
            list.dedup();
        }
        secrets
    }

    /// Adds them to the secrets to search for.
    pub(crate) fn add_to(&self, planted: &mut Planted) {
        for token in &self.tokens {
            planted.add("bootstrap token", token);
            // The first half is public: the cluster uses it as a name.
            planted.add("bootstrap token", token.split_once('.').unwrap().1);
        }
        for key in &self.keys {
            planted.add("certificate key", key);
        }
    }
}

fn is_token(word: &str) -> bool {
    let plain = |part: &str| {
        part.bytes()
            .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit())
    };
    word.split_once('.').is_some_and(|(id, secret)| {
        id.len() == 6 && secret.len() == 16 && plain(id) && plain(secret)
    })
}

/// The token that the VNFM uses for the cluster.
pub(crate) fn bearer_token(master: &Host<'_>, secret: &str) -> String {
    let line = format!(
        "kubectl --kubeconfig=/etc/kubernetes/admin.conf -n kube-system get secret {secret} \
         -o 'jsonpath={{.data.token}}' | base64 -d"
    );
    let token = master.inside(&line);
    assert!(token.starts_with("eyJ"), "no token of `{secret}`");
    token
}

/// The files of all hosts that contain a secret, except the database of Kubernetes, whose purpose it is.
pub(crate) fn on_hosts(real: &Real, planted: &Planted) -> Vec<String> {
    let new_resources = real.new_resources();
    let names: Vec<_> = new_resources
        .iter()
        .filter_map(|one| one.strip_prefix("host "))
        .collect();
    assert_eq!(names.len(), 3, "{new_resources:#?}");
    let (hosts, mut folders) = (running(&real.hosts), Vec::new());
    for name in names {
        let root = &hosts[name];
        assert!(
            root.join("run/vnfm/vnfm-step").is_file(),
            "not the files of a host of ours"
        );
        folders.push(real.hosts.join(name));
        folders.extend(["run", "tmp", "dev/shm"].map(|folder| root.join(folder)));
    }
    planted.files(&folders, &["etcd"])
}

/// Whether a host could join with a token: the first phase of `kubeadm join`, which changes nothing. The token must not
/// be in a command line: the test inspects those.
pub(crate) fn try_join(worker: &Host<'_>, token: &str) -> Result<(), String> {
    let ask = json!({ "apiVersion": "kubeadm.k8s.io/v1beta4", "kind": "JoinConfiguration",
        "discovery": { "bootstrapToken": { "apiServerEndpoint": "@SERVER@", "token": token,
            "unsafeSkipCAVerification": true } },
        "timeouts": { "discovery": "3s", "kubernetesAPICall": "3s" } });
    // The host is already a node.
    let script = "past=SystemVerification,FileAvailable--etc-kubernetes-kubelet.conf,FileAvailable--etc-kubernetes-pki-ca.crt,Port-10250\n\
         umask 077; server=$(sed -n 's|.*server: https://||p' /etc/kubernetes/kubelet.conf)\n\
         sed \"s/@SERVER@/$server/\" >/run/ask.yaml\n\
         kubeadm join phase preflight --config /run/ask.yaml --ignore-preflight-errors=$past 2>&1 && echo accepted\n\
         rm -f /run/ask.yaml";
    let output = worker.run_script_with_input(script, &ask.to_string());
    if output.lines().any(|line| line == "accepted") {
        Ok(())
    } else {
        Err(output)
    }
}

/// The join secrets of a vendor's script are deleted: the tokens, and the cluster keys
/// encrypted with its certificate key.
pub(crate) fn assert_join_secrets_removed(real: &Real) {
    let master = Host::new(real, "masterNode");
    let list = |what: &str| {
        let kubectl =
            "kubectl --kubeconfig=/etc/kubernetes/admin.conf -n kube-system get secrets -o name";
        let all = master.inside(kubectl);
        all.lines()
            .filter(|name| name.contains(what))
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    assert_eq!(list("kubeadm-certs"), [""; 0]);
    assert_eq!(list("bootstrap-token"), [""; 0]);
    master.inside("kubeadm init phase upload-certs --upload-certs 2>&1");
    assert_eq!(
        list("kubeadm-certs"),
        ["secret/kubeadm-certs"],
        "this is where they would be"
    );
}
