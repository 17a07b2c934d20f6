//! The public URL and the client's address as reported by proxies: `Forwarded` (RFC 7239) or `X-Forwarded-*`.
//!
//! Only configured proxies are trusted: anyone else could claim any address. Each proxy appends its values,
//! so the list is read from the end, for as long as the request came from a trusted proxy; the values of
//! the outermost trusted proxy count.

use axum::http::HeaderMap;
use axum::http::uri::Authority;
use std::net::{IpAddr, SocketAddr};
use vnfm_nfvo::Networks;

/// The proxies whose `Forwarded` headers are trusted.
#[derive(Debug, Clone, Default)]
pub(crate) struct Proxies(Option<Networks>);

impl Proxies {
    /// The proxies in these networks; none if the list is empty.
    ///
    /// # Errors
    ///
    /// The entry that is not a network.
    pub(crate) fn parse(networks: &[String]) -> Result<Self, String> {
        let some = (!networks.is_empty()).then(|| Networks::listed(networks));
        some.transpose().map(Self)
    }

    /// Whether an address belongs to a trusted proxy.
    pub(crate) fn has(&self, address: IpAddr) -> bool {
        self.0
            .as_ref()
            .is_some_and(|networks| networks.allow(address, &[]))
    }

    /// The base URL for the client as reported by the proxies; `None` if the request did not come from a trusted one,
    /// or there are no usable values.
    pub(crate) fn public_url(&self, headers: &HeaderMap, peer: Option<IpAddr>) -> Option<String> {
        peer.filter(|peer| self.has(*peer))?;
        let report = self
            .forwarded(headers)
            .or_else(|| self.x_forwarded(headers))?;
        report.url(headers)
    }

    /// The client's address as seen by the outermost trusted proxy; otherwise `peer`.
    pub(crate) fn client(&self, headers: &HeaderMap, peer: IpAddr) -> IpAddr {
        if !self.has(peer) {
            return peer;
        }
        let from: Vec<_> = match elements(headers) {
            none if none.is_empty() => list(headers, "x-forwarded-for")
                .iter()
                .map(|text| address(text))
                .collect(),
            some => some
                .iter()
                .map(|one| address(one.from.as_deref()?))
                .collect(),
        };
        let outermost = from.len().checked_sub(self.hops(&from));
        outermost
            .and_then(|outermost| from.get(outermost).copied().flatten())
            .unwrap_or(peer)
    }

    fn forwarded(&self, headers: &HeaderMap) -> Option<Report> {
        let elements = elements(headers);
        let from: Vec<_> = elements
            .iter()
            .map(|one| address(one.from.as_deref()?))
            .collect();
        let outermost = elements.len().checked_sub(self.hops(&from))?;
        let ours = elements.get(outermost..)?;
        let report = Report {
            proto: ours.iter().find_map(|one| one.proto.clone()),
            host: ours.iter().find_map(|one| one.host.clone()),
            port: None,
        };
        report.non_empty()
    }

    fn x_forwarded(&self, headers: &HeaderMap) -> Option<Report> {
        let from = list(headers, "x-forwarded-for");
        let from: Vec<_> = from.iter().map(|text| address(text)).collect();
        let hops = self.hops(&from).max(1);
        let value = |name| {
            let all = list(headers, name);
            all.get(all.len().saturating_sub(hops)).cloned()
        };
        let report = Report {
            proto: value("x-forwarded-proto"),
            host: value("x-forwarded-host"),
            port: value("x-forwarded-port"),
        };
        report.non_empty()
    }

    /// The number of trailing entries from trusted proxies: the last one, and each earlier one
    /// that a trusted proxy received.
    fn hops(&self, from: &[Option<IpAddr>]) -> usize {
        let inner = from
            .iter()
            .rev()
            .take_while(|from| from.is_some_and(|from| self.has(from)));
        (inner.count() + 1).min(from.len())
    }
}

/// How a proxy was addressed.
#[derive(Debug, Default)]
struct Report {
    proto: Option<String>,
    host: Option<String>,
    port: Option<String>,
}

