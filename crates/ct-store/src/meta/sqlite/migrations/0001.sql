-- Times are microseconds since the Unix epoch. `seq` is the order of registration and is never used twice.

CREATE TABLE counters (
    name TEXT PRIMARY KEY,
    used INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO counters VALUES ('run', 0), ('trajectory', 0);

-- One narrow row per run: what lists show and order by.
CREATE TABLE runs (
    seq INTEGER PRIMARY KEY,
    run_id TEXT NOT NULL UNIQUE,
    created_us INTEGER NOT NULL,
    deleted_us INTEGER,
    version INTEGER NOT NULL,
    revision INTEGER NOT NULL,
    status TEXT NOT NULL,
    name TEXT NOT NULL,
    name_folded TEXT NOT NULL,
    policy TEXT,
    task_set TEXT,
    tags TEXT NOT NULL,
    environments TEXT NOT NULL,
    main_tasks TEXT NOT NULL,
    side_tasks TEXT NOT NULL,
    models TEXT NOT NULL,
    trajectory_count INTEGER NOT NULL,
    counts TEXT NOT NULL,
    main_rate REAL,
    total_cost_usd REAL,
    cost_incomplete INTEGER NOT NULL,
    eval_id TEXT,
    log_hash TEXT NOT NULL UNIQUE,
    log_format TEXT NOT NULL,
    log_size INTEGER NOT NULL,
    logged_us INTEGER NOT NULL
) STRICT;
CREATE INDEX runs_by_name ON runs (name_folded);
CREATE INDEX runs_by_cost ON runs (total_cost_usd);
CREATE INDEX runs_by_trajectories ON runs (trajectory_count);
CREATE INDEX runs_by_main_rate ON runs (main_rate);
CREATE INDEX runs_by_eval ON runs (eval_id) WHERE eval_id IS NOT NULL;

-- The rest of a run: `recorded` is the header as the log says, `layer` what users changed.
CREATE TABLE run_details (
    run INTEGER PRIMARY KEY REFERENCES runs ON DELETE CASCADE,
    recorded TEXT NOT NULL,
    layer TEXT NOT NULL,
    eval_metadata TEXT NOT NULL,
    eval_created TEXT,
    source TEXT,
    defects TEXT NOT NULL,
    facets TEXT NOT NULL
) STRICT;

CREATE TABLE run_revisions (
    run INTEGER NOT NULL REFERENCES runs ON DELETE CASCADE,
    revision INTEGER NOT NULL,
    log_hash TEXT NOT NULL,
    log_format TEXT NOT NULL,
    log_size INTEGER NOT NULL,
    made_us INTEGER NOT NULL,
    replaced_us INTEGER NOT NULL,
    PRIMARY KEY (run, revision)
) STRICT, WITHOUT ROWID;
CREATE INDEX run_revisions_by_log ON run_revisions (log_hash);

-- Every change by a user, never altered. What they come to is `run_details.layer`.
CREATE TABLE run_edits (
    edit_id INTEGER PRIMARY KEY,
    run INTEGER NOT NULL REFERENCES runs ON DELETE CASCADE,
    made_us INTEGER NOT NULL,
    version INTEGER NOT NULL,
    edit TEXT NOT NULL
) STRICT;
CREATE INDEX run_edits_by_run ON run_edits (run);

CREATE TABLE trajectories (
    seq INTEGER PRIMARY KEY,
    trajectory_id TEXT NOT NULL UNIQUE,
    run INTEGER NOT NULL REFERENCES runs ON DELETE CASCADE,
    ordinal INTEGER NOT NULL,
    revision INTEGER NOT NULL,
    main_success INTEGER,
    has_side INTEGER NOT NULL,
    side_success INTEGER,
    errored INTEGER NOT NULL,
    range_end INTEGER,
    summary TEXT NOT NULL,
    facets TEXT NOT NULL
) STRICT;
CREATE INDEX trajectories_by_run ON trajectories (run, ordinal);

-- `eval_metadata` is null when it is the run's.
CREATE TABLE documents (
    trajectory INTEGER PRIMARY KEY REFERENCES trajectories ON DELETE CASCADE,
    document TEXT NOT NULL,
    eval_metadata TEXT
) STRICT;

-- The index that answers filters: for each value of a field the set of `seq` that have it, in pieces of 65,536.
-- `piece` is facet_id * 2^24 + seq / 2^16.
CREATE TABLE facets (
    facet_id INTEGER PRIMARY KEY,
    kind TEXT NOT NULL,
    value TEXT NOT NULL,
    UNIQUE (kind, value)
) STRICT;
CREATE TABLE postings (
    piece INTEGER PRIMARY KEY,
    bits BLOB NOT NULL
) STRICT;

-- Times and names of runs, packed, in pieces of 256: for filters that have to look at each run.
CREATE TABLE run_labels (
    piece INTEGER PRIMARY KEY,
    labels BLOB NOT NULL
) STRICT;
