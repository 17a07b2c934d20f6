//! Paths in a package: relative, separated by `/`, and never outside the package.

use unicode_normalization::UnicodeNormalization as _;

/// Why a path cannot name a file in the package.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PathError {
    /// It starts with `/`; paths are relative to the package.
    #[error("the path is absolute")]
    Absolute,
    /// Contains a drive letter or `\`.
    #[error("the path uses Windows syntax")]
    Windows,
    /// Leaves the package with `..`.
    #[error("the path leaves the package")]
    Escape,
    /// Empty, or has control characters.
    #[error("the path is empty or has control characters")]
    Name,
}

/// Removes `.`, `..` and repeated `/` from a path.
///
/// # Errors
/// The path is absolute, Windows-like, empty, or leaves the package.
pub fn normalise(path: &str) -> Result<String, PathError> {
    resolve("", path)
}

/// Resolves a path that a file in `folder` contains, relative to that folder.
///
/// # Errors
/// The path is absolute, Windows-like, empty, or leaves the package.
pub fn resolve(folder: &str, path: &str) -> Result<String, PathError> {
    if path.is_empty() || path.chars().any(char::is_control) {
        return Err(PathError::Name);
    }
    let drive = path.as_bytes().get(1) == Some(&b':') && path.as_bytes()[0].is_ascii_alphabetic();
    if path.contains('\\') || drive {
        return Err(PathError::Windows);
    }
    if path.starts_with('/') {
        return Err(PathError::Absolute);
    }
    let mut parts: Vec<&str> = folder.split('/').filter(|part| !part.is_empty()).collect();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop().ok_or(PathError::Escape)?),
            _ => parts.push(part),
        }
    }
    if parts.is_empty() {
        Err(PathError::Name)
    } else {
        Ok(parts.join("/"))
    }
}

/// The path without case and with compatible characters unified (Unicode NFKC): on some file system, two paths with
/// the same result are one file.
pub(crate) fn folded(path: &str) -> String {
    let composed: String = path.nfkc().collect();
    // Twice, since lower-case letters may compose to other ones.
    composed.to_uppercase().to_lowercase().nfkc().collect()
}

/// The folder of a file; empty for a file at the root.
pub fn folder(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(folder, _)| folder)
}

/// The file name: the last part of a path.
pub fn base(path: &str) -> &str {
    path.rsplit_once('/').map_or(path, |(_, base)| base)
}

/// Whether the extension of a file is one of these; case does not matter.
pub fn has_extension(path: &str, extensions: &[&str]) -> bool {
    let extension = base(path).rsplit_once('.').map(|(_, extension)| extension);
    extension.is_some_and(|own| {
        extensions
            .iter()
            .any(|known| own.eq_ignore_ascii_case(known))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_a_file_system_may_confuse_fold_to_the_same() {
        for (one, other) in [
            ("\u{e9}.yaml", "e\u{301}.yaml"),
            ("A/B", "a/b"),
            ("stra\u{df}e", "STRASSE"),
            ("\u{fb01}le", "file"),
            ("\u{212b}", "\u{e5}"),
            ("\u{3c3}", "\u{3c2}"),
        ] {
            assert_eq!(folded(one), folded(other), "{one} {other}");
        }
        assert_ne!(folded("e"), folded("\u{e9}"));
    }

    #[test]
    fn paths_stay_in_the_package() {
        assert_eq!(normalise("./a//b/../c").as_deref(), Ok("a/c"));
        assert_eq!(
            resolve("Definitions", "../Files/x").as_deref(),
            Ok("Files/x")
        );
        for (path, why) in [
            ("/etc/passwd", PathError::Absolute),
            ("../x", PathError::Escape),
            ("a/../../x", PathError::Escape),
            ("C:/x", PathError::Windows),
            ("a\\..\\b", PathError::Windows),
            ("", PathError::Name),
            (".", PathError::Name),
            ("a\0b", PathError::Name),
        ] {
            assert_eq!(normalise(path), Err(why), "{path}");
        }
        assert_eq!(
            (folder("a/b/c"), base("a/b/c"), folder("c"), base("c")),
            ("a/b", "c", "", "c")
        );
    }
}
