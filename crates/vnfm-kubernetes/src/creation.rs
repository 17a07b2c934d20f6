//! The creation of a VNF snapshot: a `VolumeSnapshot` of each claim, and the wait until its controller has the data.

use crate::catalog::{Catalog, SNAPSHOT_API, Target};
use crate::claims::{ClaimRecipe, claims_of, pauses};
use crate::client::Session;
use crate::driver::namespaces;
use crate::errors::{CONFLICT, NO_SNAPSHOTS, NOT_STORABLE, SNAPSHOT_FAILED};
use crate::kinds::Kind;
use crate::labels::{self, INSTALLATION, SNAPSHOT};
use crate::object::find;
use crate::owned::objects;
use crate::planned::planned_stages;
use crate::power::started;
use crate::status::text;
use crate::storable::{Storable, storable};
use crate::stored_claims::{StoredClaim, create, is_ready};
use jiff::{SignedDuration, Timestamp};
use kube::api::DynamicObject;
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use vnfm_core::ports::{Expired, PortError, SnapshotSource, VimCall};

/// How long a `VolumeSnapshot` may report an error: its controller tries again.
const ERROR_PATIENCE: SignedDuration = SignedDuration::from_secs(30);

/// A snapshot that is being created.
pub(crate) struct Creation<'a> {
    cx: &'a VimCall<'a>,
    session: &'a Session<'a>,
    id: &'a str,
    kind: Kind,
    pub(crate) claims: Vec<Storable>,
}

impl<'a> Creation<'a> {
    /// Looks up every claim of the VNF and its class; `None` if it has no claims.
    ///
    /// # Errors
    ///
    /// `Refused`, naming the claim that cannot be stored.
    pub(crate) async fn read(
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
            let target = ClaimRecipe::from_claim(first).target();
            let text = format!("the cluster does not serve `VolumeSnapshot` of `{SNAPSHOT_API}`");
            return Err(
                PortError::new(&NO_SNAPSHOTS, format!("store {target}"), text)
                    .on(target.to_string()),
            );
        };
        let classes = objects(session, &classes.resource, None, "").await?;
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
    ///
    /// # Errors
    ///
    /// What a `VolumeSnapshot` reports, or what was not ready at the deadline; the same call resumes.
    pub(crate) async fn complete(&self) -> Result<Vec<StoredClaim>, PortError> {
        let mut backoff = pauses(self.cx);
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
            for one in objects(self.session, resource, Some(namespace), &selector).await? {
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
        let name = claim.volume_snapshot(self.id);
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
