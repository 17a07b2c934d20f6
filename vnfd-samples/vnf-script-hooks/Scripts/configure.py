"""instantiate_end: puts the page on every server, and tells the VNFM which servers have it."""
import json
import sys

import vnfm

PAGE = "/tmp/vnf-page"

request = json.load(sys.stdin)
text = request["additionalParams"].get("page", "hello")
hosts = vnfm.hosts("web")

for number, host in enumerate(hosts):
    name = host["name"]
    vnfm.progress(100 * number // len(hosts), f"configuring {name}")
    vnfm.wait(name, seconds=300)
    # Idempotent: a retry or a second attempt does no harm.
    vnfm.put(name, PAGE, text, mode="0644")
    found = vnfm.run(name, f"cat {PAGE}").stdout
    if found != text:
        sys.exit(f"error: `{PAGE}` on {name} is not what was put there")
    print(f"{name} has the page", file=sys.stderr)

effects = {
    "schemaVersion": 1,
    "metadata": {"pages": [host["name"] for host in hosts]},
    "message": f"{len(hosts)} servers have the page",
}
json.dump(effects, sys.stdout)
