//! Counts the calls that two sequences have in common.

use std::collections::HashMap;

/// Returns the length of the longest common subsequence.
///
/// The algorithm keeps one bit for each call of `one`, so a step handles 64 calls: Hyyrö, Bit-parallel LCS-length
/// computation revisited, AWOCA 2004.
pub(super) fn common(one: &[u128], other: &[u128]) -> usize {
    let start = one.iter().zip(other).take_while(|(a, b)| a == b).count();
    let (one, other) = (&one[start..], &other[start..]);
    let end = one.iter().rev().zip(other.iter().rev()).take_while(|(a, b)| a == b).count();
    start + end + between(&one[..one.len() - end], &other[..other.len() - end])
}

fn between(one: &[u128], other: &[u128]) -> usize {
    let mut places = HashMap::<u128, Vec<usize>>::new();
    for (at, key) in one.iter().enumerate() {
        places.entry(*key).or_default().push(at);
    }
    let words = one.len().div_ceil(64);
    let (mut rows, mut matches) = (vec![u64::MAX; words], vec![0_u64; words]);
    for found in other.iter().filter_map(|key| places.get(key)) {
        for at in found {
            matches[at / 64] |= 1 << (at % 64);
        }
        let (first, last) = (found[0] / 64, found[found.len() - 1] / 64);
        let mut carry = false;
        for word in first..words {
            if word > last && !carry {
                break;
            }
            let row = rows[word];
            let both = row & std::mem::take(&mut matches[word]);
            let (sum, one_carry) = row.overflowing_add(both);
            let (sum, other_carry) = sum.overflowing_add(carry.into());
            carry = one_carry || other_carry;
            rows[word] = sum | (row & !both);
        }
    }
    (0..one.len()).filter(|at| rows[at / 64] >> (at % 64) & 1 == 0).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the length of the longest common subsequence, by its definition.
    fn naive(one: &[u128], other: &[u128]) -> usize {
        match (one.split_first(), other.split_first()) {
            (Some((a, one_rest)), Some((b, other_rest))) if a == b => {
                1 + naive(one_rest, other_rest)
            }
            (Some((_, one_rest)), Some((_, other_rest))) => {
                naive(one_rest, other).max(naive(one, other_rest))
            }
            _ => 0,
        }
    }

    proptest::proptest! {
        #[test]
        fn length_is_that_of_the_definition(
            one in proptest::collection::vec(0..4_u128, 0..9),
            other in proptest::collection::vec(0..4_u128, 0..9),
        ) {
            proptest::prop_assert_eq!(common(&one, &other), naive(&one, &other));
        }

        #[test]
        fn lengths_across_words_are_those_of_a_table(
            one in proptest::collection::vec(0..9_u128, 0..300),
            other in proptest::collection::vec(0..9_u128, 0..300),
        ) {
            let mut table = vec![vec![0; other.len() + 1]; one.len() + 1];
            for (i, a) in one.iter().enumerate() {
                for (j, b) in other.iter().enumerate() {
                    table[i + 1][j + 1] = match a == b {
                        true => table[i][j] + 1,
                        false => table[i][j + 1].max(table[i + 1][j]),
                    };
                }
            }
            proptest::prop_assert_eq!(common(&one, &other), table[one.len()][other.len()]);
        }
    }
}
