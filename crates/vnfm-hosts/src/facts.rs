//! What a host reports about itself. The host may lie, or be broken: its texts are short, and contain no control characters.

use serde::Serialize;

/// Most network interfaces that are read.
const MAX_NICS: usize = 256;
/// Longest text of a fact.
const MAX_TEXT_LEN: usize = 64;

/// The hardware of a host.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Facts {
    /// Number of CPUs, including those that are offline.
    pub(crate) cpus: u32,
    /// `MemTotal` in KiB: what the kernel manages, less than the installed memory.
    pub(crate) memory_kib: u64,
    /// Size of the root file system in KiB.
    pub(crate) disk_kib: u64,
    /// Such as `x86_64`.
    pub(crate) architecture: String,
    /// Physical network interfaces.
    pub(crate) nics: Vec<Nic>,
}

/// A physical network interface.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Nic {
    name: String,
    mac_address: String,
    /// Most virtual functions of SR-IOV; 0: it has none.
    sriov_vfs: u32,
}

impl Facts {
    /// Reads lines such as `cpus 8` and `nic eth0 52:54:00:12:34:56 64`.
    pub(crate) fn read<'a>(lines: impl Iterator<Item = &'a str>) -> Result<Self, String> {
        let mut facts = Self::default();
        for line in lines {
            let mut words = line.split(' ');
            let key = words.next().unwrap_or_default();
            let words: Vec<&str> = words.collect();
            match (key, words.as_slice()) {
                ("cpus", [count]) => facts.cpus = number(key, count)?,
                ("memory_kib", [size]) => facts.memory_kib = number(key, size)?,
                ("disk_kib", [size]) => facts.disk_kib = number(key, size)?,
                ("architecture", [name]) => facts.architecture = text(key, name)?,
                ("nic", [name, mac, vfs]) if facts.nics.len() < MAX_NICS => facts.nics.push(Nic {
                    name: text(key, name)?,
                    mac_address: text(key, mac)?,
                    sriov_vfs: number(key, vfs)?,
                }),
                ("nic", [_, _, _]) => {
                    return Err(format!("it has more than {MAX_NICS} interfaces"));
                }
                _ => return Err("a line of its output is no fact".to_owned()),
            }
        }
        let complete = facts.cpus > 0 && facts.memory_kib > 0 && !facts.architecture.is_empty();
        complete
            .then_some(facts)
            .ok_or_else(|| "CPUs, memory or architecture are missing in its output".to_owned())
    }

    pub(crate) fn has_sriov(&self) -> bool {
        self.nics.iter().any(|nic| nic.sriov_vfs > 0)
    }
}

fn number<T: std::str::FromStr>(key: &str, word: &str) -> Result<T, String> {
    word.parse()
        .map_err(|_| format!("the fact `{key}` is not a number that is possible"))
}

fn text(key: &str, word: &str) -> Result<String, String> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.:@".contains(&byte);
    if word.is_empty() || word.len() > MAX_TEXT_LEN || !word.bytes().all(is_plain) {
        return Err(format!(
            "the fact `{key}` has characters that are not allowed"
        ));
    }
    Ok(word.to_owned())
}

#[cfg(test)]
mod tests {
    use super::Facts;

    const PLAIN: &str = "cpus 8\nmemory_kib 16384\ndisk_kib 1000\narchitecture x86_64\n";

    #[test]
    fn interfaces_with_virtual_functions_are_recognized() {
        let text = format!("{PLAIN}nic eth0 52:54:00:12:34:56 0\nnic eth1 52:54:00:12:34:57 64\n");
        let facts = Facts::read(text.lines()).unwrap();
        assert_eq!(
            (facts.cpus, facts.memory_kib, facts.nics.len()),
            (8, 16384, 2)
        );
        assert!(facts.has_sriov());
        assert!(!Facts::read(PLAIN.lines()).unwrap().has_sriov());
    }

    #[test]
    fn facts_that_could_reach_a_terminal_or_overflow_are_refused_without_a_quotation() {
        for (line, words) in [
            ("nic \u{1b}[31m 52:54:00:12:34:56 0", "`nic`"),
            ("cpus 99999999999", "`cpus`"),
            ("cpus -1", "`cpus`"),
            ("architecture a\u{7}", "`architecture`"),
            ("garbage", "no fact"),
        ] {
            let error = Facts::read(format!("{PLAIN}{line}").lines()).unwrap_err();
            assert!(
                error.contains(words) && !error.contains(char::is_control),
                "{error}"
            );
        }
        let many = format!("{PLAIN}{}", "nic e 5 0\n".repeat(300));
        assert!(
            Facts::read(many.lines())
                .unwrap_err()
                .contains("interfaces")
        );
        assert!(
            Facts::read("cpus 1".lines())
                .unwrap_err()
                .contains("missing")
        );
    }
}
