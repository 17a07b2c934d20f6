//! The story `operations`: every task that a neighbour supports, there and back, and the refusal of the others.
//!
//! | instance | neighbour | tasks |
//! |---|---|---|
//! | `flavours` | OpenStack | `create_snapshot`, `revert_to_snapshot`, `change_flavour`, `change_ext_conn`, `heal`, `modify` |
//! | `levels` | OpenStack | `create_snapshot`, `revert_to_snapshot`, `scale`, `scale_to_level`, `operate` |
//! | `rolling` | OpenStack | `change_vnfpkg` |
//! | `cnf` | VNF-A's cluster | `change_flavour` |
//! | `vnf-b` | VNF-A's cluster | `create_snapshot`, `revert_to_snapshot` (it has no claims: size and record), `scale`, `scale_to_level`, `operate`, `heal`, `modify`, `change_vnfpkg` |
//! | `vnf-a` | OpenStack, and the cluster that it is | `scale` of the workers while `vnf-b` lives on them |
//!
//! A new task is a row in one of the tables; [`task`] makes all comparisons.

use anyhow::{Context, Result};

use super::cloud::Cloud;
use super::instances::{SAMPLE_B, Scenario, VIM, VNF_A, VNF_B};
use super::kubectl::Kubectl;
use super::neighbour::{Kind, Neighbours};
use super::record;
use super::snapshots;
use super::task::{self, Request, Subject, Task};
use super::world::{CLOUD, NETWORK};

/// A VNF that the story instantiates for its own tasks.
struct Vnf {
    name: &'static str,
    sample: &'static str,
    /// The package to which tasks change it.
    next: Option<&'static str>,
    kind: Kind,
    tasks: &'static [Task],
    refused: &'static [Task],
}

const SERVER_VNFS: &[Vnf] = &[
    Vnf {
        name: "flavours",
        sample: FLAVOURS,
        next: None,
        kind: Kind::Servers,
        tasks: FLAVOUR_TASKS,
        refused: FLAVOUR_REFUSED,
    },
    Vnf {
        name: "levels",
        sample: "vnf-levels",
        next: None,
        kind: Kind::Servers,
        tasks: LEVEL_TASKS,
        refused: LEVEL_REFUSED,
    },
    Vnf {
        name: "rolling",
        sample: "vnf-rolling-1",
        next: Some("vnf-rolling-2"),
        kind: Kind::Servers,
        tasks: ROLLING_TASKS,
        refused: &[],
    },
];
const CNF: Vnf = Vnf {
    name: "cnf",
    sample: CNF_FLAVOURS,
    next: None,
    kind: Kind::Pods,
    tasks: CNF_TASKS,
    refused: &[],
};
/// The names of all instances; those on the cluster come first.
pub(crate) const NAMES: &[&str] = &["cnf", VNF_B, VNF_A, "rolling", "levels", "flavours"];

const FLAVOURS: &str = "vnf-flavours";
const TO_SIMPLE: Request = Request::new(FLAVOURS, "change_flavour");
const TO_REDUNDANT: Request = Request::new(FLAVOURS, "change_flavour_back");
const TO_OTHER: Request = Request::new(FLAVOURS, "change_ext_conn").connecting_to("nfv-net");
const BACK_HOME: Request = Request::new(FLAVOURS, "change_ext_conn").connecting_to(NETWORK);
const CREATE_SNAPSHOT: Request = Request::new(FLAVOURS, snapshots::CREATE);
const REVERT: Request = Request::new(FLAVOURS, snapshots::REVERT);

const REDUNDANT: &str = "1.0 redundant, STARTED, 2 back, 2 front, external on provider";
const SIMPLE: &str = "1.0 simple, STARTED, 1 front, external on provider";
const FLAVOUR_TASKS: &[Task] = &[
    Task::new(snapshots::CREATE, "", REDUNDANT).with(CREATE_SNAPSHOT),
    Task::new("change_flavour", "", SIMPLE).with(TO_SIMPLE),
    Task::new(
        "modify",
        "--metadata site=oslo",
        "1.0 simple, STARTED, 1 front, external on provider, site \"oslo\"",
    ),
    Task::new(snapshots::REVERT, "", REDUNDANT).with(REVERT),
    Task::new("change_flavour", "", SIMPLE).with(TO_SIMPLE),
    Task::new("change_flavour", "", REDUNDANT).with(TO_REDUNDANT),
    Task::new(
        "change_ext_conn",
        "",
        "1.0 redundant, STARTED, 2 back, 2 front, external on nfv-net",
    )
    .with(TO_OTHER),
    Task::new("change_ext_conn", "", REDUNDANT).with(BACK_HOME),
    Task::new("heal", "--vnfc VNFC", REDUNDANT),
    Task::new(
        "modify",
        "--metadata site=oslo",
        "1.0 redundant, STARTED, 2 back, 2 front, external on provider, site \"oslo\"",
    ),
    Task::new("modify", "--metadata site=null", REDUNDANT),
];
const FLAVOUR_REFUSED: &[Task] = &[Task::new(
    "scale",
    "--aspect clients --out",
    "does not support the task `scale`",
)];

