//! Formulas for the outputs of kernels that a case defines, for example `out[i] = a * in[i] + 1 for i < n`.
//!
//! The right side is a C expression over the parameters of the kernel. Conversions and rounding follow the rules of C.
//! A product and a sum are rounded separately, except in `fma`, which rounds once. `i` is the index of the element,
//! from 0 up to the bound after `for i <`, or up to `items`, the number of work-items of the launch. All reads happen
//! before the first write.
//!
//! A formula with undefined behaviour in C is reported as a mistake in the case.

mod evaluate;
mod parse;

pub use self::evaluate::{FormulaError, FormulaInputs};
use crate::{KernelParameter, KernelParameterKind, Scalar, ScalarType};

/// The formula of one output, evaluated once per element. Parameter indices refer to the result of
/// [`flat_parameters`](crate::flat_parameters).
#[derive(Clone, Debug, PartialEq)]
pub struct Formula {
    /// Index of the parameter that points to the output.
    pub out: usize,
    /// Type of the output's elements.
    pub element: ScalarType,
    /// Expression for the index of the element to write.
    pub at: Expr,
    /// Expression for the value to write.
    pub value: Expr,
    /// Number of evaluations, which is the bound of the index `i`.
    pub count: Expr,
    /// Type of each parameter that is a number or points to numbers; `None` for other parameters.
    pub(crate) types: Vec<Option<ScalarType>>,
}

/// An expression of a formula.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "the fields are operands")]
pub enum Expr {
    /// A numeric literal.
    Literal(Scalar),
    /// The index `i`, an `unsigned int`.
    Item,
    /// The number of work-items, `items`, an `unsigned int`.
    Items,
    /// The variable of a `sum`, an `unsigned int`. The number is how many other sums enclose that sum.
    Bound(usize),
    /// The value of a numeric parameter.
    Number(usize),
    /// An element of the buffer that a parameter points to.
    Element(usize, Box<Expr>),
    /// The operator `-`, `~` or `!`.
    Unary(char, Box<Expr>),
    /// A binary operator.
    Binary(BinaryOperator, Box<Expr>, Box<Expr>),
    /// The conditional `c ? a : b`.
    Conditional(Box<Expr>, Box<Expr>, Box<Expr>),
    /// A type conversion, written as a call of the type, for example `f32(x)`.
    Cast(ScalarType, Box<Expr>),
    /// A call of `fma`, `min`, `max`, `abs` or `sqrt`.
    Call(MathFunction, Vec<Expr>),
    /// The sum `sum(k < count, value)`. Its terms are the values of `value` for `k` from 0 to `count - 1`, added in
    /// this order.
    Sum { count: Box<Expr>, value: Box<Expr> },
}

/// Binary operators of C.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the variant names are self-explanatory")]
pub enum BinaryOperator {
    Add,
    Sub,
    Mul,
    Div,
    Rem,
    Shl,
    Shr,
    And,
    Or,
    Xor,
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    LogicalAnd,
    LogicalOr,
}

impl BinaryOperator {
    /// All operators, each with its symbol and precedence. A higher precedence binds more tightly.
    pub(crate) const ALL: [(&'static str, BinaryOperator, u8); 18] = [
        ("||", BinaryOperator::LogicalOr, 1),
        ("&&", BinaryOperator::LogicalAnd, 2),
        ("|", BinaryOperator::Or, 3),
        ("^", BinaryOperator::Xor, 4),
        ("&", BinaryOperator::And, 5),
        ("==", BinaryOperator::Equal, 6),
        ("!=", BinaryOperator::NotEqual, 6),
        ("<=", BinaryOperator::LessOrEqual, 7),
        (">=", BinaryOperator::GreaterOrEqual, 7),
        ("<", BinaryOperator::Less, 7),
        (">", BinaryOperator::Greater, 7),
        ("<<", BinaryOperator::Shl, 8),
        (">>", BinaryOperator::Shr, 8),
        ("+", BinaryOperator::Add, 9),
        ("-", BinaryOperator::Sub, 9),
        ("*", BinaryOperator::Mul, 10),
        ("/", BinaryOperator::Div, 10),
        ("%", BinaryOperator::Rem, 10),
    ];

    /// Returns the operator's symbol in C.
    pub fn sign(self) -> &'static str {
        Self::ALL.iter().find(|(_, of, _)| *of == self).map_or("", |(sign, ..)| sign)
    }

    /// Returns true if the operator compares its operands.
    pub fn compares(self) -> bool {
        matches!(
            self,
            BinaryOperator::Equal
                | BinaryOperator::NotEqual
                | BinaryOperator::Less
                | BinaryOperator::LessOrEqual
                | BinaryOperator::Greater
                | BinaryOperator::GreaterOrEqual
        )
    }
}

/// Functions that a formula can call, with one to three numeric arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the variant names are self-explanatory")]
pub enum MathFunction {
    /// `a * b + c`, rounded once.
    Fma,
    /// `a < b ? a : b`.
    Min,
    /// `a > b ? a : b`.
    Max,
    Abs,
    Sqrt,
}

