//! Where cases are played: a simulated world, our data folder, and VNFs of another installation in the same cloud and
//! cluster, which must stay untouched.

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::{Value, json};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use tempfile::TempDir;
use vnfm_core::VimChange;
use vnfm_core::ports::{Change, PackageRecord, StoreError};
use vnfm_core::query::Query;
use vnfm_store::PackageDir;
use vnfm_tests::package_image;
use vnfm_tests::sources::root;
use vnfm_types::{LcmOperationState, LcmOperationType, VimConnectionInfo};

use crate::check;
use crate::process::Process;
use crate::vnf::{
    Act, ELSEWHERE, FULL_ZONE, Facts, REUSED, TENANT, THERE, Target, Vnf, begin, complete_snapshot,
    free_volumes,
};
use crate::world::{Control, World};

/// The password of the cloud user, which must not leak.
pub(crate) const PLANTED: &str = "planted-vim-password-5b1e";

pub(crate) struct Site {
    world: World,
    folder: TempDir,
    facts: Facts,
    baseline: BTreeMap<(String, String), Value>,
    last_outbox_seq: Cell<u64>,
}

impl Site {
    /// Starts a world, and instantiates the VNFs of the other installation.
    pub(crate) fn build() -> Result<Self> {
        let folder = scratch()?;
        let world = World::start(folder.path())?;
        let password = json!({"action": "set-password", "user": "nfv", "password": PLANTED});
        world.control().act(&password)?;
        let full = json!({"action": "fill-zone", "zone": FULL_ZONE});
        world.control().act(&full)?;
        let facts = set_up(&world, &folder.path().join("ours"))?;
        let theirs = folder.path().join("theirs");
        let their_facts = set_up(&world, &theirs)?;
        let process = Process::start(&theirs, world.control())?;
        for vnf in Vnf::ALL {
            let target = create(&process, &their_facts, vnf)?;
            perform(
                &process,
                &their_facts,
                &target,
                LcmOperationType::Instantiate,
            )?;
        }
        drop(process);
        let baseline = resources(world.control())?;
        ensure!(
            baseline.len() > 8,
            "the other installation created too few resources"
        );
        Ok(Self {
            world,
            folder,
            facts,
            baseline,
            last_outbox_seq: Cell::new(0),
        })
    }

    /// Data folder of the engine under test.
    pub(crate) fn data(&self) -> PathBuf {
        self.folder.path().join("ours")
    }

    /// The control API of the simulated world.
    pub(crate) fn control(&self) -> &Control {
        self.world.control()
    }

    /// Values that requests are filled with.
    pub(crate) fn facts(&self) -> &Facts {
        &self.facts
    }

    /// Last outbox row that was read.
    pub(crate) fn last_outbox_seq(&self) -> &Cell<u64> {
        &self.last_outbox_seq
    }

    /// Starts a process on our data folder.
    pub(crate) fn start(&self) -> Result<Process> {
        Process::start(&self.data(), self.control())
    }

    /// Resources created since the site was built. Fails if any other was changed.
    pub(crate) fn new_resources(&self) -> Result<Vec<Value>> {
        let mut now = resources(self.control())?;
        for (key, was) in &self.baseline {
            match now.remove(key) {
                Some(is) if is == *was => {}
                Some(is) => bail!("I3: a foreign {} was changed from {was} to {is}", key.0),
                None => bail!("I3: a foreign {} was deleted: {was}", key.0),
            }
        }
        Ok(now.into_values().collect())
    }
}

/// A folder for the databases, in memory if possible.
fn scratch() -> Result<TempDir> {
    let memory = Path::new("/dev/shm");
    let mut folder = tempfile::Builder::new();
    folder.prefix("vnfm-faults.");
    let id = if memory.is_dir() {
        folder.tempdir_in(memory)
    } else {
        folder.tempdir()
    };
    id.context("cannot create a folder for the databases")
}

