//! Stores what a VNF has on its claims; `restore` returns to it.
//!
//! ```text
//! create   each claim of the VNF ─ its StorageClass's provisioner ─ VolumeSnapshotClass ─► VolumeSnapshot, readyToUse
//! revert   workloads without pods ─ claims deleted, and made again from their VolumeSnapshot ─ converge to the target
//! delete   the VolumeSnapshots, until none is left ─ the namespace, if it was only kept for them
//! ```
//! A `VolumeSnapshot` carries our labels, and that of the VNF snapshot: so an interrupted call finds it, and no operation on
//! the instance deletes it. It needs its namespace: a terminated instance leaves that behind ([`crate::kept_namespace`]).
//!
//! A VNF without claims has no other state than its record, and needs no cluster with volume snapshots.

use crate::apply::find;
use crate::catalog::{Catalog, Kind, SNAPSHOT_API, Target};
use crate::claims::{ClaimRecipe, claims_of, list, mounted};
use crate::client::Session;
use crate::driver::{KubernetesDriver, namespaces, planned_stages, unserializable};
use crate::errors::{
    CONFLICT, FINALIZER, FORBIDDEN, NO_SNAPSHOTS, NOT_STORABLE, SNAPSHOT_FAILED, STILL_THERE,
};
use crate::heal::delete;
use crate::kept_namespace::give_up;
use crate::labels::{self, INSTALLATION, SNAPSHOT};
use crate::owned::pods;
use crate::power::started;
use crate::ready::text;
use crate::restore;
use async_trait::async_trait;
use jiff::{SignedDuration, Timestamp};
use kube::api::{DynamicObject, PostParams};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use vnfm_core::ports::{
    Backoff, Convergence, Expired, InfraDriver as _, PlannedResource, PortError, Recorded,
    ResourceAction, ResourceChange, ResourcePlan, Reversion, SnapshotSource, Snapshots,
    StoredSnapshot, VimCall,
};
use vnfm_types::{ResourceHandle, StorageSnapshot, VnfcSnapshotInfo};

/// The interval between looks at what a controller does.
pub(crate) const INTERVAL: Duration = Duration::from_millis(500);
/// How long a `VolumeSnapshot` may report an error: its controller tries again.
const ERROR_PATIENCE: SignedDuration = SignedDuration::from_secs(30);
const DEFAULT_CLASS: &str = "snapshot.storage.kubernetes.io/is-default-class";
/// Longest name of a claim to which the id of the VNF snapshot can be appended.
const MAX_CLAIM_NAME: usize = 253 - 37;

/// The driver's own data of a VNF snapshot.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct StoredClaims {
    pub(crate) claims: Vec<StoredClaim>,
}

/// A claim, and the `VolumeSnapshot` of it in the same namespace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct StoredClaim {
    pub(crate) claim: ClaimRecipe,
    pub(crate) volume_snapshot: String,
}

impl StoredClaims {
    /// The data of a complete snapshot.
    ///
    /// # Errors
    ///
    /// `Broken` if it is not that of this driver.
    pub(crate) fn read(handle: &Value) -> Result<Self, PortError> {
        if handle.is_null() {
            return Ok(Self::default());
        }
        serde_json::from_value(handle.clone()).map_err(|error| unserializable(&error))
    }
}

/// A claim that can be stored.
struct Storable {
    uid: String,
    recipe: ClaimRecipe,
    /// Name of its `VolumeSnapshotClass`.
    class: String,
}

/// A snapshot that is being created.
struct Creation<'a> {
    cx: &'a VimCall<'a>,
    session: &'a Session<'a>,
    id: &'a str,
    kind: Kind,
    claims: Vec<Storable>,
}

#[async_trait]
impl Snapshots for KubernetesDriver {
    async fn check_source(
        &self,
        cx: &VimCall<'_>,
        source: &SnapshotSource<'_>,
    ) -> Result<(), PortError> {
        let session = self.session(cx)?;
        Creation::read(cx, &session, source).await.map(drop)
    }

    async fn create(
        &self,
        cx: &VimCall<'_>,
        source: &SnapshotSource<'_>,
    ) -> Result<StoredSnapshot, PortError> {
        let session = self.session(cx)?;
        let Some(creation) = Creation::read(cx, &session, source).await? else {
            let text = "the VNF has no claims: its snapshot has the record of the instance only";
            cx.watcher.log("info", "kubernetes", text);
            return stored(&StoredClaims::default(), Vec::new());
        };
        let claims = creation.complete().await?;
        let vnfcs = vnfcs(cx, &session, source, &claims).await?;
        stored(&StoredClaims { claims }, vnfcs)
    }

