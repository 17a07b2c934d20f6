//! A claim that a `StatefulSet` makes is no object of the package; while it is not bound, it is reported as those are.

use crate::empty_volume_scenarios::{classes, make_class};
use crate::retained_volumes::two_pods;
use crate::support::World;
use serde_json::{Value, json};

#[tokio::test]
async fn a_claim_of_a_stateful_set_is_reported_with_its_class() {
    let Some(world) = World::start().await else {
        return;
    };
    let never = json!({"parameters": {"simulated": "never"}});
    let class = make_class(&world, "pending", never).await;
    let what = two_pods(&class);
    let late = world.instantiate(&what, 6).await.unwrap_err().to_string();
    let claim = format!(
        "PersistentVolumeClaim `data-web-0`: it is not bound to a volume (StorageClass `{class}`)"
    );
    assert!(late.contains(&claim), "{late}");
    assert!(late.contains("StatefulSet `web`"), "{late}");
    world.terminate(&what, Value::Null).await.unwrap();
    world.clean(&classes(&world), &class).await;
    world.assert_nothing_left().await;
}