/// Everything created since the world was started.
fn resources(control: &Control) -> Result<BTreeMap<(String, String), Value>> {
    let entries = control.page("left-behind")?.into_iter().map(|entry| {
        let word = |name: &str| entry[name].as_str().unwrap_or_default().to_owned();
        let cluster = entry["detail"]["cluster"].as_str().unwrap_or_default();
        (
            (
                format!("{} {cluster}", word("kind")),
                format!("{} {}", word("id"), word("name")),
            ),
            entry,
        )
    });
    Ok(entries.collect())
}

/// An installation with all packages and both VIMs.
fn set_up(world: &World, folder: &Path) -> Result<Facts> {
    std::fs::create_dir_all(folder)?;
    let cloud: VimConnectionInfo = serde_json::from_value(json!({
        "vimType": "ETSINFV.OPENSTACK_KEYSTONE.V_3",
        "interfaceInfo": {"endpoint": world.endpoint("authUrl")},
        "accessInfo": {"username": "nfv", "password": PLANTED, "project": "nfv"},
        "extra": {"reselectZones": true}}))?;
    let kubeconfig = Path::new(world.endpoint("kubeconfig"));
    let cluster = package_image::cluster(kubeconfig, world.endpoint("registry"))?;
    // Create the database first: packages without a database mean that it was lost.
    let process = Process::start(folder, world.control())?;
    let releases = Vnf::ALL.map(|vnf| (vnf.package(), vnf.sample()));
    let releases: Vec<_> = releases.into_iter().chain(NEXT_RELEASES).collect();
    let stored = releases
        .iter()
        .map(|(package, sample)| store_package(folder, package, sample));
    let stored: Vec<String> = stored.collect::<Result<_>>()?;
    let engine = process.engine()?;
    let (cloud, cluster) = process.finish(async {
        for ((package, _), vnfd) in releases.iter().zip(&stored) {
            let record = PackageRecord::onboarded(TENANT, package, vnfd);
            engine
                .store()
                .write(None, vec![Change::AddPackage(Box::new(record))])
                .await?;
        }
        let register = async |name: &str, connection| {
            let name = Some(name.to_owned());
            engine
                .register_vim(
                    TENANT,
                    VimChange {
                        id: None,
                        name,
                        connection,
                        ..VimChange::default()
                    },
                )
                .await
        };
        Ok((
            register("cloud", cloud).await?.id,
            register("standalone", cluster).await?.id,
        ))
    })?;
    let [a, b, vnfd_c, d, vnfd_e, vnfd_f, next_b, next_d] = <[String; 8]>::try_from(stored)
        .map_err(|stored| anyhow::anyhow!("{} packages are stored, not eight", stored.len()))?;
    Ok(Facts {
        cloud,
        cluster,
        ssh_port: world.ssh_port(),
        vnfds: [a, b],
        next_b,
        vnfd_c,
        vnfds_d: [d, next_d],
        vnfd_e,
        vnfd_f,
    })
}

/// The next releases of VNF-B and VNF-D: the id of the package, and the sample.
const NEXT_RELEASES: [(&str, &str); 2] = [("vnf-b-2", "vnf-b-cnf-2"), ("vnf-d-2", "vnf-rolling-2")];

/// Stores a sample as the package `id`; its `vnfdId`.
fn store_package(folder: &Path, id: &str, sample: &str) -> Result<String> {
    let limits = vnfm_descriptor::Limits::default();
    let packages = PackageDir::open(&folder.join("packages"), limits)?;
    let mut path = root().join("vnfd-samples").join(sample);
    let own = tempfile::tempdir()?;
    if id == Vnf::F.package() {
        own.path().clone_into(&mut path);
        let installation = folder.file_name().unwrap_or_default().to_string_lossy();
        for (name, bytes) in package_image::files(&installation)? {
            let file = path.join(name);
            std::fs::create_dir_all(file.parent().unwrap_or(&path))?;
            std::fs::write(file, bytes)?;
        }
    }
    let upload = packages.incoming();
    std::fs::write(&upload, vnfm_descriptor::pack(&path, &limits)?)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let stored = runtime.block_on(packages.store(id, upload));
    let package = stored.map_err(|why| anyhow::anyhow!("{sample}: {why:?}"))?;
    Ok(package.vnfd().descriptor_id.clone())
}

