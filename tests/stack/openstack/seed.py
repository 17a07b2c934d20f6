#!/usr/bin/python3
"""Creates what a test needs, over the public REST interfaces. Safe to run twice."""
import base64, json, os, struct, sys, time
import requests

ip, secret, region = os.environ["IP"], os.environ["SECRET"], os.environ["REGION"]
ports = json.loads(os.environ["PORTS"])
ks = "http://%s:%d/v3" % (ip, ports["identity"])
S = requests.Session()
S.trust_env = False


def call(method, url, tok=None, ok=(200, 201, 202, 204), **kw):
    h = dict(kw.pop("headers", {}))
    if tok:
        h["X-Auth-Token"] = tok
    r = S.request(method, url, headers=h, timeout=60, **kw)
    if r.status_code not in ok:
        sys.exit("%s %s -> %d %s" % (method, url, r.status_code, r.text[:600]))
    return r


def token(user, project):
    body = {"auth": {
        "identity": {"methods": ["password"], "password": {"user": {
            "name": user, "domain": {"id": "default"}, "password": secret}}},
        "scope": {"project": {"name": project, "domain": {"id": "default"}}}}}
    r = call("POST", ks + "/auth/tokens", json=body)
    return r.headers["X-Subject-Token"], r.json()["token"]["project"]["id"]


def ensure(tok, coll, key, want, query=None):
    q = query or {"name": want["name"]}
    have = call("GET", "%s/%s" % (ks, coll), tok, params=q).json()[coll]
    if have:
        return have[0]
    return call("POST", "%s/%s" % (ks, coll), tok, json={key: want}).json()[key]


def identity(admin):
    services = [("glance", "image", ""), ("placement", "placement", ""), ("nova", "compute", "/v2.1"),
                ("neutron", "network", ""), ("heat", "orchestration", "/v1/%(tenant_id)s")]
    if "key-manager" in ports:
        services.append(("barbican", "key-manager", ""))
    if "volumev3" in ports:
        services.append(("cinder", "volumev3", "/v3/%(tenant_id)s"))
    if "load-balancer" in ports:
        services.append(("octavia", "load-balancer", ""))
    roles = {r: ensure(admin, "roles", "role", {"name": r})["id"]
             for r in ("admin", "member", "reader", "service", "heat_stack_owner", "heat_stack_user", "creator", "load-balancer_member")}
    svc = ensure(admin, "projects", "project", {"name": "service", "domain_id": "default"})
    nfv = ensure(admin, "projects", "project", {"name": "nfv", "domain_id": "default"})
    for name, kind, path in services:
        u = ensure(admin, "users", "user", {"name": name, "password": secret, "domain_id": "default"})
        for role in ("admin", "service"):
            call("PUT", "%s/projects/%s/users/%s/roles/%s" % (ks, svc["id"], u["id"], roles[role]), admin)
        s = ensure(admin, "services", "service", {"name": name, "type": kind})
        for iface in ("public", "internal", "admin"):
            ensure(admin, "endpoints", "endpoint", {
                "service_id": s["id"], "interface": iface, "region_id": region,
                "url": "http://%s:%d%s" % (ip, ports[kind], path)}, {"service_id": s["id"], "interface": iface})
    # Heat keeps its own users (for software config, signals) in a separate domain
    dom = ensure(admin, "domains", "domain", {"name": "heat"})
    da = ensure(admin, "users", "user", {"name": "heat_domain_admin", "password": secret, "domain_id": dom["id"]},
                {"name": "heat_domain_admin", "domain_id": dom["id"]})
    call("PUT", "%s/domains/%s/users/%s/roles/%s" % (ks, dom["id"], da["id"], roles["admin"]), admin)
    u = ensure(admin, "users", "user", {"name": "nfv", "password": secret, "domain_id": "default",
                                        "default_project_id": nfv["id"]})
    for role in ("member", "heat_stack_owner", "creator", "load-balancer_member"):
        call("PUT", "%s/projects/%s/users/%s/roles/%s" % (ks, nfv["id"], u["id"], roles[role]), admin)


