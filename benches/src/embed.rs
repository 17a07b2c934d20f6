//! The engine embedded in another program: no HTTP, no database, a store and a VIM in memory that respond at
//! once. Measures the cost of the engine itself, and of the allocator: with that of the system, and with
//! that of an embedder (`bin/vnfm-bench-embedder.rs`).
//!
//! Memory is the growth of this process (`VmRSS`) divided by the number of objects; run this group alone for best results.

use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context as _, Result};
use async_trait::async_trait;
use futures::future::{pending, try_join_all};
use jiff::SignedDuration;
use serde_json::{Value, json};
use vnfm::memory::{MEMORY_VIM, MemoryPackages, MemoryStore, MemoryVim};
use vnfm::ports::{
    Allocation, Clock as _, Convergence, InfraDriver, OwnedResource, PortError, Recorded, Release,
    Vim, VimCall, VimReport,
};
use vnfm::types::VimConnectionInfo;
use vnfm::{Drivers, Engine, EngineParts, SystemClock, VimChange};

use crate::figure::Figure;

const TENANT: &str = "default";
const PACKAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/one-server");
/// Number of idle instances, and of waiting operations.
const IDLE: usize = 10_000;
const IN_FLIGHT: usize = 2_000;
/// Parallel instances, rounds of each, and after how many rounds older history is deleted, as by
/// an embedder that keeps none.
const SIDE_BY_SIDE: usize = 64;
const ROUNDS: usize = 250;
const KEPT: usize = 5;
const HISTORY: SignedDuration = SignedDuration::from_millis(20);

/// The program with its own allocator; cargo builds it with this one.
const EMBEDDER: &str = "vnfm-bench-embedder";

/// Runs the benchmarks of the embedded engine.
///
/// # Errors
/// If an operation does not complete.
pub fn figures(_: &Path) -> Result<Vec<Figure>> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    let in_flight = runtime.block_on(in_flight())?;
    let idle = runtime.block_on(idle())?;
    drop(runtime);
    let name = "embedded: instantiate + terminate, store and VIM in memory";
    let plain = format!("{name}, the system's allocator");
    Ok(vec![
        Figure::untargeted("embedded: memory of an idle instance", idle, "KiB"),
        Figure::untargeted(
            "embedded: memory of an operation in flight",
            in_flight,
            "KiB",
        ),
        Figure::untargeted(plain, pairs_in_a_second()?, "pairs/s"),
        Figure::at_least(
            5_000.0,
            format!("{name}, mimalloc"),
            of_embedder()?,
            "pairs/s",
        ),
    ])
}

/// Result of the program with its own allocator.
fn of_embedder() -> Result<f64> {
    let program = std::env::current_exe()?.with_file_name(EMBEDDER);
    let action = || format!("cannot run `{}`", program.display());
    let output = Command::new(&program)
        .stderr(Stdio::inherit())
        .output()
        .with_context(action)?;
    let output_text = String::from_utf8_lossy(&output.stdout);
    output_text
        .trim()
        .parse()
        .with_context(|| format!("`{EMBEDDER}` says `{output_text}`"))
}

/// Pairs of instantiate and terminate per second, with the allocator of the calling program.
///
/// # Errors
/// If an operation does not complete.
pub fn pairs_in_a_second() -> Result<f64> {
    tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?
        .block_on(pairs())
}

/// An engine with a package and a VIM.
struct Embedded {
    engine: Engine,
    store: Arc<MemoryStore>,
    vnfd_id: String,
    vim: String,
}

impl Embedded {
    async fn new(driver: impl InfraDriver + 'static) -> Result<Self> {
        let clock = Arc::new(SystemClock);
        let store = Arc::new(MemoryStore::new(clock.clone()));
        let packages = Arc::new(MemoryPackages::default());
        let engine = Engine::new(EngineParts {
            drivers: Drivers::default().with(driver),
            ..EngineParts::new(store.clone(), packages.clone(), clock)
        });
        let limits = vnfm::descriptor::Limits::default();
        let package = vnfm::descriptor::Package::open(PACKAGE.as_ref(), &limits)
            .map_err(|findings| anyhow::anyhow!("{findings}"))?;
        let vnfd_id = package.vnfd().descriptor_id.clone();
        packages
            .onboard(&*store, (TENANT, "p"), Arc::new(package))
            .await?;
        let to = serde_json::from_value(json!({"vimType": MEMORY_VIM}))?;
        let vim = engine.register_vim(TENANT, VimChange::to(to)).await?.id;
        Ok(Self {
            engine,
            store,
            vnfd_id,
            vim,
        })
    }

