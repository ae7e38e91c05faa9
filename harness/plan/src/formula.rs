//! What a case's own kernel computes, as the case says it: `out[i] = a * in[i] + 1 for i < n`.
//!
//! The right side is an expression of C over the parameters of the kernel, with the conversions and the rounding of C and nothing
//! contracted: who wants one rounding writes `fma`. `i` is the element, from 0 up to the bound, or `items`, the work-items
//! of the launch. All that is read is read before anything is written.
//!
//! What C leaves undefined has no right result, and is a mistake of the case.

mod evaluate;
mod parse;

pub use self::evaluate::{FormulaError, FormulaInputs};
use crate::{OwnKind, OwnParameter, Scalar, ScalarType};

/// One output of a kernel, element by element. Parameters count as [`flat_parameters`](crate::flat_parameters) has them.
#[derive(Clone, Debug, PartialEq)]
pub struct Formula {
    /// Which parameter it is.
    pub out: usize,
    /// The type of its elements.
    pub element: ScalarType,
    /// Which element is written.
    pub at: Expr,
    /// What is written.
    pub value: Expr,
    /// How many there are.
    pub count: Expr,
    /// The types of the parameters that are numbers or point to some.
    pub(crate) types: Vec<Option<ScalarType>>,
}

/// An expression.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "the fields are operands")]
pub enum Expr {
    /// A number.
    Literal(Scalar),
    /// `i`, an `unsigned int`.
    Item,
    /// `items`, an `unsigned int`.
    Items,
    /// The variable of a sum, by how many sums are around it; an `unsigned int`.
    Bound(usize),
    /// A parameter that is a number.
    Number(usize),
    /// An element of what a parameter points to.
    Element(usize, Box<Expr>),
    /// `-`, `~` or `!`.
    Unary(char, Box<Expr>),
    /// Two operands.
    Binary(Binary, Box<Expr>, Box<Expr>),
    /// `c ? a : b`.
    Either(Box<Expr>, Box<Expr>, Box<Expr>),
    /// A type as a function.
    Cast(ScalarType, Box<Expr>),
    /// `fma`, `min`, `max`, `abs` or `sqrt`.
    Call(Function, Vec<Expr>),
    /// `sum(k < count, value)`, one after the other from 0.
    Sum { count: Box<Expr>, value: Box<Expr> },
}

/// Operators with two operands, as C writes them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "each is what its name says")]
pub enum Binary {
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
    Differ,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    Both,
    Any,
}

impl Binary {
    /// Every operator with its sign and how tightly it binds.
    pub(crate) const ALL: [(&'static str, Binary, u8); 18] = [
        ("||", Binary::Any, 1),
        ("&&", Binary::Both, 2),
        ("|", Binary::Or, 3),
        ("^", Binary::Xor, 4),
        ("&", Binary::And, 5),
        ("==", Binary::Equal, 6),
        ("!=", Binary::Differ, 6),
        ("<=", Binary::LessOrEqual, 7),
        (">=", Binary::GreaterOrEqual, 7),
        ("<", Binary::Less, 7),
        (">", Binary::Greater, 7),
        ("<<", Binary::Shl, 8),
        (">>", Binary::Shr, 8),
        ("+", Binary::Add, 9),
        ("-", Binary::Sub, 9),
        ("*", Binary::Mul, 10),
        ("/", Binary::Div, 10),
        ("%", Binary::Rem, 10),
    ];

    /// How C writes it.
    pub fn sign(self) -> &'static str {
        Self::ALL.iter().find(|(_, of, _)| *of == self).map_or("", |(sign, ..)| sign)
    }

    /// Whether it compares numbers.
    pub fn compares(self) -> bool {
        matches!(
            self,
            Binary::Equal
                | Binary::Differ
                | Binary::Less
                | Binary::LessOrEqual
                | Binary::Greater
                | Binary::GreaterOrEqual
        )
    }
}

/// Functions of one to three numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "each is what its name says")]
pub enum Function {
    /// a * b + c with one rounding.
    Fma,
    /// `a < b ? a : b`.
    Min,
    /// `a > b ? a : b`.
    Max,
    Abs,
    Sqrt,
}

impl Function {
    pub(crate) const ALL: [(&'static str, Function, usize); 5] = [
        ("fma", Function::Fma, 3),
        ("min", Function::Min, 2),
        ("max", Function::Max, 2),
        ("abs", Function::Abs, 1),
        ("sqrt", Function::Sqrt, 1),
    ];
}

impl Formula {
    /// Reads what one line says of a kernel with these parameters.
    ///
    /// # Errors
    /// What is wrong with it, in words.
    pub fn parse(text: &str, parameters: &[OwnParameter]) -> Result<Formula, String> {
        parse::formula(text, parameters)
    }

    /// The type of an expression of this formula.
    ///
    /// # Errors
    /// It has none, in words.
    pub fn type_of(&self, expr: &Expr) -> Result<ScalarType, String> {
        type_of(expr, &self.types)
    }
}

/// The types of what a formula can speak of.
fn types(parameters: &[OwnParameter]) -> Vec<Option<ScalarType>> {
    let ty = |parameter: &OwnParameter| match parameter.kind {
        OwnKind::Pointer { element, .. } => element,
        OwnKind::Number { of } => Some(of),
        OwnKind::Struct { .. } | OwnKind::Other => None,
    };
    parameters.iter().map(ty).collect()
}

/// What C makes of small integers before it computes with them.
pub fn promoted_type(ty: ScalarType) -> ScalarType {
    match ty {
        ScalarType::I8 | ScalarType::U8 | ScalarType::I16 | ScalarType::U16 => ScalarType::I32,
        ty => ty,
    }
}

/// The type in which C computes with two numbers.
///
/// # Errors
/// There is none.
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
        Expr::Binary(Binary::Both | Binary::Any, a, b) => {
            of(a)?;
            of(b).map(|_| ScalarType::I32)?
        }
        Expr::Binary(Binary::Shl | Binary::Shr, a, b) => {
            whole(of(b)?, "a shift")?;
            whole(promoted_type(of(a)?), "a shift")?
        }
        Expr::Binary(operator, a, b) => {
            let ty = common_type(of(a)?, of(b)?)?;
            match operator {
                Binary::Rem | Binary::And | Binary::Or | Binary::Xor => {
                    whole(ty, &format!("`{}`", operator.sign()))?
                }
                operator if operator.compares() => ScalarType::I32,
                _ => ty,
            }
        }
        Expr::Either(condition, a, b) => {
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
            if matches!(function, Function::Fma | Function::Sqrt) && !wide {
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
    ty.ok_or_else(|| "this parameter is no number that a formula knows".to_owned())
}
