//! From a file to a plugin's table: open the library, trust nothing until it was looked at.
#![expect(
    unsafe_code,
    reason = "opens libraries and reads the table that they export"
)]

use crate::elf::{self, Facts};
use crate::errors::{
    ABORTS, DECLARATION, MAGIC, MAJOR, NEWER_GLIBC, SIZE, UNLOADABLE, UNREADABLE, chain,
};
use crate::folder::{self, Checked};
use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use vnfm_core::ports::{Declaration, PortError};
use vnfm_plugin_abi::{
    ABI_MAJOR, Buf, FLAG_PANICS_CONTAINED, MAGIC as OUR_MAGIC, Plugin, READY_OK,
};

/// How often a copy is sealed while the kernel calls it busy, and the pause between.
const SEALINGS: u32 = 50;
const SEAL_AGAIN: Duration = Duration::from_millis(20);

/// What a library says of itself; nothing of it was started.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Inspection {
    /// Its hooks and schemas.
    #[serde(flatten)]
    pub declaration: Declaration,
    /// What it was built with.
    pub sdk_version: String,
    /// Version of the plugin ABI, `MAJOR.MINOR`.
    pub abi: String,
    /// Newest version of glibc that it needs.
    pub glibc: Option<String>,
    /// SHA-256 of the file.
    pub sha256: String,
}

/// Looks into the library at `path` without starting a driver. Loading it runs its initialisers: look only into
/// what you would run.
///
/// # Errors
///
/// As for any plugin that cannot be loaded.
pub fn inspect(path: &Path) -> Result<Inspection, PortError> {
    let (dir, file) = split(path)?;
    look(&Libraries::default(), &folder::read(dir, file)?)
}

/// The SHA-256 of the library at `path`, which is not loaded.
///
/// # Errors
///
/// `Refused` where it cannot be read, or somebody else could change it.
pub fn file_sha256(path: &Path) -> Result<String, PortError> {
    let (dir, file) = split(path)?;
    Ok(folder::read(dir, file)?.sha256)
}

/// Looks into a library.
///
/// # Errors
///
/// As [`inspect`].
pub(crate) fn look(libraries: &Libraries, checked: &Checked) -> Result<Inspection, PortError> {
    let glibc = facts(checked)?.glibc;
    Ok(Inspection::of(
        says(libraries.open(checked)?)?,
        glibc,
        checked,
    ))
}

/// What a plugin says of itself, as it may come from another process.
#[derive(Serialize, Deserialize)]
pub(crate) struct Said {
    pub(crate) declaration: Declaration,
    pub(crate) sdk_version: String,
    pub(crate) abi: String,
}

/// What `plugin` says of itself.
///
/// # Errors
///
/// `Broken` where its declaration has the wrong shape.
pub(crate) fn says(plugin: &'static Plugin) -> Result<Said, PortError> {
    Ok(Said {
        declaration: declaration(plugin)?,
        // SAFETY: texts of a table live as long as its library, which is never unloaded.
        sdk_version: unsafe { plugin.sdk_version.as_text() }.into_owned(),
        abi: format!("{}.{}", plugin.abi_major, plugin.abi_minor),
    })
}

impl Inspection {
    pub(crate) fn of(said: Said, glibc: Option<String>, checked: &Checked) -> Self {
        Self {
            declaration: said.declaration,
            sdk_version: said.sdk_version,
            abi: said.abi,
            glibc,
            sha256: checked.sha256.clone(),
        }
    }
}

fn split(path: &Path) -> Result<(&Path, &str), PortError> {
    let name = path.file_name().and_then(|name| name.to_str());
    match (path.parent(), name) {
        (Some(dir), Some(name)) if dir.as_os_str().is_empty() => Ok((Path::new("."), name)),
        (Some(dir), Some(name)) => Ok((dir, name)),
        _ => {
            let doing = format!("load plugin library `{}`", path.display());
            Err(PortError::new(
                &UNREADABLE,
                doing,
                "it is no path of a file",
            ))
        }
    }
}

/// The first four members never move; what is shorter cannot even be looked at.
const FIRST_WORDS: u64 = std::mem::offset_of!(Plugin, flags) as u64;

/// The libraries that one host has opened, by their SHA-256. They stay for ever.
#[derive(Default)]
pub(crate) struct Libraries {
    opened: Mutex<BTreeMap<String, Result<&'static Plugin, PortError>>>,
}

impl Libraries {
    /// Opens a library, or takes it from before, and checks its table.
    ///
    /// # Errors
    ///
    /// `Refused`, saying what is wrong with it.
    pub(crate) fn open(&self, checked: &Checked) -> Result<&'static Plugin, PortError> {
        let mut opened = self.opened.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(outcome) = opened.get(&checked.sha256) {
            return outcome.clone();
        }
        let (facts, doing) = (facts(checked)?, loading(checked));
        let copy = sealed_copy(checked, &doing)?;
        let table = link(copy, &checked.path.display().to_string(), &facts, &doing)?;
        let outcome = table_of(table, &facts, &doing);
        opened.insert(checked.sha256.clone(), outcome.clone());
        outcome
    }
}

