//! A registry of container images, by the OCI distribution specification 1.1. Like Docker's, it deletes manifests, but no single
//! tags.
//!
//! | call | request |
//! |---|---|
//! | `registry.api` | `GET /v2/` |
//! | `registry.blob_head`, `registry.upload_begin`, `registry.upload_end` | `HEAD` a blob, `POST` an upload, `PUT` it with its digest |
//! | `registry.manifest_head`, `registry.manifest_put`, `registry.manifest_delete` | a manifest, by tag or digest |
//! | `registry.tags`, `registry.catalog` | lists |
//! | `registry.token` | `GET /token`, for clients that a hostile response has sent there |
//!
//! The login is Basic; a token is accepted, too. A digest that is not that of the content, and a manifest whose parts do not exist, are refused. Each tag is an
//! `image-tag` in the inventory; blobs stay, as nothing collects garbage.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::Method;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use tokio::net::TcpListener;
use uuid::Uuid;

use crate::faults::Faults;
use crate::http::{Listening, Reply, Request, Route, Server, Service, serve};
use crate::ledger::{Entry, Ledger};

/// The only user that can log in.
pub const USER: &str = "vnfm";
/// Password of [`USER`].
pub const PASSWORD: &str = "planted-registry-password-71d4";
/// What its token endpoint issues.
pub const TOKEN: &str = "planted-registry-token-3ae8";

#[derive(Default)]
struct Repository {
    blobs: BTreeSet<String>,
    manifests: BTreeSet<String>,
    /// Digests of manifests, by tag.
    tags: BTreeMap<String, String>,
}

/// A registry of images that is listening.
pub struct Registry {
    repositories: Mutex<BTreeMap<String, Repository>>,
    books: Arc<Ledger>,
    url: String,
    listening: Mutex<Option<Listening>>,
}

impl Registry {
    /// Starts listening on a free port of 127.0.0.1.
    pub(crate) async fn open(books: Arc<Ledger>, faults: Arc<Faults>) -> anyhow::Result<Arc<Self>> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let registry = Arc::new(Self {
            repositories: Mutex::default(),
            books: books.clone(),
            url: format!("http://{}", listener.local_addr()?),
            listening: Mutex::default(),
        });
        let service: Arc<dyn Service> = Arc::new(RegistryService(registry.clone()));
        let server = Server {
            service,
            books,
            faults,
        };
        *registry.listening() = Some(serve(listener, None, server));
        Ok(registry)
    }

    /// Its base URL.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// All tags, as `REPOSITORY:TAG`.
    pub fn tags(&self) -> Vec<String> {
        let repositories = self.repositories();
        let all = repositories.iter();
        all.flat_map(|(name, one)| one.tags.keys().map(move |tag| format!("{name}:{tag}")))
            .collect()
    }

    pub(crate) fn stop(&self) {
        *self.listening() = None;
    }

    fn listening(&self) -> MutexGuard<'_, Option<Listening>> {
        self.listening
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn repositories(&self) -> MutexGuard<'_, BTreeMap<String, Repository>> {
        self.repositories
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn has_blob(&self, name: &str, digest: &str) -> Reply {
        let repositories = self.repositories();
        let found = repositories.get(name);
        if found.is_some_and(|one| one.blobs.contains(digest)) {
            Reply::empty(200).with_header("docker-content-digest", digest)
        } else {
            Reply::empty(404)
        }
    }

    fn end_upload(&self, request: &Request, name: &str) -> Result<Reply, Reply> {
        let stated = request.param("digest").unwrap_or_default();
        let digest = digest_of(&request.body);
        if stated != digest {
            return Err(error(400, "DIGEST_INVALID"));
        }
        let mut repositories = self.repositories();
        let repository = repositories.entry(name.to_owned()).or_default();
        repository.blobs.insert(digest.clone());
        Ok(Reply::empty(201).with_header("docker-content-digest", digest))
    }

    fn has_manifest(&self, name: &str, reference: &str) -> Reply {
        let repositories = self.repositories();
        let found = repositories.get(name).and_then(|one| {
            let digest = one.tags.get(reference).map_or(reference, String::as_str);
            one.manifests.get(digest)
        });
        match found {
            Some(digest) => Reply::empty(200).with_header("docker-content-digest", digest),
            None => Reply::empty(404),
        }
    }

    fn put_manifest(
        &self,
        request: &Request,
        (name, reference): (&str, &str),
    ) -> Result<Reply, Reply> {
        let digest = digest_of(&request.body);
        let manifest = request.json();
        let mut repositories = self.repositories();
        let repository = repositories.entry(name.to_owned()).or_default();
        let layers = manifest["layers"].as_array().into_iter().flatten();
        let mut blobs = layers.chain(manifest.get("config"));
        let mut parts = manifest["manifests"].as_array().into_iter().flatten();
        let is_in = |all: &BTreeSet<String>, part: &Value| {
            part["digest"].as_str().is_some_and(|one| all.contains(one))
        };
        if !blobs.all(|one| is_in(&repository.blobs, one))
            || !parts.all(|one| is_in(&repository.manifests, one))
        {
            return Err(error(400, "MANIFEST_BLOB_UNKNOWN"));
        }
        if reference.contains(':') && reference != digest {
            return Err(error(400, "DIGEST_INVALID"));
        }
        repository.manifests.insert(digest.clone());
        if !reference.contains(':') {
            let tag = (reference.to_owned(), digest.clone());
            repository.tags.extend([tag]);
            self.books.add_entry(Entry {
                kind: "image-tag".into(),
                id: format!("{name}:{reference}"),
                name: format!("{name}:{reference}"),
                seeded: false,
                detail: json!({ "digest": digest }),
            });
        }
        Ok(Reply::empty(201).with_header("docker-content-digest", digest))
    }

    fn delete_manifest(&self, name: &str, reference: &str) -> Result<Reply, Reply> {
        if !reference.contains(':') {
            return Err(error(400, "UNSUPPORTED"));
        }
        let mut repositories = self.repositories();
        let repository = repositories
            .get_mut(name)
            .ok_or_else(|| error(404, "NAME_UNKNOWN"))?;
        if !repository.manifests.remove(reference) {
            return Err(error(404, "MANIFEST_UNKNOWN"));
        }
        let deleted = repository
            .tags
            .extract_if(.., |_, digest| digest == reference);
        for (tag, _) in deleted {
            self.books
                .remove_entry("image-tag", &format!("{name}:{tag}"));
        }
        Ok(Reply::empty(202))
    }

    fn list_tags(&self, name: &str) -> Result<Reply, Reply> {
        let repositories = self.repositories();
        let repository = repositories
            .get(name)
            .filter(|one| !one.tags.is_empty())
            .ok_or_else(|| error(404, "NAME_UNKNOWN"))?;
        let tags: Vec<&String> = repository.tags.keys().collect();
        Ok(Reply::json(200, &json!({ "name": name, "tags": tags })))
    }

    fn list_repositories(&self) -> Reply {
        let repositories = self.repositories();
        let names: Vec<&String> = repositories.keys().collect();
        Reply::json(200, &json!({ "repositories": names }))
    }
}

