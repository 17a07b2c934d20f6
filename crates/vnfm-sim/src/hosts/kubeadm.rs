//! `kubeadm init | join | reset | token | upgrade | certs | version`, with the checks, files and messages of the real one.

use super::control_plane;
use super::host::{Host, KUBELET, Network};
use super::joining::{ca_hash, join_command, random_token, register};
use super::shell::Shell;
use super::stdio::{Input, Output, lines};
use super::upgrade;
use crate::kubernetes::{Cluster, ClusterSpec};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// The Kubernetes version that every host has installed at first.
pub(crate) const VERSION: &str = "v1.36.2";
/// Port of the API server.
const PORT: u16 = 6443;

pub(super) const ADMIN: &str = "/etc/kubernetes/admin.conf";
const BOOTSTRAP: &str = "/etc/kubernetes/bootstrap-kubelet.conf";
pub(super) const CA: &str = "/etc/kubernetes/pki/ca.crt";
pub(super) const API_SERVER: &str = "/etc/kubernetes/manifests/kube-apiserver.yaml";

/// Held while a kubeadm changes the host; a second one at the same time is a violation.
pub(crate) struct KubeadmLock(Arc<Host>);

impl Drop for KubeadmLock {
    fn drop(&mut self) {
        self.0.kubeadm.store(false, Ordering::SeqCst);
    }
}

/// Claims the host for a kubeadm command that changes it; none for any other command.
pub(crate) fn claim(host: &Arc<Host>, argv: &[String]) -> Result<Option<KubeadmLock>, Output> {
    let args: Vec<_> = argv.iter().map(String::as_str).collect();
    let changes = matches!(args.as_slice(), [p, "init" | "join" | "reset" | "upgrade", ..] if p.ends_with("kubeadm"));
    if !changes {
        return Ok(None);
    }
    if host.kubeadm.swap(true, Ordering::SeqCst) {
        let message = format!(
            "`{}` while another kubeadm runs on host `{}`",
            args.join(" "),
            host.spec().name
        );
        host.lan.books.record_violation(message.clone());
        return Err(Output::fail(1, format!("{message}\n")));
    }
    Ok(Some(KubeadmLock(host.clone())))
}

pub(crate) async fn kubeadm(shell: &Shell, argv: &[String], input: &mut Input) -> Output {
    let args: Vec<_> = argv.iter().skip(1).map(String::as_str).collect();
    if args.first() == Some(&"version") {
        let version = upgrade::program_version(&shell.host, "kubeadm");
        return Output::ok(format!("{version}\n"));
    }
    if !shell.is_root() {
        return Output::fail(
            1,
            preflight(&["[ERROR IsPrivilegedUser]: user is not running as root".into()]),
        );
    }
    let result = match args.as_slice() {
        ["init", "phase", "upload-certs", rest @ ..] => {
            control_plane::upload_certs(&shell.host, rest)
        }
        ["init", rest @ ..] => init(&shell.host, rest).await,
        ["join", rest @ ..] => join(&shell.host, rest),
        ["reset", ..] => Ok(reset(&shell.host).await),
        ["upgrade", rest @ ..] => upgrade::upgrade(&shell.host, rest),
        ["certs", rest @ ..] => upgrade::certs(&shell.host, rest),
        ["token", rest @ ..] => {
            let piped = if rest.contains(&STDIN) {
                input.take().await
            } else {
                Vec::new()
            };
            token(&shell.host, rest, &String::from_utf8_lossy(&piped))
        }
        _ => {
            shell
                .host
                .lan
                .books
                .record_violation(format!("`{}` is not simulated", argv.join(" ")));
            Err(format!(
                "unknown command {args:?} for \"kubeadm\" (not simulated)\n"
            ))
        }
    };
    result.map_or_else(|error| Output::fail(1, error), Output::ok)
}

/// Leaves the files that an interrupted real join has written.
pub(crate) fn write_partial_join(host: &Host) {
    let mut disk = host.disk();
    disk.write(BOOTSTRAP, "kind: Config\n", 0o600);
    disk.write(CA, "", 0o644);
}

