//! A lab: three simulated servers, a package, and the engine's side of a hook.

use crate::engine_side::{EngineSide, Kill, Neighbours, Pending};
use futures::future::BoxFuture;
use jiff::{Timestamp, ToSpan};
use kubernetes_cluster::KubernetesCluster;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::Notify;
use vnfm_core::ports::{Clock, Effects, HookHeal, HookRequest, HookScale, MgmtDrivers, PortError};
use vnfm_outbound::Destinations;
use vnfm_plugin_host::{Config, PluginHost};
use vnfm_plugin_sdk::static_driver;
use vnfm_sim::faults::Faults;
use vnfm_sim::hosts::{HostSpec, Hosts, User};
use vnfm_sim::kubernetes::{Cluster, Clusters};
use vnfm_sim::ledger::Ledger;
use vnfm_ssh::{RememberedHostKeys, Ssh};
use vnfm_store::FileDir;

/// Suffix of the ids of a replaced server and its VNFC.
pub(crate) const NEW: &str = "-new";
/// The last byte of the address of a control plane of several nodes.
pub(crate) const VIP: u8 = 100;
pub(crate) const PASSWORD: &str = "planted-password";
pub(crate) const CNI: &str = "apiVersion: apps/v1\nkind: DaemonSet\nmetadata: {name: cni, namespace: kube-system}\n\
spec:\n  selector: {matchLabels: {app: cni}}\n  template:\n    metadata: {labels: {app: cni}}\n    spec:\n      \
containers: [{name: cni, image: localhost/cni:1}]\n";

pub(crate) struct Lab {
    _reservation: TcpListener,
    net: [u8; 2],
    port: u16,
    pub(crate) books: Arc<Ledger>,
    pub(crate) faults: Arc<Faults>,
    pub(crate) hosts: Arc<Hosts>,
    clusters: Arc<Clusters>,
    host_keys: Arc<RememberedHostKeys>,
    pub(crate) package: BTreeMap<String, Vec<u8>>,
    checkpoints: Arc<Mutex<BTreeMap<String, Value>>>,
    pub(crate) messages: Arc<Mutex<Vec<String>>>,
    pub(crate) pending: Arc<Pending>,
    /// The VNFM's data folder.
    pub(crate) data: tempfile::TempDir,
    pub(crate) files: Arc<FileDir>,
}

pub(crate) struct RealClock;

impl Clock for RealClock {
    fn now(&self) -> Timestamp {
        Timestamp::now()
    }

    #[expect(clippy::disallowed_methods, reason = "this is the clock")]
    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        Box::pin(tokio::time::sleep(duration))
    }
}

impl Lab {
    /// A lab with a network plugin in its package and no hosts yet.
    pub(crate) async fn empty() -> Self {
        loop {
            let random = *uuid::Uuid::new_v4().as_bytes();
            let net = [1 + random[0] % 254, 1 + random[1] % 254];
            // Held as long as the lab: no other one, in any process, has these addresses.
            let held = Ipv4Addr::new(127, net[0], net[1], 254);
            let Ok(reservation) = TcpListener::bind((held, 6443)).await else {
                continue;
            };
            let port = TcpListener::bind("127.0.0.1:0")
                .await
                .unwrap()
                .local_addr()
                .unwrap()
                .port();
            let (books, faults) = (Ledger::new(), Faults::new());
            let clusters = Arc::new(Clusters::new(books.clone(), faults.clone()));
            let hosts = Hosts::new(books.clone(), faults.clone(), clusters.clone(), port);
            let data = tempfile::tempdir().unwrap();
            let files = FileDir::open(data.path(), Arc::new(RealClock), 0).unwrap();
            return Self {
                _reservation: reservation,
                data,
                files: Arc::new(files),
                net,
                port,
                books,
                faults,
                hosts: Arc::new(hosts),
                clusters,
                host_keys: Arc::default(),
                package: BTreeMap::from([("Files/kubernetes/cni.yaml".into(), CNI.into())]),
                checkpoints: Arc::default(),
                messages: Arc::default(),
                pending: Arc::default(),
            };
        }
    }

