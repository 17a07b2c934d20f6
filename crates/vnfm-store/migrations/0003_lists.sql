-- What lists are most often asked by.
CREATE INDEX instances_by_name ON instances (tenant, name, id);
CREATE INDEX instances_by_vnfd ON instances (tenant, vnfd_id, id);
CREATE INDEX instances_by_state ON instances (tenant, state, id);
CREATE INDEX ops_by_state ON ops (tenant, state, id);
CREATE INDEX ops_by_start ON ops (tenant, rtrim(started_at, 'Z'), id);
