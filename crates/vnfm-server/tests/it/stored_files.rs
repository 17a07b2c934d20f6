//! Files that are stored with an instance, and its schedule, over HTTP.

use crate::bench::{Bench, INSTANCES, Response, Setup};
use axum::http::Method;
use serde_json::json;

async fn put(bench: &Bench, path: &str, content: &'static [u8]) -> Response {
    let request = bench.request(Method::PUT, path);
    let request = request.header("content-type", "application/octet-stream");
    bench.send(request.body(content)).await
}

async fn instance(bench: &Bench) -> String {
    let (_, vnfd) = bench.onboard("vnf-b-cnf").await;
    bench.create(&vnfd).await
}

#[tokio::test]
async fn a_file_is_stored_listed_fetched_and_deleted_with_its_instance() {
    let bench = Bench::new().await;
    let id = instance(&bench).await;
    let files = format!("/vnfm/v1/vnf_instances/{id}/files");
    let file = format!("{files}/a.db.enc");
    assert_eq!(bench.get(&files).await.body, json!([]));
    let stored = put(&bench, &file, b"abc").await;
    assert_eq!(stored.status, 200, "{stored:?}");
    let hash = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
    assert_eq!(
        (&stored.body["bytes"], &stored.body["sha256"]),
        (&json!(3), &json!(hash))
    );
    assert_eq!(bench.get(&files).await.body, json!([stored.body]));
    let read = bench.get(&file).await;
    assert_eq!((read.status, &*read.bytes), (200, &b"abc"[..]));
    let part = bench
        .request(Method::GET, &file)
        .header("range", "bytes=1-");
    let part = bench.send(part).await;
    assert_eq!((part.status, &*part.bytes), (206, &b"bc"[..]));
    for (path, status) in [
        (format!("{files}/none"), 404),
        (format!("{files}/a.stored"), 422),
        ("/vnfm/v1/vnf_instances/none/files".into(), 404),
        ("/vnfm/v1/vnf_instances/none/files/a".into(), 404),
    ] {
        let response = bench.get(&path).await;
        assert_eq!(response.status, status, "{path}: {response:?}");
    }
    assert_eq!(
        put(&bench, &format!("{files}/.hidden"), b"x").await.status,
        422
    );
    assert_eq!(bench.delete(&file).await.status, 204);
    assert_eq!(bench.delete(&file).await.status, 404);
    put(&bench, &file, b"abc").await;
    assert!(bench.stored_files().exists());
    assert_eq!(bench.delete(&format!("{INSTANCES}/{id}")).await.status, 204);
    let left = bench.stored_files().read_dir().unwrap().count();
    assert_eq!(left, 0, "the files went with the instance");
}

#[tokio::test]
async fn a_file_that_does_not_fit_is_refused_before_it_is_received() {
    let setup = Setup {
        disk_reserve: 1 << 60,
        ..Setup::default()
    };
    let bench = Bench::with(setup).await;
    let id = instance(&bench).await;
    let file = format!("/vnfm/v1/vnf_instances/{id}/files/a");
    let refused = put(&bench, &file, b"abc").await;
    assert_eq!(
        (refused.status, &refused.body["code"]),
        (507, &json!("file.no-space"))
    );
}

#[tokio::test]
async fn a_schedule_is_refused_until_its_operation_is_possible() {
    let bench = Bench::new().await;
    let id = instance(&bench).await;
    let schedule = format!("/vnfm/v1/vnf_instances/{id}/schedule");
    assert_eq!(bench.get(&schedule).await.status, 404);
    assert_eq!(bench.delete(&schedule).await.status, 404);
    let put = async |body| {
        let request = bench.request(Method::PUT, &schedule).json(&body);
        bench.send(request).await
    };
    let start = json!({"changeStateTo": "STARTED"});
    let refused = put(json!({"everySeconds": 3600, "request": start})).await;
    assert_eq!(refused.status, 409, "it is not instantiated: {refused:?}");
    for (body, words) in [
        (
            json!({"everySeconds": 59, "request": start}),
            "60 to 2678400",
        ),
        (json!({"everySeconds": 3600}), "request"),
        (
            json!({"everySeconds": -1, "request": start}),
            "everySeconds",
        ),
        (
            json!({"every": 1, "everySeconds": 3600, "request": start}),
            "every",
        ),
    ] {
        let refused = put(body.clone()).await;
        assert_eq!(refused.status, 422, "{body}: {refused:?}");
        assert!(refused.detail().contains(words), "{refused:?}");
    }
}
