//! What a grant may contain: the VIM it names, and grants that are refused.

use super::fakes::*;
use super::faults::{begin, ready_in};
use super::grants::{record, required_resources, respond_with, run_with_grant};
use super::setup::*;
use serde_json::{Value, json};
use vnfm_core::ports::*;
use vnfm_core::{Engine, VimChange};
use vnfm_types::LcmOperationState::{Completed, RolledBack};
use vnfm_types::LcmOperationType::{Heal, Instantiate, Terminate};
use vnfm_types::*;

#[tokio::test]
async fn the_grant_may_choose_the_vim() {
    let world = FakeWorld::with_nfvo();
    let engine = engine(store().await, &world);
    let id = instance(&engine).await;
    let request = InstantiateVnfRequest {
        flavour_id: "cluster_install".into(),
        ..InstantiateVnfRequest::default()
    };
    let op = engine
        .instantiate(TENANT, &id, request.clone())
        .await
        .unwrap();
    engine.drive(&op).await.unwrap();
    let error = record(&engine, &op).await.error.unwrap();
    assert!(
        error
            .detail
            .contains("neither the request nor the grant names a VIM"),
        "{error:?}"
    );
    let op = engine.instantiate(TENANT, &id, request).await.unwrap();
    assert_uses_granted_vim(&world, &engine, &op, ("theirs", "cloud")).await;
    assert_vim_in_use_until_terminated(&engine, &id, "cloud").await;
}

#[tokio::test]
async fn a_grant_with_another_vim_moves_the_vim_usage() {
    let (world, engine, id, _) = ready_in(FakeWorld::with_nfvo(), Instantiate).await;
    let at = json!({"vimType": OPENSTACK, "interfaceInfo": {"endpoint": "http://second"}});
    let mut second = VimChange::to(serde_json::from_value(at).unwrap());
    second.name = Some("second".to_owned());
    let second = engine.register_vim(TENANT, second).await.unwrap().id;
    let op = begin(&engine, Instantiate, &id).await;
    assert_uses_granted_vim(&world, &engine, &op, ("vim1", &second)).await;
    engine
        .delete_vim(TENANT, "cloud", None)
        .await
        .expect("nothing of it is on the first");
    assert_vim_in_use_until_terminated(&engine, &id, "second").await;
}

/// An instantiation that ends on the VIM that the NFVO names, by its id or name, under this key.
async fn assert_uses_granted_vim(
    world: &FakeWorld,
    engine: &Engine,
    op: &str,
    (key, vim): (&str, &str),
) {
    let id = record(engine, op).await.vnf_instance_id;
    let connection = VimConnectionInfo {
        vim_id: Some(vim.into()),
        ..VimConnectionInfo::default()
    };
    let grant = Grant {
        id: "g".into(),
        vnf_instance_id: id.clone(),
        vnf_lcm_op_occ_id: op.into(),
        vim_connection_info: [(key.to_owned(), Box::new(connection))]
            .into_iter()
            .collect(),
        add_resources: required_resources(),
        ..Grant::default()
    };
    respond_with(world, [Ok(GrantOutcome::Granted(Box::new(grant)))]);
    engine.drive(op).await.unwrap();
    assert_eq!(
        state(engine, op).await,
        Completed,
        "{:?}",
        record(engine, op).await.error
    );
    let vnf = engine.store().instance(TENANT, &id).await.unwrap().vnf;
    let vim = engine.vim(TENANT, vim).await.unwrap().id;
    assert_eq!(vnf.vim_connection_info[key].vim_id.as_ref(), Some(&vim));
}

/// The VIM cannot be deleted as long as the instance lives, and can be afterwards.
async fn assert_vim_in_use_until_terminated(engine: &Engine, id: &str, vim: &str) {
    let refusal = engine.delete_vim(TENANT, vim, None).await.unwrap_err();
    assert!(
        refusal.blocked_by.iter().any(|one| one.contains(id)),
        "{refusal:?}"
    );
    let op = begin(engine, Terminate, id).await;
    engine.drive(&op).await.unwrap();
    assert_eq!(state(engine, &op).await, Completed);
    engine.delete_vim(TENANT, vim, None).await.unwrap();
}

type GrantChange = fn(&mut Grant);

