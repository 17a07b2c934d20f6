-- VNF snapshots. `deployment` is that of the instance at that time, sealed; `used_by` the operation that works with the
-- snapshot, which counts until that has ended.
CREATE TABLE snapshots (
    tenant     TEXT NOT NULL,
    id         TEXT NOT NULL,
    version    BIGINT NOT NULL,
    info       TEXT NOT NULL,
    deployment TEXT,
    handle     TEXT NOT NULL,
    vim_id     TEXT NOT NULL,
    used_by    TEXT,
    deleting   INTEGER NOT NULL,
    sight      TEXT,
    changed_ms BIGINT NOT NULL,
    PRIMARY KEY (tenant, id)
);
CREATE INDEX snapshots_by_vim ON snapshots (vim_id) WHERE vim_id <> '';
