//! Shared virtual links on a VIM in memory: their use by instances, refusals, failures, crashes, other tenants.

use super::fakes::*;
use super::faults::run_to_end;
use super::scale::{CountedVim, Scalable, begin_on};
use super::setup::*;
use super::stopping_store::stop_at;
use async_trait::async_trait;
use serde_json::json;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use vnfm_core::ports::*;
use vnfm_core::{Engine, EngineParts, Limits, Refusal, Why};
use vnfm_types::LcmOperationState::{Completed, FailedTemp, RolledBack};
use vnfm_types::*;

const REFUSED: Code = Code {
    name: "test.refused",
    kind: ErrorKind::Refused,
    means: "the VIM refuses the call",
    next: "do not inject it",
};

#[async_trait]
impl Links for CountedVim {
    fn validate_link(&self, link: &LinkSpec) -> Result<(), PortError> {
        self.0.validate_link(link)
    }
    async fn create_link(&self, cx: &VimCall<'_>, link: &SharedLink) -> Result<String, PortError> {
        let takes_effect = *self.1.fail_after_effect.lock().unwrap();
        if !takes_effect {
            self.1.call("create_link", |_| ()).await?;
        }
        let created = self.0.create_link(cx, link).await?;
        if takes_effect {
            self.1.call("create_link", |_| ()).await?;
        }
        Ok(created)
    }
    async fn delete_link(&self, cx: &VimCall<'_>, link: &SharedLink) -> Result<(), PortError> {
        self.1.call("delete_link", |_| ()).await?;
        self.0.delete_link(cx, link).await
    }
}

fn spec(name: &str) -> LinkSpec {
    LinkSpec {
        name: name.into(),
        vim_id: "cloud".into(),
        ..LinkSpec::default()
    }
}

fn external(network: &str) -> Vec<ExtVirtualLinkData> {
    let cps = json!([{"cpdId": "webService", "cpConfig": {"any": {"cpProtocolData": []}}}]);
    let links = json!([{"id": "external", "resourceId": network, "extCps": cps}]);
    serde_json::from_value(links).unwrap()
}

fn request(network: &str) -> InstantiateVnfRequest {
    InstantiateVnfRequest {
        flavour_id: "simple".into(),
        instantiation_level_id: Some("trial".into()),
        ext_virtual_links: external(network),
        ..on("cloud")
    }
}

impl Scalable {
    async fn link(&self, name: &str) -> SharedLink {
        let created = self.engine.create_link(TENANT, spec(name)).await;
        created.unwrap().0.link
    }

    async fn users(&self, link: &SharedLink) -> Vec<String> {
        self.store
            .link(TENANT, &link.id)
            .await
            .unwrap()
            .link
            .used_by
    }

    /// A new instance with its external CP on this network.
    async fn on_network(&self, network: &str) -> String {
        let id = instance(&self.engine).await;
        let op = self.engine.instantiate(TENANT, &id, request(network)).await;
        let op = op.unwrap();
        self.engine.drive(&op).await.unwrap();
        assert_eq!(state(&self.engine, &op).await, Completed);
        id
    }

    async fn terminate(&self, id: &str) -> String {
        let request = TerminateVnfRequest::default();
        let op = self.engine.terminate(TENANT, id, request).await.unwrap();
        self.engine.drive(&op).await.unwrap();
        op
    }

    async fn delete_link(&self, link: &SharedLink) -> Result<(), Refusal> {
        self.engine.delete_link(TENANT, &link.id).await
    }

    /// Another process with the same database, over a store of its own.
    fn process(&self, store: Arc<dyn Store>) -> Engine {
        let parts = scalable_parts(store, &self.world, self.vim.clone(), scalable_package());
        let lease = Duration::from_millis(50);
        let limits = Limits {
            lease,
            ..Limits::default()
        };
        Engine::new(EngineParts { limits, ..parts })
    }

    fn fail(&self, call: &'static str, code: &'static Code) {
        self.world.failing.lock().unwrap().insert(call, (1, code));
    }
}

#[tokio::test]
async fn a_link_is_deleted_only_once_no_instance_uses_it() {
    let it = Scalable::new().await;
    let link = it.link("shared").await;
    assert_eq!(link.state, LinkState::Available);
    let network = link.resource_id.clone().unwrap();
    // By the id of the network, and by its name.
    let (a, b) = (it.on_network(&network).await, it.on_network("shared").await);
    let mut both = vec![a.clone(), b.clone()];
    both.sort();
    assert_eq!(it.users(&link).await, both);
    let refused = it.delete_link(&link).await.unwrap_err();
    assert_eq!(
        (refused.why, refused.code.name),
        (Why::Conflict, "request.in-use")
    );
    assert_eq!(refused.blocked_by, both);
    it.terminate(&a).await;
    assert_eq!(it.users(&link).await, std::slice::from_ref(&b));
    assert!(it.delete_link(&link).await.is_err());
    it.terminate(&b).await;
    it.delete_link(&link).await.unwrap();
    assert_eq!(it.vim.0.networks(), Vec::<String>::new());
    let deleted = it.delete_link(&link).await.unwrap_err();
    assert_eq!(deleted.why, Why::NotFound);
}

