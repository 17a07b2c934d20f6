#!/bin/bash
# Brings up a small but real OpenStack (Zed, Debian 12 packages) on 127.0.0.1:
# Keystone, Glance, Placement, Nova, Neutron, Heat over MariaDB + RabbitMQ of our own.
# No systemd needed; everything this script writes lies under $OPENSTACK_HOME.
#
#   OPENSTACK_HOME       state folder                       (default /var/tmp/vnfm-stack/openstack)
#   OPENSTACK_PORT_BASE  added to the well known port       (default 20000: Keystone = 25000 ...)
#   OPENSTACK_COMPUTES   how many fake hypervisors (hosts)  (default 2)
#   OPENSTACK_VIRT       fake | libvirt                     (default fake)
#   OPENSTACK_IMAGE      libvirt: qcow2 for image "nfv-image"; vmlinuz + initrd beside it, as
#                        image.sh makes them, are booted directly
#   OPENSTACK_VIRT_TYPE  libvirt: qemu (default) | kvm
#   OPENSTACK_TOKEN_TTL  Keystone token lifetime in seconds (default 3600)
#   OPENSTACK_HEAT_RETRIES  how often Heat tries a failed server again (default 1; Heat's own: 5,
#                        with growing pauses: a 'No valid host' stack then takes ~95 s to fail)
#   OPENSTACK_PROVIDER_OWNER  nfv (default): that project may choose addresses and set address pairs on the
#                        shared network `provider`; admin: it may not, as in most public clouds
#   OPENSTACK_BARBICAN   1: run Barbican too                (default 0)
#   OPENSTACK_CINDER     1: run Cinder too; a volume is a small file below state/cinder/volumes, servers do not
#                        see what is in it (default 0)
#   OPENSTACK_OCTAVIA    1: run Octavia's API too; load balancers become ACTIVE at once, their VIP is a
#                        real Neutron port, no traffic flows (default 0)
#   OPENSTACK_HYPERVISOR 1: run hypervisor.py too (fake mode): each ACTIVE server gets a host behind its
#                        address; HOST_UP, HOST_DOWN, HYPERVISOR_* as described there (default 0)
#   OPENSTACK_CACHE      folder where the migrated, empty data bases are kept to
#                        shorten the next start; empty: off (default /var/cache/vnfm/openstack)
# Idempotent: a service that already runs is left alone, a dead one is started again.
set -euo pipefail
umask 022

HOME_DIR=${OPENSTACK_HOME:-/var/tmp/vnfm-stack/openstack}
BASE=${OPENSTACK_PORT_BASE:-20000}
COMPUTES=${OPENSTACK_COMPUTES:-2}
VIRT=${OPENSTACK_VIRT:-fake}
TTL=${OPENSTACK_TOKEN_TTL:-3600}
BARBICAN=${OPENSTACK_BARBICAN:-0}
CINDER=${OPENSTACK_CINDER:-0}
OCTAVIA=${OPENSTACK_OCTAVIA:-0}
HYPERVISOR=${OPENSTACK_HYPERVISOR:-0}
HERE=$(cd "$(dirname "$0")" && pwd)
HEAT_RETRIES=${OPENSTACK_HEAT_RETRIES:-1}
CACHE=${OPENSTACK_CACHE-/var/cache/vnfm/openstack}
IP=127.0.0.1
SECRET=nfvtest                       # loopback-only test cloud: one password for everything
REGION=RegionOne
PY=/usr/bin/python3                  # never a pyenv shim
P_KEYSTONE=$((BASE + 5000)) P_GLANCE=$((BASE + 9292)) P_PLACEMENT=$((BASE + 8778))
P_NOVA=$((BASE + 8774)) P_NEUTRON=$((BASE + 9696)) P_HEAT=$((BASE + 8004))
P_BARBICAN=$((BASE + 9311)) P_CINDER=$((BASE + 8776)) P_OCTAVIA=$((BASE + 9876)) P_MQ=$((BASE + 5690)) P_EPMD=$((BASE + 4369)) P_MQDIST=$((BASE + 5699))

ETC=$HOME_DIR/etc RUN=$HOME_DIR/run LOG=$HOME_DIR/log BIN=$HOME_DIR/bin LIB=$HOME_DIR/lib
SOCK=$RUN/mysql.sock
T0=$(date +%s.%N)
say() { printf '[%6.1fs] %s\n' "$(echo "$(date +%s.%N) $T0" | awk '{print $1-$2}')" "$*" >&2; }
die() { say "ERROR: $*"; exit 1; }
[ "$(id -u)" = 0 ] || die "must run as root"
unset PYTHONPATH OS_CLOUD OS_TOKEN || true
export LC_ALL=C.UTF-8 PATH=/usr/sbin:/usr/bin:/sbin:/bin

# ---------------------------------------------------------------- packages
install_packages() {
  local groups=(openstack)
  [ "$BARBICAN" = 1 ] && groups+=(barbican)
  [ "$CINDER" = 1 ] && groups+=(cinder)
  [ "$OCTAVIA" = 1 ] && groups+=(octavia)
  [ "$VIRT" = libvirt ] && groups+=(libvirt)
  PACKAGES_LOG=$LOG/apt.log "$HERE/../packages.sh" install "${groups[@]}" || die "packages are missing, see $LOG/apt.log"
}