/// Opens a [`sealed_copy`] that another process made of the library `shown`.
///
/// # Errors
///
/// `Refused`, saying what is wrong with it.
pub(crate) fn open_copy(
    copy: OwnedFd,
    shown: &str,
    facts: &Facts,
    doing: &str,
) -> Result<&'static Plugin, PortError> {
    table_of(link(copy, shown, facts, doing)?, facts, doing)
}

/// Where the symbol lies that is to be a plugin's table.
///
/// # Errors
///
/// `Refused` where there is none, or it is too short to be looked at.
pub(crate) fn facts(checked: &Checked) -> Result<Facts, PortError> {
    let facts = elf::facts(&checked.path, &checked.bytes)?;
    if facts.symbol_size < FIRST_WORDS {
        let what = format!("`{}` has {} bytes", facts.symbol, facts.symbol_size);
        return Err(PortError::new(&MAGIC, loading(checked), what));
    }
    Ok(facts)
}

/// What is being done with a library.
pub(crate) fn loading(checked: &Checked) -> String {
    format!("load plugin library `{}`", checked.path.display())
}

/// Links the bytes that were checked into the process, for ever, and returns where their table is.
fn link(
    copy: OwnedFd,
    shown: &str,
    facts: &Facts,
    doing: &str,
) -> Result<*const Plugin, PortError> {
    // Not `/proc/self`: a debugger reads the library by that name, too, and would read a descriptor of its own.
    let me = std::fs::read_link("/proc/self").unwrap_or_else(|_| "self".into());
    let path = format!("/proc/{}/fd/{}", me.display(), copy.as_raw_fd());
    let refused = |error: libloading::Error| {
        let said = chain(&error).replace(&path, shown);
        if said.contains("version `GLIBC_") {
            let needs = facts.glibc.as_deref().unwrap_or("unknown");
            return PortError::new(
                &NEWER_GLIBC,
                doing,
                format!("it needs glibc {needs}: {said}"),
            );
        }
        PortError::new(&UNLOADABLE, doing, said)
    };
    // SAFETY: initialisers of the library run; it is one that an administrator allowed.
    let library = unsafe { Library::open(Some(&path), RTLD_NOW | RTLD_LOCAL) }.map_err(refused)?;
    // SAFETY: only the address is taken; what lies there is looked at step by step.
    let symbol = unsafe { library.get::<*const Plugin>(facts.symbol.as_bytes()) };
    let table = symbol.map(|symbol| symbol.into_raw().cast_const().cast());
    // Never unloaded: its threads and thread-locals may outlive every hook. The descriptor stays as well: the
    // linker knows the library by that name, and backtraces read it.
    std::mem::forget(library);
    std::mem::forget(copy);
    table.map_err(refused)
}

/// A copy in memory that nobody can change any more: what the linker gets is what was hashed, and who later writes
/// over the file does not pull the code from under a running hook.
///
/// # Errors
///
/// `Refused` where there is no room for it.
pub(crate) fn sealed_copy(checked: &Checked, doing: &str) -> Result<OwnedFd, PortError> {
    let made = || -> std::io::Result<OwnedFd> {
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        // Older kernels do not know that a file in memory may be executable only if it says so.
        let copy = memfd_create("vnfm-plugin", flags | MemfdFlags::EXEC)
            .or_else(|_| memfd_create("vnfm-plugin", flags))?;
        let mut file = File::from(copy);
        file.write_all(&checked.bytes)?;
        seal(&file, || std::thread::park_timeout(SEAL_AGAIN))?;
        Ok(file.into())
    };
    made()
        .map_err(|error| PortError::new(&UNLOADABLE, doing, format!("no copy in memory: {error}")))
}

/// Seals a file in memory. The kernel says `EBUSY` while somebody else holds a page of it, which the kernel itself does
/// for a moment when memory is moved about: that is waited for.
fn seal(file: &File, mut pause: impl FnMut()) -> std::io::Result<()> {
    let seals = SealFlags::WRITE | SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL;
    for _ in 1..SEALINGS {
        match fcntl_add_seals(file, seals) {
            Err(Errno::BUSY) => pause(),
            other => return Ok(other?),
        }
    }
    Ok(fcntl_add_seals(file, seals)?)
}

