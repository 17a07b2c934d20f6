//! The contracts of the ports: our implementations meet them, and `docs/contracts` lists them.
//!
//! | file | what is tested |
//! |---|---|
//! | `store.rs` | the store in memory (those in SQLite: `crates/vnfm-store/tests`) |
//! | `infra_driver.rs` | OpenStack and Kubernetes on the simulated world (on the real ones: `tests/live/contracts.rs`), the VIM in memory; and that broken ones are detected |
//! | `hostile_vims.rs` | both drivers against servers that lie |
//! | `mgmt_driver.rs` | the plugin host with the template linked in; a plain Rust object; and that broken ones are detected |
//! | `nfvo.rs` | the SOL003 client on the simulated NFVO |

mod hostile_vims;
mod infra_driver;
mod mgmt_driver;
mod nfvo;
mod store;

use std::fmt::Write as _;
use vnfm_conformance::Rule;
use vnfm_tests::sources::assert_page_current;

fn is_current<S>(file: &str, (title, module, about): (&str, &str, &str), rules: &[Rule<S>]) {
    let mut page = format!(
        "# The contract of {title}\n\n<!-- Generated from `vnfm::conformance::{module}` by `VNFM_UPDATE_GENERATED=1 cargo \
         test -p vnfm-tests contracts`. -->\n\n{about}\n\nEvery rule is mandatory. Behaviour that is not a rule here may \
         change. Test your own implementation with `check(vnfm::conformance::{module}::RULES, …).await.unwrap()`, which \
         lists each violated rule and the observed behaviour.\n\n| rule | meaning |\n|---|---|\n"
    );
    for rule in rules {
        writeln!(page, "| `{}` | {} |", rule.name, rule.says()).unwrap();
    }
    assert_page_current(&format!("docs/contracts/{file}.md"), &page);
}

#[test]
fn store_contract_page_is_current() {
    let about = "The port is [`Store`](../../crates/vnfm-core/src/ports/store.rs). Ours: SQLite \
                 ([`vnfm-store`](../../crates/vnfm-store/src/lib.rs)), and memory \
                 ([`vnfm-memory`](../../crates/vnfm-memory/src/lib.rs)), which is the shorter one to read. Each rule gets an \
                 empty store.";
    is_current(
        "store",
        ("a store", "store", about),
        vnfm_conformance::store::RULES,
    );
}

#[test]
fn infra_driver_contract_page_is_current() {
    let about = "The port is [`InfraDriver`](../../crates/vnfm-core/src/ports/infra.rs). The rules need the driver, a \
                 login, an instance to create, and direct access to the VIM. Calls are interrupted at any \
                 [slot](../../crates/vnfm-core/src/ports/vim_slot.rs), so each call must take one.";
    let rules = vnfm_conformance::infra_driver::RULES;
    is_current(
        "infra-driver",
        ("an infrastructure driver", "infra_driver", about),
        rules,
    );
}

#[test]
fn mgmt_driver_contract_page_is_current() {
    let about = "The ports are [`MgmtDrivers` and `MgmtDriver`](../../crates/vnfm-core/src/ports/mgmt.rs). The test kit of the SDK \
                 offers more to plugin authors; these rules are for implementations that serve drivers, and for drivers \
                 linked into the program.";
    let rules = vnfm_conformance::mgmt_driver::RULES;
    is_current("mgmt-driver", ("MgmtDrivers", "mgmt_driver", about), rules);
}

#[test]
fn nfvo_contract_page_is_current() {
    let about = "The port is [`Nfvo`](../../crates/vnfm-core/src/ports/nfvo.rs), which grants operations (SOL003 9).";
    is_current(
        "nfvo",
        ("an NFVO", "nfvo", about),
        vnfm_conformance::nfvo::RULES,
    );
}