/// Creates an instance, for the usual VIM of its package.
pub(crate) fn create(process: &Process, facts: &Facts, vnf: Vnf) -> Result<Target> {
    let engine = process.engine()?;
    let id = process
        .finish(async { Ok(engine.create(TENANT, vnf.create(facts)).await?.vnf.id) })
        .context("cannot create an instance")?;
    Ok(Target {
        vnf,
        instance: id,
        vim: vnf.vim(facts).to_owned(),
        guest: None,
    })
}

/// Ensures that a VNF-B runs on the instance, or none.
pub(crate) fn host(process: &Process, facts: &Facts, on: &mut Target, wanted: bool) -> Result<()> {
    if let Some(guest) = on.guest.take() {
        let is_there = is_instantiated(process, &guest)?;
        if is_there && wanted {
            on.guest = Some(guest);
        } else {
            if is_there {
                perform(process, facts, &guest, LcmOperationType::Terminate)?;
            }
            delete(process, &guest)?;
        }
    }
    if wanted && on.guest.is_none() {
        let engine = process.engine()?;
        let vims = process.finish(async { Ok(engine.vims(TENANT).await?) })?;
        let registered = vims
            .into_iter()
            .find(|vim| vim.registered_by.as_ref() == Some(&on.instance));
        let vim = registered.context("the instance has no cluster")?.id;
        let guest = Target {
            vim,
            ..create(process, facts, Vnf::B)?
        };
        perform(process, facts, &guest, LcmOperationType::Instantiate)?;
        on.guest = Some(Box::new(guest));
    }
    Ok(())
}

/// Brings the instance to the state from which the sample's request for an act leads: `scale.json` adds VNFCs to the
/// smallest size, `scale_to_level.json` returns to it, a way back needs a way there, and a return a snapshot. VNF-E begins with
/// a retained volume, and is granted a zone without room.
pub(crate) fn prepare(process: &Process, facts: &Facts, target: &Target, next: Act) -> Result<()> {
    let zone = (target.vnf == Vnf::E).then_some(FULL_ZONE);
    grant_zone(process, zone)?;
    match next.kind {
        LcmOperationType::Instantiate if target.vnf == Vnf::E => {
            let engine = process.engine()?;
            let known = free_volumes(&engine);
            if process.finish(async { Ok(known.await?) })?.is_empty() {
                perform(process, facts, target, LcmOperationType::Instantiate)?;
                perform(process, facts, target, LcmOperationType::Terminate)?;
                delete_volumes(process)?;
            }
            Ok(())
        }
        LcmOperationType::Scale | LcmOperationType::ScaleToLevel => {
            resize(process, facts, target, next.kind)
        }
        LcmOperationType::ChangeFlavour | LcmOperationType::ChangeExtConn => {
            if is_there(process, target, next.kind)? == next.back {
                return Ok(());
            }
            let before = Act {
                back: !next.back,
                ..next
            };
            perform_act(process, facts, target, before)
        }
        LcmOperationType::RevertToSnapshot => {
            let engine = process.engine()?;
            let known = complete_snapshot(&engine, &target.instance);
            if process.finish(async { Ok(known.await?) })?.is_some() {
                return Ok(());
            }
            perform(process, facts, target, LcmOperationType::CreateSnapshot)
        }
        _ => Ok(()),
    }
}

