//! Generates expressions of random kernels. The value of each expression is defined in C for all operands.

use super::{FLOATS, INTEGERS, ITEMS, Type, U32, Writer, scalar};

/// Bits of floats that are inline constants or ends of ranges, in one list for each float size.
const F16: [u64; 10] = [0, 0x8000, 0x3c00, 0xbc00, 0x3800, 0x4400, 0x7bff, 0x0001, 0x7c00, 0x3118];
const F32: [u64; 11] = [
    0,
    1 << 31,
    0x3f80_0000,
    0xbf80_0000,
    0x3f00_0000,
    0xc080_0000,
    0x3e22_f983,
    1,
    0x7f80_0000,
    0x7f7f_ffff,
    0x4049_0fdb,
];
const F64: [u64; 9] = [
    0,
    1 << 63,
    0x3ff0_0000_0000_0000,
    0xbfe0_0000_0000_0000,
    0x4010_0000_0000_0000,
    0x3fc4_5f30_6dc9_c882,
    1,
    0x7ff0_0000_0000_0000,
    0x4009_21fb_5444_2d18,
];
const ENDS: [u64; 16] = [
    0,
    1,
    2,
    3,
    64,
    65,
    u64::MAX,
    u64::MAX - 15,
    u64::MAX - 16,
    0x7f,
    0x80,
    0xffff,
    0x7fff_ffff,
    0x8000_0000,
    0xffff_ffff,
    1 << 63,
];

/// Number of operations that [`Writer::known`] can return.
pub(super) const KNOWN: usize = 48;

impl Writer {
    pub(super) fn condition(&mut self, depth: usize) -> String {
        self.perhaps_uniform(5, |this| this.any_condition(depth))
    }

    /// Draws an expression. With probability 1 / `one_in`, draws a uniform one, which has the same value in all
    /// work-items.
    fn perhaps_uniform(
        &mut self,
        one_in: usize,
        draw: impl FnOnce(&mut Writer) -> String,
    ) -> String {
        let before = self.uniform;
        self.uniform |= self.draw.one_in(one_in);
        let text = draw(self);
        self.uniform = before;
        text
    }

    fn any_condition(&mut self, depth: usize) -> String {
        if depth > 0 && self.draw.one_in(4) {
            let (a, b) = (self.condition(depth - 1), self.condition(depth - 1));
            let what = self.draw.pick(&["&&", "||", "!=", "=="]);
            return format!("(({a}) {what} ({b}))");
        }
        let all: Vec<_> = INTEGERS.into_iter().chain(FLOATS).collect();
        let of = self.draw.pick(&all);
        let (a, b) = (self.expression(of, depth), self.expression(of, depth));
        let what = self.draw.pick(&["<", ">", "<=", ">=", "==", "!="]);
        // A constant on the left side would cause a compiler warning.
        format!("({a} {what} {b})")
    }

    /// Returns a random expression of type `of` with at most `depth` levels of nesting.
    pub(super) fn expression(&mut self, of: Type, depth: usize) -> String {
        if depth == 0 || self.draw.one_in(6) {
            return self.leaf(of);
        }
        let text = self.perhaps_uniform(8, |this| match (of.lanes, of.is_float()) {
            (1, false) => this.integer(of, depth - 1),
            (1, true) => this.float(of, depth - 1),
            _ => this.vector(of, depth - 1),
        });
        format!("({text})")
    }

    fn some<const N: usize>(&mut self, of: Type, depth: usize) -> [String; N] {
        [(); N].map(|()| self.expression(of, depth))
    }

    /// Returns an input or a constant whose value is the same in all work-items.
    fn uniform_leaf(&mut self, of: Type) -> String {
        if self.draw.one_in(4) {
            return self.literal(of);
        }
        let (at, name) = (self.draw.below(ITEMS), of.name());
        match (of.is_float(), of.bits) {
            (true, 16) => format!("as_f16((u16)uni[{at}])"),
            (true, 32) => format!("as_f32(uni[{at}])"),
            (true, _) => format!("(f64)as_f32(uni[{at}])"),
            (false, 64) => format!("({name})((u64)uni[{}] << 32 | uni[{}])", at | 1, at & !1),
            _ => format!("({name})uni[{at}]"),
        }
    }