    async fn create(&self) -> Result<String> {
        let request = serde_json::from_value(json!({"vnfdId": self.vnfd_id}))?;
        Ok(self.engine.create(TENANT, request).await?.vnf.id)
    }

    async fn instantiate(&self, id: &str) -> Result<String> {
        let request =
            json!({"flavourId": "simple", "vimConnectionInfo": {"vim1": {"vimId": self.vim}}});
        let request = serde_json::from_value(request)?;
        Ok(self.engine.instantiate(TENANT, id, request).await?)
    }

    async fn terminate(&self, id: &str) -> Result<String> {
        let request = serde_json::from_value(json!({"terminationType": "FORCEFUL"}))?;
        Ok(self.engine.terminate(TENANT, id, request).await?)
    }

    async fn driven(&self, op: &str) -> Result<()> {
        self.engine.drive(op).await?;
        let state = self.engine.store().op(TENANT, op).await?.op.operation_state;
        anyhow::ensure!(
            state.as_str() == "COMPLETED",
            "an operation ended in {}",
            state.as_str()
        );
        Ok(())
    }
}

/// KiB per idle instance, including its finished operation.
async fn idle() -> Result<f64> {
    let it = Embedded::new(MemoryVim::default()).await?;
    let before = resident()?;
    for _ in 0..IDLE {
        let id = it.create().await?;
        let op = it.instantiate(&id).await?;
        it.driven(&op).await?;
    }
    Ok((resident()? - before) / as_float(IDLE))
}

/// KiB per operation that waits for its VIM, including its instance.
async fn in_flight() -> Result<f64> {
    let it = Arc::new(Embedded::new(Waiting(MemoryVim::default())).await?);
    let before = resident()?;
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..IN_FLIGHT {
        let id = it.create().await?;
        let op = it.instantiate(&id).await?;
        let it = it.clone();
        tasks.spawn(async move { it.engine.drive(&op).await });
    }
    while it.engine.driven() < IN_FLIGHT {
        tokio::task::yield_now().await;
    }
    // Lets each operation reach its wait.
    for _ in 0..IN_FLIGHT {
        tokio::task::yield_now().await;
    }
    let each = (resident()? - before) / as_float(IN_FLIGHT);
    tasks.shutdown().await;
    Ok(each)
}

/// Number of pairs of operations per second.
async fn pairs() -> Result<f64> {
    let it = Arc::new(Embedded::new(MemoryVim::default()).await?);
    let began = Instant::now();
    let lives = (0..SIDE_BY_SIDE).map(|number| {
        let it = it.clone();
        tokio::spawn(async move {
            let id = it.create().await?;
            for round in 0..ROUNDS {
                let up = it.instantiate(&id).await?;
                it.driven(&up).await?;
                let down = it.terminate(&id).await?;
                it.driven(&down).await?;
                if number == 0 && round % KEPT == 0 {
                    it.store.delete_ended_before(SystemClock.now() - HISTORY);
                }
            }
            anyhow::Ok(())
        })
    });
    let ended: Result<Vec<()>> = try_join_all(lives).await?.into_iter().collect();
    ended?;
    Ok(as_float(SIDE_BY_SIDE * ROUNDS) / began.elapsed().as_secs_f64())
}

/// Resident memory of this process in KiB.
fn resident() -> Result<f64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|value| value.split_whitespace().next()?.parse::<u32>().ok());
    Ok(f64::from(
        kib.context("`/proc/self/status` contains no memory size")?,
    ))
}

#[expect(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
fn as_float(number: usize) -> f64 {
    number as f64
}

/// A VIM that creates no resources.
struct Waiting(MemoryVim);

#[async_trait]
impl InfraDriver for Waiting {
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
        self.0.check(vim).await
    }
    async fn preview(
        &self,
        cx: &VimCall<'_>,
        change: &Convergence<'_>,
    ) -> Result<Value, PortError> {
        self.0.preview(cx, change).await
    }
    async fn converge(
        &self,
        cx: &VimCall<'_>,
        change: &Convergence<'_>,
        preview: &Value,
    ) -> Result<Recorded, PortError> {
        if change.current.is_none() {
            return pending().await;
        }
        self.0.converge(cx, change, preview).await
    }
    async fn release(
        &self,
        cx: &VimCall<'_>,
        what: &Allocation,
        how: &Release,
    ) -> Result<(), PortError> {
        self.0.release(cx, what, how).await
    }
    async fn observe(
        &self,
        cx: &VimCall<'_>,
        what: &Allocation,
        handle: &Value,
    ) -> Result<Recorded, PortError> {
        self.0.observe(cx, what, handle).await
    }
    async fn owned(&self, vim: &dyn Vim, id: &str) -> Result<Vec<OwnedResource>, PortError> {
        self.0.owned(vim, id).await
    }
}
