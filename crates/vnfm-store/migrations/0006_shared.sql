-- Whether every tenant may use a VIM.
ALTER TABLE vims ADD COLUMN shared BIGINT NOT NULL DEFAULT 0;
CREATE INDEX vims_shared ON vims (id) WHERE shared = 1;