/// Settings from the flags and the configuration file.
pub(super) struct Configuration {
    documents: Vec<Value>,
    flags: BTreeMap<String, String>,
    plain: Vec<String>,
}

impl Configuration {
    pub(super) fn read(host: &Host, args: &[&str]) -> Result<Self, String> {
        Self::read_with_stdin(host, args, "")
    }

    /// As `read`, but the configuration may be `/dev/stdin`.
    fn read_with_stdin(host: &Host, args: &[&str], piped: &str) -> Result<Self, String> {
        let (mut flags, mut plain) = (BTreeMap::new(), Vec::new());
        let mut args = args.iter();
        while let Some(word) = args.next() {
            let Some(flag) = word.strip_prefix("--") else {
                plain.push((*word).to_owned());
                continue;
            };
            let (name, value) = match flag.split_once('=') {
                Some((name, value)) => (name, value),
                None if SWITCHES.contains(&flag) => (flag, "true"),
                None => (flag, args.next().copied().unwrap_or_default()),
            };
            flags.insert(name.to_owned(), value.to_owned());
        }
        let mut documents = Vec::new();
        if let Some(path) = flags.get("config") {
            let piped = (path == STDIN).then(|| piped.to_owned());
            let text = piped.or_else(|| host.disk().text(path));
            let text = text.ok_or_else(|| {
                format!("unable to read config from \"{path}\": open {path}: no such file or directory\n")
            })?;
            documents =
                parse(&text).map_err(|e| format!("error unmarshaling configuration: {e}\n"))?;
        }
        Ok(Self {
            documents,
            flags,
            plain,
        })
    }

    /// A string in the configuration document of this kind.
    pub(super) fn setting(&self, kind: &str, pointer: &str) -> Option<String> {
        let value = self.document(kind)?.pointer(pointer)?;
        value.as_str().map(str::to_owned)
    }

    fn document(&self, kind: &str) -> Option<&Value> {
        self.documents.iter().find(|d| d["kind"] == kind)
    }

    fn flag(&self, name: &str) -> Option<String> {
        self.flags.get(name).cloned()
    }
}

const STDIN: &str = "/dev/stdin";
const SWITCHES: &[&str] = &[
    "print-join-command",
    "upload-certs",
    "force",
    "skip-token-print",
    "skip-certificate-key-print",
];

/// The documents of a YAML stream.
pub(crate) fn parse(text: &str) -> Result<Vec<Value>, String> {
    let documents = serde_yaml::Deserializer::from_str(text).map(Value::deserialize);
    let documents: Result<Vec<_>, _> = documents.collect();
    let documents = documents.map_err(|e| e.to_string())?;
    Ok(documents
        .into_iter()
        .filter(|document| !document.is_null())
        .collect())
}

fn preflight(problems: &[String]) -> String {
    let problems = lines(problems.iter().map(|problem| format!("\t{problem}\n")));
    format!("error execution phase preflight: [preflight] Some fatal errors occurred:\n{problems}")
}

/// The preflight checks that a simulated host can fail.
fn check(host: &Host, files: &[&str]) -> Result<(), String> {
    let mut problems = Vec::new();
    {
        let disk = host.disk();
        for path in files.iter().filter(|path| disk.is_file(path)) {
            let name = path.trim_start_matches('/').replace('/', "-");
            problems.push(format!(
                "[ERROR FileAvailable--{name}]: {path} already exists"
            ));
        }
    }
    let settings = host.settings();
    if settings
        .sysctl
        .get("net.ipv4.ip_forward")
        .is_none_or(|value| value != "1")
    {
        problems.push(
            "[ERROR FileContent--proc-sys-net-ipv4-ip_forward]: /proc/sys/net/ipv4/ip_forward contents are not set to 1"
                .into(),
        );
    }
    if settings.swap {
        problems.push(
            "[ERROR Swap]: running with swap on is not supported. Please disable swap".into(),
        );
    }
    if !settings.active.contains("containerd") {
        problems.push(
            "[ERROR CRI]: could not connect to the container runtime: is containerd running?"
                .into(),
        );
    }
    if problems.is_empty() {
        Ok(())
    } else {
        Err(preflight(&problems))
    }
}