#[tokio::test]
async fn the_same_request_again_returns_the_link() {
    let it = Scalable::new().await;
    let first = it.engine.create_link(TENANT, spec("shared")).await.unwrap();
    let again = it.engine.create_link(TENANT, spec("shared")).await.unwrap();
    assert_eq!((again.0, again.1), (first.0, false));
    let mut other = spec("shared");
    other.namespace = Some("elsewhere".into());
    let refused = it.engine.create_link(TENANT, other).await.unwrap_err();
    assert_eq!(
        (refused.why, refused.code.name),
        (Why::Conflict, "request.exists")
    );
    assert_eq!(it.vim.0.networks().len(), 1);
}

#[tokio::test]
async fn unusable_links_are_refused_by_name_and_nothing_is_created() {
    let it = Scalable::new().await;
    let named = |name: String| LinkSpec { name, ..spec("x") };
    let many = LinkSpec {
        subnets: vec![LinkSubnet::default(); 17],
        ..spec("x")
    };
    let large = json!({"type": "x".repeat(40_000)});
    let large = LinkSpec {
        cni_config: large.as_object().cloned(),
        ..spec("x")
    };
    let nowhere = LinkSpec {
        vim_id: "none".into(),
        ..spec("x")
    };
    for (spec, member) in [
        (named(String::new()), "name"),
        (named("a\nb".into()), "name"),
        (named("x".repeat(256)), "name"),
        (named(it.id.clone()), "name"),
        (many, "subnets"),
        (large, "cniConfig"),
        (nowhere, "vimId"),
    ] {
        let refused = it.engine.create_link(TENANT, spec).await.unwrap_err();
        assert_eq!(refused.why, Why::Unprocessable, "{member}");
        assert!(
            refused.detail.starts_with(&format!("{member}: ")),
            "{refused}"
        );
    }
    let mut vim = it.store.vim(TENANT, "cloud").await.unwrap();
    vim.vim.policy = Some(Box::new(VimPolicy {
        external_ips: Some(false),
        ..VimPolicy::default()
    }));
    let put = Change::PutVim(Box::new(vim));
    it.store.write(None, vec![put]).await.unwrap();
    let refused = it.engine.create_link(TENANT, spec("x")).await.unwrap_err();
    assert!(refused.detail.contains("policy"), "{refused}");
    assert_eq!(it.vim.0.networks(), Vec::<String>::new());
}

#[tokio::test]
async fn a_link_of_another_tenant_does_not_exist() {
    let it = Scalable::new().await;
    let link = it.link("shared").await;
    for key in [&link.id, "shared"] {
        let refused = it.engine.delete_link("mallory", key).await.unwrap_err();
        assert_eq!(refused.why, Why::NotFound, "{key}");
    }
    let own = SharedLink {
        id: "l2".into(),
        spec: spec("shared"),
        state: LinkState::Available,
        resource_id: link.resource_id.clone(),
        ..SharedLink::default()
    };
    let other = LinkRecord {
        tenant: "mallory".into(),
        version: 0,
        link: own,
    };
    let add = Change::AddLink(Box::new(other));
    it.store.write(None, vec![add]).await.unwrap();
    let id = it.on_network(link.resource_id.as_deref().unwrap()).await;
    assert_eq!(it.users(&link).await, [id]);
    let others = it.store.link("mallory", "shared").await.unwrap();
    assert_eq!(others.link.used_by, Vec::<String>::new());
}

#[tokio::test]
async fn a_rollback_gives_a_link_back() {
    let it = Scalable::new().await;
    let link = it.link("shared").await;
    let id = instance(&it.engine).await;
    it.fail("converge", &INJECTED);
    let op = it
        .engine
        .instantiate(TENANT, &id, request("shared"))
        .await
        .unwrap();
    it.engine.drive(&op).await.unwrap();
    assert_eq!(state(&it.engine, &op).await, FailedTemp);
    assert_eq!(it.users(&link).await, [id]);
    it.engine.rollback(TENANT, &op).await.unwrap();
    it.engine.drive(&op).await.unwrap();
    assert_eq!(state(&it.engine, &op).await, RolledBack);
    assert_eq!(it.users(&link).await, Vec::<String>::new());
    it.delete_link(&link).await.unwrap();
}

