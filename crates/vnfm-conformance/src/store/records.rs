//! Test records for the rules, also for further tests of a store.

use jiff::Timestamp;
use serde_json::{Value, json};
use std::sync::Arc;
use vnfm_core::Deployment;
use vnfm_core::ports::{
    Change, DriverId, EventScope, HookState, InstanceRecord, JournalRow, OpControl, OpRecord,
    OutboxRow, PackageRecord, ProcessHistory, SecretJson, StepStatus, Store, StoreError, VimRecord,
    VimUse,
};
use vnfm_types::{
    InstantiationState, LcmOperationState, LcmOperationType, PackageOnboardingState,
    PackageOperationalState, Vim, VnfInstance, VnfLcmOpOcc, VnfPkgInfo,
};

/// The tenant that owns these records.
pub const TENANT: &str = "default";

/// A time with more fractional digits than SQL stores.
///
/// # Panics
///
/// Never: the literal is valid.
pub fn at() -> Timestamp {
    "2026-03-04T05:06:07.123456Z".parse().unwrap()
}

/// A package record with this VNFD.
pub fn package(id: &str, vnfd_id: Option<&str>) -> Box<PackageRecord> {
    let info = VnfPkgInfo {
        vnfd_id: vnfd_id.map(Into::into),
        vnf_provider: Some("example".into()),
        onboarding_state: PackageOnboardingState::Onboarded,
        operational_state: PackageOperationalState::Enabled,
        warnings: vec!["a warning".into()],
        ..VnfPkgInfo::created(id)
    };
    Box::new(PackageRecord {
        tenant: TENANT.into(),
        info,
        fetching: SecretJson::default(),
    })
}

/// An instance of the package `package`.
pub fn instance(id: &str) -> Box<InstanceRecord> {
    Box::new(InstanceRecord {
        tenant: TENANT.into(),
        vnf_pkg_id: "package".into(),
        vnf: VnfInstance {
            id: id.into(),
            vnf_instance_name: Some(format!("name of {id}")),
            vnfd_id: "vnfd".into(),
            ..VnfInstance::default()
        },
        deployment: Some(deployment("hunter2")),
        handle: json!({"stack": id}),
        created_at: Some(at()),
        ..InstanceRecord::default()
    })
}

/// A deployment that contains a secret.
pub fn deployment(password: &str) -> Arc<Deployment> {
    Arc::new(Deployment {
        flavour_id: "simple".into(),
        vdu_instances: [("VDU1".into(), 2)].into_iter().collect(),
        additional_params: [("password".to_owned(), json!(password))]
            .into_iter()
            .collect(),
        ..Deployment::default()
    })
}

/// The record of an instantiation in STARTING.
pub fn op(id: &str, instance_id: &str) -> Box<OpRecord> {
    let op = VnfLcmOpOcc {
        id: id.into(),
        operation_state: LcmOperationState::Starting,
        state_entered_time: at(),
        start_time: at(),
        vnf_instance_id: instance_id.into(),
        grant_id: None,
        operation: LcmOperationType::Instantiate,
        is_automatic_invocation: false,
        operation_params: Some(json!({"flavourId": "simple"})),
        is_cancel_pending: false,
        cancel_mode: None,
        error: None,
        resource_changes: None,
        changed_info: None,
        changed_ext_connectivity: Vec::new(),
        modifications_triggered_by_vnf_pkg_change: None,
        vnf_snapshot_info_id: None,
        warnings: Vec::new(),
        links: None,
    };
    let request = SecretJson::from(json!({"password": "hunter2"}));
    Box::new(OpRecord {
        tenant: TENANT.into(),
        op,
        request,
        before: Some(deployment("before")),
        target: Some(deployment("target")),
        control: OpControl {
            skip_hooks: vec!["instantiate_end".into()],
            ..OpControl::default()
        },
        point_of_no_return: None,
        epoch: 0,
    })
}

/// The change of an operation from its state to `next`.
pub fn transition(record: &OpRecord, next: LcmOperationState) -> Change {
    let mut record = record.clone();
    let from = std::mem::replace(&mut record.op.operation_state, next);
    Change::PutOp {
        record: Arc::new(record),
        from,
    }
}

