//! Generates random kernels in the common subset of C and HIP.
//!
//! A kernel is a sequence of phases with barriers between them. Each work-item has a state. In a phase, a work-item
//! writes only its own state, its own part of the LDS, and shared words. It accesses shared words only with atomics,
//! all of the same kind. It reads values of other work-items only if they were written in earlier phases. Therefore the
//! host can execute a phase for one work-item after another.

use std::{fmt::Write, ops::Range};

/// Number of work-items per workgroup: one wave of 64 lanes, or two of 32.
pub(crate) const ITEMS: usize = 64;
pub(crate) const GROUPS: usize = 2;
/// Number of input words of a work-item (`INPUTS`), and number of words in global memory that all work-items of a
/// workgroup share (`SHARED`).
pub(crate) const INPUTS: usize = 16;
pub(crate) const SHARED: usize = 32;

/// Number of words in global memory that belong to one work-item (`OWN`), and number of all words in global memory of a
/// workgroup, including the shared ones (`ALL`).
pub(crate) const OWN: usize = 4;
pub(crate) const ALL: usize = SHARED + OWN * ITEMS;

/// Generator of pseudo-random numbers (splitmix64). The field is the seed.
pub(crate) struct Draw(pub(crate) u64);

impl Draw {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = self.0;
        x = (x ^ x >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ x >> 31
    }

    pub(crate) fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }

    fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    fn pick<T: Copy>(&mut self, list: &[T]) -> T {
        list[self.below(list.len())]
    }

    /// Draws an input word: random bits, a small number, a float, a pair of half floats, or the end of a range.
    pub(crate) fn word(&mut self) -> u32 {
        let any = self.next() as u32;
        match self.below(6) {
            0 => any,
            1 => any % 64,
            2 => (any % 4096) as i32 as f32 as u32,
            3 => ((any % 2001) as f32 / 16.0 - 60.0).to_bits(),
            4 => (0x3800_3800 + (any & 0x0fff_0fff)) ^ (any & 0x8000_8000),
            _ => self.pick(&[
                0,
                1,
                u32::MAX,
                1 << 31,
                i32::MAX as u32,
                0x7f80_0000,
                0x7fc0_0000,
                3,
                0xffff,
                0x8000_7fff,
            ]),
        }
    }
}

/// Type of a value: its kind (`u`, `i` or `f` for unsigned, signed or float), the number of bits per element, and the
/// number of elements.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Type {
    kind: char,
    bits: u32,
    lanes: usize,
}

const fn scalar(kind: char, bits: u32) -> Type {
    Type { kind, bits, lanes: 1 }
}

const fn vector(kind: char, bits: u32, lanes: usize) -> Type {
    Type { kind, bits, lanes }
}

const U32: Type = scalar('u', 32);

const INTEGERS: [Type; 8] = [
    scalar('u', 8),
    scalar('i', 8),
    scalar('u', 16),
    scalar('i', 16),
    U32,
    scalar('i', 32),
    scalar('u', 64),
    scalar('i', 64),
];
const FLOATS: [Type; 3] = [scalar('f', 16), scalar('f', 32), scalar('f', 64)];
const VECTORS: [Type; 13] = [
    vector('u', 8, 4),
    vector('u', 16, 2),
    vector('i', 16, 2),
    vector('u', 16, 4),
    vector('u', 32, 2),
    vector('i', 32, 2),
    vector('u', 32, 4),
    vector('u', 64, 2),
    vector('f', 16, 2),
    vector('f', 16, 4),
    vector('f', 32, 2),
    vector('f', 32, 4),
    vector('f', 64, 2),
];

impl Type {
    fn element(self) -> Type {
        Type { lanes: 1, ..self }
    }

    fn name(self) -> String {
        match self.lanes {
            1 => format!("{}{}", self.kind, self.bits),
            lanes => format!("{}{}x{lanes}", self.kind, self.bits),
        }
    }

    fn is_float(self) -> bool {
        self.kind == 'f'
    }

    /// Returns the type in which C code must compute the operation. In a narrower unsigned type, the integer promotion
    /// of C would change the operands to signed ones.
    fn wide(self) -> &'static str {
        if self.bits == 64 { "u64" } else { "u32" }
    }
}

