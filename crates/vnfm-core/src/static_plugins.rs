//! Ports filled with what is linked into the program, or with nothing.

use crate::ports::{
    Code, CommandOutput, Declaration, DriverVersion, ErrorKind, FileCopy, HookDriverRef,
    HostServices, HttpRequest, HttpResponse, MgmtDriver, MgmtDrivers, PinnedTarget, PortError,
    RemoteFile, SshCommand, Watcher,
};
use async_trait::async_trait;
use std::sync::Arc;

/// `MgmtDriver`s that are Rust objects of this program, by declared name or `name@version`.
#[derive(Clone, Default)]
pub struct StaticPlugins(Vec<Arc<dyn MgmtDriver>>);

impl StaticPlugins {
    /// Adds `driver`. A VNFD refers to it as the plugin of an artifact, or as the implementation of a hook.
    #[must_use]
    pub fn with(mut self, driver: impl MgmtDriver + 'static) -> Self {
        self.0.push(Arc::new(driver));
        self
    }

    fn not_linked(&self, name: &str) -> PortError {
        let linked: Vec<_> = self.list().into_iter().map(|d| d.name).collect();
        let what = match linked.as_slice() {
            [] => "this program links: none".to_owned(),
            linked => format!("this program links: {}", linked.join(", ")),
        };
        PortError::new(&NO_DRIVER, format!("find the MgmtDriver `{name}`"), what)
    }
}

impl MgmtDrivers for StaticPlugins {
    fn resolve(&self, wanted: &HookDriverRef<'_>) -> Result<Arc<dyn MgmtDriver>, PortError> {
        let name = match wanted.version {
            DriverVersion::Deployed(name) => name,
            _ => wanted.plugin.unwrap_or(wanted.implementation),
        };
        let is_wanted = |driver: &&Arc<dyn MgmtDriver>| match wanted.version {
            DriverVersion::Exact(began) => driver.id() == *began,
            _ => false,
        };
        let is_named = |driver: &&Arc<dyn MgmtDriver>| {
            driver.declaration().name == name || driver.id().versioned_name() == name
        };
        let mut newest_first = self.0.iter().rev();
        let exact = newest_first.clone().find(is_wanted);
        let found = exact.or_else(|| newest_first.find(is_named)).cloned();
        wanted.checked(found.ok_or_else(|| self.not_linked(name)))
    }

    fn list(&self) -> Vec<Declaration> {
        self.0
            .iter()
            .map(|driver| driver.declaration().clone())
            .collect()
    }
}

/// Without access to hosts: hooks that need SSH or HTTP are refused.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoHostServices;

impl NoHostServices {
    fn refuse<T>(action: String) -> Result<T, PortError> {
        Err(PortError::new(
            &NO_HOSTS,
            action,
            "this engine was built without access to hosts",
        ))
    }
}

#[async_trait]
impl HostServices for NoHostServices {
    async fn ssh_run(&self, to: &PinnedTarget, _: &SshCommand) -> Result<CommandOutput, PortError> {
        Self::refuse(format!("run a command on {}", to.host.address))
    }
    async fn ssh_put(&self, to: &PinnedTarget, file: &RemoteFile) -> Result<(), PortError> {
        Self::refuse(format!("put `{}` on {}", file.path, to.host.address))
    }
    async fn ssh_fetch(&self, from: &PinnedTarget, copy: &FileCopy) -> Result<(), PortError> {
        Self::refuse(format!("copy `{}` from {}", copy.remote, from.host.address))
    }
    async fn ssh_send(&self, to: &PinnedTarget, copy: &FileCopy) -> Result<(), PortError> {
        Self::refuse(format!("copy `{}` to {}", copy.remote, to.host.address))
    }
    async fn ssh_wait(&self, to: &PinnedTarget, _: u32, _: &dyn Watcher) -> Result<(), PortError> {
        Self::refuse(format!("log in at {}", to.host.address))
    }
    async fn http(&self, request: &HttpRequest) -> Result<HttpResponse, PortError> {
        Self::refuse(format!("{} {}", request.method, request.url))
    }
}

const NO_DRIVER: Code = Code {
    name: "hook.not-linked",
    kind: ErrorKind::Refused,
    means: "the VNFD names a MgmtDriver that is not linked into this program",
    next: "add it with `StaticPlugins::with`, or use a plugin host",
};
const NO_HOSTS: Code = Code {
    name: "hook.no-hosts",
    kind: ErrorKind::Refused,
    means: "a hook called SSH or HTTP, which this program does not offer",
    next: "set `EngineParts::host`, for example to `vnfm::Hosts` (feature `hosts`)",
};

pub(crate) const CODES: &[&Code] = &[&NO_DRIVER, &NO_HOSTS];

#[cfg(test)]
mod tests {
    use super::{NoHostServices, StaticPlugins};
    use crate::ports::{
        Declaration, Effects, HookDriverRef, HookHost, HookRequest, HostServices as _, MgmtDriver,
        MgmtDrivers as _, PortError, SshTarget,
    };
    use async_trait::async_trait;
    use futures_util::FutureExt as _;
    use std::sync::Arc;

    struct Plugin(Declaration);

    impl Plugin {
        fn version(version: &str) -> Self {
            Self(Declaration {
                name: "mine".into(),
                version: version.into(),
                ..Default::default()
            })
        }
    }

    #[async_trait]
    impl MgmtDriver for Plugin {
        fn declaration(&self) -> &Declaration {
            &self.0
        }
        async fn call(&self, _: HookRequest, _: Arc<dyn HookHost>) -> Result<Effects, PortError> {
            Ok(Effects::default())
        }
    }

    #[test]
    fn the_last_version_serves_new_operations_and_each_version_those_that_began_with_it() {
        let linked = StaticPlugins::default()
            .with(Plugin::version("1.0.0"))
            .with(Plugin::version("2.0.0"));
        let version = |name: &str| linked.resolve(&name.into()).unwrap().id().version;
        assert_eq!(
            (version("mine"), version("mine@1.0.0")),
            ("2.0.0".into(), "1.0.0".into())
        );
        let began = linked.resolve(&"mine@1.0.0".into()).unwrap().id();
        let mine = HookDriverRef::from("mine").exact(&began);
        assert_eq!(linked.resolve(&mine).unwrap().id(), began);
        let later = StaticPlugins::default().with(Plugin::version("2.0.0"));
        let error = later.resolve(&mine).err().unwrap();
        assert_eq!(error.name(), "plugin.replaced");
        assert!(
            error.to_string().contains("now available: `mine@2.0.0`"),
            "{error}"
        );
    }

    #[test]
    fn errors_name_the_missing_driver_or_host() {
        let error = StaticPlugins::default()
            .resolve(&"mine".into())
            .err()
            .unwrap();
        assert_eq!(error.name(), "hook.not-linked");
        assert!(error.to_string().contains("`mine`"), "{error}");
        let target = SshTarget::new("s", "192.0.2.1", "u");
        let error = NoHostServices
            .ssh_wait(&target.into(), 1, &())
            .now_or_never()
            .unwrap()
            .unwrap_err();
        assert_eq!(error.name(), "hook.no-hosts");
        assert!(error.to_string().contains("192.0.2.1"), "{error}");
    }
}