/// Error code, a part of the error, and the change of a valid grant that causes it.
const INVALID_GRANTS: &[(&str, &str, GrantChange)] = &[
    ("grant.amiss", "vnfInstanceId is `x`", |grant| {
        grant.vnf_instance_id = "x".into();
    }),
    ("grant.amiss", "vnfLcmOpOccId is `x`", |grant| {
        grant.vnf_lcm_op_occ_id = "x".into();
    }),
    (
        "grant.amiss",
        "does not approve `compute/masterNode/0`",
        |grant| {
            grant.add_resources.remove(0);
        },
    ),
    ("grant.amiss", "not requested: `y`", |grant| {
        grant.add_resources[0].resource_definition_id = "y".into();
        grant.add_resources.push(required_resources().remove(0));
    }),
    ("grant.amiss", "zoneId `nowhere`", |grant| {
        grant.add_resources[0].zone_id = Some("nowhere".into());
    }),
    ("grant.amiss", "vimConnectionId `v9`", |grant| {
        grant.add_resources[0].vim_connection_id = Some("v9".into());
    }),
    ("grant.unusable", "several VIMs: `v1`, `v2`", |grant| {
        for (info, vim) in grant.add_resources.iter_mut().zip(["v1", "v2"]) {
            info.vim_connection_id = Some(vim.into());
        }
    }),
    ("grant.unusable", "reservation `r1`", |grant| {
        grant.add_resources[0].reservation_id = Some("r1".into());
    }),
    ("grant.unusable", "provider `p1`", |grant| {
        grant.add_resources[0].resource_provider_id = Some("p1".into());
    }),
    (
        "grant.unusable",
        "`nobody` is not in the registry",
        |grant| {
            let vim = VimConnectionInfo {
                vim_id: Some("nobody".into()),
                ..VimConnectionInfo::default()
            };
            grant.vim_connection_info = [("vim1".to_owned(), Box::new(vim))].into_iter().collect();
        },
    ),
    ("grant.amiss", "`gpu` is not a VDU", |grant| {
        let flavour = VimComputeResourceFlavour {
            vnfd_virtual_compute_desc_id: "gpu".into(),
            ..VimComputeResourceFlavour::default()
        };
        grant.vim_assets = Some(VimAssets {
            compute_resource_flavours: vec![flavour],
            ..VimAssets::default()
        });
    }),
    ("grant.amiss", "`l9` is not an internal link", |grant| {
        grant.ext_managed_virtual_links = vec![ExtManagedVirtualLinkData {
            vnf_virtual_link_desc_id: "l9".into(),
            ..ExtManagedVirtualLinkData::default()
        }];
    }),
];

#[tokio::test]
async fn inconsistent_or_unsupported_grants_are_refused_with_the_offending_value() {
    for (code, expected, change) in INVALID_GRANTS {
        let (world, engine, _, op) = run_with_grant(change).await;
        let record = record(&engine, &op).await;
        assert_eq!(record.operation_state, RolledBack, "{expected}");
        let error = record.error.unwrap();
        assert!(
            error.detail.contains(expected),
            "`{expected}` is not in {error:?}"
        );
        assert_eq!(error.code.as_deref(), Some(*code), "{expected}");
        assert_eq!(
            world.calls(),
            ["grant"],
            "{expected}: nothing else was called"
        );
    }
}

#[tokio::test]
async fn a_heal_grant_cannot_move_the_vnf() {
    type Change = fn(&mut Value);
    let table: [(&str, Change); 3] = [
        ("another VIM: `other`", |grant| {
            grant["vimConnectionInfo"] = json!({"other": {"vimId": CLOUD}});
        }),
        ("zone `edge`", |grant| {
            grant["zones"] = json!([{"id": "z", "zoneId": "edge"}]);
            grant["addResources"][0]["zoneId"] = json!("z");
        }),
        ("another flavor: `f9`", |grant| {
            grant["vimAssets"] = json!({"computeResourceFlavours":
                [{"vnfdVirtualComputeDescId": "workerNode", "vimFlavourId": "f9"}]});
        }),
    ];
    for (expected, change) in table {
        let (world, engine, id, _) = ready_in(FakeWorld::with_nfvo(), Heal).await;
        let op = begin(&engine, Heal, &id).await;
        let infos = |suffix: &str| {
            json!([{"resourceDefinitionId": format!("compute/c1{suffix}")},
                {"resourceDefinitionId": format!("compute/c2{suffix}")}])
        };
        let mut grant = json!({"id": "g", "vnfInstanceId": id, "vnfLcmOpOccId": op,
            "addResources": infos("/successor"), "removeResources": infos("")});
        change(&mut grant);
        let grant = serde_json::from_value(grant).unwrap();
        respond_with(&world, [Ok(GrantOutcome::Granted(Box::new(grant)))]);
        engine.drive(&op).await.unwrap();
        let error = record(&engine, &op).await.error.unwrap();
        assert_eq!(error.code.as_deref(), Some("grant.unusable"), "{error:?}");
        assert!(error.detail.contains(expected), "{error:?}");
    }
}
