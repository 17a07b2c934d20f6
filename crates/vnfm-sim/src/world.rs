//! A world: all services started in this process, until it is dropped.

use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use uuid::Uuid;

use crate::control;
use crate::faults::Faults;
use crate::hosts::Hosts;
use crate::http::Listening;
use crate::kubernetes::{Cluster, ClusterSpec, Clusters};
use crate::ledger::Ledger;
use crate::nfvo::Nfvo;
use crate::openstack::{Cloud, CloudOptions, PASSWORD};
use crate::registry::Registry;

/// What a world starts with.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// How long the cloud takes for each kind of request.
    pub cloud: CloudOptions,
    /// Time that a pod takes to start.
    pub pod_start: Duration,
    /// Name of a standalone cluster to start with the world.
    pub cluster: Option<String>,
    /// The control API's port on 127.0.0.1; 0 chooses a free one.
    pub control_port: u16,
    /// Directory for `clouds.yaml`, kubeconfigs, `nfvo-authority.pem` and `nfvo-client.pem` (a client certificate that
    /// the NFVO accepts, with its key); none writes no files.
    pub data: Option<PathBuf>,
}

/// Addresses, credentials and files of a running world.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Endpoints {
    /// Base URL of the control API.
    pub control: String,
    /// URL of Keystone, including `/v3`.
    pub auth_url: String,
    /// URL of Heat, without a version.
    pub heat: String,
    /// URL of Nova, without a version.
    pub nova: String,
    /// URL of Neutron, without a version.
    pub neutron: String,
    /// URL of Glance, without a version.
    pub glance: String,
    /// The NFVO's base URL, to which `/grant/v1`, `/notifications` and `/token` are appended.
    pub nfvo: String,
    /// The same over mutual TLS.
    pub nfvo_tls: String,
    /// URL of the registry of container images.
    pub registry: String,
    /// The loopback /24 of the simulated servers' addresses.
    pub address_block: String,
    /// Port of the sshd on every simulated host.
    pub ssh_port: u16,
    /// Login name on every simulated host.
    pub ssh_user: String,
    /// Password of the user `ssh_user`.
    pub ssh_password: String,
    /// Name of the network for external connection points; OpenStack accepts it as an id.
    pub network: String,
    /// The OpenStack user for tenants; its project has the same name.
    pub user: String,
    /// Password of the user `user`.
    pub password: String,
    /// A `clouds.yaml` with the clouds `nfv` and `admin`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clouds_yaml: Option<PathBuf>,
    /// The kubeconfig of the standalone cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kubeconfig: Option<PathBuf>,
}

impl Endpoints {
    /// The services of a cloud, an NFVO and a registry; the other members are empty.
    fn for_services(cloud: &Cloud, nfvo: &Nfvo, registry: &Registry) -> Self {
        Self {
            control: String::new(),
            auth_url: format!("{}/v3", cloud.address("identity")),
            heat: cloud.address("orchestration"),
            nova: cloud.address("compute"),
            neutron: cloud.address("network"),
            glance: cloud.address("image"),
            nfvo: nfvo.url().to_owned(),
            nfvo_tls: nfvo.secure_url().to_owned(),
            registry: registry.url().to_owned(),
            address_block: String::new(),
            ssh_port: 0,
            ssh_user: "ubuntu".into(),
            ssh_password: "secret".into(),
            network: "provider".into(),
            user: "nfv".into(),
            password: PASSWORD.into(),
            clouds_yaml: None,
            kubeconfig: None,
        }
    }
}

/// A running simulated world; it stops when dropped.
pub struct World {
    books: Arc<Ledger>,
    faults: Arc<Faults>,
    clusters: Arc<Clusters>,
    hosts: Arc<Hosts>,
    cloud: Arc<Cloud>,
    nfvo: Arc<Nfvo>,
    registry: Arc<Registry>,
    endpoints: Endpoints,
    standalone: Option<Arc<Cluster>>,
    control: Option<Listening>,
    /// Reserves the address block: no other world can claim it while this socket is open.
    _claim: TcpListener,
}

impl World {
    /// Starts all services on loopback addresses.
    ///
    /// # Errors
    ///
    /// If a socket cannot be bound or the data directory cannot be written.
    pub async fn start(options: Options) -> anyhow::Result<Self> {
        let (block, claim) = claim_block().await?;
        let ssh_port = claim.local_addr()?.port();
        let (books, faults) = (Ledger::new(), Faults::new());
        let clusters = Arc::new(Clusters::new(books.clone(), faults.clone()));
        clusters.set_pod_start(options.pod_start);
        let hosts = Arc::new(Hosts::new(
            books.clone(),
            faults.clone(),
            clusters.clone(),
            ssh_port,
        ));
        let cloud = Cloud::open(
            hosts.clone(),
            books.clone(),
            faults.clone(),
            (block, options.cloud),
        )
        .await?;
        let nfvo = Nfvo::open(books.clone(), faults.clone()).await?;
        let registry = Registry::open(books.clone(), faults.clone()).await?;
        let [a, b] = block;
        let mut world = Self {
            endpoints: Endpoints {
                address_block: format!("127.{a}.{b}.0/24"),
                ssh_port,
                ..Endpoints::for_services(&cloud, &nfvo, &registry)
            },
            books,
            faults,
            clusters,
            hosts,
            cloud,
            nfvo,
            registry,
            standalone: None,
            control: None,
            _claim: claim,
        };
        if let Some(name) = options.cluster {
            let spec = ClusterSpec {
                name,
                address: IpAddr::V4(Ipv4Addr::new(127, a, b, 251)),
                port: 6443,
            };
            let cluster = world.clusters.start(spec).await?;
            cluster.make_standalone("worker", IpAddr::V4(Ipv4Addr::new(127, a, b, 252)));
            world.standalone = Some(cluster);
        }
        if let Some(data) = options.data {
            world.write_files(&data)?;
        }
        let listener = TcpListener::bind(("127.0.0.1", options.control_port))
            .await
            .context("cannot bind the control port")?;
        world.endpoints.control = format!("http://{}", listener.local_addr()?);
        world.control = Some(control::serve(listener, &world));
        Ok(world)
    }

