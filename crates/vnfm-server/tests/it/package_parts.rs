//! Packages and their parts: archive, VNFD, manifest, artifacts, ranges of these; and enabling and disabling packages.

use crate::bench::{Bench, INSTANCES, PACKAGES, Response, packed};
use reqwest::Method;
use reqwest::header::{ACCEPT, CONTENT_RANGE, CONTENT_TYPE, ETAG, HeaderName, IF_RANGE, RANGE};
use serde_json::json;
use std::io::{Cursor, Read as _};

async fn got(bench: &Bench, path: &str, headers: &[(HeaderName, &str)]) -> Response {
    let request = bench.request(Method::GET, path);
    let request = headers.iter().fold(request, |request, (name, value)| {
        request.header(name, *value)
    });
    bench.send(request).await
}

/// Names and contents of the files in an archive.
fn unpacked(response: &Response) -> Vec<(String, Vec<u8>)> {
    assert_eq!(
        response.headers[CONTENT_TYPE], "application/zip",
        "{:?}",
        response.headers
    );
    let mut archive = zip::ZipArchive::new(Cursor::new(response.bytes.clone())).unwrap();
    let count = archive.len();
    let read = |index| {
        let mut file = archive.by_index(index).unwrap();
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).unwrap();
        (file.name().unwrap().into_owned(), bytes)
    };
    (0..count).map(read).collect()
}

fn names(response: &Response) -> Vec<String> {
    unpacked(response)
        .into_iter()
        .map(|(name, _)| name)
        .collect()
}

#[tokio::test]
async fn ranges_of_an_archive_add_up_to_it() {
    let bench = Bench::new().await;
    let (id, _) = bench.onboard("vnf-b-cnf").await;
    let path = format!("{PACKAGES}/{id}/package_content");
    let full = bench.get(&path).await;
    let content = packed("vnf-b-cnf");
    assert!(full.status == 200 && full.bytes == content);
    assert_eq!(full.headers["accept-ranges"], "bytes");
    let tag = full.headers[ETAG].to_str().unwrap().to_owned();
    let size = content.len();
    let mut together = Vec::new();
    for range in [
        "bytes=0-99".to_owned(),
        "bytes=100-199".to_owned(),
        "bytes=200-".to_owned(),
    ] {
        let part = got(&bench, &path, &[(RANGE, &range), (IF_RANGE, &tag)]).await;
        assert_eq!(part.status, 206, "{range}");
        let first = together.len();
        let content_range = format!("bytes {first}-{}/{size}", first + part.bytes.len() - 1);
        assert_eq!(part.headers[CONTENT_RANGE], content_range.as_str());
        assert_eq!(part.headers[ETAG], tag.as_str());
        together.extend(part.bytes);
    }
    assert!(together == content);
    let last = got(&bench, &path, &[(RANGE, "bytes=-10")]).await;
    assert!(last.bytes == content[size - 10..]);
    let beyond = got(&bench, &path, &[(RANGE, &format!("bytes={size}-"))]).await;
    assert_eq!(
        (beyond.status, &beyond.body["code"]),
        (416, &json!("request.range"))
    );
    assert_eq!(
        beyond.headers[CONTENT_RANGE],
        format!("bytes */{size}").as_str()
    );
    // A range of another version, several ranges, or another unit returns the full archive.
    for headers in [
        [(RANGE, "bytes=5-"), (IF_RANGE, "\"another\"")],
        [(RANGE, "bytes=0-1,5-6"), (ACCEPT, "application/zip")],
        [(RANGE, "items=5-"), (ACCEPT, "application/octet-stream")],
    ] {
        let response = got(&bench, &path, &headers).await;
        assert!(
            response.status == 200 && response.bytes == content,
            "{headers:?}"
        );
    }
    assert_eq!(
        got(&bench, &path, &[(ACCEPT, "application/json")])
            .await
            .status,
        406
    );
}