# ---------------------------------------------------------------- processes
# run/<name>.pid holds "pid starttime"; each daemon leads its own session so that
# down.sh can end exactly its descendants.
start_time() { awk '{sub(/^.*\) /,""); print $20}' "/proc/$1/stat" 2>/dev/null; }
alive() {
  local pid st; [ -f "$RUN/$1.pid" ] || return 1
  read -r pid st <"$RUN/$1.pid" || return 1
  [ -d "/proc/$pid" ] && [ "$(start_time "$pid")" = "$st" ]
}
launch() { # name command...
  local name=$1; shift
  alive "$name" && return 0
  setsid "$@" </dev/null >>"$LOG/$name.out" 2>&1 &
  local pid=$!
  disown $pid
  sleep 0.05
  echo "$pid $(start_time $pid)" >"$RUN/$name.pid"
}
pyrun() { # name module:function args...   (same as the packaged console scripts)
  local name=$1 ep=$2; shift 2
  launch "$name" env PYTHONPATH="$LIB" PYTHONUNBUFFERED=1 $PY "$BIN/ep.py" "$ep" "$@"
}
pycall() { env PYTHONPATH="$LIB" $PY "$BIN/ep.py" "$@"; }
http_code() { curl -s -o /dev/null -m 5 -w '%{http_code}' "$1" || true; }
wait_http() { # name url seconds
  local n=0 c
  while :; do
    c=$(http_code "$2"); case $c in 200|300|401|403) return 0;; esac
    alive "$1" || { tail -15 "$LOG/$1.out" >&2; die "$1 died"; }
    n=$((n+1)); [ $n -gt $(( $3 * 5 )) ] && die "$1 does not answer at $2 (last: $c)"
    sleep 0.2
  done
}
sql() { mariadb --no-defaults -u root -S "$SOCK" -N -e "$1"; }

# ---------------------------------------------------------------- configuration
db() { echo "mysql+pymysql://root@localhost/$1?unix_socket=$SOCK&charset=utf8"; }
auth_block() { # service user
  cat <<X
auth_type = password
auth_url = http://$IP:$P_KEYSTONE/v3
username = $1
password = $SECRET
project_name = service
user_domain_id = default
project_domain_id = default
region_name = $REGION
X
}
common_block() { # name
  cat <<X
log_file = $LOG/$1.log
debug = false
use_stderr = false
state_path = $HOME_DIR/state/$1
transport_url = rabbit://guest:guest@$IP:$P_MQ//
X
}
tail_blocks() { # name
  cat <<X
[oslo_concurrency]
lock_path = $HOME_DIR/lock
[oslo_messaging_rabbit]
heartbeat_timeout_threshold = 0
[oslo_messaging_notifications]
driver = noop
[oslo_policy]
policy_file = $ETC/$1-policy.yaml
policy_dirs = $ETC/no-policy.d
[keystone_authtoken]
www_authenticate_uri = http://$IP:$P_KEYSTONE
$(auth_block "$1")
service_token_roles_required = true
[healthcheck]
backends = disable_by_file
X
}
database_block() { printf '[database]\nconnection = %s\nmax_pool_size = 10\nmax_overflow = 30\n' "$(db "$1")"; }

