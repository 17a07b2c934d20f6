//! Scenarios with keys in Barbican, simulated or real.

use crate::support::TokioClock;
use std::sync::{Arc, Mutex};
use vnfm_core::ports::{ErrorKind, PortError, SecretSealer as _};
use vnfm_openstack::Barbican;
use vnfm_types::{Secret, VimConnectionInfo};

/// A Fernet key, as the server stores it.
pub(crate) const KEY: &str = "planted-cw_0x689RpI-jtRR7oE8h_eQsKImvJapLeSbXpwF4e4=";

/// A login that a test can change.
pub(crate) struct TestLogin(Arc<Mutex<VimConnectionInfo>>);

impl TestLogin {
    pub(crate) fn new(connection: VimConnectionInfo) -> (Self, Barbican) {
        let login = Arc::new(Mutex::new(connection));
        let current = login.clone();
        let source = Box::new(move || Ok(current.lock().unwrap().clone()));
        (
            Self(login),
            Barbican::new(source, Arc::new(TokioClock::default())).unwrap(),
        )
    }

    pub(crate) fn set_access(&self, name: &str, value: &str) {
        self.0
            .lock()
            .unwrap()
            .access_info
            .insert(name.into(), value.into());
    }
}

pub(crate) async fn a_key_is_stored_listed_and_read_back(barbican: &Barbican) {
    let name = format!("vnfm-{}", uuid::Uuid::new_v4());
    assert_eq!(barbican.key_ids(&name).await.unwrap(), [""; 0]);
    let first = barbican.store_key(&name, &Secret::new(KEY)).await.unwrap();
    let second = barbican
        .store_key(&name, &Secret::new("another"))
        .await
        .unwrap();
    assert_eq!(barbican.key(&first).await.unwrap().reveal(), KEY);
    assert_eq!(barbican.key(&second).await.unwrap().reveal(), "another");
    let mut stored = barbican.key_ids(&name).await.unwrap();
    stored.sort();
    let mut both = vec![first, second];
    both.sort();
    assert_eq!(stored, both);
    let missing = uuid::Uuid::new_v4().to_string();
    let error = barbican.key(&missing).await.unwrap_err();
    assert_eq!(error.code().name, "barbican.no-key");
    assert!(error.to_string().contains(&missing), "{error}");
}

/// A wrong password is an error with a hint; a corrected one is used at once.
pub(crate) async fn a_wrong_password_is_reported_and_a_new_one_used_at_once(
    (login, barbican): (&TestLogin, &Barbican),
    right: &str,
) {
    login.set_access("password", "planted-wrong");
    let error = barbican.key_ids("vnfm-x").await.unwrap_err();
    assert_refused(&error, "secrets.barbican");
    login.set_access("password", right);
    barbican.key_ids("vnfm-x").await.unwrap();
}

pub(crate) fn assert_refused(error: &PortError, hint: &str) {
    assert_eq!(error.kind(), ErrorKind::Refused, "{error:?}");
    let text = format!("{error}; {}", error.next());
    assert!(text.contains("Barbican") && text.contains(hint), "{text}");
    assert!(
        !text.contains("VIM `") && !text.contains("vnfmctl vim"),
        "the text speaks of a VIM: {text}"
    );
    assert!(!format!("{error:?} {text}").contains("planted"), "{text}");
}
