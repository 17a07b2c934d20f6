//! The VNFM is killed at every call that the driver makes; whoever starts it again ends at the same place.

use crate::lab::{Kill, Lab};
use std::time::Duration;
use vnfm_sim::faults::{Fault, Rule};

#[tokio::test(flavor = "multi_thread")]
async fn a_crash_anywhere_leads_to_the_same_end() {
    for after in [false, true] {
        let mut n = 1;
        loop {
            let lab = Lab::new().await;
            let kill = if after { Kill::After(n) } else { Kill::Before(n) };
            let request = lab.request("instantiate_end", lab.params());
            let first = lab.run(request, Some(kill)).await;
            if let Some(result) = first {
                lab.check(&result.unwrap());
                assert!(n > 30, "the whole way takes more calls than {n}");
                break;
            }
            let effects = lab.install().await.unwrap_or_else(|e| panic!("after {kill:?}: {e}"));
            lab.check(&effects);
            let inits = lab.count("m1", "kubeadm init");
            let joins = ["w1", "w2"].map(|worker| lab.count(worker, "kubeadm join"));
            assert_eq!((inits, joins), (1, [1, 1]), "killed at {kill:?}");
            n += 3;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_runs_on_a_host_is_found_and_awaited() {
    for (host, step) in [("m1", "init"), ("w1", "join")] {
        let lab = Lab::new().await;
        let slow = Fault::Delay { delay_ms: 3000 };
        lab.faults.arm(Rule::new("host.exec", slow).on(format!("{host}: kubeadm {step}")));
        let killed = async {
            let begun =
                format!("{host}: sudo -n -- sh -c '/run/vnfm/vnfm-step start inst-1 {step}");
            let mut pace = tokio::time::interval(Duration::from_millis(5));
            while !lab.books.calls_of("ssh.run").iter().any(|call| call.subject.starts_with(&begun))
            {
                pace.tick().await;
            }
        };
        let request = lab.request("instantiate_end", lab.params());
        tokio::select! {
            _ = lab.run(request, None) => panic!("`{step}` was not slow"),
            () = killed => {}
        }
        assert_eq!(lab.count(host, &format!("kubeadm {step}")), 0, "it still runs");
        let effects = lab.install().await.unwrap();
        lab.check(&effects);
        assert_eq!(lab.count(host, &format!("kubeadm {step}")), 1);
        let told = lab.told.lock().unwrap().join("\n");
        assert!(told.contains(&format!("`{step}` still runs on `{host}`")), "{told}");
    }
}