impl MathFunction {
    pub(crate) const ALL: [(&'static str, MathFunction, usize); 5] = [
        ("fma", MathFunction::Fma, 3),
        ("min", MathFunction::Min, 2),
        ("max", MathFunction::Max, 2),
        ("abs", MathFunction::Abs, 1),
        ("sqrt", MathFunction::Sqrt, 1),
    ];
}

impl Formula {
    /// Parses a formula for a kernel with the given parameters.
    ///
    /// # Errors
    /// Returns a message that describes the mistake.
    pub fn parse(text: &str, parameters: &[KernelParameter]) -> Result<Formula, String> {
        parse::formula(text, parameters)
    }

    /// Returns the type of an expression of this formula.
    ///
    /// # Errors
    /// Returns a message if the operands have no valid type.
    pub fn type_of(&self, expr: &Expr) -> Result<ScalarType, String> {
        type_of(expr, &self.types)
    }
}

fn types(parameters: &[KernelParameter]) -> Vec<Option<ScalarType>> {
    let ty = |parameter: &KernelParameter| match parameter.kind {
        KernelParameterKind::Pointer { element, .. } => element,
        KernelParameterKind::Number { of } => Some(of),
        KernelParameterKind::Struct { .. } | KernelParameterKind::Other => None,
    };
    parameters.iter().map(ty).collect()
}

/// Returns the type to which C promotes an operand of this type.
pub fn promoted_type(ty: ScalarType) -> ScalarType {
    match ty {
        ScalarType::I8 | ScalarType::U8 | ScalarType::I16 | ScalarType::U16 => ScalarType::I32,
        ty => ty,
    }
}

/// Returns the type in which C computes an operation on operands of the two types.
///
/// # Errors
/// Returns a message for `f16` with `bf16`, which have no common type.
pub fn common_type(a: ScalarType, b: ScalarType) -> Result<ScalarType, String> {
    use ScalarType::{F32, F64};
    let (a, b) = (promoted_type(a), promoted_type(b));
    Ok(match (a.is_float(), b.is_float()) {
        _ if a == b => a,
        (true, false) => a,
        (false, true) => b,
        (true, true) if a == F64 || b == F64 => F64,
        (true, true) if a == F32 || b == F32 => F32,
        (true, true) => return Err("`f16` and `bf16` have no type in common".to_owned()),
        (false, false) if a.is_signed() == b.is_signed() => {
            if a.bytes() > b.bytes() {
                a
            } else {
                b
            }
        }
        (false, false) => {
            let (signed, other) = if a.is_signed() { (a, b) } else { (b, a) };
            if other.bytes() >= signed.bytes() { other } else { signed }
        }
    })
}

fn type_of(expr: &Expr, types: &[Option<ScalarType>]) -> Result<ScalarType, String> {
    let of = |expr: &Expr| type_of(expr, types);
    let whole = |ty: ScalarType, what: &str| match ty.is_float() {
        true => Err(format!("{what} takes whole numbers")),
        false => Ok(ty),
    };
    Ok(match expr {
        Expr::Literal(scalar) => scalar.ty,
        Expr::Item | Expr::Items | Expr::Bound(_) => ScalarType::U32,
        Expr::Number(index) => known(types, *index)?,
        Expr::Element(index, at) => {
            whole(of(at)?, "an index")?;
            known(types, *index)?
        }
        Expr::Unary('!', inner) => of(inner).map(|_| ScalarType::I32)?,
        Expr::Unary('~', inner) => whole(promoted_type(of(inner)?), "`~`")?,
        Expr::Unary(_, inner) => promoted_type(of(inner)?),
        Expr::Binary(BinaryOperator::LogicalAnd | BinaryOperator::LogicalOr, a, b) => {
            of(a)?;
            of(b).map(|_| ScalarType::I32)?
        }
        Expr::Binary(BinaryOperator::Shl | BinaryOperator::Shr, a, b) => {
            whole(of(b)?, "a shift")?;
            whole(promoted_type(of(a)?), "a shift")?
        }
        Expr::Binary(operator, a, b) => {
            let ty = common_type(of(a)?, of(b)?)?;
            match operator {
                BinaryOperator::Rem
                | BinaryOperator::And
                | BinaryOperator::Or
                | BinaryOperator::Xor => whole(ty, &format!("`{}`", operator.sign()))?,
                operator if operator.compares() => ScalarType::I32,
                _ => ty,
            }
        }
        Expr::Conditional(condition, a, b) => {
            of(condition)?;
            common_type(of(a)?, of(b)?)?
        }
        Expr::Cast(ty, inner) => of(inner).map(|_| *ty)?,
        Expr::Call(function, args) => {
            let mut ty = promoted_type(of(&args[0])?);
            for arg in &args[1..] {
                ty = common_type(ty, of(arg)?)?;
            }
            let wide = matches!(ty, ScalarType::F32 | ScalarType::F64);
            if matches!(function, MathFunction::Fma | MathFunction::Sqrt) && !wide {
                return Err("`fma` and `sqrt` take `f32` or `f64`".to_owned());
            }
            ty
        }
        Expr::Sum { count, value } => {
            whole(of(count)?, "a bound")?;
            promoted_type(of(value)?)
        }
    })
}

fn known(types: &[Option<ScalarType>], index: usize) -> Result<ScalarType, String> {
    let ty = types.get(index).copied().flatten();
    ty.ok_or_else(|| "this parameter has no type that formulas support".to_owned())
}