    /// Addresses, credentials and files of a running world.
    pub fn endpoints(&self) -> &Endpoints {
        &self.endpoints
    }

    /// Inventory, call log and violations.
    pub fn ledger(&self) -> &Arc<Ledger> {
        &self.books
    }

    /// The rules for faults, which apply to every service.
    pub fn faults(&self) -> &Arc<Faults> {
        &self.faults
    }

    /// The simulated OpenStack of this world.
    pub fn cloud(&self) -> &Arc<Cloud> {
        &self.cloud
    }

    /// The simulated NFVO of this world.
    pub fn nfvo(&self) -> &Arc<Nfvo> {
        &self.nfvo
    }

    /// The simulated registry of this world.
    pub fn registry(&self) -> &Arc<Registry> {
        &self.registry
    }

    /// The simulated machines of this world.
    pub fn hosts(&self) -> &Arc<Hosts> {
        &self.hosts
    }

    /// All Kubernetes clusters, including those installed on hosts.
    pub fn clusters(&self) -> &Arc<Clusters> {
        &self.clusters
    }

    /// The standalone cluster, if the options name one.
    pub fn cluster(&self) -> Option<&Arc<Cluster>> {
        self.standalone.as_ref()
    }

    /// Fills a sample request's placeholders: network, SSH login, VIM id, cluster name.
    pub fn fill_sample(&self, request: &str, vim_id: &str, cluster: &str) -> String {
        request
            .replace("\"@SSH_PORT@\"", &self.endpoints.ssh_port.to_string())
            .replace("@VIM_ID@", vim_id)
            .replace("@CLUSTER_NAME@", cluster)
            .replace("@NETWORK_ID@", &self.endpoints.network)
            .replace("@SSH_USER@", &self.endpoints.ssh_user)
            .replace("@SSH_PASSWORD@", &self.endpoints.ssh_password)
    }

    /// A `clouds.yaml` for this world.
    pub fn clouds_yaml(&self) -> String {
        let cloud = |user: &str| {
            json!({ "auth": { "auth_url": self.endpoints.auth_url, "username": user, "password": PASSWORD, "project_name": user,
                "user_domain_id": "default", "project_domain_id": "default" }, "region_name": "RegionOne", "interface": "public",
                "identity_api_version": 3 })
        };
        let all: Value = json!({ "clouds": { "nfv": cloud("nfv"), "admin": cloud("admin") } });
        serde_yaml::to_string(&all).unwrap_or_else(|error| format!("# not written: {error}\n"))
    }

    fn write_files(&mut self, data: &std::path::Path) -> anyhow::Result<()> {
        std::fs::create_dir_all(data)
            .with_context(|| format!("cannot create the directory `{}`", data.display()))?;
        let write = |name: &str, text: String| {
            let path = data.join(name);
            std::fs::write(&path, text)
                .with_context(|| format!("cannot write `{}`", path.display()))
                .map(|()| path)
        };
        self.endpoints.clouds_yaml = Some(write("clouds.yaml", self.clouds_yaml())?);
        write("nfvo-authority.pem", self.nfvo.ca_certificate().to_owned())?;
        write("nfvo-client.pem", self.nfvo.certificate().to_owned())?;
        if let Some(cluster) = &self.standalone {
            self.endpoints.kubeconfig = Some(write("kubeconfig", cluster.kubeconfig())?);
        }
        Ok(())
    }
}

impl Drop for World {
    fn drop(&mut self) {
        self.control = None;
        self.cloud.stop();
        self.nfvo.stop();
        self.registry.stop();
        self.hosts.stop();
        self.clusters.stop_all();
    }
}

/// A loopback /24 that no other world uses, and the socket that reserves it.
async fn claim_block() -> anyhow::Result<([u8; 2], TcpListener)> {
    for attempt in 0..64_u8 {
        let random = *Uuid::new_v4().as_bytes();
        let block = [1 + random[0] % 254, 1 + random[1] % 254];
        // Port 2222 of the block's first address; on a crowded machine any free port.
        let port = if attempt < 48 { 2222 } else { 0 };
        if let Ok(claim) =
            TcpListener::bind((Ipv4Addr::new(127, block[0], block[1], 1), port)).await
        {
            return Ok((block, claim));
        }
    }
    bail!("no free loopback /24 for the simulated world; check that `lo` is up with 127.0.0.0/8")
}
