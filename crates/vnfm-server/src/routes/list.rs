//! Lists of the standard's resources, of shared virtual links and of retained volumes: filtered, reduced to the requested attributes, in pages. If paging is disabled,
//! the full list is read and sent in chunks.

use crate::access::Principal;
use crate::problem::HandlerResult;
use crate::query::ListQuery;
use crate::state::App;
use crate::view::{self, InstanceWithTasks, Root, Versioned};
use axum::body::{Body, Bytes};
use axum::extract::{RawQuery, State};
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use futures::stream;
use serde::Serialize;
use serde_json::{Value, json};
use std::sync::atomic::Ordering;
use vnfm_core::Engine;
use vnfm_core::ports::{
    LinkRecord, OpRecord, PackageRecord, SnapshotRecord, StoreError, SubscriptionRecord,
    VolumeRecord,
};
use vnfm_core::query::{Filter, Query, Selector};
use vnfm_core::to_json_or_log;
use vnfm_types::shape::{
    LCCN_SUBSCRIPTIONS, RETAINED_VOLUMES, Resource, SHARED_LINKS, VNF_INSTANCES, VNF_INSTANCES_V1,
    VNF_LCM_OP_OCCS, VNF_LCM_OP_OCCS_V1, VNF_PACKAGES, VNF_SNAPSHOTS,
};
use vnfm_types::v1::ApiVersion;
use vnfm_types::{
    LccnSubscription, RetainedVolume, SharedLink, VnfInstance, VnfLcmOpOcc, VnfPkgInfo,
    VnfSnapshotInfo,
};

/// Entries per chunk of a full list, to bound memory.
const CHUNK: usize = 100;

/// A resource with a list.
pub(super) trait ListResource: Send + Sync + 'static {
    /// The record that the store returns.
    type Record: Clone + Send;
    /// The representation that the response contains.
    type Shown: Serialize;

    /// The attributes in an API version.
    fn resource(api_version: ApiVersion) -> &'static Resource;
    /// URI of the list for clients.
    fn uri(root: &Root) -> String;
    fn read(
        engine: &Engine,
        tenant: &str,
        query: &Query,
    ) -> impl Future<Output = Result<Vec<Self::Record>, StoreError>> + Send;
    fn show(record: Self::Record, root: &Root) -> Self::Shown;
    fn id(record: &Self::Record) -> &str;
}

/// The list `vnf_instances` (SOL003 5.4.2.3.2).
pub(super) struct Instances;

impl ListResource for Instances {
    type Record = InstanceWithTasks;
    type Shown = Versioned<VnfInstance>;

    fn resource(api_version: ApiVersion) -> &'static Resource {
        match api_version {
            ApiVersion::V1 => &VNF_INSTANCES_V1,
            ApiVersion::V2 => &VNF_INSTANCES,
        }
    }
    fn uri(root: &Root) -> String {
        format!("{}/vnf_instances", root.lcm())
    }
    async fn read(
        engine: &Engine,
        tenant: &str,
        query: &Query,
    ) -> Result<Vec<InstanceWithTasks>, StoreError> {
        let mut all = Vec::new();
        for record in engine.store().instances(tenant, query).await? {
            all.push(InstanceWithTasks::new(engine, record).await);
        }
        Ok(all)
    }
    fn show(shown: InstanceWithTasks, root: &Root) -> Versioned<VnfInstance> {
        view::instance(shown, root)
    }
    fn id(shown: &InstanceWithTasks) -> &str {
        &shown.record.vnf.id
    }
}

/// The list `vnf_lcm_op_occs` (SOL003 5.4.12.3.2).
pub(super) struct Ops;

impl ListResource for Ops {
    type Record = OpRecord;
    type Shown = Versioned<VnfLcmOpOcc>;

    fn resource(api_version: ApiVersion) -> &'static Resource {
        match api_version {
            ApiVersion::V1 => &VNF_LCM_OP_OCCS_V1,
            ApiVersion::V2 => &VNF_LCM_OP_OCCS,
        }
    }
    fn uri(root: &Root) -> String {
        format!("{}/vnf_lcm_op_occs", root.lcm())
    }
    async fn read(
        engine: &Engine,
        tenant: &str,
        query: &Query,
    ) -> Result<Vec<OpRecord>, StoreError> {
        engine.store().ops(tenant, query).await
    }
    fn show(record: OpRecord, root: &Root) -> Versioned<VnfLcmOpOcc> {
        view::op(record, root)
    }
    fn id(record: &OpRecord) -> &str {
        &record.op.id
    }
}

/// The list `vnf_snapshots` (SOL003 5.4.23.3.2).
pub(super) struct Snapshots;

impl ListResource for Snapshots {
    type Record = SnapshotRecord;
    type Shown = VnfSnapshotInfo;

