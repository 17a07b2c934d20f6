//! Cost of every operation that changes an instance: each is run there and back, so that the instance stays as it is.
//!
//! ```text
//! servers  the package `two-flavours`, one server, on the simulated OpenStack
//! pods     the sample `vnf-b-cnf`, two pods, on the simulated Kubernetes
//! ```

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context as _, Result};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::figure::{Figure, median};
use crate::world::World;

/// Number of pairs; the first ones warm up.
const ROUNDS: u16 = 30;
const WARM_UP: u16 = 3;
const SERVERS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/two-flavours");
const SERVERS_VNFD: &str = "0d3f3d5e-52a5-4f0b-9a0e-6d5c1d3b7f11";
/// The next release of that package: its flavour `small` has servers of the size of `large`.
const NEXT_SERVERS_VNFD: &str = "0d3f3d5e-52a5-4f0b-9a0e-6d5c1d3b7f12";
const SERVERS_CHANGES: [(&str, &str); 2] =
    [(SERVERS_VNFD, NEXT_SERVERS_VNFD), ("128 MiB", "512 MiB")];
const PODS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../vnfd-samples/vnf-b-cnf");
const PODS_VNFD: &str = "8d1c9f0e-5a53-4e5d-9d2c-6c1f0a7b0b01";
const NEXT_PODS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../vnfd-samples/vnf-b-cnf-2");
const NEXT_PODS_VNFD: &str = "8d1c9f0e-5a53-4e5d-9d2c-6c1f0a7b0b02";

