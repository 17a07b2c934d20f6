-- What every row of the store is, in its first shape. The standard's JSON lies beside the columns that are
-- queried; a column that holds secrets holds a sealed text.

CREATE TABLE meta (
    key   TEXT PRIMARY KEY,
    value TEXT NOT NULL
);

-- Numbers that rise and are never given twice.
CREATE TABLE counters (
    name  TEXT PRIMARY KEY,
    value BIGINT NOT NULL
);
INSERT INTO counters (name, value) VALUES ('outbox', 0);

CREATE TABLE packages (
    id      TEXT PRIMARY KEY,
    tenant  TEXT NOT NULL,
    vnfd_id TEXT,
    info    TEXT NOT NULL,
    UNIQUE (tenant, vnfd_id)
);
CREATE INDEX packages_by_tenant ON packages (tenant, id);

CREATE TABLE instances (
    id         TEXT PRIMARY KEY,
    tenant     TEXT NOT NULL,
    version    BIGINT NOT NULL,
    vnf_pkg_id TEXT NOT NULL REFERENCES packages (id),
    name       TEXT,
    vnfd_id    TEXT NOT NULL,
    state      TEXT NOT NULL,
    active_op  TEXT,
    vnf        TEXT NOT NULL,
    request    TEXT,            -- sealed
    handle     TEXT NOT NULL,
    created_at TEXT
);
CREATE INDEX instances_by_tenant ON instances (tenant, id);
CREATE INDEX instances_by_package ON instances (vnf_pkg_id);

CREATE TABLE ops (
    id                 TEXT PRIMARY KEY,
    tenant             TEXT NOT NULL,
    instance_id        TEXT NOT NULL,
    operation          TEXT NOT NULL,
    state              TEXT NOT NULL,
    driven             BIGINT NOT NULL,
    ended              BIGINT NOT NULL,
    op                 TEXT NOT NULL,
    request            TEXT,    -- sealed
    point_of_no_return TEXT,
    cancel             TEXT,
    owner              TEXT,
    epoch              BIGINT NOT NULL,
    lease_until        BIGINT NOT NULL,
    started_at         TEXT NOT NULL
);
-- One active operation per instance.
CREATE UNIQUE INDEX one_active_op ON ops (instance_id) WHERE ended = 0;
CREATE INDEX ops_by_tenant ON ops (tenant, id);
CREATE INDEX ops_by_instance ON ops (tenant, instance_id, id);
CREATE INDEX ops_to_drive ON ops (started_at, id) WHERE driven = 1;

CREATE TABLE journal (
    op_id      TEXT NOT NULL REFERENCES ops (id) ON DELETE CASCADE,
    step       TEXT NOT NULL,
    seq        BIGINT NOT NULL,
    status     TEXT NOT NULL,
    attempt    BIGINT NOT NULL,
    output     TEXT,            -- sealed
    started_at TEXT NOT NULL,
    ended_at   TEXT,
    PRIMARY KEY (op_id, step)
);

CREATE TABLE checkpoints (
    op_id TEXT NOT NULL REFERENCES ops (id) ON DELETE CASCADE,
    step  TEXT NOT NULL,
    key   TEXT NOT NULL,
    value TEXT,                 -- sealed
    PRIMARY KEY (op_id, step, key)
);

CREATE TABLE log (
    op_id  TEXT NOT NULL REFERENCES ops (id) ON DELETE CASCADE,
    seq    BIGINT NOT NULL,
    at     TEXT NOT NULL,
    level  TEXT NOT NULL,
    source TEXT NOT NULL,
    text   TEXT NOT NULL,
    PRIMARY KEY (op_id, seq)
);

CREATE TABLE vims (
    tenant        TEXT NOT NULL,
    id            TEXT NOT NULL,
    version       BIGINT NOT NULL,
    name          TEXT NOT NULL,
    registered_by TEXT,
    identity      TEXT,
    vim           TEXT NOT NULL,
    access_info   TEXT,         -- sealed
    PRIMARY KEY (tenant, id),
    UNIQUE (tenant, name)
);
CREATE INDEX vims_by_instance ON vims (registered_by);
CREATE INDEX vims_by_identity ON vims (identity);

-- Which instance lives on which VIM; an empty text where that is not known.
CREATE TABLE uses (
    instance_id TEXT NOT NULL,
    tenant      TEXT NOT NULL,
    vim_id      TEXT NOT NULL,
    identity    TEXT NOT NULL,
    PRIMARY KEY (instance_id, vim_id, identity)
);
CREATE INDEX uses_by_vim ON uses (tenant, vim_id);
CREATE INDEX uses_by_identity ON uses (identity);

-- Which VIMs an operation is taking away.
CREATE TABLE retiring (
    op_id    TEXT NOT NULL,
    tenant   TEXT NOT NULL,
    vim_id   TEXT NOT NULL,
    identity TEXT NOT NULL,
    PRIMARY KEY (op_id, tenant, vim_id)
);

CREATE TABLE outbox (
    seq         BIGINT PRIMARY KEY,
    tenant      TEXT NOT NULL,
    instance_id TEXT NOT NULL,
    kind        TEXT NOT NULL,
    body        TEXT NOT NULL,
    at          TEXT NOT NULL
);

CREATE TABLE host_keys (
    server_id   TEXT PRIMARY KEY,
    instance_id TEXT NOT NULL,
    key         TEXT NOT NULL
);
CREATE INDEX host_keys_by_instance ON host_keys (instance_id);
