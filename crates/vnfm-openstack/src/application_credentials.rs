//! Application credentials of Keystone: logins for programs inside an instance.
//!
//! ```text
//! create   of that name? ─┬─ ours, as requested, and the secret logs in ── adopt it
//!                         ├─ ours, otherwise ── delete it ── create it
//!                         └─ none ── create it
//! revoke   the instance's ── delete each, with its access rules ── what they created (leftovers)
//! ```
//! The name has the instance, the description the installation. A credential belongs to the VIM's user, and Keystone shows it
//! only to that user: revoke before the VIM gets another user. An instance that has logins is not released where Keystone does
//! not list them: they would stay valid.

use crate::access::Access;
use crate::driver::OpenStack;
use crate::errors::{CREDENTIAL_FOREIGN, CREDENTIALS_HIDDEN, FORBIDDEN, refusal};
use crate::heat::{installation_tag, member, stack_name};
use crate::http_call::{Call, encoded};
use crate::keystone_login::{Cloud, Service, Session};
use crate::leftovers;
use crate::stacks::Programs;
use async_trait::async_trait;
use jiff::civil::DateTime;
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use vnfm_core::Deployment;
use vnfm_core::ports::{
    AccessRule, Credential, CredentialRequest, Credentials, HookSecret, OwnedResource, PortError,
    VimCall,
};
use vnfm_types::Secret;

const KIND: &str = "OS::Keystone::ApplicationCredential";
/// For a VIM whose login Keystone does not let create another.
const PASSWORD_HINT: &str = "register the VIM with user name and password: a restricted application credential cannot create \
                             another";
/// Length of an instance's id in the name of a credential.
const ID_LENGTH: usize = 36;

#[derive(Debug, Clone, Deserialize)]
struct Found {
    id: String,
    name: String,
    #[serde(default)]
    description: Option<String>,
    #[serde(default)]
    roles: Vec<Role>,
    #[serde(default)]
    expires_at: Option<String>,
    #[serde(default)]
    access_rules: Option<Vec<Rule>>,
}

#[derive(Debug, Clone, Deserialize)]
struct Role {
    #[serde(default)]
    name: String,
}

#[derive(Debug, Clone, Deserialize)]
struct Rule {
    #[serde(default)]
    id: String,
    #[serde(flatten)]
    rule: AccessRuleText,
}

/// The members of an access rule in Keystone's response.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
struct AccessRuleText {
    service: String,
    method: String,
    path: String,
}

#[async_trait]
impl Credentials for OpenStack {
    async fn check_revocable(&self, cx: &VimCall<'_>) -> Result<(), PortError> {
        all(&self.cloud(cx)).await.map(drop)
    }

    async fn create_credential(
        &self,
        cx: &VimCall<'_>,
        wanted: &CredentialRequest,
        secret: &Secret,
    ) -> Result<Credential, PortError> {
        let cloud = &self.cloud(cx);
        let name = format!("{}{}", prefix(&cx.ownership.instance_id), wanted.name);
        let description = installation_tag(&cx.ownership.installation_id);
        let all = all(cloud).await?;
        let id = match all.into_iter().find(|one| one.name == name) {
            None => create(cloud, (&name, &description), wanted, secret).await?,
            Some(found) if found.description.as_deref() != Some(&description) => {
                let action = format!("create application credential `{name}`");
                let what = "one of that name has another description than ours";
                return Err(PortError::new(&CREDENTIAL_FOREIGN, action, what).on(&found.id));
            }
            Some(found)
                if found.is_as(wanted) && cloud.accepts_credential(&found.id, secret).await? =>
            {
                found.id
            }
            Some(found) => {
                delete(cloud, &found).await?;
                create(cloud, (&name, &description), wanted, secret).await?
            }
        };
        shown(cx, cloud, (id, secret)).await
    }

    async fn revoke_credentials(&self, cx: &VimCall<'_>, kept: &[&str]) -> Result<(), PortError> {
        let cloud = &self.cloud(cx);
        revoke(cx, cloud, all(cloud).await?, kept).await?;
        if kept.is_empty() {
            leftovers::remove(cx, cloud).await?;
        }
        Ok(())
    }
}

/// Revokes the credentials of an instance; returns whether it has, or had, any.
///
/// # Errors
///
/// `openstack.credentials-hidden` if it is known to have some and Keystone refuses to list them. Without any, a cloud that
/// lists none is as good as one that has none.
pub(crate) async fn revoke_all(
    cx: &VimCall<'_>,
    cloud: &Cloud<'_>,
    deployment: &Deployment,
) -> Result<Programs, PortError> {
    let has_known = !deployment.credentials.is_empty();
    let listed = if has_known {
        all(cloud).await?
    } else {
        visible(cloud).await?
    };
    let found = revoke(cx, cloud, listed, &[]).await?;
    Ok(if found || has_known {
        Programs::HadLogin
    } else {
        Programs::HadNoLogin
    })
}