#[tokio::test]
async fn another_external_network_is_another_link() {
    let it = Scalable::new().await;
    let (one, two) = (it.link("one").await, it.link("two").await);
    let id = it.on_network("one").await;
    let change = |network: &str| {
        let body = json!({"extVirtualLinks": external(network)});
        (LcmOperationType::ChangeExtConn, body)
    };
    it.fail("converge", &INJECTED);
    let op = begin_on(&it.engine, &id, &change("two")).await.unwrap();
    it.engine.drive(&op).await.unwrap();
    assert_eq!(state(&it.engine, &op).await, FailedTemp);
    for link in [&one, &two] {
        assert_eq!(
            it.users(link).await,
            std::slice::from_ref(&id),
            "{}",
            link.spec.name
        );
    }
    it.engine.rollback(TENANT, &op).await.unwrap();
    it.engine.drive(&op).await.unwrap();
    assert_eq!(state(&it.engine, &op).await, RolledBack);
    assert_eq!(it.users(&one).await, std::slice::from_ref(&id));
    it.delete_link(&two).await.unwrap();
    let two = it.link("two").await;
    let op = begin_on(&it.engine, &id, &change("two")).await.unwrap();
    it.engine.drive(&op).await.unwrap();
    assert_eq!(state(&it.engine, &op).await, Completed);
    assert_eq!(it.users(&two).await, [id]);
    it.delete_link(&one).await.unwrap();
}

#[tokio::test]
async fn a_vim_that_does_not_respond_leaves_the_link_to_the_next_request() {
    let it = Scalable::new().await;
    for after_effect in [false, true] {
        *it.world.fail_after_effect.lock().unwrap() = after_effect;
        it.fail("create_link", &INJECTED);
        let failed = it
            .engine
            .create_link(TENANT, spec("shared"))
            .await
            .unwrap_err();
        assert_eq!(failed.why, Why::Unavailable);
        let known = it.store.link(TENANT, "shared").await.unwrap().link;
        assert_eq!(
            (known.state, &known.resource_id),
            (LinkState::Creating, &None)
        );
        let link = it.link("shared").await;
        assert_eq!((&link.id, link.state), (&known.id, LinkState::Available));
        assert_eq!(it.vim.0.networks().len(), 1);
        it.fail("delete_link", &INJECTED);
        assert_eq!(
            it.delete_link(&link).await.unwrap_err().why,
            Why::Unavailable
        );
        let known = it.store.link(TENANT, "shared").await.unwrap().link;
        assert_eq!(known.state, LinkState::Deleting);
        let refused = it
            .engine
            .create_link(TENANT, spec("shared"))
            .await
            .unwrap_err();
        assert_eq!(refused.why, Why::Conflict);
        it.delete_link(&link).await.unwrap();
        assert_eq!(it.vim.0.networks(), Vec::<String>::new());
    }
}

#[tokio::test]
async fn a_refusal_of_the_vim_leaves_nothing() {
    let it = Scalable::new().await;
    *it.world.fail_after_effect.lock().unwrap() = true;
    it.fail("create_link", &REFUSED);
    let refused = it
        .engine
        .create_link(TENANT, spec("shared"))
        .await
        .unwrap_err();
    assert_eq!(
        (refused.why, refused.code.name),
        (Why::Unprocessable, "test.refused")
    );
    assert!(it.store.link(TENANT, "shared").await.is_err());
    assert_eq!(it.vim.0.networks(), Vec::<String>::new());
    // A network on which somebody else has a port can be used again.
    let link = it.link("shared").await;
    it.fail("delete_link", &REFUSED);
    assert_eq!(it.delete_link(&link).await.unwrap_err().why, Why::Conflict);
    let known = it.store.link(TENANT, "shared").await.unwrap().link;
    assert_eq!(known, link);
}

#[tokio::test]
async fn a_vim_that_breaks_its_api_is_unavailable_and_no_error_of_the_server() {
    let it = Scalable::new().await;
    it.fail("create_link", &BROKEN);
    let failed = it.engine.create_link(TENANT, spec("shared")).await;
    assert_eq!(failed.unwrap_err().why, Why::Unavailable);
    assert!(it.store.link(TENANT, "shared").await.is_err());
    let link = it.link("shared").await;
    it.fail("delete_link", &BROKEN);
    let failed = it.delete_link(&link).await.unwrap_err();
    assert_eq!(failed.why, Why::Unavailable);
    it.delete_link(&link).await.unwrap();
    assert_eq!(it.vim.0.networks(), Vec::<String>::new());
}

#[tokio::test]
async fn a_network_without_a_record_is_an_orphan() {
    let it = Scalable::new().await;
    let link = it.link("shared").await;
    let its = async || {
        let (orphans, _) = it.engine.orphans(TENANT).await.unwrap();
        orphans
            .into_iter()
            .filter_map(|one| one.link_id)
            .collect::<BTreeSet<_>>()
    };
    assert_eq!(its().await, BTreeSet::new());
    let remove = Change::RemoveLink {
        tenant: TENANT.into(),
        id: link.id.clone(),
    };
    it.store.write(None, vec![remove]).await.unwrap();
    // Each VIM of the registry is this one.
    assert_eq!(its().await, BTreeSet::from([link.id]));
}