    async fn revert(
        &self,
        cx: &VimCall<'_>,
        reversion: &Reversion<'_>,
    ) -> Result<Recorded, PortError> {
        let session = self.session(cx)?;
        let StoredClaims { claims } = restore::stored_claims(cx, &session, reversion).await?;
        if !claims.is_empty() {
            restore::stop(cx, &session, reversion).await?;
            restore::restore(cx, &session, &claims).await?;
        }
        let change = Convergence::update(reversion.current, reversion.target);
        let change = change.coming_from(reversion.before);
        self.converge(cx, &change, &Value::Null).await
    }

    async fn delete(&self, cx: &VimCall<'_>, id: &str, handle: &Value) -> Result<(), PortError> {
        let session = self.session(cx)?;
        let catalog = Catalog::new(&session, std::iter::empty());
        if let Some(kind) = catalog.find(SNAPSHOT_API, "VolumeSnapshot").await? {
            delete_all(cx, &session, (&kind, id), handle).await?;
        }
        give_up(cx, &session, id).await
    }

    async fn plan_create(
        &self,
        cx: &VimCall<'_>,
        source: &SnapshotSource<'_>,
    ) -> Result<ResourcePlan, PortError> {
        let session = self.session(cx)?;
        let creation = Creation::read(cx, &session, source).await?;
        let unchanged = Convergence::update(source.current, source.what);
        let unchanged = ResourceChange::Converge(&unchanged);
        let mut planned = self.plan(cx, &unchanged).await?;
        for claim in creation.iter().flat_map(|creation| &creation.claims) {
            let name = format!("{}/{}", claim.recipe.namespace, name_of(claim, source.id));
            let row = PlannedResource::new("VolumeSnapshot", name, ResourceAction::Create);
            planned.resources.push(row);
        }
        Ok(planned)
    }

    async fn plan_revert(
        &self,
        cx: &VimCall<'_>,
        reversion: &Reversion<'_>,
    ) -> Result<ResourcePlan, PortError> {
        let session = self.session(cx)?;
        let StoredClaims { claims } = restore::stored_claims(cx, &session, reversion).await?;
        let change = Convergence::update(reversion.current, reversion.target);
        let change = change.coming_from(reversion.before);
        let mut planned = self.plan(cx, &ResourceChange::Converge(&change)).await?;
        if !claims.is_empty() {
            restore::mark_restored(&session, &mut planned, &claims).await?;
        }
        Ok(planned)
    }
}

fn stored(
    claims: &StoredClaims,
    vnfcs: Vec<VnfcSnapshotInfo>,
) -> Result<StoredSnapshot, PortError> {
    let handle = serde_json::to_value(claims).map_err(|error| unserializable(&error))?;
    Ok(StoredSnapshot { handle, vnfcs })
}

/// Each VNFC that mounts a stored claim, with what is stored of it.
async fn vnfcs(
    cx: &VimCall<'_>,
    session: &Session<'_>,
    source: &SnapshotSource<'_>,
    claims: &[StoredClaim],
) -> Result<Vec<VnfcSnapshotInfo>, PortError> {
    let places: BTreeSet<&str> = claims.iter().map(|one| &*one.claim.namespace).collect();
    let mut found = Vec::new();
    for namespace in places {
        for pod in pods(session, namespace, &labels::selector(cx.ownership)).await? {
            let mounted: BTreeSet<&str> = mounted(&pod.data).collect();
            let own = claims.iter().filter(|one| {
                one.claim.namespace == namespace && mounted.contains(&*one.claim.name)
            });
            let own: Vec<_> = own.map(|one| storage(cx, one)).collect();
            let vnfcs = &source.current.inventory.vnfc_resource_info;
            let name = pod.metadata.name.as_deref();
            let is_pod = |vnfc: &&vnfm_types::VnfcResourceInfo| {
                Some(&*vnfc.compute_resource.resource_id) == name
            };
            let Some(vnfc) = vnfcs.iter().find(is_pod).filter(|_| !own.is_empty()) else {
                continue;
            };
            found.push(VnfcSnapshotInfo {
                id: vnfc.id.clone(),
                vnfc_instance_id: vnfc.id.clone(),
                vnfc_resource_info_id: Some(vnfc.id.clone()),
                storage_snapshot_resources: own,
                ..VnfcSnapshotInfo::default()
            });
        }
    }
    Ok(found)
}