/// Revokes those of the instance among `listed`, except those named in `kept`; returns whether there were any.
async fn revoke(
    cx: &VimCall<'_>,
    cloud: &Cloud<'_>,
    listed: Vec<Found>,
    kept: &[&str],
) -> Result<bool, PortError> {
    let prefix = prefix(&cx.ownership.instance_id);
    let description = installation_tag(&cx.ownership.installation_id);
    let mut found = false;
    for one in listed {
        let own = one.name.strip_prefix(&prefix);
        let is_ours = one.description.as_deref() == Some(&description);
        if own.is_some_and(|own| is_ours && !kept.contains(&own)) {
            let text = format!("revoking application credential `{}`", one.name);
            cx.watcher.log("info", "openstack", &text);
            delete(cloud, &one).await?;
            found = true;
        }
    }
    Ok(found)
}

/// The application credentials of this installation.
pub(crate) async fn owned(
    cloud: &Cloud<'_>,
    installation: &str,
) -> Result<Vec<OwnedResource>, PortError> {
    let ours = installation_tag(installation);
    let mut found = visible(cloud).await?;
    found.retain(|one| one.description.as_deref() == Some(&ours));
    let resource = |one: Found| OwnedResource {
        kind: KIND.to_owned(),
        instance_id: one
            .name
            .strip_prefix("vnf-")
            .and_then(|rest| rest.get(..ID_LENGTH))
            .map(str::to_owned),
        id: one.id,
        name: one.name,
        snapshot_id: None,
        link_id: None,
        volume_id: None,
    };
    Ok(found.into_iter().map(resource).collect())
}

fn prefix(instance: &str) -> String {
    format!("{}-", stack_name(instance))
}

impl Found {
    /// Whether it allows what is wanted, no more and no less.
    fn is_as(&self, wanted: &CredentialRequest) -> bool {
        let roles: BTreeSet<_> = self.roles.iter().map(|role| &role.name).collect();
        let rules = self.access_rules.iter().flatten();
        let rules: BTreeSet<_> = rules
            .map(|rule| AccessRule::new(&rule.rule.service, &rule.rule.method, &rule.rule.path))
            .collect();
        let wanted_rules: BTreeSet<_> = wanted.access_rules.iter().cloned().collect();
        let has_roles = wanted.roles.is_empty() || roles == wanted.roles.iter().collect();
        let expiry = |text: Option<&str>| text.and_then(civil);
        has_roles
            && rules == wanted_rules
            && expiry(self.expires_at.as_deref()) == expiry(wanted.expires_at.as_deref())
    }
}

/// A time in UTC as Keystone writes it, with or without `Z`.
fn civil(text: &str) -> Option<DateTime> {
    match text.parse::<jiff::Timestamp>() {
        Ok(time) => Some(time.to_zoned(jiff::tz::TimeZone::UTC).datetime()),
        Err(_) => text.parse().ok(),
    }
}

/// The path of a collection of the VIM's user.
fn of_user(session: &Session, collection: &str) -> String {
    format!("/users/{}/{collection}", encoded(&session.user))
}

/// All application credentials of the VIM's user; `openstack.credentials-hidden` if Keystone refuses to list them.
async fn all(cloud: &Cloud<'_>) -> Result<Vec<Found>, PortError> {
    let (session, _) = cloud.session().await?;
    let action = "list application credentials";
    let path = of_user(&session, "application_credentials");
    let call = Call::get(path, action).accepting(&[403, 404]);
    let reply = cloud.send(Service::Identity, &call).await?;
    if !(200..300).contains(&reply.status) {
        let detail = refusal(action, &reply).detail().to_owned();
        let hidden = PortError::new(&CREDENTIALS_HIDDEN, action, detail);
        return Err(hidden.request(reply.request_id));
    }
    member(reply, "application_credentials", action)
}

/// As [`all`]; none if Keystone refuses to list them.
async fn visible(cloud: &Cloud<'_>) -> Result<Vec<Found>, PortError> {
    match all(cloud).await {
        Err(error) if error.code() == &CREDENTIALS_HIDDEN => Ok(Vec::new()),
        found => found,
    }
}

