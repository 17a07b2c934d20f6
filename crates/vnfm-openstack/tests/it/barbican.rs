//! Keys in Barbican, on the simulated cloud and, where there is one, on a real one.

use crate::support::TokioClock;
use std::sync::{Arc, Mutex};
use vnfm_core::ports::{ErrorKind, PortError, SecretSealer as _};
use vnfm_openstack::Barbican;
use vnfm_types::{Secret, VimConnectionInfo};

/// A key of the kind that is kept.
pub(crate) const KEY: &str = "planted-cw_0x689RpI-jtRR7oE8h_eQsKImvJapLeSbXpwF4e4=";

/// A login that a test can change.
pub(crate) struct Door(Arc<Mutex<VimConnectionInfo>>);

impl Door {
    pub(crate) fn of(connection: VimConnectionInfo) -> (Self, Barbican) {
        let login = Arc::new(Mutex::new(connection));
        let shown = login.clone();
        let asked = Box::new(move || Ok(shown.lock().unwrap().clone()));
        (
            Self(login),
            Barbican::new(asked, Arc::new(TokioClock::default())).unwrap(),
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

/// What every Barbican does with a key.
pub(crate) async fn a_key_is_kept_found_and_given_back(barbican: &Barbican) {
    let name = format!("vnfm-{}", uuid::Uuid::new_v4());
    assert_eq!(barbican.key_ids(&name).await.unwrap(), [""; 0]);
    let first = barbican.store_key(&name, &Secret::new(KEY)).await.unwrap();
    let second = barbican
        .store_key(&name, &Secret::new("another"))
        .await
        .unwrap();
    assert_eq!(barbican.key(&first).await.unwrap().reveal(), KEY);
    assert_eq!(barbican.key(&second).await.unwrap().reveal(), "another");
    let mut kept = barbican.key_ids(&name).await.unwrap();
    kept.sort();
    let mut both = vec![first, second];
    both.sort();
    assert_eq!(kept, both);
    let nowhere = uuid::Uuid::new_v4().to_string();
    let error = barbican.key(&nowhere).await.unwrap_err();
    assert_eq!(error.code().name, "barbican.no-key");
    assert!(error.to_string().contains(&nowhere), "{error}");
}

/// What somebody reads whose password is wrong, and that the right one is taken at once.
pub(crate) async fn a_wrong_password_is_said_and_a_new_one_taken(
    (door, barbican): (&Door, &Barbican),
    right: &str,
) {
    door.set_access("password", "planted-wrong");
    let error = barbican.key_ids("vnfm-x").await.unwrap_err();
    is_refused(&error, "secrets.barbican");
    door.set_access("password", right);
    barbican.key_ids("vnfm-x").await.unwrap();
}

pub(crate) fn is_refused(error: &PortError, hint: &str) {
    assert_eq!(error.kind(), ErrorKind::Refused, "{error:?}");
    let said = format!("{error}; {}", error.next());
    assert!(said.contains("Barbican") && said.contains(hint), "{said}");
    assert!(
        !said.contains("VIM `") && !said.contains("vnfmctl vim"),
        "it is no VIM: {said}"
    );
    assert!(!format!("{error:?} {said}").contains("planted"), "{said}");
}
