//! Whether the data of a claim can be stored: it is bound, and its CSI driver has a `VolumeSnapshotClass`.

use crate::catalog::{Catalog, Target};
use crate::claims::ClaimRecipe;
use crate::client::Session;
use crate::errors::{FORBIDDEN, NOT_STORABLE};
use crate::object::find;
use crate::status::text;
use kube::api::DynamicObject;
use vnfm_core::ports::PortError;

const DEFAULT_CLASS: &str = "snapshot.storage.kubernetes.io/is-default-class";
/// Longest name of a claim to which the id of the VNF snapshot can be appended.
const MAX_CLAIM_NAME: usize = 253 - 37;

/// A claim that can be stored.
pub(crate) struct Storable {
    uid: String,
    pub(crate) recipe: ClaimRecipe,
    /// Name of its `VolumeSnapshotClass`.
    pub(crate) class: String,
}

impl Storable {
    /// The name of its `VolumeSnapshot`.
    pub(crate) fn volume_snapshot(&self, snapshot: &str) -> String {
        let claim = if self.recipe.name.len() > MAX_CLAIM_NAME {
            &self.uid
        } else {
            &self.recipe.name
        };
        format!("{claim}-{snapshot}")
    }
}

/// The claim with its class.
///
/// # Errors
///
/// `Refused` if it has no data, or nothing can copy them; or a call failed.
pub(crate) async fn storable(
    session: &Session<'_>,
    claim: &DynamicObject,
    classes: &[DynamicObject],
) -> Result<Storable, PortError> {
    let recipe = ClaimRecipe::from_claim(claim);
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