fn storage(cx: &VimCall<'_>, stored: &StoredClaim) -> StorageSnapshot {
    StorageSnapshot {
        storage_resource_id: stored.claim.name.clone(),
        storage_snapshot_resource: Some(ResourceHandle {
            vim_connection_id: Some(cx.vim.connection_id().to_owned()),
            resource_id: stored.volume_snapshot.clone(),
            vim_level_resource_type: Some("VolumeSnapshot".to_owned()),
            ..ResourceHandle::default()
        }),
    }
}

impl<'a> Creation<'a> {
    /// Looks up every claim of the VNF and its class; `None` if it has no claims.
    async fn read(
        cx: &'a VimCall<'a>,
        session: &'a Session<'a>,
        source: &SnapshotSource<'a>,
    ) -> Result<Option<Self>, PortError> {
        let handle = &source.current.handle;
        let stages = planned_stages(cx, session, &started(source.what), handle).await?;
        let found = claims_of(cx, session, &namespaces(&stages)).await?;
        let Some(first) = found.first() else {
            return Ok(None);
        };
        let catalog = Catalog::new(session, std::iter::empty());
        let kind = catalog.find(SNAPSHOT_API, "VolumeSnapshot").await?;
        let classes = catalog.find(SNAPSHOT_API, "VolumeSnapshotClass").await?;
        let (Some(kind), Some(classes)) = (kind, classes) else {
            let target = ClaimRecipe::of(first).target();
            let text = format!("the cluster does not serve `VolumeSnapshot` of `{SNAPSHOT_API}`");
            return Err(
                PortError::new(&NO_SNAPSHOTS, format!("store {target}"), text)
                    .on(target.to_string()),
            );
        };
        let classes = list(session, &classes.resource, None, "").await?;
        let mut claims = Vec::new();
        for claim in &found {
            claims.push(storable(session, claim, &classes).await?);
        }
        Ok(Some(Self {
            cx,
            session,
            id: source.id,
            kind,
            claims,
        }))
    }

    /// Creates what is missing, and waits until all of it is ready.
    async fn complete(&self) -> Result<Vec<StoredClaim>, PortError> {
        let mut backoff = Backoff::for_call(self.cx, INTERVAL);
        let mut failing_since: Option<Timestamp> = None;
        loop {
            let existing = self.existing().await?;
            let mut stored = Vec::new();
            let mut waiting = None;
            for claim in &self.claims {
                match self.part(claim, &existing).await? {
                    Progress::Ready(part) => stored.push(part),
                    Progress::NotYet(reason) => {
                        waiting.get_or_insert((reason, false));
                    }
                    Progress::Failing(reason) => waiting = Some((reason, true)),
                }
            }
            let Some((reason, fails)) = waiting else {
                return Ok(stored);
            };
            let now = self.cx.clock.now();
            let since = *failing_since.get_or_insert(now);
            if !fails {
                failing_since = None;
            }
            let is_hopeless = fails && now.duration_since(since) > ERROR_PATIENCE;
            if is_hopeless || backoff.pause(&reason).await == Err(Expired) {
                return Err(PortError::new(&SNAPSHOT_FAILED, "store the claims", reason));
            }
        }
    }

    /// The `VolumeSnapshot`s of this snapshot, by namespace and name.
    async fn existing(&self) -> Result<BTreeMap<(String, String), DynamicObject>, PortError> {
        let installation = &self.cx.ownership.installation_id;
        let selector = format!("{INSTALLATION}={installation},{SNAPSHOT}={}", self.id);
        let places = self.claims.iter().map(|claim| &claim.recipe.namespace);
        let mut found = BTreeMap::new();
        for namespace in places.collect::<BTreeSet<_>>() {
            let resource = &self.kind.resource;
            for one in list(self.session, resource, Some(namespace), &selector).await? {
                let name = one.metadata.name.clone().unwrap_or_default();
                found.insert((namespace.clone(), name), one);
            }
        }
        Ok(found)
    }

    /// What became of the `VolumeSnapshot` of a claim; creates it if it is missing.
    async fn part(
        &self,
        claim: &Storable,
        existing: &BTreeMap<(String, String), DynamicObject>,
    ) -> Result<Progress, PortError> {
        let name = name_of(claim, self.id);
        let target = Target {
            resource: self.kind.resource.clone(),
            namespace: Some(claim.recipe.namespace.clone()),
            name: name.clone(),
        };
        let key = (claim.recipe.namespace.clone(), name);
        let Some(found) = existing.get(&key) else {
            self.create(claim, &target).await?;
            return Ok(Progress::NotYet(format!("{target} to be created")));
        };
        let message = text(&found.data, "/status/error/message");
        if found.metadata.deletion_timestamp.is_some() {
            Ok(Progress::NotYet(format!("{target} to be deleted")))
        } else if is_ready(found) {
            let mut recipe = claim.recipe.clone();
            recipe.grow_to(text(&found.data, "/status/restoreSize"));
            Ok(Progress::Ready(StoredClaim {
                claim: recipe,
                volume_snapshot: target.name,
            }))
        } else if message.is_empty() {
            Ok(Progress::NotYet(format!("{target} to be ready to use")))
        } else {
            Ok(Progress::Failing(format!("{target} reports: {message}")))
        }
    }

