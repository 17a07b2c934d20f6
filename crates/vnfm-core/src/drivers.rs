//! VIM drivers by vimType: the only place where a vimType decides anything.

use crate::ports::{Code, ErrorKind, InfraDriver, PortError};
use std::collections::BTreeMap;
use std::sync::Arc;

/// VIM drivers by the vimTypes they serve.
#[derive(Clone, Default)]
pub struct Drivers(BTreeMap<&'static str, Arc<dyn InfraDriver>>);

impl Drivers {
    /// Adds `driver` for all types that it serves.
    #[must_use]
    pub fn with(mut self, driver: impl InfraDriver + 'static) -> Self {
        let driver: Arc<dyn InfraDriver> = Arc::new(driver);
        for vim_type in driver.vim_types() {
            self.0.insert(vim_type, driver.clone());
        }
        self
    }

    pub(crate) fn driver(&self, vim_type: &str) -> Result<Arc<dyn InfraDriver>, PortError> {
        self.for_vim(vim_type).map(|(driver, _)| driver.clone())
    }

    /// The driver of a vimType, and the registered spelling of that type.
    pub(crate) fn for_vim(
        &self,
        vim_type: &str,
    ) -> Result<(&Arc<dyn InfraDriver>, &'static str), PortError> {
        let known = || self.0.keys().copied().collect::<Vec<_>>().join(", ");
        let driver = self.0.get(vim_type).ok_or_else(|| {
            let what = format!(
                "no driver serves vimType `{vim_type}`; known types: {}",
                known()
            );
            PortError::new(&UNKNOWN_TYPE, "select a driver", what)
        })?;
        Ok((driver, driver.vim_types()[0]))
    }
}

const UNKNOWN_TYPE: Code = Code {
    name: "vim.unknown-type",
    kind: ErrorKind::Refused,
    means: "no driver serves this vimType",
    next: "use a type that the message lists, or build the server with a driver for this type",
};

pub(crate) const CODES: &[&Code] = &[&UNKNOWN_TYPE];
