//! Which bytes of a file are there.

/// Ranges of bytes, in order and apart from each other.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(super) struct Ranges(Vec<(u64, u64)>);

impl Ranges {
    /// Adds from `start` up to and without `end`.
    pub(super) fn add(&mut self, mut start: u64, mut end: u64) {
        if start >= end {
            return;
        }
        let from = self.0.partition_point(|range| range.1 < start);
        let to = self.0.partition_point(|range| range.0 <= end);
        if from < to {
            start = start.min(self.0[from].0);
            end = end.max(self.0[to - 1].1);
        }
        self.0.splice(from..to, [(start, end)]);
    }

    /// Where the bytes end that are there from `at` on.
    pub(super) fn end_from(&self, at: u64) -> u64 {
        let next = self.0.partition_point(|range| range.1 <= at);
        self.0.get(next).filter(|range| range.0 <= at).map_or(at, |range| range.1)
    }

    /// Where the bytes end that are not there from `at` on.
    fn gap_end(&self, at: u64, end: u64) -> u64 {
        let next = self.0.partition_point(|range| range.0 <= at);
        self.0.get(next).map_or(end, |range| range.0.min(end))
    }

    /// Cuts a range into pieces that are there, or are not: start, end, and which.
    pub(super) fn cut(&self, start: u64, end: u64) -> Vec<(u64, u64, bool)> {
        let mut pieces = Vec::new();
        let mut at = start;
        while at < end {
            let there = self.end_from(at).min(end);
            let piece = if there > at { (at, there, true) } else { (at, self.gap_end(at, end), false) };
            at = piece.1;
            pieces.push(piece);
        }
        pieces
    }

    /// What is missing of so many bytes.
    pub(super) fn missing(&self, size_bytes: u64) -> Vec<(u64, u64)> {
        let pieces = self.cut(0, size_bytes);
        pieces.into_iter().filter(|piece| !piece.2).map(|(start, end, _)| (start, end)).collect()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn ranges_are_as_a_list_of_bytes(added in prop::collection::vec((0_u64..60, 0_u64..20), 0..12)) {
            let mut ranges = Ranges::default();
            let mut bytes = [false; 80];
            for (start, size) in added {
                ranges.add(start, start + size);
                bytes[start as usize..(start + size) as usize].fill(true);
            }
            prop_assert!(ranges.0.windows(2).all(|pair| pair[0].1 < pair[1].0), "{:?}", ranges);
            let mut cut = [false; 80];
            for (start, end, there) in ranges.cut(0, 80) {
                prop_assert!(start < end);
                cut[start as usize..end as usize].fill(there);
            }
            prop_assert_eq!(cut, bytes);
            let missing: u64 = ranges.missing(80).iter().map(|(start, end)| end - start).sum();
            prop_assert_eq!(missing, bytes.iter().filter(|there| !**there).count() as u64);
            for at in 0..80 {
                let run = bytes[at..].iter().take_while(|there| **there).count();
                prop_assert_eq!(ranges.end_from(at as u64), (at + run) as u64);
            }
        }
    }
}
