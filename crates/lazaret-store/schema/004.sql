-- Blobs are found by the beginning of their names. Those are random, so a transaction of many turns writes all of this index
-- anew, and whole names made it more than twice as large. That no blob is there twice is looked at before it is laid down.
CREATE TABLE blobs_by_beginning (
    id     INTEGER PRIMARY KEY,
    digest BLOB NOT NULL,
    size   INTEGER NOT NULL,
    packed INTEGER NOT NULL,
    bytes  BLOB NOT NULL
) STRICT;

INSERT INTO blobs_by_beginning SELECT id, digest, size, packed, bytes FROM blobs ORDER BY id;

DROP TABLE blobs;

ALTER TABLE blobs_by_beginning RENAME TO blobs;

CREATE INDEX blobs_beginning ON blobs (substr(digest, 1, 8));
