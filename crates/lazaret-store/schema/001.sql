-- The journal: what happened, once and for ever. `bytes` is the entry's canonical JSON; every other column is recomputed
-- from it when the journal is verified.
CREATE TABLE journal (
    seq   INTEGER PRIMARY KEY,
    kind  TEXT NOT NULL,
    agent TEXT,
    turn  INTEGER,
    hash  BLOB NOT NULL,
    leaf  BLOB NOT NULL,
    bytes BLOB NOT NULL
) STRICT;

-- An agent's trail is read from this index alone.
CREATE INDEX journal_agent ON journal (agent, turn, kind) WHERE agent IS NOT NULL;

-- What is about no agent is rare, and its last of a kind is asked for.
CREATE INDEX journal_kind ON journal (kind) WHERE agent IS NULL;

CREATE TRIGGER journal_no_update BEFORE UPDATE ON journal
BEGIN SELECT RAISE(ABORT, 'the journal is append-only'); END;

CREATE TRIGGER journal_no_delete BEFORE DELETE ON journal
BEGIN SELECT RAISE(ABORT, 'the journal is append-only'); END;

CREATE TRIGGER journal_no_gap BEFORE INSERT ON journal
WHEN NEW.seq IS NOT (SELECT coalesce(max(seq), -1) + 1 FROM journal)
BEGIN SELECT RAISE(ABORT, 'the journal is append-only and has no gaps'); END;

-- Signed notes that were asked for, kept so that an old one can be shown to be part of the present journal.
CREATE TABLE checkpoints (
    size INTEGER PRIMARY KEY,
    note TEXT NOT NULL
) STRICT;

CREATE TRIGGER checkpoints_no_update BEFORE UPDATE ON checkpoints
BEGIN SELECT RAISE(ABORT, 'checkpoints are append-only'); END;

CREATE TRIGGER checkpoints_no_delete BEFORE DELETE ON checkpoints
BEGIN SELECT RAISE(ABORT, 'checkpoints are append-only'); END;

CREATE TRIGGER checkpoints_no_return BEFORE INSERT ON checkpoints
WHEN NEW.size <= (SELECT coalesce(max(size), -1) FROM checkpoints)
BEGIN SELECT RAISE(ABORT, 'checkpoints are append-only and grow'); END;

-- Where everything stands, in one row: the tree's right edge, the chain's end, the signed note over both, how many rows
-- the other tables must have, and the last commit of the log `lazaret.redo` that is in all of them.
CREATE TABLE head (
    id          INTEGER PRIMARY KEY CHECK (id = 0),
    size        INTEGER NOT NULL,
    peaks       BLOB NOT NULL,
    hash        BLOB NOT NULL,
    note        TEXT NOT NULL,
    agents      INTEGER NOT NULL,
    checkpoints INTEGER NOT NULL,
    messages    INTEGER NOT NULL,
    applied     INTEGER NOT NULL,
    mark        BLOB NOT NULL,
    digest      BLOB NOT NULL
) STRICT;

-- One row per agent that ever was; `row` is JSON.
CREATE TABLE agents (
    agent  TEXT PRIMARY KEY,
    row    BLOB NOT NULL,
    digest BLOB NOT NULL
) STRICT, WITHOUT ROWID;

-- Pages, nodes, images, components: whatever is named by its digest.
CREATE TABLE blobs (
    id     INTEGER PRIMARY KEY,
    digest BLOB NOT NULL UNIQUE,
    size   INTEGER NOT NULL,
    packed INTEGER NOT NULL,
    bytes  BLOB NOT NULL
) STRICT;

-- Each row names the key that follows it, so that "there is no such key" is as well founded as a value. A key is a 1
-- byte and the key's own bytes; the row before an agent's first key is a single 0 byte.
CREATE TABLE storage (
    agent   TEXT NOT NULL REFERENCES agents (agent),
    key     BLOB NOT NULL,
    next    BLOB,
    version INTEGER NOT NULL,
    size    INTEGER NOT NULL,
    content BLOB NOT NULL,
    digest  BLOB NOT NULL,
    value   BLOB NOT NULL,
    PRIMARY KEY (agent, key)
) STRICT, WITHOUT ROWID;

-- Messages that wait for their agent, oldest first.
CREATE TABLE mailbox (
    agent   TEXT NOT NULL REFERENCES agents (agent),
    id      INTEGER NOT NULL,
    message BLOB NOT NULL,
    digest  BLOB NOT NULL,
    PRIMARY KEY (agent, id)
) STRICT, WITHOUT ROWID;
