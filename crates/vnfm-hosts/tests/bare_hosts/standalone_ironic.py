"""Ironic, standalone: API and conductor in one process, with SQLite. `standalone_ironic.py FOLDER PORT RPC_PORT AUTH`.

AUTH is `noauth` or `http_basic`; FOLDER has the file `users` with the logins for the API, as htpasswd writes it.
"""
import os
import pathlib
import sys

from ironic.cmd import dbsync, singleprocess

folder, port, rpc_port, auth = pathlib.Path(sys.argv[1]), *sys.argv[2:]
config = folder / "ironic.conf"
config.write_text(f"""[DEFAULT]
auth_strategy = {auth}
http_basic_auth_user_file = {folder}/users
rpc_transport = json-rpc
host = standalone
my_ip = 127.0.0.1
state_path = {folder}
tempdir = {folder}
enabled_hardware_types = ipmi
enabled_power_interfaces = ipmitool
enabled_management_interfaces = noop
enabled_boot_interfaces = pxe
enabled_deploy_interfaces = direct
enabled_bios_interfaces = no-bios
enabled_inspect_interfaces = no-inspect
enabled_raid_interfaces = no-raid
enabled_vendor_interfaces = no-vendor
enabled_console_interfaces = no-console
enabled_rescue_interfaces = no-rescue
enabled_network_interfaces = noop
enabled_storage_interfaces = noop
default_network_interface = noop
[api]
host_ip = 127.0.0.1
port = {port}
api_workers = 1
[json_rpc]
auth_strategy = noauth
host_ip = 127.0.0.1
port = {rpc_port}
[database]
connection = sqlite:///{folder}/ironic.sqlite
[conductor]
automated_clean = false
sync_power_state_interval = 2
power_state_change_timeout = 30
[ipmi]
min_command_interval = 1
command_retry_timeout = 5
[dhcp]
dhcp_provider = none
[pxe]
tftp_root = {folder}/tftp
images_path = {folder}/images
instance_master_path =
tftp_master_path =
[deploy]
http_root = {folder}/http
[oslo_concurrency]
lock_path = {folder}/lock
""")
arguments = ["--config-file", str(config)]
child = os.fork()  # the configuration of a process is read once
if child == 0:
    sys.argv = ["dbsync", *arguments, "create_schema"]
    dbsync.main()
    os._exit(0)
if os.waitpid(child, 0)[1] != 0:
    sys.exit("no tables")
sys.argv = ["ironic", *arguments]
singleprocess.main()
