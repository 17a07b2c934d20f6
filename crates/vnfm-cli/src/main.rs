//! The binary around [`vnfm_cli`]: parses, runs, and turns an error into messages and an exit code. As
//! `vnfmctl plugin-runner` it is the process in which one hook of `plugin run` runs.

#![deny(clippy::print_stdout, clippy::print_stderr)]

use clap::Parser as _;
use std::process::ExitCode;
use vnfm_cli::args::Cli;
use vnfm_cli::{client, commands, output};

fn main() -> ExitCode {
    // Hidden from `--help`: it is never started by hand.
    if std::env::args_os()
        .nth(1)
        .is_some_and(|mode| mode == vnfm_cli::RUNNER_MODE)
    {
        return vnfm_plugin_host::plugin_runner();
    }
    let cli = Cli::parse();
    if rustls::crypto::aws_lc_rs::default_provider()
        .install_default()
        .is_err()
    {
        return report(&client::Failure::Local(
            "another TLS provider is already installed".into(),
        ));
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let outcome = match runtime {
        Ok(runtime) => runtime.block_on(commands::run(cli)),
        Err(error) => Err(client::Failure::Local(format!("cannot start: {error}"))),
    };
    outcome.map_or_else(|failure| report(&failure), |()| ExitCode::SUCCESS)
}

fn report(failure: &client::Failure) -> ExitCode {
    output::tell(&format!("{}: {failure}", failure.severity()));
    if let Some(hint) = failure.hint() {
        output::tell(&format!("hint: {hint}"));
    }
    ExitCode::from(failure.exit_code())
}
