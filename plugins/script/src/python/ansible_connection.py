"""Ansible's connection to the hosts of a VNF: every command and file goes through the VNFM, which logs in."""
import base64

from ansible.errors import AnsibleConnectionFailure, AnsibleError
from ansible.module_utils.common.text.converters import to_bytes, to_text
from ansible.plugins.connection import ConnectionBase

import importlib.util
import os

# Our own module has the same name as this plugin, so it is loaded by path.
_path = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "vnfm.py")
_spec = importlib.util.spec_from_file_location("vnfm_services", _path)
services = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(services)

DOCUMENTATION = """
name: vnfm
short_description: hosts of a VNF, through its VNFM
description:
  - The VNFM logs in. No address, user, key or password is used here.
author: vnfm
options:
  host:
    description: The host's name.
    vars:
      - name: inventory_hostname
"""


class Connection(ConnectionBase):
    transport = "vnfm"
    has_pipelining = True

    def _connect(self):
        self._connected = True
        return self

    def close(self):
        self._connected = False

    def reset(self):
        # The VNFM keeps connections open, and reconnects if necessary.
        self.close()

    def _name(self):
        return to_text(self.get_option("host"))

    def _ask(self, service, **request):
        try:
            return services.call(service, host=self._name(), **request)
        except services.Error as error:
            if error.kind == "UNAVAILABLE":
                raise AnsibleConnectionFailure(str(error)) from error
            raise AnsibleError(str(error)) from error

    def exec_command(self, cmd, in_data=None, sudoable=True):
        super().exec_command(cmd, in_data=in_data, sudoable=sudoable)
        if sudoable and self.become and self.become.expect_prompt():
            raise AnsibleError("connection `vnfm` gives no password to `become`: let the login user become root without one")
        stdin = to_text(in_data, errors="surrogate_or_strict") if in_data else None
        answer = self._ask("ssh.run", command=to_text(cmd), stdin=stdin)
        if answer.get("truncated"):
            raise AnsibleError(f"the output of a command on `{self._name()}` is too long")
        return answer["exitCode"], to_bytes(answer["stdout"]), to_bytes(answer["stderr"])

    def put_file(self, in_path, out_path):
        super().put_file(in_path, out_path)
        with open(to_bytes(in_path), "rb") as file:
            content = base64.b64encode(file.read()).decode()
        self._ask("ssh.put", path=to_text(out_path), contentBase64=content)

    def fetch_file(self, in_path, out_path):
        super().fetch_file(in_path, out_path)
        command = "base64 -w0 " + self._shell.quote(to_text(in_path))
        code, stdout, stderr = self.exec_command(command, sudoable=False)
        if code != 0:
            raise AnsibleError(f"cannot read `{to_text(in_path)}`: {to_text(stderr)}")
        with open(to_bytes(out_path), "wb") as file:
            file.write(base64.b64decode(stdout))
