//! Matrix products: the problem, the operands, and the computation of the reference result.

use half::{bf16, f16};
use serde::{Deserialize, Serialize};

use crate::pattern;

/// A matrix product D = op(A) op(B), column-major.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MatmulProblem {
    /// Type of A, B and D.
    pub dtype: Dtype,
    /// Rows of D.
    pub m: u64,
    /// Columns of D.
    pub n: u64,
    /// Columns of op(A) and rows of op(B).
    pub k: u64,
    /// True if A is transposed.
    pub transpose_a: bool,
    /// True if B is transposed.
    pub transpose_b: bool,
    /// True if a bias vector is added (HIPBLASLT_EPILOGUE_BIAS).
    pub bias: bool,
}

/// Names of the buffers of a matrix product. Each matrix begins at the start of its buffer and has no padding between
/// columns.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Operands {
    /// Buffer of A: m x k elements, or k x m if transposed.
    pub a: String,
    /// Buffer of B: k x n elements, or n x k if transposed.
    pub b: String,
    /// Buffer of D: m x n elements of the problem's [output type](Dtype::output). The previous content is ignored.
    pub d: String,
    /// Buffer of the bias: m elements of the output type, which are added to each column of D. Set only with
    /// [`MatmulProblem::bias`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bias: Option<String>,
}

impl MatmulProblem {
    /// Returns the sizes of A, B and D in bytes. If a size overflows, it is `u64::MAX`.
    pub fn bytes(&self) -> [u64; 3] {
        let (input, output) = (self.dtype.bytes(), self.dtype.output().bytes());
        let bytes =
            |rows: u64, columns: u64, element| rows.saturating_mul(columns).saturating_mul(element);
        [bytes(self.m, self.k, input), bytes(self.k, self.n, input), bytes(self.m, self.n, output)]
    }
}

/// Element types of matrices.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Dtype {
    /// 32-bit float.
    F32,
    /// 16-bit float, accumulated in 32-bit float.
    F16,
    /// bfloat16, accumulated in 32-bit float.
    Bf16,
    /// 64-bit float.
    F64,
    /// 8-bit integer, accumulated and stored as 32-bit integer.
    I8,
    /// 32-bit integer: the output type of products of 8-bit integers. A and B cannot have this type.
    I32,
}

impl Dtype {
    /// Returns the size of one element, in bytes.
    pub const fn bytes(self) -> u64 {
        match self {
            Dtype::I8 => 1,
            Dtype::F16 | Dtype::Bf16 => 2,
            Dtype::F32 | Dtype::I32 => 4,
            Dtype::F64 => 8,
        }
    }

    /// Returns the type of D if A and B have this type.
    pub const fn output(self) -> Dtype {
        match self {
            Dtype::I8 => Dtype::I32,
            Dtype::F32 | Dtype::F16 | Dtype::Bf16 | Dtype::F64 | Dtype::I32 => self,
        }
    }

    /// Returns the type in which sums are accumulated for this output type. Calls of hipBLASLt and rocBLAS request it.
    const fn accumulator(self) -> Dtype {
        match self {
            Dtype::F16 | Dtype::Bf16 => Dtype::F32,
            Dtype::F32 | Dtype::F64 | Dtype::I8 | Dtype::I32 => self,
        }
    }

    /// Returns the largest n such that the type represents every whole number from 0 to n exactly.
    pub(crate) const fn max_exact_integer(self) -> u64 {
        match self {
            Dtype::I8 => (1 << 7) - 1,
            Dtype::Bf16 => 1 << 8,
            Dtype::F16 => 1 << 11,
            Dtype::F32 => 1 << 24,
            Dtype::I32 => (1 << 31) - 1,
            Dtype::F64 => 1 << 53,
        }
    }

    const fn min_normal(self) -> f64 {
        match self {
            Dtype::F16 | Dtype::Bf16 | Dtype::F32 => f32::MIN_POSITIVE as f64,
            Dtype::F64 => f64::MIN_POSITIVE,
            Dtype::I8 | Dtype::I32 => 1.0,
        }
    }

