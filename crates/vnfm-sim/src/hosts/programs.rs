//! Runs programs: implements the small ones and dispatches to the others.

use super::file_programs::{cat, files, sha256sum};
use super::shell::Shell;
use super::stdio::{Input, Output, lines};
use super::{ca, etcd, kubeadm, kubectl, lease, software, step, upgrade};

/// A file with the seconds that the clock of the host is ahead.
pub(super) const CLOCK_OFFSET: &str = "/sim/clock-offset";
/// Commands that the shell itself implements.
const BUILT_IN: &[&str] = &[
    "true", "false", ":", "echo", "test", "[", "command", "exit", "export", "cd", "set",
];

/// Runs `argv`; exit code 127 if there is no such program.
pub(crate) async fn run(shell: &mut Shell, argv: &[String], input: &mut Input) -> Output {
    let Some(path) = argv.first() else {
        return Output::default();
    };
    let name = path.rsplit('/').next().unwrap_or_default();
    let exists = if path.contains('/') {
        shell.host.disk().is_file(path)
    } else {
        BUILT_IN.contains(&name) || shell.host.has_program(name)
    };
    if !exists {
        return Output::fail(127, format!("sh: 1: {path}: not found\n"));
    }
    let args: Vec<&str> = argv[1..].iter().map(String::as_str).collect();
    match name {
        "sudo" => sudo(shell, argv, input).await,
        "sh" | "bash" => sh(shell, &args, input).await,
        "env" => env(shell, argv, input).await,
        "vnfm-step" => step::vnfm_step(shell, argv).await,
        "kubeadm" => kubeadm::kubeadm(shell, argv, input).await,
        "kubectl" => kubectl::kubectl(shell, argv, input).await,
        "cat" => cat(shell, &args, input).await,
        "wc" => Output::ok(format!("{}\n", input.take().await.len())),
        "sha256sum" => sha256sum(shell, &args, input).await,
        "sleep" => {
            let seconds: f32 = args.first().and_then(|s| s.parse().ok()).unwrap_or(0.0);
            crate::time::pause(std::time::Duration::from_secs_f32(seconds)).await;
            Output::default()
        }
        "true" | "false" | ":" | "echo" | "test" | "[" | "command" | "exit" | "export" | "cd"
        | "set" => built_in(shell, name, &args),
        "mkdir" | "rm" | "mv" | "cp" | "chmod" | "ls" | "install" => files(shell, name, &args),
        "apt-get" | "apt-cache" | "dpkg" | "ctr" => packages(shell, name, &args),
        "sysctl" | "modprobe" | "swapoff" | "systemctl" => settings(shell, name, &args),
        "ip" => ip(shell, &args),
        "date" => date(shell, &args),
        "uname" | "id" | "whoami" | "hostname" | "nproc" => identity(shell, name, &args),
        // Any other file is a script.
        _ => script(shell, path, &args, input).await,
    }
}

/// The traces of a program that a fault interrupts: `kubeadm join` and `kubeadm upgrade apply` leave half of their files.
pub(crate) fn leave_partial_effect(shell: &Shell, argv: &[String]) {
    let is_kubeadm = argv.first().is_some_and(|p| p.ends_with("kubeadm"));
    let has = |word: &str| argv.iter().any(|arg| arg == word);
    if is_kubeadm && has("join") {
        kubeadm::write_partial_join(&shell.host);
    } else if is_kubeadm && has("apply") {
        upgrade::write_partial_upgrade(&shell.host);
    }
}

async fn sudo(shell: &mut Shell, argv: &[String], input: &mut Input) -> Output {
    let command = argv[1..]
        .iter()
        .position(|arg| !arg.starts_with('-'))
        .map(|at| &argv[at + 1..]);
    let Some(command) = command else {
        return Output::fail(1, "usage: sudo -n command\n");
    };
    let mut root = shell.clone();
    "root".clone_into(&mut root.user);
    root.variables.clear();
    root.program(command, input).await
}

async fn sh(shell: &mut Shell, args: &[&str], input: &mut Input) -> Output {
    let mut inner = shell.clone();
    match args {
        ["-c", _, "vnfm-put", path, mode, length] => put(shell, path, (mode, length), input).await,
        ["-c", _, "vnfm-lease", words @ ..] => lease::vnfm_lease(shell, words),
        ["-c", text, rest @ ..] => {
            set_positional(&mut inner, rest);
            inner.script(text, input).await
        }
        [path, rest @ ..] if !path.starts_with('-') => script(&mut inner, path, rest, input).await,
        _ => {
            let text = String::from_utf8_lossy(&input.take().await).into_owned();
            inner.script(&text, &mut Input::empty()).await
        }
    }
}