#[derive(Clone)]
struct Variable {
    of: Type,
    name: String,
}

#[derive(Clone)]
pub(crate) enum Statement {
    Line(String),
    Block(String, Vec<Statement>),
}

impl Statement {
    fn print(&self, indent: usize, out: &mut String) {
        match self {
            Statement::Line(text) => {
                let _ = writeln!(out, "{:indent$}{text}", "");
            }
            Statement::Block(head, body) => {
                let _ = writeln!(out, "{:indent$}{head} {{", "");
                body.iter().for_each(|statement| statement.print(indent + 2, out));
                let _ = writeln!(out, "{:indent$}}}", "");
            }
        }
    }
}

fn count(list: &[Statement]) -> usize {
    let of = |statement: &Statement| match statement {
        Statement::Line(_) => 1,
        Statement::Block(_, body) => 1 + count(body),
    };
    list.iter().map(of).sum()
}

/// Removes the statement with index `number`, where nested statements count too, and returns `None`. If the index is
/// past the end of the list, returns the index that remains for the next list: `number` minus the number of statements
/// in this list.
fn remove(list: &mut Vec<Statement>, mut number: usize) -> Option<usize> {
    for index in 0..list.len() {
        if number == 0 {
            list.remove(index);
            return None;
        }
        number -= 1;
        if let Statement::Block(_, body) = &mut list[index] {
            number = remove(body, number)?;
        }
    }
    Some(number)
}

/// Replaces the subexpression with index `number` by `1` and returns `None`. If the index is past the end of the list,
/// returns the index that remains for the next list: `number` minus the number of subexpressions in this list.
fn simplify(list: &mut [Statement], mut number: usize) -> Option<usize> {
    for statement in list {
        let (Statement::Line(text) | Statement::Block(text, _)) = statement;
        let parts = parts(text);
        if let Some(part) = parts.get(number) {
            text.replace_range(part.clone(), "1");
            return None;
        }
        number -= parts.len();
        if let Statement::Block(_, body) = statement {
            number = simplify(body, number)?;
        }
    }
    Some(number)
}

/// Returns the ranges of the subexpressions of a text, that is, of its texts in parentheses, the largest range first.
/// Parentheses that belong to calls and casts are omitted.
fn parts(text: &str) -> Vec<Range<usize>> {
    let (mut open, mut found) = (Vec::new(), Vec::new());
    for (at, c) in text.char_indices() {
        match c {
            '(' => open.push(at),
            ')' => found.extend(open.pop().map(|start: usize| start + 1..at)),
            _ => {}
        }
    }
    let is_expression = |part: &Range<usize>| {
        let called =
            text[..part.start - 1].ends_with(|c: char| c.is_ascii_alphanumeric() || c == '_');
        !called && text[part.clone()].contains(|c: char| !c.is_ascii_alphanumeric())
    };
    found.retain(is_expression);
    found.sort_by_key(|part| std::cmp::Reverse(part.len()));
    found
}

/// The part of a kernel between two barriers: statements, followed by cross-lane operations.
#[derive(Clone)]
struct Phase {
    body: Vec<Statement>,
    /// True if the statements are in a separate function that is not inlined.
    called: bool,
    across: Vec<Across>,
}

/// Size of a kernel. Most kernels are small: compilers take most of the time, and many small kernels find more errors
/// than a few large ones.
#[derive(Clone, Copy)]
struct Size {
    phases: usize,
    /// Approximate number of statements in a phase.
    statements: usize,
    /// Maximum nesting depth of expressions.
    depth: usize,
    /// Maximum number of cross-lane operations after each phase.
    across: usize,
}

const SMALL: Size = Size { phases: 1, statements: 4, depth: 2, across: 1 };
const MEDIUM: Size = Size { phases: 2, statements: 4, depth: 3, across: 2 };
const LARGE: Size = Size { phases: 3, statements: 12, depth: 3, across: 3 };

#[derive(Clone)]
struct Across {
    to: String,
    from: String,
    /// Expression of a cross-lane operation for the GPU. In it, `@` is a placeholder for the value that is moved, `$`
    /// for the old value of the target, and `t` for the number of the work-item.
    gpu: String,
    /// C expression that computes the same value on the host. In it, the array `seen` contains the moved values of all
    /// work-items.
    host: String,
}

