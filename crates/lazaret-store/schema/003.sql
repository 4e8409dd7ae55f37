-- The same rules as before, but what they refuse takes back the whole transaction and not only the statement. To be able to
-- take back a statement alone, SQLite copies every page that it writes to, beforehand; it also does if a row comes with its
-- number, so entries are given theirs by SQLite and looked at afterwards.
DROP TRIGGER journal_no_update;
DROP TRIGGER journal_no_delete;
DROP TRIGGER journal_no_gap;
DROP TRIGGER checkpoints_no_update;
DROP TRIGGER checkpoints_no_delete;
DROP TRIGGER checkpoints_no_return;

CREATE TRIGGER journal_no_update BEFORE UPDATE ON journal
BEGIN SELECT RAISE(ROLLBACK, 'the journal is append-only'); END;

CREATE TRIGGER journal_no_delete BEFORE DELETE ON journal
BEGIN SELECT RAISE(ROLLBACK, 'the journal is append-only'); END;

CREATE TRIGGER journal_no_return BEFORE INSERT ON journal
WHEN EXISTS (SELECT 1 FROM journal WHERE seq = NEW.seq)
BEGIN SELECT RAISE(ROLLBACK, 'the journal is append-only and has no gaps'); END;

CREATE TRIGGER journal_no_gap AFTER INSERT ON journal
WHEN NEW.seq IS NOT (SELECT max(seq) FROM journal)
    OR NEW.seq IS NOT coalesce((SELECT max(seq) FROM journal WHERE seq < NEW.seq), -1) + 1
BEGIN SELECT RAISE(ROLLBACK, 'the journal is append-only and has no gaps'); END;

CREATE TRIGGER checkpoints_no_update BEFORE UPDATE ON checkpoints
BEGIN SELECT RAISE(ROLLBACK, 'checkpoints are append-only'); END;

CREATE TRIGGER checkpoints_no_delete BEFORE DELETE ON checkpoints
BEGIN SELECT RAISE(ROLLBACK, 'checkpoints are append-only'); END;

CREATE TRIGGER checkpoints_no_return BEFORE INSERT ON checkpoints
WHEN NEW.size <= (SELECT coalesce(max(size), -1) FROM checkpoints)
BEGIN SELECT RAISE(ROLLBACK, 'checkpoints are append-only and grow'); END;
