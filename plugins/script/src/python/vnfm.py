#!/usr/bin/env python3
"""The VNFM's services for a hook: as a Python module, and as the command `vnfm`.

    import vnfm
    for host in vnfm.hosts("VDU1"):
        vnfm.run(host["name"], "systemctl restart app", sudo=True)

    vnfm run web-1 --sudo 'systemctl restart app'

Only the standard library is used. Logins, host keys and secrets stay with the VNFM."""
import argparse
import base64
import json
import os
import socket
import sys
from collections import namedtuple

Output = namedtuple("Output", "exit_code stdout stderr truncated")


class Error(Exception):
    """A service call failed; `kind` is `UNAVAILABLE` if the same call may work later."""

    def __init__(self, kind, detail):
        super().__init__(detail)
        self.kind = kind


class CommandFailed(Error):
    """A command on a host failed with an exit code other than 0."""

    def __init__(self, host, output):
        said = (output.stderr or output.stdout).strip()
        super().__init__("REFUSED", f"exit code {output.exit_code} on `{host}`: {said[-2000:]}")
        self.output = output


def call(service, **request):
    """Calls a service by name; members of the request that are None are omitted."""
    request = {name: value for name, value in request.items() if value is not None}
    with socket.socket(socket.AF_UNIX) as connection:
        try:
            connection.connect(os.environ["VNFM_SOCKET"])
        except (KeyError, OSError) as error:
            raise Error("BROKEN", f"there is no VNFM here: {error}") from error
        line = json.dumps({"service": service, "request": request}) + "\n"
        connection.sendall(line.encode())
        with connection.makefile("rb") as answers:
            line = answers.readline()
    if not line:
        raise Error("UNAVAILABLE", f"the VNFM does not answer `{service}`")
    answer = json.loads(line)
    if "error" in answer:
        raise Error(answer["error"]["kind"], answer["error"]["detail"])
    return answer["answer"]


def hosts(vdu=None):
    """The hosts, of one VDU or all: a list of {name, vdu, vnfc, address}."""
    return call("hosts", vdu=vdu)


def run(host, command, stdin=None, sudo=False, check=True, seconds=None):
    """Runs a command on a host. Secrets go through `stdin`."""
    answer = call("ssh.run", host=host, command=command, stdin=stdin, sudo=sudo, deadlineSeconds=seconds)
    output = Output(answer["exitCode"], answer.get("stdout", ""), answer.get("stderr", ""), answer.get("truncated", False))
    if check and output.exit_code != 0:
        raise CommandFailed(host, output)
    return output


def put(host, path, content=None, artifact=None, mode="0600", sudo=False):
    """Uploads a file atomically: bytes, text, or a file of the package by its path."""
    if isinstance(content, str):
        content = content.encode()
    if content is not None:
        content = base64.b64encode(content).decode()
    call("ssh.put", host=host, path=path, mode=mode, sudo=sudo, contentBase64=content, artifact=artifact)


def wait(host, seconds=300):
    """Waits until a login on the host works."""
    call("ssh.wait", host=host, deadlineSeconds=seconds)


def artifact(path):
    """A file of the package as bytes, even if it is too large to be unpacked."""
    return base64.b64decode(call("artifact.read", path=path)["contentBase64"])


def progress(percent, message):
    """Reports progress to the operator."""
    call("progress", percent=percent, message=message)


def cancelled():
    """Whether the operation is being cancelled."""
    return call("cancelled")["cancelled"]


def checkpoint(key):
    """The value saved by `save_checkpoint`, in this or an earlier attempt; None if there is none."""
    return call("checkpoint.get", key=key)["value"]


def save_checkpoint(key, value):
    """Saves a value across crashes and retries; it is encrypted and may be a secret."""
    call("checkpoint.put", key=key, value=value)


def rule_out_rollback(reason):
    """Rules out a rollback of the operation; to be called before what cannot be undone."""
    call("irreversible", reason=reason)


def main():
    parser = argparse.ArgumentParser(prog="vnfm", description="the VNFM's services for a hook")
    verbs = parser.add_subparsers(dest="verb", required=True)
    verb = verbs.add_parser("hosts", help="names of the hosts, of one VDU or all, one a line")
    verb.add_argument("vdu", nargs="?")
    verb = verbs.add_parser("run", help="run a command on a host; ends with its exit code")
    verb.add_argument("host")
    verb.add_argument("--sudo", action="store_true")
    verb.add_argument("--stdin", action="store_true", help="give it our standard input")
    verb.add_argument("command", help="one command line for the host's shell")
    verb = verbs.add_parser("put", help="put standard input, or a file of the package, on a host")
    verb.add_argument("host")
    verb.add_argument("path")
    verb.add_argument("--artifact", help="path in the package")
    verb.add_argument("--mode", default="0600")
    verb.add_argument("--sudo", action="store_true")
    verb = verbs.add_parser("wait", help="wait until a login works")
    verb.add_argument("host")
    verb.add_argument("seconds", nargs="?", type=int, default=300)
    verb = verbs.add_parser("artifact", help="write a file of the package to standard output")
    verb.add_argument("path")
    verb = verbs.add_parser("progress", help="tell how far the hook is")
    verb.add_argument("percent", type=int)
    verb.add_argument("message")
    try:
        sys.exit(obey(parser.parse_args()))
    except Error as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(75 if error.kind == "UNAVAILABLE" else 1)


def obey(asked):
    if asked.verb == "hosts":
        for host in hosts(asked.vdu):
            print(host["name"])
    elif asked.verb == "run":
        stdin = sys.stdin.read() if asked.stdin else None
        output = run(asked.host, asked.command, stdin=stdin, sudo=asked.sudo, check=False)
        sys.stdout.write(output.stdout)
        sys.stderr.write(output.stderr)
        return output.exit_code
    elif asked.verb == "put":
        content = None if asked.artifact else sys.stdin.buffer.read()
        put(asked.host, asked.path, content, asked.artifact, asked.mode, asked.sudo)
    elif asked.verb == "wait":
        wait(asked.host, asked.seconds)
    elif asked.verb == "artifact":
        sys.stdout.buffer.write(artifact(asked.path))
    else:
        progress(asked.percent, asked.message)
    return 0


if __name__ == "__main__":
    main()