    fn leaf(&mut self, of: Type) -> String {
        if self.uniform && of.lanes == 1 {
            return self.uniform_leaf(of);
        }
        let known: Vec<_> =
            self.variables.iter().filter(|v| v.of == of).map(|v| v.name.clone()).collect();
        if !self.uniform && !known.is_empty() && self.draw.below(4) > 0 {
            return known[self.draw.below(known.len())].clone();
        }
        if of.lanes > 1 {
            let each: Vec<_> = (0..of.lanes).map(|_| self.leaf(of.element())).collect();
            return format!("(({}){{{}}})", of.name(), each.join(", "));
        }
        let holders: Vec<_> = self
            .variables
            .iter()
            .filter(|v| v.of.lanes > 1 && v.of.element() == of)
            .map(|v| (v.name.clone(), v.of.lanes))
            .collect();
        if !holders.is_empty() && self.draw.one_in(2) {
            let (name, lanes) = &holders[self.draw.below(holders.len())];
            return match self.draw.below(4) {
                0 => format!("{name}[(t + s->u32_0) & {}]", lanes - 1),
                _ => format!("{name}[{}]", self.draw.below(*lanes)),
            };
        }
        if of == U32 {
            let word = format!("s->u32_{}", self.draw.below(3));
            match self.draw.below(8) {
                0 => return "t".to_owned(),
                1 => return format!("table[{word} & 15]"),
                2 => return format!("s->array[{word} & 7]"),
                3 => return format!("other[{word} & {}]", 4 * ITEMS - 1),
                4 => return format!("own[t * 4 + ({word} & 3)]"),
                5 if self.atomic.is_empty() => return format!("both[{word} & 31]"),
                _ => {}
            }
        }
        self.literal(of)
    }

    fn literal(&mut self, of: Type) -> String {
        let any = self.draw.next();
        if of.is_float() {
            let ends: &[u64] = match of.bits {
                16 => &F16,
                32 => &F32,
                _ => &F64,
            };
            let bits = if self.draw.one_in(4) { any } else { self.draw.pick(ends) };
            return match of.bits {
                16 => format!("as_f16((u16){:#x})", bits & 0xffff),
                32 => format!("as_f32({:#x}u)", bits & 0xffff_ffff),
                _ => format!("as_f64({bits:#x}ull)"),
            };
        }
        let value = match self.draw.below(4) {
            0 => any,
            1 => any % 64,
            _ => self.draw.pick(&ENDS),
        };
        format!("({})({:#x}ull)", of.name(), value & (u64::MAX >> (64 - of.bits)))
    }

    fn integer(&mut self, of: Type, depth: usize) -> String {
        let (name, wide) = (of.name(), of.wide());
        let [a, b, c] = self.some(of, depth);
        let u32s = |this: &mut Writer| this.some::<3>(U32, depth);
        match self.draw.below(16) {
            0..=3 => {
                let what = self.draw.pick(&["+", "-", "*", "&", "|", "^", "+"]);
                format!("({name})(({wide}){a} {what} ({wide}){b})")
            }
            4 => {
                let [n, ..] = u32s(self);
                let most = of.bits - 1;
                match self.draw.below(2) {
                    0 => format!("({name})(({wide}){a} << ({n} & {most}))"),
                    _ => format!("({name})({a} >> ({n} & {most}))"),
                }
            }
            5 => {
                let what = self.draw.pick(&["/", "%"]);
                // C does not define the division of the smallest number by minus one.
                let half = if of.kind == 'i' { ">> 1" } else { "+ 0" };
                format!("({name})(({name})({a} {half}) {what} ({name})({b} | 1))")
            }
            6 => format!("({name})({} ? {a} : {b})", self.condition(depth)),
            7 => {
                let from = self.draw.pick(&INTEGERS);
                format!("({name}){}", self.expression(from, depth))
            }
            8 => {
                let from = self.draw.pick(&FLOATS);
                let to = match (from.bits, of.bits) {
                    (16, _) => scalar(of.kind, 16),
                    (_, 64) => of,
                    _ => scalar(of.kind, 32),
                };
                let (from_name, value) = (from.name(), self.expression(from, depth));
                match self.draw.below(3) {
                    0 if from.bits == 32 => format!("({name})f32_bf16({value})"),
                    1 => format!("({name})of_{from_name}({value})"),
                    _ => format!("({name}){from_name}_{}({value})", to.name()),
                }
            }
            9 => {
                let what = self.draw.pick(&["plus", "minus", "min", "max"]);
                format!("{what}_{name}({a}, {b})")
            }
            10 => format!("med_{name}({a}, {b}, {c})"),
            11 => format!("({name})(({wide})(({wide}){a} * ({wide}){b}) + ({wide}){c})"),
            12 => self.unary(of, depth),
            _ => {
                let which = self.draw.below(KNOWN);
                self.known(which, of, depth)
            }
        }
    }

