//! The VIM that the `vimConnectionInfo` of a request or an instance names, and what to do if it was removed.

use super::handle::VimHandle;
use crate::context::Context;
use crate::ports::{InfraDriver, InstanceRecord, PortError, StoreError};
use crate::refusal::{self, Refusal, Why};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use vnfm_types::{InstantiateVnfRequest, VimConnectionInfo};

/// The VIM connections of a request or an instance, by their key.
pub(crate) type Connections = BTreeMap<String, Box<VimConnectionInfo>>;

/// The one VIM that `connections` name, and its driver.
///
/// # Errors
///
/// If they name none, several, or an unknown one, or another type than the registry.
pub(crate) async fn of_connections(
    context: &Context,
    tenant: &str,
    connections: &Connections,
) -> Result<(VimHandle, Arc<dyn InfraDriver>), Refusal> {
    let bad = |what: String| Refusal::new(Why::Unprocessable, &refusal::BAD_VIM, what);
    let mut named = connections.iter();
    let (Some((key, given)), None) = (named.next(), named.next()) else {
        let what = "vimConnectionInfo must name exactly one VIM, but names";
        let refusal = bad(format!("{what} {}", connections.len()));
        return Err(refusal.hint(
            "leave out the others; of an instantiation, the links may name the one that counts: `vimConnectionId`",
        ));
    };
    let drivers = &context.ports.drivers;
    let path = format!("vimConnectionInfo.{key}");
    let Some(id) = given
        .vim_id
        .as_deref()
        .filter(|_| given.access_info.is_empty())
    else {
        let (driver, spelling) = drivers
            .for_vim(&given.vim_type)
            .map_err(Refusal::unprocessable)?;
        let mut connection = VimConnectionInfo::clone(given);
        spelling.clone_into(&mut connection.vim_type);
        driver
            .validate(&connection)
            .map_err(Refusal::unprocessable)?;
        return Ok((
            VimHandle::inline(context, tenant, None, key, connection),
            driver.clone(),
        ));
    };
    let record = match context.store().vim(tenant, id).await {
        Err(StoreError::NotFound { .. }) => {
            let what = format!("{path}.vimId `{id}` is not in the registry");
            return Err(Refusal::new(
                Why::Unprocessable,
                &refusal::UNKNOWN_VIM,
                what,
            ));
        }
        found => found?,
    };
    let (driver, spelling) = drivers
        .for_vim(&record.vim.vim_type)
        .map_err(Refusal::unprocessable)?;
    if !given.vim_type.is_empty()
        && drivers
            .for_vim(&given.vim_type)
            .ok()
            .is_none_or(|d| d.1 != spelling)
    {
        let (requested, is) = (&given.vim_type, &record.vim.vim_type);
        return Err(bad(format!(
            "{path}.vimType is `{requested}`, but VIM `{id}` is of type `{is}`"
        )));
    }
    Ok((
        VimHandle::registered(context, &record, tenant, key),
        driver.clone(),
    ))
}

/// Leaves one of several connections of an instantiation: the one that its links name in `vimConnectionId`; if they name
/// none, the first by key, provided that all lead to one endpoint. Leaves what is still ambiguous to [`of_connections`].
pub(crate) fn choose(request: &mut InstantiateVnfRequest) {
    let links = request.ext_virtual_links.iter();
    let links = links.map(|link| &link.vim_connection_id);
    let managed = request.ext_managed_virtual_links.iter();
    let managed = managed.map(|link| &link.vim_connection_id);
    let named: BTreeSet<String> = links.chain(managed).flatten().cloned().collect();
    let connections = &mut request.vim_connection_info;
    let endpoint = |one: &VimConnectionInfo| one.interface_info.get("endpoint").cloned();
    let endpoints: Vec<_> = connections.values().map(|one| endpoint(one)).collect();
    let is_one = endpoints
        .windows(2)
        .all(|two| two[0].is_some() && two[0] == two[1]);
    let mut named = named.into_iter();
    let chosen = match (named.next(), named.next()) {
        (Some(key), None) => Some(key),
        (None, _) if is_one => connections.keys().next().cloned(),
        _ => None,
    };
    if let Some(key) = chosen.filter(|key| connections.contains_key(key)) {
        connections.retain(|other, _| *other == key);
    }
}

/// Whether a request repeats the inline connection of an instance; an inline connection's `vimId` has no meaning.
pub(crate) fn repeats(own: &Connections, given: &Connections) -> bool {
    let same = |own: &VimConnectionInfo, given: &VimConnectionInfo| {
        !own.access_info.is_empty()
            && own.vim_type == given.vim_type
            && own.interface_info == given.interface_info
            && own.access_info == given.access_info
    };
    let is_given = |key: &str, own| given.get(key).is_some_and(|given| same(own, given));
    !own.is_empty() && own.iter().all(|(key, own)| is_given(key, own))
}

