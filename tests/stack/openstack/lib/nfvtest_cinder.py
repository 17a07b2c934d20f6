"""A Cinder backend whose volumes and snapshots are small files, without a data path to servers.

`volume-ID` and `snapshot-ID` lie in `volumes/` of Cinder's state folder: what a volume contains can be written and
read by tests. Everything else (API, scheduler, manager, states, quotas, attachments) is Cinder's own.
"""
import os
import shutil

from cinder.common import constants
from cinder.volume import configuration, driver
from oslo_config import cfg

FOLDER = cfg.StrOpt("nfvtest_folder", help="Folder of the volumes")
cfg.CONF.register_opt(FOLDER, group=configuration.SHARED_CONF_GROUP)
CAPACITY_GB = 10000


class FileDriver(driver.VolumeDriver):
    """One file for each volume and snapshot."""

    VERSION = "1.0"

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.configuration.append_config_values([FOLDER])

    def _file(self, kind, one_id):
        return os.path.join(self.configuration.nfvtest_folder, "%s-%s" % (kind, one_id))

    def _write(self, volume, content):
        with open(self._file("volume", volume.id), "w") as file:
            file.write(content)

    def _delete(self, kind, one_id):
        if os.path.exists(self._file(kind, one_id)):
            os.unlink(self._file(kind, one_id))

    def check_for_setup_error(self):
        os.makedirs(self.configuration.nfvtest_folder, exist_ok=True)

    def _update_volume_stats(self):
        self._stats = {"volume_backend_name": self.configuration.safe_get("volume_backend_name"),
                       "vendor_name": "nfvtest", "driver_version": self.VERSION,
                       "storage_protocol": constants.ISCSI, "total_capacity_gb": CAPACITY_GB,
                       "free_capacity_gb": CAPACITY_GB, "reserved_percentage": 0}

    def create_volume(self, volume):
        self._write(volume, "")

    def delete_volume(self, volume):
        self._delete("volume", volume.id)

    def extend_volume(self, volume, new_size):
        pass

    def create_cloned_volume(self, volume, src_vref):
        shutil.copy(self._file("volume", src_vref.id), self._file("volume", volume.id))

    def clone_image(self, context, volume, image_location, image_meta, image_service):
        self._write(volume, "image %s" % image_meta["id"])
        return {}, True

    def create_snapshot(self, snapshot):
        shutil.copy(self._file("volume", snapshot.volume_id), self._file("snapshot", snapshot.id))

    def delete_snapshot(self, snapshot):
        self._delete("snapshot", snapshot.id)

    def create_volume_from_snapshot(self, volume, snapshot):
        shutil.copy(self._file("snapshot", snapshot.id), self._file("volume", volume.id))

    def revert_to_snapshot(self, context, volume, snapshot):
        shutil.copy(self._file("snapshot", snapshot.id), self._file("volume", volume.id))

    def ensure_export(self, context, volume):
        pass

    def create_export(self, context, volume, connector):
        pass

    def remove_export(self, context, volume):
        pass

    def initialize_connection(self, volume, connector, **kwargs):
        return {"driver_volume_type": "fake", "data": {"access_mode": "rw"}}

    def terminate_connection(self, volume, connector, **kwargs):
        pass
