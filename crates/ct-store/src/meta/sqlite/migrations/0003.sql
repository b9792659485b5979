-- Logs in a bucket. What the bucket said of the object of a log when it was verified last.
CREATE TABLE log_tags (
    log_hash TEXT NOT NULL,
    log_format TEXT NOT NULL,
    e_tag TEXT,
    version_id TEXT,
    PRIMARY KEY (log_hash, log_format)
) STRICT, WITHOUT ROWID;

-- Uploads whose parts go to the bucket: what the bucket calls them.
CREATE TABLE upload_objects (
    upload_id TEXT PRIMARY KEY,
    bucket_upload_id TEXT NOT NULL
) STRICT, WITHOUT ROWID;
