//! Minimum and maximum of floats. The rules for NaNs depend on the architecture and on `MODE.IEEE`.

/// Float types whose arithmetic the host supports.
pub(crate) trait Ordered: Copy + PartialOrd {
    fn is_signalling(self) -> bool;
    fn quiet(self) -> Self;
    fn is_not_a_number(self) -> bool;
    fn is_negative(self) -> bool;

    /// Returns the minimumNumber of IEEE 754-2019: a number takes precedence over any NaN, and -0 is less than +0. If
    /// both operands are NaNs, returns the first one as a quiet NaN.
    #[inline(always)]
    fn least_number(self, other: Self) -> Self {
        let number =
            if self < other || (self == other && self.is_negative()) { self } else { other };
        self.pick(other, number)
    }

    /// Returns the maximumNumber of IEEE 754-2019: a number takes precedence over any NaN, and +0 is greater than -0.
    /// If both operands are NaNs, returns the first one as a quiet NaN.
    #[inline(always)]
    fn greatest_number(self, other: Self) -> Self {
        let number =
            if self > other || (self == other && !self.is_negative()) { self } else { other };
        self.pick(other, number)
    }

    #[inline(always)]
    fn pick(self, other: Self, number: Self) -> Self {
        match (self.is_not_a_number(), other.is_not_a_number()) {
            (true, true) => self.quiet(),
            (true, false) => other,
            (false, true) => self,
            (false, false) => number,
        }
    }

    /// Returns the first operand that is a signalling NaN, as a quiet NaN. Without such an operand, returns
    /// `of_others`.
    #[inline(always)]
    fn unless_signalling(self, other: Self, of_others: Self) -> Self {
        if self.is_signalling() {
            self.quiet()
        } else if other.is_signalling() {
            other.quiet()
        } else {
            of_others
        }
    }

    /// Returns the minimum of IEEE 754-2019: a NaN takes precedence over a number, a signalling NaN over a quiet one,
    /// and -0 is less than +0.
    #[inline(always)]
    fn least_or_nan(self, other: Self) -> Self {
        self.nan_with(other).unwrap_or_else(|| self.least_number(other))
    }

    /// Returns the maximum of IEEE 754-2019: a NaN takes precedence over a number, a signalling NaN over a quiet one,
    /// and +0 is greater than -0.
    #[inline(always)]
    fn greatest_or_nan(self, other: Self) -> Self {
        self.nan_with(other).unwrap_or_else(|| self.greatest_number(other))
    }

    /// Returns the NaN that a minimum or maximum returns if an operand is a NaN; `None` if both operands are numbers
    /// (the RDNA 4 ISA guide, `V_MINIMUM_F32`).
    #[inline(always)]
    fn nan_with(self, other: Self) -> Option<Self> {
        match (self.is_not_a_number(), other.is_not_a_number()) {
            (false, false) => None,
            (true, _) if self.is_signalling() || !other.is_signalling() => Some(self.quiet()),
            _ => Some(other.quiet()),
        }
    }
}

macro_rules! ordered {
    ($type:ty, $quiet:expr) => {
        impl Ordered for $type {
            #[inline(always)]
            fn is_signalling(self) -> bool {
                self.is_nan() && self.to_bits() & $quiet == 0
            }
            #[inline(always)]
            fn quiet(self) -> Self {
                <$type>::from_bits(self.to_bits() | $quiet)
            }
            #[inline(always)]
            fn is_not_a_number(self) -> bool {
                self.is_nan()
            }
            #[inline(always)]
            fn is_negative(self) -> bool {
                self.is_sign_negative()
            }
        }
    };
}

ordered!(f32, 0x0040_0000);
ordered!(f64, 0x0008_0000_0000_0000);

pub(crate) trait Extremes: Copy + Send + Sync + 'static {
    fn least<T: Ordered>(self, a: T, b: T) -> T;
    fn greatest<T: Ordered>(self, a: T, b: T) -> T;

    /// Returns the middle operand, or the minimum of the three if one of them is a NaN.
    #[inline(always)]
    fn median(self, a: f32, b: f32, c: f32) -> f32 {
        if a.is_nan() || b.is_nan() || c.is_nan() {
            return self.least(self.least(a, b), c);
        }
        let greatest = self.greatest(self.greatest(a, b), c);
        if greatest == a {
            self.greatest(b, c)
        } else if greatest == b {
            self.greatest(a, c)
        } else {
            self.greatest(a, b)
        }
    }
}

/// The functions minNum and maxNum of IEEE 754-2008. The result is a quiet NaN if an operand is a signalling NaN,
/// unlike for [`OfNumbers`].
#[derive(Clone, Copy)]
pub(crate) struct OfIeee;

impl Extremes for OfIeee {
    #[inline(always)]
    fn least<T: Ordered>(self, a: T, b: T) -> T {
        a.unless_signalling(b, a.least_number(b))
    }
    #[inline(always)]
    fn greatest<T: Ordered>(self, a: T, b: T) -> T {
        a.unless_signalling(b, a.greatest_number(b))
    }
}

/// The functions minimumNumber and maximumNumber of IEEE 754-2019.
#[derive(Clone, Copy)]
pub(crate) struct OfNumbers;

impl Extremes for OfNumbers {
    #[inline(always)]
    fn least<T: Ordered>(self, a: T, b: T) -> T {
        a.least_number(b)
    }
    #[inline(always)]
    fn greatest<T: Ordered>(self, a: T, b: T) -> T {
        a.greatest_number(b)
    }
}

/// Defines an operation whose rules for NaNs depend on `MODE.IEEE`. `$binder` refers to the rules as `$rules`. Source:
/// `V_MIN_F32` in the CDNA 3, CDNA 4 and RDNA 3 ISA guides. GFX12 has no `MODE.IEEE`. Its instructions with `num` in
/// their names use [`OfNumbers`].
macro_rules! by_ieee {
    ($rules:ident => $binder:expr) => {
        $crate::operation::by_mode($crate::wave::Wave::has_ieee_rules, |ieee| {
            if ieee {
                let $rules = $crate::ops::extremes::OfIeee;
                $binder
            } else {
                let $rules = $crate::ops::extremes::OfNumbers;
                $binder
            }
        })
    };
}
pub(crate) use by_ieee;
