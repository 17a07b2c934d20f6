//! Passes the rendered objects through our code before helm applies them, without another program.
//!
//! ```text
//! helm ── objects ──> /bin/sh (SCRIPT) ── FIFO `rendered` ──> our code ── FIFO `changed`: "ok", objects ──> helm
//!                                                                      └─ "no": helm applies nothing
//! ```
//! Helm 3 starts any program as its post-renderer, Helm 4 a plugin from a folder. Both start the script in the private
//! folder of the run. It opens `changed` first, so that our side can open it without waiting.

use crate::errors::HelmError;
use crate::folder::RunFolder;
use crate::process::read;
use crate::program::Generation;
use rustix::fs::{CWD, Mode, mkfifoat};
use std::io;
use std::path::Path;
use std::pin::pin;
use tokio::io::AsyncWriteExt as _;
use tokio::net::unix::pipe;

/// What changes the rendered objects, a YAML stream, or refuses them with a reason.
pub type Render<'a> = Box<dyn FnOnce(&[u8]) -> Result<Vec<u8>, String> + Send + 'a>;

const PLUGIN: &str = "vnfm";
const RENDERED: &str = "rendered";
const CHANGED: &str = "changed";
const SCRIPT_FILE: &str = "render.sh";
const SCRIPT: &str = r#"folder=${0%/*}
exec 3<>"$folder/changed"
cat >"$folder/rendered"
read -r verdict <&3
[ "$verdict" = ok ] || exit 1
exec 4<"$folder/changed" 3<&-
exec cat <&4
"#;

/// The exchange of objects during one run.
pub(crate) struct Exchange<'a> {
    folder: RunFolder,
    render: Option<Render<'a>>,
    refusal: Option<String>,
}

impl<'a> Exchange<'a> {
    /// Prepares the folder of a run.
    ///
    /// # Errors
    ///
    /// There is no space for it.
    pub(crate) fn new(
        render: Render<'a>,
        generation: Generation,
        action: &str,
    ) -> Result<Self, HelmError> {
        let created = RunFolder::new().and_then(|folder| {
            write_files(folder.path())?;
            if generation == Generation::Four {
                write_plugin(folder.path())?; // Helm 3 would warn about it in front of each error
            }
            Ok(folder)
        });
        let folder = created.map_err(|source| HelmError::Process {
            action: action.to_owned(),
            source,
        })?;
        Ok(Self {
            folder,
            render: Some(render),
            refusal: None,
        })
    }

    pub(crate) fn folder(&self) -> &RunFolder {
        &self.folder
    }

    /// The arguments that make helm use it.
    pub(crate) fn arguments(&self, generation: Generation) -> Vec<String> {
        match generation {
            Generation::Three => {
                let script = self.folder.path().join(SCRIPT_FILE).display().to_string();
                let option = "--post-renderer-args".to_owned();
                vec![
                    "--post-renderer".to_owned(),
                    "/bin/sh".to_owned(),
                    option,
                    script,
                ]
            }
            Generation::Four => vec!["--post-renderer".to_owned(), PLUGIN.to_owned()],
        }
    }

    /// Serves the script until `running` ends, and returns the result of that. A run that renders nothing is not waited for.
    ///
    /// # Errors
    ///
    /// That of `running`; or `FileTooLarge` if the objects have more than `limit` bytes.
    pub(crate) async fn during<T>(
        &mut self,
        running: impl Future<Output = io::Result<T>>,
        limit: u64,
    ) -> io::Result<T> {
        let mut running = pin!(running);
        tokio::select! {
            ended = &mut running => return ended,
            served = self.serve(limit) => served?,
        }
        running.await
    }

    /// Why our code refused the objects, if it did.
    pub(crate) fn into_refusal(self) -> Option<String> {
        self.refusal
    }

    async fn serve(&mut self, limit: u64) -> io::Result<()> {
        let Some(render) = self.render.take() else {
            return Ok(());
        };
        let open = pipe::OpenOptions::new();
        let rendered = open.open_receiver(self.folder.path().join(RENDERED))?;
        let objects = read(rendered, limit).await?;
        let (verdict, objects) = match render(&objects) {
            Ok(objects) => ("ok\n", objects),
            Err(reason) => {
                self.refusal = Some(reason);
                ("no\n", Vec::new())
            }
        };
        let mut changed = open.open_sender(self.folder.path().join(CHANGED))?;
        changed.write_all(verdict.as_bytes()).await?;
        changed.write_all(&objects).await
    }
}

fn write_files(folder: &Path) -> io::Result<()> {
    let script = folder.join(SCRIPT_FILE);
    std::fs::write(&script, SCRIPT)?;
    for fifo in [RENDERED, CHANGED] {
        mkfifoat(CWD, folder.join(fifo), Mode::RUSR | Mode::WUSR)?;
    }
    Ok(())
}

fn write_plugin(folder: &Path) -> io::Result<()> {
    let plugin = folder.join("plugins").join(PLUGIN);
    std::fs::create_dir_all(&plugin)?;
    let script = folder.join(SCRIPT_FILE);
    let script = script.display();
    let description = format!(
        "apiVersion: v1\ntype: postrenderer/v1\nname: {PLUGIN}\nversion: 0.1.0\nruntime: subprocess\nruntimeConfig:\n  platformCommand:\n    - command: /bin/sh\n      args: ['{script}']\n"
    );
    std::fs::write(plugin.join("plugin.yaml"), description)
}