impl Report {
    fn non_empty(self) -> Option<Self> {
        (self.proto.is_some() || self.host.is_some()).then_some(self)
    }

    fn url(self, headers: &HeaderMap) -> Option<String> {
        let proto = self
            .proto
            .unwrap_or_else(|| "http".to_owned())
            .to_ascii_lowercase();
        let own = || Some(headers.get("host")?.to_str().ok()?.to_owned());
        let host = self.host.or_else(own)?;
        let authority: Authority = host.parse().ok()?;
        if !matches!(proto.as_str(), "http" | "https") || host.contains('@') {
            return None;
        }
        let default = if proto == "https" { "443" } else { "80" };
        let port = self.port.filter(|port| {
            authority.port().is_none() && port != default && port.parse::<u16>().is_ok()
        });
        let port = port.map_or_else(String::new, |port| format!(":{port}"));
        let prefix = list(headers, "x-forwarded-prefix")
            .pop()
            .filter(|prefix| is_path(prefix));
        let prefix = prefix.unwrap_or_default();
        Some(format!(
            "{proto}://{host}{port}{}",
            prefix.trim_end_matches('/')
        ))
    }
}

fn is_path(text: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/-_.~".contains(&byte);
    text.starts_with('/') && !text.starts_with("//") && text.bytes().all(plain)
}

/// One element of the header `Forwarded`: one proxy.
#[derive(Default)]
struct Element {
    from: Option<String>,
    host: Option<String>,
    proto: Option<String>,
}

fn elements(headers: &HeaderMap) -> Vec<Element> {
    list(headers, "forwarded")
        .iter()
        .map(|one| element(one))
        .collect()
}

fn element(text: &str) -> Element {
    let mut element = Element::default();
    for pair in split(text, ';') {
        let Some((name, value)) = pair.split_once('=') else {
            continue;
        };
        let value = value.trim().trim_matches('"').replace('\\', "");
        match name.trim().to_ascii_lowercase().as_str() {
            "for" => element.from = Some(value),
            "host" => element.host = Some(value),
            "proto" => element.proto = Some(value),
            _ => {}
        }
    }
    element
}

/// All entries of a list header, over all its lines.
fn list(headers: &HeaderMap, name: &str) -> Vec<String> {
    let lines = headers
        .get_all(name)
        .iter()
        .filter_map(|line| line.to_str().ok());
    lines
        .flat_map(|line| split(line, ','))
        .filter(|part| !part.is_empty())
        .collect()
}

/// Splits at a character outside quotes.
fn split(text: &str, at: char) -> Vec<String> {
    let mut parts = vec![String::new()];
    let mut quoted = false;
    for letter in text.chars() {
        quoted ^= letter == '"';
        match parts.last_mut() {
            Some(part) if quoted || letter != at => part.push(letter),
            _ => parts.push(String::new()),
        }
    }
    parts
        .into_iter()
        .map(|part| part.trim().to_owned())
        .collect()
}

