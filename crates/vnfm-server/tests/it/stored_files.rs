//! Files that are stored with an instance, and its schedule, over HTTP.

use crate::bench::{Bench, INSTANCES, Response, Setup};
use crate::interrupted_uploads::until;
use crate::tenants::users;
use axum::http::Method;
use futures::StreamExt as _;
use futures::future::join_all;
use futures::stream;
use serde_json::json;
use std::io;

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

/// However many files a tenant stores at once, and whatever another tenant may store.
#[tokio::test]
async fn uploads_at_once_do_not_exceed_the_quota_of_their_tenant() {
    let more =
        "quota: {stored_file_bytes: 100}\ntenants: {other: {quota: {stored_file_bytes: 10}}}";
    let bench = Bench::with(users(more)).await;
    let contents: [(&str, &str, &[u8]); 2] = [
        ("acme", "have 80 bytes, and may have 100", &[7; 40]),
        ("other", "have 8 bytes, and may have 10", &[7; 4]),
    ];
    for (tenant, words, content) in contents {
        bench.log_in(&format!("{tenant}-admin"));
        let id = instance(&bench).await;
        let file = |number: u32| format!("/vnfm/v1/vnf_instances/{id}/files/{number}");
        let paths: Vec<_> = (0..8).map(file).collect();
        let responses = join_all(paths.iter().map(|path| put(&bench, path, content))).await;
        let stored = responses.iter().filter(|response| response.status == 200);
        assert_eq!(stored.count(), 2, "{responses:?}");
        for refused in responses.iter().filter(|response| response.status != 200) {
            assert_eq!(
                (refused.status, &refused.body["code"]),
                (403, &json!("file.quota")),
                "{refused:?}"
            );
        }
        let refused = put(&bench, &file(9), content).await;
        assert!(refused.detail().contains(words), "{refused:?}");
        let next = refused.body["next"].as_str().unwrap();
        assert!(next.contains("access.quota.stored_file_bytes"), "{next}");
        let used = bench.app.engine().store().usage(tenant).await.unwrap();
        assert_eq!(used.stored_file_bytes, 2 * content.len() as u64);
        let files = format!("/vnfm/v1/vnf_instances/{id}/files");
        let listed = bench.get(&files).await.body;
        let name = listed[0]["name"].as_str().unwrap();
        let stored = format!("/vnfm/v1/vnf_instances/{id}/files/{name}");
        assert_eq!(bench.delete(&stored).await.status, 204);
        assert_eq!(put(&bench, &file(9), content).await.status, 200);
        let instance = format!("{INSTANCES}/{id}");
        assert_eq!(bench.delete(&instance).await.status, 204);
        let used = bench.app.engine().store().usage(tenant).await.unwrap();
        assert_eq!(used.stored_file_bytes, 0, "it went with the instance");
    }
}

#[tokio::test]
async fn an_upload_that_breaks_off_gives_back_what_it_reserved() {
    let bench = Bench::with(users("quota: {stored_file_bytes: 100}")).await;
    bench.log_in("acme-admin");
    let id = instance(&bench).await;
    let file = format!("/vnfm/v1/vnf_instances/{id}/files/a");
    let half = stream::once(async { Ok::<_, io::Error>(vec![7; 50]) });
    let half = reqwest::Body::wrap_stream(half.chain(stream::pending()));
    let upload = bench
        .request(Method::PUT, &file)
        .header("content-type", "application/octet-stream")
        .header("content-length", 90)
        .body(half);
    let begun = async {
        let folder = bench.stored_files().join(&id);
        while !folder
            .read_dir()
            .is_ok_and(|mut files| files.next().is_some())
        {
            tokio::task::yield_now().await;
        }
    };
    tokio::select! {
        () = begun => {}
        response = bench.send(upload) => panic!("{response:?}"),
    }
    until("the server notices that the client is gone", async || {
        let stored = put(&bench, &file, &[7; 90]).await;
        (stored.status == 200).then_some(())
    })
    .await;
    let left = bench.stored_files().join(&id).read_dir().unwrap();
    assert_eq!(left.count(), 2, "the file and its description");
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
