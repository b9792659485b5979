-- Servers: who did what, accounts, uploads, datasets, comments. Times are microseconds since the Unix epoch.

ALTER TABLE runs ADD COLUMN created_by TEXT;
-- The dataset label as it is shown; the filter index has it too.
ALTER TABLE runs ADD COLUMN dataset TEXT;
UPDATE runs SET dataset = (
    SELECT CASE WHEN json_type(layer, '$.dataset') IS NULL THEN json_extract(recorded, '$.dataset')
        ELSE json_extract(layer, '$.dataset') END
    FROM run_details WHERE run = seq
);
-- The header as it was registered, when a client registered it; answers whether the same comes again.
ALTER TABLE run_details ADD COLUMN registered TEXT;

-- Every write, added in its transaction. Never altered.
CREATE TABLE audit (
    audit_id INTEGER PRIMARY KEY,
    made_us INTEGER NOT NULL,
    actor TEXT,
    token_id TEXT,
    origin TEXT NOT NULL,
    action TEXT NOT NULL,
    subject TEXT NOT NULL,
    detail TEXT
) STRICT;
CREATE INDEX audit_by_subject ON audit (subject);
CREATE INDEX audit_by_actor ON audit (actor);
CREATE INDEX audit_of_failures ON audit (audit_id, made_us) WHERE action = 'auth.sign_in_failed';
CREATE TRIGGER audit_is_not_altered BEFORE UPDATE ON audit BEGIN SELECT raise(ABORT, 'the audit log is not altered'); END;
CREATE TRIGGER audit_is_not_removed BEFORE DELETE ON audit BEGIN SELECT raise(ABORT, 'the audit log is not altered'); END;

CREATE TABLE users (
    user_id INTEGER PRIMARY KEY,
    username TEXT NOT NULL,
    username_folded TEXT NOT NULL UNIQUE,
    password_hash TEXT NOT NULL,
    scope TEXT NOT NULL,
    created_us INTEGER NOT NULL,
    disabled_us INTEGER
) STRICT;

-- Of a token its SHA-256 is kept, never the token.
CREATE TABLE tokens (
    token_id TEXT PRIMARY KEY,
    user INTEGER NOT NULL REFERENCES users,
    hash TEXT NOT NULL UNIQUE,
    label TEXT NOT NULL,
    scope TEXT NOT NULL,
    created_us INTEGER NOT NULL,
    expires_us INTEGER,
    last_used_us INTEGER,
    revoked_us INTEGER
) STRICT, WITHOUT ROWID;
CREATE INDEX tokens_by_user ON tokens (user);

-- What a server needs to know again after a restart, such as the key it signs addresses with.
CREATE TABLE secrets (
    name TEXT PRIMARY KEY,
    value BLOB NOT NULL
) STRICT, WITHOUT ROWID;

-- Logs that were uploaded, by the key that clients chose. Without a run of that log they are collected after a while.
CREATE TABLE objects (
    object_key TEXT PRIMARY KEY,
    log_hash TEXT NOT NULL,
    log_format TEXT NOT NULL,
    log_size INTEGER NOT NULL,
    md5 TEXT,
    created_us INTEGER NOT NULL,
    created_by TEXT
) STRICT, WITHOUT ROWID;
CREATE INDEX objects_by_log ON objects (log_hash);

-- Uploads in parts. Their bytes are in `uploads/<upload_id>` of the data folder; `log_hash` is that of the log that one
-- became.
CREATE TABLE uploads (
    upload_id TEXT PRIMARY KEY,
    object_key TEXT NOT NULL,
    size_bytes INTEGER NOT NULL,
    created_us INTEGER NOT NULL,
    touched_us INTEGER NOT NULL,
    created_by TEXT,
    log_hash TEXT
) STRICT, WITHOUT ROWID;
CREATE INDEX uploads_by_key ON uploads (object_key);
CREATE TABLE upload_parts (
    upload_id TEXT NOT NULL REFERENCES uploads ON DELETE CASCADE,
    start INTEGER NOT NULL,
    size_bytes INTEGER NOT NULL,
    crc32 INTEGER NOT NULL,
    PRIMARY KEY (upload_id, start)
) STRICT, WITHOUT ROWID;

-- Documents that were registered and whose run's header is not there yet. `entry` is what lists and sums need of one,
-- `position` the place of its sample in the log.
CREATE TABLE pending_documents (
    pending_id INTEGER PRIMARY KEY,
    run_id TEXT NOT NULL,
    trajectory_id TEXT NOT NULL UNIQUE,
    position INTEGER NOT NULL,
    made_us INTEGER NOT NULL,
    created_by TEXT,
    entry TEXT NOT NULL,
    document TEXT NOT NULL
) STRICT;
CREATE INDEX pending_documents_by_run ON pending_documents (run_id, position);

CREATE TABLE datasets (
    dataset INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    kind TEXT NOT NULL,
    latest INTEGER NOT NULL,
    locked_us INTEGER,
    locked_by TEXT,
    lock_reason TEXT
) STRICT;
-- A whole version has its `items`, a JSON array of ids in order. Another one has what was `removed` from the version
-- before it and `added` at its end, and `base` is the last whole version before it.
CREATE TABLE dataset_versions (
    version_id INTEGER PRIMARY KEY,
    dataset INTEGER NOT NULL REFERENCES datasets,
    version INTEGER NOT NULL,
    base INTEGER NOT NULL,
    created_us INTEGER NOT NULL,
    created_by TEXT,
    item_count INTEGER NOT NULL,
    description TEXT,
    removed TEXT,
    added TEXT,
    items TEXT,
    UNIQUE (dataset, version)
) STRICT;
CREATE TRIGGER dataset_versions_are_not_altered BEFORE UPDATE ON dataset_versions
    BEGIN SELECT raise(ABORT, 'a version of a dataset never changes'); END;
CREATE TRIGGER dataset_versions_are_not_removed BEFORE DELETE ON dataset_versions
    BEGIN SELECT raise(ABORT, 'a version of a dataset never changes'); END;
-- The filter index has the trajectories of whole versions. This has those of them that are not there, so that they are
-- found again when they come back.
CREATE TABLE dataset_absent (
    trajectory_id TEXT NOT NULL,
    version_id INTEGER NOT NULL REFERENCES dataset_versions,
    PRIMARY KEY (trajectory_id, version_id)
) STRICT, WITHOUT ROWID;

-- Comments on trajectories, and on single actions of them (`action` counts from 0). They survive a new upload.
CREATE TABLE trajectory_comments (
    comment_id TEXT PRIMARY KEY,
    trajectory_id TEXT NOT NULL,
    action INTEGER,
    text TEXT NOT NULL,
    created_us INTEGER NOT NULL,
    created_by TEXT,
    edited_us INTEGER,
    deleted_us INTEGER
) STRICT, WITHOUT ROWID;
CREATE INDEX trajectory_comments_by_trajectory ON trajectory_comments (trajectory_id, created_us);
