//! Opens a library and checks its plugin table before using it.
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

/// Attempts to seal a copy while the kernel reports it as busy, and the pause between them.
const MAX_SEAL_ATTEMPTS: u32 = 50;
const SEAL_RETRY_INTERVAL: Duration = Duration::from_millis(20);

/// A library's description of itself; no driver was created.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Inspection {
    /// Name, version, hooks and schemas.
    #[serde(flatten)]
    pub declaration: Declaration,
    /// Name and version of the SDK that it was built with.
    pub sdk_version: String,
    /// Version of the plugin ABI, `MAJOR.MINOR`.
    pub abi: String,
    /// Newest glibc version that it needs.
    pub glibc: Option<String>,
    /// SHA-256 of the file that was checked.
    pub sha256: String,
}

/// Inspects the library at `path` without creating a driver. Loading it runs its initialisers: inspect only
/// libraries that you would run.
///
/// # Errors
///
/// Why it cannot be loaded.
pub fn inspect(path: &Path) -> Result<Inspection, PortError> {
    let (dir, file) = split(path)?;
    inspect_checked(&Libraries::default(), &folder::read(dir, file)?)
}

/// The SHA-256 of the library at `path`, in hexadecimal, without loading it.
///
/// # Errors
///
/// `Refused` if it cannot be read, or another user could change it.
pub fn file_sha256(path: &Path) -> Result<String, PortError> {
    let (dir, file) = split(path)?;
    Ok(folder::read(dir, file)?.sha256)
}

/// Inspects a library that was read.
///
/// # Errors
///
/// Those of [`inspect`]: why it cannot be loaded.
pub(crate) fn inspect_checked(
    libraries: &Libraries,
    checked: &Checked,
) -> Result<Inspection, PortError> {
    let glibc = facts(checked)?.glibc;
    Ok(Inspection::from_checked(
        plugin_info(libraries.open(checked)?)?,
        glibc,
        checked,
    ))
}

/// A plugin's description of itself; hook processes send it to the engine.
#[derive(Serialize, Deserialize)]
pub(crate) struct PluginInfo {
    pub(crate) declaration: Declaration,
    pub(crate) sdk_version: String,
    pub(crate) abi: String,
}

/// # Errors
///
/// `Broken` if its declaration is malformed.
pub(crate) fn plugin_info(plugin: &'static Plugin) -> Result<PluginInfo, PortError> {
    Ok(PluginInfo {
        declaration: declaration(plugin)?,
        // SAFETY: texts of a table live as long as its library, which is never unloaded.
        sdk_version: unsafe { plugin.sdk_version.as_text() }.into_owned(),
        abi: format!("{}.{}", plugin.abi_major, plugin.abi_minor),
    })
}

impl Inspection {
    pub(crate) fn from_checked(info: PluginInfo, glibc: Option<String>, checked: &Checked) -> Self {
        Self {
            declaration: info.declaration,
            sdk_version: info.sdk_version,
            abi: info.abi,
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
            let action = format!("load plugin library `{}`", path.display());
            Err(PortError::new(
                &UNREADABLE,
                action,
                "the path does not name a file",
            ))
        }
    }
}

/// The first four members keep their offsets in all versions; a shorter symbol cannot be checked at all.
const MIN_TABLE_SIZE: u64 = std::mem::offset_of!(Plugin, flags) as u64;

/// The libraries that one host has opened, by SHA-256. They are never closed.
#[derive(Default)]
pub(crate) struct Libraries {
    opened: Mutex<BTreeMap<String, Result<&'static Plugin, PortError>>>,
}

impl Libraries {
    /// Opens a library unless it is open already, and checks its table.
    ///
    /// # Errors
    ///
    /// `Refused`, with the reason that the loader gave.
    pub(crate) fn open(&self, checked: &Checked) -> Result<&'static Plugin, PortError> {
        let mut opened = self.opened.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(outcome) = opened.get(&checked.sha256) {
            return outcome.clone();
        }
        let (facts, action) = (facts(checked)?, load_action(checked));
        let copy = sealed_copy(checked, &action)?;
        let table = link(copy, &checked.path.display().to_string(), &facts, &action)?;
        let outcome = checked_table(table, &facts, &action);
        opened.insert(checked.sha256.clone(), outcome.clone());
        outcome
    }
}