/// Replaces a name in `connections` by id and type of `vim`: a name can change, and a client that reads the instance does
/// not need access to our registry.
pub(crate) fn name_by_id(connections: &mut Connections, vim: &VimHandle) {
    let Some(id) = vim.registered_id() else {
        return;
    };
    for connection in connections.values_mut() {
        connection.vim_id = Some(id.to_owned());
        if connection.vim_type.is_empty() {
            vim.vim_type().clone_into(&mut connection.vim_type);
        }
    }
}

/// Checks that the VIM of an instance is still registered.
///
/// # Errors
///
/// `Unprocessable`, with a hint on what to do, if it was removed.
pub(crate) async fn check_registered(
    context: &Context,
    instance: &InstanceRecord,
) -> Result<(), Refusal> {
    let Some(deployment) = &instance.deployment else {
        return Ok(());
    };
    match of_connections(context, &instance.tenant, &deployment.vim_connection_info).await {
        Err(refusal) if refusal.code == &refusal::UNKNOWN_VIM => Err(refusal.hint(REREGISTER_HINT)),
        _ => Ok(()),
    }
}

/// What to do if an instance refers to a removed VIM.
const REREGISTER_HINT: &str = "register the VIM under that id again: `vnfmctl vim register --id ID …`; if it is lost for good: \
                         `vnfmctl vnf abandon VNF --reason TEXT`";

/// A refusal in the middle of an operation, as a port error.
pub(crate) fn as_port_error(refusal: Refusal) -> PortError {
    if let Some(source) = refusal.source {
        return *source;
    }
    let removed = refusal.code == &refusal::UNKNOWN_VIM;
    let error = PortError::new(refusal.code, "find the VIM of the instance", refusal.detail);
    if removed {
        error.hint(REREGISTER_HINT)
    } else {
        error
    }
}

/// Connections as shown to clients: id and type of the registry, without secrets.
pub(crate) fn without_access_info(connections: &Connections) -> Connections {
    let redacted = connections.iter().map(|(key, connection)| {
        let mut redacted = connection.clone();
        redacted.access_info.clear();
        (key.clone(), redacted)
    });
    redacted.collect()
}

#[cfg(test)]
mod tests {
    use super::{Connections, choose, repeats};
    use serde_json::{Value, json};
    use vnfm_types::InstantiateVnfRequest;

    /// Connections at these endpoints, `vim1` first, with logins of their own.
    fn connections(endpoints: &[&str]) -> Connections {
        let one = |(index, endpoint): (usize, &&str)| {
            let connection = json!({"vimType": "t", "interfaceInfo": {"endpoint": endpoint},
                "accessInfo": {"username": format!("user-{index}")}});
            (format!("vim{}", index + 1), connection)
        };
        let all: serde_json::Map<_, _> = endpoints.iter().enumerate().map(one).collect();
        serde_json::from_value(Value::Object(all)).unwrap()
    }

    fn chosen(endpoints: &[&str], links: &[&str]) -> Vec<String> {
        let link = |key: &&str| json!({"id": "l", "resourceId": "n", "vimConnectionId": key});
        let links: Vec<Value> = links.iter().map(link).collect();
        let request = json!({"flavourId": "f", "extVirtualLinks": links});
        let mut request: InstantiateVnfRequest = serde_json::from_value(request).unwrap();
        request.vim_connection_info = connections(endpoints);
        choose(&mut request);
        request.vim_connection_info.into_keys().collect()
    }

    #[test]
    fn links_name_the_connection_that_counts_and_logins_at_one_endpoint_are_one_vim() {
        assert_eq!(chosen(&["a", "b"], &["vim2", "vim2"]), ["vim2"]);
        assert_eq!(chosen(&["a", "a"], &[]), ["vim1"]);
        // Ambiguous: refused later.
        assert_eq!(chosen(&["a", "b"], &[]).len(), 2);
        assert_eq!(chosen(&["a", "a"], &["vim1", "vim2"]).len(), 2);
        assert_eq!(chosen(&["a", "b"], &["vim9"]).len(), 2);
    }

    #[test]
    fn a_later_request_may_repeat_the_connection_but_not_change_it() {
        let own = connections(&["a"]);
        assert!(repeats(&own, &connections(&["a", "b"])));
        assert!(!repeats(&own, &connections(&["b"])));
        let mut other = connections(&["a"]);
        let login = &mut other.get_mut("vim1").unwrap().access_info;
        login.insert("username".to_owned(), "another".into());
        assert!(!repeats(&own, &other));
        assert!(!repeats(&Connections::new(), &own));
    }
}