    async fn create(&self, claim: &Storable, target: &Target) -> Result<(), PortError> {
        let mut object = json!({
            "apiVersion": SNAPSHOT_API,
            "kind": "VolumeSnapshot",
            "metadata": {"name": target.name, "namespace": target.namespace},
            "spec": {"volumeSnapshotClassName": claim.class,
                "source": {"persistentVolumeClaimName": claim.recipe.name}},
        });
        labels::stamp_snapshot(&mut object, self.cx.ownership, self.id);
        match create(self.session, target, object).await {
            // The response of an earlier attempt was lost, or the object is not ours.
            Err(error) if error.code() == &CONFLICT => {
                let found = find(self.session, target).await?;
                let is_ours = |found: &DynamicObject| {
                    labels::is_ours(&found.metadata, self.cx.ownership)
                        && labels::label_of(&found.metadata, SNAPSHOT)
                            .is_some_and(|id| id == self.id)
                };
                if found.is_none_or(|found| is_ours(&found)) {
                    return Ok(());
                }
                let text = format!("{target} exists and is not of this VNF snapshot");
                Err(PortError::new(&NOT_STORABLE, "store the claims", text).on(target.to_string()))
            }
            created => created,
        }
    }
}

/// How far a part of a snapshot is.
enum Progress {
    Ready(StoredClaim),
    NotYet(String),
    Failing(String),
}

/// Whether the data of a `VolumeSnapshot` can be used.
pub(crate) fn is_ready(snapshot: &DynamicObject) -> bool {
    snapshot.data.pointer("/status/readyToUse") == Some(&Value::Bool(true))
}

/// Creates an object.
///
/// # Errors
///
/// The API server's error; `CONFLICT` if it exists.
pub(crate) async fn create(
    session: &Session<'_>,
    target: &Target,
    object: Value,
) -> Result<(), PortError> {
    let object: DynamicObject =
        serde_json::from_value(object).map_err(|error| unserializable(&error))?;
    let object = &object;
    let how = &PostParams {
        field_manager: Some(labels::FIELD_MANAGER.to_owned()),
        ..PostParams::default()
    };
    let created = session
        .call(&format!("create {target}"), |client| async move {
            target.api(client).create(how, object).await
        })
        .await;
    created
        .map(drop)
        .map_err(|error| error.on(target.to_string()))
}

/// The name of the `VolumeSnapshot` of a claim.
fn name_of(claim: &Storable, snapshot: &str) -> String {
    let claim = if claim.recipe.name.len() > MAX_CLAIM_NAME {
        &claim.uid
    } else {
        &claim.recipe.name
    };
    format!("{claim}-{snapshot}")
}

/// The claim with its class; refused if it has no data, or nothing can copy them.
async fn storable(
    session: &Session<'_>,
    claim: &DynamicObject,
    classes: &[DynamicObject],
) -> Result<Storable, PortError> {
    let recipe = ClaimRecipe::of(claim);
    let target = recipe.target().to_string();
    let refused = |why: String| {
        PortError::new(&NOT_STORABLE, format!("store {target}"), why).on(target.clone())
    };
    if claim.metadata.deletion_timestamp.is_some() {
        return Err(refused("it is being deleted".to_owned()));
    }
    match text(&claim.data, "/status/phase") {
        "Bound" => {}
        phase => return Err(refused(format!("it is {phase}, not Bound"))),
    }
    let provisioner = provisioner(session, claim).await?;
    let Some(provisioner) = provisioner else {
        return Err(refused(
            "no StorageClass says which CSI driver its volume is of".to_owned(),
        ));
    };
    let Some(class) = class_of(classes, &provisioner) else {
        return Err(refused(format!(
            "no VolumeSnapshotClass has the driver `{provisioner}`: create one"
        )));
    };
    Ok(Storable {
        uid: claim.metadata.uid.clone().unwrap_or_default(),
        recipe,
        class,
    })
}

