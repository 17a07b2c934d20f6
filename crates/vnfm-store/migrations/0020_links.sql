-- Shared virtual links: networks on a VIM that outlive the instances on them. `link_uses` has the instances of each.
CREATE TABLE links (
    tenant  TEXT NOT NULL,
    id      TEXT NOT NULL,
    version BIGINT NOT NULL,
    name    TEXT NOT NULL,
    vim_id  TEXT NOT NULL,
    state   TEXT NOT NULL,
    info    TEXT NOT NULL,
    PRIMARY KEY (tenant, id),
    UNIQUE (tenant, name)
);
CREATE INDEX links_by_vim ON links (vim_id);
CREATE TABLE link_uses (
    instance_id TEXT NOT NULL,
    link_id     TEXT NOT NULL,
    tenant      TEXT NOT NULL,
    PRIMARY KEY (instance_id, link_id)
);
CREATE INDEX link_uses_by_link ON link_uses (tenant, link_id);