#[tokio::test]
async fn a_vnfd_is_served_as_text_or_archive() {
    let bench = Bench::new().await;
    let (single, _) = bench.onboard("vnf-b-cnf").await;
    let (several, _) = bench.onboard("vnf-a-k8s-cluster").await;
    let path = |id: &str, more: &str| format!("{PACKAGES}/{id}/vnfd{more}");
    let text = got(&bench, &path(&single, ""), &[(ACCEPT, "text/plain")]).await;
    assert!(
        text.status == 200 && text.text.contains("tosca_definitions_version"),
        "{text:?}"
    );
    let archive = got(&bench, &path(&single, ""), &[(ACCEPT, "application/zip")]).await;
    assert_eq!(
        names(&archive),
        ["Definitions/vnf-b.yaml", "TOSCA-Metadata/TOSCA.meta"]
    );
    let signed = bench.get(&path(&single, "?include_signatures")).await;
    assert!(names(&signed).contains(&"vnf-b.mf".to_owned()));
    for (path, accept) in [
        (path(&single, "?include_signatures"), "text/plain"),
        (path(&several, ""), "text/plain"),
    ] {
        let refused = got(&bench, &path, &[(ACCEPT, accept)]).await;
        assert_eq!(
            (refused.status, refused.detail().contains("application/zip")),
            (406, true)
        );
    }
    let archive = bench.get(&path(&several, "")).await;
    let all = [
        "Definitions/vnf-a-types.yaml",
        "Definitions/vnf-a.yaml",
        "TOSCA-Metadata/TOSCA.meta",
    ];
    assert_eq!(names(&archive), all);
    assert_eq!(
        bench
            .get(&path(&single, "?include_signatures=yes"))
            .await
            .status,
        400
    );
    assert_eq!(bench.get(&path(&single, "?everything")).await.status, 400);
}

#[tokio::test]
async fn manifest_and_artifacts_are_served_individually_and_as_an_archive() {
    let bench = Bench::new().await;
    let (id, _) = bench.onboard("vnf-b-cnf").await;
    let path = |more: &str| format!("{PACKAGES}/{id}/{more}");
    let manifest = got(&bench, &path("manifest"), &[(ACCEPT, "text/plain")]).await;
    assert!(manifest.status == 200 && manifest.text.contains("Source: Definitions/vnf-b.yaml"));
    // A signature would add its certificate; there is none.
    let same = bench.get(&path("manifest?include_signatures")).await;
    assert_eq!(same.text, manifest.text);
    let order = bench
        .get(&path("artifacts/Files/kubernetes/order.yaml"))
        .await;
    assert!(
        order.status == 200 && order.text.contains("manifests"),
        "{order:?}"
    );
    let size = order.bytes.len();
    let tail = [(RANGE, "bytes=7-")];
    let part = got(
        &bench,
        &path("artifacts/Files/kubernetes/order.yaml"),
        &tail,
    )
    .await;
    assert!(
        part.status == 206 && part.bytes == order.bytes[7..],
        "{part:?}"
    );
    assert_eq!(
        part.headers[CONTENT_RANGE],
        format!("bytes 7-{}/{size}", size - 1).as_str()
    );
    let encoded = bench
        .get(&path("artifacts/Files%2Fkubernetes%2Forder%2Eyaml"))
        .await;
    assert!(encoded.bytes == order.bytes);
    for absent in [
        "artifacts/none",
        "artifacts/Files",
        "artifacts/%2e%2e/secrets.key",
    ] {
        let response = bench.get(&path(absent)).await;
        assert_eq!(response.status, 404, "{absent}: {response:?}");
    }
    artifacts_are_served_together(&bench, &id, &order.bytes).await;
}

/// The archive of all artifacts: the same bytes each time, so that a range of them means something.
async fn artifacts_are_served_together(bench: &Bench, id: &str, order: &[u8]) {
    let path = |more: &str| format!("{PACKAGES}/{id}/{more}");
    let all = bench.get(&path("artifacts")).await;
    let files = unpacked(&all);
    let order_file = ("Files/kubernetes/order.yaml".to_owned(), order.to_vec());
    assert!(files.contains(&order_file), "{:?}", names(&all));
    assert!(
        !names(&all)
            .iter()
            .any(|name| name.starts_with("Definitions/")),
        "{:?}",
        names(&all)
    );
    let tag = all.headers[ETAG].to_str().unwrap();
    let rest = got(
        bench,
        &path("artifacts"),
        &[(RANGE, "bytes=100-"), (IF_RANGE, tag)],
    )
    .await;
    assert!(rest.status == 206 && rest.bytes == all.bytes[100..]);
    let nothing = bench
        .get(&path("artifacts?exclude_all_mano_artifacts"))
        .await;
    assert_eq!(names(&nothing), [""; 0]);
    assert_eq!(
        bench
            .get(&path("artifacts?exclude_all_mano_artifacts=1"))
            .await
            .status,
        400
    );
}

