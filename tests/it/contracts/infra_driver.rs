//! Our drivers meet the contract of infrastructure drivers; broken ones are detected by the rule that they break.

use async_trait::async_trait;
use serde_json::{Value, json};
use std::sync::Arc;
use vnfm::SystemClock;
use vnfm::sim::kubernetes::{ClusterSpec, Clusters};
use vnfm::sim::ledger::{Entry, Ledger};
use vnfm::sim::{Options, World};
use vnfm_conformance::infra_driver::{Disks, OnVim, RULES, TestBed};
use vnfm_conformance::{Rule, check};
use vnfm_core::ports::*;
use vnfm_kubernetes::KubernetesDriver;
use vnfm_memory::{MEMORY_VIM, MemoryVim};
use vnfm_openstack::OpenStack;
use vnfm_outbound::Destinations;
use vnfm_tests::contracts::{
    connections_from_kubeconfig, first_vdu_with_image, links, releases, sample, sizes, with_image,
};
use vnfm_tests::programs::until;
use vnfm_tests::testbed::LONG;
use vnfm_types::{
    LinkSpec, LinkSubnet, OPENSTACK, RetainedVolume, SharedLink, VimConnectionInfo,
    VirtualStorageResourceInfo, VnfOperationalState, VolumeSpec,
};

fn left_behind(ledger: &Ledger) -> Vec<String> {
    assert_eq!(ledger.violations(), Vec::<String>::new());
    let left = ledger.left_behind();
    let shown = |one: &Entry| format!("{} {}", one.kind, one.id);
    left.iter().map(shown).collect()
}

/// Ids of the servers that run, according to the simulated cloud.
fn running_servers(world: &World) -> Vec<String> {
    let all = world.ledger().inventory().into_iter();
    let runs = |one: &Entry| one.kind == "server" && one.detail["status"] == "ACTIVE";
    all.filter(runs).map(|one| one.id).collect()
}

async fn world() -> Arc<World> {
    // The embedder chooses the provider; this program may have installed one already.
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    Arc::new(World::start(Options::default()).await.unwrap())
}

/// A link as OpenStack has them.
fn link_with_subnets() -> LinkSpec {
    let subnet = |cidr: &str| LinkSubnet {
        cidr: cidr.into(),
        ..LinkSubnet::default()
    };
    LinkSpec {
        name: "shared-by-rules".into(),
        subnets: vec![subnet("10.77.0.0/24"), subnet("10.78.0.0/24")],
        ..LinkSpec::default()
    }
}

/// A link as Kubernetes has them.
fn link_with_cni_config() -> LinkSpec {
    let config = json!({"cniVersion": "1.0.0", "type": "bridge", "bridge": "br-rules"});
    LinkSpec {
        name: "shared-by-rules".into(),
        namespace: Some("default".into()),
        cni_config: config.as_object().cloned(),
        ..LinkSpec::default()
    }
}

/// An empty volume of the VIM's default type, or of this one.
fn volume(volume_type: Option<&str>) -> VolumeSpec {
    VolumeSpec {
        virtual_storage_desc_id: "data".into(),
        size_gib: 1,
        volume_type: volume_type.map(Into::into),
        ..VolumeSpec::default()
    }
}

/// The kind that Multus brings.
const NETWORKS: &str = "
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: network-attachment-definitions.k8s.cni.cncf.io}
spec:
  group: k8s.cni.cncf.io
  scope: Namespaced
  names: {kind: NetworkAttachmentDefinition, plural: network-attachment-definitions}
  versions: [{name: v1, served: true, storage: true}]
";