write_config() {
  mkdir -p "$ETC" "$ETC/no-policy.d" "$ETC/heat-env.d" "$ETC/heat-templates" "$BIN" "$LIB" "$HOME_DIR/lock" \
    "$HOME_DIR"/state/{keystone,glance,placement,nova,neutron,heat,barbican,cinder,octavia} "$HOME_DIR"/images/{store,staging,tasks}
  chmod 700 "$HOME_DIR"
  local s; for s in keystone glance placement nova neutron heat barbican cinder octavia; do echo '{}' >"$ETC/$s-policy.yaml"; done

  cat >"$BIN/ep.py" <<'X'
"""Call module:function as if it were its installed console script."""
import importlib, sys
mod, func = sys.argv[1].split(":")
sys.argv = [func + "-" + mod] + sys.argv[2:]
sys.exit(getattr(importlib.import_module(mod), func)())
X
  # Debian 12: oslo.messaging 14.0.3-0+deb12u1 strips the credentials from a notification's context, and
  # Heat 19's stored (trust) context then fails to look up its roles; every signal to a ScalingPolicy dies
  # with AuthorizationFailure. We send no notifications: leave Heat's notify() out, nothing else is changed.
  cp "$HERE/lib/nfvtest_heat.py" "$LIB/"
  cp "$HERE/lib/nfvtest_nova.py" "$LIB/"
  # ML2 mechanism driver that accepts every port at once; there is no agent in fake mode
  cp "$HERE/lib/nfvtest_ml2.py" "$LIB/"
  mkdir -p "$LIB/nfvtest_ml2-1.0.dist-info"
  printf 'Metadata-Version: 2.1\nName: nfvtest-ml2\nVersion: 1.0\n' >"$LIB/nfvtest_ml2-1.0.dist-info/METADATA"
  printf '[neutron.ml2.mechanism_drivers]\nalwaysbound = nfvtest_ml2:AlwaysBound\n[octavia.api.drivers]\nnfvtest = nfvtest_octavia:Provider\n' >"$LIB/nfvtest_ml2-1.0.dist-info/entry_points.txt"

  # Octavia provider without a data plane
  cp "$HERE/lib/nfvtest_octavia.py" "$LIB/"
  # --- keystone, placement (uwsgi)
  cat >"$ETC/keystone.conf" <<X
[DEFAULT]
$(common_block keystone)
$(database_block keystone)
[token]
provider = fernet
expiration = $TTL
allow_expired_window = 600
[fernet_tokens]
key_repository = $ETC/fernet
[fernet_receipts]
key_repository = $ETC/fernet
[credential]
key_repository = $ETC/credential
[identity]
password_hash_rounds = 4
[cache]
enabled = true
backend = dogpile.cache.memory
[trust]
allow_redelegation = true
[oslo_policy]
policy_file = $ETC/keystone-policy.yaml
policy_dirs = $ETC/no-policy.d
X
  cat >"$BIN/keystone.wsgi" <<'X'
from keystone.server.wsgi import initialize_public_application
application = initialize_public_application()
X
  cat >"$ETC/placement.conf" <<X
[DEFAULT]
log_file = $LOG/placement.log
[api]
auth_strategy = keystone
[placement_database]
connection = $(db placement)
$(tail_blocks placement)
X
  cat >"$BIN/placement.wsgi" <<'X'
from placement.wsgi import init_application
application = init_application()
X
  # --- glance
  cat >"$ETC/glance-api.conf" <<X
[DEFAULT]
$(common_block glance)
bind_host = $IP
bind_port = $P_GLANCE
workers = 0
enabled_backends = disk:file
node_staging_uri = file://$HOME_DIR/images/staging
[glance_store]
default_backend = disk
[disk]
filesystem_store_datadir = $HOME_DIR/images/store
[os_glance_staging_store]
filesystem_store_datadir = $HOME_DIR/images/staging
[os_glance_tasks_store]
filesystem_store_datadir = $HOME_DIR/images/tasks
[paste_deploy]
flavor = keystone
config_file = $ETC/glance-paste.ini
$(database_block glance)
$(tail_blocks glance)
X
  cat >"$ETC/glance-paste.ini" <<X
[pipeline:glance-api-keystone]
pipeline = vers auth ctx root
[composite:root]
paste.composite_factory = glance.api:root_app_factory
/: list
/v2: v2
[app:list]
paste.app_factory = glance.api.versions:create_resource
[app:v2]
paste.app_factory = glance.api.v2.router:API.factory
[filter:vers]
paste.filter_factory = glance.api.middleware.version_negotiation:VersionNegotiationFilter.factory
[filter:auth]
paste.filter_factory = keystonemiddleware.auth_token:filter_factory
delay_auth_decision = true
[filter:ctx]
paste.filter_factory = glance.api.middleware.context:ContextMiddleware.factory
X
  # --- nova
  local i
  cat >"$ETC/nova.conf" <<X
[DEFAULT]
$(common_block nova)
my_ip = $IP
enabled_apis = osapi_compute
osapi_compute_listen = $IP
osapi_compute_listen_port = $P_NOVA
osapi_compute_workers = 1
instances_path = $HOME_DIR/instances
vif_plugging_is_fatal = false
vif_plugging_timeout = 0
allow_resize_to_same_host = true
running_deleted_instance_action = noop
sync_power_state_interval = -1
periodic_fuzzy_delay = 0
[wsgi]
api_paste_config = $ETC/nova-paste.ini
[api_database]
connection = $(db nova_api)
$(database_block nova)
[api]
auth_strategy = keystone
[conductor]
workers = 1
[scheduler]
workers = 1
discover_hosts_in_cells_interval = 3
[glance]
$(auth_block glance)
[neutron]
$(auth_block neutron)
[placement]
$(auth_block placement)
[cinder]
os_region_name = $REGION
catalog_info = volumev3::publicURL
[service_user]
send_service_user_token = true
$(auth_block nova)
[vnc]
enabled = false
[spice]
enabled = false
[compute]
resource_provider_association_refresh = 0
[workarounds]
disable_rootwrap = true
skip_cpu_compare_at_startup = true
skip_cpu_compare_on_dest = true
$(tail_blocks nova)
X
  cat >"$ETC/nova-paste.ini" <<X
[composite:osapi_compute]
use = call:nova.api.openstack.urlmap:urlmap_factory
/: list
/v2.1: v21list
/v2.1/+: v21
[composite:v21]
use = call:nova.api.auth:pipeline_factory_v21
keystone = reqid fault size auth ctx app
[pipeline:list]
pipeline = fault listapp
[pipeline:v21list]
pipeline = reqid fault v21listapp
[app:listapp]
paste.app_factory = nova.api.openstack.compute.versions:Versions.factory
[app:v21listapp]
paste.app_factory = nova.api.openstack.compute.versions:VersionsV2.factory
[app:app]
paste.app_factory = nova.api.openstack.compute:APIRouterV21.factory
[filter:reqid]
paste.filter_factory = nova.api.compute_req_id:ComputeReqIdMiddleware.factory
[filter:fault]
paste.filter_factory = nova.api.openstack:FaultWrapper.factory
[filter:size]
paste.filter_factory = oslo_middleware:RequestBodySizeLimiter.factory
[filter:auth]
paste.filter_factory = keystonemiddleware.auth_token:filter_factory
[filter:ctx]
paste.filter_factory = nova.api.auth:NovaKeystoneContext.factory
X
  if [ "$VIRT" = fake ]; then
    for i in $(seq 1 "$COMPUTES"); do
      cat >"$ETC/nova-compute-$i.conf" <<X
[DEFAULT]
host = fake-host-$i
compute_driver = fake.StoringDriver
log_file = $LOG/nova-compute-$i.log
X
    done
  else
    cat >"$ETC/nova-compute-1.conf" <<X
[DEFAULT]
host = $(hostname)
compute_driver = libvirt.LibvirtDriver
log_file = $LOG/nova-compute-1.log
force_config_drive = false
[libvirt]
virt_type = ${OPENSTACK_VIRT_TYPE:-qemu}
cpu_mode = ${OPENSTACK_CPU_MODE:-none}
hw_machine_type = x86_64=${OPENSTACK_MACHINE:-pc}
inject_partition = -2
tb_cache_size = 96
[vnc]
enabled = false
X
  fi
  # --- neutron
  cat >"$ETC/neutron.conf" <<X
[DEFAULT]
$(common_block neutron)
bind_host = $IP
bind_port = $P_NEUTRON
api_workers = 0
rpc_workers = 0
rpc_state_report_workers = 0
core_plugin = ml2
service_plugins = router
api_paste_config = $ETC/neutron-paste.ini
dhcp_agent_notification = $([ "$VIRT" = fake ] && echo false || echo true)
dhcp_agents_per_network = 1
notify_nova_on_port_status_changes = false
notify_nova_on_port_data_changes = true
auth_strategy = keystone
[agent]
root_helper = sudo
[experimental]
linuxbridge = true
$(database_block neutron)
[nova]
$(auth_block nova)
[placement]
$(auth_block placement)
$(tail_blocks neutron)
X
  cat >"$ETC/ml2.ini" <<X
[ml2]
type_drivers = local,flat,vlan,vxlan
tenant_network_types = $([ "$VIRT" = fake ] && echo vxlan,local || echo local)
mechanism_drivers = $([ "$VIRT" = fake ] && echo alwaysbound || echo linuxbridge)
extension_drivers = port_security
[ml2_type_flat]
flat_networks = *
[ml2_type_vlan]
network_vlan_ranges = physnet1:100:199
[ml2_type_vxlan]
vni_ranges = 1000:1999
[securitygroup]
enable_security_group = $([ "$VIRT" = fake ] && echo true || echo false)
firewall_driver = noop
X
  cat >"$ETC/neutron-paste.ini" <<X
[composite:neutron]
use = egg:Paste#urlmap
/: list
/v2.0: v2
[composite:list]
use = call:neutron.auth:pipeline_factory
noauth = listapp
keystone = listapp
[composite:v2]
use = call:neutron.auth:pipeline_factory
noauth = reqid errs ext app
keystone = reqid errs auth ctx ext app
[app:listapp]
paste.app_factory = neutron.pecan_wsgi.app:versions_factory
[app:app]
paste.app_factory = neutron.api.v2.router:APIRouter.factory
[filter:reqid]
paste.filter_factory = oslo_middleware:RequestId.factory
[filter:errs]
paste.filter_factory = oslo_middleware:CatchErrors.factory
[filter:auth]
paste.filter_factory = keystonemiddleware.auth_token:filter_factory
[filter:ctx]
paste.filter_factory = neutron.auth:NeutronKeystoneContext.factory
[filter:ext]
paste.filter_factory = neutron.api.extensions:plugin_aware_extension_middleware_factory
X
  if [ "$VIRT" = libvirt ]; then
    cat >"$ETC/linuxbridge.ini" <<X
[linux_bridge]
physical_interface_mappings = physnet1:nfv-phys
[vxlan]
enable_vxlan = false
[securitygroup]
enable_security_group = false
firewall_driver = noop
[agent]
root_helper = sudo
polling_interval = 1
X
    cat >"$ETC/dhcp.ini" <<X
[DEFAULT]
interface_driver = linuxbridge
dhcp_driver = neutron.agent.linux.dhcp.Dnsmasq
enable_isolated_metadata = false
dnsmasq_local_resolv = false
[agent]
root_helper = sudo
X
  fi
  # --- heat
  cat >"$ETC/heat.conf" <<X
[DEFAULT]
$(common_block heat)
num_engine_workers = 1
region_name_for_services = $REGION
heat_metadata_server_url = http://$IP:$((BASE + 8000))
heat_waitcondition_server_url = http://$IP:$((BASE + 8000))/v1/waitcondition
stack_user_domain_name = heat
stack_domain_admin = heat_domain_admin
stack_domain_admin_password = $SECRET
deferred_auth_method = trusts
auth_encryption_key = 0123456789abcdef0123456789abcdef
environment_dir = $ETC/heat-env.d
template_dir = $ETC/heat-templates
server_keystone_endpoint_type = public
client_retry_limit = 1
action_retry_limit = $HEAT_RETRIES
[heat_api]
bind_host = $IP
bind_port = $P_HEAT
workers = 1
[paste_deploy]
api_paste_config = $ETC/heat-paste.ini
[clients_keystone]
auth_uri = http://$IP:$P_KEYSTONE
[trustee]
auth_type = password
auth_url = http://$IP:$P_KEYSTONE/v3
username = heat
password = $SECRET
user_domain_id = default
$(database_block heat)
$(tail_blocks heat)
X
  cat >"$ETC/heat-paste.ini" <<X
[pipeline:heat-api]
pipeline = reqid fault vers url auth ctx app
[app:app]
paste.app_factory = heat.common.wsgi:app_factory
heat.app_factory = heat.api.openstack.v1:API
[filter:reqid]
paste.filter_factory = oslo_middleware.request_id:RequestId.factory
[filter:fault]
paste.filter_factory = heat.common.wsgi:filter_factory
heat.filter_factory = heat.api.openstack:faultwrap_filter
[filter:vers]
paste.filter_factory = heat.common.wsgi:filter_factory
heat.filter_factory = heat.api.openstack:version_negotiation_filter
[filter:url]
paste.filter_factory = heat.common.auth_url:filter_factory
[filter:auth]
paste.filter_factory = keystonemiddleware.auth_token:filter_factory
[filter:ctx]
paste.filter_factory = heat.common.context:ContextMiddleware_filter_factory
X
  # --- barbican
  if [ "$BARBICAN" = 1 ]; then
    cat >"$ETC/barbican.conf" <<X
[DEFAULT]
log_file = $LOG/barbican.log
host_href = http://$IP:$P_BARBICAN
sql_connection = $(db barbican)
db_auto_create = true
transport_url = rabbit://guest:guest@$IP:$P_MQ//
[queue]
enable = false
[secretstore]
enabled_secretstore_plugins = store_crypto
[crypto]
enabled_crypto_plugins = simple_crypto
[simple_crypto_plugin]
kek = MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=
$(tail_blocks barbican)
X
    # Barbican reads ~/.barbican/barbican.conf (or /etc) only
    mkdir -p "$HOME_DIR/state/barbican/.barbican"; ln -sf "$ETC/barbican.conf" "$HOME_DIR/state/barbican/.barbican/barbican.conf"
    cat >"$ETC/barbican-paste.ini" <<X
[composite:main]
use = egg:Paste#urlmap
/: list
/v1: v1
[pipeline:list]
pipeline = listapp
[app:listapp]
paste.app_factory = barbican.api.app:create_version_app
[pipeline:v1]
pipeline = auth ctx app
[app:app]
paste.app_factory = barbican.api.app:create_main_app
[filter:auth]
paste.filter_factory = keystonemiddleware.auth_token:filter_factory
oslo_config_project = barbican
oslo_config_file = $ETC/barbican.conf
[filter:ctx]
paste.filter_factory = barbican.api.middleware.context:ContextMiddleware.factory
X
    cat >"$BIN/barbican.wsgi" <<X
from paste import deploy
application = deploy.loadapp("config:$ETC/barbican-paste.ini", name="main")
X
  fi
  # --- cinder
  cp "$HERE/lib/nfvtest_cinder.py" "$LIB/"
  if [ "$CINDER" = 1 ]; then
    cat >"$ETC/cinder.conf" <<X
[DEFAULT]
$(common_block cinder)
my_ip = $IP
host = fake-host
osapi_volume_listen = $IP
osapi_volume_listen_port = $P_CINDER
osapi_volume_workers = 1
api_paste_config = $ETC/cinder-paste.ini
resource_query_filters_file = $ETC/cinder-filters.json
auth_strategy = keystone
enabled_backends = file
glance_api_servers = http://$IP:$P_GLANCE
quota_volumes = 1000
quota_snapshots = 1000
quota_gigabytes = 10000
periodic_fuzzy_delay = 0
[file]
volume_backend_name = file
volume_driver = nfvtest_cinder.FileDriver
nfvtest_folder = $HOME_DIR/state/cinder/volumes
[coordination]
backend_url = file://$HOME_DIR/state/cinder/coordination
[nova]
$(auth_block cinder)
[service_user]
send_service_user_token = true
$(auth_block cinder)
$(database_block cinder)
$(tail_blocks cinder)
X
    echo '{"volume": ["name", "status", "metadata"], "snapshot": ["name", "status", "metadata", "volume_id"]}' \
      >"$ETC/cinder-filters.json"
    cat >"$ETC/cinder-paste.ini" <<X
[composite:osapi_volume]
use = call:cinder.api:root_app_factory
/: list
/v3: v3
[composite:v3]
use = call:cinder.api.middleware.auth:pipeline_factory
keystone = reqid fault size auth ctx app
[pipeline:list]
pipeline = fault listapp
[app:listapp]
paste.app_factory = cinder.api.versions:Versions.factory
[app:app]
paste.app_factory = cinder.api.v3.router:APIRouter.factory
[filter:reqid]
paste.filter_factory = oslo_middleware:RequestId.factory
[filter:fault]
paste.filter_factory = cinder.api.middleware.fault:FaultWrapper.factory
[filter:size]
paste.filter_factory = oslo_middleware:RequestBodySizeLimiter.factory
[filter:auth]
paste.filter_factory = keystonemiddleware.auth_token:filter_factory
[filter:ctx]
paste.filter_factory = cinder.api.middleware.auth:CinderKeystoneContext.factory
X
  fi
  # --- octavia
  if [ "$OCTAVIA" = 1 ]; then
    cat >"$ETC/octavia.conf" <<X
[DEFAULT]
log_file = $LOG/octavia.log
transport_url = rabbit://guest:guest@$IP:$P_MQ//
[api_settings]
enabled_provider_drivers = nfvtest:accepts everything
default_provider_driver = nfvtest
[controller_worker]
network_driver = allowed_address_pairs_driver
[service_auth]
$(auth_block octavia)
$(database_block octavia)
$(tail_blocks octavia)
X
    cat >"$BIN/octavia.wsgi" <<X
from octavia.api import app
application = app.setup_app(argv=["octavia-api", "--config-file", "$ETC/octavia.conf"])
X
  fi
}

