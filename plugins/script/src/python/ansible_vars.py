"""The variable `vnfm`: the hook's request, read from the VNFM's socket. Its strings are unsafe, so never templates."""
import importlib.util
import os

from ansible.plugins.vars import BaseVarsPlugin
from ansible.utils.unsafe_proxy import wrap_var

# Our own module has the same name as this plugin, so it is loaded by path.
_path = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "vnfm.py")
_spec = importlib.util.spec_from_file_location("vnfm_services", _path)
services = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(services)

DOCUMENTATION = """
name: vnfm
short_description: the request of the hook
description:
  - Gives every host the variable C(vnfm).
author: vnfm
"""

_known = {}


class VarsModule(BaseVarsPlugin):
    def get_vars(self, loader, path, entities, cache=True):
        super().get_vars(loader, path, entities)
        if not _known:
            _known["vnfm"] = wrap_var(services.call("request"))
        return _known
