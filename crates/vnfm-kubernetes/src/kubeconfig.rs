//! A kubeconfig for people: a token of the service account `vnfm-operators`, which expires.
//!
//! The account is not that of the VIM's login: deleting it ends all of these tokens at once, and the VNFM keeps working. The
//! next request creates it again.

use crate::client::Session;
use crate::errors::UNEXPECTED;
use crate::labels::FIELD_MANAGER;
use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::ServiceAccount;
use k8s_openapi::api::rbac::v1::ClusterRoleBinding;
use kube::Client;
use kube::api::{Api, Patch, PatchParams, PostParams};
use serde_json::json;
use vnfm_core::ports::{IssuedKubeconfig, PortError};
use vnfm_types::Secret;

const ACCOUNT: &str = "vnfm-operators";
const NAMESPACE: &str = "kube-system";

/// Issues a kubeconfig with all rights on the cluster.
///
/// # Errors
///
/// The API server's: the VIM's login may not create the account, its binding or the token.
pub(crate) async fn issue(
    session: &Session<'_>,
    seconds: u32,
) -> Result<IssuedKubeconfig, PortError> {
    let action = "issue a kubeconfig";
    session.call(action, apply_account).await?;
    let request = &TokenRequest {
        spec: Some(TokenRequestSpec {
            expiration_seconds: Some(seconds.into()),
            ..TokenRequestSpec::default()
        }),
        ..TokenRequest::default()
    };
    let created = session.call(action, |client| async move {
        let accounts: Api<ServiceAccount> = Api::namespaced(client, NAMESPACE);
        let params = PostParams::default();
        accounts
            .create_token_request(ACCOUNT, &params, request)
            .await
    });
    let status = created.await?.status;
    let issued = status.and_then(|status| Some((status.token?, status.expiration_timestamp?.0)));
    let (token, expires_at) = issued.ok_or_else(|| {
        let detail = "the response has no token";
        PortError::new(&UNEXPECTED, action, detail).on(session.vim().to_owned())
    })?;
    let kubeconfig = session.kubeconfig(Some(Secret::new(token))).await?;
    Ok(IssuedKubeconfig {
        kubeconfig,
        expires_at,
    })
}

async fn apply_account(client: Client) -> kube::Result<()> {
    let how = &PatchParams::apply(FIELD_MANAGER).force();
    let account = json!({
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": { "name": ACCOUNT, "namespace": NAMESPACE },
    });
    let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), NAMESPACE);
    accounts.patch(ACCOUNT, how, &Patch::Apply(account)).await?;
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": { "name": ACCOUNT },
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin" },
        "subjects": [{ "kind": "ServiceAccount", "name": ACCOUNT, "namespace": NAMESPACE }],
    });
    let bindings: Api<ClusterRoleBinding> = Api::all(client);
    bindings.patch(ACCOUNT, how, &Patch::Apply(binding)).await?;
    Ok(())
}
