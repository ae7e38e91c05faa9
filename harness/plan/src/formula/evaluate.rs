//! The value of a formula, as C has it.

use super::{Binary, Expr, Formula, Function, common_type, promoted_type, type_of};
use crate::{Scalar, ScalarType, scalar::nearest};

/// Why a formula has no value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FormulaError {
    /// An element lies outside of the buffer.
    Outside,
    /// C leaves it undefined, for this reason.
    Undefined(&'static str),
    /// It takes more steps than anybody wants to wait for.
    TooMuch,
}

/// What a formula is over.
pub trait FormulaInputs {
    /// The number that a parameter is.
    fn number(&self, parameter: usize) -> Option<Scalar>;

    /// An element of what a parameter points to; none within where it cannot be known beforehand.
    ///
    /// # Errors
    /// It lies outside.
    fn element(&self, parameter: usize, at: i128) -> Result<Option<Scalar>, FormulaError>;
}

/// Steps that the formulas of one launch may take.
const MOST_STEPS: u64 = 1 << 28;

/// A value, if it can be known.
type Value = Result<Option<Scalar>, FormulaError>;

struct Run<'v, V> {
    values: &'v V,
    types: &'v [Option<ScalarType>],
    item: u32,
    items: u32,
    bound: Vec<u32>,
    steps: u64,
}

impl Formula {
    /// Gives `write` each element that is written, with its index and its bytes; none where these cannot be known.
    ///
    /// # Errors
    /// The first element without a value, by its number, and why.
    pub fn evaluate(
        &self,
        values: &impl FormulaInputs,
        items: u32,
        mut write: impl FnMut(i128, Option<Scalar>) -> Result<(), FormulaError>,
    ) -> Result<(), (u32, FormulaError)> {
        let types = self.types.as_slice();
        let mut run = Run { values, types, item: 0, items, bound: Vec::new(), steps: 0 };
        // How many there are is given by numbers, which are known.
        let count = run.expr(&self.count).map_err(|wrong| (0, wrong))?;
        let count = count.map_or(0, Scalar::as_whole).clamp(0, u32::MAX.into()) as u32;
        for item in 0..count {
            run.item = item;
            let mut one = |run: &mut Run<'_, _>| {
                let at = run
                    .expr(&self.at)?
                    .ok_or(FormulaError::Undefined("where it writes is not known"))?;
                let value = run.expr(&self.value)?;
                let value = value.map(|value| convert(value, self.element)).transpose()?;
                write(at.as_whole(), value)
            };
            one(&mut run).map_err(|wrong| (item, wrong))?;
        }
        Ok(())
    }
}

impl<V: FormulaInputs> Run<'_, V> {
    fn expr(&mut self, expr: &Expr) -> Value {
        self.steps += 1;
        if self.steps > MOST_STEPS {
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
                return self.values.element(*index, at.as_whole());
            }
            Expr::Unary(sign, inner) => {
                let Some(value) = self.expr(inner)? else { return Ok(None) };
                unary(*sign, value)?
            }
            Expr::Binary(operator @ (Binary::Both | Binary::Any), a, b) => {
                let Some(a) = self.expr(a)? else { return Ok(None) };
                let mut result = is_true(a);
                if result == (*operator == Binary::Both) {
                    let Some(b) = self.expr(b)? else { return Ok(None) };
                    result = is_true(b);
                }
                truth(result)
            }
            Expr::Binary(operator, a, b) => {
                let (Some(a), Some(b)) = (self.expr(a)?, self.expr(b)?) else { return Ok(None) };
                binary(*operator, a, b)?
            }
            Expr::Either(condition, a, b) => {
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
                let mut sum = Some(convert(truth(false), ty)?);
                for k in 0..count.as_whole().clamp(0, u32::MAX.into()) as u32 {
                    self.bound.push(k);
                    let next = self.expr(value);
                    self.bound.pop();
                    sum = match (sum, next?) {
                        (Some(sum), Some(next)) => Some(binary(Binary::Add, sum, next)?),
                        _ => None,
                    };
                }
                return Ok(sum);
            }
        }))
    }
}

/// A formula that was read has types.
const NO_TYPE: FormulaError = FormulaError::Undefined("it has no type");

fn truth(value: bool) -> Scalar {
    Scalar::whole(ScalarType::I32, value.into())
}

fn is_true(value: Scalar) -> bool {
    match value.ty.is_float() {
        true => value.as_f64() != 0.0,
        false => value.bits != 0,
    }
}

/// A number as one of another type.
fn convert(value: Scalar, to: ScalarType) -> Result<Scalar, FormulaError> {
    if value.ty == to {
        return Ok(value);
    }
    let bits = match (value.ty.is_float(), to) {
        (false, ScalarType::F64) => (value.as_whole() as f64).to_bits(),
        (false, ScalarType::F32) => (value.as_whole() as f32).to_bits().into(),
        (true, ScalarType::F64) => value.as_f64().to_bits(),
        (true, ScalarType::F32) => (value.as_f64() as f32).to_bits().into(),
        (_, ScalarType::F16 | ScalarType::Bf16) => nearest(to, value.as_f64()),
        (false, to) => return Ok(Scalar::whole(to, value.as_whole())),
        (true, to) => {
            let number = value.as_f64().trunc();
            // Every float of 64 bits that is in the range of a type of 64 bits is a number of 128.
            let whole = Scalar::whole(to, number as i128);
            let fits = number.is_finite() && whole.as_whole() == number as i128;
            return if fits {
                Ok(whole)
            } else {
                Err(FormulaError::Undefined("a float does not fit its integer"))
            };
        }
    };
    Ok(Scalar { ty: to, bits })
}