    fn read(self, bytes: &[u8], index: u64) -> Option<f64> {
        let size = self.bytes() as usize;
        let element = bytes.chunks_exact(size).nth(index as usize)?;
        Some(match self {
            Dtype::F32 => f32::from_le_bytes(element.try_into().ok()?).into(),
            Dtype::F16 => f16::from_le_bytes(element.try_into().ok()?).into(),
            Dtype::Bf16 => bf16::from_le_bytes(element.try_into().ok()?).into(),
            Dtype::F64 => f64::from_le_bytes(element.try_into().ok()?),
            Dtype::I8 => f64::from(element[0] as i8),
            Dtype::I32 => i32::from_le_bytes(element.try_into().ok()?).into(),
        })
    }

    /// Returns the bytes of a number; `None` if the type cannot represent the number exactly.
    fn write(self, value: f64) -> Option<Vec<u8>> {
        let bytes = match self {
            Dtype::F32 => (value as f32).to_le_bytes().to_vec(),
            Dtype::F16 => f16::from_f64(value).to_le_bytes().to_vec(),
            Dtype::Bf16 => bf16::from_f64(value).to_le_bytes().to_vec(),
            Dtype::F64 => value.to_le_bytes().to_vec(),
            Dtype::I8 => vec![value as i8 as u8],
            Dtype::I32 => (value as i32).to_le_bytes().to_vec(),
        };
        (self.read(&bytes, 0) == Some(value)).then_some(bytes)
    }
}

/// Fills `bytes` with whole numbers from -2 to 2, one per element, derived from the [`pattern`] of `stamp`. Bytes after
/// the last whole element are not changed.
///
/// Products of small numbers and their sums are exact in every type and in every order of additions. Therefore the
/// product of two matrices with this content has exactly one right result.
pub fn small_numbers(dtype: Dtype, stamp: u64, bytes: &mut [u8]) {
    let size = dtype.bytes() as usize;
    let mut words = vec![0; bytes.len() / size * 4];
    pattern(stamp, &mut words);
    for (element, word) in bytes.chunks_exact_mut(size).zip(words.chunks_exact(4)) {
        // Byte 2 is used because it differs from the byte that `pattern` writes at the same offset for the same stamp.
        let small = f64::from(word[2] % 5) - 2.0;
        if let Some(value) = dtype.write(small) {
            element.copy_from_slice(&value);
        }
    }
}

/// Returns the value of the lowest set bit of a number other than 0.
fn lowest_bit(value: f64) -> f64 {
    let bits = value.to_bits();
    // Clearing the lowest set bit of the fraction changes the number by the value of that bit.
    let fraction = bits & ((1 << 52) - 1);
    match fraction {
        0 => value.abs(),
        _ => (value - f64::from_bits(bits & (bits - 1))).abs(),
    }
}

/// Returns the sum of products if it does not depend on the order of the additions, else `None`. The sum is accepted if
/// every product is a multiple of the same power of two, and type `of` represents the sum of their magnitudes exactly.
fn exact_sum(factors: impl Iterator<Item = (f64, f64)>, of: Dtype) -> Option<f64> {
    let (mut sum, mut weight, mut finest) = (0.0, 0.0f64, f64::INFINITY);
    for (x, y) in factors {
        let product = x * y;
        if x.mul_add(y, -product) != 0.0 {
            return None;
        }
        sum += product;
        weight += product.abs();
        if product != 0.0 {
            finest = finest.min(lowest_bit(product));
        }
    }
    // GPUs may flush denormal numbers to 0.
    let normal = finest >= of.min_normal();
    (normal && weight <= finest * of.max_exact_integer() as f64).then_some(sum)
}