fn set_positional(shell: &mut Shell, args: &[&str]) {
    for (n, arg) in args.iter().enumerate() {
        shell.variables.insert(n.to_string(), (*arg).to_owned());
    }
}

async fn script(shell: &mut Shell, path: &str, args: &[&str], input: &mut Input) -> Output {
    let Some(text) = shell.host.disk().text(path) else {
        return Output::fail(2, format!("sh: 0: cannot open {path}: No such file\n"));
    };
    let mut inner = shell.clone();
    let mut all = vec![path];
    all.extend(args);
    if path.rsplit('/').next() == Some("vnfm-step") {
        let argv: Vec<_> = all.into_iter().map(ToOwned::to_owned).collect();
        return step::vnfm_step(shell, &argv).await;
    }
    if path.rsplit('/').next() == Some("vnfm-kubernetes") {
        return upgrade::vnfm_kubernetes(shell, args);
    }
    if path.rsplit('/').next() == Some("vnfm-ca") {
        return ca::vnfm_ca(shell, args);
    }
    if path.rsplit('/').next() == Some("vnfm-etcd") {
        return etcd::vnfm_etcd(shell, args);
    }
    if path.rsplit('/').next() == Some("vnfm-software") {
        return software::vnfm_software(shell, args).await;
    }
    if path.rsplit('/').next() == Some("vnfm-registry") {
        return Output::ok("/etc/containerd/certs.d\n");
    }
    set_positional(&mut inner, &all);
    inner.script(&text, input).await
}

/// Uploads a file with the same result as the script that real hosts run.
async fn put(shell: &Shell, path: &str, (mode, length): (&str, &str), input: &mut Input) -> Output {
    let content = input.take().await;
    if content.len().to_string() != length {
        return Output::fail(1, format!("got {} of {length} bytes\n", content.len()));
    }
    if !shell.may_write(path) {
        return Output::fail(
            2,
            format!("sh: 1: cannot create {path}: Permission denied\n"),
        );
    }
    let mode = u32::from_str_radix(mode, 8).unwrap_or(0o600);
    shell.host.disk().write(path, content, mode);
    Output::default()
}

async fn env(shell: &mut Shell, argv: &[String], input: &mut Input) -> Output {
    let mut inner = shell.clone();
    let mut rest = &argv[1..];
    while let Some((name, value)) = rest.first().and_then(|word| word.split_once('=')) {
        inner.variables.insert(name.to_owned(), value.to_owned());
        rest = &rest[1..];
    }
    if rest.is_empty() {
        let vars = inner
            .variables
            .iter()
            .map(|(name, value)| format!("{name}={value}\n"));
        return Output::ok(lines(vars));
    }
    inner.program(rest, input).await
}

fn built_in(shell: &mut Shell, name: &str, args: &[&str]) -> Output {
    match name {
        "false" => Output::fail(1, ""),
        "echo" => {
            let (args, end) = match args {
                ["-n", rest @ ..] => (rest, ""),
                all => (all, "\n"),
            };
            Output::ok(args.join(" ") + end)
        }
        "test" | "[" => Output {
            code: i32::from(!test(shell, args)),
            ..Output::default()
        },
        "command" => {
            let found = args
                .last()
                .filter(|name| BUILT_IN.contains(name) || shell.host.has_program(name));
            match found {
                Some(name) => Output::ok(format!("/usr/bin/{name}\n")),
                None => Output::fail(127, ""),
            }
        }
        "exit" => {
            let code = args.first().unwrap_or(&"0");
            shell.variables.insert("\0exit".into(), (*code).to_owned());
            Output {
                code: code.parse().unwrap_or(2),
                ..Output::default()
            }
        }
        "export" => {
            for (name, value) in args.iter().filter_map(|word| word.split_once('=')) {
                shell.variables.insert(name.to_owned(), value.to_owned());
            }
            shell.variables.insert("\0export".into(), String::new());
            Output::default()
        }
        _ => Output::default(),
    }
}

