//! The status page at `/`: a tenant's instances, operations, and what these wait for. Read-only.

use crate::access::Principal;
use crate::problem::HandlerResult;
use axum::extract::State;
use axum::http::header;
use axum::response::{Html, IntoResponse as _};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest as _, Sha256};
use std::fmt::Write as _;
use vnfm_core::Engine;
use vnfm_core::ports::{InstanceRecord, OpRecord};
use vnfm_core::query::Query;

/// Maximum number of rows per table.
const ROWS: usize = 200;

pub(crate) async fn show(State(engine): State<Engine>, principal: Principal) -> HandlerResult {
    let Principal { tenant, scope, .. } = principal;
    let filter = Query {
        limit: ROWS,
        scope,
        ..Query::default()
    };
    let store = engine.store();
    let instances = store.instances(&tenant, &filter).await?;
    let mut ops = store.ops(&tenant, &filter).await?;
    ops.sort_by_key(|record| std::cmp::Reverse(record.op.start_time));
    let mut page = [HEAD, STYLE, BODY_START].concat();
    table(
        &mut page,
        "VNF instances",
        &["name", "id", "VNFD", "state", "VNFCs", "operation"],
        instances.iter().map(instance),
    );
    let mut rows = Vec::new();
    for record in &ops {
        rows.push(op((&engine, &tenant), record).await);
    }
    table(
        &mut page,
        "Operations",
        &["operation", "id", "instance", "state", "since", "what"],
        rows.into_iter(),
    );
    page.push_str("</body></html>\n");
    let headers = [
        (header::CONTENT_SECURITY_POLICY, policy()),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff".to_owned()),
        (header::REFERRER_POLICY, "no-referrer".to_owned()),
    ];
    Ok((headers, Html(page)).into_response())
}

/// Loading, scripts, forms and framing are forbidden; only our own style is allowed, by its hash.
fn policy() -> String {
    let style = STANDARD.encode(Sha256::digest(STYLE));
    format!(
        "default-src 'none'; style-src 'sha256-{style}'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
}

fn instance(record: &InstanceRecord) -> Vec<String> {
    let vnf = &record.vnf;
    let vnfcs = vnf
        .instantiated_vnf_info
        .as_ref()
        .map_or(0, |info| info.vnfc_resource_info.len());
    vec![
        vnf.vnf_instance_name.clone().unwrap_or_default(),
        vnf.id.clone(),
        vnf.vnfd_id.clone(),
        if vnf.instantiated_vnf_info.is_some() {
            "INSTANTIATED"
        } else {
            "NOT_INSTANTIATED"
        }
        .into(),
        vnfcs.to_string(),
        record.active_op.clone().unwrap_or_default(),
    ]
}

async fn op(at: (&Engine, &str), record: &OpRecord) -> Vec<String> {
    let op = &record.op;
    vec![
        op.operation.to_string(),
        op.id.clone(),
        op.vnf_instance_id.clone(),
        op.operation_state.to_string(),
        op.state_entered_time
            .strftime("%Y-%m-%d %H:%M:%SZ")
            .to_string(),
        status(at, record).await,
    ]
}

/// Why the operation stopped, or what it does and waits for.
async fn status((engine, tenant): (&Engine, &str), record: &OpRecord) -> String {
    if !record.op.operation_state.is_driven() {
        return record
            .op
            .error
            .as_ref()
            .map(|error| error.detail.clone())
            .unwrap_or_default();
    }
    match engine.progress(tenant, &record.op.id).await {
        Ok(progress) => {
            let step = progress.step.unwrap_or_default();
            let waiting = progress
                .waiting
                .map(|waiting| format!(": waits for {}", waiting.for_what));
            step + &waiting
                .or(progress.message.map(|m| format!(": {m}")))
                .unwrap_or_default()
        }
        Err(error) => error.to_string(),
    }
}

fn table(page: &mut String, title: &str, heads: &[&str], rows: impl Iterator<Item = Vec<String>>) {
    let _ = write!(page, "<h2>{}</h2><table><tr>", escape(title));
    for head in heads {
        let _ = write!(page, "<th>{}</th>", escape(head));
    }
    page.push_str("</tr>");
    for row in rows {
        page.push_str("<tr>");
        for cell in row {
            let _ = write!(page, "<td>{}</td>", escape(&cell));
        }
        page.push_str("</tr>\n");
    }
    page.push_str("</table>\n");
}

fn escape(text: &str) -> String {
    text.chars()
        .fold(String::with_capacity(text.len()), |mut out, letter| {
            match letter {
                '&' => out.push_str("&amp;"),
                '<' => out.push_str("&lt;"),
                '>' => out.push_str("&gt;"),
                '"' => out.push_str("&quot;"),
                '\'' => out.push_str("&#39;"),
                other => out.push(other),
            }
            out
        })
}

const HEAD: &str = "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\"><title>vnfm</title>\
<meta http-equiv=\"refresh\" content=\"3\"><style>";
const STYLE: &str = "body{font:14px sans-serif;margin:2em}\
table{border-collapse:collapse}td,th{border:1px solid #ccc;padding:.3em .6em;text-align:left;\
vertical-align:top}th{background:#eee}td{max-width:40em;overflow-wrap:anywhere}";
const BODY_START: &str = "</style></head><body><h1>vnfm</h1>\n";

#[cfg(test)]
mod tests {
    #[test]
    fn text_is_escaped() {
        assert_eq!(
            super::escape("<a href='x'>&"),
            "&lt;a href=&#39;x&#39;&gt;&amp;"
        );
    }
}
