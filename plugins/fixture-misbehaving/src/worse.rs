//! Ways to crash a process or to exceed its limits, for hooks that run in separate processes.

use std::fmt::Write as _;
use std::process::Command;
use vnfm_plugin_sdk::prelude::*;

/// Misbehaves as `how` says; most ways do not return.
pub(crate) async fn be(how: &str) -> Result<String, DriverError> {
    match how {
        "abort" => {
            eprintln!("first words");
            println!("last words");
            std::process::abort()
        }
        "exit" => std::process::exit(7),
        "spin" => loop {
            std::hint::spin_loop();
        },
        "allocate" => Ok(std::hint::black_box(vec![1_u8; 10 << 30]).len().to_string()),
        "large file" => write_without_end(),
        "daemon" => run("setsid sleep 600 & sleep 600 &"),
        "look around" => Ok(around()),
        other => Err(DriverError::new(
            "no-such-wrong",
            format!("`{other}` is not known"),
        )),
    }
}

fn run(script: &str) -> Result<String, DriverError> {
    let failed = |error: std::io::Error| DriverError::new("no-shell", error.to_string());
    let mut shell = Command::new("/bin/sh");
    let path = "/usr/bin:/bin";
    let spawned = shell
        .env("PATH", path)
        .arg("-c")
        .arg(script)
        .spawn()
        .map_err(failed)?;
    Ok(spawned.id().to_string())
}

fn write_without_end() -> Result<String, DriverError> {
    use std::io::Write as _;
    let failed = |error: std::io::Error| DriverError::new("no-file", error.to_string());
    let name = std::env::temp_dir().join("fixture-misbehaving");
    let mut file = std::fs::File::create(&name).map_err(failed)?;
    std::fs::remove_file(&name).map_err(failed)?;
    loop {
        file.write_all(&vec![0; 1 << 16]).map_err(failed)?;
    }
}

/// Which of these paths can be opened, listed or written, one per line.
pub(crate) fn steal(paths: &str) -> String {
    let mut got = String::new();
    for path in paths.lines() {
        let file = std::path::Path::new(path).join("made");
        for (what, done) in [
            ("opened", std::fs::File::open(path).is_ok()),
            ("listed", std::fs::read_dir(path).is_ok()),
            (
                "wrote",
                std::fs::OpenOptions::new().append(true).open(path).is_ok(),
            ),
            ("made", std::fs::write(file, "x").is_ok()),
        ] {
            if done {
                let _ = writeln!(got, "{what} {path}");
            }
        }
    }
    got
}

/// Environment, open files, status and limits of this process, one per line.
fn around() -> String {
    let mut text = String::new();
    let variables: Vec<_> = std::env::vars_os().map(|(name, _)| name).collect();
    let folder = std::env::current_dir().unwrap_or_default();
    let open = std::fs::read_dir("/proc/self/fd")
        .into_iter()
        .flatten()
        .flatten();
    let open: Vec<_> = open
        .map(|file| std::fs::read_link(file.path()).unwrap_or_default())
        .collect();
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let limits = std::fs::read_to_string("/proc/self/limits").unwrap_or_default();
    let _ = write!(
        text,
        "environment {variables:?}\nfolder {}\nfiles {open:?}\n{status}{limits}",
        folder.display()
    );
    text
}