    /// A lab with `m1`, `w1` and `w2`.
    pub(crate) async fn new() -> Self {
        let lab = Self::empty().await;
        lab.boot_all().await;
        lab
    }

    pub(crate) async fn boot_all(&self) {
        for (last, name) in [(1, "m1"), (2, "w1"), (3, "w2")] {
            self.boot((last, name), name).await;
        }
    }

    /// Boots the servers with which [`Lab::scale_request`] scales out.
    pub(crate) async fn boot_added(&self) {
        for (last, name) in [(4, "w3"), (5, "w4")] {
            self.boot((last, name), name).await;
        }
    }

    /// Boots the successor of `name` with another address.
    pub(crate) async fn boot_at(&self, last: u8, name: &str) {
        self.boot((last, name), &format!("{name}{NEW}")).await;
    }

    /// Boots the server `server-{server}` with this host name and address.
    pub(crate) async fn boot(&self, (last, name): (u8, &str), server: &str) {
        let user = User {
            name: "ubuntu".into(),
            password: Some(PASSWORD.into()),
            authorized_keys: vec![],
        };
        let spec = HostSpec {
            server_id: format!("server-{server}"),
            name: name.into(),
            address: self.address(last),
            users: vec![user],
        };
        self.hosts.boot(spec).await.unwrap();
    }

    /// Replaces servers like a VIM that keeps the ports: same names and addresses, new machines.
    pub(crate) async fn replace(&self, names: &[&str]) {
        for (last, name) in [(1, "m1"), (2, "w1"), (3, "w2")] {
            if names.contains(&name) {
                self.hosts.destroy(&format!("server-{name}")).await;
                self.boot((last, name), &format!("{name}{NEW}")).await;
            }
        }
    }

    pub(crate) fn address(&self, last: u8) -> IpAddr {
        IpAddr::V4(Ipv4Addr::new(127, self.net[0], self.net[1], last))
    }

    /// The cluster that the driver installed.
    pub(crate) fn cluster(&self) -> Arc<Cluster> {
        let single = format!("{}:6443", self.address(1));
        let shared = format!("{}:16443", self.address(VIP));
        let found = self.clusters.get(&shared);
        found.or_else(|| self.clusters.get(&single)).unwrap()
    }

    pub(crate) fn params(&self) -> Value {
        json!({ "k8s_cluster_installation_param": {
            "ssh_port": self.port,
            "vim_name": "vim-of-a",
            "script_path": "Scripts/install.sh",
            "master_node": {
                "aspect_id": "master_instance", "ssh_cp_name": "masterCP", "nic_cp_name": "masterCP",
                "username": "ubuntu", "password": PASSWORD, "pod_cidr": "10.244.0.0/16",
                "cluster_cp_name": "masterCP",
            },
            "worker_node": {
                "ssh_cp_name": "workerCP", "nic_cp_name": "workerCP", "username": "ubuntu", "password": PASSWORD,
            },
        }})
    }

    pub(crate) fn request(&self, hook: &str, params: &Value) -> HookRequest {
        self.request_of(hook, params, &[])
    }

    /// A request for a hook of a heal of these servers; `params` override those of the instantiation.
    pub(crate) fn heal_request(&self, hook: &str, params: &Value, healed: &[&str]) -> HookRequest {
        let mut all = self.params();
        all.as_object_mut()
            .unwrap()
            .extend(params.as_object().unwrap().clone());
        let before = self
            .request_of(hook, &all, &[])
            .inventory
            .vnfc_resource_info;
        let now = if hook == "heal_end" { healed } else { &[] };
        let mut request = self.request_of(hook, &all, now);
        let is_healed = |id: &str| healed.iter().any(|name| id == format!("vnfc-{name}"));
        let vnfcs = before
            .into_iter()
            .filter(|vnfc| is_healed(&vnfc.id))
            .collect();
        let mut heal = HookHeal::default();
        heal.vnfcs = vnfcs;
        request.heal = Some(heal);
        request
    }