/// Opens a [`sealed_copy`] that another process made of the library `shown`.
///
/// # Errors
///
/// `Refused`, with the reason that the loader gave.
pub(crate) fn open_copy(
    copy: OwnedFd,
    display_path: &str,
    facts: &Facts,
    action: &str,
) -> Result<&'static Plugin, PortError> {
    checked_table(link(copy, display_path, facts, action)?, facts, action)
}

/// Finds the symbol of the plugin table.
///
/// # Errors
///
/// `Refused` if there is none, or it is too short.
pub(crate) fn facts(checked: &Checked) -> Result<Facts, PortError> {
    let facts = elf::facts(&checked.path, &checked.bytes)?;
    if facts.symbol_size < MIN_TABLE_SIZE {
        let detail = format!("`{}` has {} bytes", facts.symbol, facts.symbol_size);
        return Err(PortError::new(&MAGIC, load_action(checked), detail));
    }
    Ok(facts)
}

/// What we are doing, for error messages.
pub(crate) fn load_action(checked: &Checked) -> String {
    format!("load plugin library `{}`", checked.path.display())
}

/// Links a library into the process permanently, and returns the address of its table.
fn link(
    copy: OwnedFd,
    display_path: &str,
    facts: &Facts,
    action: &str,
) -> Result<*const Plugin, PortError> {
    // Not `/proc/self`: a debugger reads the library by this path, too, and would open a descriptor of its own.
    let me = std::fs::read_link("/proc/self").unwrap_or_else(|_| "self".into());
    let path = format!("/proc/{}/fd/{}", me.display(), copy.as_raw_fd());
    let refused = |error: libloading::Error| {
        let info = chain(&error).replace(&path, display_path);
        if info.contains("version `GLIBC_") {
            let needs = facts.glibc.as_deref().unwrap_or("unknown");
            return PortError::new(
                &NEWER_GLIBC,
                action,
                format!("it needs glibc {needs}: {info}"),
            );
        }
        PortError::new(&UNLOADABLE, action, info)
    };
    // SAFETY: the library's initialisers run; an administrator allowed it.
    let library = unsafe { Library::open(Some(&path), RTLD_NOW | RTLD_LOCAL) }.map_err(refused)?;
    // SAFETY: only the address is taken; the table is checked step by step.
    let symbol = unsafe { library.get::<*const Plugin>(facts.symbol.as_bytes()) };
    let table = symbol.map(|symbol| symbol.into_raw().cast_const().cast());
    // Never unloaded: its threads and thread-locals may outlive every hook. The descriptor stays open as well: the
    // linker knows the library by that path, and backtraces read it.
    std::mem::forget(library);
    std::mem::forget(copy);
    table.map_err(refused)
}

/// An immutable copy in memory: the linker gets exactly the bytes that were hashed, and overwriting the file later does
/// not change the code of a running hook.
///
/// # Errors
///
/// `Refused` if the copy cannot be created, for example without memory.
pub(crate) fn sealed_copy(checked: &Checked, action: &str) -> Result<OwnedFd, PortError> {
    let create = || -> std::io::Result<OwnedFd> {
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        // Kernels before 6.3 do not know the EXEC flag; newer ones may require it.
        let copy = memfd_create("vnfm-plugin", flags | MemfdFlags::EXEC)
            .or_else(|_| memfd_create("vnfm-plugin", flags))?;
        let mut file = File::from(copy);
        file.write_all(&checked.bytes)?;
        seal(&file, || std::thread::park_timeout(SEAL_RETRY_INTERVAL))?;
        Ok(file.into())
    };
    create().map_err(|error| {
        PortError::new(
            &UNLOADABLE,
            action,
            format!("cannot copy it into memory: {error}"),
        )
    })
}

/// Seals a file in memory. The kernel returns `EBUSY` while someone else holds a page of it, as the kernel itself does
/// briefly when it migrates memory; hence the retries.
fn seal(file: &File, mut pause: impl FnMut()) -> std::io::Result<()> {
    let seals = SealFlags::WRITE | SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL;
    for _ in 1..MAX_SEAL_ATTEMPTS {
        match fcntl_add_seals(file, seals) {
            Err(Errno::BUSY) => pause(),
            other => return Ok(other?),
        }
    }
    Ok(fcntl_add_seals(file, seals)?)
}

