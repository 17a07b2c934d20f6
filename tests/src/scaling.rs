//! Scaling by `vnfmctl`, on simulated and real neighbours: who comes and goes, and what the others keep.

#![expect(clippy::unwrap_used, reason = "tests fail by panicking")]
#![expect(clippy::missing_panics_doc, reason = "tests fail by panicking")]

use crate::testbed::{Testbed, VIM};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Name of the instance of `vnf-levels`.
pub const LEVELS: &str = "levels";

/// An instance with its `vnfcResourceInfo` by VNFC.
struct Seen {
    status: BTreeMap<String, u64>,
    vnfcs: BTreeMap<String, Value>,
    /// Ids of the VNFCs of each VDU, in the order of the inventory.
    order: BTreeMap<String, Vec<String>>,
}

impl Seen {
    fn new(testbed: &Testbed, name: &str) -> Self {
        let info = testbed.server.ctl(&["vnf", "show", name])["instantiatedVnfInfo"].clone();
        let mut seen = Self {
            status: BTreeMap::new(),
            vnfcs: BTreeMap::new(),
            order: BTreeMap::new(),
        };
        for aspect in info["scaleStatus"].as_array().unwrap() {
            let level = aspect["scaleLevel"].as_u64().unwrap();
            seen.status.insert(text(&aspect["aspectId"]), level);
        }
        for vnfc in info["vnfcResourceInfo"].as_array().unwrap() {
            let (id, vdu) = (text(&vnfc["id"]), text(&vnfc["vduId"]));
            seen.order.entry(vdu).or_default().push(id.clone());
            seen.vnfcs.insert(id, vnfc.clone());
        }
        seen
    }

    fn count(&self, vdu: &str) -> usize {
        self.order.get(vdu).map_or(0, Vec::len)
    }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap().to_owned()
}

/// Runs `vnfmctl vnf …` to its end; the VNFCs that the operation added and removed.
fn scale(testbed: &Testbed, words: &[&str]) -> [Vec<String>; 2] {
    let begun = testbed.server.ctl(&[&["vnf"], words].concat());
    let id = text(&begun["vnfLcmOpOccId"]);
    testbed.wait_for_state(&id, "COMPLETED");
    let path = format!("/vnflcm/v2/vnf_lcm_op_occs/{id}");
    let changes = testbed.server.get(&path)["resourceChanges"].clone();
    let all = changes["affectedVnfcs"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    ["ADDED", "REMOVED"].map(|change| {
        let of_change = all.iter().filter(|vnfc| vnfc["changeType"] == change);
        of_change.map(|vnfc| text(&vnfc["id"])).collect()
    })
}

/// Asserts that the operation added and removed exactly what differs, and that all others are unchanged to the last
/// member: ids, addresses, volumes. Of each VDU the last ones went.
fn assert_changed(before: &Seen, after: &Seen, [added, removed]: &[Vec<String>; 2]) {
    for id in after.vnfcs.keys() {
        assert_ne!(added.contains(id), before.vnfcs.contains_key(id), "{id}");
    }
    for (id, vnfc) in &before.vnfcs {
        assert_ne!(removed.contains(id), after.vnfcs.contains_key(id), "{id}");
        assert!(removed.contains(id) || after.vnfcs[id] == *vnfc, "{id}");
    }
    for (vdu, ids) in &before.order {
        let stayed = ids.iter().filter(|id| after.vnfcs.contains_key(*id));
        let stayed: Vec<_> = stayed.collect();
        let first: Vec<_> = ids.iter().take(stayed.len()).collect();
        assert_eq!(stayed, first, "{vdu}");
    }
}

/// Creates and instantiates `vnf-levels` at its smallest level.
pub fn instantiate_levels(testbed: &Testbed) {
    let package = testbed.onboard("vnf-levels");
    let words = ["vnf", "create", "--package", &package, "--name", LEVELS];
    testbed.server.ctl(&words);
    let vim = text(&testbed.server.ctl(&["vim", "show", VIM])["id"]);
    let mut request = testbed.request("vnf-levels", &vim);
    request["instantiationLevelId"] = json!("trial");
    testbed.wait_for_state(&testbed.instantiate(LEVELS, &request), "COMPLETED");
}

/// Servers of `vnf-levels`: by steps, and to levels, out and in.
pub fn servers_scale_and_the_others_stay(testbed: &Testbed) {
    instantiate_levels(testbed);
    let mut before = Seen::new(testbed, LEVELS);
    assert_eq!((before.count("web"), before.count("worker")), (1, 2));
    for (words, size, status) in [
        (
            &["scale", LEVELS, "--aspect", "clients", "--out"][..],
            (3, 2),
            [1, 0],
        ),
        (
            &["scale_to_level", LEVELS, "--level", "town"],
            (3, 4),
            [1, 1],
        ),
        (
            &["scale", LEVELS, "--aspect", "load", "--in"],
            (3, 2),
            [1, 0],
        ),
        (
            &["scale_to_level", LEVELS, "--level", "trial"],
            (1, 2),
            [0, 0],
        ),
    ] {
        let changes = scale(testbed, words);
        let after = Seen::new(testbed, LEVELS);
        assert_changed(&before, &after, &changes);
        assert_eq!(
            (after.count("web"), after.count("worker")),
            size,
            "{words:?}"
        );
        assert_eq!(
            json!(after.status),
            json!({"clients": status[0], "load": status[1]})
        );
        before = after;
    }
    refused(testbed, LEVELS);
    testbed.terminate_and_delete(LEVELS);
}

/// What is not possible is refused with what would be, and changes nothing.
fn refused(testbed: &Testbed, name: &str) {
    let before = testbed.server.ctl(&["vnf", "show", name]);
    for (words, expected) in [
        (
            &["--aspect", "client", "--out"][..],
            "did you mean `clients`?",
        ),
        (
            &["--aspect", "clients", "--out", "--steps", "4"],
            "the highest level of scaling aspect `clients` is 3, not 4",
        ),
        (&["--aspect", "clients", "--in"], "at most by 0"),
    ] {
        let why = testbed
            .server
            .refused(&[&["vnf", "scale", name], words].concat());
        assert!(why.contains(expected), "{words:?}: {why}");
    }
    assert_eq!(testbed.server.ctl(&["vnf", "show", name]), before);
}

/// Pods of an instance of VNF-B that has two.
pub fn pods_scale_and_the_others_stay(testbed: &Testbed, name: &str) {
    let mut before = Seen::new(testbed, name);
    for (words, size, level) in [
        (
            &["scale", name, "--aspect", "web", "--out", "--steps", "3"][..],
            5,
            3,
        ),
        (&["scale", name, "--aspect", "web", "--in"], 4, 2),
        (&["scale_to_level", name, "--aspect", "web=0"], 2, 0),
    ] {
        let changes = scale(testbed, words);
        let after = Seen::new(testbed, name);
        assert_changed(&before, &after, &changes);
        assert_eq!(after.count("web"), size, "{words:?}");
        assert_eq!(json!(after.status), json!({"web": level}));
        before = after;
    }
}
