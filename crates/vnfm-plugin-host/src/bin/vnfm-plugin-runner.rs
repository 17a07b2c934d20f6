//! `vnfm-plugin-runner`: the process that one hook of a plugin runs in. Started by vnfm, never by hand.

use std::process::ExitCode;

fn main() -> ExitCode {
    vnfm_plugin_host::plugin_runner()
}
