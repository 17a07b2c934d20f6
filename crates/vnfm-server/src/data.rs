//! The data folder: private to its owner, and repairable if files are lost.

use crate::config::Config;
use anyhow::Context as _;
use std::fs::{self, DirBuilder, Metadata, Permissions};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, PermissionsExt as _, lchown};
use std::path::Path;
use std::sync::Arc;
use vnfm_core::ports::Clock;
use vnfm_store::Restored;

/// Files that only a data folder of this server has.
const OURS: [&str; 3] = ["vnfm.db", "secrets.key", "vnfm.db.lock"];
/// Permissions of users who are neither the owner nor in the group.
const OTHERS: u32 = 0o007;
/// The sticky bit, which shared folders such as `/tmp` have.
const STICKY: u32 = 0o1000;

/// Creates a folder that only its owner can access; an existing folder stays unchanged.
///
/// # Errors
///
/// If it cannot be created.
pub(crate) fn make_private(dir: &Path) -> anyhow::Result<()> {
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(dir)
        .with_context(|| format!("cannot create the folder `{}`", dir.display()))
}

/// Creates the data folder if it is missing, and removes other users' permissions, which only the owner can do. A
/// folder that others seem to use too (it has unrelated folders, or the sticky bit) stays unchanged, and so does one
/// that root created for our group.
///
/// # Errors
///
/// If it cannot be created, or others can access it and this process cannot change that; the error
/// has the command to run.
pub(crate) fn claim(data: &Path) -> anyhow::Result<()> {
    make_private(data)?;
    let context = || format!("cannot access the data folder `{}`", data.display());
    let found = data.metadata().with_context(context)?;
    let mode = found.permissions().mode() & 0o7777;
    let others = mode & 0o077;
    if others == 0 {
        return Ok(());
    }
    let has_folders = fs::read_dir(data)
        .with_context(context)?
        .any(|entry| entry.is_ok_and(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())));
    let is_ours = !has_folders || OURS.iter().any(|name| data.join(name).exists());
    let is_ours = is_ours && mode & STICKY == 0;
    let folder = data.display();
    if is_ours && fs::set_permissions(data, Permissions::from_mode(0o700)).is_ok() {
        tracing::warn!(
            "the data folder `{folder}` had mode {mode:04o}; now only its owner has access"
        );
        return Ok(());
    }
    if mode & OTHERS == 0 && is_of_our_group(&found) {
        tracing::info!(
            "the data folder `{folder}` belongs to root and to group {} of this process; each file is accessible only to its owner",
            found.gid()
        );
        return Ok(());
    }
    anyhow::bail!(
        "cannot use the data folder `{folder}`: it has mode {mode:04o}, so others can access the keys and the database; hint: give \
         the server its own folder (`--data DIR`), or run `chmod 700 {folder}` as its owner"
    );
}

/// Puts the database, packages and stored files of a backup into the data folder, and keeps a previous database and previous
/// stored files under other names.
///
/// # Errors
///
/// If the backup or the folder cannot be used, or the keys of the backup cannot be read.
pub async fn restore(
    config: &Config,
    backup: &Path,
    clock: &Arc<dyn Clock>,
) -> anyhow::Result<Restored> {
    let sealer = config.secrets.sealer(clock)?;
    let restored = vnfm_store::restore_with(backup, &config.data, clock.now(), sealer).await?;
    give_to_owner(&config.data)?;
    Ok(restored)
}

/// Gives what this process wrote into the data folder to the folder's owner: `restore` by root must leave files that
/// the server's user can open.
///
/// # Errors
///
/// If a file cannot be read or changed; the error names it.
fn give_to_owner(data: &Path) -> anyhow::Result<()> {
    let owner = fs::metadata(data).with_context(|| format!("cannot read `{}`", data.display()))?;
    let own = rustix::process::geteuid().as_raw();
    if owner.uid() == own {
        return Ok(());
    }
    let mut folders = vec![data.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder)? {
            let path = entry?.path();
            let found = fs::symlink_metadata(&path)?;
            if found.is_dir() {
                folders.push(path.clone());
            }
            if found.uid() == own {
                lchown(&path, Some(owner.uid()), Some(owner.gid()))
                    .with_context(|| format!("cannot change the owner of `{}`", path.display()))?;
            }
        }
    }
    Ok(())
}

/// Whether root created the folder for our group, like a Kubernetes volume with `fsGroup` (`root:GID`, mode 2770). We
/// cannot change its mode, and root chose the members of the group.
fn is_of_our_group(folder: &Metadata) -> bool {
    use rustix::process::{getegid, geteuid, getgroups};
    let is_in = |gid| getgroups().is_ok_and(|groups| groups.iter().any(|one| one.as_raw() == gid));
    folder.uid() == 0
        && !geteuid().is_root()
        && (getegid().as_raw() == folder.gid() || is_in(folder.gid()))
}

/// `vnfm-server accept-loss`: gives up the lost files of the data folder, so that the server can start.
///
/// # Errors
///
/// If a server is running on the folder, or the disk cannot be written.
pub fn accept_loss(data: &Path, clock: &dyn Clock) -> anyhow::Result<()> {
    let moved = vnfm_store::accept_loss(data, clock.now())?;
    give_to_owner(data)?;
    #[expect(clippy::print_stdout, reason = "output of the command")]
    {
        if moved.is_empty() {
            println!(
                "nothing is missing in `{}`; nothing was changed",
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
    use super::{claim, give_to_owner};
    use std::fs::{self, Permissions};
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown};
    use std::path::Path;

    fn mode(path: &Path) -> u32 {
        path.metadata().unwrap().permissions().mode() & 0o7777
    }

    #[test]
    fn a_data_folder_readable_by_others_becomes_private() {
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

    /// Only root can give files away; any other user who may restore owns the folder.
    #[test]
    fn files_in_the_data_folder_get_its_owner() {
        let folder = tempfile::tempdir().unwrap();
        let packages = folder.path().join("packages");
        fs::create_dir(&packages).unwrap();
        let files = [
            folder.path().join("vnfm.db"),
            packages.join("one.csar"),
            packages,
        ];
        fs::write(&files[0], "").unwrap();
        fs::write(&files[1], "").unwrap();
        let owner = if rustix::process::geteuid().is_root() {
            65534
        } else {
            rustix::process::geteuid().as_raw()
        };
        chown(folder.path(), Some(owner), None).unwrap();
        give_to_owner(folder.path()).unwrap();
        for file in files {
            assert_eq!(file.metadata().unwrap().uid(), owner, "{}", file.display());
        }
    }

    #[test]
    fn a_shared_folder_is_refused_and_unchanged() {
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
