//! Creates and deletes instance identifiers (SOL003 5.4.2, 5.4.3): records only, no resources.

use crate::engine::Engine;
use crate::lcm::{self, Begin, Expected};
use crate::overrides::SkipHooks;
use crate::ports::{Change, EventScope, InstanceRecord, OutboxRow};
use crate::query::{Query, VisibilityScope};
use crate::refusal::{self, Refusal, Why};
use serde::Serialize;
use serde_json::{Value, json};
use vnfm_types::{
    CreateVnfRequest, HealVnfRequest, InstantiateVnfRequest, PackageOnboardingState,
    PackageOperationalState, TerminateVnfRequest, VnfInfoModificationRequest, VnfInstance,
};

impl Engine {
    /// Creates an instance of the VNFD in `request`, `NOT_INSTANTIATED`.
    ///
    /// # Errors
    ///
    /// `Unprocessable` if no onboarded and enabled package has that VNFD.
    pub async fn create(
        &self,
        tenant: &str,
        request: CreateVnfRequest,
    ) -> Result<InstanceRecord, Refusal> {
        self.create_in_scope(tenant, &VisibilityScope::default(), request)
            .await
    }

    /// As [`Engine::create`], for a caller who sees only some of the packages.
    ///
    /// # Errors
    ///
    /// Those of [`Engine::create`]; a package out of scope does not exist.
    pub async fn create_in_scope(
        &self,
        tenant: &str,
        scope: &VisibilityScope,
        request: CreateVnfRequest,
    ) -> Result<InstanceRecord, Refusal> {
        let of_vnfd = Query::only("vnfdId", request.vnfd_id.as_str());
        let of_vnfd = Query {
            scope: scope.clone(),
            ..of_vnfd
        };
        let packages = self.store().package_records(tenant, &of_vnfd).await?;
        let wanted = |info: &vnfm_types::VnfPkgInfo| {
            info.onboarding_state == PackageOnboardingState::Onboarded
                && info.operational_state == PackageOperationalState::Enabled
        };
        let Some(package) = packages.into_iter().find(|package| wanted(&package.info)) else {
            let what = format!(
                "no onboarded and enabled VNF package has vnfdId `{}`",
                request.vnfd_id
            );
            return Err(Refusal::new(Why::Unprocessable, &refusal::NO_PACKAGE, what));
        };
        let now = self.now();
        let record = InstanceRecord {
            tenant: tenant.to_owned(),
            vnf_pkg_id: package.info.id.clone(),
            vnf: new_instance(request, package.info),
            created_at: Some(now),
            ..InstanceRecord::default()
        };
        let event = identifier_row(&record, "VnfIdentifierCreationNotification", now);
        let changes = vec![
            Change::AddInstance(Box::new(record.clone())),
            Change::Outbox(Box::new(event)),
        ];
        self.store().write(None, changes).await?;
        Ok(record)
    }

    /// Deletes an instance that is `NOT_INSTANTIATED`.
    ///
    /// # Errors
    ///
    /// `NotFound`; `Conflict` if it is INSTANTIATED or busy.
    pub async fn delete(&self, tenant: &str, id: &str) -> Result<(), Refusal> {
        self.delete_if(tenant, id, &|_| true).await
    }

    /// As [`Engine::delete`], only if the instance is as `expected`.
    ///
    /// # Errors
    ///
    /// As [`Engine::delete`]; `Stale` if it changed.
    pub async fn delete_if(
        &self,
        tenant: &str,
        id: &str,
        expected: Expected<'_>,
    ) -> Result<(), Refusal> {
        let record = self.store().instance(tenant, id).await?;
        lcm::check_unchanged(&record, Some(expected))?;
        let now = self.now();
        let event = identifier_row(&record, "VnfIdentifierDeletionNotification", now);
        let remove = Change::RemoveInstance {
            tenant: tenant.to_owned(),
            id: id.to_owned(),
        };
        // Written unchanged, so that exactly the version that was read is deleted.
        let unchanged = Change::PutInstance(Box::new(record));
        let changes = vec![unchanged, remove, Change::Outbox(Box::new(event))];
        self.store().write(None, changes).await?;
        self.remove_files(id).await;
        Ok(())
    }

    /// Removes what hooks have stored with an instance that does not exist any more. Nobody can list it any more, so that a
    /// failure is only logged.
    pub(crate) async fn remove_files(&self, id: &str) {
        if let Err(error) = self.files().remove_all(id).await {
            tracing::warn!(vnf = id, %error, "the files of a deleted VNF instance are still on the disk");
        }
    }

    /// Accepts an instantiation and returns its occurrence's id; see [`lcm::instantiate`].
    ///
    /// # Errors
    ///
    /// As [`Engine::begin`]; whatever VNFD and registry can tell: unknown flavour, level,
    /// VIM or MgmtDriver, invalid parameters.
    pub async fn instantiate(
        &self,
        tenant: &str,
        id: &str,
        request: InstantiateVnfRequest,
    ) -> Result<String, Refusal> {
        let begin = Begin::new(&lcm::instantiate::OPERATION, body(&request));
        self.begin(tenant, id, begin).await
    }