const TOWN: &str = "1.0 simple, STARTED, clients 1, load 1, 3 web, 4 worker, external on provider";
const TRIAL: &str = "1.0 simple, STARTED, clients 0, load 0, 1 web, 2 worker, external on provider";
const MORE_CLIENTS: &str =
    "1.0 simple, STARTED, clients 1, load 0, 3 web, 2 worker, external on provider";
const LEVEL_TASKS: &[Task] = &[
    Task::new("scale_to_level", "--level trial", TRIAL),
    Task::new(snapshots::CREATE, "", TRIAL).with(CREATE_SNAPSHOT),
    Task::new("scale", "--aspect clients --out", MORE_CLIENTS),
    Task::new(snapshots::REVERT, "", TRIAL).with(REVERT),
    Task::new("scale", "--aspect clients --out", MORE_CLIENTS),
    Task::new("scale", "--aspect clients --in", TRIAL),
    Task::new(
        "operate",
        "--stop",
        "1.0 simple, STOPPED, clients 0, load 0, 1 web, 2 worker, external on provider",
    ),
    Task::new("operate", "--start", TRIAL),
    Task::new("scale_to_level", "--level town", TOWN),
];
const LEVEL_REFUSED: &[Task] =
    &[Task::new("change_flavour", "", "its only flavour is `simple`").with(TO_SIMPLE)];

const ROLLING_TASKS: &[Task] = &[
    Task::new("change_vnfpkg", "", "2.0 simple, STARTED, 4 web")
        .with(Request::new("vnf-rolling-1", "change_vnfpkg")),
    Task::new("change_vnfpkg", "", "1.0 simple, STARTED, 4 web")
        .with(Request::new("vnf-rolling-2", "change_vnfpkg")),
];

/// The next release of VNF-B.
const NEXT_B: &str = "vnf-b-cnf-2";
const TWO_PODS: &str = "1.0 simple, STARTED, web 0, 2 web";
const POD_TASKS: &[Task] = &[
    Task::new(snapshots::CREATE, "", TWO_PODS).with(CREATE_SNAPSHOT),
    Task::new(
        "scale",
        "--aspect web --out",
        "1.0 simple, STARTED, web 1, 3 web",
    ),
    Task::new(snapshots::REVERT, "", TWO_PODS).with(REVERT),
    Task::new(
        "scale",
        "--aspect web --out --steps 2",
        "1.0 simple, STARTED, web 2, 4 web",
    ),
    Task::new("scale", "--aspect web --in --steps 2", TWO_PODS),
    Task::new(
        "scale_to_level",
        "--aspect web=1",
        "1.0 simple, STARTED, web 1, 3 web",
    ),
    Task::new("scale_to_level", "--aspect web=0", TWO_PODS),
    Task::new("operate", "--stop", "1.0 simple, STOPPED, web 0"),
    Task::new("operate", "--start", TWO_PODS),
    Task::new("heal", "--vnfc VNFC", TWO_PODS),
    Task::new(
        "modify",
        "--metadata site=oslo",
        "1.0 simple, STARTED, web 0, 2 web, site \"oslo\"",
    ),
    Task::new("modify", "--metadata site=null", TWO_PODS),
    Task::new("change_vnfpkg", "", "2.0 simple, STARTED, web 0, 2 web")
        .with(Request::new(SAMPLE_B, "change_vnfpkg")),
    Task::new("change_vnfpkg", "", TWO_PODS).with(Request::new(NEXT_B, "change_vnfpkg")),
];
const POD_REFUSED: &[Task] =
    &[Task::new("change_flavour", "", "its only flavour is `simple`").with(TO_SIMPLE)];