    fn unary(&mut self, of: Type, depth: usize) -> String {
        let name = of.name();
        let [a] = self.some(of, depth);
        match self.draw.below(4) {
            0 => format!("({name})~{a}"),
            1 => format!("({name})-({}){a}", of.wide()),
            2 => format!("({name})!{a}"),
            _ => format!("({name})({})", self.condition(depth)),
        }
    }

    /// Returns an expression of an operation for which GPUs have an instruction. `which` is the number of the
    /// operation, below [`KNOWN`].
    pub(super) fn known(&mut self, which: usize, of: Type, depth: usize) -> String {
        let name = of.name();
        let [x, y] = self.some(scalar('u', 64), depth);
        let [p, q] = self.some(scalar('i', 64), depth);
        let [i, j, k] = self.some(scalar('i', 32), depth);
        let [a, b, c] = self.some(U32, depth);
        let clamp = self.draw.below(2);
        let text = match which {
            32 => format!("udot4_{clamp}({a}, {b}, {c})"),
            33 => format!("sdot4_{clamp}({a}, {b}, {i})"),
            34 => format!("udot8_{clamp}({a}, {b}, {c})"),
            35 => format!("sdot8_{clamp}({a}, {b}, {i})"),
            36 => format!("udot2_{clamp}({a}, {b}, {c})"),
            37 => format!("sdot2_{clamp}({a}, {b}, {i})"),
            38 => format!("lerp8({a}, {b}, {c})"),
            39 => format!("sad16({a}, {b}, {c})"),
            40 => format!("sad_high8({a}, {b}, {c})"),
            41 => format!("msad8({a}, {b}, {c})"),
            42 => format!("bits_u32({a}, {b}, {c})"),
            43 => format!("bits_i32({i}, {b}, {c})"),
            44 => format!("reverse64({x})"),
            45 => format!("sign_bits({i})"),
            46 => {
                let [f, g] = self.some(FLOATS[1], depth);
                format!("pack_to_zero({f}, {g})")
            }
            47 => {
                let [f] = self.some(FLOATS[1], depth);
                let mask = (self.draw.below(1024) & 0x3fc) | (3 * self.draw.below(2));
                match self.draw.below(2) {
                    0 => format!("class32({f}, {mask:#x})"),
                    _ => format!("exponent32({f})"),
                }
            }
            0 => format!("rotate32({a}, {b})"),
            1 => format!("rotate64({x}, {a})"),
            2 => format!("clz32({a})"),
            3 => format!("ctz32({a})"),
            4 => format!("clz64({x})"),
            5 => format!("ctz64({x})"),
            6 => format!("(count32({a}) + {b})"),
            7 => format!("count64({x})"),
            8 => format!("swap32({a})"),
            9 => format!("swap64({x})"),
            10 => format!("reverse32({a})"),
            11 => format!("high_u32({a}, {b})"),
            12 => format!("high_i32({i}, {j})"),
            13 => format!("high_u64({x}, {y})"),
            14 => format!("wide_u32({a}, {b}, {x})"),
            15 => format!("wide_i32({i}, {j}, {p})"),
            16 => format!("mad24({a}, {b}, {c})"),
            17 => format!("imad24({i}, {j}, {k})"),
            18 => format!("field_u32({a}, {b}, {c})"),
            19 => format!("field_i32({i}, {a})"),
            20 => format!("insert32({a}, {b}, {c})"),
            21 => format!("funnel32({a}, {b}, {c})"),
            22 => format!("sad32({a}, {b}, {c})"),
            23 => format!("psad8({a}, {b}, {c})"),
            24 => format!("dot_u8({a}, {b}, {c})"),
            25 => format!("dot_i8({a}, {b}, {i})"),
            26 => format!("perm32({a}, {b}, {c})"),
            27 => format!("byte_align({a}, {b}, {c})"),
            28 => format!("capped_plus({a}, {b})"),
            29 => format!("capped_plus16((u16){a}, (u16){b})"),
            30 => format!("floored_minus({a}, {b})"),
            _ => format!("((u64){p} * (u64){q})"),
        };
        format!("({name}){text}")
    }