    fn resource(_: ApiVersion) -> &'static Resource {
        &VNF_SNAPSHOTS
    }
    fn uri(root: &Root) -> String {
        format!("{}/vnf_snapshots", root.lcm())
    }
    async fn read(
        engine: &Engine,
        tenant: &str,
        query: &Query,
    ) -> Result<Vec<SnapshotRecord>, StoreError> {
        engine.store().snapshots(tenant, query).await
    }
    fn show(record: SnapshotRecord, root: &Root) -> VnfSnapshotInfo {
        view::snapshot(record, root)
    }
    fn id(record: &SnapshotRecord) -> &str {
        &record.info.id
    }
}

/// The list `vnf_packages` (SOL005 9.4.2.3.2).
pub(super) struct Packages;

impl ListResource for Packages {
    type Record = PackageRecord;
    type Shown = VnfPkgInfo;

    fn resource(_: ApiVersion) -> &'static Resource {
        &VNF_PACKAGES
    }
    fn uri(root: &Root) -> String {
        format!("{}/vnfpkgm/v2/vnf_packages", root.url)
    }
    async fn read(
        engine: &Engine,
        tenant: &str,
        query: &Query,
    ) -> Result<Vec<PackageRecord>, StoreError> {
        engine.store().package_records(tenant, query).await
    }
    fn show(record: PackageRecord, root: &Root) -> VnfPkgInfo {
        view::package(record, root)
    }
    fn id(record: &PackageRecord) -> &str {
        &record.info.id
    }
}

/// The list of shared virtual links, of our own API.
pub(super) struct Links;

impl ListResource for Links {
    type Record = LinkRecord;
    type Shown = SharedLink;

    fn resource(_: ApiVersion) -> &'static Resource {
        &SHARED_LINKS
    }
    fn uri(root: &Root) -> String {
        format!("{}/vnfm/v1/links", root.url)
    }
    async fn read(
        engine: &Engine,
        tenant: &str,
        query: &Query,
    ) -> Result<Vec<LinkRecord>, StoreError> {
        engine.store().links(tenant, query).await
    }
    fn show(record: LinkRecord, _: &Root) -> SharedLink {
        record.link
    }
    fn id(record: &LinkRecord) -> &str {
        &record.link.id
    }
}

/// The list of retained volumes, of our own API.
pub(super) struct Volumes;

impl ListResource for Volumes {
    type Record = VolumeRecord;
    type Shown = RetainedVolume;

    fn resource(_: ApiVersion) -> &'static Resource {
        &RETAINED_VOLUMES
    }
    fn uri(root: &Root) -> String {
        format!("{}/vnfm/v1/volumes", root.url)
    }
    async fn read(
        engine: &Engine,
        tenant: &str,
        query: &Query,
    ) -> Result<Vec<VolumeRecord>, StoreError> {
        engine.store().volumes(tenant, query).await
    }
    fn show(record: VolumeRecord, _: &Root) -> RetainedVolume {
        record.volume
    }
    fn id(record: &VolumeRecord) -> &str {
        &record.volume.id
    }
}

/// The list `subscriptions` (SOL003 5.4.18.3.2).
pub(super) struct Subscriptions;

impl ListResource for Subscriptions {
    type Record = SubscriptionRecord;
    type Shown = Versioned<LccnSubscription>;

    fn resource(_: ApiVersion) -> &'static Resource {
        &LCCN_SUBSCRIPTIONS
    }
    fn uri(root: &Root) -> String {
        format!("{}/subscriptions", root.lcm())
    }
    async fn read(
        engine: &Engine,
        tenant: &str,
        query: &Query,
    ) -> Result<Vec<SubscriptionRecord>, StoreError> {
        engine.store().subscriptions(tenant, query).await
    }
    fn show(record: SubscriptionRecord, root: &Root) -> Versioned<LccnSubscription> {
        view::subscription(record, root)
    }
    fn id(record: &SubscriptionRecord) -> &str {
        &record.subscription.id
    }
}

/// Responds with one page, or with the full list if paging is disabled.
pub(super) async fn list<L: ListResource>(
    State(app): State<App>,
    principal: Principal,
    root: Root,
    RawQuery(raw): RawQuery,
) -> HandlerResult {
    let query = ListQuery::read(L::resource(root.api_version), raw.as_deref())?;
    match app.page_size.load(Ordering::Relaxed) {
        0 => full_list::<L>((app.engine.clone(), principal), root, query).await,
        size => page::<L>((&app.engine, &principal), &root, &query, size).await,
    }
}

/// Reads one entry more than the page size, to know whether there is a next page.
async fn page<L: ListResource>(
    (engine, principal): (&Engine, &Principal),
    root: &Root,
    list_query: &ListQuery,
    size: usize,
) -> HandlerResult {
    let query = list_query.query(size + 1, &principal.scope);
    let mut records =
        read_matching::<L>((engine, &principal.tenant), root, &list_query.served, query).await?;
    let more = records.len() > size;
    records.truncate(size);
    let last = records
        .last()
        .map(|record| L::id(record).to_owned())
        .filter(|_| more);
    let mut text = vec![b'['];
    write::<L>(records, root, &list_query.selector, &mut text);
    text.push(b']');
    let mut response = json(Body::from(text));
    if let Some(last) = last {
        let link = list_query.next(&L::uri(root), &last);
        if let Ok(link) = HeaderValue::from_str(&link) {
            response.headers_mut().insert(header::LINK, link);
        }
    }
    Ok(response)
}

