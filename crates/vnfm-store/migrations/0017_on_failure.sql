-- What happens when a step of an instance's operations fails, and the failures of a step that is repeated.
ALTER TABLE instances ADD COLUMN on_failure TEXT;
ALTER TABLE journal ADD COLUMN retry TEXT;