    fn float(&mut self, of: Type, depth: usize) -> String {
        let (name, bits) = (of.name(), of.bits);
        let [a, b, c] = self.some(of, depth);
        match self.draw.below(16) {
            0..=4 => {
                let what = self.draw.pick(&["+", "-", "*", "+", "*", "/"]);
                format!("({name})({a} {what} {b})")
            }
            5 | 6 => {
                let sign = self.draw.pick(&["", "-"]);
                format!("fma{bits}({sign}{a}, {b}, {c})")
            }
            7 => {
                let what = self.draw.pick(&["sqrt", "floor", "ceil", "trunc", "rint", "abs"]);
                format!("{what}{bits}({a})")
            }
            8 => format!("({name})-{a}"),
            9 => {
                let what = self.draw.pick(&["min", "max"]);
                format!("{what}{bits}({a}, {b})")
            }
            10 => format!("{} ? {a} : {b}", self.condition(depth)),
            11 | 12 => {
                let from = self.draw.pick(&FLOATS);
                format!("({name}){}", self.expression(from, depth))
            }
            13 => {
                let from = self.draw.pick(&INTEGERS);
                let value = self.expression(from, depth);
                // The value is so small that a half float represents it exactly. Therefore the result does not depend
                // on how the compiler converts it.
                let small = if bits == 16 { " & 0x7ff" } else { "" };
                format!("({name})({value}{small})")
            }
            14 => match bits {
                32 => {
                    let [half, other] = self.some(FLOATS[0], depth);
                    format!("fma32((f32){half}, (f32){other}, {a})")
                }
                16 => {
                    let [half, other] = self.some(FLOATS[0], depth);
                    let [whole] = self.some(FLOATS[1], depth);
                    format!("(f16)fma32((f32){half}, (f32){other}, {whole})")
                }
                _ => format!("sign64({a}, {b})"),
            },
            _ => {
                let [n] = self.some(scalar('i', 32), depth);
                let [word] = self.some(U32, depth);
                match (bits, self.draw.below(3)) {
                    (16, _) => format!("as_f16((u16){word})"),
                    (32, 0) => format!("bf16_f32((u16){word})"),
                    (32, 1) => match self.draw.below(4) {
                        0 => format!("sign32({a}, {b})"),
                        1 => format!("med32({a}, {b}, {c})"),
                        2 => format!("fract32({a})"),
                        _ => format!("mantissa32({a})"),
                    },
                    (_, _) => format!("ldexp{bits}({a}, {n})"),
                }
            }
        }
    }

    fn vector(&mut self, of: Type, depth: usize) -> String {
        let (name, element) = (of.name(), of.element());
        let [a, b] = self.some(of, depth);
        let splat = |value: &str| {
            let all = vec![value; of.lanes].join(", ");
            format!("({name}){{{all}}}")
        };
        match self.draw.below(14) {
            10.. if of.is_float() && of.bits < 64 => {
                let [c] = self.some(of, depth);
                match self.draw.below(4) {
                    0 => format!("vmin_{name}({a}, {b})"),
                    1 => format!("vmax_{name}({a}, {b})"),
                    2 => format!("vfma_{name}({a}, -{b}, {c})"),
                    _ => format!("vfma_{name}({a}, {b}, {c})"),
                }
            }
            10.. if !of.is_float() && of.bits < 64 => {
                let what = self.draw.pick(&["vmin", "vmax", "vplus", "vminus"]);
                format!("{what}_{name}({a}, {b})")
            }
            0..=3 => {
                let what: &[&str] = if of.is_float() {
                    &["+", "-", "*", "/", "+", "*"]
                } else {
                    &["+", "-", "*", "&", "|", "^"]
                };
                format!("{a} {} {b}", self.draw.pick(what))
            }
            4 => {
                let lanes: Vec<_> = (0..of.lanes).map(|_| self.draw.below(of.lanes)).collect();
                let from = self.leaf(of);
                let each: Vec<_> = lanes.iter().map(|lane| format!("{from}[{lane}]")).collect();
                format!("({name}){{{}}}", each.join(", "))
            }
            5 => {
                let each: Vec<_> = (0..of.lanes).map(|_| self.expression(element, depth)).collect();
                format!("({name}){{{}}}", each.join(", "))
            }
            6 if !of.is_float() => {
                let most = splat(&format!("({})({})", element.name(), of.bits - 1));
                let what = self.draw.pick(&["<<", ">>"]);
                // The left shift of a signed vector is undefined in C.
                let what = if of.kind == 'i' { ">>" } else { what };
                format!("{a} {what} ({b} & {most})")
            }
            7 if !of.is_float() => {
                let what = self.draw.pick(&["<", ">", "==", "<="]);
                let mask = format!("({name})({a} {what} {b})");
                format!("({mask} & {a}) | (~{mask} & {b})")
            }
            8 if of.is_float() => format!("-{a}"),
            8 => format!("~{a}"),
            _ => {
                let [value] = self.some(element, depth);
                format!("{a} + {}", splat(&value))
            }
        }
    }
}
