-- VIMs that were in use before addresses were checked keep theirs: those of the registry by their id, connections that came
-- with a request with an empty one.
CREATE TABLE kept_addresses (
    tenant   TEXT NOT NULL,
    vim_id   TEXT NOT NULL,
    endpoint TEXT NOT NULL,
    proxy    TEXT NOT NULL,
    PRIMARY KEY (tenant, vim_id, endpoint, proxy)
);
-- Requests are sealed, so whoever opens the database for the first time reads them and takes this row away.
INSERT INTO meta (key, value) VALUES ('addresses', 'to be kept');