async fn openstack() -> Arc<dyn TestBed> {
    let world = world().await;
    let to = world.endpoints();
    let login = |password: &str| {
        VimConnectionInfo::new(OPENSTACK)
            .interface("endpoint", &*to.auth_url)
            .access("username", &*to.user)
            .access("password", password)
            .access("project", &*to.user)
            .access("region", "RegionOne")
    };
    let what = sample("vnf-ha-pair", |request| {
        world.fill_sample(request, "vim", "")
    });
    let levels = sample("vnf-levels", |request| {
        world.fill_sample(request, "vim", "")
    });
    let driver = OpenStack::new(Arc::new(SystemClock), Destinations::anywhere());
    let infeasible = with_image(&what, &first_vdu_with_image(&what));
    let (login, wrong) = (login(&to.password), login("a wrong password"));
    let same = world.clone();
    let (reads, writes) = (world.clone(), world.clone());
    let disks = Disks {
        read: Box::new(move |id| reads.cloud().disk(id)),
        write: Box::new(move |id, text| writes.cloud().write_disk(id, text)),
    };
    Arc::new(OnVim {
        link: Some(link_with_subnets()),
        volume: Some(volume(None)),
        disks: Some(disks),
        snapshots_hold_volumes: true,
        running: Box::new(move || running_servers(&same)),
        wrong_login: Some(wrong),
        infeasible: Some(infeasible),
        sizes: Some(sizes(&levels, "web")),
        releases: Some(releases(["vnf-rolling-1", "vnf-rolling-2"])),
        links: Some(links(&what, ["provider", "nfv-net"])),
        ..OnVim::new((driver, Arc::new(SystemClock)), login, what, move || {
            left_behind(world.ledger())
        })
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn openstack_driver_meets_the_contract() {
    check(RULES, openstack).await.unwrap();
}

/// A simulated cluster: its ledger, and two logins, of which it refuses the second.
async fn simulated_cluster() -> (Arc<Clusters>, Arc<Ledger>, [VimConnectionInfo; 2]) {
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let books = Ledger::new();
    let clusters = Clusters::new(books.clone(), vnfm::sim::faults::Faults::new());
    let spec = ClusterSpec {
        name: "one".to_owned(),
        address: [127, 0, 0, 1].into(),
        port: 0,
    };
    let cluster = clusters.start(spec).await.unwrap();
    cluster.make_standalone("node-1", [127, 0, 0, 1].into());
    let logins = connections_from_kubeconfig(&cluster.kubeconfig());
    (Arc::new(clusters), books, logins)
}

/// Names of the pods according to the simulated cluster.
fn pods(ledger: &Ledger) -> Vec<String> {
    let all = ledger.inventory().into_iter();
    let pods = all.filter(|one| one.kind == "object:pods");
    let names = pods.filter_map(|one| Some(one.name.rsplit_once('/')?.1.to_owned()));
    names.collect()
}

async fn kubernetes() -> Arc<dyn TestBed> {
    let (clusters, books, [login, wrong]) = simulated_cluster().await;
    clusters.get("one").unwrap().apply(NETWORKS).unwrap();
    let what = sample("vnf-b-cnf", |request| request.replace("@VIM_ID@", "vim"));
    let vdu = what.package.vnfd().flavours["simple"]
        .vdus
        .keys()
        .next()
        .unwrap()
        .clone();
    let ledger = books.clone();
    let resources = move || {
        assert!(clusters.get("one").is_some(), "the cluster is there");
        left_behind(&books)
    };
    let driver = KubernetesDriver::new(Destinations::anywhere());
    Arc::new(OnVim {
        wrong_login: Some(wrong),
        infeasible: Some(with_image(&what, &vdu)),
        sizes: Some(sizes(&what, &vdu)),
        releases: Some(releases(["vnf-b-cnf", "vnf-b-cnf-2"])),
        link: Some(link_with_cni_config()),
        removes_last_vnfcs: false,
        running: Box::new(move || pods(&ledger)),
        ..OnVim::new((driver, Arc::new(SystemClock)), login, what, resources)
    })
}

/// A VNF with claims, on a cluster that serves volume snapshots.
async fn kubernetes_with_claims() -> Arc<dyn TestBed> {
    let (clusters, books, [login, wrong]) = simulated_cluster().await;
    let cluster = clusters.get("one").unwrap();
    cluster.install_snapshots().unwrap();
    let what = sample("cnf-volumes", |request| request.replace("@VIM_ID@", "vim"));
    let (reads, writes, ledger) = (cluster.clone(), cluster.clone(), books.clone());
    let disks = Disks {
        read: Box::new(move |pod| reads.disk(pod)),
        write: Box::new(move |pod, text| writes.write_disk(pod, text)),
    };
    let resources = move || {
        assert!(clusters.get("one").is_some(), "the cluster is there");
        left_behind(&books)
    };
    let driver = KubernetesDriver::new(Destinations::anywhere());
    Arc::new(OnVim {
        wrong_login: Some(wrong),
        keeps_vnfcs_on_return: false,
        volume: Some(volume(Some("disks"))),
        disks: Some(disks),
        running: Box::new(move || pods(&ledger)),
        ..OnVim::new((driver, Arc::new(SystemClock)), login, what, resources)
    })
}

/// A VNF on several networks, on a cluster that serves them.
async fn kubernetes_with_networks() -> Arc<dyn TestBed> {
    const NETWORKS: &str = "
apiVersion: v1
kind: Namespace
metadata: {name: networks}
---
apiVersion: k8s.cni.cncf.io/v1
kind: NetworkAttachmentDefinition
metadata: {name: data-1, namespace: networks}
---
apiVersion: k8s.cni.cncf.io/v1
kind: NetworkAttachmentDefinition
metadata: {name: data-2, namespace: networks}
";
    let (clusters, books, [login, wrong]) = simulated_cluster().await;
    let cluster = clusters.get("one").unwrap();
    cluster.install_networks().unwrap();
    let before = left_behind(&books).len();
    cluster.apply(NETWORKS).unwrap();
    // A namespace gets a ServiceAccount and a ConfigMap a moment after it is created.
    let administrators = until("the namespace and its objects", LONG, || {
        let all = left_behind(&books);
        (all.len() >= before + 5).then_some(all)
    });
    let what = sample("cnf-networks", |request| request.replace("@VIM_ID@", "vim"));
    let ledger = books.clone();
    let resources = move || {
        assert!(clusters.get("one").is_some(), "the cluster is there");
        let mut left = left_behind(&books);
        left.retain(|one| !administrators.contains(one));
        left
    };
    let driver = KubernetesDriver::new(Destinations::anywhere());
    Arc::new(OnVim {
        wrong_login: Some(wrong),
        sizes: Some(sizes(&what, "router")),
        links: Some(links(&what, ["networks/data-1", "networks/data-2"])),
        removes_last_vnfcs: false,
        running: Box::new(move || pods(&ledger)),
        ..OnVim::new((driver, Arc::new(SystemClock)), login, what, resources)
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn kubernetes_driver_meets_the_contract_for_a_vnf_with_networks() {
    check(RULES, kubernetes_with_networks).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn kubernetes_driver_meets_the_contract_for_a_vnf_with_claims() {
    check(RULES, kubernetes_with_claims).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn kubernetes_driver_meets_the_contract() {
    check(RULES, kubernetes).await.unwrap();
}

fn memory<D>(wrap: impl FnOnce(MemoryVim) -> D) -> OnVim<D> {
    let vim = MemoryVim::default().with_password("the right password");
    let login = |password| VimConnectionInfo::new(MEMORY_VIM).access("password", password);
    let what = sample("vnf-ha-pair", ToOwned::to_owned);
    let mut infeasible = what.clone();
    Arc::make_mut(&mut infeasible.deployment).flavour_id = "none".into();
    let (there, runs) = (vim.clone(), vim.clone());
    let (reads, writes, driver) = (vim.clone(), vim.clone(), wrap(vim));
    let disks = Disks {
        read: Box::new(move |id| reads.disk(id)),
        write: Box::new(move |id, text| writes.write(id, text)),
    };
    let right = login("the right password");
    OnVim {
        wrong_login: Some(login("a wrong password")),
        infeasible: Some(infeasible),
        sizes: Some(sizes(&sample("vnf-levels", ToOwned::to_owned), "web")),
        releases: Some(releases(["vnf-rolling-1", "vnf-rolling-2"])),
        links: Some(links(
            &sample("vnf-levels", ToOwned::to_owned),
            ["net-1", "net-2"],
        )),
        running: Box::new(move || runs.running_vnfcs()),
        link: Some(link_with_subnets()),
        volume: Some(volume(None)),
        disks: Some(disks),
        ..OnVim::new((driver, Arc::new(SystemClock)), right, what, move || {
            let volumes = there.retained_volumes();
            [there.vnfcs(), there.snapshots(), there.networks(), volumes].concat()
        })
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn memory_vim_meets_the_contract() {
    check(RULES, || async {
        Arc::new(memory(|vim| vim)) as Arc<dyn TestBed>
    })
    .await
    .unwrap();
}

/// How a driver is broken.
#[derive(Clone, Copy, PartialEq)]
enum Flaw {
    /// The driver's `converge` creates everything again.
    RecreatesAll,
    /// `release` fails if there is nothing to delete.
    FailsEmptyRelease,
    /// The driver's `preview` creates resources.
    CreatesInPreview,
    /// It reads the connection only once.
    CachesLogin,
    /// It calls the VIM without a slot.
    IgnoresSlots,
    /// Its `plan` creates resources.
    CreatesInPlan,
    /// A heal replaces all VNFCs.
    HealsAll,
    /// `converge` leaves existing resources as they are.
    NeverResizes,
    /// It logs the password.
    LogsSecrets,
    /// VNFCs run on although they should be stopped.
    NeverStops,
    /// A stop stops all VNFCs.
    StopsAll,
    /// `converge` starts what is stopped.
    Starts,
    /// A snapshot stores nothing.
    StoresNothing,
    /// A return changes no disk.
    NeverReturns,
    /// `delete` leaves everything.
    KeepsSnapshots,
    /// The deletion of a link leaves its network.
    KeepsLinks,
    /// The deletion of a link deletes every network.
    DeletesAllLinks,
    /// Each call creates a volume.
    CreatesVolumes,
    /// Only a volume whose id is recorded is deleted.
    DeletesById,
}

/// The VIM in memory through a driver that is broken.
struct Broken(MemoryVim, Flaw);

impl Broken {
    fn has(&self, flaw: Flaw) -> bool {
        self.1 == flaw
    }
}

/// The VIM as a broken driver calls it.
struct Other<'v>(&'v dyn Vim, Flaw);

#[async_trait]
impl Vim for Other<'_> {
    fn name(&self) -> &str {
        self.0.name()
    }
    fn connection_id(&self) -> &str {
        self.0.connection_id()
    }
    async fn connection(&self) -> Result<VimLogin, PortError> {
        let mut login = self.0.connection().await?;
        if self.1 == Flaw::CachesLogin {
            let password = json!("the right password");
            login.info.access_info.insert("password".into(), password);
        }
        Ok(login)
    }
    async fn acquire_slot(&self, doing: &str, watcher: Option<&dyn Watcher>) -> VimSlot {
        if self.1 == Flaw::IgnoresSlots {
            VimSlot::default()
        } else {
            self.0.acquire_slot(doing, watcher).await
        }
    }
}

#[async_trait]
impl InfraDriver for Broken {
    fn vim_types(&self) -> &'static [&'static str] {
        self.0.vim_types()
    }
    fn validate(&self, connection: &VimConnectionInfo) -> Result<(), PortError> {
        self.0.validate(connection)
    }
    fn validate_request(&self, what: &Allocation) -> Result<(), PortError> {
        self.0.validate_request(what)
    }
    fn permit(&self, what: &Allocation, policy: &vnfm_types::VimPolicy) -> Result<(), PortError> {
        self.0.permit(what, policy)
    }
    async fn check(&self, vim: &dyn Vim) -> Result<VimReport, PortError> {
        self.0.check(&Other(vim, self.1)).await
    }
    async fn preview(
        &self,
        cx: &VimCall<'_>,
        change: &Convergence<'_>,
    ) -> Result<Value, PortError> {
        if self.has(Flaw::CreatesInPreview) {
            self.0.converge(cx, change, &Value::Null).await?;
        }
        let vim = Other(cx.vim, self.1);
        self.0.preview(&VimCall { vim: &vim, ..*cx }, change).await
    }
    async fn plan(
        &self,
        cx: &VimCall<'_>,
        change: &ResourceChange<'_>,
    ) -> Result<ResourcePlan, PortError> {
        if let (true, ResourceChange::Converge(change)) = (self.has(Flaw::CreatesInPlan), change) {
            self.0.converge(cx, change, &Value::Null).await?;
        }
        let vim = Other(cx.vim, self.1);
        self.0.plan(&VimCall { vim: &vim, ..*cx }, change).await
    }
    async fn converge(
        &self,
        cx: &VimCall<'_>,
        change: &Convergence<'_>,
        preview: &Value,
    ) -> Result<Recorded, PortError> {
        let vim = Other(cx.vim, self.1);
        let cx = VimCall { vim: &vim, ..*cx };
        let mut change = change.clone();
        if self.has(Flaw::RecreatesAll) {
            let how = Release::default();
            self.0.release(&cx, change.target, &how).await?;
        }
        if self.has(Flaw::LogsSecrets) {
            cx.watcher.log(
                "info",
                "it",
                &format!("{:?}", vim.connection().await?.info.access_info),
            );
        }
        if self.has(Flaw::HealsAll)
            && let Some(current) = change.current
        {
            let all = current.inventory.vnfc_resource_info.iter();
            change.replace.vnfcs = all.map(|vnfc| vnfc.id.clone()).collect();
        }
        if self.has(Flaw::NeverResizes) && change.current.is_some() {
            return self.0.observe(&cx, change.target, &Value::Null).await;
        }
        if self.has(Flaw::Starts) && change.current.is_some() {
            let mut target = change.target.clone();
            let deployment = Arc::make_mut(&mut target.deployment);
            deployment.vnf_state = VnfOperationalState::Started;
            change.target = &target;
            let recorded = self.0.converge(&cx, &change, preview).await?;
            let change = PowerChange {
                current: &recorded,
                target: &target,
                stop: Stop::Forceful,
            };
            return self.0.operate(&cx, &change).await;
        }
        self.0.converge(&cx, &change, preview).await
    }
    fn power(&self) -> Option<&dyn Power> {
        Some(self)
    }
    fn snapshots(&self) -> Option<&dyn Snapshots> {
        Some(self)
    }
    fn links(&self) -> Option<&dyn Links> {
        Some(self)
    }
    fn volumes(&self) -> Option<&dyn Volumes> {
        Some(self)
    }
    async fn release(
        &self,
        cx: &VimCall<'_>,
        what: &Allocation,
        how: &Release,
    ) -> Result<(), PortError> {
        let vim = Other(cx.vim, self.1);
        let cx = VimCall { vim: &vim, ..*cx };
        let there = self.0.observe(&cx, what, &Value::Null).await?;
        if self.has(Flaw::FailsEmptyRelease) && there.inventory.vnfc_resource_info.is_empty() {
            return Err(PortError::new(
                vnfm_memory::CODES[0],
                "release",
                "there is nothing",
            ));
        }
        self.0.release(&cx, what, how).await
    }
    async fn observe(
        &self,
        cx: &VimCall<'_>,
        what: &Allocation,
        handle: &Value,
    ) -> Result<Recorded, PortError> {
        let vim = Other(cx.vim, self.1);
        self.0
            .observe(&VimCall { vim: &vim, ..*cx }, what, handle)
            .await
    }
    async fn owned(&self, vim: &dyn Vim, id: &str) -> Result<Vec<OwnedResource>, PortError> {
        self.0.owned(&Other(vim, self.1), id).await
    }
}

#[async_trait]
impl Power for Broken {
    fn is_per_vnfc(&self) -> bool {
        self.0.is_per_vnfc()
    }
    async fn operate(
        &self,
        cx: &VimCall<'_>,
        change: &PowerChange<'_>,
    ) -> Result<Recorded, PortError> {
        let vim = Other(cx.vim, self.1);
        let cx = VimCall { vim: &vim, ..*cx };
        let mut target = change.target.clone();
        let deployment = Arc::make_mut(&mut target.deployment);
        if self.has(Flaw::NeverStops) {
            deployment.vnf_state = VnfOperationalState::Started;
        }
        if self.has(Flaw::StopsAll) && deployment.stops_any() {
            deployment.vnf_state = VnfOperationalState::Stopped;
        }
        let change = PowerChange {
            target: &target,
            ..*change
        };
        self.0.operate(&cx, &change).await
    }
}

#[async_trait]
impl Links for Broken {
    fn validate_link(&self, link: &LinkSpec) -> Result<(), PortError> {
        self.0.validate_link(link)
    }
    async fn create_link(&self, cx: &VimCall<'_>, link: &SharedLink) -> Result<String, PortError> {
        self.0.create_link(cx, link).await
    }
    async fn delete_link(&self, cx: &VimCall<'_>, link: &SharedLink) -> Result<(), PortError> {
        if self.has(Flaw::KeepsLinks) {
            return Ok(());
        }
        if self.has(Flaw::DeletesAllLinks) {
            for network in self.0.networks() {
                let id = network.trim_start_matches("network-").to_owned();
                let other = SharedLink { id, ..link.clone() };
                self.0.delete_link(cx, &other).await?;
            }
        }
        self.0.delete_link(cx, link).await
    }
}

#[async_trait]
impl Volumes for Broken {
    async fn find_volumes(
        &self,
        cx: &VimCall<'_>,
        storages: &[VirtualStorageResourceInfo],
    ) -> Result<Vec<FoundVolume>, PortError> {
        self.0.find_volumes(cx, storages).await
    }
    async fn retain_volumes(
        &self,
        cx: &VimCall<'_>,
        volumes: &[RetainedVolume],
    ) -> Result<(), PortError> {
        self.0.retain_volumes(cx, volumes).await
    }
    async fn unretain_volumes(
        &self,
        cx: &VimCall<'_>,
        volumes: &[RetainedVolume],
    ) -> Result<(), PortError> {
        self.0.unretain_volumes(cx, volumes).await
    }
    async fn create_volume(
        &self,
        cx: &VimCall<'_>,
        volume: &RetainedVolume,
    ) -> Result<FoundVolume, PortError> {
        let mut volume = volume.clone();
        if self.has(Flaw::CreatesVolumes) {
            volume.resource_id = Some("none".into());
        }
        self.0.create_volume(cx, &volume).await
    }
    async fn delete_volume(
        &self,
        cx: &VimCall<'_>,
        volume: &RetainedVolume,
    ) -> Result<(), PortError> {
        if self.has(Flaw::DeletesById) && volume.resource_id.is_none() {
            return Ok(());
        }
        self.0.delete_volume(cx, volume).await
    }
}

#[async_trait]
impl Snapshots for Broken {
    async fn check_source(
        &self,
        cx: &VimCall<'_>,
        source: &SnapshotSource<'_>,
    ) -> Result<(), PortError> {
        self.0.check_source(cx, source).await
    }
    async fn create(
        &self,
        cx: &VimCall<'_>,
        source: &SnapshotSource<'_>,
    ) -> Result<StoredSnapshot, PortError> {
        let stored = self.0.create(cx, source).await?;
        if self.has(Flaw::StoresNothing) {
            self.0.delete(cx, source.id, &Value::Null).await?;
        }
        Ok(stored)
    }
    async fn revert(
        &self,
        cx: &VimCall<'_>,
        reversion: &Reversion<'_>,
    ) -> Result<Recorded, PortError> {
        if self.has(Flaw::NeverReturns) {
            return Ok(reversion.current.clone());
        }
        self.0.revert(cx, reversion).await
    }
    async fn delete(&self, cx: &VimCall<'_>, id: &str, handle: &Value) -> Result<(), PortError> {
        if self.has(Flaw::KeepsSnapshots) {
            return Ok(());
        }
        self.0.delete(cx, id, handle).await
    }
    async fn plan_create(
        &self,
        cx: &VimCall<'_>,
        source: &SnapshotSource<'_>,
    ) -> Result<ResourcePlan, PortError> {
        self.0.plan_create(cx, source).await
    }
    async fn plan_revert(
        &self,
        cx: &VimCall<'_>,
        reversion: &Reversion<'_>,
    ) -> Result<ResourcePlan, PortError> {
        self.0.plan_revert(cx, reversion).await
    }
}

/// Flaws of drivers, and a rule that each breaks.
const BROKEN_RULES: &[(Flaw, &str)] = &[
    (
        Flaw::RecreatesAll,
        "a_repeated_creation_creates_nothing_more",
    ),
    (Flaw::FailsEmptyRelease, "a_release_of_nothing_succeeds"),
    (Flaw::CreatesInPreview, "a_preview_changes_nothing"),
    (
        Flaw::CachesLogin,
        "a_changed_login_applies_to_the_next_call",
    ),
    (Flaw::IgnoresSlots, "each_call_holds_a_slot"),
    (Flaw::HealsAll, "only_the_named_vnfcs_are_replaced"),
    (Flaw::HealsAll, "a_change_of_size_keeps_the_other_vnfcs"),
    (Flaw::NeverResizes, "a_change_of_size_keeps_the_other_vnfcs"),
    (Flaw::CreatesInPlan, "a_plan_changes_nothing"),
    (Flaw::IgnoresSlots, "a_plan_changes_nothing"),
    (Flaw::HealsAll, "a_plan_of_what_exists_keeps_everything"),
    (Flaw::HealsAll, "what_a_plan_says_happens"),
    (
        Flaw::NeverResizes,
        "what_a_plan_says_of_another_size_happens",
    ),
    (
        Flaw::NeverResizes,
        "a_change_of_links_connects_vnfcs_to_others_and_back",
    ),
    (Flaw::LogsSecrets, "no_secret_is_revealed"),
    (Flaw::NeverStops, "a_stopped_instance_is_started_again"),
    (Flaw::StopsAll, "a_single_vnfc_is_stopped"),
    (Flaw::Starts, "a_change_leaves_a_stopped_instance_stopped"),
    (Flaw::StoresNothing, "an_instance_returns_to_a_stored_state"),
    (
        Flaw::StoresNothing,
        "what_a_plan_says_of_a_snapshot_happens",
    ),
    (Flaw::NeverReturns, "an_instance_returns_to_a_stored_state"),
    (Flaw::KeepsSnapshots, "a_snapshot_outlives_its_instance"),
    (Flaw::KeepsLinks, "a_link_is_created_once_and_deleted"),
    (
        Flaw::KeepsLinks,
        "an_interrupted_link_is_completed_or_deleted",
    ),
    (Flaw::DeletesAllLinks, "a_link_is_created_once_and_deleted"),
    (
        Flaw::CreatesVolumes,
        "an_empty_volume_is_created_once_and_deleted",
    ),
    (
        Flaw::DeletesById,
        "an_interrupted_empty_volume_is_completed_or_deleted",
    ),
];

#[tokio::test(flavor = "multi_thread")]
async fn contract_detects_broken_infra_drivers() {
    for &(flaw, rule) in BROKEN_RULES {
        let broken: Arc<dyn TestBed> = Arc::new(memory(|vim| Broken(vim, flaw)));
        let its: Vec<&Rule<_>> = RULES.iter().filter(|one| one.name == rule).collect();
        assert_eq!(its.len(), 1, "there is no rule `{rule}`");
        assert!(
            its[0].holds(broken).await.is_err(),
            "`{rule}` holds of a broken driver"
        );
    }
}
