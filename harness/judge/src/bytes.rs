use std::ops::Range;

/// Minimum number of equal bytes that separate two wrong ranges. Differences with fewer equal bytes between them form
/// one range, because a wrong number often agrees with the right one in some bytes, mostly the high bytes.
const GAP: usize = 8;

/// Size in bytes of the blocks that are compared at once. Blocks without a difference are skipped.
const BLOCK: usize = 4096;

#[derive(Debug, PartialEq)]
pub(crate) struct Diff {
    /// Number of bytes that differ, including the bytes that only the longer sequence has.
    pub(crate) wrong: usize,
    /// Ranges of offsets at which the sequences differ, in ascending order. Each range begins and ends with a differing
    /// byte.
    pub(crate) runs: Vec<Range<usize>>,
}

impl Diff {
    pub(crate) fn first(&self) -> Option<usize> {
        self.runs.first().map(|run| run.start)
    }
}

/// Compares two byte sequences. If one is longer, its additional bytes count as differing.
pub(crate) fn diff(a: &[u8], b: &[u8]) -> Diff {
    let common = a.len().min(b.len());
    let longest = a.len().max(b.len());
    let mut diff = Diff { wrong: 0, runs: Vec::new() };
    let mut add = |range: Range<usize>| {
        diff.wrong += range.len();
        match diff.runs.last_mut() {
            Some(last) if range.start < last.end + GAP => last.end = range.end,
            _ => diff.runs.push(range),
        }
    };
    for start in (0..common).step_by(BLOCK) {
        let end = (start + BLOCK).min(common);
        if a[start..end] != b[start..end] {
            (start..end).filter(|&i| a[i] != b[i]).for_each(|i| add(i..i + 1));
        }
    }
    if longest > common {
        add(common..longest);
    }
    diff
}

/// Formats 16 bytes of each sequence, as lines for people: the 16 bytes that contain offset `first` and begin at a
/// multiple of 16.
pub(crate) fn excerpt(a: (&str, &[u8]), b: (&str, &[u8]), first: usize) -> [String; 2] {
    let start = first & !15;
    let width = a.0.len().max(b.0.len());
    let row = |(name, bytes): (&str, &[u8])| {
        let end = (start + 16).min(bytes.len());
        let hex: Vec<String> =
            bytes.get(start..end).unwrap_or_default().iter().map(|b| format!("{b:02x}")).collect();
        format!("{name:>width$} at {start:#06x}: {}", hex.join(" "))
    };
    [row(a), row(b)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_are_grouped_into_ranges() {
        let check = |a: &[u8], b: &[u8], wrong: usize, runs: &[Range<usize>]| {
            assert_eq!(diff(a, b), Diff { wrong, runs: runs.to_vec() });
        };
        check(b"", b"", 0, &[]);
        check(b"same", b"same", 0, &[]);
        check(b"ab", b"xy", 2, std::slice::from_ref(&(0..2)));
        check(b"a-------b", b"x-------y", 2, std::slice::from_ref(&(0..9)));
        check(b"a--------b", b"x--------y", 2, &[0..1, 9..10]);
        check(b"abcd", b"ab", 2, std::slice::from_ref(&(2..4)));
        let (mut long, zeros) = (vec![0; 3 * BLOCK], vec![0; 3 * BLOCK]);
        long[BLOCK - 1] = 1;
        long[BLOCK] = 1;
        check(&long, &zeros, 2, std::slice::from_ref(&(BLOCK - 1..BLOCK + 1)));
    }

    #[test]
    fn excerpts_show_the_line_of_the_first_difference() {
        let bytes: Vec<u8> = (0..20).collect();
        assert_eq!(
            excerpt(("got", &bytes), ("right", &[0; 17]), 17),
            ["  got at 0x0010: 10 11 12 13".to_owned(), "right at 0x0010: 00".to_owned()]
        );
        let [line, _] = excerpt(("got", &[7; 64]), ("right", &[0; 64]), 40);
        assert_eq!(line, format!("  got at 0x0020:{}", " 07".repeat(16)));
    }
}