/// Computes a matrix product and returns the bytes of D. Returns `None` if an operand is too short, if a result is not
/// exact in the output type, or if a result depends on the order of the additions.
pub fn matmul(problem: &MatmulProblem, a: &[u8], b: &[u8], bias: Option<&[u8]>) -> Option<Vec<u8>> {
    let MatmulProblem { m, n, k, transpose_a, transpose_b, dtype, .. } = *problem;
    let read = |bytes, rows: u64, columns: u64, transposed: bool| -> Option<Vec<f64>> {
        // Index of element `inner` of row `outer` of op(A), or of column `outer` of op(B). Both have k elements.
        let index =
            |outer, inner| if transposed { outer * columns + inner } else { inner * rows + outer };
        let all: Option<Vec<_>> = (0..rows * columns).map(|i| dtype.read(bytes, i)).collect();
        let all = all?;
        Some(
            (0..rows)
                .flat_map(|outer| (0..columns).map(move |inner| (outer, inner)))
                .map(|(o, i)| all[index(o, i) as usize])
                .collect(),
        )
    };
    let (a, b) = (read(a, m, k, transpose_a)?, read(b, n, k, !transpose_b)?);
    let mut d = Vec::new();
    for column in 0..n {
        for row in 0..m {
            let (row_of_a, column_of_b) =
                (&a[(row * k) as usize..][..k as usize], &b[(column * k) as usize..][..k as usize]);
            let bias = match bias {
                Some(bias) => Some((dtype.output().read(bias, row)?, 1.0)),
                None => None,
            };
            let factors = row_of_a.iter().copied().zip(column_of_b.iter().copied()).chain(bias);
            d.extend(dtype.output().write(exact_sum(factors, dtype.output().accumulator())?)?);
        }
    }
    Some(d)
}

#[cfg(test)]
mod tests {
    use super::*;

    const DTYPES: [Dtype; 5] = [Dtype::F32, Dtype::F16, Dtype::Bf16, Dtype::F64, Dtype::I8];

    #[test]
    fn rejects_sums_that_depend_on_order() {
        let sum = |factors: &[(f64, f64)]| exact_sum(factors.iter().copied(), Dtype::F32);
        let big = f64::from(1 << 24);
        assert_eq!(sum(&[]), Some(0.0));
        assert_eq!(sum(&[(1.5, 2.5), (-0.25, 1.0)]), Some(3.5));
        assert_eq!(sum(&[(big, 1.0)]), Some(big));
        // If 1 is added to the large number first, rounding loses the 1.
        assert_eq!(sum(&[(big, 1.0), (1.0, 1.0), (-big, 1.0)]), None);
        assert_eq!(sum(&[(big, 1.0), (0.5, 1.0)]), None);
        // The exact product has more bits than f64 can represent.
        assert_eq!(sum(&[(1.0 + f64::EPSILON, 1.0 + f64::EPSILON)]), None);
        assert_eq!(sum(&[(f64::from(f32::MIN_POSITIVE) / 4.0, 3.0)]), None, "denormal");
        assert_eq!(sum(&[(f64::NAN, 1.0)]), None);
        assert_eq!(sum(&[(f64::INFINITY, 1.0)]), None);
        for (value, bit) in
            [(12.0, 4.0), (-0.75, 0.25), (1.0, 1.0), (f64::from(1 << 30) + 1.0, 1.0)]
        {
            assert_eq!(lowest_bit(value), bit, "{value}");
        }
    }