/// Whether a change of flavour or links has led there, and not yet back.
fn is_there(process: &Process, target: &Target, kind: LcmOperationType) -> Result<bool> {
    let engine = process.engine()?;
    process.finish(async {
        let instance = engine.store().instance(TENANT, &target.instance).await?;
        let deployment = instance.deployment.unwrap_or_default();
        if kind == LcmOperationType::ChangeFlavour {
            return Ok(&*deployment.flavour_id == THERE);
        }
        let mut links = deployment.ext_virtual_links.iter();
        Ok(links.any(|link| link.resource_id == ELSEWHERE))
    })
}

/// Deletes all snapshots: afterwards nothing of them exists.
pub(crate) fn delete_snapshots(process: &Process) -> Result<()> {
    let engine = process.engine()?;
    process.finish(async {
        for record in engine.store().snapshots(TENANT, &Query::default()).await? {
            let id = &record.info.id;
            engine.delete_snapshot_info(TENANT, id, &|_| true).await?;
        }
        Ok(())
    })
}

/// Has the NFVO place new servers in this zone.
pub(crate) fn grant_zone(process: &Process, zone: Option<&str>) -> Result<()> {
    let policy = json!({"action": "set-nfvo", "policy": {"zone": zone}});
    process.control().act(&policy)
}

/// Deletes the retained volumes but the one that the next VNF-E uses.
pub(crate) fn delete_volumes(process: &Process) -> Result<()> {
    let engine = process.engine()?;
    process.finish(async {
        let mut is_kept = false;
        for volume in free_volumes(&engine).await? {
            if volume.virtual_storage_desc_id == REUSED && !is_kept {
                is_kept = true;
            } else {
                engine.delete_volume(TENANT, &volume.id).await?;
            }
        }
        Ok(())
    })
}

fn resize(process: &Process, facts: &Facts, target: &Target, next: LcmOperationType) -> Result<()> {
    let engine = process.engine()?;
    let is_larger = process.finish(async {
        let instance = engine.store().instance(TENANT, &target.instance).await?;
        let info = instance.vnf.instantiated_vnf_info.unwrap_or_default();
        Ok(info
            .scale_status
            .iter()
            .any(|aspect| aspect.scale_level > 0))
    })?;
    match next {
        LcmOperationType::Scale if is_larger => {
            perform(process, facts, target, LcmOperationType::ScaleToLevel)
        }
        LcmOperationType::ScaleToLevel if !is_larger => {
            perform(process, facts, target, LcmOperationType::Scale)
        }
        _ => Ok(()),
    }
}

/// Whether the instance is INSTANTIATED, by its record.
pub(crate) fn is_instantiated(process: &Process, target: &Target) -> Result<bool> {
    let engine = process.engine()?;
    process.finish(async {
        let instance = engine.store().instance(TENANT, &target.instance).await?;
        Ok(check::is_instantiated(&instance))
    })
}

/// Runs an operation without faults.
pub(crate) fn perform(
    process: &Process,
    facts: &Facts,
    target: &Target,
    kind: LcmOperationType,
) -> Result<()> {
    perform_act(process, facts, target, Act::complete_vnf(kind))
}

fn perform_act(process: &Process, facts: &Facts, target: &Target, act: Act) -> Result<()> {
    let engine = process.engine()?;
    process.finish(async {
        let op = begin(&engine, facts, target, act).await?;
        engine.drive(&op).await?;
        let record = engine.store().op(TENANT, &op).await?.op;
        let state = record.operation_state;
        ensure!(
            state == LcmOperationState::Completed,
            "{act} is {state}: {:?}",
            record.error
        );
        Ok(())
    })
}

/// Deletes an instance that is not instantiated.
pub(crate) fn delete(process: &Process, target: &Target) -> Result<()> {
    let engine = process.engine()?;
    process.finish(async {
        engine.delete(TENANT, &target.instance).await?;
        match engine.store().instance(TENANT, &target.instance).await {
            Err(StoreError::NotFound { .. }) => Ok(()),
            found => bail!("a deleted instance still exists: {found:?}"),
        }
    })
}
