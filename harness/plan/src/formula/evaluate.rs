//! Evaluates formulas with the arithmetic of C.

use super::{BinaryOperator, Expr, Formula, MathFunction, common_type, promoted_type, type_of};
use crate::{Scalar, ScalarType, scalar::nearest};

/// Why a formula cannot be evaluated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FormulaError {
    /// The formula accesses an element outside of its buffer.
    Outside,
    /// The formula has undefined behaviour in C, for this reason.
    Undefined(&'static str),
    /// The evaluation needs more than 2^28 steps.
    TooMuch,
}

/// Arguments and memory of the kernel launch for which a formula is evaluated.
pub trait FormulaInputs {
    /// Returns the value of a numeric parameter; `None` if the argument is not a number.
    fn number(&self, parameter: usize) -> Option<Scalar>;

    /// Returns an element of the buffer that a parameter points to; `Ok(None)` if the content of the element is
    /// unknown.
    ///
    /// # Errors
    /// Returns [`FormulaError::Outside`] if the element is outside of the buffer.
    fn element(&self, parameter: usize, at: i128) -> Result<Option<Scalar>, FormulaError>;
}

const MAX_STEPS: u64 = 1 << 28;

/// Result of evaluating an expression; `Ok(None)` if it depends on bytes whose content is unknown.
type Value = Result<Option<Scalar>, FormulaError>;

struct Evaluation<'v, V> {
    values: &'v V,
    types: &'v [Option<ScalarType>],
    item: u32,
    items: u32,
    bound: Vec<u32>,
    steps: u64,
}

impl Formula {
    /// Evaluates the formula for each element in a launch of `items` work-items, and calls `write` with the index and
    /// the value of each written element. A value is `None` if it depends on bytes whose content is unknown.
    ///
    /// # Errors
    /// Returns the index of the first evaluation that fails, and the reason.
    pub fn evaluate(
        &self,
        values: &impl FormulaInputs,
        items: u32,
        mut write: impl FnMut(i128, Option<Scalar>) -> Result<(), FormulaError>,
    ) -> Result<(), (u32, FormulaError)> {
        let types = self.types.as_slice();
        let mut run = Evaluation { values, types, item: 0, items, bound: Vec::new(), steps: 0 };
        // A bound contains only numbers, so its value is always known.
        let count = run.expr(&self.count).map_err(|wrong| (0, wrong))?;
        let count = count.map_or(0, Scalar::as_integer).clamp(0, u32::MAX.into()) as u32;
        for item in 0..count {
            run.item = item;
            let mut one = |run: &mut Evaluation<'_, _>| {
                let at = run.expr(&self.at)?.ok_or(FormulaError::Undefined(
                    "the index of the written element is unknown",
                ))?;
                let value = run.expr(&self.value)?;
                let value = value.map(|value| convert(value, self.element)).transpose()?;
                write(at.as_integer(), value)
            };
            one(&mut run).map_err(|wrong| (item, wrong))?;
        }
        Ok(())
    }
}

impl<V: FormulaInputs> Evaluation<'_, V> {
    fn expr(&mut self, expr: &Expr) -> Value {
        self.steps += 1;
        if self.steps > MAX_STEPS {
            return Err(FormulaError::TooMuch);
        }
        Ok(Some(match expr {
            Expr::Literal(scalar) => *scalar,
            Expr::Item => Scalar::u32(self.item),
            Expr::Items => Scalar::u32(self.items),
            Expr::Bound(at) => Scalar::u32(self.bound[*at]),
            Expr::Number(index) => return Ok(self.values.number(*index)),
            Expr::Element(index, at) => {
                let Some(at) = self.expr(at)? else { return Ok(None) };
                return self.values.element(*index, at.as_integer());
            }
            Expr::Unary(sign, inner) => {
                let Some(value) = self.expr(inner)? else { return Ok(None) };
                unary(*sign, value)?
            }
            Expr::Binary(
                operator @ (BinaryOperator::LogicalAnd | BinaryOperator::LogicalOr),
                a,
                b,
            ) => {
                let Some(a) = self.expr(a)? else { return Ok(None) };
                let mut result = is_true(a);
                if result == (*operator == BinaryOperator::LogicalAnd) {
                    let Some(b) = self.expr(b)? else { return Ok(None) };
                    result = is_true(b);
                }
                from_bool(result)
            }
            Expr::Binary(operator, a, b) => {
                let (Some(a), Some(b)) = (self.expr(a)?, self.expr(b)?) else { return Ok(None) };
                binary(*operator, a, b)?
            }
            Expr::Conditional(condition, a, b) => {
                let Some(condition) = self.expr(condition)? else { return Ok(None) };
                let ty = type_of(expr, self.types).map_err(|_| NO_TYPE)?;
                let taken = if is_true(condition) { a } else { b };
                let Some(value) = self.expr(taken)? else { return Ok(None) };
                convert(value, ty)?
            }
            Expr::Cast(ty, inner) => {
                let Some(value) = self.expr(inner)? else { return Ok(None) };
                convert(value, *ty)?
            }
            Expr::Call(function, args) => {
                let mut values = Vec::new();
                for arg in args {
                    values.push(self.expr(arg)?);
                }
                let Some(values) = values.into_iter().collect::<Option<Vec<_>>>() else {
                    return Ok(None);
                };
                call(*function, &values)?
            }
            Expr::Sum { count, value } => {
                let Some(count) = self.expr(count)? else { return Ok(None) };
                let ty = type_of(expr, self.types).map_err(|_| NO_TYPE)?;
                let mut sum = Some(convert(from_bool(false), ty)?);
                for k in 0..count.as_integer().clamp(0, u32::MAX.into()) as u32 {
                    self.bound.push(k);
                    let next = self.expr(value);
                    self.bound.pop();
                    sum = match (sum, next?) {
                        (Some(sum), Some(next)) => Some(binary(BinaryOperator::Add, sum, next)?),
                        _ => None,
                    };
                }
                return Ok(sum);
            }
        }))
    }
}

