//! Reads a library's ELF tables without loading it: its plugin symbol and the glibc version it needs.

use crate::errors::{NO_SYMBOL, UNLOADABLE};
use crate::lock::newer;
use object::read::elf::{ElfFile64, FileHeader};
use object::{Endianness, Object, ObjectSymbol};
use std::path::Path;
use vnfm_core::ports::PortError;
use vnfm_plugin_abi::SYMBOL_PREFIX;

/// Facts about a library, found without loading it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Facts {
    /// Name of the plugin symbol that it exports.
    pub(crate) symbol: String,
    /// Size of the symbol in bytes.
    pub(crate) symbol_size: u64,
    /// Newest glibc version that it needs, such as `2.34`.
    pub(crate) glibc: Option<String>,
}

/// # Errors
///
/// `Refused` if it is not a 64-bit ELF library, or does not export exactly one plugin symbol.
pub(crate) fn facts(path: &Path, bytes: &[u8]) -> Result<Facts, PortError> {
    let action = || format!("load plugin library `{}`", path.display());
    let elf = ElfFile64::<Endianness>::parse(bytes).map_err(|error| {
        PortError::new(
            &UNLOADABLE,
            action(),
            format!("it is not a 64-bit ELF library: {error}"),
        )
    })?;
    let mut found = elf.dynamic_symbols().filter(|symbol| {
        symbol.is_definition() && symbol.is_global() && symbol.name().is_ok_and(is_plugin_symbol)
    });
    let Some(symbol) = found.next() else {
        let detail = format!("it exports no symbol `{SYMBOL_PREFIX}` or `{SYMBOL_PREFIX}_…`");
        return Err(PortError::new(&NO_SYMBOL, action(), detail));
    };
    if found.next().is_some() {
        let detail = "it exports several plugins; a library holds one";
        return Err(PortError::new(&NO_SYMBOL, action(), detail));
    }
    let symbol_size = symbol.size();
    let symbol = symbol.name().unwrap_or_default().to_owned();
    Ok(Facts {
        symbol,
        symbol_size,
        glibc: glibc(&elf, bytes).unwrap_or_default(),
    })
}

fn is_plugin_symbol(name: &str) -> bool {
    name.strip_prefix(SYMBOL_PREFIX)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with('_'))
}

fn glibc(elf: &ElfFile64<'_, Endianness>, bytes: &[u8]) -> object::Result<Option<String>> {
    let endian = elf.elf_header().endian()?;
    let sections = elf.elf_section_table();
    let Some((mut libraries, link)) = sections.gnu_verneed(endian, bytes)? else {
        return Ok(None);
    };
    let strings = sections.strings(endian, bytes, link)?;
    let mut newest: Option<String> = None;
    while let Some((_, mut versions)) = libraries.next()? {
        while let Some(version) = versions.next()? {
            let name = String::from_utf8_lossy(version.name(endian, strings)?);
            if let Some(version) = name.strip_prefix("GLIBC_")
                && newest
                    .as_deref()
                    .is_none_or(|known| newer(version, known).is_gt())
            {
                newest = Some(version.to_owned());
            }
        }
    }
    Ok(newest)
}