/// A whole number, of a signed type only where it is in its range.
fn exact(ty: ScalarType, value: i128) -> Result<Scalar, FormulaError> {
    let whole = Scalar::whole(ty, value);
    match ty.is_signed() && whole.as_whole() != value {
        true => Err(FormulaError::Undefined("a signed number overflows")),
        false => Ok(whole),
    }
}

fn unary(sign: char, value: Scalar) -> Result<Scalar, FormulaError> {
    let ty = promoted_type(value.ty);
    match sign {
        '!' => Ok(truth(!is_true(value))),
        '~' => Ok(Scalar::whole(ty, !convert(value, ty)?.as_whole())),
        _ if ty.is_float() => {
            Ok(Scalar { ty, bits: value.bits ^ 1 << (8 * ty.bytes() as u32 - 1) })
        }
        _ => exact(ty, -convert(value, ty)?.as_whole()),
    }
}

fn binary(operator: Binary, a: Scalar, b: Scalar) -> Result<Scalar, FormulaError> {
    if matches!(operator, Binary::Shl | Binary::Shr) {
        let ty = promoted_type(a.ty);
        let (value, by) = (convert(a, ty)?.as_whole(), b.as_whole());
        if !(0..8 * ty.bytes() as i128).contains(&by) {
            return Err(FormulaError::Undefined(
                "a shift by as many bits as the type has, or more",
            ));
        }
        return Ok(match operator {
            Binary::Shl => Scalar::whole(ty, value << by),
            _ => Scalar::whole(ty, value >> by),
        });
    }
    let ty = common_type(a.ty, b.ty).map_err(|_| NO_TYPE)?;
    let (a, b) = (convert(a, ty)?, convert(b, ty)?);
    if operator.compares() {
        let order = match ty.is_float() {
            true => a.as_f64().partial_cmp(&b.as_f64()),
            false => Some(a.as_whole().cmp(&b.as_whole())),
        };
        return Ok(truth(match operator {
            Binary::Equal => order.is_some_and(|o| o.is_eq()),
            Binary::Differ => !order.is_some_and(|o| o.is_eq()),
            Binary::Less => order.is_some_and(|o| o.is_lt()),
            Binary::LessOrEqual => order.is_some_and(|o| o.is_le()),
            Binary::Greater => order.is_some_and(|o| o.is_gt()),
            _ => order.is_some_and(|o| o.is_ge()),
        }));
    }
    if ty.is_float() {
        return Ok(of_floats(operator, a, b));
    }
    let (a, b) = (a.as_whole(), b.as_whole());
    match operator {
        Binary::Add => exact(ty, a + b),
        Binary::Sub => exact(ty, a - b),
        Binary::Mul => exact(ty, a.wrapping_mul(b)),
        Binary::Div | Binary::Rem if b == 0 => Err(FormulaError::Undefined("a division by zero")),
        Binary::Div => exact(ty, a / b),
        // Undefined where the quotient is.
        Binary::Rem => exact(ty, a / b).map(|_| Scalar::whole(ty, a % b)),
        Binary::And => Ok(Scalar::whole(ty, a & b)),
        Binary::Or => Ok(Scalar::whole(ty, a | b)),
        _ => Ok(Scalar::whole(ty, a ^ b)),
    }
}

/// Sums, differences, products and quotients, each rounded once: a float of 32 bits has more than twice the digits of one of 16,
/// so that to round its result again is no second rounding.
fn of_floats(operator: Binary, a: Scalar, b: Scalar) -> Scalar {
    fn apply<T>(operator: Binary, a: T, b: T) -> T
    where
        T: std::ops::Add<Output = T>
            + std::ops::Sub<Output = T>
            + std::ops::Mul<Output = T>
            + std::ops::Div<Output = T>,
    {
        match operator {
            Binary::Add => a + b,
            Binary::Sub => a - b,
            Binary::Mul => a * b,
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

fn call(function: Function, args: &[Scalar]) -> Result<Scalar, FormulaError> {
    let mut ty = promoted_type(args[0].ty);
    for arg in &args[1..] {
        ty = common_type(ty, arg.ty).map_err(|_| NO_TYPE)?;
    }
    let args: Vec<Scalar> = args.iter().map(|arg| convert(*arg, ty)).collect::<Result<_, _>>()?;
    // Of `f32`, every number is one of `f64` too.
    let narrow = |arg: &Scalar| arg.as_f64() as f32;
    let float = |wide: f64, narrow: f32| match ty {
        ScalarType::F64 => Scalar { ty, bits: wide.to_bits() },
        _ => Scalar::f32(narrow),
    };
    match function {
        Function::Min | Function::Max => {
            let operator = if function == Function::Min { Binary::Less } else { Binary::Greater };
            Ok(args[usize::from(!is_true(binary(operator, args[0], args[1])?))])
        }
        Function::Abs if ty.is_float() => {
            Ok(Scalar { ty, bits: args[0].bits & !(1 << (8 * ty.bytes() as u32 - 1)) })
        }
        Function::Abs => exact(ty, args[0].as_whole().abs()),
        Function::Sqrt => Ok(float(args[0].as_f64().sqrt(), narrow(&args[0]).sqrt())),
        Function::Fma => Ok(float(
            args[0].as_f64().mul_add(args[1].as_f64(), args[2].as_f64()),
            narrow(&args[0]).mul_add(narrow(&args[1]), narrow(&args[2])),
        )),
    }
}
