//! Creates and deletes instance identifiers (SOL003 5.4.2, 5.4.3): records only, no resources.

use crate::engine::Engine;
use crate::lcm;
use crate::overrides::SkipHooks;
use crate::ports::{Change, EventScope, InstanceRecord, OutboxRow};
use crate::query::{Query, VisibilityScope};
use crate::refusal::{self, Refusal, Why};
use serde_json::{Value, json};
use vnfm_types::{
    CreateVnfRequest, HealVnfRequest, InstantiateVnfRequest, LcmOperationType,
    PackageOnboardingState, PackageOperationalState, TerminateVnfRequest,
    VnfInfoModificationRequest, VnfInstance,
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
    /// As [`Engine::create`].
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
        let now = self.parts.clock.now();
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
        expected: lcm::modify_info::Expected<'_>,
    ) -> Result<(), Refusal> {
        let record = self.store().instance(tenant, id).await?;
        lcm::modify_info::check_unchanged(&record, expected)?;
        let now = self.parts.clock.now();
        let event = identifier_row(&record, "VnfIdentifierDeletionNotification", now);
        let remove = Change::RemoveInstance {
            tenant: tenant.to_owned(),
            id: id.to_owned(),
        };
        // Written unchanged, so that exactly the version that was read is deleted.
        let unchanged = Change::PutInstance(Box::new(record));
        Ok(self
            .store()
            .write(
                None,
                vec![unchanged, remove, Change::Outbox(Box::new(event))],
            )
            .await?)
    }

    /// Accepts an operation of any kind, from the JSON of its request.
    ///
    /// # Errors
    ///
    /// As the operation's own method; `Unprocessable` if the operation does not exist or `request` is malformed.
    pub async fn begin(
        &self,
        kind: LcmOperationType,
        (tenant, id): (&str, &str),
        request: Value,
    ) -> Result<String, Refusal> {
        let Some(operation) = lcm::operation(kind) else {
            let what = format!("unknown operation {kind}");
            return Err(Refusal::new(
                Why::Unprocessable,
                &refusal::BAD_PARAMETERS,
                what,
            ));
        };
        (operation.accept)(self, (tenant, id), request).await
    }

    /// Accepts an instantiation and returns its occurrence's id; see [`lcm::instantiate::accept`].
    ///
    /// # Errors
    ///
    /// As [`lcm::instantiate::accept`].
    pub async fn instantiate(
        &self,
        tenant: &str,
        id: &str,
        request: InstantiateVnfRequest,
    ) -> Result<String, Refusal> {
        lcm::instantiate::accept(self, tenant, id, request).await
    }

    /// Accepts a healing and returns its occurrence's id; see [`lcm::heal::accept`].
    ///
    /// # Errors
    ///
    /// As [`lcm::heal::accept`].
    pub async fn heal(
        &self,
        tenant: &str,
        id: &str,
        request: HealVnfRequest,
    ) -> Result<String, Refusal> {
        lcm::heal::accept(self, tenant, id, request, None).await
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
        lcm::heal::accept(self, tenant, id, request, Some(skip)).await
    }

    /// Accepts a modification and returns its occurrence's id; see [`lcm::modify_info::accept`].
    ///
    /// # Errors
    ///
    /// As [`lcm::modify_info::accept`].
    pub async fn modify(
        &self,
        tenant: &str,
        id: &str,
        request: VnfInfoModificationRequest,
        expected: lcm::modify_info::Expected<'_>,
    ) -> Result<String, Refusal> {
        lcm::modify_info::accept(self, tenant, id, request, expected).await
    }

    /// Accepts a termination and returns its occurrence's id; see [`lcm::terminate::accept`].
    ///
    /// # Errors
    ///
    /// As [`lcm::terminate::accept`].
    pub async fn terminate(
        &self,
        tenant: &str,
        id: &str,
        request: TerminateVnfRequest,
    ) -> Result<String, Refusal> {
        lcm::terminate::accept(self, tenant, id, request, None).await
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
        lcm::terminate::accept(self, tenant, id, request, Some(skip)).await
    }
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