/// The task in a path, `None` for the modification of an instance; and the request.
type Call = (Option<&'static str>, Value);

/// The calls that change an instance there and back.
struct Pair {
    calls: [Call; 2],
    /// Whether each round has a new VNF snapshot, whose id goes into the requests.
    with_snapshot: bool,
}

impl Pair {
    fn new(task: &'static str, there: Value, back: Value) -> Self {
        Self {
            calls: [(Some(task), there), (Some(task), back)],
            with_snapshot: false,
        }
    }

    fn modifying(there: Value, back: Value) -> Self {
        Self {
            calls: [(None, there), (None, back)],
            with_snapshot: false,
        }
    }

    /// A state is stored, and returned to.
    fn of_snapshots() -> Self {
        let tasks = ["create_snapshot", "revert_to_snapshot"];
        Self {
            calls: tasks.map(|task| (Some(task), json!({}))),
            with_snapshot: true,
        }
    }

    fn name(&self) -> String {
        let [there, back] = [0, 1].map(|at| name(self.calls[at].0));
        if there == back {
            there.to_owned()
        } else {
            format!("{there} and {back}")
        }
    }

    /// The calls of a round; `snapshot` is the id of its snapshot.
    fn calls(&self, snapshot: Option<&Value>) -> [Call; 2] {
        let mut calls = self.calls.clone();
        for (_, request) in &mut calls {
            if let Some(id) = snapshot {
                request["vnfSnapshotInfoId"] = id.clone();
            }
        }
        calls
    }
}

fn name(task: Option<&'static str>) -> &'static str {
    task.unwrap_or("modify")
}

fn of_any_vnf(aspect: &str, [vnfd, next]: [&str; 2]) -> Vec<Pair> {
    let scale = |way: &str| json!({"type": way, "aspectId": aspect, "numberOfSteps": 1});
    let level = |level: u32| json!({"scaleInfo": [{"aspectId": aspect, "scaleLevel": level}]});
    let site = |site: Value| json!({"metadata": {"site": site}});
    let package = |vnfd: &str| json!({"vnfdId": vnfd});
    let stop = json!({"changeStateTo": "STOPPED", "stopType": "FORCEFUL"});
    vec![
        Pair::new("scale", scale("SCALE_OUT"), scale("SCALE_IN")),
        Pair::new("scale_to_level", level(1), level(0)),
        Pair::new("operate", stop, json!({"changeStateTo": "STARTED"})),
        Pair::new("heal", json!({}), json!({})),
        Pair::modifying(site("oslo".into()), site(Value::Null)),
        Pair::new("change_vnfpkg", package(next), package(vnfd)),
    ]
}

/// The operations that only a VNF of servers has in these packages.
fn of_servers_only(network: &Value, other: &Value) -> Vec<Pair> {
    let flavour = |id: &str| json!({"newFlavourId": id});
    let links = |link: &Value| json!({"extVirtualLinks": [link]});
    vec![
        Pair::of_snapshots(),
        Pair::new("change_flavour", flavour("large"), flavour("small")),
        Pair::new("change_ext_conn", links(other), links(network)),
    ]
}

/// The figures of one server.
///
/// # Errors
/// If an operation does not complete.
pub async fn of_servers(world: &World) -> Result<Vec<Figure>> {
    world.ctl(&["package", "onboard", SERVERS])?;
    let next = next_servers()?;
    world.ctl(&["package", "onboard", &next.path().to_string_lossy()])?;
    let request = world.instantiation("small");
    let links = [&world.network, &world.other_network].map(|network| world.link(network));
    let only = of_servers_only(&links[0], &links[1]);
    let any = of_any_vnf("servers", [SERVERS_VNFD, NEXT_SERVERS_VNFD]);
    let pairs = any.into_iter().chain(only).collect();
    measured(world, (SERVERS_VNFD, &request), pairs, "a server").await
}

/// The figures of two pods.
///
/// # Errors
/// If an operation does not complete.
pub async fn of_pods(programs: &Path) -> Result<Vec<Figure>> {
    let world = World::start(programs, &["--cluster"]).await?;
    world.ctl(&["package", "onboard", PODS])?;
    world.ctl(&["package", "onboard", NEXT_PODS])?;
    let vim = world.register_cluster()?;
    let request = json!({"flavourId": "simple", "vimConnectionInfo": {"vim1": {"vimId": vim}}});
    let pairs = of_any_vnf("web", [PODS_VNFD, NEXT_PODS_VNFD]);
    measured(&world, (PODS_VNFD, &request), pairs, "two pods").await
}

/// The next release of the package of servers, in a temporary folder.
fn next_servers() -> Result<TempDir> {
    let folder = tempfile::tempdir().context("cannot create a temporary folder")?;
    for name in [".", "TOSCA-Metadata"] {
        let (from, to) = (Path::new(SERVERS).join(name), folder.path().join(name));
        std::fs::create_dir_all(&to)?;
        for file in std::fs::read_dir(from)? {
            let file = file?;
            if file.file_type()?.is_file() {
                let text = std::fs::read_to_string(file.path())?;
                let changes = SERVERS_CHANGES.iter();
                let text = changes.fold(text, |text, (old, new)| text.replace(old, new));
                std::fs::write(to.join(file.file_name()), text)?;
            }
        }
    }
    Ok(folder)
}

/// Runs the pairs on a new instance, which is terminated at the end.
async fn measured(
    world: &World,
    (vnfd, request): (&str, &Value),
    pairs: Vec<Pair>,
    what: &str,
) -> Result<Vec<Figure>> {
    let instance = world.create_of(vnfd).await?;
    took(world, &instance, Some("instantiate"), request).await?;
    let mut figures = Vec::new();
    for pair in pairs {
        let measured = there_and_back(world, &instance, &pair).await;
        let name = format!("{} of {what}", pair.name());
        let (walls, cpu) = measured.with_context(|| name.clone())?;
        let cpu_name = format!("{name}: the server's CPU");
        figures.push(Figure::at_most(5.0, cpu_name, cpu, "ms"));
        for (task, wall) in walls {
            let name = format!("{task} of {what}, wall, median");
            figures.push(Figure::at_most(10.0, name, median(wall)?, "ms"));
        }
    }
    let forceful = json!({"terminationType": "FORCEFUL"});
    took(world, &instance, Some("terminate"), &forceful).await?;
    Ok(figures)
}

/// The durations of the operations of a pair, by task.
type Walls = BTreeMap<&'static str, Vec<f64>>;

/// The durations, and the CPU of the server for each operation, in milliseconds.
async fn there_and_back(world: &World, instance: &str, pair: &Pair) -> Result<(Walls, f64)> {
    let (mut all, mut before) = (Walls::new(), 0.0);
    let snapshots = snapshots(world, pair)?;
    for round in 0..WARM_UP + ROUNDS {
        if round == WARM_UP {
            all.clear();
            before = world.server.cpu_seconds()?;
        }
        let snapshot = snapshots.get(usize::from(round));
        for (task, request) in pair.calls(snapshot) {
            let wall = took(world, instance, task, &request).await?;
            all.entry(name(task)).or_default().push(wall);
        }
    }
    let cpu = (world.server.cpu_seconds()? - before) * 1000.0 / (2.0 * f64::from(ROUNDS));
    for id in snapshots.iter().filter_map(Value::as_str) {
        world.ctl(&["snapshot", "delete", id])?;
    }
    Ok((all, cpu))
}

/// The ids of new snapshots, one for each round; none if the pair needs none.
fn snapshots(world: &World, pair: &Pair) -> Result<Vec<Value>> {
    let rounds = if pair.with_snapshot {
        WARM_UP + ROUNDS
    } else {
        0
    };
    let created = (0..rounds).map(|_| world.ctl(&["snapshot", "create"]));
    created.map(|created| Ok(created?["id"].clone())).collect()
}

/// Runs an operation to its end; its duration in milliseconds.
async fn took(world: &World, instance: &str, task: Option<&str>, request: &Value) -> Result<f64> {
    let op = world.begin_with(instance, task, request).await?;
    world.completed(&op).await?;
    world.took(&op).await
}

#[cfg(test)]
mod tests {
    use serde_json::Value;
    use vnfm_core::lcm::OPERATIONS;

    use super::{of_any_vnf, of_servers_only};

    #[test]
    fn every_operation_is_measured() {
        let pairs = of_any_vnf("any", ["a", "b"]).into_iter();
        let pairs = pairs.chain(of_servers_only(&Value::Null, &Value::Null));
        let calls = pairs.flat_map(|pair| pair.calls);
        let mut measured: Vec<_> = calls.map(|(task, _)| task).collect();
        measured.extend([Some("instantiate"), Some("terminate")]);
        for operation in OPERATIONS {
            let task = operation.task;
            assert!(
                measured.contains(&task),
                "{:?} is not measured",
                operation.kind
            );
        }
    }
}
