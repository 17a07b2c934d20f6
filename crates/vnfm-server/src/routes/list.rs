//! Lists of the standard's resources: filtered, cut to the attributes that are wanted, in pages; or, where the server
//! is configured so, whole in one answer, which is read and sent piece by piece.

use crate::access::Principal;
use crate::problem::Answer;
use crate::query::Asked;
use crate::state::App;
use crate::view::{self, Root, Shown};
use axum::body::{Body, Bytes};
use axum::extract::{RawQuery, State};
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use futures::stream;
use serde::Serialize;
use serde_json::Value;
use std::sync::atomic::Ordering;
use vnfm_core::ports::{InstanceRecord, OpRecord, PackageRecord, StoreError, SubscriptionRecord};
use vnfm_core::query::{Filter, Query, Selector};
use vnfm_types::shape::{
    LCCN_SUBSCRIPTIONS, Resource, VNF_INSTANCES, VNF_INSTANCES_V1, VNF_LCM_OP_OCCS,
    VNF_LCM_OP_OCCS_V1, VNF_PACKAGES,
};
use vnfm_types::v1::ApiVersion;
use vnfm_types::{LccnSubscription, VnfInstance, VnfLcmOpOcc, VnfPkgInfo};

/// How many entries of a whole list are in memory at once.
const PIECE: usize = 100;

/// A resource that has a list.
pub(super) trait Listed: Send + Sync + 'static {
    /// What the store keeps of it.
    type Record: Clone + Send;
    /// What is shown.
    type Shown: Serialize;

    /// What it is in the version that the client speaks.
    fn resource(edition: ApiVersion) -> &'static Resource;
    /// Where it is for the client.
    fn uri(root: &Root) -> String;
    fn read(
        app: &App,
        tenant: &str,
        query: &Query,
    ) -> impl Future<Output = Result<Vec<Self::Record>, StoreError>> + Send;
    fn show(record: Self::Record, root: &Root) -> Self::Shown;
    fn id(record: &Self::Record) -> &str;
}

/// `vnf_instances` (SOL003 5.4.2.3.2).
pub(super) struct Instances;

impl Listed for Instances {
    type Record = InstanceRecord;
    type Shown = Shown<VnfInstance>;

    fn resource(edition: ApiVersion) -> &'static Resource {
        match edition {
            ApiVersion::V1 => &VNF_INSTANCES_V1,
            ApiVersion::V2 => &VNF_INSTANCES,
        }
    }
    fn uri(root: &Root) -> String {
        format!("{}/vnf_instances", root.lcm())
    }
    async fn read(
        app: &App,
        tenant: &str,
        query: &Query,
    ) -> Result<Vec<InstanceRecord>, StoreError> {
        app.engine.store().instances(tenant, query).await
    }
    fn show(record: InstanceRecord, root: &Root) -> Shown<VnfInstance> {
        view::instance(record, root)
    }
    fn id(record: &InstanceRecord) -> &str {
        &record.vnf.id
    }
}

/// `vnf_lcm_op_occs` (SOL003 5.4.12.3.2).
pub(super) struct Ops;

impl Listed for Ops {
    type Record = OpRecord;
    type Shown = Shown<VnfLcmOpOcc>;

    fn resource(edition: ApiVersion) -> &'static Resource {
        match edition {
            ApiVersion::V1 => &VNF_LCM_OP_OCCS_V1,
            ApiVersion::V2 => &VNF_LCM_OP_OCCS,
        }
    }
    fn uri(root: &Root) -> String {
        format!("{}/vnf_lcm_op_occs", root.lcm())
    }
    async fn read(app: &App, tenant: &str, query: &Query) -> Result<Vec<OpRecord>, StoreError> {
        app.engine.store().ops(tenant, query).await
    }
    fn show(record: OpRecord, root: &Root) -> Shown<VnfLcmOpOcc> {
        view::op(record, root)
    }
    fn id(record: &OpRecord) -> &str {
        &record.op.id
    }
}

/// `vnf_packages` (SOL005 9.4.2.3.2).
pub(super) struct Packages;

impl Listed for Packages {
    type Record = PackageRecord;
    type Shown = VnfPkgInfo;

    fn resource(_: ApiVersion) -> &'static Resource {
        &VNF_PACKAGES
    }
    fn uri(root: &Root) -> String {
        format!("{}/vnfpkgm/v2/vnf_packages", root.url)
    }
    async fn read(
        app: &App,
        tenant: &str,
        query: &Query,
    ) -> Result<Vec<PackageRecord>, StoreError> {
        app.engine.store().package_records(tenant, query).await
    }
    fn show(record: PackageRecord, root: &Root) -> VnfPkgInfo {
        view::package(record, root)
    }
    fn id(record: &PackageRecord) -> &str {
        &record.info.id
    }
}

/// `subscriptions` (SOL003 5.4.18.3.2).
pub(super) struct Subscriptions;

impl Listed for Subscriptions {
    type Record = SubscriptionRecord;
    type Shown = Shown<LccnSubscription>;

    fn resource(_: ApiVersion) -> &'static Resource {
        &LCCN_SUBSCRIPTIONS
    }
    fn uri(root: &Root) -> String {
        format!("{}/subscriptions", root.lcm())
    }
    async fn read(
        app: &App,
        tenant: &str,
        query: &Query,
    ) -> Result<Vec<SubscriptionRecord>, StoreError> {
        app.engine.store().subscriptions(tenant, query).await
    }
    fn show(record: SubscriptionRecord, root: &Root) -> Shown<LccnSubscription> {
        view::subscription(record, root)
    }
    fn id(record: &SubscriptionRecord) -> &str {
        &record.subscription.id
    }
}