fn digest_of(bytes: &[u8]) -> String {
    format!("sha256:{}", hex::encode(Sha256::digest(bytes)))
}

fn error(status: u16, code: &str) -> Reply {
    let body = json!({ "errors": [{ "code": code, "message": code.to_lowercase() }] });
    Reply::json(status, &body).with_remark(code)
}

fn authenticated(
    request: &Request,
    work: impl FnOnce() -> Result<Reply, Reply>,
) -> Result<Reply, Reply> {
    let login = STANDARD.encode(format!("{USER}:{PASSWORD}"));
    let accepted = [format!("Basic {login}"), format!("Bearer {TOKEN}")];
    if accepted
        .iter()
        .any(|one| request.header("authorization") == one)
    {
        return work();
    }
    Err(error(401, "UNAUTHORIZED").with_header("www-authenticate", "Basic realm=\"registry\""))
}

/// The HTTP service of a registry.
struct RegistryService(Arc<Registry>);

impl Service for RegistryService {
    fn name(&self) -> &'static str {
        "registry"
    }

    fn failure(&self, status: u16) -> Reply {
        error(status, "UNAVAILABLE")
    }

    fn route<'a>(&'a self, request: &'a Request) -> Option<Route<'a>> {
        if request.path == "/token" {
            let issued = json!({ "token": TOKEN });
            return Some(route(request, ("registry.token", ""), move |_| {
                Ok(Reply::json(200, &issued))
            }));
        }
        let path = request.path.strip_prefix("/v2/")?;
        if let Some((name, rest)) = path.split_once("/blobs/") {
            return self.blob_route(request, name, rest);
        }
        if let Some((name, reference)) = path.split_once("/manifests/") {
            return self.manifest_route(request, name, reference);
        }
        let registry = &self.0;
        Some(match (&request.method, path) {
            (&Method::GET, "") => route(request, ("registry.api", ""), |_| {
                Ok(Reply::json(200, &json!({})))
            }),
            (&Method::GET, "_catalog") => route(request, ("registry.catalog", ""), |_| {
                Ok(registry.list_repositories())
            }),
            (&Method::GET, path) => {
                let name = path.strip_suffix("/tags/list")?;
                route(request, ("registry.tags", name), |name| {
                    registry.list_tags(name)
                })
            }
            _ => return None,
        })
    }
}

/// A call about a repository, whose caller has to log in.
fn route<'a>(
    request: &'a Request,
    (call, name): (&'static str, &str),
    work: impl FnOnce(&str) -> Result<Reply, Reply> + Send + 'a,
) -> Route<'a> {
    let repository = name.to_owned();
    Route::new(call, name, move || {
        authenticated(request, || work(&repository))
    })
}

impl RegistryService {
    fn blob_route<'a>(&'a self, request: &'a Request, name: &str, rest: &str) -> Option<Route<'a>> {
        let (registry, digest) = (&self.0, rest.to_owned());
        Some(match request.method {
            Method::HEAD => route(request, ("registry.blob_head", name), move |name| {
                Ok(registry.has_blob(name, &digest))
            }),
            Method::POST if rest == "uploads/" => {
                route(request, ("registry.upload_begin", name), |name| {
                    let location = format!("/v2/{name}/blobs/uploads/{}", Uuid::new_v4());
                    Ok(Reply::empty(202).with_header("location", location))
                })
            }
            Method::PUT => route(request, ("registry.upload_end", name), move |name| {
                registry.end_upload(request, name)
            }),
            _ => return None,
        })
    }

    fn manifest_route<'a>(
        &'a self,
        request: &'a Request,
        name: &str,
        reference: &str,
    ) -> Option<Route<'a>> {
        let (registry, reference) = (&self.0, reference.to_owned());
        Some(match request.method {
            Method::HEAD => route(request, ("registry.manifest_head", name), move |name| {
                Ok(registry.has_manifest(name, &reference))
            }),
            Method::PUT => route(request, ("registry.manifest_put", name), move |name| {
                registry.put_manifest(request, (name, &reference))
            }),
            Method::DELETE => route(request, ("registry.manifest_delete", name), move |name| {
                registry.delete_manifest(name, &reference)
            }),
            _ => return None,
        })
    }
}
