//! Which places of the redo log are taken: those of frames whose commits may be nowhere else.

use std::collections::{BTreeMap, VecDeque};

use crate::limits::{LOG_LAP, LOG_RING};

/// Places in a file that is written over and over.
#[derive(Default)]
pub(crate) struct Ring {
    /// Where the next frame goes if it fits.
    at: u64,
    /// Numbers and starts, oldest first.
    live: VecDeque<(u64, u64)>,
    /// Ends and numbers, by start. No two have a byte in common.
    taken: BTreeMap<u64, (u64, u64)>,
    bytes: u64,
}

impl Ring {
    /// Bytes of all frames that are needed.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Where a frame of this length goes. `Err` names the commit that must be safe first.
    ///
    /// That is behind the last one, until the ring is longer than it need be: then at the beginning, if that is free. What
    /// is in the way there is passed over.
    pub(crate) fn place(&self, len: u64) -> Result<u64, u64> {
        let behind_all = self.taken.last_key_value().map_or(0, |(_, (end, _))| *end);
        let starts = if self.at >= LOG_LAP { [0, self.at, behind_all] } else { [self.at, behind_all, 0] };
        // One that is larger than the ring goes to its beginning, alone.
        let fits = starts.into_iter().filter(|start| *start == 0 || start + len <= LOG_RING);
        let mut first = u64::MAX;
        for start in fits {
            match self.in_the_way(start, start + len) {
                None => return Ok(start),
                Some(number) => first = first.min(number),
            }
        }
        Err(first)
    }

    /// The newest frame that has a byte of this part.
    fn in_the_way(&self, start: u64, end: u64) -> Option<u64> {
        let before_end = self.taken.range(..end).rev();
        before_end.take_while(|(_, (taken, _))| *taken > start).map(|(_, (_, number))| *number).max()
    }

    /// A frame was written there.
    pub(crate) fn take(&mut self, number: u64, start: u64, end: u64) {
        self.live.push_back((number, start));
        self.taken.insert(start, (end, number));
        self.bytes += end - start;
        self.at = end;
    }

    /// Forgets the newest frame, which has this number: it is not needed.
    pub(crate) fn take_back(&mut self, number: u64) {
        if let Some((_, start)) = self.live.pop_back_if(|(live, _)| *live == number)
            && let Some((end, _)) = self.taken.remove(&start)
        {
            self.bytes -= end - start;
            self.at = start;
        }
    }

    /// Forgets frames up to this number: their commits are safe.
    pub(crate) fn release(&mut self, number: u64) {
        while let Some((_, start)) = self.live.pop_front_if(|(live, _)| *live <= number) {
            if let Some((end, _)) = self.taken.remove(&start) {
                self.bytes -= end - start;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FRAME: u64 = 300_032;

    /// Puts a frame where it belongs.
    fn put(ring: &mut Ring, number: u64, len: u64) -> Result<u64, u64> {
        let start = ring.place(len)?;
        ring.take(number, start, start + len);
        Ok(start)
    }

    /// Frames of one length until there is no room; the number of the next.
    fn fill(ring: &mut Ring) -> u64 {
        (1..).find(|number| put(ring, *number, FRAME).is_err()).expect("an end")
    }

    #[test]
    fn a_place_is_used_again_only_when_its_commit_is_safe() {
        let mut ring = Ring::default();
        let next = fill(&mut ring);
        assert_eq!(next - 1, LOG_RING / FRAME);
        assert_eq!(ring.place(FRAME), Err(1));
        ring.release(1);
        assert_eq!(put(&mut ring, next, FRAME - 64), Ok(0), "the first one's place");
        assert_eq!(put(&mut ring, next + 1, FRAME), Err(2));
        assert_eq!(ring.place(2 * LOG_RING), Err(next), "larger than the ring, so after all of them");
        ring.release(next);
        assert_eq!((ring.bytes(), ring.place(2 * LOG_RING)), (0, Ok(0)));
    }

    #[test]
    fn who_has_time_stays_at_the_beginning() {
        let mut ring = Ring::default();
        for number in 1..5_000 {
            let start = put(&mut ring, number, FRAME).expect("room");
            assert!(start < LOG_LAP + 4 * FRAME, "frame {number} at {start}");
            ring.release(number.saturating_sub(3));
        }
    }

    /// Frames of all lengths, released at all moments: no two that are needed have a byte in common, and who waits for the
    /// commit that is named finds room.
    #[test]
    fn nothing_that_is_needed_is_written_over() {
        let mut seed = 7_u64;
        let mut random = |most: u64| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (seed >> 33) % most
        };
        let (mut ring, mut live) = (Ring::default(), VecDeque::<(u64, u64, u64)>::new());
        let mut passed_over = 0;
        for number in 1..20_000 {
            let len = [64, 6_400, 100_032, 3_000_000, LOG_RING + 64][random(5).min(random(5)) as usize];
            let start = ring.place(len).unwrap_or_else(|first| {
                ring.release(first);
                live.retain(|(live, ..)| *live > first);
                ring.place(len).expect("room, once that commit is safe")
            });
            passed_over += u64::from(start > 0 && live.iter().any(|(_, from, _)| *from < start));
            assert!(live.iter().all(|(_, from, to)| *to <= start || start + len <= *from), "frame {number}");
            ring.take(number, start, start + len);
            live.push_back((number, start, start + len));
            if random(40) == 0 {
                let safe = number.saturating_sub(random(200));
                ring.release(safe);
                live.retain(|(live, ..)| *live > safe);
            }
            assert_eq!(ring.bytes(), live.iter().map(|(_, from, to)| to - from).sum::<u64>());
        }
        assert!(passed_over > 0);
    }
}
