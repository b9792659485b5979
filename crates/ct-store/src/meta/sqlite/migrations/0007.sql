-- Packed pieces say when they were changed last, so that who keeps some in memory reads what is new alone. `changed` is a
-- number of the counter `packed`, which goes up with each piece that is written. A piece of which nothing is left is empty
-- and stays.
INSERT OR IGNORE INTO counters VALUES ('packed', 0);

-- Instead of `trajectory_keys`.
CREATE TABLE packed_keys (
    piece INTEGER PRIMARY KEY,
    changed INTEGER NOT NULL,
    keys BLOB NOT NULL
) STRICT;
INSERT INTO packed_keys SELECT piece, 0, keys FROM trajectory_keys;
DROP TABLE trajectory_keys;
CREATE INDEX packed_keys_by_change ON packed_keys (changed);

CREATE TABLE run_labels_7 (
    piece INTEGER PRIMARY KEY,
    changed INTEGER NOT NULL,
    labels BLOB NOT NULL
) STRICT;
INSERT INTO run_labels_7 SELECT piece, 0, labels FROM run_labels;
DROP TABLE run_labels;
ALTER TABLE run_labels_7 RENAME TO run_labels;
CREATE INDEX run_labels_by_change ON run_labels (changed);
