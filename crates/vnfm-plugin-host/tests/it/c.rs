//! Compiles the plugin in C, correct or violating one rule.

use std::path::{Path, PathBuf};
use std::process::Command;

fn here() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

pub(crate) fn compile(dir: &Path, output: &str, arguments: &[&str]) -> PathBuf {
    let to = dir.join(output);
    let compiler = std::env::var("CC").unwrap_or_else(|_| "cc".into());
    let mut command = Command::new(&compiler);
    command.args([
        "-std=c11",
        "-O0",
        "-Wall",
        "-Wextra",
        "-Werror",
        "-Wno-unused",
        "-shared",
        "-fPIC",
    ]);
    command
        .arg("-I")
        .arg(here().join("../vnfm-plugin-abi/include"));
    command.arg("-o").arg(&to).args(arguments);
    let run = command
        .output()
        .unwrap_or_else(|error| panic!("cannot run `{compiler}`: {error}"));
    assert!(
        run.status.success(),
        "{}",
        String::from_utf8_lossy(&run.stderr)
    );
    to
}

/// The plugin in C, compiled with `defines`, as `<output>` in `dir`.
pub(crate) fn plugin(dir: &Path, output: &str, defines: &[&str]) -> PathBuf {
    let source = here().join("tests/c-plugin/plugin.c");
    let mut arguments: Vec<String> = defines.iter().map(|define| format!("-D{define}")).collect();
    arguments.push(source.display().to_string());
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    compile(dir, output, &arguments)
}

/// The plugin in C, with a symbol from a glibc version that does not exist.
pub(crate) fn plugin_of_the_future(dir: &Path, output: &str) -> PathBuf {
    let build = tempfile::tempdir().unwrap();
    let source = build.path().join("future.c");
    std::fs::write(
        &source,
        "int only_in_the_future(void);\nint only_in_the_future(void) { return 1; }\n",
    )
    .unwrap();
    let script = build.path().join("future.map");
    std::fs::write(&script, "GLIBC_2.999 { global: only_in_the_future; };\n").unwrap();
    let script = format!("-Wl,--version-script={}", script.display());
    let source = source.display().to_string();
    let library = compile(
        build.path(),
        "libfuture.so",
        &["-Wl,-soname,libc.so.6", &script, &source],
    );
    let plugin = here().join("tests/c-plugin/plugin.c").display().to_string();
    let library = library.display().to_string();
    compile(dir, output, &["-DWRONG_GLIBC", &plugin, &library])
}
