-- Where the instance of an operation lived while it ran. Whoever does not see that VIM or namespace does not see the
-- operation either, although the instance may live nowhere any more.
CREATE TABLE lived (
    op_id     TEXT NOT NULL REFERENCES ops (id) ON DELETE CASCADE,
    vim_id    TEXT NOT NULL,
    namespace TEXT NOT NULL,
    PRIMARY KEY (op_id, vim_id, namespace)
);
