//! Minimum and maximum, with the rules for NaNs of each architecture and of MODE.IEEE.

/// Float types of the host.
pub(crate) trait Ordered: Copy + PartialOrd {
    fn is_signalling(self) -> bool;
    fn quiet(self) -> Self;
    fn is_no_number(self) -> bool;
    fn is_negative(self) -> bool;

    /// Returns the IEEE 754-2019 minimumNumber: a number takes precedence over a NaN of either kind, -0 is less than
    /// +0, and of two NaNs the first is returned, made quiet.
    #[inline(always)]
    fn least_number(self, other: Self) -> Self {
        let number =
            if self < other || (self == other && self.is_negative()) { self } else { other };
        self.pick(other, number)
    }

    /// Returns the IEEE 754-2019 maximumNumber, with the same rules.
    #[inline(always)]
    fn greatest_number(self, other: Self) -> Self {
        let number =
            if self > other || (self == other && !self.is_negative()) { self } else { other };
        self.pick(other, number)
    }

    #[inline(always)]
    fn pick(self, other: Self, number: Self) -> Self {
        match (self.is_no_number(), other.is_no_number()) {
            (true, true) => self.quiet(),
            (true, false) => other,
            (false, true) => self,
            (false, false) => number,
        }
    }

    /// Returns a quiet NaN if an operand is a signalling one, otherwise `of_others`.
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

    /// Returns the IEEE 754-2019 minimum: a NaN takes precedence, a signalling one over a quiet one, and -0 is less
    /// than +0.
    #[inline(always)]
    fn least_or_nan(self, other: Self) -> Self {
        self.nan_with(other).unwrap_or_else(|| self.least_number(other))
    }

    /// Returns the IEEE 754-2019 maximum, with the same rules.
    #[inline(always)]
    fn greatest_or_nan(self, other: Self) -> Self {
        self.nan_with(other).unwrap_or_else(|| self.greatest_number(other))
    }

    /// Returns the NaN that results if an operand is a NaN (the RDNA 4 ISA guide, `V_MINIMUM_F32`).
    #[inline(always)]
    fn nan_with(self, other: Self) -> Option<Self> {
        match (self.is_no_number(), other.is_no_number()) {
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
            fn is_no_number(self) -> bool {
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

/// Rules for minimum and maximum. Operations are generic over them.
pub(crate) trait Extremes: Copy + Send + Sync + 'static {
    fn least<T: Ordered>(self, a: T, b: T) -> T;
    fn greatest<T: Ordered>(self, a: T, b: T) -> T;

    /// Returns the middle operand; with a NaN among them, the minimum of the three.
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

/// IEEE 754-2008, minNum and maxNum: like the other rules, but a signalling NaN results in a quiet NaN.
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

/// IEEE 754-2019, minimumNumber and maximumNumber.
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

/// Defines an operation whose rules depend on MODE.IEEE, in one expression: `$rules` are the rules. Source: `V_MIN_F32`
/// in the CDNA 3, CDNA 4 and RDNA 3 ISA guides. GFX12 has no such bit; its instructions with `num` in their names use
/// [`OfNumbers`].
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
