-- A pin is of one tenant and one VIM. Those that are there know neither, or the tenant alone: an empty text stands for
-- what is not known, and such a pin holds for every host of that name until the host is pinned anew.
CREATE TABLE pinned_hosts (
    tenant      TEXT NOT NULL,
    vim_id      TEXT NOT NULL,
    host        TEXT NOT NULL,
    instance_id TEXT NOT NULL,
    key         TEXT NOT NULL,
    PRIMARY KEY (tenant, vim_id, host)
);
CREATE INDEX pinned_hosts_by_instance ON pinned_hosts (instance_id);
CREATE INDEX pinned_hosts_by_vim ON pinned_hosts (vim_id);

INSERT INTO pinned_hosts (tenant, vim_id, host, instance_id, key)
SELECT COALESCE((SELECT tenant FROM instances WHERE id = host_keys.instance_id), ''), '', server_id, instance_id, key
FROM host_keys;

DROP TABLE host_keys;
