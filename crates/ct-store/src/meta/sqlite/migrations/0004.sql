-- Uploads of logs whose name is told when they are all there: `unnamed` is what their client calls them until then, and
-- `object_key` is null.
CREATE TABLE uploads_4 (
    upload_id TEXT PRIMARY KEY,
    object_key TEXT,
    unnamed TEXT,
    size_bytes INTEGER NOT NULL,
    created_us INTEGER NOT NULL,
    touched_us INTEGER NOT NULL,
    created_by TEXT,
    log_hash TEXT
) STRICT, WITHOUT ROWID;
CREATE TABLE upload_parts_4 (
    upload_id TEXT NOT NULL REFERENCES uploads_4 ON DELETE CASCADE,
    start INTEGER NOT NULL,
    size_bytes INTEGER NOT NULL,
    crc32 INTEGER NOT NULL,
    PRIMARY KEY (upload_id, start)
) STRICT, WITHOUT ROWID;
INSERT INTO uploads_4 SELECT upload_id, object_key, NULL, size_bytes, created_us, touched_us, created_by, log_hash FROM uploads;
INSERT INTO upload_parts_4 SELECT upload_id, start, size_bytes, crc32 FROM upload_parts;
DROP TABLE upload_parts;
DROP TABLE uploads;
ALTER TABLE uploads_4 RENAME TO uploads;
ALTER TABLE upload_parts_4 RENAME TO upload_parts;
CREATE INDEX uploads_by_key ON uploads (object_key, unnamed);

-- Whether a log of some length is there, before its hash is known.
CREATE INDEX runs_by_log_size ON runs (log_size);
CREATE INDEX objects_by_log_size ON objects (log_size);
