//! What a write changes, as a unified diff.

use similar::{Algorithm, DiffTag, capture_diff_slices, group_diff_ops};

use super::{Shown, layout};

/// Unchanged lines around a change.
const AROUND: usize = 3;

/// Lines of the old and the new text together that are compared: the work grows with their product.
pub const MAX_DIFF_LINES: usize = 4_000;

/// The difference between two texts. Unchanged lines far from a change are left out, and the `@@` lines say which.
pub fn diff(old: &str, new: &str) -> Shown {
    let (old, new): (Vec<&str>, Vec<&str>) = (old.split('\n').collect(), new.split('\n').collect());
    if old.len() + new.len() > MAX_DIFF_LINES {
        let line = format!("the change is not shown: {} lines before, {} after", old.len(), new.len());
        return Shown { lines: vec![line], hidden: true };
    }
    if old == new {
        return Shown { lines: vec!["nothing changes".to_owned()], hidden: false };
    }
    let mut lines = vec!["--- before".to_owned(), "+++ after".to_owned()];
    for hunk in group_diff_ops(capture_diff_slices(Algorithm::Myers, &old, &new), AROUND) {
        let (Some(first), Some(last)) = (hunk.first(), hunk.last()) else { continue };
        let (was, is) = (first.old_range().start..last.old_range().end, first.new_range().start..last.new_range().end);
        lines.push(format!("@@ -{},{} +{},{} @@", was.start + 1, was.len(), is.start + 1, is.len()));
        for op in hunk {
            let (tag, was, is) = op.as_tag_tuple();
            if tag != DiffTag::Insert {
                let sign = if tag == DiffTag::Equal { " " } else { "-" };
                old[was].iter().for_each(|line| layout::marked(&mut lines, sign, line));
            }
            if matches!(tag, DiffTag::Insert | DiffTag::Replace) {
                new[is].iter().for_each(|line| layout::marked(&mut lines, "+", line));
            }
        }
    }
    Shown { lines, hidden: false }
}