fn table_of(
    table: *const Plugin,
    facts: &Facts,
    doing: &str,
) -> Result<&'static Plugin, PortError> {
    let fail = |code, what: String| Err(PortError::new(code, doing, what));
    // SAFETY: the symbol is at least this long, and the first words never move.
    let (magic, major, minor, size) = unsafe {
        (
            (*table).magic,
            (*table).abi_major,
            (*table).abi_minor,
            (*table).size,
        )
    };
    if magic != OUR_MAGIC {
        return fail(
            &MAGIC,
            format!("it begins with {magic:#018x}, not {OUR_MAGIC:#018x}"),
        );
    }
    if major != ABI_MAJOR {
        return fail(
            &MAJOR,
            format!("it speaks ABI {major}.{minor}, the server {ABI_MAJOR}"),
        );
    }
    if size < size_of::<Plugin>() || facts.symbol_size < size_of::<Plugin>() as u64 {
        let what = format!(
            "its table has {size} bytes, needed are {}",
            size_of::<Plugin>()
        );
        return fail(&SIZE, what);
    }
    // SAFETY: magic, version and size are right, and a constant of a library that stays is 'static.
    let plugin: &'static Plugin = unsafe { &*table };
    check(plugin, doing).map(|()| plugin)
}

/// Checks what a plugin's table promises; also for one that is linked into the program.
///
/// # Errors
///
/// `Refused`, saying what it lacks.
pub(crate) fn check(plugin: &Plugin, doing: &str) -> Result<(), PortError> {
    if plugin.flags & FLAG_PANICS_CONTAINED == 0 {
        let what = "it does not promise to contain its panics";
        return Err(PortError::new(&ABORTS, doing, what));
    }
    if plugin.declare.is_none() || plugin.create.is_none() {
        return Err(PortError::new(
            &SIZE,
            doing,
            "`declare` or `create` is null",
        ));
    }
    Ok(())
}

/// What the plugin says of itself.
///
/// # Errors
///
/// `Broken` where it has the wrong shape.
pub(crate) fn declaration(plugin: &'static Plugin) -> Result<Declaration, PortError> {
    // SAFETY: texts of a table live as long as its library, which is never unloaded.
    let (name, version) = unsafe { (plugin.name.as_text(), plugin.version.as_text()) };
    let fail = |what: String| {
        PortError::new(
            &DECLARATION,
            format!("read the declaration of plugin `{name}@{version}`"),
            what,
        )
    };
    let mut out = Buf::EMPTY;
    // SAFETY: `declare` writes `out` and keeps nothing.
    let status = plugin
        .declare
        .map(|declare| unsafe { declare(&raw mut out) });
    if status != Some(READY_OK) {
        return Err(fail(format!("it answers {status:?}: {}", out.to_text())));
    }
    let said: Value =
        serde_json::from_slice(out.as_bytes()).map_err(|error| fail(error.to_string()))?;
    if said["schemaVersion"] != 1 {
        return Err(fail(format!(
            "its schemaVersion is {}, not 1",
            said["schemaVersion"]
        )));
    }
    let declared: Declaration =
        serde_json::from_value(said).map_err(|error| fail(error.to_string()))?;
    if name.is_empty() || version.is_empty() {
        return Err(fail("it has no name or no version".into()));
    }
    Ok(Declaration {
        name: name.into_owned(),
        version: version.into_owned(),
        ..declared
    })
}

#[cfg(test)]
mod tests {
    use super::{Errno, File, MemfdFlags, SEALINGS, memfd_create, seal};
    use std::io::Write as _;

    /// A file in memory with somebody who may write into its page.
    fn busy() -> (File, *mut core::ffi::c_void) {
        use rustix::mm::{MapFlags, ProtFlags, mmap};
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let mut file = File::from(memfd_create("busy", flags).unwrap());
        file.write_all(&[7; 4096]).unwrap();
        let both = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a mapping of its own, which nobody reads or writes.
        let page = unsafe { mmap(std::ptr::null_mut(), 4096, both, MapFlags::SHARED, &file, 0) };
        (file, page.unwrap())
    }

    #[test]
    fn a_copy_that_is_busy_for_a_moment_is_sealed_all_the_same() {
        let (mut file, page) = busy();
        let mut pauses = 0;
        let release = || {
            pauses += 1;
            if pauses == 2 {
                // SAFETY: nobody uses it.
                unsafe { rustix::mm::munmap(page, 4096) }.unwrap();
            }
        };
        seal(&file, release).unwrap();
        assert_eq!(pauses, 2);
        file.write_all(b"more").unwrap_err();
    }

    #[test]
    fn a_copy_that_stays_busy_is_given_up() {
        let (file, page) = busy();
        let mut pauses = 0;
        let error = seal(&file, || pauses += 1).unwrap_err();
        assert_eq!(
            (error.raw_os_error(), pauses),
            (Some(Errno::BUSY.raw_os_error()), SEALINGS - 1)
        );
        // SAFETY: nobody uses it.
        unsafe { rustix::mm::munmap(page, 4096) }.unwrap();
    }
}