fn checked_table(
    table: *const Plugin,
    facts: &Facts,
    action: &str,
) -> Result<&'static Plugin, PortError> {
    let fail = |code, detail: String| Err(PortError::new(code, action, detail));
    // SAFETY: the symbol is at least this long, and the first members never move.
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
            format!("the table starts with {magic:#018x}, not {OUR_MAGIC:#018x}"),
        );
    }
    if major != ABI_MAJOR {
        return fail(
            &MAJOR,
            format!("the plugin uses ABI {major}.{minor}, the server {ABI_MAJOR}"),
        );
    }
    if size < size_of::<Plugin>() || facts.symbol_size < size_of::<Plugin>() as u64 {
        let detail = format!(
            "its table has {size} bytes instead of at least {}",
            size_of::<Plugin>()
        );
        return fail(&SIZE, detail);
    }
    // SAFETY: magic, version and size are right, and a constant of a library that is never unloaded is 'static.
    let plugin: &'static Plugin = unsafe { &*table };
    check(plugin, action).map(|()| plugin)
}

/// Checks the flags and functions of a plugin table, from a library or linked into the program.
///
/// # Errors
///
/// `Refused`, naming what is missing.
pub(crate) fn check(plugin: &Plugin, action: &str) -> Result<(), PortError> {
    if plugin.flags & FLAG_PANICS_CONTAINED == 0 {
        let detail = "its table lacks the flag for contained panics";
        return Err(PortError::new(&ABORTS, action, detail));
    }
    if plugin.declare.is_none() || plugin.create.is_none() {
        return Err(PortError::new(
            &SIZE,
            action,
            "`declare` or `create` is null",
        ));
    }
    Ok(())
}

/// Reads the declaration that the plugin returns.
///
/// # Errors
///
/// `Broken` if it is malformed.
pub(crate) fn declaration(plugin: &'static Plugin) -> Result<Declaration, PortError> {
    // SAFETY: texts of a table live as long as its library, which is never unloaded.
    let (name, version) = unsafe { (plugin.name.as_text(), plugin.version.as_text()) };
    let fail = |detail: String| {
        PortError::new(
            &DECLARATION,
            format!("read the declaration of plugin `{name}@{version}`"),
            detail,
        )
    };
    let mut out = Buf::EMPTY;
    // SAFETY: `declare` writes `out` and keeps nothing.
    let status = plugin
        .declare
        .map(|declare| unsafe { declare(&raw mut out) });
    if status != Some(READY_OK) {
        return Err(fail(format!(
            "`declare` returned {status:?}: {}",
            out.to_text()
        )));
    }
    let info: Value =
        serde_json::from_slice(out.as_bytes()).map_err(|error| fail(error.to_string()))?;
    if info["schemaVersion"] != 1 {
        return Err(fail(format!(
            "its schemaVersion is {}, not 1",
            info["schemaVersion"]
        )));
    }
    let declared: Declaration =
        serde_json::from_value(info).map_err(|error| fail(error.to_string()))?;
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
    use super::{Errno, File, MAX_SEAL_ATTEMPTS, MemfdFlags, memfd_create, seal};
    use std::io::Write as _;

    /// A file in memory with a writable mapping of its page.
    fn busy() -> (File, *mut core::ffi::c_void) {
        use rustix::mm::{MapFlags, ProtFlags, mmap};
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let mut file = File::from(memfd_create("busy", flags).unwrap());
        file.write_all(&[7; 4096]).unwrap();
        let both = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping that nothing reads or writes.
        let page = unsafe { mmap(std::ptr::null_mut(), 4096, both, MapFlags::SHARED, &file, 0) };
        (file, page.unwrap())
    }

    #[test]
    fn a_briefly_busy_copy_is_sealed() {
        let (mut file, page) = busy();
        let mut pauses = 0;
        let release = || {
            pauses += 1;
            if pauses == 2 {
                // SAFETY: nothing uses the mapping.
                unsafe { rustix::mm::munmap(page, 4096) }.unwrap();
            }
        };
        seal(&file, release).unwrap();
        assert_eq!(pauses, 2);
        file.write_all(b"more").unwrap_err();
    }

    #[test]
    fn sealing_fails_if_the_copy_stays_busy() {
        let (file, page) = busy();
        let mut pauses = 0;
        let error = seal(&file, || pauses += 1).unwrap_err();
        assert_eq!(
            (error.raw_os_error(), pauses),
            (Some(Errno::BUSY.raw_os_error()), MAX_SEAL_ATTEMPTS - 1)
        );
        // SAFETY: nothing uses the mapping.
        unsafe { rustix::mm::munmap(page, 4096) }.unwrap();
    }
}