/// A journal row of a step.
pub fn step(op_id: &str, name: &str, status: StepStatus, output: Value) -> Change {
    Change::Journal(Arc::new(JournalRow {
        op_id: op_id.into(),
        step: name.into(),
        status,
        attempt: 1,
        output: SecretJson::from(output),
        started_at: at(),
        ended_at: (status == StepStatus::Done).then(at),
        lives: ProcessHistory::default(),
        hook: Some(HookState {
            implementation: "mgmt".into(),
            plugin: Some("template".into()),
            driver: DriverId {
                name: "template".into(),
                version: "1.0.0".into(),
                sha256: None,
            },
            can_undo: true,
        }),
        retry: None,
    }))
}

/// A VIM registered by hand.
pub fn vim(id: &str, name: &str) -> Box<VimRecord> {
    let vim = Vim {
        id: id.into(),
        name: name.into(),
        vim_type: vnfm_types::KUBERNETES.into(),
        interface_info: serde_json::Map::new(),
        extra: serde_json::Map::new(),
        registered_by: None,
        identity: None,
        shared: false,
        policy: None,
        expires_at: None,
        key_type: None,
        secret_uuid: None,
        created_at: at(),
        updated_at: at(),
    };
    let access_info = SecretJson::from(json!({"bearer_token": "hunter2"}));
    Box::new(VimRecord {
        tenant: TENANT.into(),
        version: 0,
        vim,
        access_info,
    })
}

/// A VIM that the hook of an instance registered.
pub fn vim_of(instance_id: &str, id: &str, identity: Option<&str>) -> Box<VimRecord> {
    let mut record = vim(id, id);
    record.vim.registered_by = Some(instance_id.into());
    record.vim.identity = identity.map(Into::into);
    record
}

/// The use of a VIM by an instance.
pub fn lives(instance_id: &str, vim_id: Option<&str>, identity: Option<&str>) -> Change {
    Change::AddUse(VimUse {
        tenant: TENANT.into(),
        instance_id: instance_id.into(),
        vim_id: vim_id.map(Into::into),
        identity: identity.map(Into::into),
        namespace: None,
    })
}

/// Marks the VIMs that an instance registered as leaving.
pub fn retire(instance_id: &str, op_id: &str) -> Change {
    Change::MarkVimsLeaving {
        tenant: TENANT.into(),
        instance_id: instance_id.into(),
        op_id: op_id.into(),
        besides: Vec::new(),
    }
}

/// A notification about an instance.
pub fn notification(instance_id: &str, body: Value) -> Change {
    Change::Outbox(Box::new(OutboxRow {
        seq: 0,
        tenant: TENANT.into(),
        instance_id: instance_id.into(),
        kind: "VnfIdentifierCreationNotification".into(),
        body,
        about: EventScope::default(),
        at: at(),
    }))
}

/// Writes the package of all test instances, and the instances.
///
/// # Panics
///
/// If the store refuses them.
pub async fn seed(store: &dyn Store, instances: &[&str]) {
    let mut changes = vec![Change::AddPackage(package("package", Some("vnfd")))];
    changes.extend(instances.iter().map(|id| Change::AddInstance(instance(id))));
    store.write(None, changes).await.unwrap();
}

/// Sets an instance to `INSTANTIATED`.
///
/// # Panics
///
/// If it does not exist.
pub async fn instantiated(store: &dyn Store, id: &str) {
    let mut record = store.instance(TENANT, id).await.unwrap();
    record.vnf.instantiation_state = InstantiationState::Instantiated;
    store
        .write(None, vec![Change::PutInstance(Box::new(record))])
        .await
        .unwrap();
}

/// Writes `changes`, which must succeed.
pub(super) async fn write(store: &dyn Store, changes: Vec<Change>) {
    store.write(None, changes).await.unwrap();
}

pub(super) fn not_found(what: &'static str, id: &str) -> StoreError {
    let id = id.to_owned();
    StoreError::NotFound { what, id }
}

pub(super) fn exists(what: &'static str, id: &str) -> StoreError {
    let id = id.to_owned();
    StoreError::Exists { what, id }
}