# ---------------------------------------------------------------- MariaDB, RabbitMQ
DATABASES="keystone glance placement nova_api nova nova_cell0 neutron heat barbican"
start_base() {
  mkdir -p "$RUN"
  if [ ! -d "$HOME_DIR/db/mysql" ]; then
    rm -rf "$HOME_DIR/db"; mkdir -p "$HOME_DIR/db"
    if [ -n "$CACHE" ] && [ -f "$CACHE/db-$CACHE_KEY.tgz" ]; then
      tar -C "$HOME_DIR/db" -xzf "$CACHE/db-$CACHE_KEY.tgz"; say "data bases from $CACHE"
      touch "$HOME_DIR/.migrated"
    else
      mariadb-install-db --no-defaults --user=root --datadir="$HOME_DIR/db" --auth-root-authentication-method=normal \
        --skip-test-db --skip-name-resolve >"$LOG/mysql-install.log" 2>&1 || die "mariadb-install-db"
    fi
  fi
  launch mysql mariadbd --no-defaults --user=root --datadir="$HOME_DIR/db" --socket="$SOCK" --pid-file="$RUN/mysqld.self" \
    --skip-networking --skip-name-resolve --skip-log-bin --performance-schema=0 --innodb-buffer-pool-size=96M \
    --innodb-log-file-size=32M --innodb-flush-log-at-trx-commit=0 --innodb-doublewrite=0 --sync-binlog=0 \
    --innodb-flush-method=O_DIRECT_NO_FSYNC --max-connections=500 --character-set-server=utf8mb3 --wait-timeout=28800
  launch epmd epmd -port "$P_EPMD" -address "$IP"
  mkdir -p "$HOME_DIR/mq/db" "$HOME_DIR/mq/log"
  printf 'listeners.tcp.default = %s:%s\nvm_memory_high_watermark.absolute = 512MB\ndisk_free_limit.absolute = 50MB\nloopback_users = none\n' \
    "$IP" "$P_MQ" >"$HOME_DIR/mq/rabbitmq.conf"
  : >"$HOME_DIR/mq/enabled_plugins.empty"; echo '[].' >"$HOME_DIR/mq/enabled_plugins"
  launch rabbitmq env -i PATH="$PATH" LC_ALL=C.UTF-8 HOME="$HOME_DIR/mq" ERL_EPMD_PORT="$P_EPMD" ERL_EPMD_ADDRESS="$IP" \
    RABBITMQ_NODENAME=nfvos@localhost RABBITMQ_NODE_PORT="$P_MQ" RABBITMQ_DIST_PORT="$P_MQDIST" \
    RABBITMQ_MNESIA_BASE="$HOME_DIR/mq/db" RABBITMQ_LOG_BASE="$HOME_DIR/mq/log" \
    RABBITMQ_CONFIG_FILE="$HOME_DIR/mq/rabbitmq" RABBITMQ_ENABLED_PLUGINS_FILE="$HOME_DIR/mq/enabled_plugins" \
    RABBITMQ_CONF_ENV_FILE=/dev/null RABBITMQ_PID_FILE="$RUN/rabbitmq.self" \
    RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS="+S 1:1 +SDio 4 +sbwt none +sbwtdcpu none +sbwtdio none -kernel inet_dist_use_interface {127,0,0,1}" \
    /usr/lib/rabbitmq/bin/rabbitmq-server
  local n=0
  until sql 'select 1' >/dev/null 2>&1; do n=$((n+1)); [ $n -gt 150 ] && die "mariadb does not answer"; sleep 0.2; done
}
wait_mq() {
  local n=0
  until grep -q 'Server startup complete' "$HOME_DIR"/mq/log/*.log 2>/dev/null; do
    alive rabbitmq || die "rabbitmq died, see $LOG/rabbitmq.out"
    n=$((n+1)); [ $n -gt 300 ] && die "rabbitmq does not come up"; sleep 0.2
  done
}

cinder_tables() {
  sql "select 1 from cinder.alembic_version" >/dev/null 2>&1 && return 0
  sql "create database if not exists cinder character set utf8mb3"
  pycall cinder.cmd.manage:main --config-file "$ETC/cinder.conf" db sync >"$LOG/sync-cinder.log" 2>&1
}
octavia_tables() {
  sql "select 1 from octavia.alembic_version" >/dev/null 2>&1 && return 0
  sql "create database if not exists octavia character set utf8mb3"
  pycall octavia.db.migration.cli:main --config-file "$ETC/octavia.conf" upgrade head >"$LOG/sync-octavia.log" 2>&1
}
migrate() {
  [ -f "$HOME_DIR/.migrated" ] && return 0
  local d; for d in $DATABASES; do sql "create database if not exists $d character set utf8mb3"; done
  say "creating tables"
  local jobs=() names=()
  ( pycall keystone.cmd.manage:main --config-file "$ETC/keystone.conf" db_sync ) >"$LOG/sync-keystone.log" 2>&1 & jobs+=($!) names+=(keystone)
  ( pycall neutron.db.migration.cli:main --config-file "$ETC/neutron.conf" --config-file "$ETC/ml2.ini" upgrade heads ) >"$LOG/sync-neutron.log" 2>&1 & jobs+=($!) names+=(neutron)
  ( n="pycall nova.cmd.manage:main --config-file $ETC/nova.conf"
    $n api_db sync && $n cell_v2 map_cell0 --database_connection "$(db nova_cell0)" && $n db sync \
      && $n cell_v2 create_cell --name cell1 ) >"$LOG/sync-nova.log" 2>&1 & jobs+=($!) names+=(nova)
  [ "$CINDER" = 1 ] && { ( cinder_tables ) & jobs+=($!) names+=(cinder); }
  [ "$OCTAVIA" = 1 ] && { ( octavia_tables ) & jobs+=($!) names+=(octavia); }
  ( pycall heat.cmd.manage:main --config-file "$ETC/heat.conf" db_sync
    pycall glance.cmd.manage:main --config-file "$ETC/glance-api.conf" db_sync
    pycall placement.cmd.manage:main --config-file "$ETC/placement.conf" db sync ) >"$LOG/sync-rest.log" 2>&1 & jobs+=($!) names+=(rest)
  local i; for i in "${!jobs[@]}"; do wait "${jobs[$i]}" || { tail -5 "$LOG/sync-${names[$i]}.log" >&2; die "table creation of ${names[$i]} failed"; }; done
  touch "$HOME_DIR/.migrated"
  if [ -n "$CACHE" ]; then
    # cell mappings carry our paths and ports; they are in the cache key
    mkdir -p "$CACHE"
    local pid _; read -r pid _ <"$RUN/mysql.pid"
    sql 'set global innodb_fast_shutdown=0; shutdown' || true
    while [ -d "/proc/$pid" ]; do sleep 0.1; done
    tar -C "$HOME_DIR/db" -I 'gzip -1' -cf "$CACHE/db-$CACHE_KEY.tmp.$$" --exclude=./ibtmp1 . && mv "$CACHE/db-$CACHE_KEY.tmp.$$" "$CACHE/db-$CACHE_KEY.tgz"
    start_base
  fi
}

# ---------------------------------------------------------------- services
uwsgi_app() { # name port wsgi-file env...
  local name=$1 port=$2 file=$3; shift 3
  launch "$name" env "$@" uwsgi --plugin python3 --http-socket "$IP:$port" --wsgi-file "$file" --processes 1 --threads 6 \
    --enable-threads --die-on-term --need-app --buffer-size 65535 --lazy-apps --disable-logging \
    --socket-timeout 600 --listen 100 --add-header "Connection: close"
}
start_keystone() {
  if [ ! -d "$ETC/fernet" ]; then
    mkdir -p "$ETC/fernet" "$ETC/credential"; chmod 700 "$ETC/fernet" "$ETC/credential"
    # what `keystone-manage fernet_setup` / `credential_setup` write, without two slow calls
    local d i; for d in fernet credential; do for i in 0 1; do
      head -c32 /dev/urandom | base64 -w0 | tr '+/' '-_' >"$ETC/$d/$i"; done; chmod 600 "$ETC/$d"/*; done
  fi
  if [ ! -f "$HOME_DIR/.bootstrapped" ]; then
    local u=http://$IP:$P_KEYSTONE/v3
    pycall keystone.cmd.manage:main --config-file "$ETC/keystone.conf" bootstrap --bootstrap-password "$SECRET" \
      --bootstrap-region-id "$REGION" --bootstrap-public-url "$u" --bootstrap-internal-url "$u" --bootstrap-admin-url "$u" \
      >"$LOG/bootstrap.log" 2>&1 || { tail -5 "$LOG/bootstrap.log" >&2; die "keystone bootstrap"; }
    touch "$HOME_DIR/.bootstrapped"
  fi
  uwsgi_app keystone "$P_KEYSTONE" "$BIN/keystone.wsgi" OS_KEYSTONE_CONFIG_DIR="$ETC" OS_KEYSTONE_CONFIG_FILES=keystone.conf
  wait_http keystone "http://$IP:$P_KEYSTONE/v3" 60
}
start_services() {
  uwsgi_app placement "$P_PLACEMENT" "$BIN/placement.wsgi" OS_PLACEMENT_CONFIG_DIR="$ETC"
  pyrun neutron-server neutron.cmd.eventlet.server:main --config-file "$ETC/neutron.conf" --config-file "$ETC/ml2.ini"
  pyrun glance-api glance.cmd.api:main --config-file "$ETC/glance-api.conf"
  local n="--config-file $ETC/nova.conf" i
  pyrun nova-conductor nova.cmd.conductor:main $n --config-file "$ETC/nova-conductor.conf"
  pyrun nova-scheduler nova.cmd.scheduler:main $n --config-file "$ETC/nova-scheduler.conf"
  pyrun nova-api nova.cmd.api_os_compute:main $n --config-file "$ETC/nova-api.conf"
  pyrun heat-engine nfvtest_heat:engine --config-file "$ETC/heat.conf" --config-file "$ETC/heat-engine.conf"
  pyrun heat-api heat.cmd.api:main --config-file "$ETC/heat.conf" --config-file "$ETC/heat-api.conf"
  [ "$BARBICAN" = 1 ] && uwsgi_app barbican "$P_BARBICAN" "$BIN/barbican.wsgi" HOME="$HOME_DIR/state/barbican"
  if [ "$CINDER" = 1 ]; then
    cinder_tables || die "table creation of cinder failed, see $LOG/sync-cinder.log"
    local c="--config-file $ETC/cinder.conf"
    pyrun cinder-api cinder.cmd.api:main $c --config-file "$ETC/cinder-api.conf"
    pyrun cinder-scheduler cinder.cmd.scheduler:main $c --config-file "$ETC/cinder-scheduler.conf"
    pyrun cinder-volume cinder.cmd.volume:main $c --config-file "$ETC/cinder-volume.conf"
  fi
  if [ "$OCTAVIA" = 1 ]; then
    octavia_tables || die "table creation of octavia failed, see $LOG/sync-octavia.log"
    uwsgi_app octavia "$P_OCTAVIA" "$BIN/octavia.wsgi" PYTHONPATH="$LIB"
  fi
  wait_http placement "http://$IP:$P_PLACEMENT/" 60
  wait_http neutron-server "http://$IP:$P_NEUTRON/v2.0/networks" 90
  if [ "$VIRT" = libvirt ]; then start_host_side; fi
  for i in $(cd "$ETC"; ls nova-compute-*.conf | sed 's/[^0-9]//g'); do
    pyrun "nova-compute-$i" nfvtest_nova:compute $n --config-file "$ETC/nova-compute-$i.conf"
  done
  wait_http glance-api "http://$IP:$P_GLANCE/v2/images" 60
  wait_http nova-api "http://$IP:$P_NOVA/v2.1" 60
  wait_http heat-api "http://$IP:$P_HEAT/" 60
  if [ "$BARBICAN" = 1 ]; then wait_http barbican "http://$IP:$P_BARBICAN/" 60; fi
  if [ "$CINDER" = 1 ]; then wait_http cinder-api "http://$IP:$P_CINDER/v3/" 60; fi
  if [ "$OCTAVIA" = 1 ]; then wait_http octavia "http://$IP:$P_OCTAVIA/" 60; fi
}
# libvirt mode: a veth pair is the provider network "physnet1": its end nfv-host (10.77.0.1/24) is the
# host's foot in it; Neutron's linuxbridge agent puts the end nfv-phys and the taps of the VMs into a
# bridge brq<net-id>, and its DHCP agent serves addresses.
start_host_side() {
  ip link show nfv-host >/dev/null 2>&1 || ip link add nfv-host type veth peer name nfv-phys
  ip link set nfv-phys up; ip link set nfv-host up; ip addr replace 10.77.0.1/24 dev nfv-host
  sysctl -q -w net.bridge.bridge-nf-call-iptables=0 2>/dev/null || true
  mkdir -p "$HOME_DIR/libvirt" "$HOME_DIR/instances"; chmod 711 "$HOME_DIR"
  cat >"$HOME_DIR/libvirt/qemu.conf" <<X
user = "root"
group = "root"
security_driver = "none"
remember_owner = 0
namespaces = []
cgroup_controllers = []
X
  if ! alive libvirtd; then
    [ -S /run/libvirt/libvirt-sock ] && virsh -c qemu:///system version >/dev/null 2>&1 && die "another libvirtd is running"
    [ -f /etc/libvirt/qemu.conf ] && ! cmp -s "$HOME_DIR/libvirt/qemu.conf" /etc/libvirt/qemu.conf && cp /etc/libvirt/qemu.conf "$HOME_DIR/libvirt/qemu.conf.orig"
    mkdir -p /etc/libvirt; cp "$HOME_DIR/libvirt/qemu.conf" /etc/libvirt/qemu.conf
    printf 'auth_unix_rw = "none"\nauth_unix_ro = "none"\nunix_sock_rw_perms = "0700"\n' >"$HOME_DIR/libvirt/libvirtd.conf"
  fi
  getent group libvirt-qemu >/dev/null || groupadd -r libvirt-qemu      # libvirtd insists that it exists
  getent passwd libvirt-qemu >/dev/null || useradd -r -M -g libvirt-qemu -s /usr/sbin/nologin libvirt-qemu
  launch virtlogd virtlogd
  launch libvirtd libvirtd --config "$HOME_DIR/libvirt/libvirtd.conf" --timeout 0
  local n=0; until virsh -c qemu:///system version >/dev/null 2>&1; do n=$((n+1)); [ $n -gt 100 ] && die "libvirtd does not answer"; sleep 0.2; done
  pyrun linuxbridge-agent neutron.cmd.eventlet.plugins.linuxbridge_neutron_agent:main \
    --config-file "$ETC/neutron.conf" --config-file "$ETC/ml2.ini" --config-file "$ETC/linuxbridge.ini"
  pyrun dhcp-agent neutron.cmd.eventlet.agents.dhcp:main \
    --config-file "$ETC/neutron.conf" --config-file "$ETC/dhcp.ini"
  cat >"$BIN/host-down.sh" <<'X'
#!/bin/bash
# what libvirt mode leaves on the host: VMs, dnsmasq, name spaces, bridges, veth pair
H=${OPENSTACK_HOME:-/var/tmp/vnfm-stack/openstack}
case ${1:-after} in
before)
  for d in $(virsh -c qemu:///system list --name 2>/dev/null | grep '^instance-'); do virsh -c qemu:///system destroy "$d" >/dev/null; done
  for d in $(virsh -c qemu:///system list --all --name 2>/dev/null | grep '^instance-'); do virsh -c qemu:///system undefine "$d" >/dev/null; done ;;
after)
  for f in "$H"/state/neutron/dhcp/*/pid; do
    [ -f "$f" ] || continue; p=$(cat "$f"); grep -qz "$H" "/proc/$p/cmdline" 2>/dev/null && kill "$p"; done
  for n in "$H"/state/neutron/dhcp/*/; do ip netns del "qdhcp-$(basename "$n")" 2>/dev/null; done
  for l in $(ip -o link show type bridge 2>/dev/null | awk -F'[ :]+' '$2 ~ /^brq/ {print $2}'); do ip link del "$l"; done
  ip link del nfv-host 2>/dev/null
  [ -f "$H/libvirt/qemu.conf.orig" ] && cp "$H/libvirt/qemu.conf.orig" /etc/libvirt/qemu.conf ;;
esac
exit 0
X
  chmod +x "$BIN/host-down.sh"
}

start_hypervisor() {
  export HYPERVISOR_HOME=${HYPERVISOR_HOME:-$HOME_DIR/hypervisor} OPENSTACK_HOME=$HOME_DIR
  { echo '#!/bin/bash'; export -p | grep -E '^declare -x (HOST_|HYPERVISOR_|VNFM_|OPENSTACK_HOME|PATH)\w*='
    printf 'exec %q %q down-all\n' "$PY" "$HERE/hypervisor.py"; } >"$BIN/hypervisor-down.sh"
  chmod +x "$BIN/hypervisor-down.sh"
  launch hypervisor env -u OS_AUTH_URL "$PY" "$HERE/hypervisor.py" run
  local n=0; until [ -S "$HYPERVISOR_HOME/control.sock" ] && alive hypervisor; do
    n=$((n+1)); [ $n -gt 100 ] && die "hypervisor.py does not come up, see $LOG/hypervisor.out"; sleep 0.1; done
}

# per-process log files for the daemons that share one configuration
write_log_overlays() {
  local s; for s in nova-conductor nova-scheduler nova-api heat-engine heat-api cinder-api cinder-scheduler cinder-volume; do
    printf '[DEFAULT]\nlog_file = %s/%s.log\n' "$LOG" "$s" >"$ETC/$s.conf"; done
}

# ---------------------------------------------------------------- seeding over REST
seed() {
  local extra=""; [ "$BARBICAN" = 1 ] && extra=", \"key-manager\": $P_BARBICAN"
  [ "$CINDER" = 1 ] && extra="$extra, \"volumev3\": $P_CINDER"
  [ "$OCTAVIA" = 1 ] && extra="$extra, \"load-balancer\": $P_OCTAVIA"
  env IP=$IP SECRET=$SECRET REGION=$REGION COMPUTES="$(ls "$ETC" | grep -c '^nova-compute-[0-9]*\.conf$')" IMAGE_FILE="${OPENSTACK_IMAGE:-}" \
    OWNER="${OPENSTACK_PROVIDER_OWNER:-nfv}" VIRT="$VIRT" PORTS="{\"identity\": $P_KEYSTONE, \"image\": $P_GLANCE, \"placement\": $P_PLACEMENT, \"compute\": $P_NOVA, \"network\": $P_NEUTRON, \"orchestration\": $P_HEAT$extra}" \
    $PY "$HERE/seed.py" "$1" || die "seeding $1 failed"
}
write_client_files() {
  local who
  { echo "clouds:"
    for who in admin nfv; do cat <<X
  $who:
    auth: {auth_url: "http://$IP:$P_KEYSTONE/v3", username: $who, password: $SECRET, project_name: $who, user_domain_id: default, project_domain_id: default}
    region_name: $REGION
    identity_api_version: 3
X
    done; } >"$HOME_DIR/clouds.yaml"
  for who in admin nfv; do cat >"$HOME_DIR/$who.openrc" <<X
export OS_AUTH_URL=http://$IP:$P_KEYSTONE/v3 OS_IDENTITY_API_VERSION=3 OS_REGION_NAME=$REGION
export OS_USERNAME=$who OS_PASSWORD=$SECRET OS_PROJECT_NAME=$who OS_USER_DOMAIN_ID=default OS_PROJECT_DOMAIN_ID=default
X
  done
}

# ---------------------------------------------------------------- main
mkdir -p "$HOME_DIR" "$RUN" "$LOG"
cd "$HOME_DIR"
exec 9>"$RUN/up.lock"; flock -n 9 || die "another up.sh is at work on $HOME_DIR"
install_packages; say "packages ready"
write_config; write_log_overlays; write_client_files
CACHE_KEY=$( { dpkg-query -W -f='${Package} ${Version}\n' python3-keystone python3-glance python3-placement python3-nova \
  python3-neutron python3-heat mariadb-server-core $([ "$CINDER" = 1 ] && echo python3-cinder); echo "$HOME_DIR $BASE $P_MQ $OCTAVIA"; } | sha256sum | cut -c1-16)
start_base 9>&-; say "MariaDB answers"
migrate 9>&-; say "tables ready"
start_keystone 9>&-; say "Keystone answers"
seed identity; say "users, services, endpoints"
wait_mq; say "RabbitMQ up"
start_services 9>&-; say "services answer"
seed resources; say "flavors, image, networks; computes up"
if [ "$HYPERVISOR" = 1 ] && [ "$VIRT" = fake ]; then start_hypervisor 9>&-; say "hypervisor.py runs"; fi
say "for clients: $HOME_DIR/clouds.yaml, clouds nfv and admin"
