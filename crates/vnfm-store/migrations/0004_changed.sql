-- When an instance was last written, or became busy or free, in milliseconds since 1970.
ALTER TABLE instances ADD COLUMN changed_ms BIGINT;