/// Answers with a page, or with the whole.
pub(super) async fn list<L: Listed>(
    State(app): State<App>,
    principal: Principal,
    root: Root,
    RawQuery(raw): RawQuery,
) -> Answer {
    let asked = Asked::read(L::resource(root.api_version), raw.as_deref())?;
    match app.page.load(Ordering::Relaxed) {
        0 => whole::<L>((app, principal), root, asked).await,
        most => page::<L>((&app, &principal), &root, &asked, most).await,
    }
}

/// One entry more than is shown is read, so that we know of a next page.
async fn page<L: Listed>(
    (app, principal): (&App, &Principal),
    root: &Root,
    asked: &Asked,
    most: usize,
) -> Answer {
    let query = asked.query(most + 1, &principal.only);
    let mut records = found::<L>((app, &principal.tenant), root, &asked.served, query).await?;
    let more = records.len() > most;
    records.truncate(most);
    let last = records
        .last()
        .map(|record| L::id(record).to_owned())
        .filter(|_| more);
    let mut text = vec![b'['];
    write::<L>(records, root, &asked.selector, &mut text);
    text.push(b']');
    let mut response = json(Body::from(text));
    if let Some(last) = last {
        let link = asked.next(&L::uri(root), &last);
        if let Ok(link) = HeaderValue::from_str(&link) {
            response.headers_mut().insert(header::LINK, link);
        }
    }
    Ok(response)
}

/// As many entries as are asked for of those with the links that are asked for. Links are made when an entry is served,
/// so the store is asked for more until there are enough, or no more.
async fn found<L: Listed>(
    (app, tenant): (&App, &str),
    root: &Root,
    served: &Filter,
    query: Query,
) -> Result<Vec<L::Record>, StoreError> {
    if served.0.is_empty() {
        return L::read(app, tenant, &query).await;
    }
    let is_served = |record: &L::Record| {
        let shown = serde_json::to_value(L::show(record.clone(), root)).unwrap_or_default();
        served.holds(&shown)
    };
    let wanted = query.limit;
    let mut query = Query {
        limit: PIECE,
        ..query
    };
    let mut found = Vec::new();
    loop {
        let records = L::read(app, tenant, &query).await?;
        let is_last = records.len() < query.limit;
        query.after = records
            .last()
            .map(|record| L::id(record).to_owned())
            .or(query.after);
        found.extend(records.into_iter().filter(is_served));
        if is_last || found.len() >= wanted {
            found.truncate(wanted);
            return Ok(found);
        }
    }
}

/// What is left of a whole list.
struct Rest {
    app: App,
    tenant: String,
    root: Root,
    selector: Selector,
    served: Filter,
    /// The next piece; `None` once the last one was sent.
    next: Option<Query>,
    opened: bool,
}

/// The first piece is read before anything is answered, so that what refuses it has its status; where a later one
/// cannot be read, the connection ends in the middle of the list.
async fn whole<L: Listed>((app, who): (App, Principal), root: Root, asked: Asked) -> Answer {
    let (next, tenant) = (Some(asked.query(PIECE, &who.only)), who.tenant);
    let Asked {
        selector, served, ..
    } = asked;
    let mut rest = Rest {
        app,
        tenant,
        root,
        selector,
        served,
        next,
        opened: false,
    };
    let first = piece::<L>(&mut rest).await?;
    let others = stream::unfold(rest, |mut rest| async {
        rest.next.is_some().then_some(())?;
        let piece = piece::<L>(&mut rest).await;
        if piece.is_err() {
            rest.next = None;
        }
        Some((piece, rest))
    });
    let first = stream::once(std::future::ready(Ok(first)));
    Ok(json(Body::from_stream(futures::StreamExt::chain(
        first, others,
    ))))
}

/// The next piece of a list as JSON, with the brackets that belong to it.
async fn piece<L: Listed>(rest: &mut Rest) -> Result<Bytes, StoreError> {
    let Some(query) = rest.next.take() else {
        return Ok(Bytes::new());
    };
    let of = (&rest.app, rest.tenant.as_str());
    let records = found::<L>(of, &rest.root, &rest.served, query.clone()).await?;
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

/// Entries as JSON, with commas between them.
fn write<L: Listed>(records: Vec<L::Record>, root: &Root, selector: &Selector, text: &mut Vec<u8>) {
    for (number, record) in records.into_iter().enumerate() {
        text.extend((number > 0).then_some(b','));
        let shown = L::show(record, root);
        if selector.keeps_all() {
            append(text, &shown);
        } else {
            let mut shown = serde_json::to_value(&shown).unwrap_or_default();
            selector.apply(L::resource(root.api_version), &mut shown);
            append::<Value>(text, &shown);
        }
    }
}

/// What we show is always JSON, and memory takes all of it.
fn append<T: Serialize>(text: &mut Vec<u8>, shown: &T) {
    if let Err(error) = serde_json::to_writer(text, shown) {
        tracing::error!(%error, "an entry of a list cannot be written");
    }
}

fn json(body: Body) -> Response {
    let kind = HeaderValue::from_static("application/json");
    ([(header::CONTENT_TYPE, kind)], body).into_response()
}