#[derive(Clone)]
pub(crate) struct Kernel {
    pub(crate) name: String,
    variables: Vec<Variable>,
    phases: Vec<Phase>,
}

impl Kernel {
    pub(crate) fn draw(name: String, seed: u64) -> Kernel {
        let mut draw = Draw(seed);
        let mut variables = Vec::new();
        for of in INTEGERS.into_iter().chain(FLOATS).chain(VECTORS) {
            let number = match of {
                // Only variables of this type are moved between lanes and used as indices.
                U32 => 3,
                _ if of.lanes > 1 => 2 * usize::from(draw.one_in(3)),
                _ => draw.below(3),
            };
            let name = |index| format!("s->{}_{index}", of.name());
            variables.extend((0..number).map(|index| Variable { of, name: name(index) }));
        }
        let size = match draw.below(32) {
            0 => LARGE,
            1..=4 => MEDIUM,
            _ => SMALL,
        };
        let mut writer =
            Writer { draw, variables, size, phase: 0, left: 0, atomic: "", uniform: false };
        let number = 1 + writer.draw.below(size.phases);
        let phases = (0..number).map(|phase| writer.phase(phase, seed)).collect();
        Kernel { name, variables: writer.variables, phases }
    }

    fn body(&self) -> String {
        let mut all = String::new();
        for phase in &self.phases {
            phase.body.iter().for_each(|statement| statement.print(0, &mut all));
            for Across { to, from, gpu, .. } in &phase.across {
                let _ = writeln!(all, "{to} = {from} {gpu};");
            }
        }
        all
    }

    /// Returns the variables that the kernel uses. The other variables are not declared in the source code.
    fn used(&self) -> Vec<&Variable> {
        let body = self.body();
        self.variables.iter().filter(|v| body.contains(&v.name)).collect()
    }

    fn changed(&self) -> Vec<&Variable> {
        let body = self.body();
        let changes = |v: &&Variable| {
            body.lines().any(|line| {
                let rest = line.trim_start().strip_prefix(v.name.as_str());
                rest.is_some_and(|rest| rest.starts_with([' ', '[']))
            })
        };
        self.variables.iter().filter(changes).collect()
    }

    /// Returns three flags: true if the kernel uses its array, its own part of the LDS, and shared words in the LDS, in
    /// this order.
    fn has(&self) -> [bool; 3] {
        let body = self.body();
        ["s->array", "own", "both"].map(|name| body.contains(name))
    }

    pub(crate) fn statements(&self) -> usize {
        self.phases.iter().map(|phase| count(&phase.body) + phase.across.len()).sum()
    }

    /// Returns a copy of the kernel without the statement with index `number`. Cross-lane operations count as
    /// statements.
    pub(crate) fn without(&self, mut number: usize) -> Kernel {
        let mut less = self.clone();
        for phase in &mut less.phases {
            let Some(rest) = remove(&mut phase.body, number) else { break };
            number = rest;
            if number < phase.across.len() {
                phase.across.remove(number);
                break;
            }
            number -= phase.across.len();
        }
        less
    }

    /// Returns a copy of the kernel in which the subexpression with index `number` is replaced by `1`; `None` if the
    /// kernel has fewer subexpressions.
    pub(crate) fn simpler(&self, mut number: usize) -> Option<Kernel> {
        let mut simpler = self.clone();
        for phase in &mut simpler.phases {
            match simplify(&mut phase.body, number) {
                Some(rest) => number = rest,
                None => return Some(simpler),
            }
        }
        None
    }

    /// Returns the names of the words that each work-item outputs.
    pub(crate) fn outputs(&self) -> Vec<String> {
        let words = |v: &Variable| {
            let each = v.of.bits.div_ceil(32) as usize * v.of.lanes;
            (0..each).map(|word| format!("{} word {word}", &v.name[3..])).collect::<Vec<_>>()
        };
        let [array, own, both] = self.has();
        let rest = [("array", 8 * usize::from(array)), ("LDS", 4 * usize::from(own))];
        let rest = rest.into_iter().chain([("LDS of all", usize::from(both))]);
        let rest = rest.flat_map(|(what, n)| (0..n).map(move |at| format!("{what} word {at}")));
        self.changed().into_iter().flat_map(words).chain(rest).collect()
    }

