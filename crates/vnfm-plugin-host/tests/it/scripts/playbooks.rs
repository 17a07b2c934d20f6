//! Playbooks, with the Ansible that is installed on this machine.

use super::{PASSWORD, Side, World, assert_folder_deleted, hook};
use crate::world::AMPLE;
use std::path::Path;
use std::sync::atomic::Ordering;

const ANSIBLE: &str = "tosca.artifacts.Implementation.Ansible";

/// Whether Ansible is installed; prints a note if not.
fn has_ansible() -> bool {
    let there = Path::new("/usr/bin/ansible-playbook").is_file();
    if !there {
        assert!(
            std::env::var("VNFM_REQUIRE_LIVE").as_deref() != Ok("1"),
            "no Ansible, and VNFM_REQUIRE_LIVE=1"
        );
        eprintln!("skipped: no `/usr/bin/ansible-playbook` (Debian: apt-get install ansible-core)");
    }
    there
}

const PLAYBOOK: &str = r"
- hosts: VDU1
  gather_facts: false
  become: true
  tasks:
    - name: 40% restarting the service
      ansible.builtin.raw: systemctl restart app
    - ansible.builtin.set_stats:
        data: {vnfm_effects: {metadata: {restarted: true}}}
";

#[tokio::test]
async fn become_works_without_a_password_and_fails_clearly_if_one_is_required() {
    if !has_ansible() {
        return;
    }
    let world = World::new();
    let side = Side::with_script(PLAYBOOK);
    let effects = world.run(&side, hook(ANSIBLE, AMPLE)).await.unwrap();
    assert_eq!(effects.metadata["restarted"], true);
    let commands = side.requests("ssh.run");
    let restart = commands
        .iter()
        .find(|run| run["command"].as_str().unwrap().contains("restart app"));
    let restart = restart.unwrap_or_else(|| panic!("{commands:?}"))["command"]
        .as_str()
        .unwrap();
    assert!(restart.starts_with("sudo "), "{restart}");

    let guarded = Side::with_script(PLAYBOOK);
    guarded.guarded.store(true, Ordering::Relaxed);
    let error = world.run(&guarded, hook(ANSIBLE, AMPLE)).await.unwrap_err();
    assert_eq!(error.name(), "script-failed");
    assert!(
        error.to_string().contains("password is required"),
        "{error}"
    );
    assert_folder_deleted(&world).await;
}

#[tokio::test]
async fn a_become_password_is_refused_and_never_logged() {
    if !has_ansible() {
        return;
    }
    let world = World::new();
    let vars = format!("  vars: {{ansible_become_password: {PASSWORD}}}\n  tasks:");
    let side = Side::with_script(&PLAYBOOK.replacen("  tasks:", &vars, 1));
    let error = world.run(&side, hook(ANSIBLE, AMPLE)).await.unwrap_err();
    assert_eq!(error.name(), "script-failed");
    let text = error.to_string();
    assert!(
        text.contains("let the login user become root without one"),
        "{text}"
    );
    let run = side.requests("ssh.run");
    assert!(
        run.iter()
            .all(|run| !run["command"].to_string().contains("restart")),
        "{run:?}"
    );
    let mut logs = side.logs();
    logs.push(text);
    logs.extend(
        run.iter()
            .map(|run| format!("{} {}", run["command"], run["stdin"])),
    );
    assert!(logs.iter().all(|line| !line.contains(PASSWORD)), "{logs:?}");
    assert_folder_deleted(&world).await;
}