    /// A request for a hook of a scaling from `before` to `after` workers; `params` are added to those of the instantiation.
    pub(crate) fn scale_request(
        &self,
        hook: &str,
        params: &Value,
        (before, after): (usize, usize),
    ) -> HookRequest {
        let mut all = self.params();
        all.as_object_mut()
            .unwrap()
            .extend(params.as_object().unwrap().clone());
        let size = |workers| self.request_with(hook, &all, (&[], workers));
        let vnfcs = |workers| size(workers).inventory.vnfc_resource_info;
        let at_end = hook.ends_with("_end");
        let mut request = size(if at_end { after } else { before });
        let mut scale = HookScale::default();
        scale.vnfcs_to_remove = vnfcs(before).split_off(1 + after.min(before));
        if before < after {
            let added = u32::try_from(after - before).unwrap();
            scale.vnfcs_to_add = BTreeMap::from([("workerNode".into(), added)]);
        }
        if at_end {
            scale.vnfcs_added = vnfcs(after).split_off(1 + before.min(after));
        }
        request.instance.vdus = vec!["masterNode".into(), "workerNode".into()];
        request.scale = Some(scale);
        request
    }

    fn request_of(&self, hook: &str, params: &Value, replaced: &[&str]) -> HookRequest {
        self.request_with(hook, params, (replaced, 2))
    }

    /// A request of a cluster of one node, the server `m1`.
    pub(crate) fn single_request(&self, hook: &str) -> HookRequest {
        let mut params = self.params();
        let all = params["k8s_cluster_installation_param"].as_object_mut();
        all.unwrap().remove("worker_node");
        self.request_with(hook, &params, (&[], 0))
    }

    fn request_with(
        &self,
        hook: &str,
        params: &Value,
        (replaced, workers): (&[&str], usize),
    ) -> HookRequest {
        let vnfc = |(last, name, vdu, cp)| self.vnfc((last, name, vdu, cp), replaced);
        let vnfcs = [
            (1, "m1", "masterNode", "masterCP"),
            (2, "w1", "workerNode", "workerCP"),
            (3, "w2", "workerNode", "workerCP"),
            (4, "w3", "workerNode", "workerCP"),
            (5, "w4", "workerNode", "workerCP"),
        ];
        let vnfcs = vnfcs.into_iter().take(1 + workers);
        let vnfcs: Vec<_> = vnfcs.map(vnfc).collect();
        serde_json::from_value(json!({
            "schemaVersion": 1,
            "operation": hook.split('_').next().unwrap().to_uppercase(),
            "hook": hook,
            "instance": {
                "id": "inst-1", "vnfdId": "d", "vnfProvider": "p", "vnfProductName": "n",
                "vnfSoftwareVersion": "1", "vnfdVersion": "1", "metadata": {},
            },
            "inventory": { "vnfcResourceInfo": vnfcs },
            "additionalParams": params,
            "inputs": {},
            "vims": [],
            "artifacts": [],
            "deadline": (Timestamp::now() + 5.minutes()).to_string(),
            "attempt": 1,
        }))
        .unwrap()
    }

    /// The VNFC of the server with this address, name, VDU and connection point.
    pub(crate) fn vnfc(
        &self,
        (last, name, vdu, cp): (u8, &str, &str, &str),
        replaced: &[&str],
    ) -> Value {
        let address = self.address(last).to_string();
        let new = if replaced.contains(&name) { NEW } else { "" };
        json!({
            "id": format!("vnfc-{name}{new}"),
            "vduId": vdu,
            "computeResource": { "resourceId": format!("server-{name}{new}") },
            "metadata": { "name": name },
            "vnfcCpInfo": [{
                "id": format!("cp-{name}"),
                "cpdId": cp,
                "cpProtocolInfo": [{
                    "layerProtocol": "IP_OVER_ETHERNET",
                    "ipOverEthernet": { "ipAddresses": [{ "type": "IPV4", "addresses": [address] }] },
                }],
            }],
        })
    }

