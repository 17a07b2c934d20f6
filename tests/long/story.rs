//! Every operation on the real systems, there and back; plan, resource changes and record are compared with what the
//! neighbour reports.

use serde_json::json;
use vnfm_tests::demo::demo_report;
use vnfm_tests::real::Real;

#[test]
fn every_operation_is_played_on_the_real_systems_and_nothing_is_left() {
    let Some(real) = Real::find() else { return };
    let report = demo_report(&["--real", "--story", "operations"], "tosca").unwrap();
    assert_eq!(report["ok"], true, "{report:#}");
    assert_eq!(report["left_behind"], json!([]));
    println!("{report:#}");
    real.wait_until_clean();
}