/// The provisioner of the claim's `StorageClass`, or what the claim itself says if we may not read that.
async fn provisioner(
    session: &Session<'_>,
    claim: &DynamicObject,
) -> Result<Option<String>, PortError> {
    let annotations = claim.metadata.annotations.as_ref();
    let annotated = || {
        let all = annotations?;
        let current = all.get("volume.kubernetes.io/storage-provisioner");
        current.or_else(|| all.get("volume.beta.kubernetes.io/storage-provisioner"))
    };
    let class = text(&claim.data, "/spec/storageClassName");
    if class.is_empty() {
        return Ok(annotated().cloned());
    }
    let catalog = Catalog::new(session, std::iter::empty());
    let Some(kind) = catalog.find("storage.k8s.io/v1", "StorageClass").await? else {
        return Ok(annotated().cloned());
    };
    let target = Target {
        resource: kind.resource,
        namespace: None,
        name: class.to_owned(),
    };
    let found = match find(session, &target).await {
        Err(error) if error.code() == &FORBIDDEN && annotated().is_some() => None,
        found => found?,
    };
    let stated = found.map(|class| text(&class.data, "/provisioner").to_owned());
    Ok(stated.or_else(|| annotated().cloned()))
}

/// The class of a driver: the default one, else the first by name.
fn class_of(classes: &[DynamicObject], driver: &str) -> Option<String> {
    let is_default = |class: &DynamicObject| {
        let annotations = class.metadata.annotations.as_ref();
        annotations.is_some_and(|all| all.get(DEFAULT_CLASS).is_some_and(|value| value == "true"))
    };
    let own = classes
        .iter()
        .filter(|class| text(&class.data, "/driver") == driver);
    let chosen = own.min_by_key(|class| (!is_default(class), class.metadata.name.clone()));
    chosen.and_then(|class| class.metadata.name.clone())
}

/// Deletes the `VolumeSnapshot`s of a VNF snapshot, and waits until they are deleted.
async fn delete_all(
    cx: &VimCall<'_>,
    session: &Session<'_>,
    (kind, id): (&Kind, &str),
    handle: &Value,
) -> Result<(), PortError> {
    let mut backoff = Backoff::for_call(cx, INTERVAL);
    loop {
        let left = of_snapshot(cx, session, (kind, id), handle).await?;
        for one in left
            .iter()
            .filter(|one| one.metadata.deletion_timestamp.is_none())
        {
            let uid = one.metadata.uid.as_deref().unwrap_or_default();
            delete(session, &target_of(kind, one), uid, None).await?;
        }
        let Some(first) = left.first() else {
            return Ok(());
        };
        let target = target_of(kind, first);
        let finalizers = first.metadata.finalizers.clone().unwrap_or_default();
        let held = match finalizers.as_slice() {
            [] => String::new(),
            all => format!(": finalizer `{}` holds it", all.join("`, `")),
        };
        let reason = format!("{target} to be deleted{held}");
        if let Err(Expired) = backoff.pause(&reason).await {
            let code = if held.is_empty() {
                &STILL_THERE
            } else {
                &FINALIZER
            };
            let text = format!("it still exists at the deadline{held}");
            return Err(
                PortError::new(code, format!("delete {target}"), text).on(target.to_string())
            );
        }
    }
}

fn target_of(kind: &Kind, object: &DynamicObject) -> Target {
    Target {
        resource: kind.resource.clone(),
        namespace: object.metadata.namespace.clone(),
        name: object.metadata.name.clone().unwrap_or_default(),
    }
}

/// The `VolumeSnapshot`s of a VNF snapshot. If we may list only those of some namespaces: in those of the handle, or in that
/// of the VIM and the default one of the instance.
async fn of_snapshot(
    cx: &VimCall<'_>,
    session: &Session<'_>,
    (kind, id): (&Kind, &str),
    handle: &Value,
) -> Result<Vec<DynamicObject>, PortError> {
    let installation = &cx.ownership.installation_id;
    let selector = format!("{INSTALLATION}={installation},{SNAPSHOT}={id}");
    match list(session, &kind.resource, None, &selector).await {
        Err(error) if error.code() == &FORBIDDEN => {}
        listed => return listed,
    }
    let stored = StoredClaims::read(handle)?.claims;
    let mut places: BTreeSet<String> = stored.into_iter().map(|one| one.claim.namespace).collect();
    if handle.is_null() {
        let own = format!("vnf-{}", cx.ownership.instance_id);
        places.insert(session.namespace().await?.unwrap_or(own));
    }
    let mut found = Vec::new();
    for namespace in places {
        found.extend(list(session, &kind.resource, Some(&namespace), &selector).await?);
    }
    Ok(found)
}