fn test(shell: &Shell, args: &[&str]) -> bool {
    let args = args.strip_suffix(&["]"]).unwrap_or(args);
    let disk = shell.host.disk();
    match args {
        ["!", rest @ ..] => {
            drop(disk);
            !test(shell, rest)
        }
        ["-e", path] => disk.is_file(path) || disk.is_folder(path),
        ["-f", path] => disk.is_file(path),
        ["-d", path] => disk.is_folder(path),
        ["-s", path] => disk.read(path).is_some_and(|content| !content.is_empty()),
        ["-z", text] => text.is_empty(),
        [a, "=", b] => a == b,
        [a, "!=", b] => a != b,
        ["-n", text] | [text] => !text.is_empty(),
        _ => false,
    }
}

fn packages(shell: &Shell, name: &str, args: &[&str]) -> Output {
    if name == "ctr" {
        let Some(path) = args.iter().find(|arg| arg.starts_with('/')) else {
            let images = shell.host.settings().images.clone();
            return Output::ok(lines(images.iter().map(|image| format!("{image}\n"))));
        };
        let image = path.rsplit('/').next().unwrap_or_default().to_owned();
        shell.host.settings().images.insert(image.clone());
        return Output::ok(format!("unpacking {image}...done\n"));
    }
    let repository = shell.host.disk().is_folder("/etc/apt/sources.list.d");
    let names: Vec<&str> = args
        .iter()
        .copied()
        .filter(|arg| !arg.starts_with('-'))
        .collect();
    match (name, names.as_slice()) {
        ("apt-cache", ["policy", wanted @ ..]) => {
            let candidate = if repository { "1.36.2-1.1" } else { "(none)" };
            let block =
                |name: &&str| format!("{name}:\n  Installed: (none)\n  Candidate: {candidate}\n");
            Output::ok(lines(wanted.iter().map(block)))
        }
        ("apt-get", ["update"]) => Output::default(),
        ("apt-get", ["install", wanted @ ..]) => {
            let are_paths = wanted.iter().all(|name| name.starts_with('/'));
            match wanted.first() {
                Some(first) if !repository && !are_paths => {
                    Output::fail(100, format!("E: Unable to locate package {first}\n"))
                }
                _ => install(shell, wanted),
            }
        }
        ("dpkg", paths) => install(shell, paths),
        _ => Output::fail(100, format!("{name}: invalid operation (not simulated)\n")),
    }
}

/// Installs packages by name, as `NAME=VERSION-REVISION`, or by the path of an archive `NAME_VERSION_ARCH.deb`.
fn install(shell: &Shell, wanted: &[&str]) -> Output {
    if !shell.is_root() {
        return Output::fail(100, "E: Could not open lock file, are you root?\n");
    }
    let mut messages = Vec::new();
    let mut disk = shell.host.disk();
    for package in wanted {
        if package.starts_with('/') && !disk.is_file(package) {
            return Output::fail(
                100,
                format!("E: Unsupported file {package} given on commandline\n"),
            );
        }
        let file = package.rsplit('/').next().unwrap_or_default();
        let mut parts = file.split(['_', '=']);
        let (name, version) = (parts.next().unwrap_or_default(), parts.next());
        let version = version.and_then(|version| version.split('-').next());
        let version = version.map(|version| format!("v{version}"));
        disk.write(
            &format!("/usr/bin/{name}"),
            version.unwrap_or_default(),
            0o755,
        );
        if name == "containerd" {
            disk.write("/usr/bin/ctr", "", 0o755);
        }
        messages.push(format!("Setting up {name} ...\n"));
    }
    let units = ["kubelet", "containerd"];
    let there = units
        .into_iter()
        .filter(|unit| disk.is_file(&format!("/usr/bin/{unit}")));
    let there: Vec<String> = there.map(str::to_owned).collect();
    drop(disk);
    shell.host.settings().enabled.extend(there);
    Output::ok(lines(messages))
}