/// Error for an expression without a type. It never occurs, because the parser has checked the types.
const NO_TYPE: FormulaError = FormulaError::Undefined("it has no type");

fn from_bool(value: bool) -> Scalar {
    Scalar::from_integer(ScalarType::I32, value.into())
}

fn is_true(value: Scalar) -> bool {
    match value.ty.is_float() {
        true => value.as_f64() != 0.0,
        false => value.bits != 0,
    }
}

fn convert(value: Scalar, to: ScalarType) -> Result<Scalar, FormulaError> {
    if value.ty == to {
        return Ok(value);
    }
    let bits = match (value.ty.is_float(), to) {
        (false, ScalarType::F64) => (value.as_integer() as f64).to_bits(),
        (false, ScalarType::F32) => (value.as_integer() as f32).to_bits().into(),
        (true, ScalarType::F64) => value.as_f64().to_bits(),
        (true, ScalarType::F32) => (value.as_f64() as f32).to_bits().into(),
        (_, ScalarType::F16 | ScalarType::Bf16) => nearest(to, value.as_f64()),
        (false, to) => return Ok(Scalar::from_integer(to, value.as_integer())),
        (true, to) => {
            let number = value.as_f64().trunc();
            // Every f64 in the range of a 64-bit integer converts to i128 exactly.
            let whole = Scalar::from_integer(to, number as i128);
            let fits = number.is_finite() && whole.as_integer() == number as i128;
            return if fits {
                Ok(whole)
            } else {
                Err(FormulaError::Undefined("a float is out of the range of the integer type"))
            };
        }
    };
    Ok(Scalar { ty: to, bits })
}

/// Returns an integer of type `ty`. Returns an error if `ty` is signed and cannot represent the value.
fn checked_integer(ty: ScalarType, value: i128) -> Result<Scalar, FormulaError> {
    let whole = Scalar::from_integer(ty, value);
    match ty.is_signed() && whole.as_integer() != value {
        true => Err(FormulaError::Undefined("a signed number overflows")),
        false => Ok(whole),
    }
}

fn unary(sign: char, value: Scalar) -> Result<Scalar, FormulaError> {
    let ty = promoted_type(value.ty);
    match sign {
        '!' => Ok(from_bool(!is_true(value))),
        '~' => Ok(Scalar::from_integer(ty, !convert(value, ty)?.as_integer())),
        _ if ty.is_float() => {
            Ok(Scalar { ty, bits: value.bits ^ 1 << (8 * ty.bytes() as u32 - 1) })
        }
        _ => checked_integer(ty, -convert(value, ty)?.as_integer()),
    }
}

