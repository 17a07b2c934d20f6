//! Cost of every operation that changes an instance: each is run there and back, so that the instance stays as it is.
//!
//! ```text
//! servers  the package `two-flavours`, one server, on the simulated OpenStack
//! pods     the sample `vnf-b-cnf`, two pods, on the simulated Kubernetes
//! ```

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

/// An operation, and the requests that change an instance there and back.
struct Pair {
    /// The task in the path; `None`: the modification of the instance.
    task: Option<&'static str>,
    requests: [Value; 2],
}

impl Pair {
    fn new(task: &'static str, there: Value, back: Value) -> Self {
        Self {
            task: Some(task),
            requests: [there, back],
        }
    }

    fn name(&self) -> &'static str {
        self.task.unwrap_or("modify")
    }
}

fn of_any_vnf(aspect: &str, [vnfd, next]: [&str; 2]) -> Vec<Pair> {
    let scale = |way: &str| json!({"type": way, "aspectId": aspect, "numberOfSteps": 1});
    let level = |level: u32| json!({"scaleInfo": [{"aspectId": aspect, "scaleLevel": level}]});
    let site = |site: Value| json!({"metadata": {"site": site}});
    let package = |vnfd: &str| json!({"vnfdId": vnfd});
    let stop = json!({"changeStateTo": "STOPPED", "stopType": "FORCEFUL"});
    let modify = Pair {
        task: None,
        requests: [site("oslo".into()), site(Value::Null)],
    };
    vec![
        Pair::new("scale", scale("SCALE_OUT"), scale("SCALE_IN")),
        Pair::new("scale_to_level", level(1), level(0)),
        Pair::new("operate", stop, json!({"changeStateTo": "STARTED"})),
        Pair::new("heal", json!({}), json!({})),
        modify,
        Pair::new("change_vnfpkg", package(next), package(vnfd)),
    ]
}

/// The operations that only a VNF of servers has in these packages.
fn of_servers_only(network: &Value, other: &Value) -> Vec<Pair> {
    let flavour = |id: &str| json!({"newFlavourId": id});
    let links = |link: &Value| json!({"extVirtualLinks": [link]});
    vec![
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
        let (wall, cpu) = measured.with_context(|| name.clone())?;
        let cpu_name = format!("{name}: the server's CPU");
        figures.push(Figure::at_most(5.0, cpu_name, cpu, "ms"));
        figures.push(Figure::at_most(
            10.0,
            format!("{name}, wall, median"),
            wall,
            "ms",
        ));
    }
    let forceful = json!({"terminationType": "FORCEFUL"});
    took(world, &instance, Some("terminate"), &forceful).await?;
    Ok(figures)
}

/// The median duration of the operations of a pair, and the CPU of the server for each, in milliseconds.
async fn there_and_back(world: &World, instance: &str, pair: &Pair) -> Result<(f64, f64)> {
    let (mut all, mut before) = (Vec::new(), 0.0);
    for round in 0..WARM_UP + ROUNDS {
        if round == WARM_UP {
            all.clear();
            before = world.server.cpu_seconds()?;
        }
        for request in &pair.requests {
            all.push(took(world, instance, pair.task, request).await?);
        }
    }
    let cpu = (world.server.cpu_seconds()? - before) * 1000.0 / (2.0 * f64::from(ROUNDS));
    Ok((median(all)?, cpu))
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
        let mut measured: Vec<_> = pairs.map(|pair| pair.task).collect();
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
