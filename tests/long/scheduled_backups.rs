//! Snapshots of a real etcd on schedule: the server takes one each minute; the node and the server keep the last two.

use std::collections::BTreeSet;
use std::time::Duration;

use vnfm_tests::host::Host;
use vnfm_tests::programs::until;
use vnfm_tests::real::Real;
use vnfm_tests::testbed::VNF_A;

use crate::cluster_actions::{HOSTS, PASSPHRASE, Scenario};

/// How long four snapshots may take.
const FOUR: Duration = Duration::from_mins(8);

#[test]
fn snapshots_are_taken_on_schedule_and_the_last_ones_are_kept() {
    let Some(real) = Real::find() else { return };
    let testbed = real.testbed();
    let scenario = Scenario::on(real, testbed);
    let server = &scenario.testbed.server;
    let every = ["cluster", "backup", VNF_A, "--every", "1m", "--keep", "2"];
    let begun = server.run_with_input(&every, PASSPHRASE);
    assert_eq!(begun.code, 0, "{begun:?}");
    let mut seen = BTreeSet::new();
    let last = until("four snapshots, of which two are kept", FOUR, || {
        let now = scenario.stored();
        assert!(now.len() <= 3, "{now:?}");
        seen.extend(now.iter().cloned());
        (seen.len() == 4 && now.len() == 2).then_some(now)
    });
    let newest: Vec<_> = seen.iter().rev().take(2).collect();
    assert!(
        last.iter().all(|name| newest.contains(&name)),
        "{last:?} of {seen:?}"
    );
    let off = ["cluster", "backup", VNF_A, "--every", "off"];
    assert_eq!(server.run(&off).code, 0);
    let host = Host::new(&scenario.real, HOSTS[0]);
    let files = until("the node keeps two", Duration::from_mins(1), || {
        let files = host.inside("ls /var/lib/vnfm/etcd");
        (files.matches(".db.enc").count() == 2).then_some(files)
    });
    println!("{seen:?}; on the node:\n{files}");
    scenario.end();
}