fn binary(operator: BinaryOperator, a: Scalar, b: Scalar) -> Result<Scalar, FormulaError> {
    if matches!(operator, BinaryOperator::Shl | BinaryOperator::Shr) {
        let ty = promoted_type(a.ty);
        let (value, by) = (convert(a, ty)?.as_integer(), b.as_integer());
        if !(0..8 * ty.bytes() as i128).contains(&by) {
            return Err(FormulaError::Undefined(
                "a shift by at least as many bits as the type has",
            ));
        }
        return Ok(match operator {
            BinaryOperator::Shl => Scalar::from_integer(ty, value << by),
            _ => Scalar::from_integer(ty, value >> by),
        });
    }
    let ty = common_type(a.ty, b.ty).map_err(|_| NO_TYPE)?;
    let (a, b) = (convert(a, ty)?, convert(b, ty)?);
    if operator.compares() {
        let order = match ty.is_float() {
            true => a.as_f64().partial_cmp(&b.as_f64()),
            false => Some(a.as_integer().cmp(&b.as_integer())),
        };
        return Ok(from_bool(match operator {
            BinaryOperator::Equal => order.is_some_and(|o| o.is_eq()),
            BinaryOperator::NotEqual => !order.is_some_and(|o| o.is_eq()),
            BinaryOperator::Less => order.is_some_and(|o| o.is_lt()),
            BinaryOperator::LessOrEqual => order.is_some_and(|o| o.is_le()),
            BinaryOperator::Greater => order.is_some_and(|o| o.is_gt()),
            _ => order.is_some_and(|o| o.is_ge()),
        }));
    }
    if ty.is_float() {
        return Ok(float_operation(operator, a, b));
    }
    let (a, b) = (a.as_integer(), b.as_integer());
    match operator {
        BinaryOperator::Add => checked_integer(ty, a + b),
        BinaryOperator::Sub => checked_integer(ty, a - b),
        BinaryOperator::Mul => checked_integer(ty, a.wrapping_mul(b)),
        BinaryOperator::Div | BinaryOperator::Rem if b == 0 => {
            Err(FormulaError::Undefined("a division by zero"))
        }
        BinaryOperator::Div => checked_integer(ty, a / b),
        // In C, the remainder is undefined if the quotient is.
        BinaryOperator::Rem => checked_integer(ty, a / b).map(|_| Scalar::from_integer(ty, a % b)),
        BinaryOperator::And => Ok(Scalar::from_integer(ty, a & b)),
        BinaryOperator::Or => Ok(Scalar::from_integer(ty, a | b)),
        _ => Ok(Scalar::from_integer(ty, a ^ b)),
    }
}

/// Adds, subtracts, multiplies or divides two numbers with one rounding. For f16 and bf16, the operation is computed in
/// f32 and rounded again. f32 has more than twice as many digits, so rounding twice gives the same result as rounding
/// once.
fn float_operation(operator: BinaryOperator, a: Scalar, b: Scalar) -> Scalar {
    fn apply<T>(operator: BinaryOperator, a: T, b: T) -> T
    where
        T: std::ops::Add<Output = T>
            + std::ops::Sub<Output = T>
            + std::ops::Mul<Output = T>
            + std::ops::Div<Output = T>,
    {
        match operator {
            BinaryOperator::Add => a + b,
            BinaryOperator::Sub => a - b,
            BinaryOperator::Mul => a * b,
            _ => a / b,
        }
    }
    let ty = a.ty;
    let narrow = || apply(operator, a.as_f64() as f32, b.as_f64() as f32);
    let bits = match ty {
        ScalarType::F64 => apply(operator, a.as_f64(), b.as_f64()).to_bits(),
        _ => nearest(ty, narrow().into()),
    };
    Scalar { ty, bits }
}

fn call(function: MathFunction, args: &[Scalar]) -> Result<Scalar, FormulaError> {
    let mut ty = promoted_type(args[0].ty);
    for arg in &args[1..] {
        ty = common_type(ty, arg.ty).map_err(|_| NO_TYPE)?;
    }
    let args: Vec<Scalar> = args.iter().map(|arg| convert(*arg, ty)).collect::<Result<_, _>>()?;
    // The conversion is exact, because the arguments have type f32 here.
    let narrow = |arg: &Scalar| arg.as_f64() as f32;
    let float = |wide: f64, narrow: f32| match ty {
        ScalarType::F64 => Scalar { ty, bits: wide.to_bits() },
        _ => Scalar::f32(narrow),
    };
    match function {
        MathFunction::Min | MathFunction::Max => {
            let operator = if function == MathFunction::Min {
                BinaryOperator::Less
            } else {
                BinaryOperator::Greater
            };
            Ok(args[usize::from(!is_true(binary(operator, args[0], args[1])?))])
        }
        MathFunction::Abs if ty.is_float() => {
            Ok(Scalar { ty, bits: args[0].bits & !(1 << (8 * ty.bytes() as u32 - 1)) })
        }
        MathFunction::Abs => checked_integer(ty, args[0].as_integer().abs()),
        MathFunction::Sqrt => Ok(float(args[0].as_f64().sqrt(), narrow(&args[0]).sqrt())),
        MathFunction::Fma => Ok(float(
            args[0].as_f64().mul_add(args[1].as_f64(), args[2].as_f64()),
            narrow(&args[0]).mul_add(narrow(&args[1]), narrow(&args[2])),
        )),
    }
}