const CNF_FLAVOURS: &str = "cnf-flavours";
const TO_FULL: Request = Request::new(CNF_FLAVOURS, "change_flavour");
const TO_SMALL: Request = Request::new(CNF_FLAVOURS, "change_flavour_back");
const CNF_TASKS: &[Task] = &[
    Task::new("change_flavour", "", "1.0 full, STARTED, 1 cache, 2 web").with(TO_FULL),
    Task::new("change_flavour", "", "1.0 small, STARTED, 2 web").with(TO_SMALL),
];

const WORKER_TASKS: &[Task] = &[
    Task::new(
        "scale",
        "--aspect workers --out",
        "1.0 cluster_install, STARTED, workers 1, 1 masterNode, 3 workerNode, external on provider",
    ),
    Task::new(
        "scale",
        "--aspect workers --in",
        "1.0 cluster_install, STARTED, workers 0, 1 masterNode, 2 workerNode, external on provider",
    ),
];

/// Runs all steps, from the first package to the check that nothing is left.
///
/// # Errors
/// The error of the first failing step.
pub(crate) fn play(scenario: &mut Scenario<'_>) -> Result<()> {
    scenario.register_cloud()?;
    let mut neighbours = Neighbours {
        cloud: Some(Cloud::login(scenario.world.clouds(), CLOUD)?),
        cluster: None,
    };
    let mut packages = Vec::new();
    for vnf in SERVER_VNFS {
        packages.extend(play_vnf(scenario, &neighbours, vnf, VIM)?);
    }
    let package_a = scenario.onboard(scenario.shape.folder())?;
    let package_b = scenario.onboard(SAMPLE_B)?;
    packages.push(scenario.onboard(NEXT_B)?);
    let cluster = scenario.bring_up_a(&package_a)?;
    scenario.bring_up_b(&package_b, &cluster)?;
    let master = record::external_address(&task::instance(scenario.ctl, VNF_A)?, "masterNode");
    let master = master.context("the record of VNF-A has no address of its control plane")?;
    neighbours.cluster = Some(Kubectl::new(scenario.world, master, scenario.folder)?);
    packages.extend(play_vnf(scenario, &neighbours, &CNF, &cluster)?);
    play_cluster(scenario, &neighbours)?;
    scenario.refuse_to_terminate_a()?;
    scenario.bring_down(VNF_B, "terminate VNF-B")?;
    scenario.bring_down(VNF_A, "terminate VNF-A")?;
    packages.extend([package_a, package_b]);
    let packages: Vec<&str> = packages.iter().map(String::as_str).collect();
    snapshots::delete_all(scenario)?;
    scenario.clear(&packages, &cluster)?;
    scenario.check_that_nothing_is_left()
}

/// Plays a VNF from its package to its deletion; returns the ids of its packages.
fn play_vnf(
    scenario: &mut Scenario<'_>,
    neighbours: &Neighbours<'_>,
    vnf: &Vnf,
    vim: &str,
) -> Result<Vec<String>> {
    let subject = Subject {
        name: vnf.name,
        kind: vnf.kind,
    };
    let package = scenario.onboard(vnf.sample)?;
    let next = vnf.next.map(|next| scenario.onboard(next)).transpose()?;
    let label = format!("instantiate {}", vnf.name);
    scenario.bring_up(vnf.name, (vnf.sample, &package), vim, &label)?;
    for one in vnf.tasks {
        task::run(scenario, neighbours, (subject, &[]), one)?;
    }
    for one in vnf.refused {
        task::refuse(scenario, neighbours, subject, one)?;
    }
    scenario.bring_down(vnf.name, &format!("terminate {}", vnf.name))?;
    Ok(std::iter::once(package).chain(next).collect())
}

/// Plays VNF-B on VNF-A, then VNF-A below VNF-B.
fn play_cluster(scenario: &mut Scenario<'_>, neighbours: &Neighbours<'_>) -> Result<()> {
    let b = Subject {
        name: VNF_B,
        kind: Kind::Pods,
    };
    let a = Subject {
        name: VNF_A,
        kind: Kind::Nodes,
    };
    for one in POD_TASKS {
        task::run(scenario, neighbours, (b, &[]), one)?;
    }
    snapshots::delete_last(scenario)?;
    for one in POD_REFUSED {
        task::refuse(scenario, neighbours, b, one)?;
    }
    for one in WORKER_TASKS {
        task::run(scenario, neighbours, (a, &[b]), one)?;
    }
    Ok(())
}
