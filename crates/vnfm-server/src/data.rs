//! The data folder: for its owner alone, and what is done where files of it are lost.

use anyhow::Context as _;
use std::fs::{self, DirBuilder, Metadata, Permissions};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::Path;
use vnfm_core::ports::Clock;

/// What only a data folder of ours has.
const OURS: [&str; 3] = ["vnfm.db", "secrets.key", "vnfm.db.lock"];
/// What those may do who are neither the owner nor of the group.
const OTHERS: u32 = 0o007;
/// The bit of folders that everybody writes to, such as `/tmp`.
const STICKY: u32 = 0o1000;

/// A folder that only its owner reads and writes, made where there is none; one that is there stays as it is.
///
/// # Errors
///
/// Where it cannot be made.
pub fn make_private(dir: &Path) -> anyhow::Result<()> {
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(dir)
        .with_context(|| format!("cannot make the folder `{}`", dir.display()))
}

/// The data folder, made where there is none. What others may do in it is taken away; only its owner can do that. A folder
/// that others seem to use as well (it has folders that are not ours, or everybody writes to it) stays as it is, and so does
/// one that root made for our group.
///
/// # Errors
///
/// Where it cannot be made, or others can read or write it and that is not for us to change: with the command to run.
pub fn claim(data: &Path) -> anyhow::Result<()> {
    make_private(data)?;
    let looked = || format!("cannot look at the data folder `{}`", data.display());
    let found = data.metadata().with_context(looked)?;
    let mode = found.permissions().mode() & 0o7777;
    let others = mode & 0o077;
    if others == 0 {
        return Ok(());
    }
    let has_folders = fs::read_dir(data)
        .with_context(looked)?
        .any(|entry| entry.is_ok_and(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())));
    let is_ours = !has_folders || OURS.iter().any(|name| data.join(name).exists());
    let is_ours = is_ours && mode & STICKY == 0;
    let folder = data.display();
    if is_ours && fs::set_permissions(data, Permissions::from_mode(0o700)).is_ok() {
        tracing::warn!(
            "the data folder `{folder}` had mode {mode:04o}; it is for its owner alone now"
        );
        return Ok(());
    }
    if mode & OTHERS == 0 && is_of_our_group(&found) {
        tracing::info!(
            "the data folder `{folder}` is root's and group {}'s, which this process is in; each file is for its owner alone",
            found.gid()
        );
        return Ok(());
    }
    anyhow::bail!(
        "cannot use the data folder `{folder}`: it has mode {mode:04o}, so others get at the keys and the database; hint: give \
         the server a folder of its own (`--data DIR`), or run `chmod 700 {folder}` as its owner"
    );
}

/// Whether root made the folder for our group, as Kubernetes makes a volume with `fsGroup` (`root:GID`, mode 2770). Its mode
/// is not ours to change, and whoever shares the group was let in by root.
fn is_of_our_group(folder: &Metadata) -> bool {
    use rustix::process::{getegid, geteuid, getgroups};
    let is_in = |gid| getgroups().is_ok_and(|groups| groups.iter().any(|one| one.as_raw() == gid));
    folder.uid() == 0
        && !geteuid().is_root()
        && (getegid().as_raw() == folder.gid() || is_in(folder.gid()))
}

/// `vnfm-server accept-loss`: gives up what was lost of the data folder, so that the server starts again.
///
/// # Errors
///
/// Where a server runs on the folder, or the disk does not take it.
pub fn accept_loss(data: &Path, clock: &dyn Clock) -> anyhow::Result<()> {
    let moved = vnfm_store::accept_loss(data, clock.now())?;
    #[expect(clippy::print_stdout, reason = "what was done is for whoever did it")]
    {
        if moved.is_empty() {
            println!(
                "nothing is missing in `{}`, and nothing was changed",
                data.display()
            );
        }
        for (from, to) in &moved {
            println!("moved `{}` to `{}`", from.display(), to.display());
        }
        println!("next: start the server");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::claim;
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt as _;
    use std::path::Path;

    fn mode(path: &Path) -> u32 {
        path.metadata().unwrap().permissions().mode() & 0o7777
    }

    #[test]
    fn a_data_folder_that_others_could_read_is_for_its_owner_alone_once_it_is_used() {
        let folder = tempfile::tempdir().unwrap();
        let data = folder.path().join("data");
        fs::create_dir(&data).unwrap();
        for (file, before) in [(None, 0o755), (Some("vnfm.db"), 0o770), (None, 0o2777)] {
            if let Some(file) = file {
                fs::write(data.join(file), "").unwrap();
            }
            fs::set_permissions(&data, Permissions::from_mode(before)).unwrap();
            claim(&data).unwrap();
            assert_eq!(mode(&data), 0o700);
        }
    }

    #[test]
    fn a_folder_that_others_use_is_refused_and_stays_as_it_is() {
        let folder = tempfile::tempdir().unwrap();
        for (inside, before) in [("", 0o1777), ("letters", 0o755)] {
            fs::create_dir_all(folder.path().join(inside)).unwrap();
            fs::set_permissions(folder.path(), Permissions::from_mode(before)).unwrap();
            let refused = claim(folder.path()).unwrap_err().to_string();
            let command = format!("chmod 700 {}", folder.path().display());
            assert!(refused.contains(&command), "{refused}");
            assert!(refused.contains(&format!("{before:04o}")), "{refused}");
            assert_eq!(mode(folder.path()), before);
        }
        fs::set_permissions(folder.path(), Permissions::from_mode(0o700)).unwrap();
        claim(folder.path()).unwrap();
    }
}