/// Reads the requested number of entries that match the filter on links. Links are generated at serving time, so this
/// reads from the store until there are enough entries, or no more.
async fn read_matching<L: ListResource>(
    (engine, tenant): (&Engine, &str),
    root: &Root,
    served: &Filter,
    query: Query,
) -> Result<Vec<L::Record>, StoreError> {
    if served.0.is_empty() {
        return L::read(engine, tenant, &query).await;
    }
    let matches = |record: &L::Record| {
        let value = to_json_or_log("an entry of a list", &L::show(record.clone(), root));
        value.is_some_and(|value| served.holds(&value))
    };
    let requested = query.limit;
    let mut query = Query {
        limit: CHUNK,
        ..query
    };
    let mut found = Vec::new();
    loop {
        let records = L::read(engine, tenant, &query).await?;
        let is_last = records.len() < query.limit;
        query.after = records
            .last()
            .map(|record| L::id(record).to_owned())
            .or(query.after);
        found.extend(records.into_iter().filter(matches));
        if is_last || found.len() >= requested {
            found.truncate(requested);
            return Ok(found);
        }
    }
}

/// The part of a full list that is not sent yet.
struct Remaining {
    engine: Engine,
    tenant: String,
    root: Root,
    selector: Selector,
    served: Filter,
    /// The query for the next chunk; `None` after the last one.
    next: Option<Query>,
    opened: bool,
}

/// Reads the first chunk before responding, so that its errors get a proper status. If a later chunk fails, the
/// connection breaks off within the list.
async fn full_list<L: ListResource>(
    (engine, principal): (Engine, Principal),
    root: Root,
    query: ListQuery,
) -> HandlerResult {
    let (next, tenant) = (Some(query.query(CHUNK, &principal.scope)), principal.tenant);
    let ListQuery {
        selector, served, ..
    } = query;
    let mut rest = Remaining {
        engine,
        tenant,
        root,
        selector,
        served,
        next,
        opened: false,
    };
    let first = chunk::<L>(&mut rest).await?;
    let others = stream::unfold(rest, |mut rest| async {
        rest.next.is_some().then_some(())?;
        let chunk = chunk::<L>(&mut rest).await;
        if chunk.is_err() {
            rest.next = None;
        }
        Some((chunk, rest))
    });
    let first = stream::once(std::future::ready(Ok(first)));
    Ok(json(Body::from_stream(futures::StreamExt::chain(
        first, others,
    ))))
}

/// The next chunk of the list as JSON, with its brackets and commas.
async fn chunk<L: ListResource>(rest: &mut Remaining) -> Result<Bytes, StoreError> {
    let Some(query) = rest.next.take() else {
        return Ok(Bytes::new());
    };
    let list = (&rest.engine, rest.tenant.as_str());
    let records = read_matching::<L>(list, &rest.root, &rest.served, query.clone()).await?;
    let (is_last, is_empty) = (records.len() < query.limit, records.is_empty());
    let last = records.last().map(|record| L::id(record).to_owned());
    let mut text = Vec::new();
    text.extend((!rest.opened).then_some(b'['));
    text.extend((rest.opened && !is_empty).then_some(b','));
    write::<L>(records, &rest.root, &rest.selector, &mut text);
    text.extend(is_last.then_some(b']'));
    rest.opened = true;
    rest.next = (!is_last).then_some(Query {
        after: last,
        ..query
    });
    Ok(text.into())
}

/// Appends entries as JSON, separated by commas.
fn write<L: ListResource>(
    records: Vec<L::Record>,
    root: &Root,
    selector: &Selector,
    text: &mut Vec<u8>,
) {
    for (number, record) in records.into_iter().enumerate() {
        let entry = L::show(record, root);
        text.extend((number > 0).then_some(b','));
        if selector.keeps_all() {
            append(text, &entry);
        } else {
            let mut entry = to_json_or_log("an entry of a list", &entry).unwrap_or(json!({}));
            selector.apply(L::resource(root.api_version), &mut entry);
            append::<Value>(text, &entry);
        }
    }
}

/// Serialization and memory writes do not fail in practice.
fn append<T: Serialize>(text: &mut Vec<u8>, entry: &T) {
    if let Err(error) = serde_json::to_writer(text, entry) {
        tracing::error!(%error, "cannot serialize an entry of a list");
    }
}

fn json(body: Body) -> Response {
    let kind = HeaderValue::from_static("application/json");
    ([(header::CONTENT_TYPE, kind)], body).into_response()
}