    /// Accepts a healing and returns its occurrence's id; see [`lcm::heal`].
    ///
    /// # Errors
    ///
    /// As [`Engine::begin`]; `Unprocessable` if the instance has no such VNFC or the parameters are invalid.
    pub async fn heal(
        &self,
        tenant: &str,
        id: &str,
        request: HealVnfRequest,
    ) -> Result<String, Refusal> {
        let begin = Begin::new(&lcm::heal::OPERATION, body(&request));
        self.begin(tenant, id, begin).await
    }

    /// As [`Engine::heal`], skipping some of its hooks.
    ///
    /// # Errors
    ///
    /// As [`Engine::heal`]; `Unprocessable` without a reason, or if heal has no such hook.
    pub async fn heal_without(
        &self,
        tenant: &str,
        id: &str,
        request: HealVnfRequest,
        skip: SkipHooks,
    ) -> Result<String, Refusal> {
        let begin = Begin {
            skip: Some(skip),
            ..Begin::new(&lcm::heal::OPERATION, body(&request))
        };
        self.begin(tenant, id, begin).await
    }

    /// Accepts a modification and returns its occurrence's id; see [`lcm::modify_info`].
    ///
    /// # Errors
    ///
    /// As [`Engine::begin`]; `Unprocessable` if the VNFD does not declare what is to be changed, or
    /// the VIM connections are invalid.
    pub async fn modify(
        &self,
        tenant: &str,
        id: &str,
        request: VnfInfoModificationRequest,
        expected: Expected<'_>,
    ) -> Result<String, Refusal> {
        let begin = Begin {
            expected: Some(expected),
            ..Begin::new(&lcm::modify_info::OPERATION, body(&request))
        };
        self.begin(tenant, id, begin).await
    }

    /// Accepts a termination and returns its occurrence's id; see [`lcm::terminate`].
    ///
    /// # Errors
    ///
    /// As [`Engine::begin`]; `Conflict` if live VNFs run on a cluster that the instance registered: the error names them.
    pub async fn terminate(
        &self,
        tenant: &str,
        id: &str,
        request: TerminateVnfRequest,
    ) -> Result<String, Refusal> {
        let begin = Begin::new(&lcm::terminate::OPERATION, body(&request));
        self.begin(tenant, id, begin).await
    }

    /// As [`Engine::terminate`], skipping some of its hooks.
    ///
    /// # Errors
    ///
    /// As [`Engine::terminate`]; `Unprocessable` without a reason, or if terminate has no such hook.
    pub async fn terminate_without(
        &self,
        tenant: &str,
        id: &str,
        request: TerminateVnfRequest,
        skip: SkipHooks,
    ) -> Result<String, Refusal> {
        let begin = Begin {
            skip: Some(skip),
            ..Begin::new(&lcm::terminate::OPERATION, body(&request))
        };
        self.begin(tenant, id, begin).await
    }

    /// As [`Engine::terminate`], after the instances on the clusters that this one registered, on the clusters of those,
    /// and so on.
    ///
    /// # Errors
    ///
    /// As [`Engine::terminate`]; `Conflict` if one of them has an operation that has not ended, or belongs to another tenant.
    pub async fn terminate_with_dependants(
        &self,
        tenant: &str,
        id: &str,
        request: TerminateVnfRequest,
    ) -> Result<String, Refusal> {
        let begin = Begin {
            cascade: true,
            ..Begin::new(&lcm::terminate::OPERATION, body(&request))
        };
        self.begin(tenant, id, begin).await
    }
}

/// A request as [`Engine::begin`] takes it.
fn body(request: &impl Serialize) -> Value {
    // Requests have string keys only, so this cannot fail; `null` would be refused as malformed.
    serde_json::to_value(request).unwrap_or_default()
}

fn new_instance(request: CreateVnfRequest, info: vnfm_types::VnfPkgInfo) -> VnfInstance {
    VnfInstance {
        id: uuid::Uuid::new_v4().to_string(),
        vnf_instance_name: request.vnf_instance_name,
        vnf_instance_description: request.vnf_instance_description,
        vnfd_id: request.vnfd_id,
        vnf_provider: info.vnf_provider.unwrap_or_default(),
        vnf_product_name: info.vnf_product_name.unwrap_or_default(),
        vnf_software_version: info.vnf_software_version.unwrap_or_default(),
        vnfd_version: info.vnfd_version.unwrap_or_default(),
        metadata: request.metadata,
        ..VnfInstance::default()
    }
}

pub(crate) fn identifier_row(
    record: &InstanceRecord,
    kind: &str,
    at: jiff::Timestamp,
) -> OutboxRow {
    OutboxRow {
        seq: 0,
        tenant: record.tenant.clone(),
        instance_id: record.vnf.id.clone(),
        kind: kind.to_owned(),
        body: json!({
            "notificationType": kind,
            "timeStamp": at,
            "vnfInstanceId": record.vnf.id,
        }),
        about: EventScope::for_instance(record, None),
        at,
    }
}