async fn init(host: &Arc<Host>, args: &[&str]) -> Result<String, String> {
    let wanted = Configuration::read(host, args)?;
    check(host, &[API_SERVER, KUBELET, ADMIN])?;
    let is_stacked = control_plane::files_of_etcd(host, &wanted)?.is_empty();
    let address = host.spec().address;
    let at =
        control_plane::shared_endpoint(host, &wanted)?.unwrap_or(SocketAddr::new(address, PORT));
    let endpoint = at.to_string();
    let spec = ClusterSpec {
        name: endpoint.clone(),
        address: at.ip(),
        port: at.port(),
    };
    let started = host.lan.clusters.start(spec).await;
    let cluster =
        started.map_err(|e| format!("error execution phase wait-control-plane: {e:#}\n"))?;
    let node = wanted
        .setting("InitConfiguration", "/nodeRegistration/name")
        .or_else(|| wanted.flag("node-name"))
        .unwrap_or_else(|| host.spec().name.clone());
    cluster.add_node(&node, &address.to_string());
    register(&cluster, &node, wanted.document("InitConfiguration"));
    let token = wanted
        .setting("InitConfiguration", "/bootstrapTokens/0/token")
        .or_else(|| wanted.flag("token"))
        .unwrap_or_else(random_token);
    let ca = cluster.ca_pem();
    {
        let mut disk = host.disk();
        let config = format!("apiVersion: v1\nkind: Config\nserver: https://{endpoint}\n");
        disk.write(ADMIN, config.clone(), 0o600);
        disk.write(KUBELET, config, 0o600);
        disk.write(CA, ca.clone(), 0o644);
    }
    upgrade::start_control_plane(host, &cluster, is_stacked);
    upgrade::kubelet_joined(host, &cluster);
    host.settings().active.insert("kubelet".into());
    cluster.bootstrap_token_add(&token);
    host.lan.control_planes().insert(endpoint.clone(), cluster);
    if is_stacked {
        host.lan.add_member(&endpoint, (&node, host));
    }
    let printed_token = if wanted.flags.contains_key("skip-token-print") {
        "<value withheld>"
    } else {
        &token
    };
    let join = join_command(&endpoint, printed_token, &ca);
    Ok(format!(
        "[init] Using Kubernetes version: {VERSION}\n[preflight] Running pre-flight checks\n\
         Your Kubernetes control-plane has initialized successfully!\n\n{join}"
    ))
}

/// A control plane that a joining host has found.
struct ControlPlane {
    endpoint: String,
    plane: Arc<Cluster>,
}

const DISCOVERY_FAILED: &str =
    "error execution phase preflight: couldn't validate the identity of the API Server: ";

/// File discovery: reads endpoint and CA from a kubeconfig, then checks the token.
fn discover_by_file(
    host: &Arc<Host>,
    wanted: &Configuration,
    path: &str,
) -> Result<ControlPlane, String> {
    let text = host.disk().text(path);
    let text = text.ok_or_else(|| format!("discovery.file.kubeConfigPath: Invalid value: \"{path}\": not a valid HTTPS URL or a file on disk\n"))?;
    let known = parse(&text)
        .ok()
        .and_then(|all| all.into_iter().next())
        .unwrap_or_default();
    let cluster = &known["clusters"][0]["cluster"];
    let server = cluster["server"].as_str().unwrap_or_default();
    let endpoint = server.trim_start_matches("https://").to_owned();
    let ask = format!(
        "{DISCOVERY_FAILED}Abort reading the cluster-info ConfigMap after timeout of 5m0s: Get \"{server}/api/v1/namespaces/kube-public/configmaps/cluster-info?timeout=10s\": "
    );
    let plane = host.lan.control_planes().get(&endpoint).cloned();
    let plane = plane.filter(|plane| plane.is_available());
    let plane =
        plane.ok_or_else(|| format!("{ask}dial tcp {endpoint}: connect: connection refused\n"))?;
    let ca = cluster["certificate-authority-data"]
        .as_str()
        .unwrap_or_default();
    if STANDARD.decode(ca).ok().as_deref() != Some(plane.ca_pem().as_bytes()) {
        return Err(format!(
            "{ask}tls: failed to verify certificate: x509: certificate signed by unknown authority\n"
        ));
    }
    let token = wanted.setting("JoinConfiguration", "/discovery/tlsBootstrapToken");
    if token.is_none_or(|token| !plane.bootstrap_token_valid(&token)) {
        return Err(
            "error execution phase preflight: unable to fetch the kubeadm-config ConfigMap: failed to get config map: Unauthorized\n"
                .to_owned(),
        );
    }
    Ok(ControlPlane { endpoint, plane })
}