fn settings(shell: &Shell, name: &str, args: &[&str]) -> Output {
    let plain: Vec<&str> = args
        .iter()
        .copied()
        .filter(|arg| !arg.starts_with('-'))
        .collect();
    let is_query = name == "systemctl" && plain.first() == Some(&"is-active");
    if !shell.is_root() && !is_query {
        return Output::fail(1, format!("{name}: permission denied\n"));
    }
    let installed: Vec<&str> = plain
        .iter()
        .copied()
        .filter(|unit| *unit == "ssh" || shell.host.has_program(unit))
        .collect();
    let mut settings = shell.host.settings();
    match name {
        "sysctl" => {
            let mut messages = Vec::new();
            for (key, value) in plain.iter().filter_map(|word| word.split_once('=')) {
                settings.sysctl.insert(key.to_owned(), value.to_owned());
                messages.push(format!("{key} = {value}\n"));
            }
            let quiet = args
                .iter()
                .any(|arg| arg.starts_with('-') && arg.contains('q'));
            Output::ok(if quiet {
                String::new()
            } else {
                lines(messages)
            })
        }
        "modprobe" => {
            settings
                .modules
                .extend(plain.iter().map(ToString::to_string));
            Output::default()
        }
        "swapoff" => {
            settings.swap = false;
            Output::default()
        }
        _ => {
            let output = systemctl(&mut settings, args, &installed);
            drop(settings);
            if plain.first() == Some(&"restart") && installed.contains(&"kubelet") {
                upgrade::kubelet_restarted(&shell.host);
            }
            output
        }
    }
}

fn systemctl(settings: &mut super::host::Settings, args: &[&str], installed: &[&str]) -> Output {
    let now = args.contains(&"--now");
    let plain: Vec<&str> = args
        .iter()
        .copied()
        .filter(|arg| !arg.starts_with('-'))
        .collect();
    let Some((verb, units)) = plain.split_first() else {
        return Output::fail(1, "systemctl: no command (not simulated)\n");
    };
    let mut output = Output::default();
    for unit in units {
        if !installed.contains(unit) {
            return Output::fail(
                5,
                format!("Failed to {verb} {unit}.service: Unit not found.\n"),
            );
        }
        match *verb {
            "start" | "restart" | "reload" => {
                settings.active.insert((*unit).to_owned());
            }
            "stop" => {
                settings.active.remove(*unit);
            }
            "enable" => {
                settings.enabled.insert((*unit).to_owned());
                if now {
                    settings.active.insert((*unit).to_owned());
                }
            }
            "disable" => {
                settings.enabled.remove(*unit);
                if now {
                    settings.active.remove(*unit);
                }
            }
            "is-active" => {
                let active = settings.active.contains(*unit);
                output = Output::ok(if active { "active\n" } else { "inactive\n" });
                output.code = if active { 0 } else { 3 };
            }
            _ => return Output::fail(1, format!("Unknown command verb {verb} (not simulated).\n")),
        }
    }
    output
}

/// `date +%s.%N`, by the clock of the host.
fn date(shell: &Shell, args: &[&str]) -> Output {
    if args != ["+%s.%N"] {
        return Output::fail(1, "date: not simulated\n");
    }
    let offset = shell.host.disk().text(CLOCK_OFFSET);
    let offset: i64 = offset.and_then(|text| text.parse().ok()).unwrap_or(0);
    let now = jiff::Timestamp::now();
    let seconds = now.as_second() + offset;
    Output::ok(format!("{seconds}.{:09}\n", now.subsec_nanosecond()))
}

/// `ip -o addr show to ADDRESS`.
fn ip(shell: &Shell, args: &[&str]) -> Output {
    let address = shell.host.spec().address.to_string();
    match args {
        ["-o", "addr", "show", "to", wanted] if *wanted == address => {
            Output::ok(format!("2: eth0    inet {address}/24 scope global eth0\n"))
        }
        ["-o", "addr", "show", "to", _] => Output::default(),
        _ => Output::fail(255, "ip: not simulated\n"),
    }
}

fn identity(shell: &Shell, name: &str, args: &[&str]) -> Output {
    let user = &shell.user;
    Output::ok(match (name, args) {
        ("uname", ["-a"]) => {
            format!(
                "Linux {} 6.1.0 vnfm-sim x86_64 GNU/Linux\n",
                shell.host.spec().name
            )
        }
        ("uname", ["-m"]) => "x86_64\n".into(),
        ("uname", _) => "Linux\n".into(),
        ("id", ["-u"]) => format!("{}\n", if shell.is_root() { 0 } else { 1000 }),
        ("id", _) if shell.is_root() => "uid=0(root) gid=0(root) groups=0(root)\n".into(),
        ("id", _) => format!("uid=1000({user}) gid=1000({user}) groups=1000({user})\n"),
        ("whoami", _) => format!("{user}\n"),
        ("nproc", _) => "2\n".into(),
        _ => shell.host.disk().text("/etc/hostname").unwrap_or_default(),
    })
}
