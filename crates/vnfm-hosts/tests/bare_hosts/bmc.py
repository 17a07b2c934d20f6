"""A BMC that speaks IPMI: `bmc.py STATE MODE`. Prints its port, then each request. The login is in BMC_USER and BMC_PASSWORD.

MODE is `honest`; or `stubborn`: the operating system does not shut down; or `stuck`: the state stays the same. All accept requests.
"""
import os
import sys

from pyghmi.ipmi.bmc import Bmc

state, mode = sys.argv[1], sys.argv[2]


class OneHost(Bmc):
    powerstate = state

    def _become(self, wanted, request):
        if mode == "honest" or mode == "stubborn" and request != "soft":
            self.powerstate = wanted
        print(request, flush=True)

    def get_power_state(self):
        return self.powerstate

    def power_on(self):
        self._become("on", "on")

    def power_off(self):
        self._become("off", "off")

    def power_shutdown(self):
        self._become("off", "soft")

    def power_reset(self):
        print("reset", flush=True)


login = {os.environ["BMC_USER"]: os.environ["BMC_PASSWORD"]}
bmc = OneHost(login, port=0, address="::ffff:127.0.0.1")
bmc.port = bmc.serversocket.getsockname()[1]
print(bmc.port, flush=True)
bmc.listen()
