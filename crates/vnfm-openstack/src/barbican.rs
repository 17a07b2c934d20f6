//! Barbican as the store of the keys that seal secrets. It logs in as the driver does, with its own login.
//!
//! ```text
//! store   POST   /v1/secrets                {name, payload, …} ─ secret_ref, which ends with the id
//! key     GET    /v1/secrets/ID/payload     as text
//! list    GET    /v1/secrets?name=NAME      page by page
//! ```
//! A token that Barbican refuses is renewed once (`keystone_login.rs`). The password is read from its file at each call, so a
//! new one needs no restart.

use crate::access::Access;
use crate::errors::{CERTIFICATE, FORBIDDEN, LOGIN_REFUSED, NO_KEY, UNEXPECTED};
use crate::http_call::{Call, encoded};
use crate::keystone_login::{Cloud, Service, Sessions};
use crate::unplaced_zones::UnplacedZones;
use async_trait::async_trait;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use std::sync::Arc;
use vnfm_core::ports::{Clock, Code, PortError, SecretSealer, Vim, VimLogin};
use vnfm_outbound::{Destinations, Networks};
use vnfm_types::{Secret, VimConnectionInfo};

/// The timeout of a call, including its retries.
const CALL_TIMEOUT: SignedDuration = SignedDuration::from_secs(20);
/// Records store this as the type of a key in Barbican.
const KEY_TYPE: &str = "barbican_key";
/// The service's name in error messages.
const NAME: &str = "Barbican";
/// Entries per page of a list; Barbican returns at most 100.
const PAGE: usize = 100;
/// Entries read of a list. A few keys share a name, so a longer list is an error.
const MAX_LISTED_KEYS: usize = 10_000;

/// Returns the login at a cloud whose catalog has a Barbican; called at each request.
pub type BarbicanLogin = Box<dyn Fn() -> Result<VimConnectionInfo, String> + Send + Sync>;

/// A [`SecretSealer`] that stores keys in Barbican.
pub struct Barbican {
    sessions: Sessions,
    cloud: Login,
    clock: Arc<dyn Clock>,
}

struct Login(BarbicanLogin);

impl std::fmt::Debug for Barbican {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Barbican")
    }
}

#[async_trait]
impl Vim for Login {
    fn name(&self) -> &'static str {
        NAME
    }
    fn connection_id(&self) -> &'static str {
        NAME
    }
    async fn connection(&self) -> Result<VimLogin, PortError> {
        Ok(VimLogin {
            info: self.info()?,
            version: 0,
        })
    }
}

impl Login {
    fn info(&self) -> Result<VimConnectionInfo, PortError> {
        (self.0)().map_err(|reason| PortError::new(&LOGIN_REFUSED, "log in to Barbican", reason))
    }
}

impl Barbican {
    /// The Barbican in the catalog of the cloud that `login` names; makes no call yet.
    ///
    /// # Errors
    ///
    /// `Refused` if the login is incomplete or has an unknown member.
    pub fn new(login: BarbicanLogin, clock: Arc<dyn Clock>) -> Result<Self, PortError> {
        let cloud = Login(login);
        // The operator wrote the endpoint; what the catalog names is checked.
        let endpoint = Access::try_from(&cloud.info()?)?.endpoint;
        let to = Destinations::within(Networks::default()).and_host_of(&endpoint);
        Ok(Self {
            sessions: Sessions::new(to),
            cloud,
            clock,
        })
    }

    async fn send(&self, call: Call) -> Result<crate::response::Reply, PortError> {
        let deadline = self
            .clock
            .now()
            .saturating_add(CALL_TIMEOUT)
            .unwrap_or(Timestamp::MAX);
        let cloud = Cloud {
            sessions: &self.sessions,
            vim: &self.cloud,
            clock: &*self.clock,
            watcher: None,
            deadline,
            unplaced_zones: UnplacedZones::default(),
        };
        cloud
            .send(Service::KeyManager, &call)
            .await
            .map_err(|error| in_barbican_terms(&call, &error))
    }
}