    #[test]
    fn accepted_sums_are_equal_in_every_order() {
        const ORDERS: [[usize; 3]; 6] =
            [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]];
        let big = (1 << 24) as f32;
        let values = [0.0, 1.0, -1.0, 3.0, 0.5, 0.1, big, -big, 1e-20, f32::MIN_POSITIVE, 1e38];
        let pairs: Vec<(f32, f32)> =
            values.iter().flat_map(|a| [1.0, -2.0, 1e-3, 4097.0].map(|b| (*a, b))).collect();
        let (mut taken, mut rounded) = (0, 0);
        for (n, first) in pairs.iter().enumerate() {
            for (m, second) in pairs.iter().enumerate().skip(n) {
                for third in &pairs[m..] {
                    let three = [*first, *second, *third];
                    let sum = exact_sum(
                        three.iter().map(|(a, b)| (f64::from(*a), f64::from(*b))),
                        Dtype::F32,
                    );
                    let orders = ORDERS.iter().flat_map(|order| {
                        let plain =
                            order.iter().fold(0.0f32, |sum, i| sum + three[*i].0 * three[*i].1);
                        let fused = order
                            .iter()
                            .fold(0.0f32, |sum, i| three[*i].0.mul_add(three[*i].1, sum));
                        [plain, fused]
                    });
                    match sum {
                        Some(sum) => {
                            taken += 1;
                            assert!(
                                orders.into_iter().all(|of| f64::from(of) == sum),
                                "{three:?}: {sum}"
                            );
                        }
                        None => rounded += 1,
                    }
                }
            }
        }
        assert!(taken > 1000 && rounded > 1000, "{taken} taken, {rounded} not");
    }

    /// The test multiplies a 2 x 3 matrix by a 3 x 2 matrix. The expected product was computed by hand: [1 2 3; 4 5 6]
    /// [1 -1; 0 2; 1 0] = [4 3; 10 6].
    #[test]
    fn product_is_right_for_every_type_and_transpose() {
        let by_columns =
            |rows: [[f64; 3]; 2]| (0..3).flat_map(move |c| rows.map(|r| r[c])).collect::<Vec<_>>();
        let by_rows = |rows: [[f64; 3]; 2]| rows.concat();
        let (a, b_transposed) =
            ([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], [[1.0, 0.0, 1.0], [-1.0, 2.0, 0.0]]);
        for dtype in DTYPES {
            let bytes = |values: Vec<f64>, dtype: Dtype| {
                values.into_iter().flat_map(|v| dtype.write(v).unwrap()).collect::<Vec<_>>()
            };
            for (transpose_a, transpose_b) in
                [(false, false), (false, true), (true, false), (true, true)]
            {
                let a = if transpose_a { by_rows(a) } else { by_columns(a) };
                let b = if transpose_b { by_columns(b_transposed) } else { by_rows(b_transposed) };
                let problem = MatmulProblem {
                    dtype,
                    m: 2,
                    n: 2,
                    k: 3,
                    transpose_a,
                    transpose_b,
                    bias: false,
                };
                let (a, b) = (bytes(a, dtype), bytes(b, dtype));
                let want = bytes(vec![4.0, 10.0, 3.0, 6.0], dtype.output());
                assert_eq!(
                    matmul(&problem, &a, &b, None),
                    Some(want),
                    "{dtype:?} {transpose_a} {transpose_b}"
                );
                let bias = bytes(vec![10.0, -1.0], dtype.output());
                let want = bytes(vec![14.0, 9.0, 13.0, 5.0], dtype.output());
                assert_eq!(
                    matmul(&problem, &a, &b, Some(&bias)),
                    Some(want),
                    "{dtype:?} with bias"
                );
            }
        }
    }

    #[test]
    fn rejects_products_that_are_rounded() {
        let problem = MatmulProblem {
            dtype: Dtype::Bf16,
            m: 1,
            n: 1,
            k: 2,
            transpose_a: false,
            transpose_b: false,
            bias: false,
        };
        let element = |value| Dtype::Bf16.write(value).unwrap();
        let (a, b) =
            ([element(256.0), element(1.0)].concat(), [element(1.0), element(1.0)].concat());
        assert_eq!(matmul(&problem, &a, &b, None), None);
    }

    #[test]
    fn integers_are_exact_up_to_the_bound_only() {
        for dtype in DTYPES.into_iter().chain([Dtype::I32]) {
            let exact = dtype.max_exact_integer() as f64;
            for value in [exact, -exact, exact - 1.0] {
                assert!(dtype.write(value).is_some(), "{dtype:?} {value}");
            }
            assert!(dtype.write(exact + 1.0).is_none() || dtype == Dtype::F64, "{dtype:?}");
        }
    }

    #[test]
    fn small_numbers_take_all_values_from_minus_2_to_2() {
        for dtype in DTYPES {
            let mut bytes = vec![0xFF; 1024 * dtype.bytes() as usize];
            small_numbers(dtype, 7, &mut bytes);
            let seen: std::collections::BTreeSet<i64> =
                (0..1024).map(|i| dtype.read(&bytes, i).unwrap() as i64).collect();
            assert_eq!(seen, (-2..=2).collect(), "{dtype:?}");
        }
    }
}
