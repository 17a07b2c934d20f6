//! Virtual machines of KubeVirt as workloads. Each machine runs in a pod (`virt-launcher`): that pod is the VNFC, with the
//! addresses of the machine's `VirtualMachineInstance`.
//!
//! | kind | its pods | runs if | ready when |
//! |---|---|---|---|
//! | `VirtualMachine` | that of its instance | `spec.runStrategy`, or the older `spec.running`, says so | its condition `Ready` is true; if it should not run: it is not created |
//! | `VirtualMachineInstance` | its own | it exists | its condition `Ready` is true |
//! | `VirtualMachineInstanceReplicaSet` | those of its instances | `spec.replicas` | all replicas are ready |
//!
//! A machine that runs keeps the template that it was started with: a change of it takes effect with its next start.

use serde_json::{Value, json};

/// The API group of KubeVirt.
pub(crate) const GROUP: &str = "kubevirt.io";
pub(crate) const MACHINE: &str = "VirtualMachine";
pub(crate) const INSTANCE: &str = "VirtualMachineInstance";
pub(crate) const REPLICA_SET: &str = "VirtualMachineInstanceReplicaSet";
/// Strategies with which KubeVirt starts a machine by itself.
const STARTING: [&str; 3] = ["Always", "RerunOnFailure", "Once"];

fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    let text = object.pointer(pointer).and_then(Value::as_str);
    text.unwrap_or_default()
}

/// Whether KubeVirt starts the machine. One that a user starts (`Manual`) may run or not.
pub(crate) fn should_run(machine: &Value) -> bool {
    match machine.pointer("/spec/running") {
        Some(running) => running == true,
        None => STARTING.contains(&text(machine, "/spec/runStrategy")),
    }
}

/// The change by which a machine does not run; `None` if the object is not one.
pub(crate) fn halt(machine: &Value) -> Option<Value> {
    let is_machine = text(machine, "/kind") == MACHINE && is_kubevirt(machine);
    let halted = match machine.pointer("/spec/running") {
        Some(_) => json!({"spec": {"running": false}}),
        None => json!({"spec": {"runStrategy": "Halted"}}),
    };
    is_machine.then_some(halted)
}

/// Whether the object is of a kind of KubeVirt.
pub(crate) fn is_kubevirt(object: &Value) -> bool {
    let api_version = text(object, "/apiVersion").split_once('/');
    api_version.is_some_and(|(group, _)| group == GROUP)
}

/// Whether objects of this kind run machines.
pub(crate) fn runs_machines(kind: &str) -> bool {
    [MACHINE, INSTANCE, REPLICA_SET].contains(&kind)
}

/// The number of machines of a `VirtualMachine` or its instance.
pub(crate) fn machines(object: &Value) -> u64 {
    u64::from(text(object, "/kind") != MACHINE || should_run(object))
}

/// Whether a machine belongs to a workload: it has the name of its `VirtualMachine`, or that of its replica set and five
/// characters more.
pub(crate) fn is_machine_of(instance: &str, (kind, name): (&str, &str)) -> bool {
    match kind {
        MACHINE | INSTANCE => instance == name,
        REPLICA_SET => instance
            .strip_prefix(name)
            .is_some_and(|rest| rest.len() == 5),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine(spec: &Value) -> Value {
        json!({"apiVersion": "kubevirt.io/v1", "kind": MACHINE, "spec": spec})
    }

    #[test]
    fn a_machine_is_halted_by_the_member_that_it_has() {
        for (spec, runs, halted) in [
            (json!({"running": true}), 1, json!({"running": false})),
            (json!({"running": false}), 0, json!({"running": false})),
            (
                json!({"runStrategy": "Always"}),
                1,
                json!({"runStrategy": "Halted"}),
            ),
            (
                json!({"runStrategy": "Manual"}),
                0,
                json!({"runStrategy": "Halted"}),
            ),
        ] {
            let machine = machine(&spec);
            assert_eq!(
                (machines(&machine), halt(&machine)),
                (runs, Some(json!({"spec": halted})))
            );
        }
        let other =
            json!({"apiVersion": "example.com/v1", "kind": MACHINE, "spec": {"running": true}});
        assert_eq!(halt(&other), None);
    }

    #[test]
    fn machines_are_matched_to_their_workload() {
        for (instance, workload, expected) in [
            ("db", (MACHINE, "db"), true),
            ("db2", (MACHINE, "db"), false),
            ("webx7k2p", (REPLICA_SET, "web"), true),
            ("web-apix7k2p", (REPLICA_SET, "web"), false),
            ("db", ("Deployment", "db"), false),
        ] {
            assert_eq!(
                is_machine_of(instance, workload),
                expected,
                "{instance} {workload:?}"
            );
        }
    }
}
