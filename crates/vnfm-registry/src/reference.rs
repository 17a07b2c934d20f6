//! The name of an image: `[HOST[:PORT]/]PATH[:TAG][@DIGEST]`.

/// The host of names without one.
const DEFAULT_HOST: &str = "docker.io";

/// A reference to an image, in its parts. Docker's short forms are completed: `web` is `docker.io/library/web:latest`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reference {
    /// `HOST[:PORT]`.
    pub host: String,
    /// The repository's path.
    pub path: String,
    /// The tag, if it has one.
    pub tag: Option<String>,
    /// The digest, if it has one.
    pub digest: Option<String>,
}

impl Reference {
    /// Splits a reference; any text has parts.
    pub fn parse(text: &str) -> Self {
        let (name, digest) = match text.split_once('@') {
            Some((name, digest)) => (name, Some(digest.to_owned())),
            None => (text, None),
        };
        let is_host = |first: &str| first.contains(['.', ':']) || first == "localhost";
        let (host, path) = match name.split_once('/') {
            Some((first, rest)) if is_host(first) => (first, rest),
            _ => (DEFAULT_HOST, name),
        };
        let (path, tag) = match path.rsplit_once(':') {
            Some((path, tag)) => (path, Some(tag.to_owned())),
            None => (path, None),
        };
        let host = if host == "index.docker.io" {
            DEFAULT_HOST
        } else {
            host
        };
        let is_short = host == DEFAULT_HOST && !path.contains('/');
        Self {
            host: host.to_owned(),
            path: if is_short {
                format!("library/{path}")
            } else {
                path.to_owned()
            },
            tag,
            digest,
        }
    }

    /// The tag, which is `latest` where neither tag nor digest is given.
    pub fn effective_tag(&self) -> Option<&str> {
        match (&self.tag, &self.digest) {
            (Some(tag), _) => Some(tag),
            (None, None) => Some("latest"),
            (None, Some(_)) => None,
        }
    }

    /// Whether this reference means the image that is called `name` and has this digest. A digest takes precedence over
    /// a tag.
    pub fn means(&self, name: &Self, digest: &str) -> bool {
        let same_repository = self.host == name.host && self.path == name.path;
        let same_image = match &self.digest {
            Some(own) => own == digest,
            None => self.effective_tag() == name.effective_tag(),
        };
        same_repository && same_image
    }
}

#[cfg(test)]
mod tests {
    use super::Reference;

    #[test]
    fn short_forms_mean_the_same_image() {
        let digest = format!("sha256:{}", "a".repeat(64));
        let pinned = format!("acme/web@{digest}");
        let both = format!("acme/web:2@{digest}");
        for (text, name, means) in [
            ("acme/web:1", "acme/web:1", true),
            ("docker.io/acme/web:1", "acme/web:1", true),
            ("web", "docker.io/library/web:latest", true),
            ("acme/web", "acme/web:1", false),
            ("acme/web:2", "acme/web:1", false),
            (&pinned, "acme/web:1", true),
            (&both, "acme/web:1", true),
            ("acme/web@sha256:b", "acme/web:1", false),
            ("r.example/acme/web:1", "acme/web:1", false),
            (
                "localhost:5000/acme/web:1",
                "localhost:5000/acme/web:1",
                true,
            ),
        ] {
            let (reference, name) = (Reference::parse(text), Reference::parse(name));
            assert_eq!(reference.means(&name, &digest), means, "{text}");
        }
    }
}