async fn create(
    cloud: &Cloud<'_>,
    (name, description): (&str, &str),
    wanted: &CredentialRequest,
    secret: &Secret,
) -> Result<String, PortError> {
    let (session, _) = cloud.session().await?;
    let mut body = json!({
        "name": name, "description": description, "secret": secret.reveal(), "unrestricted": false,
    });
    if !wanted.roles.is_empty() {
        let roles = wanted.roles.iter();
        body["roles"] = roles.map(|role| json!({"name": role})).collect();
    }
    if !wanted.access_rules.is_empty() {
        body["access_rules"] = json!(wanted.access_rules);
    }
    if let Some(time) = wanted.expires_at.as_deref().and_then(civil) {
        body["expires_at"] = Value::from(time.strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string());
    }
    let action = format!("create application credential `{name}`");
    let path = of_user(&session, "application_credentials");
    let body = json!({"application_credential": body});
    let call = Call::post(path, body, action.as_str());
    let reply = cloud.send(Service::Identity, &call).await;
    let reply = reply.map_err(|error| {
        if error.code() == &FORBIDDEN {
            error.hint(PASSWORD_HINT)
        } else {
            error
        }
    })?;
    let created: Found = member(reply, "application_credential", &action)?;
    Ok(created.id)
}

/// Deletes a credential, and those of its access rules that no other one uses.
async fn delete(cloud: &Cloud<'_>, found: &Found) -> Result<(), PortError> {
    let (session, _) = cloud.session().await?;
    let at =
        |collection: &str, id: &str| format!("{}/{}", of_user(&session, collection), encoded(id));
    let action = format!("delete application credential `{}`", found.name);
    let call = Call::delete(at("application_credentials", &found.id), action).accepting(&[404]);
    cloud.send(Service::Identity, &call).await?;
    for rule in found.access_rules.iter().flatten() {
        let action = format!("delete access rule `{}`", rule.id);
        let call = Call::delete(at("access_rules", &rule.id), action);
        // Keystone answers 403 if another credential uses it.
        let call = call.accepting(&[403, 404, 409]);
        cloud.send(Service::Identity, &call).await?;
    }
    Ok(())
}

/// The credential as a hook receives it.
async fn shown(
    cx: &VimCall<'_>,
    cloud: &Cloud<'_>,
    (id, secret): (String, &Secret),
) -> Result<Credential, PortError> {
    let (session, _) = cloud.session().await?;
    let info = cx.vim.connection().await?.info;
    let access = Access::try_from(&info)?;
    let certificates = info.interface_info.get("trustedCertificates");
    let certificates = certificates.and_then(Value::as_array).into_iter().flatten();
    let certificates = certificates.filter_map(Value::as_str).map(str::to_owned);
    let certificates = certificates.collect();
    let mut made = Credential::default();
    made.auth_url = access.endpoint;
    made.region = access.region;
    made.interface = access.interface;
    made.trusted_certificates = certificates;
    made.project_id.clone_from(&session.project);
    made.id = id;
    made.secret = HookSecret::new(secret.reveal());
    made.tag = stack_name(&cx.ownership.instance_id);
    Ok(made)
}

#[cfg(test)]
mod tests {
    use super::{Found, civil};
    use serde_json::{from_value, json};
    use vnfm_core::ports::{AccessRule, CredentialRequest};

    fn found() -> Found {
        let found = json!({
            "id": "c", "name": "vnf-1-cloud", "roles": [{"id": "m", "name": "member"}],
            "expires_at": "2027-01-01T00:00:00.000000",
            "access_rules": [{"id": "r", "service": "network", "method": "GET", "path": "/v2.0/ports"}],
        });
        from_value(found).unwrap()
    }

    #[test]
    fn a_credential_is_adopted_only_if_it_allows_exactly_what_is_wanted() {
        let mut wanted = CredentialRequest::new("cloud");
        wanted.roles = vec!["member".into()];
        wanted.access_rules = vec![AccessRule::new("network", "GET", "/v2.0/ports")];
        wanted.expires_at = Some("2027-01-01T00:00:00Z".into());
        assert!(found().is_as(&wanted));
        let mut other = wanted.clone();
        other.roles.push("reader".into());
        assert!(!found().is_as(&other));
        other = wanted.clone();
        other.access_rules.clear();
        assert!(!found().is_as(&other));
        other = wanted;
        other.expires_at = None;
        assert!(!found().is_as(&other));
    }

    #[test]
    fn times_of_keystone_are_in_utc() {
        assert_eq!(
            civil("2027-01-01T01:00:00+01:00"),
            civil("2027-01-01T00:00:00.000000")
        );
        assert_eq!(civil("soon"), None);
    }
}
