//! The programs that read and change files.

use super::disk::Disk;
use super::shell::Shell;
use super::stdio::{Input, Output, lines};
use sha2::{Digest, Sha256};
use std::collections::BTreeSet;

pub(super) async fn cat(shell: &Shell, args: &[&str], input: &mut Input) -> Output {
    let mut output = Output::default();
    if args.is_empty() {
        output.out = input.take().await;
    }
    for path in args {
        let (content, mode) = {
            let disk = shell.host.disk();
            (disk.read(path), disk.mode(path).unwrap_or(0))
        };
        match content {
            Some(content) if shell.is_root() || mode & 0o004 != 0 => output.out.extend(content),
            Some(_) => {
                output.code = 1;
                output.err += format!("cat: {path}: Permission denied\n").as_str();
            }
            None => {
                output.code = 1;
                output.err += format!("cat: {path}: No such file or directory\n").as_str();
            }
        }
    }
    output
}

pub(super) async fn sha256sum(shell: &Shell, args: &[&str], input: &mut Input) -> Output {
    let (name, content) = match args.first() {
        Some(path) => (*path, shell.host.disk().read(path)),
        None => ("-", Some(input.take().await)),
    };
    let Some(content) = content else {
        return Output::fail(1, format!("sha256sum: {name}: No such file or directory\n"));
    };
    Output::ok(format!(
        "{}  {name}\n",
        hex::encode(Sha256::digest(content))
    ))
}

/// Programs that change or list files: `mkdir`, `rm`, `mv`, `cp`, `chmod`, `ls`, `install`.
pub(super) fn files(shell: &Shell, name: &str, args: &[&str]) -> Output {
    let plain: Vec<&str> = args
        .iter()
        .copied()
        .filter(|arg| !arg.starts_with('-'))
        .collect();
    let mut written = plain.iter().filter(|path| path.starts_with('/'));
    if name != "ls"
        && let Some(path) = written.find(|path| !shell.may_write(path))
    {
        return Output::fail(
            1,
            format!("{name}: cannot change '{path}': Permission denied\n"),
        );
    }
    let mut disk = shell.host.disk();
    let failed = match (name, plain.as_slice()) {
        ("mkdir", paths) => {
            for path in paths {
                disk.make_folder(path);
            }
            None
        }
        ("install", paths) if args.contains(&"-d") => {
            let folders = paths.iter().filter(|path| path.starts_with('/'));
            folders.for_each(|path| disk.make_folder(path));
            None
        }
        ("rm", paths) => {
            let force = args
                .iter()
                .any(|arg| arg.starts_with('-') && arg.contains('f'));
            paths.iter().find(|path| !disk.remove(path) && !force)
        }
        ("mv", [from, to]) => Some(from).filter(|_| !disk.rename(from, to)),
        ("cp" | "install", [.., from, to]) => match disk.read(from) {
            Some(content) => {
                disk.write(to, content, 0o644);
                None
            }
            None => Some(from),
        },
        ("chmod", [mode, paths @ ..]) => paths.iter().find(|path| !chmod(&mut disk, mode, path)),
        ("ls", paths) => return list_folder(&disk, paths.first().unwrap_or(&"/")),
        _ => return Output::fail(1, format!("{name}: missing operand\n")),
    };
    match failed {
        Some(path) => Output::fail(1, format!("{name}: '{path}': No such file or directory\n")),
        None => Output::default(),
    }
}

/// False if there is no such file; a mode that is not octal changes nothing.
fn chmod(disk: &mut Disk, mode: &str, path: &str) -> bool {
    let Some(file) = disk.get_mut(path) else {
        return false;
    };
    file.mode = u32::from_str_radix(mode, 8).unwrap_or(file.mode);
    true
}

fn list_folder(disk: &Disk, folder: &str) -> Output {
    let folder = format!("{}/", folder.trim_end_matches('/'));
    let names: BTreeSet<String> = disk
        .paths()
        .iter()
        .filter_map(|path| {
            path.strip_prefix(&folder)?
                .split('/')
                .next()
                .map(str::to_owned)
        })
        .collect();
    Output::ok(lines(names.iter().map(|name| format!("{name}\n"))))
}