/// Token discovery: checks the token and the pinned CA hash.
fn discover_by_token(host: &Arc<Host>, wanted: &Configuration) -> Result<ControlPlane, String> {
    let discovery = |name: &str| {
        wanted.setting(
            "JoinConfiguration",
            &format!("/discovery/bootstrapToken/{name}"),
        )
    };
    let endpoint = discovery("apiServerEndpoint").or_else(|| wanted.plain.first().cloned());
    let token = discovery("token")
        .or_else(|| wanted.flag("token"))
        .unwrap_or_default();
    let hash = discovery("caCertHashes/0").or_else(|| wanted.flag("discovery-token-ca-cert-hash"));
    let endpoint =
        endpoint.ok_or("discovery: Invalid value: \"\": bootstrapToken or file must be set\n")?;
    let plane = host.lan.control_planes().get(&endpoint).cloned();
    let plane = plane.ok_or_else(|| {
        format!("{DISCOVERY_FAILED}failed to request the cluster-info ConfigMap: dial tcp {endpoint}: connect: connection refused\n")
    })?;
    let id = token.split('.').next().unwrap_or_default();
    if !token.contains('.') || !plane.bootstrap_token_valid(&token) {
        return Err(format!(
            "{DISCOVERY_FAILED}could not find a JWS signature in the cluster-info ConfigMap for token ID \"{id}\"\n"
        ));
    }
    if hash != ca_hash(&plane.ca_pem()) {
        return Err(format!(
            "{DISCOVERY_FAILED}cluster CA found in cluster-info ConfigMap is invalid: none of the public keys are pinned\n"
        ));
    }
    Ok(ControlPlane { endpoint, plane })
}

fn join(host: &Arc<Host>, args: &[&str]) -> Result<String, String> {
    let wanted = Configuration::read(host, args)?;
    check(host, &[KUBELET, BOOTSTRAP, CA])?;
    let ControlPlane { endpoint, plane } =
        match wanted.setting("JoinConfiguration", "/discovery/file/kubeConfigPath") {
            Some(path) => discover_by_file(host, &wanted, &path)?,
            None => discover_by_token(host, &wanted)?,
        };
    let node = wanted.setting("JoinConfiguration", "/nodeRegistration/name");
    let node = node
        .or_else(|| wanted.flag("node-name"))
        .unwrap_or_else(|| host.spec().name.clone());
    if plane.serves(&node) {
        return Err(format!(
            "error execution phase kubelet-start: a Node with name \"{node}\" and status \"Ready\" already exists in the cluster. You must delete the existing Node or change the name of this new joining Node\n"
        ));
    }
    if let Some(key) = wanted.setting("JoinConfiguration", "/controlPlane/certificateKey") {
        control_plane::join(host, (&endpoint, &plane), (&node, &key))?;
    }
    {
        let mut disk = host.disk();
        disk.write(
            KUBELET,
            format!("apiVersion: v1\nkind: Config\nserver: https://{endpoint}\n"),
            0o600,
        );
        disk.write(CA, plane.ca_pem(), 0o644);
    }
    host.settings().active.insert("kubelet".into());
    plane.add_node(&node, &host.spec().address.to_string());
    upgrade::kubelet_joined(host, &plane);
    register(&plane, &node, wanted.document("JoinConfiguration"));
    Ok(
        "[preflight] Running pre-flight checks\n\nThis node has joined the cluster:\n\
        * Certificate signing request was sent to apiserver and a response was received.\n"
            .into(),
    )
}