    /// Returns the source code for the GPU or for the host. Most of it is the same for both.
    pub(crate) fn text(&self, for_gpu: bool) -> String {
        let (name, mut out) = (&self.name, String::new());
        let [array, own, both] = self.has();
        let _ = writeln!(out, "struct {name}_state {{");
        for Variable { of, name } in self.used() {
            let _ = writeln!(out, "  {} {};", of.name(), &name[3..]);
        }
        if array {
            let _ = writeln!(out, "  u32 array[8];");
        }
        let _ = writeln!(out, "  u32 none;\n}};");
        let _ = writeln!(out, "DEV void {name}_begin(struct {name}_state *s, const u32 *in) {{");
        let mut at = 0;
        for v in self.used() {
            for place in places(v) {
                let word = |k: usize| format!("in[{}]", (at + k) % INPUTS);
                let value = match (v.of.kind, v.of.bits) {
                    ('f', 16) => format!("as_f16((u16){})", word(0)),
                    ('f', 32) => format!("as_f32({})", word(0)),
                    ('f', _) => format!("(f64)as_f32({})", word(0)),
                    (_, 64) => format!("(u64){} << 32 | {}", word(1), word(0)),
                    _ => word(0),
                };
                let _ = writeln!(out, "  {place} = ({})({value});", v.of.element().name());
                at += 1 + at % 2;
            }
        }
        if array {
            let _ = writeln!(out, "  for (u32 i = 0; i < 8; i++) s->array[i] = in[i + 4] ^ i;");
        }
        let _ = writeln!(
            out,
            "}}\nDEV void {name}_end(struct {name}_state *s, u32 *out, const u32 *own, const u32 *both, u32 t) {{
  u32 at = 0;"
        );
        for v in self.changed() {
            for place in places(v) {
                let _ = match (v.of.kind, v.of.bits) {
                    ('f', 64) => writeln!(
                        out,
                        "  out[at++] = (u32)of_f64({place}); out[at++] = (u32)(of_f64({place}) >> 32);"
                    ),
                    ('f', bits) => writeln!(out, "  out[at++] = of_f{bits}({place});"),
                    (_, 64) => writeln!(
                        out,
                        "  out[at++] = (u32){place}; out[at++] = (u32)((u64){place} >> 32);"
                    ),
                    _ => writeln!(out, "  out[at++] = (u32){place};"),
                };
            }
        }
        if array {
            let _ = writeln!(out, "  for (u32 i = 0; i < 8; i++) out[at++] = s->array[i];");
        }
        if own {
            let _ = writeln!(out, "  for (u32 i = 0; i < 4; i++) out[at++] = own[t * 4 + i];");
        }
        if both {
            let _ = writeln!(out, "  out[at++] = both[t & {}];", SHARED - 1);
        }
        let _ = writeln!(out, "}}");
        for (number, phase) in self.phases.iter().enumerate() {
            let how = if phase.called { "CALLED" } else { "DEV" };
            let _ = writeln!(
                out,
                "{how} void {name}_{number}(struct {name}_state *s, {PARAMETERS}) {{"
            );
            phase.body.iter().for_each(|statement| statement.print(2, &mut out));
            let _ = writeln!(out, "}}");
        }
        if for_gpu {
            self.gpu(&mut out)
        } else {
            self.host(&mut out)
        }
        out
    }

    /// Returns the arguments for the function of phase number `number`: the part of the LDS to write, the part to read,
    /// the shared words, the words in global memory, and the inputs that are the same for all work-items.
    fn arguments(number: usize, group: &str) -> String {
        let [own, other] = halves(number);
        format!(
            "lds + {own}, lds + {other}, lds + {BOTH}, all + {group} * {ALL}, \
             all + {group} * {ALL} + {SHARED} + t * {OWN}, in + {group} * {}, t",
            ITEMS * INPUTS
        )
    }

