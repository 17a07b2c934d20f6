//! A claim that the real cluster cannot bind: simulated clusters bind each claim, whatever its class.

use crate::support::{World, deployment, package};
use serde_json::{Value, json};

#[tokio::test]
async fn a_claim_of_a_class_that_does_not_exist_is_reported_with_it() {
    let Some(world) = World::start().await else {
        return;
    };
    let claim = "apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data}
spec: {storageClassName: no-such, accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
";
    let pod = "apiVersion: v1
kind: Pod
metadata: {name: reader}
spec:
  containers: [{name: reader, image: 'localhost/busybox:1', volumeMounts: [{name: data, mountPath: /data}]}]
  volumes: [{name: data, persistentVolumeClaim: {claimName: data}}]
";
    let what = package(
        &[(1, claim), (1, pod), (1, &deployment(1, ""))],
        "",
        json!({}),
    );
    let late = world.instantiate(&what, 8).await.unwrap_err().to_string();
    assert!(late.contains("StorageClass `no-such`"), "{late}");
    assert!(late.contains("not found"), "{late}");
    world.terminate(&what, Value::Null).await.unwrap();
    world.assert_nothing_left().await;
}