#[tokio::test]
async fn requests_for_one_link_do_not_overlap() {
    let it = Scalable::new().await;
    *it.world.hang_in.lock().unwrap() = Some("create_link");
    let hanging = it.engine.create_link(TENANT, spec("shared"));
    let second = async {
        it.world.hung.notified().await;
        let same = it.engine.create_link(TENANT, spec("shared")).await;
        let deletion = it.engine.delete_link(TENANT, "shared").await;
        (same.unwrap_err(), deletion.unwrap_err())
    };
    tokio::select! {
        _ = hanging => panic!("the VIM hangs"),
        (same, deletion) = second => for refused in [same, deletion] {
            assert_eq!((refused.why, refused.code.name), (Why::Conflict, "link.busy"));
        }
    }
    // The first request was dropped, as when its client gives up.
    *it.world.hang_in.lock().unwrap() = None;
    assert_eq!(it.link("shared").await.state, LinkState::Available);
}

#[tokio::test]
async fn a_crash_at_any_write_leaves_a_link_that_can_be_completed_and_deleted() {
    let it = Scalable::new().await;
    for after_effect in [false, true] {
        for number in 1.. {
            let stopping = stop_at(it.store.clone(), number, after_effect);
            let first = it.process(stopping.clone());
            let ended = tokio::select! {
                created = first.create_link(TENANT, spec("shared")) => Some(created.unwrap()),
                () = stopping.interceptor().stopped() => None,
            };
            let link = it.link("shared").await;
            let case = format!("creation, write {number} after={after_effect}");
            assert_eq!(link.state, LinkState::Available, "{case}");
            assert_eq!(it.vim.0.networks().len(), 1, "{case}");
            let stopping = stop_at(it.store.clone(), number, after_effect);
            let first = it.process(stopping.clone());
            tokio::select! {
                deleted = first.delete_link(TENANT, &link.id) => deleted.unwrap(),
                () = stopping.interceptor().stopped() => {
                    let again = it.delete_link(&link).await;
                    let is_gone = again.as_ref().is_err_and(|error| error.why == Why::NotFound);
                    assert!(again.is_ok() || is_gone, "deletion, write {number} after={after_effect}");
                }
            }
            assert_eq!(
                it.vim.0.networks(),
                Vec::<String>::new(),
                "deletion, write {number}"
            );
            assert!(it.store.link(TENANT, "shared").await.is_err());
            if ended.is_some() {
                assert!(
                    number > 2,
                    "the record is written before the VIM is called, and after"
                );
                break;
            }
        }
    }
}

#[tokio::test]
async fn a_crash_at_any_write_of_an_operation_leaves_the_right_use() {
    let it = Scalable::new().await;
    let link = it.link("shared").await;
    for after_effect in [false, true] {
        for number in 1.. {
            let case = format!("write {number} after={after_effect}");
            let id = instance(&it.engine).await;
            let op = it
                .engine
                .instantiate(TENANT, &id, request("shared"))
                .await
                .unwrap();
            let has_ended = drive_until(&it, &op, number, after_effect).await;
            assert_eq!(it.users(&link).await, std::slice::from_ref(&id), "{case}");
            assert!(it.delete_link(&link).await.is_err(), "{case}");
            let how = TerminateVnfRequest::default();
            let op = it.engine.terminate(TENANT, &id, how).await.unwrap();
            drive_until(&it, &op, number, after_effect).await;
            assert_eq!(it.users(&link).await, Vec::<String>::new(), "{case}");
            if has_ended {
                assert!(number > 10, "{number} writes");
                break;
            }
        }
    }
    it.delete_link(&link).await.unwrap();
}

/// Drives an operation by a process that ends at a write, then by another one; whether the first came to the end.
async fn drive_until(it: &Scalable, op: &str, number: usize, after_effect: bool) -> bool {
    let stopping = stop_at(it.store.clone(), number, after_effect);
    let first = it.process(stopping.clone());
    let has_ended = tokio::select! {
        driven = first.drive(op) => driven.is_ok(),
        () = stopping.interceptor().stopped() => false,
    };
    let second = it.process(it.store.clone());
    run_to_end(&second, op).await;
    assert_eq!(state(&second, op).await, Completed);
    has_ended
}

#[tokio::test]
async fn a_vim_with_a_link_is_not_removed() {
    let it = Scalable::new().await;
    let link = it.link("shared").await;
    it.terminate(&it.id).await;
    let delete = it.engine.delete_vim(TENANT, CLOUD, None).await;
    assert_eq!(delete.unwrap_err().why, Why::Conflict);
    it.delete_link(&link).await.unwrap();
}