/// An address with or without a port; `None` for `unknown` and obfuscated identifiers.
fn address(text: &str) -> Option<IpAddr> {
    let bare = text
        .trim_start_matches('[')
        .split(']')
        .next()
        .unwrap_or_default();
    let with_port = || text.parse::<SocketAddr>().ok().map(|address| address.ip());
    text.parse()
        .ok()
        .or_else(with_port)
        .or_else(|| bare.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::Proxies;
    use axum::http::HeaderMap;
    use axum::http::header::{HeaderName, HeaderValue};

    fn public_url(peer: &str, given: &[(&str, &str)]) -> Option<String> {
        let mut headers = HeaderMap::new();
        headers.append("host", HeaderValue::from_static("inner:9890"));
        for (name, value) in given {
            let name: HeaderName = name.parse().unwrap();
            headers.append(name, value.parse().unwrap());
        }
        let proxies = Proxies::parse(&["10.0.0.0/8".to_owned()]).unwrap();
        proxies.public_url(&headers, Some(peer.parse().unwrap()))
    }

    #[test]
    fn only_headers_of_configured_proxies_are_trusted() {
        let headers = [("forwarded", "proto=https;host=vnfm.example.com")];
        assert_eq!(
            public_url("10.0.0.1", &headers).as_deref(),
            Some("https://vnfm.example.com")
        );
        assert_eq!(public_url("192.0.2.1", &headers), None);
        let mut headers = HeaderMap::new();
        headers.append(
            "forwarded",
            HeaderValue::from_static("host=evil.example.com"),
        );
        let none = Proxies::parse(&[]).unwrap();
        assert_eq!(none.public_url(&headers, Some([10, 0, 0, 1].into())), None);
    }

    #[test]
    fn the_outermost_trusted_proxy_determines_the_url() {
        for (given, expected) in [
            // The client claims its own address; the proxy appends what it saw.
            (
                vec![(
                    "forwarded",
                    "host=evil, for=192.0.2.9;host=a.example;proto=https",
                )],
                "https://a.example",
            ),
            // Two trusted proxies: the inner one received the request from the outer one, which received it from the
            // client.
            (
                vec![
                    (
                        "forwarded",
                        "for=\"[2001:db8::1]:4711\";host=out.example;proto=https",
                    ),
                    ("forwarded", "for=10.0.0.9;host=in.example;proto=http"),
                ],
                "https://out.example",
            ),
            (
                vec![
                    ("x-forwarded-for", "192.0.2.9, 10.0.0.9"),
                    ("x-forwarded-host", "evil, out.example, in.example"),
                    ("x-forwarded-proto", "https, http"),
                ],
                "https://out.example",
            ),
            (vec![("x-forwarded-proto", "https")], "https://inner:9890"),
            (
                vec![
                    ("x-forwarded-host", "a.example"),
                    ("x-forwarded-port", "8443"),
                    ("x-forwarded-proto", "https"),
                    ("x-forwarded-prefix", "/vnfm/"),
                ],
                "https://a.example:8443/vnfm",
            ),
        ] {
            assert_eq!(
                public_url("10.0.0.1", &given).as_deref(),
                Some(expected),
                "{given:?}"
            );
        }
    }

    #[test]
    fn the_client_is_the_peer_of_the_outermost_trusted_proxy() {
        for (peer, given, expected) in [
            ("10.0.0.1", vec![], "10.0.0.1"),
            (
                "192.0.2.1",
                vec![("x-forwarded-for", "198.51.100.7")],
                "192.0.2.1",
            ),
            (
                "10.0.0.1",
                vec![("x-forwarded-for", "198.51.100.7, 192.0.2.9, 10.0.0.9")],
                "192.0.2.9",
            ),
            (
                "10.0.0.1",
                vec![("forwarded", "for=198.51.100.7, for=\"[2001:db8::1]:4711\"")],
                "2001:db8::1",
            ),
            ("10.0.0.1", vec![("forwarded", "for=unknown")], "10.0.0.1"),
        ] {
            let mut headers = HeaderMap::new();
            for (name, value) in &given {
                headers.append(*name, value.parse().unwrap());
            }
            let proxies = Proxies::parse(&["10.0.0.0/8".to_owned()]).unwrap();
            let client = proxies.client(&headers, peer.parse().unwrap());
            assert_eq!(client.to_string(), expected, "{peer}: {given:?}");
        }
    }

    #[test]
    fn invalid_values_are_ignored() {
        for given in [
            ("forwarded", "host=\"u:p@a.example\""),
            ("forwarded", "host=a.example;proto=javascript"),
            ("forwarded", "host=\"a b\""),
            ("x-forwarded-host", "a.example/path"),
            ("forwarded", ""),
            ("forwarded", "=;;=,\""),
        ] {
            assert_eq!(public_url("10.0.0.1", &[given]), None, "{given:?}");
        }
        let prefix = [
            ("x-forwarded-host", "a.example"),
            ("x-forwarded-prefix", "//evil"),
        ];
        assert_eq!(
            public_url("10.0.0.1", &prefix).as_deref(),
            Some("http://a.example")
        );
    }
}
