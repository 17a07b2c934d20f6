//! Host keys over HTTP: each tenant lists and deletes its own.

use crate::bench::Bench;
use crate::tenants::{pinned, users};
use serde_json::json;

const HOST_KEYS: &str = "/vnfm/v1/hostkeys";

#[tokio::test]
async fn only_the_tenant_of_a_host_key_lists_and_deletes_it() {
    let bench = Bench::with(users("")).await;
    let (acme, other) = (
        pinned(&bench, "acme", "v").await,
        pinned(&bench, "other", "v").await,
    );
    assert_ne!(
        acme, other,
        "tenants have separate keys for the same server id and VIM id"
    );
    bench.log_in("acme-admin");
    let listed = bench.get(HOST_KEYS).await.body;
    let fingerprint = "SHA256:T7SvZ2cslqpPj6nKzitCBHHlpVF3r3MvLwmFL0fk0IE (ssh-ed25519)";
    let expected =
        json!({"id": acme, "host": "server", "vimId": "v", "fingerprints": [fingerprint]});
    assert_eq!(listed, json!([expected]));
    assert_eq!(
        bench.delete(&format!("{HOST_KEYS}/{other}")).await.status,
        404
    );
    assert_eq!(
        bench.delete(&format!("{HOST_KEYS}/{acme}")).await.status,
        204
    );
    assert_eq!(bench.get(HOST_KEYS).await.body, json!([]));
    assert_eq!(
        bench.delete(&format!("{HOST_KEYS}/{acme}")).await.status,
        404
    );
    bench.log_in("other-admin");
    assert_eq!(bench.get(HOST_KEYS).await.body[0]["id"], json!(other));
}