#[async_trait]
impl SecretSealer for Barbican {
    fn key_type(&self) -> &'static str {
        KEY_TYPE
    }

    async fn store_key(&self, name: &str, key: &Secret) -> Result<String, PortError> {
        let action = "store a key in Barbican";
        let body = json!({
            "name": name,
            "payload": key.reveal(),
            "payload_content_type": "text/plain",
            "secret_type": "passphrase",
        });
        let reply = self.send(Call::post("/secrets", body, action)).await?;
        id_of(&reply.body).ok_or_else(|| unexpected(action, "it names no `secret_ref`"))
    }

    async fn key(&self, id: &str) -> Result<Secret, PortError> {
        let action = format!("get the key `{id}` from Barbican");
        let path = format!("/secrets/{}/payload", encoded(id));
        let call = Call::get(path, action.as_str())
            .expecting_text()
            .accepting(&[404]);
        let reply = self.send(call).await?;
        if reply.status == 404 {
            let error = PortError::new(&NO_KEY, action, "it has no such secret (404)");
            return Err(error.request(reply.request_id));
        }
        Ok(Secret::new(reply.text.trim()))
    }

    async fn key_ids(&self, name: &str) -> Result<Vec<String>, PortError> {
        let action = "list the keys in Barbican";
        // Entries without an id are none of ours, but Barbican counts them.
        let (mut all, mut offset) = (Vec::new(), 0);
        loop {
            let path = format!(
                "/secrets?name={}&limit={PAGE}&offset={offset}",
                encoded(name)
            );
            let reply = self.send(Call::get(path, action)).await?;
            let Some(page) = reply.body["secrets"].as_array() else {
                return Err(unexpected(action, "it names no `secrets`"));
            };
            all.extend(page.iter().filter_map(id_of));
            offset += page.len();
            if offset > MAX_LISTED_KEYS {
                return Err(unexpected(
                    action,
                    &format!("it has more than {MAX_LISTED_KEYS} secrets of one name"),
                ));
            }
            // A page may be shorter than asked for where a cloud allows less; `next` is there while there is more.
            let more = page.len() >= PAGE || !reply.body["next"].is_null();
            if page.is_empty() || !more {
                return Ok(all);
            }
        }
    }
}

/// The id at the end of a secret's URL. Barbican builds the rest from its own idea of its address, so we ignore it.
fn id_of(secret: &Value) -> Option<String> {
    let id = secret["secret_ref"]
        .as_str()?
        .trim_end_matches('/')
        .rsplit('/')
        .next()?;
    (!id.is_empty()).then(|| id.to_owned())
}

fn unexpected(action: &str, detail: &str) -> PortError {
    PortError::new(
        &UNEXPECTED,
        action,
        format!("unexpected response from Barbican: {detail}"),
    )
}

/// Rewrites an error of the driver for an operator who configured Barbican, not a VIM.
fn in_barbican_terms(call: &Call, error: &PortError) -> PortError {
    const LOGIN: &str = "correct the login at `secrets.barbican` of the configuration; a new password in its file is taken at \
                         the next call";
    const ROLE: &str =
        "give the user of `secrets.barbican` the role `creator` in its project, then retry";
    const TRUST: &str =
        "name the authority of the cloud's certificate in `secrets.barbican.authorities_file`";
    let text = format!("{}: {}", error.action(), error.detail());
    let text = text.replace(&format!("VIM `{NAME}`"), NAME);
    let text = text
        .strip_prefix(&format!("{}: ", call.action))
        .unwrap_or(&text);
    let code: &'static Code = error.code();
    let ours = PortError::new(code, &call.action, text);
    let ours = ours.request(error.request_id().map(str::to_owned));
    if code == &LOGIN_REFUSED {
        ours.hint(LOGIN)
    } else if code == &FORBIDDEN {
        ours.hint(ROLE)
    } else if code == &CERTIFICATE {
        ours.hint(TRUST)
    } else if error.is_unavailable() {
        ours.hint("check that Keystone and Barbican answer, then retry")
    } else {
        ours
    }
}
