-- Retained volumes: storage on a VIM that outlives the instance it was made for. `used_by` is the one instance that uses it.
CREATE TABLE volumes (
    tenant  TEXT NOT NULL,
    id      TEXT NOT NULL,
    vim_id  TEXT NOT NULL,
    state   TEXT NOT NULL,
    used_by TEXT,
    info    TEXT NOT NULL,
    PRIMARY KEY (tenant, id)
);
CREATE INDEX volumes_by_vim ON volumes (vim_id);
CREATE INDEX volumes_by_user ON volumes (used_by);
