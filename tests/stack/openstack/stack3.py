#!/usr/bin/python3
"""Masters and workers by plain Heat REST: what the baseline drives the cloud with. As the sample VNF-A has it, each
server has a port on a network of the stack's own and one on the shared one.

    stack3.py create NAME [WORKERS [MASTERS]]   prints "CREATE_COMPLETE", then {"master_ip": ..., "worker0_ip": ...}; further
                                       masters are master1, master2, ...
    stack3.py scale NAME WORKERS [MASTERS]   the same for another number of workers; prints "UPDATE_COMPLETE" and the addresses
    stack3.py replace NAME SERVER WORKERS [MASTERS]   another server in the place of this one, with its addresses; prints likewise
    stack3.py delete NAME              prints "DELETE_COMPLETE" and what servers, ports and key pairs are left
Environment: OPENSTACK_PORT_BASE (20000), KEY (file with the public key to log in with; optional)
"""
import json, os, sys, time
import requests

PASSWORD = "nfvtest"                                   # the loopback-only test cloud's, see up.sh
KEYSTONE = "http://127.0.0.1:%d/v3" % (int(os.environ.get("OPENSTACK_PORT_BASE", "20000")) + 5000)


class Cloud:
    """A token of project nfv and the catalog's public addresses."""

    def __init__(self):
        self.http = requests.Session()
        self.http.trust_env = False                    # no proxy from the environment
        user = {"name": "nfv", "domain": {"id": "default"}, "password": PASSWORD}
        r = self.http.post(KEYSTONE + "/auth/tokens", timeout=60, json={"auth": {
            "identity": {"methods": ["password"], "password": {"user": user}},
            "scope": {"project": {"name": "nfv", "domain": {"id": "default"}}}}})
        r.raise_for_status()
        self.http.headers["X-Auth-Token"] = r.headers["X-Subject-Token"]
        self.at = {s["type"]: e["url"] for s in r.json()["token"]["catalog"]
                   for e in s["endpoints"] if e["interface"] == "public"}

    def call(self, method, service, path, **more):
        return self.http.request(method, self.at[service] + path, timeout=120, **more)

    def wait(self, stack, seconds=180):
        end = time.time() + seconds
        while time.time() < end:
            r = self.call("GET", "orchestration", "/stacks/" + stack)
            if r.status_code == 404:
                return {"stack_status": "DELETE_COMPLETE"}
            if r.json()["stack"]["stack_status"].endswith(("COMPLETE", "FAILED")):
                return r.json()["stack"]
            time.sleep(0.3)
        sys.exit("stack %s is not done after %d s" % (stack, seconds))


def template(stack, workers, masters, key):
    resources = {"net": {"type": "OS::Neutron::Net"}, "subnet": {"type": "OS::Neutron::Subnet", "properties": {
        "network": {"get_resource": "net"}, "cidr": "10.10.0.0/24", "ip_version": 4}}}
    names = ["master"] + ["master%d" % i for i in range(1, masters)] + ["worker%d" % i for i in range(workers)]
    for name in names:
        resources[name + "_inside"] = {"type": "OS::Neutron::Port", "depends_on": "subnet", "properties": {
            "network": {"get_resource": "net"}}}
        resources[name + "_port"] = {"type": "OS::Neutron::Port", "properties": {"network": "provider"}}
        resources[name] = {"type": "OS::Nova::Server", "properties": dict(
            name=name, image="nfv-image", flavor="m1.tiny", config_drive=True, metadata={"role": name[:6]},
            networks=[{"port": {"get_resource": name + end}} for end in ("_inside", "_port")],
            **({"key_name": {"get_resource": "key"}} if key else {}))}
    if key:
        resources["key"] = {"type": "OS::Nova::KeyPair", "properties": {"name": "kp-" + stack, "public_key": key}}
    outputs = {n + "_ip": {"value": {"get_attr": [n + "_port", "fixed_ips", 0, "ip_address"]}}
               for n in resources if n + "_port" in resources}
    return {"heat_template_version": "2018-08-31", "resources": resources, "outputs": outputs}


def create(name, workers="2", masters="1"):
    cloud = Cloud()
    r = cloud.call("POST", "orchestration", "/stacks", json={
        "stack_name": name, "template": template(name, int(workers), int(masters), public_key()), "timeout_mins": 5})
    if r.status_code != 201:
        sys.exit("%d %s" % (r.status_code, r.text[:600]))
    show(cloud.wait("%s/%s" % (name, r.json()["stack"]["id"])))


def path_of(cloud, name):
    stack = cloud.call("GET", "orchestration", "/stacks?name=" + name).json()["stacks"][0]
    return "%s/%s" % (name, stack["id"])


def update(cloud, name, workers, masters):
    path = path_of(cloud, name)
    r = cloud.call("PUT", "orchestration", "/stacks/" + path, json={
        "template": template(name, int(workers), int(masters), public_key()), "timeout_mins": 5})
    if r.status_code != 202:
        sys.exit("%d %s" % (r.status_code, r.text[:600]))
    show(cloud.wait(path))


def scale(name, workers, masters="1"):
    update(Cloud(), name, workers, masters)


def replace(name, server, workers, masters="1"):
    cloud = Cloud()
    r = cloud.call("PATCH", "orchestration", "/stacks/%s/resources/%s" % (path_of(cloud, name), server), json={
        "mark_unhealthy": True, "resource_status_reason": "its host is off"})
    if r.status_code != 200:
        sys.exit("%d %s" % (r.status_code, r.text[:600]))
    update(cloud, name, workers, masters)


def public_key():
    key = os.environ.get("KEY")
    return open(key).read().strip() if key else None


def show(stack):
    print(stack["stack_status"], stack["stack_status_reason"])
    print(json.dumps({o["output_key"]: o["output_value"] for o in stack["outputs"]}))


def delete(name):
    cloud = Cloud()
    for stack in cloud.call("GET", "orchestration", "/stacks?name=" + name).json()["stacks"]:
        path = "%s/%s" % (stack["stack_name"], stack["id"])
        cloud.call("DELETE", "orchestration", "/stacks/" + path)
        print(cloud.wait(path)["stack_status"])
    left = [(what, len(cloud.call("GET", service, path).json()[key])) for what, service, path, key in (
        ("servers", "compute", "/servers", "servers"), ("ports", "network", "/v2.0/ports", "ports"),
        ("key pairs", "compute", "/os-keypairs", "keypairs"))]
    print("left: " + ", ".join("%d %s" % (n, what) for what, n in left))


if __name__ == "__main__":
    {"create": create, "scale": scale, "replace": replace, "delete": delete}[sys.argv[1]](*sys.argv[2:])