async fn reset(host: &Arc<Host>) -> String {
    host.leave_control_plane().await;
    host.set_node_served(false);
    let mut disk = host.disk();
    for path in [
        "/etc/kubernetes/manifests",
        "/etc/kubernetes/pki",
        // Not by kubeadm; but a manifest that a later join writes counts more.
        "/etc/kubernetes/vnfm-stopped",
        ADMIN,
        KUBELET,
        BOOTSTRAP,
    ] {
        disk.remove(path);
    }
    drop(disk);
    host.lan.update_quorum(Some("`kubeadm reset`"));
    "[reset] Deleting contents of directories: [/etc/kubernetes/manifests /etc/kubernetes/pki]\n"
        .into()
}

fn token(host: &Arc<Host>, args: &[&str], piped: &str) -> Result<String, String> {
    let wanted = Configuration::read_with_stdin(host, args, piped)?;
    let endpoint = endpoint_of(&host.lan, &host.disk().text(ADMIN).unwrap_or_default());
    let endpoint = endpoint.ok_or_else(|| {
        format!("failed to load admin kubeconfig: open {ADMIN}: no such file or directory\n")
    })?;
    let plane = host.lan.control_planes().get(&endpoint).cloned();
    let plane = plane.ok_or("the API server does not answer\n")?;
    match wanted
        .plain
        .iter()
        .map(String::as_str)
        .collect::<Vec<_>>()
        .as_slice()
    {
        ["create"] => {
            let token = wanted.setting("InitConfiguration", "/bootstrapTokens/0/token");
            let token = token.unwrap_or_else(random_token);
            plane.bootstrap_token_add(&token);
            let joins = wanted.flags.contains_key("print-join-command");
            Ok(if joins {
                join_command(&endpoint, &token, &plane.ca_pem())
            } else {
                format!("{token}\n")
            })
        }
        ["delete", ids @ ..] => {
            let mut output = String::new();
            for id in ids {
                if !plane.bootstrap_token_valid(id) {
                    let name = format!("bootstrap-token-{}", id.split('.').next().unwrap_or(id));
                    return Err(format!(
                        "failed to delete bootstrap token \"{id}\": secrets \"{name}\" not found\n"
                    ));
                }
                plane.bootstrap_token_remove(id);
                let _ = writeln!(output, "bootstrap token \"{id}\" deleted");
            }
            Ok(output)
        }
        ["list"] => {
            let secrets = plane
                .object("/api/v1/namespaces/kube-system/secrets")
                .unwrap_or_default();
            let names = secrets["items"].as_array().into_iter().flatten();
            let names = names.filter_map(|secret| secret["metadata"]["name"].as_str());
            let ids = names.filter_map(|name| name.strip_prefix("bootstrap-token-"));
            Ok(lines(ids.map(|id| format!("{id}.<hidden>\n"))))
        }
        other => Err(format!(
            "unknown command {other:?} for \"kubeadm token\" (not simulated)\n"
        )),
    }
}

/// The endpoint of the cluster that this host belongs to.
pub(super) fn endpoint_of_host(host: &Host) -> Option<String> {
    let config = host.disk().text(ADMIN)?;
    endpoint_of(&host.lan, &config)
}

/// The endpoint in a kubeconfig, if it is one of this world's clusters.
pub(crate) fn endpoint_of(lan: &Network, kubeconfig: &str) -> Option<String> {
    let server = kubeconfig.split("server: https://").nth(1)?;
    let endpoint = server.lines().next()?.trim().to_owned();
    lan.control_planes()
        .contains_key(&endpoint)
        .then_some(endpoint)
}