    fn gpu(&self, out: &mut String) {
        let (name, words, last) =
            (&self.name, self.outputs().len(), halves(self.phases.len() + 1)[0]);
        let _ = writeln!(
            out,
            "extern \"C\" __global__ void __launch_bounds__({ITEMS}) {name}(const u32 *__restrict__ in, u32 *out, u32 *all) {{
  __shared__ __attribute__((aligned(16))) u32 lds[{LDS}];
  u32 t = threadIdx.x, item = blockIdx.x * {ITEMS} + t;
  struct {name}_state state, *s = &state;"
        );
        if self.uses_lds() {
            let _ = writeln!(out, "  for (u32 i = t; i < {LDS}; i += {ITEMS}) lds[i] = 0;");
        }
        let _ = writeln!(out, "  {name}_begin(s, in + item * {INPUTS});\n  __syncthreads();");
        for (number, phase) in self.phases.iter().enumerate() {
            let arguments = Self::arguments(number, "blockIdx.x");
            let _ = writeln!(out, "  {name}_{number}(s, {arguments});\n  __syncthreads();");
            for Across { to, from, gpu, .. } in &phase.across {
                let text = gpu.replace('@', from).replace('$', to);
                let _ = writeln!(out, "  {to} = {text};");
            }
        }
        let _ = writeln!(
            out,
            "  {name}_end(s, out + item * {words}, lds + {last}, lds + {BOTH}, t);\n}}"
        );
    }

    fn uses_lds(&self) -> bool {
        let body = self.body();
        ["own", "other", "both"].iter().any(|name| body.contains(name))
    }

    fn host(&self, out: &mut String) {
        let (name, words, last) =
            (&self.name, self.outputs().len(), halves(self.phases.len() + 1)[0]);
        let _ = writeln!(
            out,
            "void {name}(const u32 *in, u32 *out, u32 *all) {{
  for (u32 group = 0; group < {GROUPS}; group++) {{
    __attribute__((aligned(16))) u32 lds[{LDS}] = {{0}};
    struct {name}_state states[{ITEMS}];
    u32 seen[{ITEMS}], t;
    for (t = 0; t < {ITEMS}; t++) {name}_begin(states + t, in + (group * {ITEMS} + t) * {INPUTS});"
        );
        for (number, phase) in self.phases.iter().enumerate() {
            let arguments = Self::arguments(number, "group");
            let _ = writeln!(
                out,
                "    for (t = 0; t < {ITEMS}; t++) {name}_{number}(states + t, {arguments});"
            );
            for Across { to, from, host, .. } in &phase.across {
                let _ = writeln!(
                    out,
                    "    for (t = 0; t < {ITEMS}; t++) {{ struct {name}_state *s = states + t; seen[t] = {from}; }}
    for (t = 0; t < {ITEMS}; t++) {{
      struct {name}_state *s = states + t;
      {to} = {host};
    }}"
                );
            }
        }
        let _ = writeln!(
            out,
            "    for (t = 0; t < {ITEMS}; t++) {{
      {name}_end(states + t, out + (group * {ITEMS} + t) * {words}, lds + {last}, lds + {BOTH}, t);
    }}
  }}
}}"
        );
    }
}

/// Returns the C expression for a variable, or for each element of a vector variable.
fn places(v: &Variable) -> Vec<String> {
    match v.of.lanes {
        1 => vec![v.name.clone()],
        lanes => (0..lanes).map(|lane| format!("{}[{lane}]", v.name)).collect(),
    }
}

const PARAMETERS: &str =
    "u32 *own, const u32 *other, u32 *both, u32 *all, u32 *far, const u32 *uni, u32 t";

/// Number of words in the LDS: two parts, each of which has four words for each work-item, and the shared words.
const LDS: usize = BOTH + SHARED;
const BOTH: usize = 2 * 4 * ITEMS;

/// Returns the offset of the LDS part that a phase writes, and the offset of the part that the preceding phase wrote.
fn halves(phase: usize) -> [usize; 2] {
    if phase.is_multiple_of(2) { [0, 4 * ITEMS] } else { [4 * ITEMS, 0] }
}

mod basics;
mod expression;
mod writer;

use writer::Writer;
