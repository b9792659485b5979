-- Numbers of trajectories, packed: what lists are ordered by, and which run each belongs to. A key is 32 bits, little
-- endian, in the order of the numbers; 0 is that of nothing. `piece` is column * 2^40 + seq / 1000.
CREATE TABLE trajectory_keys (
    piece INTEGER PRIMARY KEY,
    keys BLOB NOT NULL
) STRICT;