#[tokio::test]
async fn a_package_that_is_not_onboarded_serves_no_content() {
    let bench = Bench::new().await;
    let id = bench.post(PACKAGES, &json!({})).await.id();
    for what in [
        "package_content",
        "vnfd",
        "manifest",
        "artifacts",
        "artifacts/a",
    ] {
        let response = bench.get(&format!("{PACKAGES}/{id}/{what}")).await;
        assert_eq!(
            (response.status, response.detail().contains("ONBOARDED")),
            (409, true),
            "{what}"
        );
        let response = bench.get(&format!("{PACKAGES}/none/{what}")).await;
        assert_eq!(response.status, 404, "{what}");
    }
}

#[tokio::test]
async fn a_disabled_package_allows_no_new_instantiation() {
    let bench = Bench::new().await;
    let request = bench.request_b().await;
    let (id, vnfd) = bench.onboard("vnf-b-cnf").await;
    let path = format!("{PACKAGES}/{id}");
    let patch = async |body: serde_json::Value| {
        let request = bench.request(Method::PATCH, &path);
        let request = request.header(CONTENT_TYPE, "application/merge-patch+json");
        bench.send(request.body(body.to_string())).await
    };
    let (before, running) = (bench.create(&vnfd).await, bench.create(&vnfd).await);
    let instantiate = async |id: &str| {
        bench
            .post(&format!("{INSTANCES}/{id}/instantiate"), &request)
            .await
    };
    let begun = instantiate(&running).await;
    assert_eq!(
        bench.ended(&begun.created_id()).await["operationState"],
        "COMPLETED"
    );

    assert_eq!(
        patch(json!({"operationalState": "ENABLED"})).await.status,
        409,
        "it is already enabled"
    );
    let changed = patch(json!({"operationalState": "DISABLED"})).await;
    assert_eq!(
        (changed.status, changed.body),
        (200, json!({"operationalState": "DISABLED"}))
    );
    assert_eq!(bench.get(&path).await.body["operationalState"], "DISABLED");
    let refused = bench.post(INSTANCES, &json!({"vnfdId": vnfd})).await;
    assert_eq!(
        (refused.status, &refused.body["code"]),
        (422, &json!("request.no-package"))
    );
    let refused = instantiate(&before).await;
    assert_eq!(
        (refused.status, &refused.body["code"]),
        (409, &json!("request.package-disabled"))
    );
    // Existing instances are not affected.
    let heal = bench
        .post(&format!("{INSTANCES}/{running}/heal"), &json!({}))
        .await;
    assert_eq!(
        bench.ended(&heal.created_id()).await["operationState"],
        "COMPLETED"
    );

    assert_eq!(
        patch(json!({"operationalState": "ENABLED"})).await.status,
        200
    );
    let begun = instantiate(&before).await;
    assert_eq!(
        bench.ended(&begun.created_id()).await["operationState"],
        "COMPLETED"
    );
}

#[tokio::test]
async fn user_defined_data_is_merged_and_invalid_changes_are_refused() {
    let bench = Bench::new().await;
    let data = json!({"userDefinedData": {"a": 1, "b": {"c": 2, "d": 3}}});
    let path = format!("{PACKAGES}/{}", bench.post(PACKAGES, &data).await.id());
    let patch = |body: serde_json::Value| bench.request(Method::PATCH, &path).json(&body);
    let changed = bench.send(patch(
        json!({"userDefinedData": {"a": null, "b": {"c": 4}, "e": 5}}),
    ));
    let changed = changed.await;
    let merged = json!({"b": {"c": 4, "d": 3}, "e": 5});
    assert_eq!(
        (changed.status, &changed.body["userDefinedData"]),
        (200, &merged)
    );
    let current = bench.get(&path).await;
    assert_eq!(current.body["userDefinedData"], merged);
    assert_eq!(
        current.headers[ETAG], changed.headers[ETAG],
        "the tag of the new state"
    );
    for (body, status) in [
        (json!({}), 422),
        (json!({"onboardingState": "ONBOARDED"}), 422),
        (json!({"operationalState": "MAYBE"}), 422),
        (json!({"operationalState": "ENABLED"}), 409),
    ] {
        assert_eq!(
            bench.send(patch(body.clone())).await.status,
            status,
            "{body}"
        );
    }
    let since = |tag: &str| patch(json!({"userDefinedData": {"f": 6}})).header("if-match", tag);
    assert_eq!(bench.send(since("\"another\"")).await.status, 412);
    let tag = current.headers[ETAG].to_str().unwrap();
    assert_eq!(bench.send(since(tag)).await.status, 200);
    assert_eq!(
        bench.send(since(tag)).await.status,
        412,
        "the tag is outdated"
    );
}
