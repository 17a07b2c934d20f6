//! Logins for programs inside an instance, on a cloud that is simulated or real.

use crate::support::{OneVdu, TestBed};
use serde_json::{Value, json};
use vnfm_core::ports::{
    Credential, CredentialRequest, Credentials, ErrorKind, InfraDriver, PortError,
};
use vnfm_types::{OPENSTACK, Secret, VimConnectionInfo};

pub(crate) const SECRET: &str = "planted-secret-of-a-scoped-login-0123456789";

pub(crate) fn wanted() -> CredentialRequest {
    let mut wanted = CredentialRequest::new("cloud-provider");
    wanted.roles = vec!["member".into(), "load-balancer_member".into()];
    wanted
}

pub(crate) fn credentials(bed: &TestBed) -> &dyn Credentials {
    bed.driver.credentials().unwrap()
}

pub(crate) async fn create(
    bed: &TestBed,
    wanted: &CredentialRequest,
    secret: &str,
) -> Result<Credential, PortError> {
    let secret = Secret::new(secret);
    credentials(bed)
        .create_credential(&bed.call(), wanted, &secret)
        .await
}

/// A connection to the same cloud with the login.
pub(crate) fn connection(made: &Credential) -> VimConnectionInfo {
    let info = json!({
        "vimType": OPENSTACK,
        "interfaceInfo": {"endpoint": made.auth_url},
        "accessInfo": {
            "applicationCredentialId": made.id, "applicationCredentialSecret": made.secret.reveal(), "region": made.region,
        },
    });
    serde_json::from_value(info).unwrap()
}

/// It logs in, is found again, and is replaced only if its secret or its roles differ; then it goes with the instance.
pub(crate) async fn a_login_exists_as_long_as_its_instance(bed: &TestBed) {
    let made = create(bed, &wanted(), SECRET).await.unwrap();
    assert_eq!(made.tag, bed.stack_name());
    let inside = TestBed::new(connection(&made), &bed.network);
    let report = inside.driver.check(&inside.vim).await.unwrap();
    assert_eq!(report.detail["projectId"], made.project_id.as_str());
    let name = format!("{}-cloud-provider", bed.stack_name());
    assert_eq!(bed.owned().await, [name.as_str()]);

    let again = create(&bed.restarted(), &wanted(), SECRET).await.unwrap();
    assert_eq!(again.id, made.id, "an interrupted attempt is adopted");
    let mut fewer = wanted();
    fewer.roles.pop();
    let narrower = create(bed, &fewer, SECRET).await.unwrap();
    assert_ne!(narrower.id, made.id, "other roles");
    let resealed = create(bed, &fewer, "another-secret-0123456789")
        .await
        .unwrap();
    assert_ne!(resealed.id, narrower.id, "another secret");
    assert_eq!(bed.owned().await, [name.as_str()]);

    let kept = ["cloud-provider"];
    let credentials = credentials(bed);
    credentials
        .revoke_credentials(&bed.call(), &kept)
        .await
        .unwrap();
    assert_eq!(bed.owned().await, [name.as_str()]);
    let allocation = OneVdu::default().allocation(bed);
    bed.release(&allocation, Value::Null).await.unwrap();
    assert!(bed.owned().await.is_empty());
    let revoked = TestBed::new(connection(&resealed), &bed.network);
    let refused = revoked.driver.check(&revoked.vim).await.unwrap_err();
    assert_eq!(refused.name(), "openstack.login-refused", "{refused}");
    credentials
        .revoke_credentials(&bed.call(), &[])
        .await
        .unwrap();
}

/// A role that the VIM's user does not have is refused with Keystone's words; nothing is created.
pub(crate) async fn a_role_that_the_user_lacks_is_refused(bed: &TestBed) {
    let mut wanted = wanted();
    wanted.roles = vec!["cloud_admin".into()];
    let refused = create(bed, &wanted, SECRET).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Refused, "{refused}");
    assert!(refused.to_string().contains("cloud_admin"), "{refused}");
    assert!(!format!("{refused:?}").contains(SECRET));
    assert!(bed.owned().await.is_empty());
}

/// The login of another installation stays.
pub(crate) async fn a_foreign_login_is_not_touched(bed: &TestBed) {
    let mut other = bed.restarted();
    other.ownership.installation_id = uuid::Uuid::new_v4().to_string();
    let made = create(bed, &wanted(), SECRET).await.unwrap();
    let refused = create(&other, &wanted(), SECRET).await.unwrap_err();
    assert_eq!(refused.name(), "openstack.credential-foreign", "{refused}");
    let foreign = credentials(&other);
    foreign
        .revoke_credentials(&other.call(), &[])
        .await
        .unwrap();
    let still = create(bed, &wanted(), SECRET).await.unwrap();
    assert_eq!(still.id, made.id);
    let own = credentials(bed);
    own.revoke_credentials(&bed.call(), &[]).await.unwrap();
    assert!(bed.owned().await.is_empty());
}