    /// Runs `instantiate_end` to its end.
    pub(crate) async fn install(&self) -> Result<Effects, PortError> {
        self.run(self.request("instantiate_end", &self.params()), None)
            .await
            .unwrap()
    }

    /// Runs a hook like a freshly started VNFM; `None` if it was killed.
    pub(crate) async fn run(
        &self,
        request: HookRequest,
        kill: Option<Kill>,
    ) -> Option<Result<Effects, PortError>> {
        let plugins = PluginHost::new(Config::default(), Arc::new(RealClock));
        plugins
            .register(static_driver::<KubernetesCluster>())
            .unwrap();
        let driver = plugins.resolve(&"kubernetes-cluster".into()).unwrap();
        let dead = Arc::new(Notify::new());
        let host = Arc::new(EngineSide {
            kill,
            dead: dead.clone(),
            ..self.side(&request.hook)
        });
        tokio::select! {
            result = driver.call(request, host) => Some(result),
            () = dead.notified() => None,
        }
    }

    /// Forgets what hooks have stored, as another operation does.
    pub(crate) fn forget_checkpoints(&self) {
        self.checkpoints.lock().unwrap().clear();
    }

    /// The engine's side of a hook.
    fn side(&self, hook: &str) -> EngineSide {
        EngineSide {
            ssh: Ssh::new(self.host_keys.clone(), Destinations::anywhere()),
            files: self.files.clone(),
            package: self.package.clone(),
            outputs: json!({
                "service_subnet": "subnet-1", "pods": "10.244.0.0/16", "api_address": self.address(VIP),
            }),
            checkpoints: self.checkpoints.clone(),
            hook: hook.to_owned(),
            messages: self.messages.clone(),
            calls: Mutex::new(0),
            kill: None,
            dead: Arc::default(),
            pending: self.pending.clone(),
        }
    }

    /// The lab as a world of the test kit.
    pub(crate) fn neighbours(&self) -> Arc<Neighbours> {
        Arc::new(Neighbours(Arc::new(self.side("instantiate_end"))))
    }

    /// How often a program was started on the host.
    pub(crate) fn count(&self, host: &str, program: &str) -> usize {
        let start = format!("{host}: {program}");
        self.books
            .calls_named("host.exec")
            .iter()
            .filter(|c| c.subject.starts_with(&start))
            .count()
    }

    /// Checks that the cluster is complete, and that the simulation saw no violation.
    pub(crate) fn check(&self, effects: &Effects) {
        let cluster = self.cluster();
        for node in ["m1", "w1", "w2"] {
            assert!(cluster.node_ready(node), "{node} is not ready");
        }
        let [vim] = effects.register_vims.as_slice() else {
            panic!("{effects:?}")
        };
        assert_eq!(
            (vim.name.as_str(), vim.vim_type.as_str()),
            ("vim-of-a", "ETSINFV.KUBERNETES.V_1")
        );
        assert_eq!(vim.interface_info["endpoint"], cluster.server());
        assert_eq!(vim.interface_info["ssl_ca_cert"], cluster.ca_pem());
        assert!(
            vim.extra["ssl_ca_cert_hash"]
                .as_str()
                .unwrap()
                .starts_with("sha256:")
        );
        assert!(vim.access_info["bearer_token"].as_str().unwrap().len() > 20);
        assert!(
            self.books.violations().is_empty(),
            "{:?}",
            self.books.violations()
        );
        let secrets = cluster
            .object("/api/v1/namespaces/kube-system/secrets")
            .unwrap();
        assert!(
            !secrets.to_string().contains("bootstrap-token-"),
            "a bootstrap token is left"
        );
    }

    /// Every text that may be read by others: commands, logs, progress.
    pub(crate) fn texts(&self) -> String {
        // A shell's own `echo` is not visible as a command line.
        let calls = self
            .books
            .calls()
            .into_iter()
            .filter(|call| !call.subject.contains(": echo "));
        let calls: Vec<_> = calls
            .map(|call| format!("{} {} {}", call.call, call.subject, call.detail))
            .collect();
        calls.join("\n") + &self.messages.lock().unwrap().join("\n")
    }
}
