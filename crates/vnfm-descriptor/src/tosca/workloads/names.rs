//! The syntax of what goes into the Kubernetes API as it is written.

use std::net::IpAddr;

/// The rule of [`is_label`], for people.
pub(super) const LABEL: &str =
    "use at most 63 lower-case letters, digits and `-`, with a letter or digit at both ends";

/// Whether `name` is an RFC 1123 label.
pub(super) fn is_label(name: &str) -> bool {
    let inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    (1..=63).contains(&name.len())
        && name.chars().all(inner)
        && !name.starts_with('-')
        && !name.ends_with('-')
}

/// Whether `name` can be that of a Service: a label that begins with a letter (RFC 1035).
pub(super) fn is_service_name(name: &str) -> bool {
    is_label(name) && name.starts_with(|c: char| c.is_ascii_lowercase())
}

/// Whether `name` is an RFC 1123 subdomain, with or without a wildcard as its first part, and not an address.
pub(super) fn is_host(name: &str) -> bool {
    if name.parse::<IpAddr>().is_ok() {
        return false;
    }
    let name = name.strip_prefix("*.").unwrap_or(name);
    name.len() <= 253 && name.split('.').all(is_label)
}

/// Whether `name` can be an environment variable in every version of Kubernetes.
pub(super) fn is_variable(name: &str) -> bool {
    let is_start = |c: char| c.is_ascii_alphabetic() || c == '_';
    name.starts_with(is_start)
        && name.len() <= 253
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// Whether `name` is that of an extended resource: `DOMAIN/NAME`, and not of Kubernetes itself.
pub(super) fn is_extended_resource(name: &str) -> bool {
    let Some((domain, resource)) = name.split_once('/') else {
        return false;
    };
    let inner = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let is_end = |c: char| c.is_ascii_alphanumeric();
    is_host(domain)
        && !domain.starts_with('*')
        && !domain.ends_with("kubernetes.io")
        && (1..=63).contains(&resource.len())
        && resource.chars().all(inner)
        && resource.starts_with(is_end)
        && resource.ends_with(is_end)
}

/// Whether `text` refers to an image in a registry: `[HOST[:PORT]/]PATH[:TAG][@DIGEST]`.
pub(super) fn is_image_reference(text: &str) -> bool {
    let (named, digest) = text
        .split_once('@')
        .map_or((text, None), |(named, digest)| (named, Some(digest)));
    let (path, tag) = match named.rsplit_once(':') {
        Some((path, tag)) if !tag.contains('/') => (path, Some(tag)),
        _ => (named, None),
    };
    let (host, path) = match path.split_once('/') {
        Some((host, path)) if host.contains(['.', ':']) || host == "localhost" => {
            (Some(host), path)
        }
        _ => (None, path),
    };
    let is_tag = |tag: &str| {
        let inner = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        tag.len() <= 128
            && tag.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_')
            && tag.chars().all(inner)
    };
    let is_digest = |digest: &str| {
        let hash = digest.strip_prefix("sha256:");
        hash.is_some_and(|hash| hash.len() == 64 && hash.chars().all(|c| c.is_ascii_hexdigit()))
    };
    text.len() <= 512
        && path.split('/').all(is_path_part)
        && host.is_none_or(is_registry)
        && tag.is_none_or(is_tag)
        && digest.is_none_or(is_digest)
}

/// A part of an image's path: lower-case letters and digits, with separators between them.
fn is_path_part(part: &str) -> bool {
    let inner =
        |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '-' | '_' | '.');
    let is_end = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    part.starts_with(is_end) && part.ends_with(is_end) && part.chars().all(inner)
}

/// A registry: a host with or without a port.
fn is_registry(text: &str) -> bool {
    let (host, port) = text
        .split_once(':')
        .map_or((text, None), |(host, port)| (host, Some(port)));
    (is_host(&host.to_ascii_lowercase()) || host.parse::<IpAddr>().is_ok())
        && port.is_none_or(|port| port.parse::<u16>().is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_of_images_are_recognised() {
        let digest = format!("web@sha256:{}", "a".repeat(64));
        for text in [
            "web",
            "web:1",
            "a/b-c/d_e:v1.2",
            "localhost/web:1",
            "registry.example.com:5000/team/web:1",
            "192.0.2.1:5000/web:1",
            &digest,
        ] {
            assert!(is_image_reference(text), "{text}");
        }
        for text in [
            "",
            "Web:1",
            "web:",
            "web:1:2",
            "https://example.com/web",
            "web 1",
            "web:1\n",
            "../web",
            "/web",
            "web/",
            "registry:99999999/web",
            "web@sha256:12",
            "{{ a }}",
            "web:-1",
        ] {
            assert!(!is_image_reference(text), "{text:?}");
        }
    }

    #[test]
    fn names_for_the_api_are_recognised() {
        assert!(
            is_label("web-1")
                && !is_label("Web")
                && !is_label("-a")
                && !is_label("")
                && !is_label("a.b")
        );
        assert!(is_host("*.example.com") && is_host("a") && !is_host("*") && !is_host("a..b"));
        assert!(!is_host("192.0.2.1") && is_service_name("a1") && !is_service_name("1a"));
        assert!(
            is_variable("_a1") && !is_variable("1a") && !is_variable("a-b") && !is_variable("")
        );
        assert!(is_extended_resource("example.com/gpu") && !is_extended_resource("gpu"));
        assert!(
            !is_extended_resource("kubernetes.io/gpu") && !is_extended_resource("example.com/")
        );
    }
}