def empty_qcow2(size=1 << 30):
    """A valid, empty qcow2 version 2 image: header, one L1 table, one refcount table + block."""
    cluster = 65536
    l1 = max(1, -(-size // (cluster * (cluster // 8))))
    hdr = struct.pack(">4sIQIIQIIQQIIQ", b"QFI\xfb", 2, 0, 0, 16, size, 0, l1, 3 * cluster, cluster, 1, 0, 0)
    table = struct.pack(">Q", 2 * cluster)
    block = struct.pack(">4H", 1, 1, 1, 1)
    return b"".join(x.ljust(cluster, b"\0") for x in (hdr, table, block, b""))


def resources(admin):
    nova = "http://%s:%d/v2.1" % (ip, ports["compute"])
    glance = "http://%s:%d" % (ip, ports["image"])
    neutron = "http://%s:%d/v2.0" % (ip, ports["network"])
    have = {f["name"] for f in call("GET", nova + "/flavors", admin).json()["flavors"]}
    for i, (n, ram, cpu, disk) in enumerate([("m1.nano", 128, 1, 1), ("m1.tiny", 512, 1, 1), ("m1.small", 2048, 1, 5),
                                             ("m1.medium", 4096, 2, 10), ("m1.large", 8192, 4, 20)], 1):
        if n not in have:
            call("POST", nova + "/flavors", admin, json={"flavor": {
                "id": str(i), "name": n, "ram": ram, "vcpus": cpu, "disk": disk}})
    path = os.environ.get("IMAGE_FILE")

    def image(name, data, disk="qcow2", container="bare", **more):
        have = call("GET", glance + "/v2/images", admin, params={"name": name}).json()["images"]
        if have:
            return have[0]["id"]
        img = call("POST", glance + "/v2/images", admin, json=dict({
            "name": name, "disk_format": disk, "container_format": container, "visibility": "public"}, **more)).json()
        call("PUT", "%s/v2/images/%s/file" % (glance, img["id"]), admin, data=data,
             headers={"Content-Type": "application/octet-stream"})
        return img["id"]

    more, side = {"min_disk": 1, "min_ram": 64}, path and os.path.dirname(os.path.abspath(path))
    if side and os.path.exists(side + "/vmlinuz"):  # image without a boot loader: direct kernel boot
        more.update(kernel_id=image("nfv-kernel", open(side + "/vmlinuz", "rb"), "aki", "aki"),
                    ramdisk_id=image("nfv-initrd", open(side + "/initrd", "rb"), "ari", "ari"),
                    os_command_line="root=/dev/vda ro console=ttyS0 net.ifnames=0")
    image("nfv-image", open(path, "rb") if path else empty_qcow2(), **more)
    nets = {n["name"]: n for n in call("GET", neutron + "/networks", admin).json()["networks"]}
    tok, project = token("nfv", "nfv")
    if "provider" not in nets:
        n = call("POST", neutron + "/networks", admin, json={"network": {
            "name": "provider", "project_id": project if os.environ["OWNER"] == "nfv" else token("admin", "admin")[1],
            "shared": True, "router:external": True, "provider:network_type": "flat",
            "provider:physical_network": "physnet1", "port_security_enabled": os.environ["VIRT"] == "fake"}}).json()["network"]
        call("POST", neutron + "/subnets", admin, json={"subnet": {
            "name": "provider-v4", "network_id": n["id"], "ip_version": 4, "cidr": "10.77.0.0/24",
            "gateway_ip": "10.77.0.1", "enable_dhcp": True,
            "allocation_pools": [{"start": "10.77.0.20", "end": "10.77.0.250"}]}})
    elif not nets["provider"]["router:external"]:
        call("PUT", "%s/networks/%s" % (neutron, nets["provider"]["id"]), admin, json={"network": {"router:external": True}})
    if "nfv-net" not in nets:
        n = call("POST", neutron + "/networks", tok, json={"network": {"name": "nfv-net"}}).json()["network"]
        call("POST", neutron + "/subnets", tok, json={"subnet": {
            "name": "nfv-net-v4", "network_id": n["id"], "ip_version": 4, "cidr": "10.88.0.0/24"}})
    # every compute host must have reported to Placement before the first server is asked for
    want = int(os.environ["COMPUTES"])
    placement = "http://%s:%d" % (ip, ports["placement"])
    end = time.time() + 90
    while True:
        up = [s for s in call("GET", nova + "/os-services", admin, params={"binary": "nova-compute"}).json()["services"]
              if s["state"] == "up"]
        rps = call("GET", placement + "/resource_providers", admin).json()["resource_providers"]
        hyp = call("GET", nova + "/os-hypervisors", admin).json()["hypervisors"]
        if len(up) >= want and len(rps) >= want and len(hyp) >= want:
            return
        if time.time() > end:
            sys.exit("compute hosts missing: services %d providers %d hypervisors %d of %d" % (len(up), len(rps), len(hyp), want))
        time.sleep(0.5)


admin = token("admin", "admin")[0]
{"identity": identity, "resources": resources}[sys.argv[1]](admin)
